// A map of layers on ranks: it draws what Python has worked out, and sends what its reader wants; every decision is made in Python.
const TRAITS = ["chart", "said", "measure"], NEAR = 9;

class View {
  // `seen` is called once the element is on a page: before, it has neither size nor style.
  constructor(store, model, el, seen) {
    Object.assign(this, { store, model, seen, frame: 0, frames: 0 });
    furnish(this, el, "partkit-stages");
    for (const [key] of this.look.measures) make("option", this.shown, key).value = key;
    this.shown.onchange = () => this.show(this.shown.selectedIndex);
    this.shown.onkeydown = (e) => e.stopPropagation();
    this.listen();
  }

  get look() { return this.model.get("look"); }
  get chart() { return this.model.get("chart"); }
  get at() { return this.look.measures.findIndex(([key]) => key === this.model.get("measure")); }

  listen() {
    follow(this, () => this.ink, () => this.schedule());
    this.changed = () => { answered(this); this.schedule(); };
    for (const name of TRAITS) this.model.on(`change:${name}`, this.changed);
    for (const name of ["keydown", "pointerdown", "pointermove", "pointerup", "pointerleave"]) this.over[`on${name}`] = (e) => this[name](e);
    this.over.onpointercancel = () => { this.drag = null; };
    this.root.addEventListener("focusout", (e) => { if (!this.root.contains(e.relatedTarget)) this.ask({ what: "settle" }); });
  }

  dispose() { vanish(this, TRAITS, this.changed); }

  restyle() {
    const { color, backgroundColor } = getComputedStyle(this.root), [r, g, b] = backgroundColor.match(/[\d.]+/g) ?? [];
    if (!color) return;
    const theme = 0.3 * r + 0.6 * g + 0.1 * b < 128 ? 1 : 0;
    Object.assign(this, { ink: color, paper: backgroundColor, colors: this.look.colors[theme], focus: theme ? "#f0e442" : "#d55e00" });
    this.root.dataset.theme = theme ? "dark" : "light";
    this.title.textContent = this.model.get("meta").title;
    this.schedule();
  }

  schedule() { if (!this.frame && this.ink) this.frame = requestAnimationFrame(() => this.tick()); }

  tick() {
    this.frame = 0;
    this.store.take(this.chart, this.look.layers.length);
    this.paint();
    this.say();
    Object.assign(this.over.dataset, { painted: this.look.layers.length, frames: ++this.frames });
  }

  paint() {
    const { over } = this, dpr = devicePixelRatio || 1, c = (this.pen = pen(over));
    this.width = max(240, this.stage.clientWidth);
    const plan = (this.plan = layOut(this)), size = [round(this.width * dpr), round(plan.height * dpr)];
    if (over.width !== size[0] || over.height !== size[1]) [over.width, over.height] = size;
    over.style.cssText = `width:${this.width}px;height:${plan.height}px`;
    c.setTransform(dpr, 0, 0, dpr, 0, 0);
    Object.assign(c, { textBaseline: "middle", fillStyle: this.paper });
    c.fillRect(0, 0, this.width, plan.height);
    strip(this);
    rows(this);
    planned(this);
  }

  // -- words ----------------------------------------------------------------------------------------------------

  // A layer: where it is and what it takes.
  tell(layer) {
    const [name] = this.look.layers[layer], [time, parameters, activations] = this.look.words[layer], stage = this.store.of[layer];
    const at = this.chart.stages.filter(({ number }) => number % this.plan.count === stage);
    const more = at.some(({ flight }) => flight > 1) ? ` for each of ${[...new Set(at.map(({ flight }) => flight))].join(" or ")} micro-batches in flight` : "";
    return [`${name}, layer ${layer}, on rank ${at.map(({ rank }) => rank).join(", ")}, stage ${stage}`, `${time} a micro-batch`, `${parameters} of parameters`, `${activations} of activations${more}`];
  }

  say() {
    const { chart, store, at } = this, said = this.model.get("said"), key = this.look.measures[at][0];
    const text = store.layer >= 0 ? dots(...this.tell(store.layer)) : said.text || (chart.cut.length ? "Drag a cut, or choose it with ↑ ↓ and move it with ← →. Keys: ?" : "One stage: there is nothing to cut.");
    if (this.info.textContent !== text) this.info.textContent = text;
    this.info.classList.toggle("pk-refused", !!said.refused && store.layer < 0);
    this.status.textContent = dots(chart.line, chart.plan);
    this.over.ariaLabel = `Layers on ranks. ${chart.cut.length ? `Cut before stage ${store.stage}, at ${this.look.layers[chart.cut[store.stage - 1]][0]}, is chosen. ` : ""}${text} ${chart.line}. ${chart.plan}`;
    this.shown.selectedIndex = at;
    this.even.textContent = `Balance by ${key}`;
    this.even.title = `Cut anew, so that stages are as even as can be in ${key} (b)`;
    const off = { u: !chart.undo, r: !chart.redo, b: !chart.cut.length };
    for (const node of this.root.querySelectorAll("button")) node.disabled = !!off[node.value];
    for (const [value, on] of [["t", !this.table.hidden], ["?", !this.help.hidden]]) this.root.querySelector(`button[value="${value}"]`).ariaPressed = on;
    if (!this.table.hidden && this.filled !== chart.table) this.fill();
  }

  fill() {
    const [head, ...lines] = (this.filled = this.chart.table), table = make("table"), line = (cells, tag) => { const tr = make("tr", table); for (const cell of cells) make(tag, tr, cell); };
    line(head, "th");
    for (const cells of lines) line(cells, "td");
    this.table.replaceChildren(table);
  }

  // -- what the reader wants ------------------------------------------------------------------------------------

  ask(message) { this.model.send({ type: "do", ...message }); }

  // Where a stage begins once Python has answered.
  begin(stage) { return [this.wanted, this.sent].find((one) => one?.stage === stage)?.to ?? this.store.begins[stage]; }

  // To another layer, if there is room.
  move(stage, place, gesture) {
    const { store } = this, to = store.between(stage, place);
    store.layer = -1;
    if (to !== this.begin(stage)) slide(this, { what: "move", stage, to, gesture });
  }

  show(at) {
    this.model.set("measure", this.look.measures[at][0]);
    this.model.save_changes();
  }

  choose(stage) { assign(this.store, { stage: max(1, min(this.chart.cut.length, stage)), layer: -1 }); this.schedule(); }

  visit(layer) { this.store.layer = max(0, min(this.look.layers.length - 1, layer)); this.schedule(); }

  toggle(node) { node.hidden = !node.hidden; this.schedule(); }

  act(key) {
    const { store, chart } = this, cuts = chart.cut.length, begin = cuts && this.begin(store.stage), wish = (what) => { store.layer = -1; this.ask({ what, by: this.look.measures[this.at][0] }); };
    const acts = {
      ArrowLeft: () => cuts && this.move(store.stage, begin - 1), ArrowRight: () => cuts && this.move(store.stage, begin + 1),
      ArrowUp: () => this.choose(store.stage - 1), ArrowDown: () => this.choose(store.stage + 1), n: () => this.visit(store.layer + 1), p: () => this.visit(store.layer - 1),
      1: () => this.show(0), 2: () => this.show(1), 3: () => this.show(2),
      b: () => cuts && wish("balance"), u: () => wish("undo"), r: () => wish("redo"),
      t: () => this.toggle(this.table), "?": () => this.toggle(this.help), Escape: () => { if (!this.help.hidden) this.act("?"); store.layer = -1; this.schedule(); },
    };
    return acts[key] && (acts[key](), true);
  }

  keydown(e) {
    const back = (e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "z";
    if (back ? this.act(e.shiftKey ? "r" : "u") : !e.ctrlKey && !e.metaKey && !e.altKey && this.act(e.key)) { e.preventDefault(); e.stopPropagation(); }
  }

  // -- the pointer ----------------------------------------------------------------------------------------------

  // The cut or the layer at a place of the picture.
  pick({ offsetX: x, offsetY: y }) {
    const { plan, store } = this, { edges } = plan, rank = floor((y - plan.head) / plan.tall);
    if (y < plan.head - 26) {
      const cuts = this.chart.cut.map((place, k) => [abs(edges[place] - x), k + 1]).sort((a, b) => a[0] - b[0]), [far, stage] = cuts[0] ?? [Infinity];
      return far <= NEAR ? { stage } : y >= TOP && y < TOP + STRIP ? { layer: edges.findLastIndex((edge) => edge <= x) } : {};
    }
    const found = rank >= 0 && rank < this.chart.totals.length ? segments(this, rank).find(([, , from, w]) => x >= from && x < from + w) : null;
    return found ? { layer: found[0] } : {};
  }

  pointerdown(e) {
    const { stage, layer = -1 } = this.pick(e), known = layer < this.look.layers.length ? layer : -1;
    if (stage) { this.drag = { stage, gesture: `${Date.now()}.${++this.store.gesture}` }; this.over.setPointerCapture?.(e.pointerId); this.choose(stage); }
    else { this.store.layer = known === this.store.layer ? -1 : known; this.schedule(); }
  }

  pointermove(e) {
    const { drag, plan, tip } = this;
    if (drag) {
      const { edges } = plan, nearest = edges.reduce((best, edge, k) => (abs(edge - e.offsetX) < abs(edges[best] - e.offsetX) ? k : best), 0);
      tip.hidden = true;
      this.move(drag.stage, nearest, drag.gesture);
      return;
    }
    const { stage, layer = -1 } = this.pick(e);
    this.over.classList.toggle("pk-grip", !!stage);
    if ((tip.hidden = layer < 0 || layer >= this.look.layers.length)) return;
    const [head, ...lines] = this.tell(layer);
    tip.replaceChildren(make("b", null, head), ...lines.map((text) => make("div", null, text)));
    tip.style.cssText = `left:${max(0, min(e.offsetX + 14, this.width - tip.offsetWidth - 4))}px;top:${e.offsetY + 18}px`;
  }

  pointerup() { this.drag = null; }
  pointerleave() { this.tip.hidden = true; }
}
