// One metric's lines on their own scale.
class Panel {
  constructor(view, name, top, tall) {
    const { axis, store, meta } = view, log = view.model.get("log"), lines = store.lines.filter((line) => line.name === name), longest = max(1, ...lines.map((line) => line.n));
    const room = meta.live ? 1.25 : 1, [first, last] = range(store.lines, (line, i) => line.time[i], false), times = Scale.around([first, last]);
    Object.assign(this, { view, name, top, tall, lines, axis, wide: view.width - LEFT - view.right, bottom: top + tall - FOOT });
    this.across = axis === "seconds" ? new Scale(max(0, times.low), meta.live ? last * room : times.high) : new Scale(longest > 1 ? 1 : 0, max(2, ceil(longest * room)));
    this.up = Scale.around(range(lines, (line, i) => line.value[i], log), log);
    this.dense = longest > this.wide;
    this.few = longest * 24 <= this.wide;
    this.done = new Map(lines.map((line) => [line, { n: 0, slot: -1, end: null }]));
  }

  x(line, i) { return LEFT + this.across.at(line.x(i, this.axis)) * this.wide; }
  y(value) { return this.bottom - this.up.at(value) * (this.bottom - this.top - HEAD); }

  // Whether all new points are on the scales.
  fits() {
    return this.lines.every((line) => {
      const out = (x) => abs(x) < MOST && x > (this.up.log ? 1 / MOST : -MOST) && (x < this.up.low || x > this.up.high);
      for (let i = this.done.get(line).n; i < line.n; i++) if (line.x(i, this.axis) > this.across.high || out(line.value[i])) return false;
      return true;
    });
  }

  frame(c) {
    const { view, bottom, wide, top, across, up, axis } = this, [u] = axis === "seconds" ? unit(across.high) : [1];
    const grid = (x, y, w, h) => { c.globalAlpha = 0.16; c.fillRect(x, y, w, h); c.globalAlpha = 1; };
    c.fillStyle = view.ink;
    c.textBaseline = "middle";
    c.textAlign = "left";
    c.font = "600 13px system-ui, sans-serif";
    c.fillText(this.name + (up.log ? ", logarithmic" : ""), 8, top + 12);
    c.font = "13px system-ui, sans-serif";
    c.textAlign = "right";
    for (const tick of up.ticks((bottom - top - HEAD) / 40)) { grid(LEFT, this.y(tick), wide, 1); c.fillText(String(Number(tick.toPrecision(5))), LEFT - 8, this.y(tick)); }
    c.textAlign = "center";
    for (const tick of roundNumbers(across.low, across.high, max(axis === "step" ? 1 : 0, (across.high - across.low) / max(3, wide / 80)))) {
      const x = LEFT + across.at(tick) * wide;
      grid(x, top + HEAD, 1, bottom - top - HEAD + 4);
      c.fillText(Number((tick / u).toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 6 }), x, bottom + 12);
    }
    c.fillRect(LEFT, bottom, wide, 1);
    c.fillRect(LEFT, top + HEAD, 1, bottom - top - HEAD);
    if (!this.lines.length) c.fillText(view.meta.live ? "no values yet" : "no values", LEFT + wide / 2, (top + HEAD + bottom) / 2);
  }

  // Draw the points that came since the last call; all bands below all lines.
  extend() {
    const c = this.view.main.getContext("2d"), parts = this.lines.map((line) => [line, this.done.get(line), this.dense ? this.columns(line, c) : this.points(line)]);
    c.lineWidth = 2;
    c.lineJoin = c.lineCap = "round";
    for (const [line, done, points] of parts) {
      const marked = [];
      let pen = done.end;
      c.strokeStyle = this.view.color(line);
      c.beginPath();
      for (const [x, y] of points) {
        if (pen && y === y) { c.moveTo(...pen); c.lineTo(x, y); }
        pen = y === y ? [x, y] : null;
        const slot = floor((x - LEFT + (line.rank % 4) * GAP / 4) / GAP);
        if (pen && (this.few || slot > done.slot)) { marked.push(pen); done.slot = slot; }
      }
      c.stroke();
      done.end = pen;
      for (const [x, y] of marked) this.view.mark(c, line, x, y);
    }
  }

  points(line) {
    const done = this.done.get(line), out = [];
    for (; done.n < line.n; done.n++) out.push([this.x(line, done.n), this.y(line.value[done.n])]);
    return out;
  }

  // Columns of pixels that are complete (all, if nothing more will come): paints their band, gives their means.
  columns(line, c) {
    const done = this.done.get(line), out = [], column = (i) => floor((this.x(line, i) - LEFT) / COLUMN), newest = column(line.n - 1);
    c.fillStyle = this.view.color(line);
    c.globalAlpha = 0.22;
    while (done.n < line.n && (column(done.n) < newest || !this.view.meta.live)) {
      const at = column(done.n);
      let low = Infinity, high = -Infinity, sum = 0, n = 0;
      for (; done.n < line.n && column(done.n) === at; done.n++) { const v = line.value[done.n]; if (Number.isFinite(v)) { low = min(low, v); high = max(high, v); sum += v; n++; } }
      const bottom = this.y(max(low, this.up.low)), top = this.y(high);
      if (n && top === top) c.fillRect(LEFT + at * COLUMN, top, COLUMN, bottom - top);
      out.push([LEFT + (at + 0.5) * COLUMN, n ? this.y(sum / n) : NaN]);
    }
    c.globalAlpha = 1;
    return out;
  }

  // The name of each line at its end.
  names(c) {
    const { view, top, wide, bottom } = this, ends = this.lines.map((line) => (this.done.get(line).end?.[1] ?? NaN) - top), at = spread(ends, 16, bottom - top);
    c.textAlign = "left";
    this.lines.forEach((line, k) => {
      if (at[k] === undefined) return;
      view.mark(c, line, LEFT + wide + 12, top + at[k]);
      c.fillStyle = view.ink;
      c.fillText(line.label, LEFT + wide + 22, top + at[k], view.right - 24);
    });
  }

  nearest(line, offsetX) {
    const at = (offsetX - LEFT) / this.wide;
    return { line, i: line.nearest(this.across.low + at * (this.across.high - this.across.low), this.axis) };
  }

  far({ line, i }, offsetY) { const y = this.y(line.value[i]); return y === y ? abs(y - offsetY) : Infinity; }

  // A point that is pointed at: a line down to the axis, and the point itself, larger.
  point(c, { line, i }) {
    const { view, top, bottom } = this, x = this.x(line, i), y = this.y(line.value[i]);
    c.fillStyle = view.ink;
    c.globalAlpha = 0.5;
    c.fillRect(x, top + HEAD, 1, bottom - top - HEAD);
    c.globalAlpha = 1;
    if (y !== y) return;
    c.fillStyle = view.paper;
    c.strokeStyle = view.ink;
    c.lineWidth = 1.5;
    c.fill(new Path2D(`M${x - 8} ${y}a8 8 0 1 0 16 0a8 8 0 1 0 -16 0`));
    c.stroke(new Path2D(`M${x - 8} ${y}a8 8 0 1 0 16 0a8 8 0 1 0 -16 0`));
    view.mark(c, line, x, y, 1.3);
  }
}
