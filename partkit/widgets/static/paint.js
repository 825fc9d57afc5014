// The picture. `v` is a View: v.t0, v.span (seconds shown), v.r0, v.rows (ranks shown), v.plot, v.tall (pixels for them).
// New bars are drawn on top of the old; everything is repainted only when the scale changes. A bar narrower than a pixel is
// skipped if its kind has already painted that pixel, and neighbouring pixels are painted as one, so that a million bars cost little
// more than a thousand.
const GUTTER = 62, AXIS = 32, MAX_ARROWS = 300, ORDER = [3, 4, 2, 0, 1, 5];

const rowTall = (v) => v.tall / v.rows;
const x = (v, time) => GUTTER + (time - v.t0) * v.plot / v.span;

// Top and height of a place's lane.
function y(v, place) {
  const row = rowTall(v), gap = row > 16 ? 6 : row > 5 ? 1 : 0, tall = (row - gap) / max(1, v.lanes.length);
  return [(((place / LANES) | 0) - v.r0) * row + gap / 2 + v.lanes.indexOf(place % LANES) * tall, tall];
}

function clipped(v, c, draw) {
  c.save();
  c.beginPath();
  c.rect(GUTTER - 3, 0, v.plot + 6, v.tall);
  c.clip();
  draw();
  c.restore();
}

function background(v) {
  const c = pen(v.main), row = rowTall(v), every = max(1, ceil(15 / row)), { size } = v.store;
  v.drawn = 0;
  v.merged = false;
  v.mark = new Uint8Array((v.tall + 2) * (v.plot + 2));
  c.fillStyle = v.paper;
  c.fillRect(0, 0, v.width, v.height);
  c.fillStyle = v.ink;
  c.font = "12px system-ui, sans-serif";
  c.textBaseline = "middle";
  c.textAlign = "right";
  for (let rank = floor(v.r0); rank < min(size, v.r0 + v.rows); rank++) {
    const top = (rank - v.r0) * row;
    c.globalAlpha = row > 5 && rank % 2 === 0 ? 0.05 : 0;
    c.fillRect(GUTTER, top, v.plot, row);
    c.globalAlpha = 1;
    if (rank % every === 0) c.fillText(row > 15 ? `rank ${rank}` : rank, GUTTER - 8, max(7, min(v.tall - 7, top + row / 2)));
  }
  c.fillRect(GUTTER, v.tall, v.plot, 1);
  axis(v, c);
}

function axis(v, c) {
  const rough = v.span / max(2, v.plot / 90), power = 10 ** floor(log10(rough)), end = v.t0 + v.span;
  const step = [1, 2, 5, 10].find((m) => m * power >= rough * 0.999) * power, [scale, name] = unit(max(abs(v.t0), abs(end)));
  const digits = min(9, max(0, -floor(log10(step / scale) + 1e-9)));
  c.fillText(`${name}, ${v.meta.clock}`, v.width - 8, v.tall + 25);
  c.textAlign = "center";
  for (let k = ceil(v.t0 / step - 1e-9); k * step <= end; k++) {
    const at = round(x(v, k * step));
    c.globalAlpha = 0.16;
    c.fillRect(at, 0, 1, v.tall + 4);
    c.globalAlpha = 1;
    if (at < v.width - 20) c.fillText(((k * step) / scale).toFixed(digits), at, v.tall + 11);
  }
}

// Events from number `from` to before `to`.
function bars(v, from, to) {
  const { start, length, place, detail, kind: kinds } = v.store, { t0, tall, mark } = v, k = v.plot / v.span, W = v.plot | 0;
  const wide = ORDER.map(() => []), thin = ORDER.map(() => []), runs = [], ys = [];
  for (let i = from; i < to; i++) {
    const a = (start[i] - t0) * k, w = length[i] * k, kind = kinds[detail[i]];
    if (a >= W || a + w < 0 || kind === HIDDEN) continue;
    const at = (ys[place[i]] ??= y(v, place[i]));
    if (at[0] + at[1] <= 0 || at[0] >= tall) continue;
    if (w >= 1 || kind === METRIC) { wide[kind].push(i); continue; }
    const pixel = max(0, at[0] | 0) * W + max(0, a | 0);
    if (mark[pixel] & (1 << kind)) { v.merged = true; continue; }
    mark[pixel] |= 1 << kind;
    const key = place[i] * ORDER.length + kind;
    if (runs[key]?.[1] === (a | 0)) runs[key][1]++;
    else thin[kind].push((runs[key] = [a | 0, (a | 0) + 1, at]));
  }
  const c = pen(v.main);
  clipped(v, c, () => {
    c.textAlign = "left";
    for (const kind of ORDER) {
      c.fillStyle = kind === 3 ? v.paints[kind].edge : v.paints[kind].fill;
      for (const [a, b, [top, tall]] of thin[kind]) c.fillRect(GUTTER + a, top, b - a, max(1, tall - 1));
      for (const i of wide[kind]) bar(v, c, i, v.paints[kind]);
    }
  });
}

function box(v, i) {
  const [top, tall] = y(v, v.store.place[i]), left = max(GUTTER - 5, x(v, v.store.start[i])), right = min(v.width, x(v, v.store.end(i)));
  return [left, top, max(v.store.row(i).kind === METRIC ? 3 : 1, right - left), max(1, tall - 1)];
}

function bar(v, c, i, paint) {
  const [left, top, w, h] = box(v, i);
  c.fillStyle = paint.fill;
  c.fillRect(left, top, w, h);
  if (w < 3 || h < 4) return;
  if (paint.pattern && w > 5) { c.fillStyle = paint.pattern; c.fillRect(left, top, w, h); }
  c.strokeStyle = paint.edge;
  c.strokeRect(left + 0.5, top + 0.5, w - 1, h - 1);
  if (w > 14 && h > 9) label(c, paint, v.store.row(i), [max(left, GUTTER) + 3, top + h / 2 + 0.5, w - 5, min(12, h - 1)]);
}

// What fits: the whole name, its beginning, or the kind's letter. On a patch of the bar's colour, so that no hatch crosses it.
function label(c, paint, row, [left, middle, wide, size]) {
  const room = floor(wide / (size * 0.56)), full = row.kind > RECV ? row.tagText : `${paint.letter} ${bytes(max(0, row.nbytes))} ${row.tagText}`;
  const text = full && full.length <= room ? full : room < 4 || !full ? paint.letter : `${full.slice(0, room - 1)}…`;
  c.font = `${size}px system-ui, sans-serif`;
  c.lineWidth = 3;
  c.strokeStyle = paint.fill;
  c.strokeText(text, left, middle);
  c.lineWidth = 1;
  c.fillStyle = paint.ink;
  c.fillText(text, left, middle);
}

// A message: from the moment when both sides are there to the moment when the receiver has it.
function arrowEnds(v, i) {
  const s = v.store, j = s.partner[i] - 1, [ya, ha] = y(v, s.place[i]), [yb, hb] = y(v, s.place[j]);
  return [x(v, min(max(s.start[i], s.start[j]), s.end(i))), ya + ha / 2, x(v, s.end(j)), yb + hb / 2];
}

function arrow(v, c, i, alpha, width) {
  const [x0, y0, x1, y1] = arrowEnds(v, i), far = -hypot(x1 - x0, y1 - y0), head = -5 - 2 * width;
  c.save();
  c.translate(x1, y1);
  c.rotate(atan2(y1 - y0, x1 - x0));
  c.globalAlpha = alpha;
  for (const [color, w] of [[v.paper, width + 2.4], [v.ink, width]]) {
    c.strokeStyle = c.fillStyle = color;
    c.lineWidth = w;
    c.stroke(new Path2D(`M${far} 0H${head / 2}`));
  }
  c.fill(new Path2D(`M0 0L${head} ${head * 0.4}V${head * -0.4}`));
  c.fillRect(far - width, -width, 2 * width, 2 * width);
  c.restore();
}

// Arrows, and what is pointed at or selected: on a canvas of its own, above the bars.
function overlay(v) {
  const c = pen(v.over), s = v.store, chosen = [v.hover, v.selected].filter((i) => i >= 0);
  c.clearRect(0, 0, v.width, v.height);
  v.arrows = [];
  v.crowded = false;
  for (const i of s.sends) {
    if (s.start[i] < v.t0 + v.span && s.end(s.partner[i] - 1) > v.t0 && v.arrows.push(i) > MAX_ARROWS) { v.crowded = true; v.arrows = []; break; }
  }
  clipped(v, c, () => {
    for (const i of v.arrows) arrow(v, c, i, chosen.length ? 0.4 : 0.9, 1.4);
    outline(v, c);
    for (const i of chosen) {
      const both = [i, s.partner[i] - 1].filter((j) => j >= 0);
      c.strokeStyle = v.ink;
      c.lineWidth = 2;
      for (const [left, top, w, h] of both.map((j) => box(v, j))) c.strokeRect(left - 1, top - 1, w + 2, h + 2);
      if (both[1] >= 0) arrow(v, c, both.find((j) => s.isSend(j)), 1, 2.6);
    }
  });
}

// The critical path: stretches of bars, and the messages among them.
function outline(v, c) {
  const path = v.store.whole ? [] : v.model.get("outlined");
  for (const [color, wide] of [[v.paper, 5], [v.ink, 3]]) {
    c.strokeStyle = color;
    c.lineWidth = wide;
    for (const [i, a, b] of path) {
      const [top, tall] = y(v, v.store.place[i]);
      c.strokeRect(x(v, a) - 1, top - 1, x(v, b) - x(v, a) + 2, tall + 1);
    }
  }
  for (const [i] of path) if (v.store.isSend(i)) arrow(v, c, i, 1, 2.6);
}

function hatch(lines, edge) {
  const tile = make("canvas"), c = pen(tile), both = lines === "x";
  tile.width = tile.height = 8;
  c.strokeStyle = edge;
  c.globalAlpha = 0.55;
  c.stroke(new Path2D((both || lines === "/" ? "M-1 1L1-1M0 8L8 0M7 9L9 7" : "") + (both || lines === "\\" ? "M-1 7L1 9M0 0L8 8M7-1L9 1" : "")));
  return lines && c.createPattern(tile, "repeat");
}
