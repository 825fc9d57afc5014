// One place where a model is shown: its elements, what it listens to, and how to move about in it.
const MAX_ROWS = 200;

const halt = (e) => { e.preventDefault(); e.stopPropagation(); };

class View {
  // `seen` is called once the element is on a page: before, it has neither size nor style.
  constructor(store, model, el, seen) {
    assign(this, { store, model, seen, mode: "all", t0: 0, span: 1, r0: 0, rows: 0, drawn: -1, hover: -1, selected: -1, frame: 0, frames: 0 });
    this.build(el);
    this.listen();
  }

  get meta() { return this.model.get("meta"); }

  build(el) {
    this.root = make("div", el, "", "partkit-view partkit-timeline");
    this.root.innerHTML = this.model.get("look").html;
    for (const node of this.root.querySelectorAll("[data-part]")) this[node.dataset.part] = node;
    for (const node of this.root.querySelectorAll("button")) node.onclick = () => { this.act(node.value); this.over.focus({ preventScroll: true }); };
    this.chips = this.root.querySelectorAll(".pk-legend > span"); // by kind
    this.choices = [...this.root.querySelectorAll("[data-trait]")]; // what sets a trait, to which Python answers
    for (const node of this.choices) { node.oninput = () => this.put(node.dataset.trait, node.value); node.onkeydown = (e) => e.stopPropagation(); }
  }

  listen() {
    this.sizes = new ResizeObserver(() => { if (!this.paints) this.begin(); else if (this.stage.clientWidth !== this.width) this.resize(); });
    this.sizes.observe(this.stage);
    this.themes = new MutationObserver(() => this.restyle());
    for (const node of [document.body, document.documentElement]) this.themes.observe(node, { attributes: true });
    this.calm = matchMedia("(prefers-reduced-motion)");
    for (const name of ["wheel", "keydown", "pointerdown", "pointermove", "pointerup", "pointerleave"]) this.over[`on${name}`] = (e) => this[name](e);
  }

  // The first picture is drawn in the frame that is being made, which a callback of its own would miss.
  begin() {
    this.restyle();
    cancelAnimationFrame(this.frame);
    if (this.paints) this.tick();
    this.seen?.();
  }

  restyle() {
    const { color: ink, backgroundColor: paper } = getComputedStyle(this.root), [r, g, b] = paper.match(/[\d.]+/g) ?? [];
    if (!ink) return;
    const theme = (this.root.dataset.theme = 0.3 * r + 0.6 * g + 0.1 * b < 128 ? "dark" : "light");
    assign(this, { ink, paper });
    this.title.textContent = this.meta.title;
    this.paints = this.model.get("look").kinds.map((kind) => {
      const [fill, edge, ink] = kind[theme];
      return { ...kind, fill, edge, ink, pattern: hatch(kind.hatch, edge) };
    });
    this.resize();
  }

  resize() {
    const size = max(1, this.store.size), dpr = devicePixelRatio || 1;
    this.known = this.store.lanes;
    this.lanes = [...Array(LANES).keys()].filter((k) => this.known & (1 << k));
    this.height = this.meta.height || max(80, min(430, size * max(34, this.lanes.length * 17 + 8))) + AXIS;
    this.width = this.stage.clientWidth;
    this.stage.style.height = `${this.height}px`;
    for (const canvas of [this.main, this.over]) {
      assign(canvas, { width: round(this.width * dpr), height: round(this.height * dpr) });
      pen(canvas).scale(dpr, dpr);
    }
    this.plot = max(80, this.width - GUTTER - 8);
    this.tall = this.height - AXIS;
    this.redraw();
  }

  redraw() { this.drawn = -1; this.schedule(); }

  // At the next frame. New events of a live run are drawn some 35 times a second, which looks smooth and leaves the cores to the ranks;
  // twice a second at most if the reader wants little motion.
  schedule() {
    if (this.frame || !this.paints) return;
    const grows = this.meta.live && this.drawn >= 0;
    this.frame = grows ? -setTimeout(() => this.tick(), this.calm.matches ? 500 : 25) : requestAnimationFrame(() => this.tick());
  }

  tick() {
    const s = this.store, selected = s.whole ? -1 : this.model.get("selected") ?? -1;
    if (this.loads !== s.loads) assign(this, { loads: s.loads, drawn: -1, hover: -1 });
    if (this.run !== s.run) { this.run = s.run; this.reset(); }
    if (this.known !== s.lanes) this.resize();
    if (selected !== this.selected) { this.selected = selected < s.n ? selected : -1; this.reveal(this.selected); }
    this.follow();
    if (this.drawn < 0) background(this);
    // A block that came at once is drawn over some frames, so that it flows.
    const from = this.drawn, to = from && this.meta.live && !this.calm.matches ? from + ceil((s.n - from) * 0.6) : s.n;
    bars(this, from, to);
    if (!this.table.hidden && (from < to || this.sums !== this.model.get("sums"))) this.fill();
    this.drawn = to;
    this.frame = 0;
    if (to - from > 5e4 || !s.pair() || to < s.n) this.schedule(); // after many bars, arrows wait for the next frame
    overlay(this);
    this.say();
    assign(this.over.dataset, { painted: to === s.n && s.whole ? s.whole : to, sketch: !!s.whole, frames: ++this.frames });
  }

  // Show the whole run ("all") or its newest part ("tail"), with room for what comes while it is live.
  follow() {
    const { begin, last } = this.store, { live } = this.meta, whole = last - begin || 1;
    if (this.mode === "all" && (this.t0 !== begin || last > this.t0 + this.span || this.live !== live)) {
      assign(this, { t0: begin, span: whole * (live ? 1.25 : 1.01), live });
    } else if (this.mode === "tail" && last > this.t0 + this.span) this.t0 = last - this.span / 2;
    else return;
    this.drawn = -1;
  }

  put(name, value) { this.model.set(name, value); this.model.save_changes(); this.schedule(); }

  say() {
    const { store: s, meta: m, model } = this, answers = model.get("answers"), chosen = this.selected < 0 ? "" : dots(...s.describe(this.selected, this.paints), answers[this.selected]);
    for (const node of this.choices) this.root.dataset[node.dataset.trait] = node.value = model.get(node.dataset.trait);
    this.chips.forEach((chip, kind) => { chip.hidden = !(s.held & (1 << kind)); });
    this.critical.ariaPressed = model.get("critical_path");
    this.reason.textContent = answers[this.hover] ?? "";
    const text = dots(words(s.size, "rank"), words(s.whole || s.n, "event"), s.whole ? "details to follow" : words(s.sends.length, "message"), m.live ? "running" : "finished", m.note);
    if (this.info.textContent !== chosen) this.info.textContent = chosen;
    this.status.textContent = dots(text, this.crowded && "zoom in for arrows", this.merged && "narrow bars are merged");
    this.over.ariaLabel = `Timeline of ${text}. ${chosen || "Keys: ?"}`;
  }

  // -- moving about ---------------------------------------------------------------------------------------------

  move(change) { assign(this, { mode: "free" }, change); this.redraw(); }

  zoom(factor, at = this.t0 + this.span / 2) {
    const whole = this.store.last - this.store.begin || 1, span = min(whole * 4, max(whole * 1e-7, this.span / factor));
    this.move({ t0: at - (at - this.t0) * span / this.span, span });
  }

  // Ranks: fewer and taller, or others.
  scroll(ranks, factor = 1) {
    const rows = max(1, min(this.store.size, this.rows / factor));
    assign(this, { rows, r0: max(0, min(this.store.size - rows, this.r0 + ranks + (this.rows - rows) / 2)) });
    this.redraw();
  }

  reset() { this.move({ mode: "all", t0: NaN, r0: 0, rows: max(1, this.store.size) }); }

  reveal(i) {
    const s = this.store, rank = s.rank(i);
    if (i < 0) return;
    if (s.end(i) < this.t0 || s.start[i] > this.t0 + this.span) this.move({ t0: s.start[i] - this.span / 2 });
    if (rank < this.r0 || rank >= this.r0 + this.rows) this.scroll(rank - this.r0 - (this.rows - 1) / 2);
  }

  select(i) { this.put("selected", i < 0 ? null : i); }

  // The event of `rank` whose start is nearest, of those that `fits`; -1 for none.
  nearest(rank, fits) {
    const s = this.store, at = s.start[this.selected] ?? 0;
    let best = -1;
    for (let i = 0; i < s.n && !s.whole; i++) if (s.rank(i) === rank && fits(i) && !s.hidden(i) && (best < 0 || abs(s.start[i] - at) < abs(s.start[best] - at))) best = i;
    if (best >= 0) this.select(best);
  }

  climb(way) { if (this.selected < 0) this.scroll(way); else this.nearest(this.store.rank(this.selected) + way, () => true); }

  step(way) {
    const { selected: from, store: s } = this;
    this.nearest(from < 0 ? ceil(this.r0) : s.rank(from), (i) => from < 0 || ((s.start[i] - s.start[from] || i - from) * way > 0));
  }

  act(key) {
    const chosen = this.selected, s = this.store, acts = {
      "+": () => this.zoom(1.6), "=": () => this.zoom(1.6), "-": () => this.zoom(1 / 1.6), "]": () => this.scroll(0, 1.6), "[": () => this.scroll(0, 1 / 1.6),
      ArrowLeft: () => this.move({ t0: this.t0 - this.span * 0.15 }), ArrowRight: () => this.move({ t0: this.t0 + this.span * 0.15 }),
      ArrowUp: () => this.climb(-1), ArrowDown: () => this.climb(1),
      Home: () => this.reset(), End: () => this.move({ t0: s.last - this.span * 0.9, mode: "tail" }), n: () => this.step(1), p: () => this.step(-1),
      m: () => chosen >= 0 && s.partner[chosen] && this.select(s.partner[chosen] - 1), z: () => chosen >= 0 && this.move({ span: s.length[chosen] * 3 || this.span / 9, t0: s.start[chosen] - s.length[chosen] }),
      c: () => this.put("critical_path", !this.model.get("critical_path")), t: () => { this.table.hidden = !this.table.hidden; this.redraw(); }, "?": () => { this.help.hidden = !this.help.hidden; }, Escape: () => (this.help.hidden ? this.select(-1) : this.act("?")),
    };
    return acts[key] && (acts[key](), true);
  }

  keydown(e) { if (!e.ctrlKey && !e.metaKey && !e.altKey && this.act(e.key)) halt(e); }

  // The page keeps its wheel until the picture has been clicked.
  wheel(e) {
    if (!e.ctrlKey && !this.over.matches(":focus")) return;
    halt(e);
    const turn = exp(-max(-200, min(200, e.deltaY || e.deltaX)) * 0.002);
    if (e.shiftKey) this.scroll(0, turn);
    else this.zoom(turn, this.time(e));
  }

  time(e) { return this.t0 + (e.offsetX - GUTTER) * this.span / this.plot; }
  pointerleave() { this.point(-1); }

  pointerdown(e) {
    this.drag = { x: e.offsetX, y: e.offsetY, far: 0 };
    if (e.isTrusted) this.over.setPointerCapture(e.pointerId);
  }

  pointermove(e) {
    const d = this.drag, dx = e.offsetX - d?.x, dy = e.offsetY - d?.y;
    if (!d) { this.point(this.pick(e), e); return; }
    d.far += abs(dx) + abs(dy);
    if (d.far > 4) { this.scroll(-dy / rowTall(this)); this.move({ t0: this.t0 - dx * this.span / this.plot }); }
    assign(d, { x: e.offsetX, y: e.offsetY });
  }

  pointerup(e) { if (this.drag?.far <= 4) this.select(this.pick(e)); this.drag = null; }

  // The shortest event under the pointer, else a message whose arrow is near; -1 for none.
  pick({ offsetX, offsetY }) {
    const s = this.store, slack = 3 * this.span / this.plot, t = this.time({ offsetX }), rank = floor(this.r0 + offsetY / rowTall(this));
    let best = -1;
    for (let i = 0; i < s.n && !s.whole; i++) { // of a sketch's events nothing is known but their places
      if (s.rank(i) !== rank || s.hidden(i) || s.start[i] > t + slack || s.end(i) < t - slack) continue;
      const [top, tall] = y(this, s.place[i]);
      if (offsetY >= top - 1 && offsetY <= top + tall && (best < 0 || s.length[i] < s.length[best])) best = i;
    }
    return best >= 0 ? best : this.arrows.find((i) => {
      const [x0, y0, x1, y1] = arrowEnds(this, i), dx = x1 - x0, dy = y1 - y0, u = ((offsetX - x0) * dx + (offsetY - y0) * dy) / (dx * dx + dy * dy || 1);
      return u >= 0 && u <= 1 && hypot(x0 + u * dx - offsetX, y0 + u * dy - offsetY) < 5;
    }) ?? -1;
  }

  point(i, e) {
    const tip = this.tip;
    tip.hidden = i < 0;
    if (i >= 0) {
      this.lines.replaceChildren(...this.store.describe(i, this.paints).map((line, k) => make(k ? "div" : "b", null, line)));
      tip.style.cssText = `left:${max(0, min(e.offsetX + 14, this.width - tip.offsetWidth - 4))}px;top:${e.offsetY + 18}px`;
    }
    if (i !== this.hover) this.put("asked", (this.hover = i));
  }

  // The table twin: the events in view.
  fill() {
    const s = this.store, rows = [];
    for (let i = 0; i < s.n && !s.whole; i++) if (!s.hidden(i) && s.start[i] <= this.t0 + this.span && s.end(i) >= this.t0) rows.push(i);
    const shown = rows.sort((a, b) => s.start[a] - s.start[b] || s.rank(a) - s.rank(b)).slice(0, MAX_ROWS), table = make("table");
    make("caption", table, `${words(rows.length, "event")} in view, ${shown.length} shown`);
    const line = (cells, tag) => { const tr = make("tr", table); for (const cell of cells) make(tag, tr, cell); return tr; };
    line(this.model.get("look").head, "th");
    for (const i of shown) {
      const d = s.row(i), peer = s.peer(i);
      line([s.rank(i), this.paints[d.kind].name, d.tagText, peer < 0 ? "" : peer, d.nbytes > 0 ? d.nbytes : "", seconds(s.start[i]), seconds(s.length[i]), d.spanText, d.siteText], "td").onclick = () => this.select(i);
    }
    this.table.replaceChildren(table);
    make("div", this.table).innerHTML = this.sums = this.model.get("sums");
    if (!this.sums && !this.meta.live && this.summed !== this.meta.run) { this.summed = this.meta.run; this.model.send({ type: "sums" }); }
  }

  dispose() {
    this.sizes.disconnect();
    this.themes.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(-this.frame);
    this.root.remove();
  }
}
