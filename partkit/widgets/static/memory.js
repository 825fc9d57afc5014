// One place where memory is shown. Everything is repainted when there is something new, at most once a frame.
const PEAKS = 150, MAX_PANELS = 4, MAX_ROWS = 200;

class View {
  // `seen` is called once the element is on a page: before, it has neither size nor style.
  constructor(store, model, el, seen) {
    Object.assign(this, { store, model, seen, chosen: 0, kept: null, hover: null, frame: 0, frames: 0, filled: 0, painted: false, panels: [] });
    furnish(this, el, "partkit-memory");
    follow(this, () => this.looks, () => this.resize());
    this.calm = matchMedia("(prefers-reduced-motion)");
    this.switched = () => this.schedule();
    model.on("change:x", this.switched);
    for (const name of ["keydown", "pointerdown", "pointermove", "pointerleave"]) this.over[`on${name}`] = (e) => this[name](e);
  }

  get meta() { return this.model.get("meta"); }
  get accounts() { return this.store.accounts; }
  get top() { return [...this.accounts].sort((a, b) => b.most - a.most)[0]; }
  get account() { return this.accounts[this.chosen]; }

  dispose() { vanish(this, ["x"], this.switched); }

  restyle() {
    const { color, backgroundColor } = getComputedStyle(this.root), [r, g, b] = backgroundColor.match(/[\d.]+/g) ?? [], c = this.main.getContext("2d");
    if (!color) return;
    const theme = 0.3 * r + 0.6 * g + 0.1 * b < 128 ? "dark" : "light";
    Object.assign(this, { ink: color, paper: backgroundColor });
    this.looks = this.model.get("look").uses.map((look) => ({ ...look, use: USES.indexOf(look.name), color: look[theme], pattern: look.hatch && hatch(c, look.hatch, "#000") }));
    this.root.dataset.theme = theme;
    this.title.textContent = this.meta.title;
    this.resize();
  }

  resize() {
    const dpr = devicePixelRatio || 1, number = this.accounts.length, shown = number <= MAX_PANELS ? max(1, number) : 1;
    this.tall = this.meta.height ? this.meta.height / shown : { 1: 260, 2: 200 }[shown] ?? 165;
    this.height = shown * this.tall + 20 + (number > 1 ? PEAKS : 0);
    this.width = max(160, this.stage.clientWidth);
    this.stage.style.height = `${this.height}px`;
    for (const canvas of [this.main, this.over]) {
      Object.assign(canvas, { width: round(this.width * dpr), height: round(this.height * dpr) });
      canvas.getContext("2d").scale(dpr, dpr);
    }
    this.schedule();
  }

  // At the next frame; twice a second at most for a run that goes on if the reader wants little motion.
  schedule() {
    if (this.frame || !this.looks) return;
    this.frame = this.calm.matches && this.meta.live && this.painted ? -setTimeout(() => this.tick(), 500) : requestAnimationFrame(() => this.tick());
  }

  tick() {
    this.frame = 0;
    if (this.shape !== this.store.shape) { this.shape = this.store.shape; this.hover = this.kept = null; this.chosen = max(0, this.accounts.indexOf(this.top)); this.resize(); this.schedule(); return; }
    this.paint();
    this.point();
    this.say();
    if (!this.table.hidden && (!this.meta.live || performance.now() - this.filled > 1000)) this.fill();
    this.painted = true;
    Object.assign(this.over.dataset, { painted: this.accounts.reduce((sum, account) => sum + account.n, 0), frames: ++this.frames });
  }

  paint() {
    const { accounts, width, height } = this, c = this.main.getContext("2d"), shown = accounts.length <= MAX_PANELS ? accounts : [this.account];
    c.fillStyle = this.paper;
    c.fillRect(0, 0, width, height);
    c.font = FONT;
    c.textBaseline = "middle";
    brush(c, this, "center");
    this.panels = [];
    if (!accounts.length) { c.fillText(this.meta.live ? "no memory noted yet" : this.model.get("look").nothing, width / 2, height / 2, width - 20); return; }
    this.counted = this.model.get("x") === "changes" || shown.every((account) => account.still);
    const first = min(...shown.map((account) => account.x(0, this.counted))), last = max(...shown.map((account) => account.x(account.n - 1, this.counted)));
    this.range = { first, span: last - first };
    const most = max(1, ...accounts.map((account) => account.most)), caps = accounts.map((account) => account.cap).filter((cap) => cap && cap <= 2.5 * most);
    this.most = 1.08 * max(most, ...caps);
    this.panels = shown.map((account, k) => new Panel(this, account, k * this.tall, this.tall));
    for (const panel of this.panels) panel.draw(c);
    brush(c, this, "right");
    c.fillText(this.counted ? "changes of memory, by number" : `${unit(last)[1]}, ${this.meta.clock}`, LEFT + this.panels[0].wide, this.panels.length * this.tall + 10);
    if (accounts.length > 1) this.peaks(c, this.panels.length * this.tall + 20);
  }

  // The peak of every account as a column; the chosen one is underlined.
  peaks(c, top) {
    const { accounts, width } = this, panel = new Panel(this, accounts[0], top, PEAKS - 20), each = (this.each = (width - LEFT - 16) / max(accounts.length, 12)), step = ceil(64 / each);
    panel.heading(c, "peak of each rank", []);
    accounts.forEach((account, k) => {
      const x = LEFT + (k + 0.5) * each, thick = min(COLUMN, max(1, each * 0.8));
      let base = 0;
      this.looks.forEach(({ use }, place) => { const low = panel.y(base), value = account.value(account.peak, use); if (value) panel.paint(c, new Path2D(`M${x - thick / 2} ${low}h${thick}V${panel.y((base += value))}h${-thick}z`), place); });
      brush(c, this, "center");
      if (account.cap && account.cap <= this.most) c.fillRect(x - each * 0.45, panel.y(account.cap), each * 0.9, 1.5);
      if (k === this.chosen) c.fillRect(x - max(3, thick / 2), panel.bottom + 2, max(6, thick), 3);
      if (k % step === 0) c.fillText(account.label.replace(/ranks? /, ""), x, panel.bottom + 14, 64);
    });
    c.fillRect(LEFT, panel.bottom, width - LEFT - 16, 1);
  }

  // What is pointed at, on a canvas of its own.
  point() {
    const c = this.over.getContext("2d");
    c.clearRect(0, 0, this.width, this.height);
    for (const spot of new Set([this.kept, this.hover])) this.panels.find((panel) => panel.account === spot?.account)?.dot(c, spot.i, 6);
  }

  tell({ account, i }) {
    const parts = this.looks.map(({ name, use }) => account.value(i, use) && `${name} ${bytes(account.value(i, use))}`).filter(Boolean).reverse();
    return [`${account.label}: ${bytes(account.total(i))}`, dots(this.counted ? `change ${i + 1} of ${account.n}` : seconds(account.time[i]), this.store.where(account, i)), ...parts];
  }

  say() {
    const { accounts, kept } = this, top = this.top, m = this.meta, chosen = kept ? this.tell(kept) : [];
    const said = kept ? `${chosen[0]}; ${chosen.slice(1).join(", ")}` : "";
    if (this.info.textContent !== said) this.info.textContent = said;
    const full = top?.cap && `${percent(top.most, top.cap)} of the device's ${bytes(top.cap)}`;
    this.status.textContent = dots(top ? `peak ${bytes(top.most)} on ${top.label}` : "no memory noted", full, words(this.store.size, "rank"), m.live ? "running" : "finished", m.note);
    const shares = (top?.shares ?? []).slice(0, 3).map(([use, what, n, nbytes]) => [use, n > 1 && n + " x", what, bytes(nbytes)].filter(Boolean).join(" "));
    this.largest.textContent = shares.length ? "Largest at that peak: " + shares.join("; ") : "";
    this.over.ariaLabel = `Memory over time. ${this.status.textContent}. ${said || "Keys: ?"}`;
    const used = this.looks.filter(({ use }) => accounts.some((account) => account.value(account.peak, use) || account.value(account.n - 1, use)));
    const key = used.map((look) => look.name + look.color).join();
    if (this.legendKey !== key) { this.legendKey = key; this.chips(used); }
    for (const [value, on] of [["x", this.counted], ["t", !this.table.hidden], ["?", !this.help.hidden]]) this.root.querySelector(`button[value="${value}"]`).ariaPressed = !!on;
  }

  chips(used) {
    this.legend.replaceChildren();
    for (const { name, color, hatch: kind } of used) {
      const chip = make("span", this.legend), box = make("i", chip, kind || "\u00a0");
      box.style.cssText = `--fill:${color};--edge:${this.ink};--ink:#000;background:${color}`;
      chip.append(name);
    }
  }

  // -- moving about ---------------------------------------------------------------------------------------------

  keep(i) { this.kept = i === undefined ? null : { account: this.account, i: max(0, min(this.account.n - 1, i)) }; this.schedule(); }

  toggle(node) { node.hidden = !node.hidden; this.filled = 0; this.schedule(); }

  choose(k) {
    const { kept } = this, place = kept && kept.account.x(kept.i, this.counted);
    this.chosen = (k + this.accounts.length) % this.accounts.length;
    this.keep(kept ? this.account.at(place, this.counted) : undefined);
    this.filled = 0;
  }

  act(key, far) {
    const { account } = this, i = this.kept?.i ?? account?.n, hop = far ? max(1, round(account?.n / 10)) : 1;
    const acts = {
      ArrowLeft: () => this.keep(i - hop), ArrowRight: () => this.keep(i + hop), ArrowUp: () => this.choose(this.chosen - 1), ArrowDown: () => this.choose(this.chosen + 1),
      Home: () => this.keep(0), End: () => this.keep(account.n - 1), p: () => this.keep(account.peak),
      x: () => { this.model.set("x", this.model.get("x") === "changes" ? "seconds" : "changes"); this.model.save_changes(); this.schedule(); },
      t: () => this.toggle(this.table), "?": () => this.toggle(this.help), Escape: () => (this.help.hidden ? this.keep() : this.act("?")),
    };
    return acts[key] && (account || key.length === 1) && (key !== "p" || account) && (acts[key](), true);
  }

  keydown(e) { if (!e.ctrlKey && !e.metaKey && !e.altKey && this.act(e.key, e.shiftKey)) { e.preventDefault(); e.stopPropagation(); } }

  pick({ offsetX, offsetY }) {
    const panel = this.panels.find(({ top, tall }) => offsetY >= top && offsetY < top + tall);
    return panel && offsetX >= LEFT - 6 ? { account: panel.account, i: panel.account.at(panel.place(offsetX), this.counted) } : null;
  }

  // The account whose column is at this place, below the panels; -1 for none.
  column({ offsetX, offsetY }) {
    const k = this.accounts.length > 1 && offsetY > this.panels.length * this.tall + 20 ? floor((offsetX - LEFT) / this.each) : -1;
    return k < this.accounts.length ? k : -1;
  }

  pointermove(e) {
    const { tip } = this, k = this.column(e), spot = k < 0 ? this.pick(e) : { account: this.accounts[k], i: this.accounts[k].peak };
    tip.hidden = !spot;
    if (spot) {
      tip.replaceChildren(...this.tell(spot).map((line, n) => make(n ? "div" : "b", null, line)));
      tip.style.cssText = `left:${max(0, min(e.offsetX + 16, this.width - tip.offsetWidth - 4))}px;top:${e.offsetY + 18}px`;
    }
    this.over.style.cursor = k < 0 ? "crosshair" : "pointer";
    this.hover = k < 0 ? spot : null;
    this.schedule();
  }

  pointerleave() { this.tip.hidden = true; this.hover = null; this.schedule(); }

  pointerdown(e) {
    const k = this.column(e), spot = this.pick(e);
    if (k >= 0) this.choose(k);
    else if (spot) { this.chosen = this.accounts.indexOf(spot.account); this.keep(spot.i); }
  }

  // The table twin: the chosen account's states, evenly chosen if there are many.
  fill() {
    const { account } = this, table = make("table"), n = min(account?.n ?? 0, MAX_ROWS);
    make("caption", table, account ? `Bytes on ${account.label}${n < account.n ? ` at ${n} of ${words(account.n, "change")}` : ""}` : "no memory noted");
    const line = (cells, tag) => { const tr = make("tr", table); for (const cell of cells) make(tag, tr, cell); return tr; };
    line(["change", "time", ...this.looks.map((look) => look.name), "all", "where"], "th");
    for (let k = 0; k < n; k++) {
      const i = round(n > 1 ? k * (account.n - 1) / (n - 1) : 0);
      line([i + 1, seconds(account.time[i]), ...this.looks.map(({ use }) => account.value(i, use).toLocaleString("en-US")), account.total(i).toLocaleString("en-US"), this.store.where(account, i)], "td").onclick = () => this.keep(i);
    }
    this.table.replaceChildren(table);
    this.filled = performance.now();
  }
}
