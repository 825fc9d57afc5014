// The picture: a row a rank, the plan in it, the run below, what may come next at its end. What is the same: partkit/figures/studio_picture.py.
const TOP = 8, FOOT = 26, HEIGHTS = [1, 1, 1, 0.68, 0.4], NARROW = 4;

function layOut(v) {
  const { store, width: wide, meta } = v, { chart } = store, run = store.run_bars(), ranks = chart.rows.length, over = chart.unit ? 15 : 0;
  const c = v.pen;
  c.font = "600 13px system-ui, sans-serif";
  const left = min(wide * 0.3, 16 + max(...chart.rows.map((name) => c.measureText(name).width)));
  const longest = max(chart.horizon, chart.end, ...run.map((bar) => bar.end), 1), ghost = max(0, ...chart.ghosts), spare = chart.left ? 1.15 * ghost : 0;
  const tall = (meta.height ? max(18, (meta.height - TOP - FOOT) / ranks - over) : ranks <= 4 ? 46 : ranks <= 8 ? 36 : 28) + over;
  const scale = (store.zoom * (wide - left - 12)) / (longest + spare);
  const lengths = store.bars.map((bar) => bar.end - bar.start).sort((a, b) => a - b), narrow = (lengths[lengths.length >> 2] ?? 9) * scale < NARROW;
  return { run, over, left, scale, tall, narrow, plan: tall - 7 - over, longest, width: round(left + (longest + spare) * scale + 12), height: round(TOP + ranks * tall + FOOT) };
}

const xOf = (v, time) => v.plan.left + time * v.plan.scale;

// The rectangle of a bar.
function boxOf(v, { rank, kind, start, end, measured }) {
  const { plan } = v, room = measured ? plan.over - 2 : plan.plan, ground = TOP + rank * plan.tall + 2 + plan.plan + (measured ? plan.over : 0), h = room * HEIGHTS[kind];
  return [xOf(v, start), ground - h, max(1, (end - start) * plan.scale), h];
}

function lines(c, x, y, w, h, slanted, color) {
  c.save();
  c.beginPath();
  c.rect(x, y, w, h);
  c.clip();
  c.beginPath();
  for (let at = slanted ? -h : 3; at < w; at += slanted ? 7 : 4) { c.moveTo(x + at, y + h); c.lineTo(x + at + (slanted ? h : 0), y); }
  Object.assign(c, { strokeStyle: color, lineWidth: slanted ? 1.5 : 0.8 });
  c.stroke();
  c.restore();
}

// Where three of four bars are not wide enough for numbers, hues stand for kinds.
function bar(v, one) {
  const c = v.pen, [x, y, w, h] = boxOf(v, one), { kind } = one, { narrow } = v.plan, looks = v.looks[kind], [own, ink] = looks[one.microbatch % looks.length], fill = narrow ? v.fills[kind] : own;
  if (x > v.right || x + w < v.left) return;
  c.fillStyle = fill;
  c.fillRect(x, y, w, h);
  if (!narrow && w >= 3) {
    if (kind === 2) lines(c, x, y, w, h, true, v.paper);
    if (kind === 3) lines(c, x, y, w, h, false, v.ink);
    Object.assign(c, { strokeStyle: v.ink, lineWidth: 0.7 });
    c.strokeRect(x + 0.5, y + 0.5, max(0, w - 1), h - 1);
  }
  if (one.measured || h < 12) return;
  c.fillStyle = v.ink;
  if (one.chunk) c.fillRect(x, y + h - 3, w, 3);
  if (narrow) return;
  const number = String(one.microbatch), fits = ([words, size]) => { c.font = `${size}px system-ui, sans-serif`; return c.measureText(words).width < w - 2; };
  const [text] = [[one.label, 13], [one.label, 11], [number, 12], [number, 10], [number, 9]].find(fits) ?? [];
  if (!text) return;
  const wide = c.measureText(text).width + 4;
  if (kind === 2 || kind === 3) { c.fillStyle = fill; c.fillRect(x + (w - wide) / 2, y + h / 2 - 8, wide, 15); }
  Object.assign(c, { fillStyle: ink, textAlign: "center" });
  c.fillText(text, x + w / 2, y + h / 2 + 1);
}

function axis(v) {
  const c = v.pen, { plan } = v, bottom = plan.height - FOOT, rough = 70 / plan.scale, power = 10 ** floor(log10(rough)), step = power * [1, 2, 5, 10].find((k) => k * power >= rough * 0.999);
  Object.assign(c, { fillStyle: v.ink, font: "12px system-ui, sans-serif", textAlign: "center" });
  for (let t = 0; t <= plan.longest + 1e-9; t += step) {
    const x = xOf(v, t);
    c.globalAlpha = 0.13;
    c.fillRect(round(x), TOP, 1, bottom - TOP);
    c.globalAlpha = 1;
    c.fillText(three(t), x, bottom + 14);
  }
  c.globalAlpha = 0.25;
  for (let r = 0; r < v.store.rows.length; r++) c.fillRect(plan.left, TOP + (r + 1) * plan.tall - 3, plan.width - plan.left, 1);
  c.globalAlpha = 1;
}

function dashed(c, x, y, w, h, color, line, dash) {
  c.setLineDash(dash);
  Object.assign(c, { strokeStyle: color, lineWidth: line });
  c.strokeRect(x, y, w, h);
  c.setLineDash([]);
}

// What may come next in each row, and where the reader is.
function overlay(v) {
  const c = v.pen, { store, plan } = v, { chart } = store;
  v.ghosts = chart.offers.map((own, r) => {
    if (!own.length) return null;
    const x = xOf(v, store.segments[r].at(-1).start) + 2, y = TOP + r * plan.tall + 3, w = max(20, chart.ghosts[r] * plan.scale - 4), h = plan.plan - 3;
    dashed(c, x, y, w, h, v.ink, 1, [4, 3]);
    Object.assign(c, { fillStyle: v.ink, font: "600 14px system-ui, sans-serif", textAlign: "center" });
    c.fillText("+", x + w / 2, y + h / 2 + 1);
    return [x, y, w, h];
  });
  const { here } = store, x = xOf(v, here.start), w = here.end === Infinity ? max(chart.left ? 24 : 9, chart.ghosts[here.rank] * plan.scale) : (here.end - here.start) * plan.scale;
  dashed(c, x + 0.5, TOP + here.rank * plan.tall + 0.5, max(3, w - 1), plan.tall - 5, v.focus, 2.5, here.bar ? [] : [2, 2]);
  if (v.drag?.on) {
    const row = store.rows[v.drag.rank], at = v.drag.place < row.length ? row[v.drag.place].start : (row.at(-1)?.end ?? 0);
    c.fillStyle = v.focus;
    c.fillRect(xOf(v, at) - 2, TOP + v.drag.rank * plan.tall, 4, plan.tall - 4);
  }
}

// Names of the rows; they stay where they are when the rest is scrolled.
function names(v) {
  const c = v.pen, { plan, store } = v;
  c.fillStyle = v.paper;
  c.fillRect(v.left, 0, plan.left - 4, plan.height);
  store.chart.rows.forEach((name, r) => {
    const chosen = r === store.cursor.rank;
    Object.assign(c, { fillStyle: v.ink, font: `${chosen ? 700 : 500} 13px system-ui, sans-serif`, textAlign: "left" });
    if (chosen) c.fillRect(v.left, TOP + r * plan.tall + 2, 3, plan.plan);
    c.fillText(name, v.left + 8, TOP + r * plan.tall + 2 + plan.plan / 2, plan.left - 14);
    if (plan.over) { c.font = "11px system-ui, sans-serif"; c.fillText("measured", v.left + 8, TOP + r * plan.tall + plan.plan + plan.over / 2 + 3, plan.left - 14); }
  });
  c.font = "12px system-ui, sans-serif";
  c.fillText("time", v.left + 8, plan.height - FOOT + 14);
}
