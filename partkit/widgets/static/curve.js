// One place where a model of metrics is shown. New points are drawn on top of the old; everything is repainted only when a scale
// changes, and a scale of a run that goes on has room for a quarter more steps.
// A line with more points than pixels is drawn as its mean in columns of pixels, with a band from the lowest to the highest value.
const LEFT = 58, HEAD = 26, FOOT = 24, COLUMN = 3, GAP = 90, MAX_ROWS = 200, MAX_LINES = 12;

class View {
  // `seen` is called once the element is on a page: before, it has neither size nor style.
  constructor(store, model, el, seen) {
    Object.assign(this, { store, model, seen, drawn: false, hover: null, kept: null, frame: 0, frames: 0, filled: 0, panels: [] });
    furnish(this, el, "partkit-curve");
    this.listen();
  }

  get meta() { return this.model.get("meta"); }
  get axis() { return this.model.get("x"); }

  listen() {
    follow(this, () => this.colors, () => this.resize());
    this.calm = matchMedia("(prefers-reduced-motion)");
    this.switched = () => this.redraw();
    for (const name of ["log", "x"]) this.model.on(`change:${name}`, this.switched);
    for (const name of ["keydown", "pointerdown", "pointermove", "pointerleave"]) this.over[`on${name}`] = (e) => this[name](e);
  }

  dispose() { vanish(this, ["log", "x"], this.switched); }

  restyle() {
    const { color, backgroundColor } = getComputedStyle(this.root), [r, g, b] = backgroundColor.match(/[\d.]+/g) ?? [], look = this.model.get("look");
    if (!color) return;
    const theme = 0.3 * r + 0.6 * g + 0.1 * b < 128 ? 1 : 0;
    Object.assign(this, { ink: color, paper: backgroundColor, colors: look.colors.map((pair) => pair[theme]), markers: look.markers });
    this.root.dataset.theme = theme ? "dark" : "light";
    this.title.textContent = this.meta.title;
    this.chips();
    this.resize();
  }

  resize() {
    const n = max(1, this.store.names.length), dpr = devicePixelRatio || 1;
    this.height = this.meta.height || 20 + n * ([0, 260, 180][n] ?? 150);
    this.width = max(160, this.stage.clientWidth);
    this.stage.style.height = `${this.height}px`;
    for (const canvas of [this.main, this.over]) {
      Object.assign(canvas, { width: round(this.width * dpr), height: round(this.height * dpr) });
      canvas.getContext("2d").scale(dpr, dpr);
    }
    this.redraw();
  }

  redraw() { this.drawn = false; this.schedule(); }

  // At the next frame; twice a second at most for live numbers if the reader wants little motion.
  schedule() {
    if (this.frame || !this.colors) return;
    this.frame = this.calm.matches && this.meta.live && this.drawn ? -setTimeout(() => this.tick(), 500) : requestAnimationFrame(() => this.tick());
  }

  tick() {
    const { store } = this;
    this.frame = 0;
    if (this.shape !== store.shape) { this.shape = store.shape; this.hover = this.kept = null; this.chips(); this.resize(); this.schedule(); return; }
    if (!this.drawn || !this.panels.every((panel) => panel.fits())) this.background();
    for (const panel of this.panels) panel.extend();
    this.overlay();
    this.say();
    if (!this.table.hidden && (!this.meta.live || performance.now() - this.filled > 1000)) this.fill();
    Object.assign(this.over.dataset, { painted: store.lines.reduce((sum, line) => sum + line.n, 0), frames: ++this.frames });
  }

  background() {
    const { store, width, height } = this, c = this.main.getContext("2d"), names = store.names.length ? store.names : [""], tall = (height - 20) / names.length;
    c.fillStyle = this.paper;
    c.fillRect(0, 0, width, height);
    c.font = "13px system-ui, sans-serif";
    const labels = max(0, ...store.lines.map((line) => c.measureText(line.label).width));
    this.right = round(min(width * 0.32, labels + 32));
    this.panels = names.map((name, k) => new Panel(this, name, k * tall, tall));
    for (const panel of this.panels) panel.frame(c);
    c.textAlign = "right";
    c.fillStyle = this.ink;
    const { across } = this.panels[0];
    c.fillText(this.axis === "seconds" ? `${unit(across.high)[1]}, ${this.meta.clock}` : "step", width - this.right, height - 8);
    this.drawn = true;
  }

  color(line) { return this.colors[line.rank % this.colors.length]; }
  marker(line) { return this.markers[line.rank % this.markers.length]; }

  mark(c, line, x, y, size = 1) {
    c.save();
    c.translate(x, y);
    c.scale(size, size);
    c.fillStyle = this.color(line);
    c.fill(new Path2D(this.marker(line)));
    c.restore();
  }

  chips() {
    const ranks = new Map(this.store.lines.map((line) => [line.label, line]));
    this.legend.replaceChildren();
    for (const [label, line] of [...ranks].slice(0, MAX_LINES)) {
      const chip = make("span", this.legend);
      chip.innerHTML = `<svg width="26" height="11" viewBox="-13 -5.5 26 11" aria-hidden="true"><path d="M-13 0h26" stroke-width="2"/><path stroke="none" d="${this.marker(line)}"/></svg>`;
      chip.firstChild.style.cssText = `margin-right:5px;stroke:${this.color(line)};fill:${this.color(line)}`;
      chip.append(label);
    }
    if (ranks.size > MAX_LINES) make("span", this.legend, `and ${ranks.size - MAX_LINES} more`);
  }

  // The ends' names and what is pointed at: on a canvas of its own, above the lines.
  overlay() {
    const c = this.over.getContext("2d");
    c.clearRect(0, 0, this.width, this.height);
    c.font = "13px system-ui, sans-serif";
    c.textBaseline = "middle";
    for (const panel of this.panels) panel.names(c);
    for (const point of new Set([this.kept, this.hover])) {
      const panel = this.panels.find((one) => one.lines.includes(point?.line));
      if (panel) panel.point(c, point);
    }
  }

  say() {
    const { store, kept } = this, m = this.meta, [log, seconds] = [this.model.get("log"), this.axis === "seconds"];
    const last = store.names.map((name) => { const own = store.lines.filter((line) => line.name === name); return own.length === 1 ? `${name} ${digits(own[0].value[own[0].n - 1])}` : name; });
    const band = this.panels.some((panel) => panel.dense), chosen = kept ? this.tell(kept) : "";
    const text = dots(last.join(", "), words(store.size, "rank"), m.live ? "running" : "finished", band && "band: lowest to highest, line: mean", m.note);
    if (this.info.textContent !== chosen) this.info.textContent = chosen;
    this.status.textContent = text;
    this.over.ariaLabel = `Curve of ${text}. ${chosen || "Keys: ?"}`;
    for (const [key, on] of [["l", log], ["x", seconds], ["t", !this.table.hidden], ["?", !this.help.hidden]]) this.root.querySelector(`button[value="${key}"]`).ariaPressed = on;
  }

  tell({ line, i }) { return `${line.name} of ${line.label} at step ${i + 1}, ${seconds(line.time[i])}: ${digits(line.value[i])}`; }

  // -- moving about ---------------------------------------------------------------------------------------------

  keep(line, i) { this.kept = line ? { line, i: max(0, min(line.n - 1, i)) } : null; this.schedule(); }

  toggle(node) { node.hidden = !node.hidden; this.filled = 0; this.schedule(); }

  set(name, value) { this.model.set(name, value); this.model.save_changes(); this.redraw(); }

  act(key, far) {
    const { lines } = this.store, line = this.kept?.line ?? lines[0], i = this.kept?.i ?? line?.n, hop = far ? max(1, round(line?.n / 10)) : 1;
    const other = (way) => { const next = lines[(lines.indexOf(line) + way + lines.length) % lines.length]; this.keep(next, this.kept ? next.nearest(line.x(i, this.axis), this.axis) : next.n); };
    const acts = {
      ArrowLeft: () => this.keep(line, i - hop), ArrowRight: () => this.keep(line, i + hop), ArrowUp: () => other(-1), ArrowDown: () => other(1), Home: () => this.keep(line, 0), End: () => this.keep(line, line.n),
      l: () => this.set("log", !this.model.get("log")), x: () => this.set("x", this.axis === "step" ? "seconds" : "step"), t: () => this.toggle(this.table), "?": () => this.toggle(this.help),
      Escape: () => (this.help.hidden ? this.keep() : this.act("?")),
    };
    return acts[key] && (line || key.length === 1 || key === "Escape") && (acts[key](), true);
  }

  keydown(e) { if (!e.ctrlKey && !e.metaKey && !e.altKey && this.act(e.key, e.shiftKey)) { e.preventDefault(); e.stopPropagation(); } }

  pointermove(e) { this.show(this.pick(e), e); }
  pointerleave() { this.show(null); }
  pointerdown(e) { const point = this.pick(e); this.keep(point?.line, point?.i); }

  // Of the points at this x, the one nearest to the pointer.
  pick({ offsetX, offsetY }) {
    const panel = this.panels.find(({ top, tall }) => offsetY >= top && offsetY < top + tall);
    return panel?.lines.map((line) => panel.nearest(line, offsetX)).sort((a, b) => panel.far(a, offsetY) - panel.far(b, offsetY))[0] ?? null;
  }

  show(point, e) {
    const { tip } = this;
    tip.hidden = !point;
    if (point) {
      const panel = this.panels.find((one) => one.lines.includes(point.line)), at = point.line.x(point.i, this.axis);
      const others = panel.lines.filter((line) => line !== point.line).slice(0, 7).map((line) => [line, line.nearest(at, this.axis)]);
      const rows = [[point.line, point.i], ...others].map(([line, i], k) => make(k ? "div" : "b", null, `${digits(line.value[i])}  ${line.label}`));
      tip.replaceChildren(make("div", null, dots(point.line.name, `step ${point.i + 1}`, seconds(point.line.time[point.i]))), ...rows);
      tip.style.cssText = `left:${max(0, min(e.offsetX + 16, this.width - tip.offsetWidth - 4))}px;top:${e.offsetY + 18}px`;
    }
    if (point?.line !== this.hover?.line || point?.i !== this.hover?.i) { this.hover = point; this.schedule(); }
  }

  // The table twin: a row a step, evenly chosen if there are many, a column a line.
  fill() {
    const shown = this.store.lines.slice(0, MAX_LINES), longest = max(0, ...shown.map((line) => line.n)), n = min(longest, MAX_ROWS), table = make("table");
    make("caption", table, n < longest ? `Values at ${n} of ${words(longest, "step")}` : "Values");
    const line = (cells, tag) => { const tr = make("tr", table); for (const cell of cells) make(tag, tr, cell); };
    line(["step", ...shown.map(({ name, label }) => `${name}, ${label}`)], "th");
    for (let k = 0; k < n; k++) {
      const i = round(n > 1 ? k * (longest - 1) / (n - 1) : 0);
      line([i + 1, ...shown.map((one) => (i < one.n ? digits(one.value[i]) : ""))], "td");
    }
    this.table.replaceChildren(table);
    this.filled = performance.now();
  }
}
