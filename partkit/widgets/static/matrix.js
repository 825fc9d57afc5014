// One place where a matrix of messages is shown: cells and totals on one canvas, what is pointed at on another above it.
const LEFT = 78, TOP = 48, BOTTOM = 62, LEGEND = 40, BAR = 22, MAX_ROWS = 200, MAX_TABLE = 24, MAX_PHASES = 100;
const FONT = "13px system-ui, sans-serif", BOLD = `600 ${FONT}`;

class View {
  // `seen` is called once the element is on a page: before, it has neither size nor style.
  constructor(store, model, el, seen) {
    Object.assign(this, { store, model, seen, hover: -1, kept: -1, frame: 0, frames: 0, cost: 0 });
    furnish(this, el, "partkit-matrix");
    this.listen();
  }

  get meta() { return this.model.get("meta"); }

  listen() {
    follow(this, () => this.colors, () => this.schedule());
    this.switched = () => this.schedule();
    for (const name of ["unit", "phase", "log"]) this.model.on(`change:${name}`, this.switched);
    for (const name of ["keydown", "pointerdown", "pointermove", "pointerleave"]) this.over[`on${name}`] = (e) => this[name](e);
    this.phases.onchange = () => this.set("phase", this.phases.value);
    this.phases.onkeydown = (e) => e.stopPropagation();
  }

  dispose() { vanish(this, ["unit", "phase", "log"], this.switched); }

  restyle() {
    const { color, backgroundColor } = getComputedStyle(this.root), [r, g, b] = backgroundColor.match(/[\d.]+/g) ?? [], look = this.model.get("look");
    if (!color) return;
    const theme = 0.3 * r + 0.6 * g + 0.1 * b < 128 ? "dark" : "light";
    Object.assign(this, { ink: color, paper: backgroundColor, colors: look[theme], inks: look[`${theme}_ink`] });
    this.root.dataset.theme = theme;
    this.title.textContent = this.meta.title;
    this.schedule();
  }

  // At the next frame; while a run goes on, a large matrix takes at most a quarter of the time.
  schedule() {
    if (this.frame || !this.colors) return;
    const rest = this.meta.live && this.cost > 8 ? 3 * this.cost : 0;
    this.frame = rest ? -setTimeout(() => this.tick(), rest) : requestAnimationFrame(() => this.tick());
  }

  tick() {
    const begin = performance.now(), { store, model } = this;
    this.frame = 0;
    if (this.run !== store.run) Object.assign(this, { run: store.run, hover: -1, kept: -1 });
    this.choices();
    this.matrix = store.matrix(model.get("phase")).look(model.get("unit"));
    this.resize();
    this.background();
    this.cells();
    this.totals();
    this.scale();
    this.overlay();
    this.say();
    if (!this.table.hidden) this.fill();
    Object.assign(this.over.dataset, { painted: store.n, frames: ++this.frames });
    this.cost = performance.now() - begin;
  }

  choices() {
    const { store } = this, phase = this.model.get("phase"), shape = JSON.stringify([store.run, store.shape, phase]);
    if (this.shape === shape) return;
    this.shape = shape;
    this.phases.replaceChildren();
    const option = (parent, label) => { make("option", parent, label || "everything").value = label; };
    option(this.phases, "");
    for (const [name, labels] of store.phases()) {
      const group = make("optgroup", this.phases);
      group.label = labels.length > MAX_PHASES ? `${name} (first ${MAX_PHASES} of ${labels.length})` : name;
      for (const label of labels.slice(0, MAX_PHASES)) option(group, label);
    }
    if (![...this.phases.options].some(({ value }) => value === phase)) option(this.phases, phase);
    this.phases.value = phase;
  }

  // Wide cells with room for a number if there are few; square ones if there are many. As in partkit/figures/comm_matrix_picture.py.
  resize() {
    const { size } = this.matrix, dpr = devicePixelRatio || 1, width = (this.width = max(240, this.stage.clientWidth)), right = (this.right = width < 480 ? 74 : 140);
    const room = width - LEFT - right, most = this.meta.height ? max(60, this.meta.height - TOP - BOTTOM - LEGEND) : max(520, 1.25 * size);
    this.tall = min(48 * size, most, max(room, 120));
    this.wide = min(room, size <= 16 ? max(this.tall, min(96 * size, 640)) : this.tall);
    this.height = TOP + this.tall + BOTTOM + LEGEND;
    this.stage.style.height = `${this.height}px`;
    for (const canvas of [this.main, this.over]) {
      const [w, h] = [round(width * dpr), round(this.height * dpr)];
      if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
      canvas.getContext("2d").setTransform(dpr, 0, 0, dpr, 0, 0);
    }
  }

  box(i) {
    const { size } = this.matrix, [w, h] = [this.wide / size, this.tall / size];
    return [LEFT + (i % size) * w, TOP + floor(i / size) * h, w, h];
  }

  name(row) { const { store } = this; return store.rank(row).replace(/^ranks? /, ""); }

  background() {
    const c = (this.c = this.main.getContext("2d")), { size } = this.matrix, w = this.wide / size, h = this.tall / size;
    Object.assign(c, { fillStyle: this.paper, textBaseline: "middle", font: FONT });
    c.fillRect(0, 0, this.width, this.height);
    c.fillStyle = this.ink;
    c.globalAlpha = 0.07;
    c.fillRect(LEFT, TOP, this.wide, this.tall);
    for (let k = 0; k < size; k++) c.fillRect(LEFT + k * w, TOP + k * h, max(1, w), max(1, h));
    c.globalAlpha = 1;
    const every = (least) => { let step = 1; while (step < min(least, size)) step *= 2; return step; }, widest = c.measureText(this.name(size - 1)).width;
    c.textAlign = "center";
    for (let k = 0, step = every((widest + 9) / w); k < size; k += step) c.fillText(this.name(k), LEFT + (k + 0.5) * w, TOP - 12);
    c.textAlign = "right";
    for (let k = 0, step = every(17 / h); k < size; k += step) c.fillText(this.name(k), LEFT - 8, TOP + (k + 0.5) * h);
    c.font = BOLD;
    c.textAlign = "center";
    c.fillText("to rank", LEFT + this.wide / 2, 12);
    c.save();
    c.translate(12, TOP + this.tall / 2);
    c.rotate(-Math.PI / 2);
    c.fillText("from rank", 0, 0);
    c.restore();
    c.font = FONT;
    if (!this.matrix.used.length) c.fillText(this.meta.live ? "no messages yet" : "no messages", LEFT + this.wide / 2, TOP + this.tall / 2);
  }

  // The cells of a colour together, from little to much: where several share a pixel, the most is seen.
  cells() {
    const { c, matrix, colors } = this, log = this.model.get("log"), by = colors.map(() => []), [, , w, h] = this.box(0), gap = min(w, h) > 6 ? 1 : 0, fine = min(w, h) < 4; // whole pixels keep their colour
    for (const i of matrix.used) by[matrix.level(i, colors.length, log)].push(i);
    by.forEach((cells, level) => {
      c.fillStyle = colors[level];
      for (const i of cells) { const [x, y] = this.box(i); if (fine) c.fillRect(floor(x), floor(y), ceil(w), ceil(h)); else c.fillRect(x, y, w - gap, h - gap); }
    });
    if (w < 24 || h < 13) return;
    const text = (i) => amount(matrix.value[i], matrix.kind), size = min(13, h - 4, (13 * (w - 6)) / max(1, ...matrix.used.map((i) => c.measureText(text(i)).width)));
    if (size < 9) return;
    Object.assign(c, { font: FONT.replace("13", size.toFixed(1)), textAlign: "center" });
    by.forEach((cells, level) => {
      c.fillStyle = this.inks[level];
      for (const i of cells) { const [x, y] = this.box(i); c.fillText(text(i), x + w / 2, y + h / 2 + 1); }
    });
  }

  // What each rank sends, right of its row, and receives, below its column.
  totals() {
    const { c, matrix, wide, tall, right } = this, [, , w, h] = this.box(0), x = LEFT + wide + 10, y = TOP + tall + 8, long = right < 100 ? 0 : 56;
    if (!matrix.used.length) return;
    const most = max(...matrix.sent, ...matrix.received), thick = min(0.9 * h, BAR), broad = min(0.9 * w, 2 * BAR), words = (v) => amount(v, matrix.kind);
    Object.assign(c, { font: FONT, fillStyle: this.ink, globalAlpha: 0.5 });
    matrix.sent.forEach((v, k) => c.fillRect(x, TOP + (k + 0.5) * h - thick / 2, ((long || right - 20) * v) / most * (long || h < 14 ? 1 : 0), thick));
    matrix.received.forEach((v, k) => c.fillRect(LEFT + (k + 0.5) * w - broad / 2, y, broad, (26 * v) / most));
    Object.assign(c, { globalAlpha: 1, textAlign: "left" });
    if (h >= 14) matrix.sent.forEach((v, k) => c.fillText(words(v), x + (long * v) / most + (long ? 6 : 0), TOP + (k + 0.5) * h));
    c.textAlign = "center";
    if (w >= 4 + max(...[...matrix.received].map((v) => c.measureText(words(v)).width))) matrix.received.forEach((v, k) => c.fillText(words(v), LEFT + (k + 0.5) * w, y + (26 * v) / most + 11));
    c.font = BOLD;
    c.textAlign = "left";
    c.fillText("sent", x, TOP - 12);
    c.textAlign = "right";
    c.fillText("received", LEFT - 8, y + 10);
  }

  // What the colours mean.
  scale() {
    const { c, matrix, colors } = this, y = TOP + this.tall + BOTTOM, wide = max(120, min(240, this.wide)), log = this.model.get("log"), step = wide / colors.length;
    if (!matrix.used.length) return;
    colors.forEach((color, k) => { c.fillStyle = color; c.fillRect(LEFT + k * step, y, step + 0.5, 12); });
    Object.assign(c, { fillStyle: this.ink, font: FONT, textAlign: "left" });
    c.fillText(amount(log ? matrix.low : 0, matrix.kind), LEFT, y + 24);
    c.textAlign = "right";
    c.fillText(amount(matrix.high, matrix.kind) + (log ? ", log" : ""), LEFT + wide, y + 24);
  }

  overlay() {
    const c = this.over.getContext("2d");
    c.clearRect(0, 0, this.width, this.height);
    for (const i of new Set([this.kept, this.hover])) {
      if (i < 0 || i >= this.matrix.value.length) continue;
      const [x, y, w, h] = this.box(i);
      Object.assign(c, { fillStyle: this.ink, globalAlpha: 0.13 });
      c.fillRect(LEFT, y, this.wide, max(1, h));
      c.fillRect(x, TOP, max(1, w), this.tall);
      c.clearRect(x, y, w, h);
      Object.assign(c, { globalAlpha: 1, strokeStyle: this.ink, lineWidth: 2 });
      c.strokeRect(x - 1.5, y - 1.5, max(4, w) + 2, max(4, h) + 2);
    }
  }

  tell(i) {
    const { matrix, store } = this, { size } = matrix, [src, dst] = [floor(i / size), i % size], share = (all) => `${three((100 * matrix.value[i]) / all)} %`;
    const line = `${store.rank(src)} to ${store.rank(dst)}: ${words(matrix.messages[i], "message")}, ${words(matrix.bytes[i], "byte")}`;
    return matrix.value[i] ? [line, `${share(matrix.sent[src])} of what ${store.rank(src)} sends, ${share(matrix.received[dst])} of what ${store.rank(dst)} receives`] : [line];
  }

  say() {
    const { store, matrix, kept, meta: m } = this, chosen = kept < 0 ? "" : dots(...this.tell(kept)), sum = (column) => column.reduce((a, b) => a + b, 0), phase = this.model.get("phase");
    const pairs = `${matrix.used.length.toLocaleString("en-US")} of ${words(matrix.size * (matrix.size - 1) || 1, "pair")} used`;
    const text = dots(phase || "everything", `${words(sum(matrix.bytes), "byte")} in ${words(sum(matrix.messages), "message")}`, words(store.size, "rank"), pairs, m.live ? "running" : "finished", m.note);
    if (this.info.textContent !== chosen) this.info.textContent = chosen;
    this.status.textContent = text;
    this.over.ariaLabel = `Matrix of ${matrix.kind} sent. ${text}. ${chosen || "Keys: ?"}`;
    const on = { b: matrix.kind === "bytes", m: matrix.kind === "messages", l: this.model.get("log"), t: !this.table.hidden, "?": !this.help.hidden };
    for (const [key, pressed] of Object.entries(on)) this.root.querySelector(`button[value="${key}"]`).ariaPressed = pressed;
  }

  // -- moving about ---------------------------------------------------------------------------------------------

  set(name, value) { this.model.set(name, value); this.model.save_changes(); this.schedule(); }

  keep(i) { this.kept = i; this.overlay(); this.say(); }

  // The neighbour, or the next cell that is not empty.
  move(rows, columns, far) {
    const { size, value } = this.matrix, at = (x, way) => max(0, min(size - 1, x + way));
    if (this.kept < 0) { this.keep(0); return; }
    let [row, column] = [floor(this.kept / size), this.kept % size];
    do { row = at(row, rows); column = at(column, columns); } while (far && !value[row * size + column] && row + rows >= 0 && row + rows < size && column + columns >= 0 && column + columns < size);
    this.keep(row * size + column);
  }

  extreme(way) { const { used, value } = this.matrix; if (used.length) this.keep(used.reduce((a, b) => ((value[b] - value[a]) * way > 0 ? b : a))); }

  turn(way) {
    const labels = [...this.phases.options].map(({ value }) => value), n = labels.length;
    this.set("phase", labels[(labels.indexOf(this.model.get("phase")) + way + n) % n]);
  }

  act(key, far) {
    const acts = {
      ArrowLeft: () => this.move(0, -1, far), ArrowRight: () => this.move(0, 1, far), ArrowUp: () => this.move(-1, 0, far), ArrowDown: () => this.move(1, 0, far), Home: () => this.extreme(1), End: () => this.extreme(-1),
      b: () => this.set("unit", "bytes"), m: () => this.set("unit", "messages"), l: () => this.set("log", !this.model.get("log")), "[": () => this.turn(-1), "]": () => this.turn(1),
      t: () => { this.table.hidden = !this.table.hidden; this.schedule(); }, "?": () => { this.help.hidden = !this.help.hidden; this.schedule(); }, Escape: () => (this.help.hidden ? this.keep(-1) : this.act("?")),
    };
    return acts[key] && (acts[key](), true);
  }

  keydown(e) { if (!e.ctrlKey && !e.metaKey && !e.altKey && this.act(e.key, e.shiftKey)) { e.preventDefault(); e.stopPropagation(); } }

  pick({ offsetX, offsetY }) {
    const { size } = this.matrix, row = floor(((offsetY - TOP) * size) / this.tall), column = floor(((offsetX - LEFT) * size) / this.wide);
    return row >= 0 && row < size && column >= 0 && column < size ? row * size + column : -1;
  }

  pointermove(e) { this.point(this.pick(e), e); }
  pointerleave() { this.point(-1); }
  pointerdown(e) { this.keep(this.pick(e)); }

  point(i, e) {
    const { tip } = this;
    tip.hidden = i < 0;
    if (i >= 0) {
      tip.replaceChildren(...this.tell(i).map((line, k) => make(k ? "div" : "b", null, line)));
      tip.style.cssText = `left:${max(0, min(e.offsetX + 16, this.width - tip.offsetWidth - 4))}px;top:${e.offsetY + 20}px`;
    }
    if (i !== this.hover) { this.hover = i; this.overlay(); }
  }

  // The table twin: the matrix with its totals; of many ranks the pairs with the most.
  fill() {
    const { matrix, store } = this, { size, value, used, kind } = matrix, table = make("table"), exact = (x) => (x ? x.toLocaleString("en-US") : ""), all = [...Array(size).keys()];
    const line = (cells, tag) => { const tr = make("tr", table); for (const cell of cells) make(tag, tr, cell); };
    const shown = [...used].sort((a, b) => value[b] - value[a]).slice(0, MAX_ROWS);
    if (size <= MAX_TABLE) {
      make("caption", table, `${kind} from each rank (row) to each other (column)`);
      line(["from / to", ...all.map((k) => this.name(k)), "sent"], "th");
      for (const k of all) line([this.name(k), ...all.map((to) => exact(value[k * size + to])), exact(matrix.sent[k])], "td");
      line(["received", ...[...matrix.received, matrix.total].map(exact)], "td");
    } else {
      make("caption", table, `${shown.length} of ${words(used.length, "pair")} of ranks, the most first`);
      line(["from", "to", "messages", "bytes"], "th");
      for (const i of shown) line([this.name(floor(i / size)), this.name(i % size), exact(matrix.messages[i]), exact(matrix.bytes[i])], "td");
    }
    this.table.replaceChildren(table);
  }
}
