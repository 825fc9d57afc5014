// A studio: it draws what Python has worked out, and sends what its reader wants; every decision is made in Python.
const TRAITS = ["chart", "said"];

class View {
  // `seen` is called once the element is on a page: before, it has neither size nor style.
  constructor(store, model, el, seen) {
    Object.assign(this, { store, model, seen, frame: 0, frames: 0 });
    furnish(this, el, "partkit-studio");
    this.sliders();
    this.listen();
  }

  get meta() { return this.model.get("meta"); }
  get chart() { return this.model.get("chart"); }
  get running() { return this.meta.live && this.meta.run > 0; }

  sliders() {
    const { controls, schedules } = this.model.get("look");
    this.controls = controls.map(({ key, label, hint, texts }) => {
      const box = make("label", this.ranges), line = make("span", box, label), output = make("output", line), input = make("input", box);
      Object.assign(input, { type: "range", min: 0, max: texts.length - 1, step: 1, ariaLabel: label, title: hint });
      box.title = hint;
      input.oninput = () => { output.textContent = texts[input.value]; slide(this, { what: "set", key, at: Number(input.value) }); };
      input.onkeydown = (e) => e.stopPropagation();
      return { key, input, output };
    });
    make("option", this.known, "by hand").value = "";
    for (const [key, name] of schedules) make("option", this.known, name).value = key;
    this.known.onchange = () => this.ask(this.known.value ? { what: "choose", name: this.known.value } : { what: "clear" });
    this.known.onkeydown = (e) => e.stopPropagation();
    this.written.onkeydown = (e) => { e.stopPropagation(); if (e.key === "Enter") { this.ask({ what: "place", action: this.written.value }); this.written.select(); } };
  }

  listen() {
    follow(this, () => this.ink, () => this.schedule());
    this.changed = () => { answered(this); this.tip.hidden = true; this.schedule(); };
    for (const name of TRAITS) this.model.on(`change:${name}`, this.changed);
    for (const name of ["keydown", "pointerdown", "pointermove", "pointerup", "pointerleave", "dragover", "drop"]) this.over[`on${name}`] = (e) => this[name](e);
    this.over.onpointercancel = () => { this.drag = null; this.schedule(); };
    this.stage.onscroll = () => this.schedule();
    this.root.addEventListener("focusout", (e) => { if (!this.root.contains(e.relatedTarget)) this.model.send({ type: "do", what: "settle" }); });
  }

  dispose() { vanish(this, TRAITS, this.changed); }

  restyle() {
    const { color, backgroundColor } = getComputedStyle(this.root), [r, g, b] = backgroundColor.match(/[\d.]+/g) ?? [], { looks, narrow } = this.model.get("look");
    if (!color) return;
    const theme = 0.3 * r + 0.6 * g + 0.1 * b < 128 ? 1 : 0;
    Object.assign(this, { ink: color, paper: backgroundColor, looks: looks[theme], fills: narrow[theme], focus: theme ? "#f0e442" : "#d55e00" });
    this.root.dataset.theme = theme ? "dark" : "light";
    this.title.textContent = this.meta.title;
    this.legendary = null;
    this.schedule();
  }

  // How each kind is filled; where bars are narrow, hues stand for kinds.
  chips() {
    const { looks, fills, ink, paper, plan: { narrow } } = this, key = [narrow, ink].join();
    if (this.legendary === key) return;
    this.legendary = key;
    this.legend.replaceChildren(...this.model.get("look").kinds.slice(0, 4).map(([letter, words], k) => {
      const chip = make("span"), box = make("i", chip), fill = narrow ? fills[k] : looks[k][0][0];
      const stripe = narrow ? "" : ["", "", `repeating-linear-gradient(135deg, transparent 0 3px, ${paper} 3px 5px), `, `repeating-linear-gradient(90deg, transparent 0 3px, ${ink} 3px 4px), `][k];
      box.style.cssText = `background:${stripe}${fill};height:${k === 3 ? 12 : 18}px`;
      make("b", chip, letter);
      chip.append(words);
      return chip;
    }));
    if (narrow) make("span", this.legend, "hues stand for kinds; + shows numbers");
  }

  schedule() { if (!this.frame && this.ink) this.frame = requestAnimationFrame(() => this.tick()); }

  tick() {
    this.frame = 0;
    this.store.take(this.chart);
    this.paint();
    this.say();
    Object.assign(this.over.dataset, { painted: this.store.bars.length, frames: ++this.frames });
  }

  paint() {
    const { store, over } = this, dpr = devicePixelRatio || 1;
    this.pen = over.getContext("2d");
    this.width = max(260, this.stage.clientWidth);
    const plan = (this.plan = layOut(this)), fine = min(dpr, 16000 / plan.width), size = [round(plan.width * fine), round(plan.height * fine)];
    if (over.width !== size[0] || over.height !== size[1]) [over.width, over.height] = size;
    over.style.cssText = `width:${plan.width}px;height:${plan.height}px`;
    const c = over.getContext("2d");
    c.setTransform(fine, 0, 0, fine, 0, 0);
    Object.assign(c, { textBaseline: "middle", fillStyle: this.paper });
    c.fillRect(0, 0, plan.width, plan.height);
    Object.assign(this, { left: this.stage.scrollLeft, right: this.stage.scrollLeft + this.width });
    axis(this);
    for (const one of store.bars) bar(this, one);
    for (const one of plan.run) bar(this, one);
    overlay(this);
    names(this);
    this.chips();
  }

  // -- words ----------------------------------------------------------------------------------------------------

  say() {
    const { chart, store, meta } = this, said = this.model.get("said"), { rank } = store.cursor, text = said.text || "Click an empty slot to ask why it is empty, + to place what comes next. Keys: ?";
    if (this.info.textContent !== text) this.info.textContent = text;
    this.info.classList.toggle("pk-refused", !!said.refused);
    this.status.textContent = dots(chart.line, chart.where && `measured on ${chart.where}`, this.running && "running");
    this.over.ariaLabel = `Pipeline schedule. ${chart.line}. Rank ${rank}. ${text}`;
    for (const { key, input, output } of this.controls) {
      const [at, words] = chart.controls[key];
      if (this.wanted?.key !== key) Object.assign(input, { value: at, disabled: at < 0 });
      output.textContent = words;
      input.setAttribute("aria-valuetext", words);
    }
    this.known.value = chart.chosen;
    const off = { u: !chart.undo, r: !chart.redo, c: !store.bars.length, x: !chart.run && !this.running, p: chart.split === null }, on = { p: !!chart.split, t: !this.table.hidden, "?": !this.help.hidden };
    for (const button of this.root.querySelectorAll(".pk-bar button")) {
      const { value } = button;
      button.disabled = off[value] ?? false;
      if (value in on) button.ariaPressed = on[value];
    }
    this.runs.hidden = !meta.world;
    this.runs.textContent = this.running ? "Stop" : "Run";
    this.runs.title = chart.left ? "Place all actions first" : "Run it on the ranks of the world (x)";
    this.list(rank);
    if (!this.table.hidden && this.filled !== chart.table) this.fill();
  }

  // What can be placed next on the reader's rank.
  list(rank) {
    const own = this.chart.offers[rank], more = this.chart.more[rank], key = [rank, ...own, more].join();
    if (this.listed === key) return;
    this.listed = key;
    this.next.replaceChildren(make("b", null, `rank ${rank} next:`));
    for (const name of own) {
      const button = make("button", this.next, name);
      Object.assign(button, { title: "Place it", draggable: true, onclick: () => { this.place(name); this.over.focus({ preventScroll: true }); }, ondragstart: (e) => e.dataTransfer.setData("text", name) });
    }
    if (!own.length) make("span", this.next, this.chart.left ? "nothing is ready" : "all is placed");
    if (more) make("span", this.next, `and ${more} more`);
  }

  // The table: the board beside the known schedules; a click takes one.
  fill() {
    const [head, ...rows] = this.chart.table, table = make("table");
    this.filled = this.chart.table;
    const line = (cells, tag) => { const tr = make("tr", table); for (const cell of cells) make(tag, tr, cell); return tr; };
    line(head, "th");
    rows.forEach((row, k) => {
      const key = this.chart.keys[k], node = line(row, "td");
      if (key) Object.assign(node, { title: "Put it on the board", onclick: () => this.ask({ what: "choose", name: key }) }); else node.className = "pk-now";
    });
    this.table.replaceChildren(table);
  }

  // -- what the reader wants ------------------------------------------------------------------------------------

  ask(message) { this.model.send({ type: "do", ...message }); }

  place(action) { this.store.cursor.time = Infinity; this.ask({ what: "place", action }); }

  // Look at a segment; Python says what happens there, or why nothing does.
  look(rank, time) {
    this.store.cursor = { rank, time };
    this.schedule();
    const { here } = this.store, { start, end } = here;
    this.ask({ what: "why", rank, time: end === Infinity ? start : (start + end) / 2 });
    const x = xOf(this, start);
    if (x < this.stage.scrollLeft + this.plan.left) this.stage.scrollLeft = x - this.plan.left - 20;
    if (x > this.stage.scrollLeft + this.width - 40) this.stage.scrollLeft = x - this.width + 120;
  }

  step(by) {
    const { store } = this, row = store.segments[store.cursor.rank], to = row[max(0, min(row.length - 1, store.index() + by))];
    this.look(store.cursor.rank, to.end === Infinity ? Infinity : (to.start + to.end) / 2);
  }

  row(by) { const { store } = this; this.look(max(0, min(store.rows.length - 1, store.cursor.rank + by)), store.cursor.time); }

  // The selected action, earlier or later in its rank's order.
  shift(by) { const { bar: one } = this.store.here; if (one) this.ask({ what: "move", action: one.name, rank: one.rank, to: one.place + by }); }

  zoom(by) { this.store.zoom = max(1, min(16, this.store.zoom * by)); this.schedule(); }

  toggle(node) { node.hidden = !node.hidden; this.schedule(); }

  act(key, shifted) {
    const { store, chart } = this, { rank } = store.cursor, offer = chart.offers[rank][0], acts = {
      ArrowLeft: () => (shifted ? this.shift(-1) : this.step(-1)), ArrowRight: () => (shifted ? this.shift(1) : this.step(1)), ArrowUp: () => this.row(-1), ArrowDown: () => this.row(1),
      Home: () => this.look(rank, 0), End: () => this.look(rank, Infinity), Enter: () => (offer ? this.place(offer) : this.look(rank, Infinity)),
      Delete: () => store.here.bar && this.ask({ what: "remove", action: store.here.bar.name }),
      u: () => this.ask({ what: "undo" }), r: () => this.ask({ what: "redo" }), c: () => this.ask({ what: "clear" }), p: () => this.ask({ what: "split", on: !chart.split }),
      x: () => (this.running ? this.ask({ what: "stop" }) : chart.run && this.ask({ what: "run" })), "+": () => this.zoom(2), "=": () => this.zoom(2), "-": () => this.zoom(0.5),
      t: () => this.toggle(this.table), "?": () => this.toggle(this.help), Escape: () => this.help.hidden || this.act("?"),
    };
    acts.Backspace = acts.Delete;
    for (const kind of "fbiw") acts[kind] = () => { store.cursor.time = Infinity; this.ask({ what: "next", rank, kind: kind.toUpperCase() }); };
    return acts[key] && (acts[key](), true);
  }

  keydown(e) {
    const back = (e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "z";
    if (back ? this.act(e.shiftKey ? "r" : "u") : !e.ctrlKey && !e.metaKey && !e.altKey && this.act(e.key, e.shiftKey)) { e.preventDefault(); e.stopPropagation(); }
  }

  // -- the pointer ----------------------------------------------------------------------------------------------

  rankAt(y) { return max(0, min(this.store.rows.length - 1, floor((y - TOP) / this.plan.tall))); }
  timeAt(x) { return max(0, (x - this.plan.left) / this.plan.scale); }

  pick({ offsetX: x, offsetY: y }) {
    const rank = this.rankAt(y), time = this.timeAt(x), inside = (one) => { const [a, b, w, h] = boxOf(this, one); return x >= a && x < a + w && y >= b && y < b + h; };
    return { rank, time, bar: this.store.rows[rank].find(inside), run: this.plan.run.find(inside) };
  }

  pointerdown(e) {
    if (e.offsetX < this.plan.left + this.stage.scrollLeft) { this.look(this.rankAt(e.offsetY), Infinity); return; }
    const found = this.pick(e), { rank, time, bar: one } = found, ghost = this.ghosts[rank];
    if (!one && ghost && e.offsetX >= ghost[0] && e.offsetX <= ghost[0] + ghost[2]) { this.store.cursor = { rank, time: Infinity }; this.place(this.chart.offers[rank][0]); return; }
    if (one) { this.drag = { bar: one, x: e.offsetX, y: e.offsetY, rank, place: one.place }; this.over.setPointerCapture?.(e.pointerId); }
    this.look(rank, time);
  }

  pointermove(e) {
    const { drag } = this;
    if (drag) {
      drag.on ||= hypot(e.offsetX - drag.x, e.offsetY - drag.y) > 6;
      drag.rank = this.rankAt(e.offsetY);
      const time = this.timeAt(e.offsetX), row = this.store.rows[drag.rank], place = row.findIndex((one) => time < (one.start + one.end) / 2);
      drag.place = place < 0 ? row.length : place;
      this.tip.hidden = true;
      this.schedule();
      return;
    }
    const { bar: one, run } = this.pick(e), bars = [one, run].filter(Boolean), { kinds } = this.model.get("look");
    this.over.style.cursor = one ? "grab" : "pointer";
    if ((this.tip.hidden = !bars.length)) return;
    this.tip.replaceChildren(...bars.flatMap((b) => [make("b", null, `${b.name}${b.measured ? " as measured" : ""}`), make("div", null, `${kinds[b.kind][1]}, stage ${parseInt(b.name)}, micro-batch ${b.microbatch}`), make("div", null, `${three(b.start)} to ${three(b.end)}, rank ${b.rank}`)]));
    this.tip.style.cssText = `left:${max(0, min(e.offsetX - this.stage.scrollLeft + 14, this.width - this.tip.offsetWidth - 4))}px;top:${e.offsetY + 18}px`;
  }

  pointerup() {
    const { drag } = this;
    this.drag = null;
    if (!drag?.on) return;
    const { bar: one, rank, place } = drag, to = rank === one.rank && place > one.place ? place - 1 : place;
    if (rank !== one.rank || to !== one.place) this.ask({ what: "move", action: one.name, rank, to });
    this.schedule();
  }

  pointerleave() { this.tip.hidden = true; }
  dragover(e) { e.preventDefault(); }
  drop(e) { e.preventDefault(); const rank = this.rankAt(e.offsetY); this.store.cursor = { rank, time: Infinity }; this.ask({ what: "place", action: e.dataTransfer.getData("text"), rank }); }
}
