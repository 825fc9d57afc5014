// One place where a run is stepped through. `position` messages have gone; the last of them, or all of its round, are looked at.
const MAX_ROWS = 200, FLIGHT = 280, BEAT = 900;

class View {
  // `seen` is called once the element is on a page: before, it has neither size nor style.
  constructor(store, model, el, seen) {
    Object.assign(this, { store, model, seen, frames: 0, spots: [], shown: -1 });
    furnish(this, el, "partkit-stepper");
    this.slider.oninput = () => this.go(Number(this.slider.value));
    this.slider.onkeydown = (e) => this.keydown(e);
    this.listen();
  }

  get meta() { return this.model.get("meta"); }
  get unit() { return this.model.get("unit"); }
  get position() { return max(0, min(this.store.steps.length, this.model.get("position"))); }
  get held() { return this.meta.live && this.meta.held; }

  listen() {
    follow(this, () => this.colors, () => this.resize());
    this.calm = matchMedia("(prefers-reduced-motion)");
    this.changed = () => this.schedule();
    for (const name of ["position", "unit"]) this.model.on(`change:${name}`, this.changed);
    for (const name of ["keydown", "pointerdown", "pointermove", "pointerleave"]) this.over[`on${name}`] = (e) => this[name](e);
  }

  dispose() { clearInterval(this.playing); vanish(this, ["position", "unit"], this.changed); }

  restyle() {
    const { color, backgroundColor } = getComputedStyle(this.root), [r, g, b] = backgroundColor.match(/[\d.]+/g) ?? [], { colors } = this.model.get("look");
    if (!color) return;
    const theme = 0.3 * r + 0.6 * g + 0.1 * b < 128 ? 1 : 0;
    Object.assign(this, { ink: color, paper: backgroundColor, colors: colors.map((pair) => pair[theme]) });
    this.root.dataset.theme = theme ? "dark" : "light";
    this.title.textContent = this.meta.title;
    this.resize();
  }

  resize() { this.width = 0; this.schedule(); }

  color(rank) { return this.colors[rank % this.colors.length]; }

  // Sizes follow the page and the story.
  fit() {
    const { store, meta } = this, width = max(200, this.stage.clientWidth), dpr = devicePixelRatio || 1;
    if (width === this.width && this.version === store.version) return;
    Object.assign(this, { width, version: store.version, plan: layOut(store, meta, width) });
    this.stage.style.height = `${this.plan.height}px`;
    Object.assign(this.over, { width: round(width * dpr), height: round(this.plan.height * dpr) });
    this.pen = this.over.getContext("2d");
    this.pen.scale(dpr, dpr);
    this.pen.textBaseline = "middle";
    this.list();
  }

  schedule() { if (!this.frame && this.colors) this.frame = requestAnimationFrame(() => this.tick()); }

  tick() {
    const { store } = this;
    this.frame = 0;
    if (this.run !== store.run) Object.assign(this, { run: store.run, shown: -1 });
    if (store.follow) this.go(store.steps.length, true);
    this.fit();
    const k = this.position, forward = this.shown >= 0 && k - this.shown === store.current(k, this.unit).length;
    if (k !== this.shown) Object.assign(this, { shown: k, began: forward && !this.calm.matches ? performance.now() : -FLIGHT });
    const flight = min(1, (performance.now() - this.began) / FLIGHT); // of the newest arrow, from 0 to 1
    this.paint(k, 1 - (1 - flight) ** 2);
    if (flight < 1) this.schedule();
    this.say(k);
    if (!this.table.hidden) this.fill(k);
    Object.assign(this.over.dataset, { painted: flight < 1 ? "" : k, frames: ++this.frames });
  }

  paint(k, flight) {
    const { store, pen: c } = this, now = store.current(k, this.unit), open = k === store.steps.length ? store.waiting : [];
    this.spots = [];
    c.fillStyle = this.paper;
    c.fillRect(0, 0, this.width, this.plan.height);
    const gone = this.unit === "round" ? [] : store.current(k, "round").slice(0, -1);
    for (const step of gone) arrow(this, way(this, step.src, step.dst), 1, "gone");
    for (let rank = 0; rank < store.size; rank++) card(this, rank, flight < 1 ? k - now.length : k, [...now, ...open]);
    const ways = [...now.map((step) => [step, "now", flight]), ...open.map((one) => [one, "open", 1])].map(([one, ...look]) => [one, way(this, one.src, one.dst), ...look]);
    for (const [, path, look, t] of ways) arrow(this, path, t, look);
    for (const [one, path, , t] of ways) chip(this, one, along(path, t / 2), ways.length > 2);
  }

  // -- words ----------------------------------------------------------------------------------------------------

  say(k) {
    const { store, meta, unit } = this, { steps, waiting } = store, now = store.current(k, unit), last = now.at(-1), rounds = max(...steps.map(({ round }) => round));
    const all = () => now.slice(0, 8).map(({ src, dst }) => `${src} → ${dst}`).join(", ") + (now.length > 8 ? ", ..." : "");
    const text = !last ? "Start: nothing sent yet" : `Round ${last.round} of ${rounds}, ` + (now.length === 1 ? `message ${k} of ${steps.length}: ${store.tell(last)}` : `${words(now.length, "message")}: ${dots(all(), last.tag)}`);
    if (this.info.textContent !== text) this.info.textContent = text;
    const holding = waiting.filter((one) => one.held).length;
    this.status.textContent = dots(store.head, meta.live ? "running" : "finished", holding && `${words(holding, "message")} held`);
    this.over.ariaLabel = `${text}. Keys: ?`;
    Object.assign(this.slider, { max: steps.length, value: k });
    const end = k === steps.length, pressed = { u: unit === "round", t: !this.table.hidden, "?": !this.help.hidden, " ": !!this.playing };
    const off = { ArrowLeft: !k, Home: !k, ArrowRight: end && !holding, End: end };
    for (const button of this.bar.querySelectorAll("button")) {
      const { value } = button;
      if (value in pressed) button.ariaPressed = pressed[value];
      button.disabled = off[value] ?? false;
      if (button.className) button.hidden = !this.held;
    }
  }

  // Held messages as buttons: whoever can't point at arrows lets them go here.
  list() {
    this.holding.replaceChildren();
    this.holding.hidden = !this.held || !this.store.waiting.length;
    for (const one of this.store.waiting) {
      const button = make("button", this.holding, dots(`${one.src} → ${one.dst}`, one.what, one.tag) + (one.held ? "" : " · on its way"));
      Object.assign(button, { disabled: !one.held, title: "Let it go", onclick: () => { this.let([one]); this.over.focus({ preventScroll: true }); } });
    }
  }

  // The table twin: messages round the position.
  fill(k) {
    const { steps, recorded } = this.store, first = max(0, min(steps.length - MAX_ROWS, k - MAX_ROWS / 2)), rows = steps.slice(first, first + MAX_ROWS), table = make("table");
    make("caption", table, `Messages ${first + 1} to ${first + rows.length} of ${steps.length}`);
    const line = (cells, tag) => { const tr = make("tr", table); for (const cell of cells) make(tag, tr, cell); return tr; };
    line(["message", "round", "from", "to", "bytes", "tag", "in", ...(recorded ? ["data of", "values"] : [])], "th");
    rows.forEach((s, i) => {
      const more = recorded ? [s.who[1], s.content?.values.join(" ") ?? ""] : [], row = line([first + i + 1, s.round, s.src, s.dst, s.nbytes, s.tag, s.span, ...more], "td");
      if (first + i + 1 === k) row.className = "pk-now";
      row.onclick = () => this.go(first + i + 1);
    });
    this.table.replaceChildren(table);
  }

  // -- moving about ---------------------------------------------------------------------------------------------

  go(k, following) {
    this.store.follow = following || (this.meta.live && k >= this.store.steps.length);
    if (k !== this.model.get("position")) this.set("position", k);
  }

  set(name, value) { this.model.set(name, value); this.model.save_changes(); this.schedule(); }

  next() {
    const { store, position: k } = this, holding = store.waiting.filter((one) => one.held);
    if (k < store.steps.length) this.go(store.turn(k, this.unit, 1));
    else if (this.held) this.let(this.unit === "round" ? holding : holding.slice(0, 1));
  }

  // Let held messages go; the picture follows when they arrive.
  let(messages) {
    this.store.follow = true;
    for (const { src, number } of messages) this.model.send({ type: "let", rank: src, number });
  }

  play() {
    clearInterval(this.playing);
    if (this.playing) { this.playing = 0; this.schedule(); return; }
    if (this.position === this.store.steps.length && !this.held) this.go(0);
    this.playing = setInterval(() => {
      this.next();
      if (this.position >= this.store.steps.length && !this.held) this.play();
    }, this.unit === "round" ? 2 * BEAT : BEAT);
    this.schedule();
  }

  toggle(node) { node.hidden = !node.hidden; this.schedule(); }

  act(key) {
    const { store, position: k } = this, acts = {
      ArrowRight: () => this.next(), ArrowLeft: () => this.go(store.turn(k, this.unit, -1)), PageDown: () => this.go(store.turn(k, "round", 1)), PageUp: () => this.go(store.turn(k, "round", -1)),
      Home: () => this.go(0), End: () => this.go(store.steps.length), " ": () => this.play(),
      u: () => this.set("unit", this.unit === "round" ? "message" : "round"),
      t: () => this.toggle(this.table), "?": () => this.toggle(this.help), Escape: () => this.help.hidden || this.act("?"),
    };
    for (const [letter, type] of this.held ? [["r", "run"], ["h", "hold"], ["s", "stop"]] : []) acts[letter] = () => this.model.send({ type });
    return acts[key] && (acts[key](), true);
  }

  keydown(e) { if (!e.ctrlKey && !e.metaKey && !e.altKey && this.act(e.key)) { e.preventDefault(); e.stopPropagation(); } }

  pick({ offsetX: x, offsetY: y }) { return this.spots.findLast((spot) => x >= spot.x && x <= spot.x + spot.w && y >= spot.y && y <= spot.y + spot.h); }

  pointerdown(e) { const { message } = this.pick(e) ?? {}; if (message?.held && this.held) this.let([message]); }

  pointermove(e) {
    const spot = this.pick(e), { tip } = this;
    this.over.style.cursor = spot?.message?.held && this.held ? "pointer" : "";
    if ((tip.hidden = !spot)) return;
    tip.replaceChildren(...spot.lines.map((line, i) => make(i ? "div" : "b", null, line)));
    tip.style.cssText = `left:${max(0, min(e.offsetX + 14, this.width - tip.offsetWidth - 4))}px;top:${e.offsetY + 18}px`;
  }

  pointerleave() { this.tip.hidden = true; }
}
