// One account's panel: stacked uses over time, spans above, the device's end, the peak and beside it what filled it.
const LEFT = 70, HEAD = 46, FOOT = 24, COLUMN = 36, WORDS = 176, STEP = 2;

const FONT = "13px system-ui, sans-serif", brush = (c, { ink }, textAlign = "left") => Object.assign(c, { fillStyle: ink, strokeStyle: ink, lineWidth: 1, textAlign });
const percent = (part, all) => `${Number((100 * part / all).toPrecision(2))}%`;

// The lines over a colour, as a pattern: the second cue.
function hatch(c, kind, ink) {
  const tile = make("canvas"), t = tile.getContext("2d");
  tile.width = tile.height = 10;
  t.strokeStyle = ink;
  t.globalAlpha = 0.4;
  t.stroke(new Path2D({ "/": "M-2 8L8-2M4 14L14 4", "\\": "M2-4L14 8M-4 2L8 14", x: "M0 0L10 10M10 0L0 10" }[kind]));
  return c.createPattern(tile, "repeat");
}

class Panel {
  constructor(view, account, top, tall) {
    const aside = view.width >= 620 ? COLUMN + WORDS + 34 : 16;
    Object.assign(this, { view, account, top, tall, wide: view.width - LEFT - aside, bottom: top + tall - FOOT, aside: aside > 16 });
  }

  x(i) { return this.px(this.account.x(i, this.view.counted)); }
  px(place) { const { first, span } = this.view.range; return LEFT + (span ? (place - first) / span : 0) * this.wide; }
  place(px) { const { first, span } = this.view.range; return first + (px - LEFT) / this.wide * span; }
  y(value) { return this.bottom - value / this.view.most * (this.bottom - this.top - HEAD); }

  draw(c) {
    const { view, account, top, bottom, wide } = this, { store } = view, peak = account.peak;
    this.heading(c, account.label, [`peak ${bytes(account.most)}`, store.where(account, peak), account.cap > view.most && `${percent(account.most, account.cap)} of the device's ${bytes(account.cap)}`]);
    this.axes(c);
    this.spans(c);
    this.areas(c);
    this.end(c);
    brush(c, view);
    c.fillRect(LEFT, bottom, wide, 1);
    c.fillRect(LEFT, top + HEAD, 1, bottom - top - HEAD);
    this.dot(c, peak, 5);
    if (this.aside) this.composition(c);
  }

  // In bold what it is; behind it what there is room for.
  heading(c, name, parts) {
    const { view, top } = this;
    brush(c, view);
    c.font = `600 ${FONT}`;
    c.fillText(name, 8, top + 12);
    const after = 16 + c.measureText(name).width;
    c.font = FONT;
    while (c.measureText(dots(...parts)).width > view.width - after - 8 && parts.length > 1) parts.pop();
    c.fillText(dots(...parts), after, top + 12);
  }

  axes(c) {
    const { view, bottom, wide, top } = this, { first, span } = view.range, u = view.counted ? 1 : unit(first + span)[0];
    brush(c, view, "right");
    for (const tick of roundNumbers(0, view.most, view.most / max(2, floor((bottom - top - HEAD) / 40)))) {
      c.globalAlpha = 0.16;
      c.fillRect(LEFT, this.y(tick), wide, 1);
      c.globalAlpha = 1;
      c.fillText(tick ? bytes(tick) : "0", LEFT - 6, this.y(tick));
    }
    c.textAlign = "center";
    for (const tick of span ? roundNumbers(first, first + span, span / max(3, wide / 90)) : []) {
      c.fillRect(this.px(tick), bottom, 1, 4);
      c.fillText(Number((tick / u).toPrecision(6)).toLocaleString("en-US"), this.px(tick), bottom + 13);
    }
  }

  spans(c) {
    const { view, account, top, bottom } = this;
    brush(c, view);
    for (const [i, j, name] of view.store.stretches(account)) {
      const x = this.x(i), wide = this.x(j) - x;
      if (!name || wide < 1) continue;
      c.globalAlpha = 0.12;
      c.fillRect(x, top + HEAD - 20, wide - 1, 15);
      c.globalAlpha = 0.3;
      c.fillRect(x, top + HEAD - 20, 1, bottom - top - HEAD + 20);
      c.globalAlpha = 1;
      if (c.measureText(name).width < wide - 6) c.fillText(name, x + 4, top + HEAD - 12);
    }
  }

  // Of states that share a few pixels the one with the largest total is drawn, and the last of all.
  drawn() {
    const { account } = this, out = [];
    let column = -1, best = -1, most = -1;
    for (let i = 0; i < account.n; i++) {
      const at = floor(this.x(i) / STEP), total = account.total(i);
      if (at !== column && best >= 0) { out.push(best); most = -1; }
      if (total > most) { most = total; best = i; }
      column = at;
    }
    if (best >= 0) out.push(best);
    if (out.at(-1) !== account.n - 1) out.push(account.n - 1);
    return out;
  }

  // From the uppermost use down, each painted over the ones above it.
  areas(c) {
    const { view, account, bottom } = this, states = this.drawn(), xs = states.map((i) => this.x(i)), right = xs.at(-1);
    const stacked = states.map((i) => { let sum = 0; return view.looks.map(({ use }) => (sum += account.value(i, use))); });
    for (let k = view.looks.length - 1; k >= 0; k--) {
      const path = new Path2D();
      path.moveTo(xs[0], bottom);
      states.forEach((_, s) => { const y = this.y(stacked[s][k]); path.lineTo(xs[s], y); path.lineTo(xs[s + 1] ?? right, y); });
      path.lineTo(right, bottom);
      path.closePath();
      this.paint(c, path, k);
    }
  }

  paint(c, path, k) {
    const { color, pattern } = this.view.looks[k];
    c.fillStyle = color;
    c.fill(path);
    if (pattern) { c.fillStyle = pattern; c.fill(path); }
    c.strokeStyle = this.view.paper;
    c.lineWidth = 0.8;
    c.stroke(path);
  }

  end(c) {
    const { view, account, wide } = this, y = this.y(account.cap), right = LEFT + wide + (this.aside ? COLUMN + 28 : 0);
    if (!account.cap || account.cap > view.most) return;
    brush(c, view, this.aside ? "left" : "right");
    c.setLineDash([7, 4]);
    c.stroke(new Path2D(`M${LEFT} ${y}H${right}`));
    c.setLineDash([]);
    c.fillText(`device ${bytes(account.cap)}`, right + (this.aside ? 6 : -4), y + (this.aside ? 0 : -8));
  }

  composition(c) {
    const { view, account, top } = this, left = LEFT + this.wide + 22, parts = [];
    let base = 0;
    view.looks.forEach(({ use }, k) => {
      const value = account.value(account.peak, use);
      if (!value) return;
      const low = this.y(base), high = this.y((base += value));
      this.paint(c, new Path2D(`M${left} ${low}h${COLUMN}V${high}h${-COLUMN}z`), k);
      parts.push([`${USES[use]} ${bytes(value)}`, (low + high) / 2 - top - HEAD]);
    });
    const at = spread(parts.map((part) => part[1]), 15, this.bottom - top - HEAD);
    brush(c, view);
    parts.forEach(([text, middle], k) => {
      if (at[k] === undefined) return;
      c.stroke(new Path2D(`M${left + COLUMN} ${top + HEAD + middle}L${left + COLUMN + 9} ${top + HEAD + at[k]}`));
      c.fillText(text, left + COLUMN + 13, top + HEAD + at[k], WORDS - 10);
    });
    c.textAlign = "center";
    c.fillText("at the peak", left + COLUMN / 2, this.bottom + 13);
  }

  // A line down from a state to the axis, and a ring at its total.
  dot(c, i, size) {
    const { view, bottom } = this, x = this.x(i), y = this.y(this.account.total(i));
    brush(c, view);
    c.stroke(new Path2D(`M${x} ${bottom}V${y}`));
    c.fillStyle = view.paper;
    c.lineWidth = 2;
    const ring = new Path2D(`M${x - size} ${y}a${size} ${size} 0 1 0 ${2 * size} 0a${size} ${size} 0 1 0 ${-2 * size} 0`);
    c.fill(ring);
    c.stroke(ring);
  }
}
