// A cluster's map: it shows what Python has drawn, marks what is chosen, and sends what its reader wants; Python decides everything.
const TRAITS = ["chart", "said"], ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

class View {
  // `seen` is called once the element is on a page: before, it has neither size nor style.
  constructor(store, model, el, seen) {
    Object.assign(this, { store, model, seen, frame: 0, frames: 0, drawn: {} });
    furnish(this, el, "partkit-cluster");
    for (const node of this.root.querySelectorAll("select")) node.onkeydown = (e) => e.stopPropagation();
    follow(this, () => this.ready, () => this.schedule());
    this.changed = () => this.schedule();
    for (const name of TRAITS) model.on(`change:${name}`, this.changed);
    this.over.onkeydown = (e) => this.keydown(e);
    this.stage.onpointermove = (e) => this.hover(e);
    this.stage.onpointerleave = () => { this.tip.hidden = true; };
    this.stage.onclick = (e) => this.click(e);
    this.root.addEventListener("focusout", (e) => { if (!this.root.contains(e.relatedTarget)) model.send({ type: "do", what: "settle" }); });
  }

  get look() { return this.model.get("look"); }
  get chart() { return this.model.get("chart"); }

  dispose() { vanish(this, TRAITS, this.changed); }

  restyle() {
    const { color, backgroundColor } = getComputedStyle(this.root), [r, g, b] = backgroundColor.match(/[\d.]+/g) ?? [];
    if (!color) return;
    this.ready = true;
    this.root.dataset.theme = 0.3 * r + 0.6 * g + 0.1 * b < 128 ? "dark" : "light";
    this.title.textContent = this.model.get("meta").title;
    this.schedule();
  }

  schedule() { if (!this.frame && this.ready) this.frame = requestAnimationFrame(() => this.tick()); }

  tick() {
    const { chart, look } = this, width = this.stage.clientWidth, fits = look.maps.findIndex(({ wide }) => wide <= width), at = (this.at = fits < 0 ? look.maps.length - 1 : fits), { wide, high } = look.maps[at];
    this.frame = 0;
    this.put(this.over, look.maps[at].svg + `<g class="k-marks">${chart.marks[at]}</g>`, wide, high);
    this.ends.style.display = chart.ends.length ? "" : "none";
    if (chart.ends.length) this.put(this.ends, chart.ends[at], wide, look.chart);
    this.say();
    Object.assign(this.over.dataset, { painted: chart.ranks.length, frames: ++this.frames });
  }

  // Only what has changed is parsed again.
  put(svg, markup, wide, high) {
    const key = svg.dataset.part;
    if (this.drawn[key] !== markup) { this.drawn[key] = markup; svg.innerHTML = markup; }
    svg.setAttribute("viewBox", `0 0 ${wide} ${high.toFixed(0)}`);
    svg.style.width = `${min(wide, this.stage.clientWidth)}px`;
  }

  // The words for a target: what it is, and what is wrong with it.
  tell(target) {
    const [kind, ...numbers] = target.split(" "), { chart } = this, wrong = chart.told.filter(([name]) => name === target).map(([, words]) => words.slice(words.indexOf(": ") + 2));
    const what = kind === "rank" ? chart.ranks[numbers[0]] : kind === "wire" ? chart.wires[numbers[0]] : kind === "links" ? `all links of rank ${numbers[0]}` : `the link between rank ${numbers[0]} and rank ${numbers[1]}`;
    return dots(what, ...wrong);
  }

  say() {
    const { store, chart } = this, said = this.model.get("said"), text = store.from >= 0 ? `Link from rank ${store.from} to rank ${store.rank === store.from ? "..." : store.rank}? Arrows and Enter, or a click` : this.tell(store.target);
    const shown = said.refused ? `Not possible: ${said.text}` : text, chosen = store.kind === "wire" ? [store.target] : store.numbers.map((n) => `rank ${n}`);
    if (this.info.textContent !== shown) this.info.textContent = shown;
    this.status.textContent = chart.running ? "running ..." : chart.head;
    for (const node of this.root.querySelectorAll("[data-target]")) node.classList.toggle("k-chosen", chosen.includes(node.dataset.target));
    this.over.classList.toggle("k-links", store.kind === "links");
    this.over.ariaLabel = `Map of a cluster. ${shown} ${chart.head}. Keys: ?`;
    const off = { k: store.kind !== "rank", u: !chart.undo, r: !chart.told.length, h: !chart.told.some(([name]) => name === store.target) };
    for (const node of this.root.querySelectorAll("button")) node.disabled = chart.running || !!off[node.value];
    for (const [value, on] of [["l", store.kind === "links"], ["p", store.from >= 0], ["t", !this.table.hidden], ["?", !this.help.hidden]]) this.root.querySelector(`button[value="${value}"]`).ariaPressed = on;
    if (!this.table.hidden) this.fill();
  }

  ask(what, more) {
    if (this.chart.running) return;
    this.model.send({ type: "do", what, target: this.store.target, ...more });
  }

  // Choose a rank or a link; the second rank of a pair, if the first has been marked.
  choose(target) {
    const { store } = this, rank = target.startsWith("rank ") ? Number(target.slice(5)) : -1;
    this.model.set("said", {});
    if (store.from >= 0 && rank >= 0 && rank !== store.from) { store.choose(`pair ${min(rank, store.from)} ${max(rank, store.from)}`); store.from = -1; } else store.choose(target);
    this.schedule();
  }

  act(key) {
    const { store, look } = this, factor = Number(this.factor.value), part = Number(this.when.value);
    const wire = (way) => { if (look.wires) this.choose(`wire ${((store.kind === "wire" ? store.numbers[0] + way : way > 0 ? 0 : -1) + look.wires) % look.wires}`); };
    const acts = {
      s: () => this.ask("slow", { factor }), k: () => store.kind === "rank" && this.ask("kill", { part }), h: () => this.ask("heal"), u: () => this.ask("undo"), r: () => this.ask("reset"),
      l: () => this.choose(`${store.kind === "links" ? "rank" : "links"} ${store.rank}`), p: () => { store.from = store.from < 0 ? store.rank : -1; this.schedule(); },
      w: () => wire(1), W: () => wire(-1), Home: () => this.choose("rank 0"), End: () => this.choose(`rank ${this.chart.ranks.length - 1}`), Enter: () => this.choose(`rank ${store.rank}`),
      t: () => this.toggle(this.table), "?": () => this.toggle(this.help), Escape: () => { if (!this.help.hidden) this.act("?"); store.from = -1; this.schedule(); },
    };
    if (ARROWS[key]) {
      const rank = store.next(look.maps[this.at].places, ARROWS[key]), from = store.from;
      store.from = -1;
      this.choose(`rank ${rank}`);
      store.from = from;
      return true;
    }
    return acts[key] && (acts[key](), true);
  }

  keydown(e) {
    const { store } = this, back = (e.ctrlKey || e.metaKey) && e.key === "z";
    if (back ? this.act("u") : !e.ctrlKey && !e.metaKey && !e.altKey && this.act(e.key === "Enter" && store.from >= 0 ? "Enter" : e.key)) { e.preventDefault(); e.stopPropagation(); }
  }

  targetOf(e) { return e.target.closest?.("[data-target]")?.dataset.target; }

  click(e) {
    const target = this.targetOf(e), { store } = this;
    if (!target) return;
    if (e.shiftKey && target.startsWith("rank ") && store.kind === "rank") store.from = store.rank;
    this.choose(target);
    this.over.focus({ preventScroll: true });
  }

  hover(e) {
    const target = this.targetOf(e), { tip } = this;
    if ((tip.hidden = !target)) return;
    const box = this.stage.getBoundingClientRect();
    tip.textContent = this.tell(target);
    tip.style.cssText = `left:${max(0, min(e.clientX - box.left + 14, box.width - tip.offsetWidth - 4))}px;top:${e.clientY - box.top + 16}px`;
  }

  toggle(node) { node.hidden = !node.hidden; this.schedule(); }

  fill() {
    const { chart } = this, table = make("table");
    make("caption", table, "What is wrong, and every rank");
    const line = (text, target) => { const tr = make("tr", table); make("td", tr, text); tr.onclick = () => this.choose(target); };
    for (const [target, words] of chart.told) line(words, target);
    chart.ranks.forEach((text, rank) => line(text, `rank ${rank}`));
    this.table.replaceChildren(table);
  }
}
