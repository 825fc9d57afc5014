// A run's trace as a zoomable picture: Store (all events, one per model), View (one per place where the model is shown).
// New events are drawn on top of the old; everything is repainted only when the scale changes. A bar narrower than a pixel
// is skipped if its kind has already painted that pixel, so that a million bars cost little more than a thousand.
const LANES = 16, GUTTER = 62, AXIS = 30, MAX_ARROWS = 300, MAX_ROWS = 200;
const [SEND, RECV] = [0, 1], DETAIL = ["kind", "tag", "span", "site", "group", "nbytes", "hop"];

const words = (n, noun) => `${n.toLocaleString("en-US")} ${noun}${n === 1 ? "" : "s"}`;
const three = (x) => String(Number(x.toPrecision(3)));
const UNITS = [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]];
const unit = (x) => (x ? UNITS.find(([u]) => Math.abs(x) >= u * 0.9999) ?? UNITS[3] : UNITS[0]);
const seconds = (x) => { const [u, name] = unit(x); return `${three(x / u)} ${name}`; };
const bytes = (n) => { const p = n < 1000 ? 0 : Math.floor(Math.log10(n) / 3); return p ? `${three(n / 1000 ** p)} ${"kMGTP"[p - 1]}B` : words(n, "byte"); };
const make = (tag, className, parent, text = "") => {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  parent?.append(node);
  return node;
};

class Store {
  constructor() { this.reset(-1); }

  reset(run) {
    Object.assign(this, { run, n: 0, paired: 0, end: 0, begin: Infinity, lanes: 0, strings: [], details: [], labels: [], sends: [], odd: new Map(), channels: new Map(), keys: new Map() });
    this.start = new Float64Array(1024);
    this.length = new Float32Array(1024);
    this.place = new Uint16Array(1024);
    this.detail = new Uint16Array(1024);
    this.partner = new Int32Array(1024).fill(-1);
    this.kind = new Uint8Array(65536);
  }

  // Blocks as `partkit/figures/encoding.py` writes them, one after another.
  add(view) {
    const buffer = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
    for (let at = 0; at < buffer.byteLength;) {
      const size = new DataView(buffer).getUint32(at, true);
      const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, at + 8, size)));
      at += 8 + size;
      const take = (type, n) => { const part = new type(buffer, at, n); at += part.byteLength; return part; };
      this.strings.push(...head.strings);
      this.learn(take(Float64Array, head.details * DETAIL.length));
      this.grow(this.n + head.n);
      const start = take(Float32Array, head.n);
      for (let i = 0; i < head.n; i++) this.start[this.n + i] = head.base + start[i];
      this.length.set(take(Float32Array, head.n), this.n);
      this.place.set(take(Uint16Array, head.n), this.n);
      this.detail.set(take(Uint16Array, head.n), this.n);
      for (const [i, seq] of head.seq) this.odd.set(i, seq);
      for (let i = this.n; i < this.n + head.n; i++) {
        const s = this.start[i], e = s + this.length[i];
        if (e > this.end) this.end = e;
        if (s < this.begin) this.begin = s;
        this.lanes |= 1 << this.place[i] % LANES;
      }
      this.n += head.n;
      at += -at & 7;
    }
  }

  learn(rows) {
    for (let i = 0; i < rows.length; i += DETAIL.length) {
      const row = Object.fromEntries(DETAIL.map((name, k) => [name, rows[i + k]]));
      this.kind[this.details.length] = row.kind;
      this.details.push(row);
    }
  }

  grow(n) {
    if (n <= this.start.length) return;
    for (const name of ["start", "length", "place", "detail", "partner"]) {
      const bigger = new this[name].constructor(Math.max(n, 2 * this.start.length));
      if (name === "partner") bigger.fill(-1);
      bigger.set(this[name].subarray(0, this.n));
      if (name !== "start") this[name] = bigger; else this.next = bigger;
    }
    this.start = this.next;
  }

  rank(i) { return (this.place[i] / LANES) | 0; }
  peer(i, size) { const hop = this.details[this.detail[i]].hop; return hop < 0 ? -1 : (this.rank(i) + hop) % size; }

  // The n-th send of a channel (src, dst, tag, group) meets its n-th receive. At most `budget` events a call.
  pair(size, budget = 300000) {
    const stop = Math.min(this.n, this.paired + budget);
    for (let i = this.paired; i < stop; i++) {
      const kind = this.kind[this.detail[i]], row = this.details[this.detail[i]];
      if (kind > RECV || row.hop < 0) continue;
      const key = this.rank(i) * 65536 + this.detail[i];
      let side = this.keys.get(key);
      if (!side) {
        const ends = [this.rank(i), this.peer(i, size)];
        const name = (kind === SEND ? ends : ends.reverse()).concat(row.tag, row.group).join();
        if (!this.channels.has(name)) this.channels.set(name, [SEND, RECV].map(() => ({ seq: -1, open: new Map() })));
        this.keys.set(key, side = this.channels.get(name));
      }
      const mine = side[kind], other = side[1 - kind], seq = mine.seq = this.odd.get(i) ?? mine.seq + 1;
      const j = other.open.get(seq);
      if (j === undefined) { mine.open.set(seq, i); continue; }
      other.open.delete(seq);
      this.partner[i] = j;
      this.partner[j] = i;
      this.sends.push(kind === SEND ? i : j);
    }
    this.paired = stop;
    return stop === this.n;
  }

  describe(i, meta) {
    const row = this.details[this.detail[i]], rank = this.rank(i), peer = this.peer(i, meta.size), text = (k) => this.strings[row[k]] ?? "";
    const way = row.kind === SEND ? `rank ${rank} to rank ${peer}` : row.kind === RECV ? `rank ${rank} from rank ${peer}` : `rank ${rank}`;
    return [
      `${meta.kinds[row.kind].name} ${text("tag")}`.trim(), peer < 0 ? `rank ${rank}` : way, row.nbytes > 0 ? bytes(row.nbytes) : "",
      `${seconds(this.length[i])} from ${seconds(this.start[i])}`, text("span") && `in ${text("span")}`, text("group") && `group ${text("group")}`, text("site"),
      row.tag < 0 ? "no details: too many different ones" : ""].filter(Boolean);
  }

  label(d, letter) {
    const row = this.details[d], tag = this.strings[row.tag] ?? "";
    return (this.labels[d] ??= row.kind > RECV ? tag || letter : `${letter} ${row.nbytes > 0 ? bytes(row.nbytes) : ""} ${tag}`);
  }
}

class View {
  constructor(store, model, el) {
    Object.assign(this, { store, model, mode: "all", t0: 0, span: 1, r0: 0, rows: 0, drawn: 0, hover: -1, frame: 0, last: 0, paints: 0, off: [] });
    this.build(el);
    this.listen();
    this.restyle();
  }

  get meta() { return this.model.get("meta"); }
  get selected() { const s = this.model.get("selected"); return s === null || s >= this.store.n ? -1 : s; }

  build(el) {
    const root = (this.root = make("div", "partkit-timeline", el)), bar = make("div", "pk-bar", root);
    this.title = make("span", "pk-title", bar);
    this.legend = make("span", "pk-legend", bar);
    const button = (text, label, act) => {
      const b = make("button", "", bar, text);
      b.type = "button";
      b.title = label;
      b.setAttribute("aria-label", label);
      b.onclick = () => { act(); this.over.focus({ preventScroll: true }); };
      return b;
    };
    button("−", "Zoom out (-)", () => this.zoom(1 / 1.6));
    button("+", "Zoom in (+)", () => this.zoom(1.6));
    button("Reset", "Show the whole run (Home)", () => this.reset());
    this.tableButton = button("Table", "Show the events as a table (t)", () => this.toggle("table"));
    this.helpButton = button("?", "Keys and mouse (?)", () => this.toggle("help"));
    this.stage = make("div", "pk-stage", root);
    this.main = make("canvas", "pk-main", this.stage);
    this.over = make("canvas", "pk-over", this.stage);
    this.over.tabIndex = 0;
    this.over.setAttribute("role", "application");
    this.tip = make("div", "pk-tip", this.stage);
    this.info = make("div", "pk-info", root);
    this.info.setAttribute("aria-live", "polite");
    this.status = make("div", "pk-status", root);
    this.help = make("div", "pk-help", root);
    for (const [keys, what] of HELP) { make("kbd", "", this.help, keys); make("span", "", this.help, what); }
    this.table = make("div", "pk-table", root);
    this.help.hidden = this.table.hidden = this.tip.hidden = true;
  }

  on(target, names, act, options) {
    for (const name of names.split(" ")) target.addEventListener(name, act, options);
    this.off.push(() => { for (const name of names.split(" ")) target.removeEventListener(name, act, options); });
  }

  listen() {
    const watch = (observer, ...targets) => { for (const [node, options] of targets) observer.observe(node, options); this.off.push(() => observer.disconnect()); };
    watch(new ResizeObserver(() => this.resize()), [this.stage]);
    watch(new MutationObserver(() => this.restyle()), ...[document.body, document.documentElement].map((node) => [node, { attributes: true }]));
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    this.on(this.over, "wheel", (e) => this.wheel(e), { passive: false });
    this.on(this.over, "keydown", (e) => this.key(e));
    this.on(this.over, "pointerdown", (e) => this.down(e));
    this.on(this.over, "pointermove", (e) => this.move(e));
    this.on(this.over, "pointerup pointercancel", (e) => this.up(e));
    this.on(this.over, "pointerleave", () => this.point(-1));
    this.on(this.over, "dblclick", () => this.reset());
  }

  // -- looks ----------------------------------------------------------------------------------------------------

  restyle() {
    const style = getComputedStyle(this.root), [r, g, b] = style.backgroundColor.match(/[\d.]+/g) ?? [255, 255, 255];
    this.dark = 0.3 * r + 0.6 * g + 0.1 * b < 128;
    this.ink = style.color;
    this.paper = style.backgroundColor;
    this.root.dataset.theme = this.dark ? "dark" : "light";
    this.paint = this.meta.kinds.map((k) => ({ ...k, fill: (this.dark ? k.dark : k.light)[0], edge: (this.dark ? k.dark : k.light)[1] }));
    for (const p of this.paint) {
      p.pattern = hatch(p);
      const [r, g, b] = [1, 3, 5].map((i) => parseInt(p.fill.slice(i, i + 2), 16));
      p.ink = 0.3 * r + 0.6 * g + 0.1 * b > 120 ? "#000" : "#fff";
    }
    this.title.textContent = this.meta.title;
    this.legend.replaceChildren();
    for (const p of this.paint) {
      const chip = make("span", "pk-chip", this.legend), box = make("i", "", chip, p.letter);
      chip.append(p.name);
      box.style.cssText = `background:${p.fill};border-color:${p.edge};color:${p.ink}`;
    }
    this.resize();
  }

  resize() {
    const meta = this.meta, lanes = (this.lanes = [...Array(LANES).keys()].filter((k) => this.store.lanes & (1 << k)));
    this.known = this.store.lanes;
    const full = Math.max(1, meta.size) * Math.max(34, lanes.length * 17 + 8);
    this.height = meta.height || Math.max(110, Math.min(430, full)) + AXIS;
    this.width = Math.max(120, this.stage.clientWidth || 600);
    const dpr = devicePixelRatio || 1;
    this.stage.style.height = `${this.height}px`;
    for (const canvas of [this.main, this.over]) {
      canvas.width = Math.round(this.width * dpr);
      canvas.height = Math.round(this.height * dpr);
      canvas.getContext("2d").setTransform(dpr, 0, 0, dpr, 0, 0);
    }
    this.plot = this.width - GUTTER - 8;
    this.tall = this.height - AXIS;
    if (!this.rows || this.rows > meta.size) this.rows = Math.max(1, meta.size);
    this.redraw();
  }

  y(place) {
    const row = this.tall / this.rows, gap = row > 16 ? 6 : row > 5 ? 1 : 0, lane = (row - gap) / Math.max(1, this.lanes.length);
    return [(((place / LANES) | 0) - this.r0) * row + gap / 2 + this.lanes.indexOf(place % LANES) * lane, lane];
  }

  x(time) { return GUTTER + (time - this.t0) * this.plot / this.span; }

  // -- painting -------------------------------------------------------------------------------------------------

  redraw() { this.drawn = -1; this.schedule(); }

  schedule() {
    if (this.frame) return;
    const wait = this.calm.matches && this.meta.live && this.drawn >= 0 ? 500 - (performance.now() - this.last) : 0;
    this.frame = wait > 0 ? -setTimeout(() => this.tick(), wait) : requestAnimationFrame(() => this.tick());
  }

  tick() {
    this.frame = 0;
    this.last = performance.now();
    const s = this.store;
    if (this.known !== s.lanes) { this.resize(); cancelAnimationFrame(this.frame); this.frame = 0; }
    if (this.run !== s.run) Object.assign(this, { run: s.run, drawn: -1, hover: -1, mode: "all" });
    this.follow();
    if (this.drawn < 0 || this.drawn > s.n) this.background();
    this.bars(this.drawn);
    this.drawn = s.n;
    if (!s.pair(Math.max(1, this.meta.size))) this.schedule();
    this.overlay();
    this.over.dataset.painted = s.n;
    this.over.dataset.paints = ++this.paints;
  }

  follow() {
    const s = this.store, begin = Math.min(0, s.begin), end = s.end;
    if (this.mode === "all") {
      const fits = this.t0 === begin && end <= this.t0 + this.span && (this.meta.live ? end > this.span * 0.4 : this.fitted === end);
      if (fits) return;
      this.t0 = begin;
      this.span = (this.meta.live ? Math.max(end - begin, 1e-9) * 1.25 : (end - begin) * 1.01) || 1;
      this.fitted = end;
    } else if (this.mode === "tail" && end > this.t0 + this.span) this.t0 = end - this.span * 0.5;
    else return;
    this.drawn = -1;
  }

  background() {
    const c = this.main.getContext("2d"), { width, height, tall, meta } = this, row = tall / this.rows;
    this.drawn = 0;
    this.mark = new Uint8Array((tall + 2) * (this.plot + 2) | 0);
    c.fillStyle = this.paper;
    c.fillRect(0, 0, width, height);
    c.font = "12px system-ui, sans-serif";
    c.textBaseline = "middle";
    const every = Math.max(1, Math.ceil(15 / row));
    for (let rank = Math.max(0, Math.floor(this.r0)); rank < Math.min(meta.size, this.r0 + this.rows); rank++) {
      const top = (rank - this.r0) * row;
      c.fillStyle = this.ink;
      c.globalAlpha = row > 5 && rank % 2 === 0 ? 0.05 : 0;
      c.fillRect(GUTTER, top, this.plot, row);
      c.globalAlpha = 1;
      if (rank % every) continue;
      c.textAlign = "right";
      c.fillText(row > 15 || meta.size < 10 ? `rank ${rank}` : rank, GUTTER - 8, Math.min(tall - 7, top + row / 2));
    }
    this.axis(c);
  }

  axis(c) {
    const rough = this.span / Math.max(2, this.plot / 90), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((m) => m * power >= rough * 0.999) * power, end = this.t0 + this.span;
    const [scale, name] = unit(Math.max(Math.abs(this.t0), Math.abs(end)));
    const digits = Math.min(9, Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9)));
    c.textAlign = "center";
    c.fillStyle = this.ink;
    for (let k = Math.ceil(this.t0 / step - 1e-9); k * step <= end + step * 1e-9; k++) {
      const x = this.x(k * step);
      c.globalAlpha = 0.16;
      c.fillRect(Math.round(x), 0, 1, this.tall + 4);
      c.globalAlpha = 1;
      if (x < this.width - 24) c.fillText(((k * step) / scale).toFixed(digits), x, this.tall + 11);
    }
    c.textAlign = "right";
    c.fillText(`${name}, ${this.meta.clock}`, this.width - 8, this.tall + 24);
    c.fillRect(GUTTER, this.tall, this.plot, 1);
  }

  bars(from) {
    const s = this.store, k = this.plot / this.span, W = this.plot | 0, wide = [[], [], [], [], []], thin = [[], [], [], [], []], ys = new Map();
    for (let i = from; i < s.n; i++) {
      const a = (s.start[i] - this.t0) * k, w = s.length[i] * k;
      if (a >= W || a + w < 0) continue;
      const p = s.place[i], kind = s.kind[s.detail[i]];
      let at = ys.get(p);
      if (!at) ys.set(p, at = this.y(p));
      if (at[0] + at[1] <= 0 || at[0] >= this.tall) continue;
      if (w >= 1) { wide[kind].push(i); continue; }
      const pixel = (Math.max(0, at[0]) | 0) * W + (Math.max(0, a) | 0);
      if (this.mark[pixel] & (1 << kind)) continue;
      this.mark[pixel] |= 1 << kind;
      thin[kind].push(a, at);
    }
    const c = this.main.getContext("2d");
    c.save();
    c.beginPath();
    c.rect(GUTTER, 0, this.plot, this.tall);
    c.clip();
    c.textAlign = "left";
    for (const kind of [3, 4, 2, 0, 1]) {
      c.fillStyle = kind === 3 ? this.paint[kind].edge : this.paint[kind].fill;
      for (let j = 0; j < thin[kind].length; j += 2) c.fillRect(GUTTER + Math.floor(thin[kind][j]), thin[kind][j + 1][0], 1, Math.max(1, thin[kind][j + 1][1] - 1));
      for (const i of wide[kind]) this.bar(c, i, ys.get(s.place[i]), this.paint[kind]);
    }
    c.restore();
  }

  box(i, at = this.y(this.store.place[i])) {
    const x = this.x(this.store.start[i]), left = Math.max(GUTTER - 4, x), right = Math.min(this.width, x + Math.max(1, this.store.length[i] * this.plot / this.span));
    return [left, at[0], right - left, Math.max(1, at[1] - 1)];
  }

  bar(c, i, at, p) {
    const [x, y, w, h] = this.box(i, at);
    c.fillStyle = p.fill;
    c.fillRect(x, y, w, h);
    if (w < 3 || h < 4) return;
    if (p.pattern && w > 5) { c.fillStyle = p.pattern; c.fillRect(x, y, w, h); }
    c.strokeStyle = p.edge;
    c.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    if (w < 15 || h < 10) return;
    const size = Math.min(12, h - 1), room = Math.floor((w - 5) / (size * 0.56)), text = this.store.label(this.store.detail[i], p.letter);
    const shown = text.length <= room ? text : room < 4 ? p.letter : `${text.slice(0, room - 1)}…`;
    c.font = `${size}px system-ui, sans-serif`;
    c.fillStyle = p.ink;
    if (p.pattern) { c.lineWidth = 3; c.strokeStyle = p.fill; c.strokeText(shown, Math.max(x, GUTTER) + 3, y + h / 2 + 0.5); c.lineWidth = 1; }
    c.fillText(shown, Math.max(x, GUTTER) + 3, y + h / 2 + 0.5);
  }

  // From the moment when both sides are there to the moment when the receiver has it.
  arrowEnds(i) {
    const s = this.store, j = s.partner[i], end = (k) => s.start[k] + s.length[k], [ya, ha] = this.y(s.place[i]), [yb, hb] = this.y(s.place[j]);
    return [this.x(Math.min(Math.max(s.start[i], s.start[j]), end(i))), ya + ha / 2, this.x(end(j)), yb + hb / 2];
  }

  overlay() {
    const c = this.over.getContext("2d"), s = this.store, shown = [];
    c.clearRect(0, 0, this.width, this.height);
    c.save();
    c.beginPath();
    c.rect(GUTTER - 4, 0, this.plot + 8, this.tall);
    c.clip();
    for (const i of s.sends) {
      const from = s.start[i], to = s.start[s.partner[i]] + s.length[s.partner[i]];
      if (from < this.t0 + this.span && to > this.t0 && shown.push(i) > MAX_ARROWS) break;
    }
    this.arrows = shown.length > MAX_ARROWS ? [] : shown;
    const chosen = [this.hover, this.selected].filter((i) => i >= 0);
    for (const i of this.arrows) this.arrow(c, this.arrowEnds(i), chosen.length ? 0.45 : 0.9, 1.4);
    for (const i of chosen) {
      const both = [i, s.partner[i]].filter((j) => j >= 0);
      for (const j of both) { const [x, y, w, h] = this.box(j); c.strokeStyle = this.ink; c.lineWidth = 2; c.strokeRect(x - 1, y - 1, w + 2, h + 2); }
      if (both.length > 1) this.arrow(c, this.arrowEnds(s.kind[s.detail[i]] === SEND ? i : both[1]), 1, 2.6);
    }
    c.restore();
    this.say(shown.length > MAX_ARROWS);
  }

  arrow(c, [x0, y0, x1, y1], alpha, width) {
    const angle = Math.atan2(y1 - y0, x1 - x0), head = 5 + 2 * width;
    c.globalAlpha = alpha;
    for (const [color, w] of [[this.paper, width + 2.4], [this.ink, width]]) {
      c.strokeStyle = c.fillStyle = color;
      c.lineWidth = w;
      c.beginPath();
      c.moveTo(x0, y0);
      c.lineTo(x1 - Math.cos(angle) * head * 0.8, y1 - Math.sin(angle) * head * 0.8);
      c.stroke();
    }
    c.beginPath();
    c.moveTo(x1, y1);
    for (const turn of [2.7, -2.7]) c.lineTo(x1 + head * Math.cos(angle + turn), y1 + head * Math.sin(angle + turn));
    c.fill();
    c.beginPath();
    c.arc(x0, y0, 1 + width, 0, 7);
    c.fill();
    c.globalAlpha = 1;
    c.lineWidth = 1;
  }

  say(crowded) {
    const s = this.store, m = this.meta, shown = this.selected >= 0 ? s.describe(this.selected, m).join(" · ") : "";
    const state = m.live ? "running" : "finished", plain = m.note ? ` · ${m.note}` : "";
    const text = `${words(m.size, "rank")} · ${words(s.n, "event")} · ${words(s.sends.length, "message")} · ${state}${plain}`;
    const hint = s.n === 0 ? " · nothing has happened yet" : crowded ? " · zoom in to see the arrows" : "";
    if (this.info.textContent !== shown) this.info.textContent = shown;
    this.status.textContent = text + hint + (this.span * 1.0 && s.n > 20000 && this.mode === "all" ? " · bars narrower than a pixel are merged" : "");
    this.over.setAttribute("aria-label", `Timeline of ${text}. ${shown || "Press n to select the first event, ? for all keys."}`);
    if (!this.table.hidden) this.fill();
  }

  // -- moving about ---------------------------------------------------------------------------------------------

  zoom(factor, at = this.t0 + this.span / 2) {
    const whole = Math.max(this.store.end - Math.min(0, this.store.begin), 1e-9);
    const span = Math.min(whole * 4, Math.max(whole * 1e-7, this.span / factor));
    this.t0 = at - (at - this.t0) * span / this.span;
    this.span = span;
    this.mode = "free";
    this.redraw();
  }

  pan(dt, dr = 0) {
    this.t0 += dt;
    this.r0 = Math.max(0, Math.min(this.meta.size - this.rows, this.r0 + dr));
    if (dt) this.mode = "free";
    this.redraw();
  }

  tallen(factor, at = this.r0 + this.rows / 2) {
    const rows = Math.max(1, Math.min(this.meta.size, this.rows / factor));
    this.r0 = at - (at - this.r0) * rows / this.rows;
    this.rows = rows;
    this.pan(0);
  }

  reset() { Object.assign(this, { mode: "all", r0: 0, rows: Math.max(1, this.meta.size), fitted: -1, span: -1 }); this.redraw(); }

  reveal(i) {
    const s = this.store, end = s.start[i] + s.length[i], rank = s.rank(i);
    if (end < this.t0 || s.start[i] > this.t0 + this.span) this.pan((s.start[i] + end) / 2 - this.t0 - this.span / 2);
    if (rank < this.r0 || rank + 1 > this.r0 + this.rows) this.pan(0, rank + 0.5 - this.r0 - this.rows / 2);
  }

  select(i) {
    this.model.set("selected", i < 0 ? null : i);
    this.model.save_changes();
    if (i >= 0) this.reveal(i);
    this.schedule();
  }

  // The next (way 1) or previous (-1) event of the same rank, in the order of starts.
  step(way) {
    const s = this.store, from = this.selected, rank = from < 0 ? -1 : s.rank(from), key = from < 0 ? -Infinity * way : s.start[from];
    let best = -1;
    for (let i = 0; i < s.n; i++) {
      if (i === from || (rank >= 0 && s.rank(i) !== rank)) continue;
      const d = (s.start[i] - key) * way || (i - from) * way;
      if (d > 0 && (s.start[i] - key) * way >= 0 && (best < 0 || (s.start[i] - s.start[best]) * way < 0 || (s.start[i] === s.start[best] && (i - best) * way < 0))) best = i;
    }
    if (best >= 0) this.select(best);
  }

  // The event of another rank whose start is nearest.
  hop(way) {
    const s = this.store, from = this.selected, rank = s.rank(from) + way;
    let best = -1;
    for (let i = 0; i < s.n; i++) if (s.rank(i) === rank && (best < 0 || Math.abs(s.start[i] - s.start[from]) < Math.abs(s.start[best] - s.start[from]))) best = i;
    if (best >= 0) this.select(best);
  }

  toggle(name) {
    this[name].hidden = !this[name].hidden;
    this[`${name}Button`].setAttribute("aria-expanded", String(!this[name].hidden));
    if (name === "table" && !this.table.hidden) { this.filled = ""; this.fill(); }
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const chosen = this.selected, acts = {
      "+": () => this.zoom(1.6), "=": () => this.zoom(1.6), "-": () => this.zoom(1 / 1.6), "]": () => this.tallen(1.6), "[": () => this.tallen(1 / 1.6),
      ArrowLeft: () => this.pan(-this.span * 0.15), ArrowRight: () => this.pan(this.span * 0.15),
      ArrowUp: () => (chosen < 0 ? this.pan(0, -1) : this.hop(-1)), ArrowDown: () => (chosen < 0 ? this.pan(0, 1) : this.hop(1)),
      Home: () => this.reset(), End: () => { this.t0 = this.store.end - this.span * 0.9; this.mode = "tail"; this.redraw(); },
      n: () => this.step(1), p: () => this.step(-1), m: () => chosen >= 0 && this.store.partner[chosen] >= 0 && this.select(this.store.partner[chosen]),
      z: () => chosen >= 0 && (this.zoom(this.span / Math.max(this.store.length[chosen] * 3, 1e-9), this.store.start[chosen]), this.reveal(chosen)),
      t: () => this.toggle("table"), "?": () => this.toggle("help"), Escape: () => (this.help.hidden ? this.select(-1) : this.toggle("help")),
    };
    if (!acts[e.key]) return;
    e.preventDefault();
    e.stopPropagation();
    acts[e.key]();
  }

  time(e) { return this.t0 + (e.offsetX - GUTTER) * this.span / this.plot; }

  // The page keeps its wheel until the picture has been clicked.
  wheel(e) {
    if (!e.ctrlKey && this.root.getRootNode().activeElement !== this.over) return;
    e.preventDefault();
    e.stopPropagation();
    if (e.shiftKey) this.tallen(e.deltaY + e.deltaX < 0 ? 1.25 : 0.8, this.r0 + e.offsetY / this.tall * this.rows);
    else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.pan(e.deltaX * this.span / this.plot);
    else this.zoom(Math.exp(-Math.max(-200, Math.min(200, e.deltaY)) * 0.002), this.time(e));
  }

  down(e) { this.drag = { x: e.offsetX, y: e.offsetY, far: 0 }; try { this.over.setPointerCapture(e.pointerId); } catch { /* a synthetic pointer */ } }

  move(e) {
    const d = this.drag;
    if (!d) { this.point(this.pick(e), e); return; }
    d.far += Math.abs(e.offsetX - d.x) + Math.abs(e.offsetY - d.y);
    if (d.far > 4) this.pan((d.x - e.offsetX) * this.span / this.plot, (d.y - e.offsetY) * this.rows / this.tall);
    Object.assign(d, { x: e.offsetX, y: e.offsetY });
  }

  up(e) {
    if (this.drag && this.drag.far <= 4 && e.type === "pointerup") this.select(this.pick(e));
    this.drag = null;
  }

  // The narrowest event under the pointer, else a message whose arrow is near; -1 for none.
  pick(e) {
    const s = this.store, slack = 3 * this.span / this.plot, t = this.time(e), row = Math.floor(this.r0 + e.offsetY / this.tall * this.rows);
    let best = -1;
    for (let i = 0; i < s.n; i++) {
      if (s.rank(i) !== row || s.start[i] > t + slack || s.start[i] + s.length[i] < t - slack) continue;
      const [y, h] = this.y(s.place[i]);
      if (e.offsetY >= y - 1 && e.offsetY <= y + h && (best < 0 || s.length[i] < s.length[best])) best = i;
    }
    for (const i of best < 0 ? this.arrows ?? [] : []) {
      const [x0, y0, x1, y1] = this.arrowEnds(i), dx = x1 - x0, dy = y1 - y0, u = Math.max(0, Math.min(1, ((e.offsetX - x0) * dx + (e.offsetY - y0) * dy) / (dx * dx + dy * dy || 1)));
      if (Math.hypot(x0 + u * dx - e.offsetX, y0 + u * dy - e.offsetY) < 5) return i;
    }
    return best;
  }

  point(i, e) {
    this.tip.hidden = i < 0;
    if (i >= 0) {
      this.tip.replaceChildren(...this.store.describe(i, this.meta).map((line, k) => make(k ? "div" : "b", "", null, line)));
      this.tip.style.left = `${Math.max(0, Math.min(e.offsetX + 14, this.width - this.tip.offsetWidth - 4))}px`;
      this.tip.style.top = `${e.offsetY + 18 + this.tip.offsetHeight > this.height ? Math.max(0, e.offsetY - this.tip.offsetHeight - 8) : e.offsetY + 18}px`;
    }
    if (i !== this.hover) { this.hover = i; this.schedule(); }
  }

  // -- the table twin -------------------------------------------------------------------------------------------

  fill() {
    const s = this.store, stamp = [s.n, this.t0, this.span].join();
    if (stamp === this.filled) return;
    this.filled = stamp;
    const rows = [];
    let inView = 0;
    for (let i = 0; i < s.n; i++) if (s.start[i] <= this.t0 + this.span && s.start[i] + s.length[i] >= this.t0 && inView++ < 50 * MAX_ROWS) rows.push(i);
    rows.sort((a, b) => s.start[a] - s.start[b] || s.rank(a) - s.rank(b)).splice(MAX_ROWS);
    const table = make("table", "", null);
    make("caption", "", table, inView > rows.length ? `First ${rows.length} of ${words(inView, "event")} in view: zoom in for others` : `${words(inView, "event")} in view`);
    const line = (cells, tag) => { const tr = make("tr", "", table); for (const cell of cells) make(tag, "", tr, cell); return tr; };
    line(["rank", "kind", "name", "peer", "bytes", "start", "duration", "in", "source"], "th");
    for (const i of rows) {
      const d = s.details[s.detail[i]], peer = s.peer(i, this.meta.size), text = (k) => s.strings[d[k]] ?? "";
      line([s.rank(i), this.meta.kinds[d.kind].name, text("tag"), peer < 0 ? "" : peer, d.nbytes > 0 ? d.nbytes : "", seconds(s.start[i]), seconds(s.length[i]), text("span"), text("site")], "td").onclick = () => this.select(i);
    }
    this.table.replaceChildren(table);
  }

  dispose() {
    for (const off of this.off) off();
    if (this.frame > 0) cancelAnimationFrame(this.frame); else clearTimeout(-this.frame);
    this.root.remove();
  }
}

const HELP = [
  ["wheel", "zoom, once the picture has been clicked (or Ctrl + wheel); Shift + wheel: fewer, taller ranks"], ["drag", "move"], ["click", "select an event; hover for its details"],
  ["+  -", "zoom"], ["← →", "move"], ["↑ ↓", "neighbouring rank"], ["[  ]", "more or fewer ranks"], ["n  p", "next, previous event of the rank"],
  ["m", "other end of the message"], ["z", "zoom to the selected event"], ["Home", "whole run"], ["End", "newest events, and follow them"], ["t", "table"], ["Esc", "select nothing"], ["?", "this help"],
];

function hatch({ hatch: lines, edge }) {
  if (!lines) return null;
  const tile = document.createElement("canvas"), c = tile.getContext("2d");
  tile.width = tile.height = 8;
  c.strokeStyle = edge;
  c.globalAlpha = 0.55;
  for (const k of [-8, 0, 8]) {
    c.beginPath();
    if (lines !== "\\") { c.moveTo(k, 8); c.lineTo(k + 8, 0); }
    if (lines !== "/") { c.moveTo(k, 0); c.lineTo(k + 8, 8); }
    c.stroke();
  }
  return c.createPattern(tile, "repeat");
}

export default () => {
  const store = new Store(), views = new Set(), draw = () => { for (const view of views) view.schedule(); };
  return {
    initialize({ model }) {
      const load = () => {
        const { run, total } = model.get("meta"), snapshot = model.get("snapshot");
        if (snapshot?.byteLength && (run !== store.run || store.n < total)) { store.reset(run); store.add(snapshot); draw(); }
      };
      const receive = (message, [block]) => {
        if (message.run !== store.run) store.reset(message.run);
        if (message.first === store.n) { store.add(block); draw(); } else if (message.first > store.n) model.send({ type: "resend" });
      };
      const restyle = () => { for (const view of views) view.restyle(); };
      model.on("msg:custom", receive);
      model.on("change:snapshot", load);
      model.on("change:meta", restyle);
      model.on("change:selected", draw);
      load();
      return () => { model.off("msg:custom", receive); model.off("change:snapshot", load); model.off("change:meta", restyle); model.off("change:selected", draw); };
    },
    render({ model, el }) {
      const view = new View(store, model, el);
      views.add(view);
      return () => { views.delete(view); view.dispose(); };
    },
  };
};
