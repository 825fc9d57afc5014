// Cards of ranks, strips of elements with a layer for each rank whose data is in them, arrows of messages.
const HEADER = 24, EDGE = 8, MARGIN = 4, MOST_STRIPS = 3, FONTS = [15, 13, 11, 10, 9];

// The largest font in which a number of so many digits fits into a cell and keeps away from its neighbours; 0 if there is none.
const fontFor = (digits, cell, largest = 15) => FONTS.find((font) => font <= largest && digits * font * 0.64 <= cell - 3) ?? 0;

// How large cards are: as wide as leaves room for arrows between them, on a stage that is not too tall.
function layOut({ size, strips, longest, digits }, { places, grid, height: most }, width) {
  const shown = min(strips, size > 8 ? 2 : MOST_STRIPS), layers = shown ? (size > 8 ? 26 : max(16, min(32, 5 * size))) : 0, widest = max(40, min(60, 9.6 * digits + 4)), ideal = max(140, longest * widest + 2 * EDGE), tallest = most || 640;
  const [aside, below] = size === 2 ? [min(200, width / 4), 0] : [grid ? 84 : 38, size > 4 ? 26 : 62];
  for (let wide = min(ideal, width / 2); ; wide *= 0.95) {
    const cell = (wide - 2 * EDGE) / max(1, longest), font = fontFor(digits, cell), row = (font && font + 3) + layers + 7;
    const tall = HEADER + (shown ? shown * row + 3 : 40);
    let height = size === 2 ? max(tall, 124) : size > 2 && !grid ? 2 * tall + 200 : tall, clash = false;
    for (let i = 0; i < size; i++) for (let j = 0; j < i; j++) {
      const [dx, dy] = [0, 1].map((axis) => abs(places[i][axis] - places[j][axis]));
      if (dx * (width - 2 * MARGIN - wide) / 2 >= wide + aside) continue;
      if (dy < 1e-6) clash = true; else height = max(height, tall + 2 * (tall + below) / dy);
    }
    if ((!clash && height <= tallest) || wide < 60) return { wide, tall, height: min(height, 2000) + 16, shown, cell, font, row, layers };
  }
}

// The box of a rank's card.
const box = (v, rank) => {
  const { wide, tall, height } = v.plan, [x, y] = v.meta.places[rank];
  return [MARGIN + (v.width - 2 * MARGIN - wide) * (x + 1) / 2, 8 + (height - 16 - tall) * (y + 1) / 2, wide, tall];
};

function write(v, text, x, y, font = "12px", align = "left") {
  Object.assign(v.pen, { fillStyle: v.ink, font: `${font} system-ui, sans-serif`, textAlign: align });
  v.pen.fillText(text, x, y);
}

function plate(v, x, y, w, h, line, alpha = 1) {
  const c = v.pen;
  Object.assign(c, { fillStyle: v.paper, strokeStyle: v.ink, lineWidth: line });
  c.beginPath();
  c.roundRect(x, y, w, h, 5);
  c.fill();
  c.globalAlpha = alpha;
  c.stroke();
  c.globalAlpha = 1;
  c.setLineDash([]);
}

// What a rank holds after k messages; `current` are looked at.
function card(v, rank, k, current) {
  const [x, y, w, h] = box(v, rank), { plan, store } = v, strips = store.board(rank, k), touched = [];
  const busy = current.some(({ src, dst }) => src === rank || dst === rank);
  for (const s of current) {
    const count = s.content?.values.length;
    if (s.src === rank && count) touched.push([s.taken, s.takenFirst, count, true]);
    if (s.dst === rank && count) touched.push([s.put, s.putFirst, count, false]);
  }
  plate(v, x, y, w, h, busy ? 2 : 1, busy ? 0.9 : 0.45);
  v.pen.fillStyle = v.color(rank);
  v.pen.fillRect(x + EDGE, y + 6, 10, 13);
  write(v, w < 84 ? rank : `rank ${rank}`, x + EDGE + 16, y + 13, "600 14px");
  if (!plan.shown && w > 100) store.traffic(rank, k).forEach((line, i) => write(v, line, x + EDGE, y + HEADER + 9 + 17 * i));
  const shown = pickStrips(strips, touched.map(([number]) => number), plan.shown), more = strips.length - shown.length;
  if (more) write(v, `+${more}`, x + w - EDGE, y + 13, "11px", "right");
  shown.forEach((strip, i) => {
    const top = y + HEADER + i * plan.row;
    cells(v, strip, x + EDGE, top, plan.cell, plan.font, (j) => `rank ${rank}, element ${j} of ${strip.what}`);
    for (const [number, first, count, taken] of touched) if (number === strip.number) frame(v, x + EDGE + first * plan.cell, top, count * plan.cell, plan.row - 7, taken);
  });
}

// Those that a message touches, and the first of the others, in their order.
function pickStrips(strips, touched, most) {
  const first = [...strips].sort((a, b) => touched.includes(b.number) - touched.includes(a.number)).slice(0, most);
  return strips.filter((strip) => first.includes(strip));
}

// Elements in a row: values over layers.
function cells(v, { values, sets }, x, y, cell, font, name) {
  const c = v.pen, n = values.length, { layers } = v.plan, top = y + (font && font + 3), each = layers / v.store.size;
  if (font) values.forEach((value, i) => write(v, value, x + (i + 0.5) * cell, y + font / 2 + 2, `${font}px`, "center"));
  for (let i = 0; i < n; ) {
    let j = i + 1;
    while (j < n && sets[j] === sets[i]) j++;
    for (const rank of sets[i][0]) { c.fillStyle = v.color(rank); c.fillRect(x + i * cell, top + rank * each, (j - i) * cell, each + (each < 4 ? 0.3 : -0.5)); }
    i = j;
  }
  Object.assign(c, { strokeStyle: v.ink, lineWidth: 0.8 });
  c.strokeRect(x, top, n * cell, layers);
  c.beginPath();
  for (let i = 1; i < n && cell >= 5; i++) { c.moveTo(x + i * cell, top); c.lineTo(x + i * cell, top + layers); }
  c.globalAlpha = 0.6;
  c.stroke();
  c.globalAlpha = 1;
  if (name) values.forEach((value, i) => v.spots.push({ x: x + i * cell, y, w: cell, h: top - y + layers, lines: [name(i) + (value && " = " + value), `data of ${sets[i][1]}`] }));
}

// Round the elements that a message is read from (dashed) or written to (solid).
function frame(v, x, y, w, h, taken) {
  const c = v.pen;
  c.setLineDash(taken ? [5, 3] : []);
  for (const [strokeStyle, lineWidth] of [[v.paper, 4], [v.ink, 2.5]]) { Object.assign(c, { strokeStyle, lineWidth }); c.strokeRect(x - 1, y - 1, w + 2, h + 3); }
  c.setLineDash([]);
}

// The way of a message: a curve between two cards, bent to the middle of the circle, or aside on a grid.
function way(v, src, dst) {
  const [a, b] = [src, dst].map((rank) => { const [x, y, w, h] = box(v, rank); return [x + w / 2, y + h / 2, w / 2 + 4, h / 2 + 4]; });
  if (src === dst) return [[a[0] + a[2] * 0.4, a[1] - a[3]], [a[0], a[1] - a[3] - 40], [a[0] - a[2] * 0.4, a[1] - a[3]]];
  const mid = [0, 1].map((k) => (a[k] + b[k]) / 2), across = [b[1] - a[1], a[0] - b[0]], far = hypot(...across), center = [v.width / 2, v.plan.height / 2];
  const aside = v.meta.grid || v.store.size === 2, bend = aside ? min(0.16, 60 / far) : min(0.12, 26 / far), control = mid.map((m, k) => m + (aside ? 0 : 0.75 * (center[k] - m)) + across[k] * bend);
  const at = (t) => [0, 1].map((k) => (1 - t) ** 2 * a[k] + 2 * t * (1 - t) * control[k] + t * t * b[k]);
  const inside = (t, [x, y, w, h]) => { const [px, py] = at(t); return abs(px - x) < w && abs(py - y) < h; };
  let [t0, t1] = [0, 1];
  while (t0 < 0.45 && inside(t0, a)) t0 += 0.01;
  while (t1 > 0.55 && inside(t1, b)) t1 -= 0.01;
  const p0 = at(t0), p2 = at(t1), half = at((t0 + t1) / 2);
  return [p0, half.map((m, k) => 2 * m - (p0[k] + p2[k]) / 2), p2];
}

const along = ([p, q, r], t) => [0, 1].map((k) => (1 - t) ** 2 * p[k] + 2 * t * (1 - t) * q[k] + t * t * r[k]);

// `t`: how far the arrow has grown. `look`: "now", "gone" (thin), "open" (not arrived: dashed).
function arrow(v, path, t, look) {
  const c = v.pen, strong = look !== "gone", points = Array.from({ length: 25 }, (_, i) => along(path, i / 24 * t));
  const tip = points[24], [x, y] = along(path, max(0, t - 0.08)), angle = atan2(tip[1] - y, tip[0] - x), size = strong ? 13 : 8;
  const line = () => { c.beginPath(); points.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y))); c.stroke(); };
  c.globalAlpha = strong ? 1 : 0.4;
  if (strong) { c.strokeStyle = v.paper; c.lineWidth = 7; line(); }
  c.strokeStyle = c.fillStyle = v.ink;
  c.lineWidth = strong ? 2.5 : 1.2;
  if (look === "open") c.setLineDash([4, 5]);
  line();
  c.setLineDash([]);
  c.beginPath();
  c.moveTo(...tip);
  for (const turn of [-0.42, 0.42]) c.lineTo(tip[0] - size * Math.cos(angle + turn), tip[1] - size * Math.sin(angle + turn));
  c.fill();
  c.globalAlpha = 1;
}

// What a message carries, on its way: its elements, else its size in words.
function chip(v, message, [x, y], crowd) {
  const { plan } = v, { values = [] } = message.content ?? {}, n = values.length, cell = n && min(plan.cell, (v.meta.grid ? 72 : crowd ? 90 : 150) / n), font = fontFor(max(0, ...values.map((value) => value.length)), cell, plan.font);
  const label = message.what || words(message.nbytes, "byte"), w = (n * cell || label.length * 7) + 12, h = n ? (font && font + 3) + plan.layers + 12 : 22;
  const left = max(2, min(v.width - w - 2, x - w / 2)), top = max(2, y - h / 2);
  if (message.held) v.pen.setLineDash([3, 3]);
  plate(v, left, top, w, h, 1.6);
  if (n) cells(v, message.content, left + 6, top + 5, cell, font);
  else write(v, label, left + w / 2, top + 11, "600 12px", "center");
  v.spots.push({ x: left, y: top, w, h, lines: v.store.tell(message).split(" · "), message });
}
