// One place where the costs of a collective are shown. The curves come from Python, which alone knows the formulas; a slider sets a
// trait, and Python answers with other curves. What is drawn, and what is the same: partkit/figures/cost_picture.py.
const TOP = 36, FOOT = 46, LEFT = 74, FONT = "13px system-ui, sans-serif", BOLD = `600 ${FONT}`, TRAITS = ["ranks", "nbytes", "latency", "bandwidth", "channels", "operation", "chart"];

class View {
  // `seen` is called once the element is on a page: before, it has neither size nor style.
  constructor(store, model, el, seen) {
    Object.assign(this, { store, model, seen, hover: null, frame: 0, frames: 0 });
    furnish(this, el, "partkit-cost");
    this.controls = SLIDERS.map((one) => new Slider(this, one));
    for (const name of model.get("look").operations) make("option", this.operations, name);
    this.listen();
  }

  get meta() { return this.model.get("meta"); }
  get found() { return this.model.get("chart"); }

  listen() {
    follow(this, () => this.ink, () => this.schedule());
    this.switched = () => this.schedule();
    for (const name of TRAITS) this.model.on(`change:${name}`, this.switched);
    for (const name of ["keydown", "pointerdown", "pointermove", "pointerleave"]) this.over[`on${name}`] = (e) => this[name](e);
    this.operations.onchange = () => this.set("operation", this.operations.value);
    this.operations.onkeydown = (e) => e.stopPropagation();
  }

  dispose() { vanish(this, TRAITS, this.switched); }

  restyle() {
    const { color, backgroundColor } = getComputedStyle(this.root), [r, g, b] = backgroundColor.match(/[\d.]+/g) ?? [];
    if (!color) return;
    Object.assign(this, { ink: color, paper: backgroundColor, theme: 0.3 * r + 0.6 * g + 0.1 * b < 128 ? 1 : 0 });
    this.root.dataset.theme = this.theme ? "dark" : "light";
    this.title.textContent = this.meta.title;
    this.schedule();
  }

  schedule() { if (!this.frame && this.ink) this.frame = requestAnimationFrame(() => this.tick()); }

  tick() {
    this.frame = 0;
    const { found, store } = this;
    this.points = [...store.points.values()].filter((point) => point.operation === found.operation && point.ranks === found.ranks);
    this.names = [...new Set([...found.curves.map(({ name }) => name), ...this.points.map(({ algorithm }) => algorithm)])];
    for (const control of this.controls) control.show();
    this.operations.value = this.model.get("operation");
    this.fit.disabled = found.ranks < 2 || this.points.filter(({ algorithm }) => found.curves.some(({ name }) => name === algorithm)).length < 2;
    this.resize();
    this.frameOf();
    this.bands();
    this.lines();
    this.dots();
    this.overlay();
    this.say();
    if (!this.table.hidden) this.fill();
    Object.assign(this.over.dataset, { painted: store.n, frames: ++this.frames });
  }

  resize() {
    const dpr = devicePixelRatio || 1, { found, points } = this, c = (this.c = this.main.getContext("2d"));
    this.width = max(240, this.stage.clientWidth);
    this.height = this.meta.height || (this.width < 520 ? 320 : 430);
    this.stage.style.height = `${this.height}px`;
    for (const canvas of [this.main, this.over]) {
      const [w, h] = [round(this.width * dpr), round(this.height * dpr)];
      if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
      canvas.getContext("2d").setTransform(dpr, 0, 0, dpr, 0, 0);
    }
    c.font = FONT;
    this.narrow = this.width < 520; // names go above the picture
    this.right = this.narrow ? 16 : round(min(this.width * 0.36, 44 + max(100, ...this.names.map((name) => c.measureText(name).width))));
    this.chips();
    const times = [...found.curves.flatMap(({ seconds }) => [seconds[0], seconds.at(-1)]), ...points.flatMap(({ low, high }) => [low, high])].filter((t) => t > 0);
    const [low, high] = times.length ? [min(...times), max(...times)] : [1e-6, 1];
    this.across = new Axis(found.sizes[0], found.sizes.at(-1), LEFT, this.width - this.right);
    this.up = new Axis(10 ** floor(log10(low * 0.8)), 10 ** ceil(log10(high * 1.1)), this.height - FOOT, TOP);
  }

  look(name) {
    const { colors, dashes, markers } = this.model.get("look"), k = max(0, this.names.indexOf(name));
    return { color: colors[k % colors.length][this.theme], dash: dashes[k % dashes.length], marker: markers[k % markers.length] };
  }

  chips() {
    const { found, points, legend, meta } = this;
    legend.hidden = !this.narrow;
    legend.replaceChildren();
    if (!this.narrow) return;
    make("b", legend, points.length ? `lines: model, dots: ${meta.note}` : "lines: model");
    for (const [k, name] of this.names.entries()) {
      const { color, dash, marker } = this.look(name), chip = make("span", legend), modelled = k < found.curves.length;
      chip.innerHTML = `<svg width="30" height="11" viewBox="-15 -5.5 30 11" aria-hidden="true"><path d="${modelled ? "M-15 0h30" : ""}" stroke-width="2.5" stroke-dasharray="${dash}"/><path stroke="none" d="${points.length ? marker : ""}"/></svg>`;
      chip.firstChild.style.cssText = `margin-right:5px;stroke:${color};fill:${color}`;
      chip.append(name + (modelled ? "" : " (no model)"));
    }
  }

  frameOf() {
    const { c, across, up, width, height, right } = this, bottom = height - FOOT, end = width - right;
    Object.assign(c, { fillStyle: this.paper, font: FONT, textBaseline: "middle", textAlign: "center" });
    c.fillRect(0, 0, width, height);
    c.fillStyle = this.ink;
    const grid = (...box) => { c.globalAlpha = 0.16; c.fillRect(...box); c.globalAlpha = 1; }, every = ceil(52 / ((end - LEFT) / 9));
    for (const k of across.powers()) { const x = across.at(10 ** k); grid(x, TOP, 1, bottom - TOP + 4); if (k % every === 0) c.fillText(bytes(10 ** k), x, bottom + 13); }
    c.textAlign = "right";
    const step = ceil(20 / ((bottom - TOP) / max(1, up.high - up.low)));
    for (const k of up.powers()) { const y = up.at(10 ** k); grid(LEFT, y, end - LEFT, 1); if (k % step === 0) c.fillText(seconds(10 ** k), LEFT - 7, y); }
    c.fillRect(LEFT, bottom, end - LEFT, 1);
    c.fillRect(LEFT, TOP, 1, bottom - TOP);
    Object.assign(c, { font: BOLD, textAlign: "center" });
    c.fillText("bytes of the tensor", (LEFT + end) / 2, height - 10);
    c.save();
    c.translate(10, (TOP + bottom) / 2);
    c.rotate(-Math.PI / 2);
    c.fillText("time", 0, 0);
    c.restore();
  }

  // Which algorithm is the fastest where.
  bands() {
    const { c, across, height, found } = this, { ink } = this.model.get("look");
    Object.assign(c, { font: BOLD, textAlign: "right", fillStyle: this.ink });
    c.fillText("fastest", LEFT - 7, TOP - 18);
    c.textAlign = "center";
    for (const band of found.bands) {
      const x = across.at(band.low), wide = max(1, across.at(band.high) - x - 1), { color } = this.look(band.algorithm);
      c.fillStyle = color;
      c.fillRect(x, TOP - 30, wide, 24);
      c.globalAlpha = 0.07;
      c.fillRect(x, TOP, wide, height - FOOT - TOP);
      c.globalAlpha = 1;
      c.fillStyle = ink[color];
      const name = [band.name, band.algorithm].find((name) => c.measureText(name).width < wide - 6); // of equals the first, if there is no room for all
      if (name) c.fillText(name, x + wide / 2, TOP - 18);
    }
  }

  stroke(style, points) {
    const { c } = this;
    c.setLineDash(style.dash ? style.dash.split(" ").map(Number) : []);
    Object.assign(c, { strokeStyle: style.color, lineWidth: 2.5, lineJoin: "round" });
    c.beginPath();
    for (const [x, y] of points) c.lineTo(x, y);
    c.stroke();
    c.setLineDash([]);
  }

  mark(style, x, y, size = 1) {
    const { c } = this, path = new Path2D(style.marker);
    c.save();
    c.translate(x, y);
    c.scale(size, size);
    Object.assign(c, { fillStyle: style.color, strokeStyle: this.paper, lineWidth: 1.2 });
    c.fill(path);
    c.stroke(path);
    c.restore();
  }

  // The curves, and their names at their ends.
  lines() {
    const { c, found, across, up, width, right, height } = this, bottom = height - FOOT, start = width - right + 6;
    const ends = found.curves.map(({ seconds: t }) => (t.at(-1) > 0 ? up.at(t.at(-1)) : bottom)), at = spread(ends, 17, bottom - 8);
    found.curves.forEach(({ name, seconds: t }, k) => {
      const style = this.look(name);
      this.stroke(style, found.sizes.map((x, i) => [across.at(x), up.at(t[i])]).filter((_, i) => t[i] > 0));
      if (this.narrow) return;
      this.stroke(style, [[start, at[k]], [start + 24, at[k]]]);
      if (this.points.length) this.mark(style, start + 12, at[k]);
      Object.assign(c, { fillStyle: this.ink, font: FONT, textAlign: "left" });
      c.fillText(name, start + 29, at[k], right - 36);
    });
    if (this.narrow) return;
    c.font = BOLD;
    c.fillText("lines: model", start + 18, bottom + 13, right - 24);
  }

  // Medians of a run, with bars from the first to the third quartile.
  dots() {
    const { c, points, across, up, found, width, right, height } = this, start = width - right + 6, clip = (x) => max(found.sizes[0], min(found.sizes.at(-1), x));
    for (const { algorithm, nbytes, low, median, high } of points) {
      const style = this.look(algorithm), x = across.at(clip(nbytes));
      Object.assign(c, { fillStyle: style.color, globalAlpha: 0.55 });
      c.fillRect(x - 1.5, up.at(high), 3, max(1, up.at(low) - up.at(high)));
      c.globalAlpha = 1;
      this.mark(style, x, up.at(median), 1.15);
    }
    if (!points.length || this.narrow) return;
    Object.assign(c, { fillStyle: this.ink, font: BOLD, textAlign: "left" });
    c.fillText(`dots: ${this.meta.note}`, start + 18, height - FOOT + 31, right - 24);
    c.font = FONT;
    this.names.slice(found.curves.length).forEach((name, k) => {
      this.mark(this.look(name), start + 12, TOP - 18 + 17 * k);
      c.fillStyle = this.ink;
      c.fillText(`${name} (no model)`, start + 29, TOP - 18 + 17 * k, right - 36);
    });
  }

  // Above the line of the chosen size, which would strike their numbers out.
  crossings(c) {
    const { found, across, up } = this;
    Object.assign(c, { font: BOLD, textBaseline: "middle", fillStyle: this.ink, lineJoin: "round" });
    for (const { nbytes, seconds: t } of found.crossovers) {
      const x = across.at(nbytes), y = up.at(t);
      Object.assign(c, { strokeStyle: this.ink, lineWidth: 2 });
      c.beginPath();
      c.arc(x, y, 6, 0, 7);
      c.stroke();
      Object.assign(c, { strokeStyle: this.paper, lineWidth: 4 });
      const left = x < LEFT + 80, at = [bytes(nbytes), x + (left ? 9 : -9), y - 13];
      c.textAlign = left ? "left" : "right";
      c.strokeText(...at);
      c.fillText(...at);
    }
  }

  // The chosen size, and the one that is pointed at.
  overlay() {
    const c = this.over.getContext("2d"), { across, height } = this;
    c.clearRect(0, 0, this.width, height);
    c.fillStyle = this.ink;
    for (const [x, alpha] of [[this.model.get("nbytes"), 0.85], [this.hover, 0.35]]) {
      if (x === null) continue;
      c.globalAlpha = alpha;
      c.fillRect(across.at(max(1, min(this.found.sizes.at(-1), x))) - 0.75, TOP, 1.5, height - FOOT - TOP);
    }
    c.globalAlpha = 1;
    this.crossings(c);
  }

  // Times at a size, the fastest first.
  times(x) {
    const { curves, sizes } = this.found;
    return curves.map(({ name, seconds: t }) => [name, timeAt(sizes, t, x)]).sort((a, b) => a[1] - b[1]);
  }

  say() {
    const { found, points, store, meta: m } = this, x = this.model.get("nbytes"), [[best, least] = ["", 0], [second, next] = []] = this.times(x);
    const chosen = `model, ${words(found.ranks, "rank")}${found.channels ? `, ${words(found.channels, "shared channel")}` : ""}, ${bytes(x)}: ${best} ${seconds(least)}` + (!second || !least ? "" : next < 1.005 * least ? `, ${second} the same` : `, then ${second} ${seconds(next)} (${three(next / least)} times)`);
    const others = [...new Set([...store.points.values()].filter((p) => p.operation === found.operation && p.ranks !== found.ranks).map((p) => p.ranks))].sort((a, b) => a - b);
    const runs = points.map((p) => p.runs), calls = `${[...new Set([min(...runs), max(...runs)])].join("-")} ${max(...runs) === 1 ? "call" : "calls"} a dot`;
    const dotted = points.length ? dots(`${m.note}: ${words(points.length, "dot")}`, calls, "dot: median, bar: middle half") : store.points.size ? "" : "no dots: nothing measured";
    const crossed = found.crossovers.map((one) => `${one.before} to ${one.after} at ${bytes(one.nbytes)}`).join(", ");
    if (this.info.textContent !== chosen) this.info.textContent = chosen;
    const late = ["ranks", "latency", "bandwidth", "channels", "operation"].some((name) => found[name] !== this.model.get(name)) && "computing other curves ...";
    this.status.textContent = dots(late, crossed && `crossovers: ${crossed}`, dotted, others.length && `more dots at ${others.join(", ")} ranks`, m.live && "running");
    this.over.ariaLabel = `Time of ${found.operation} over bytes. ${chosen}. ${this.status.textContent}`;
    for (const [key, node] of [["t", this.table], ["?", this.help]]) this.root.querySelector(`button[value="${key}"]`).ariaPressed = !node.hidden;
  }

  // -- moving about ---------------------------------------------------------------------------------------------

  set(name, value) { this.model.set(name, value); this.model.save_changes(); this.schedule(); }

  size(x) { this.set("nbytes", max(1, min(1e9, round(x)))); }

  cross(way) {
    const x = this.model.get("nbytes"), places = this.found.crossovers.map(({ nbytes }) => round(nbytes)).filter((place) => (place - x) * way > 0);
    if (places.length) this.size(way > 0 ? min(...places) : max(...places));
  }

  toggle(node) { node.hidden = !node.hidden; this.schedule(); }

  act(key, far) {
    const [ranks, size] = this.controls, step = far ? 10 : 1, acts = {
      ArrowLeft: () => size.step(-step), ArrowRight: () => size.step(step), n: () => this.cross(1), p: () => this.cross(-1), "+": () => ranks.step(1), "=": () => ranks.step(1), "-": () => ranks.step(-1),
      f: () => this.model.send({ type: "fit" }), t: () => this.toggle(this.table), "?": () => this.toggle(this.help), Escape: () => { if (!this.help.hidden) this.toggle(this.help); },
    };
    return acts[key] && (acts[key](), true);
  }

  keydown(e) { if (!e.ctrlKey && !e.metaKey && !e.altKey && this.act(e.key, e.shiftKey)) { e.preventDefault(); e.stopPropagation(); } }

  inside({ offsetX: x, offsetY: y }) { return x >= LEFT && x <= this.width - this.right && y <= this.height - FOOT; }

  pointerdown(e) { if (this.inside(e)) this.size(two(this.across.value(e.offsetX))); }
  pointerleave() { this.point(null); }
  pointermove(e) { this.point(this.inside(e) ? this.across.value(e.offsetX) : null, e); }

  // Times at this size; dots if the pointer is near some.
  point(x, e) {
    const { tip } = this, near = x === null ? [] : this.points.filter((p) => hypot(this.across.at(p.nbytes) - e.offsetX, this.up.at(p.median) - e.offsetY) < 12);
    tip.hidden = x === null;
    if (x !== null) {
      const rows = near.length
        ? near.map((p) => [`${p.algorithm}, ${bytes(p.nbytes)}, ${this.meta.note}`, `median ${seconds(p.median)} of ${words(p.runs, "call")}, middle half ${seconds(p.low)} to ${seconds(p.high)}`])
        : [[`model at ${bytes(x)}`, ...this.times(x).map(([name, t]) => `${seconds(t)}  ${name}`)]];
      tip.replaceChildren(...rows.flatMap((lines) => lines.map((line, k) => make(k ? "div" : "b", null, line))));
      tip.style.cssText = `left:${max(0, min(e.offsetX + 16, this.width - tip.offsetWidth - 4))}px;top:${e.offsetY + 18}px`;
    }
    if (x !== this.hover) { this.hover = x; this.overlay(); }
  }

  // The table twin: costs at the chosen size, with the dot of that size if there is one.
  fill() {
    const { found, points } = this, table = make("table"), line = (cells, tag) => { const tr = make("tr", table); for (const cell of cells) make(tag, tr, cell); };
    const nearest = (name) => points.find((p) => p.algorithm === name && abs(p.nbytes - found.nbytes) < 0.02 * found.nbytes), measured = found.costs.some(({ name }) => nearest(name));
    make("caption", table, `At ${bytes(found.nbytes)}, ${words(found.ranks, "rank")}; of ranks that differ, the one that sends most`);
    line(["algorithm", "messages of a rank", "bytes of a rank", "steps", "time in the model", ...(measured ? [this.meta.note] : [])], "th");
    for (const { name, messages, bytes: sent, steps, seconds: t } of found.costs) {
      const dot = nearest(name), exact = [messages, sent, steps].map((x) => x.toLocaleString("en-US"));
      line([name, ...exact, seconds(t), ...(measured ? [dot ? seconds(dot.median) : ""] : [])], "td");
    }
    this.table.replaceChildren(table);
  }
}
