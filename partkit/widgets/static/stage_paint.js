// The picture of a cut: the layers in a row with a grip at each cut; what every rank has; the schedule as planned.
const TOP = 34, STRIP = 40, BELOW = 44, FOOT = 8, LEAST = 12;

function layOut(v) {
  const { width: wide, look, chart, at, store } = v, c = v.pen, ranks = chart.totals.length, tall = ranks <= 8 ? 30 : ranks <= 16 ? 22 : 16;
  c.font = "600 13px system-ui, sans-serif";
  const left = 16 + c.measureText(`rank ${ranks - 1}`).width, room = wide - left - 12, others = wide >= 700 ? 2 : 0;
  const amounts = look.layers.map((layer) => layer[1 + at]), sum = amounts.reduce((a, b) => a + b, 0), least = min(LEAST, room / 2 / amounts.length) * (sum ? 1 : 0);
  const edges = [left];
  for (const amount of amounts) edges.push(edges.at(-1) + (sum ? least + ((room - least * amounts.length) * amount) / sum : room / amounts.length));
  c.font = "12px system-ui, sans-serif";
  const words = 12 + max(...chart.words.map((own) => c.measureText(own[at]).width)), most = max(...chart.totals.map((own) => own[at]));
  const head = TOP + STRIP + BELOW, plan = head + ranks * tall + 34, thin = ranks <= 8 ? 17 : ranks <= 16 ? 12 : 7, end = max(0, ...chart.bars.map((one) => one[4]));
  const column = others ? 104 : 0, bar = room - words - others * column;
  return {
    left, tall, head, plan, thin, end, edges, column, others, words, bar, count: store.begins.length - 1, scale: most ? bar / most : 0,
    height: round(end ? plan + ranks * thin + FOOT : head + ranks * tall + (wide < 700 ? 18 : FOOT)), // the mean's words are there
  };
}

const fill = (v, stage, shade) => v.colors[(stage % v.plan.count) % v.colors.length][shade];

function box(c, x, y, w, h, [color, ink], edge) {
  c.fillStyle = color;
  c.fillRect(x, y, w, h);
  if (w < 3) return;
  Object.assign(c, { strokeStyle: edge, lineWidth: 0.7 });
  c.strokeRect(x + 0.5, y + 0.5, max(0, w - 1), h - 1);
  c.fillStyle = ink;
}

// The longest of some texts that has room, in the middle.
function write(c, texts, x, w, y, font = "12px") {
  c.font = `${font} system-ui, sans-serif`;
  const text = texts.find((one) => c.measureText(one).width < w - 4);
  if (!text) return;
  c.textAlign = "center";
  c.fillText(text, x + w / 2, y);
}

// The layers in their order, what a stage is called above them, a grip at each cut.
function strip(v) {
  const c = v.pen, { plan, store, look, chart } = v, { edges } = plan;
  look.layers.forEach(([name], layer) => {
    const x = edges[layer], w = edges[layer + 1] - x, stage = store.of[layer];
    box(c, x, TOP, w, STRIP, fill(v, stage, (layer - store.begins[stage]) % 2), v.ink);
    write(c, [name, name.split(" ")[0]], x, w, TOP + STRIP / 2 + 1);
  });
  Object.assign(c, { fillStyle: v.ink });
  for (let stage = 0; stage < plan.count; stage++) {
    const x = edges[store.begins[stage]], w = edges[store.begins[stage + 1]] - x, on = chart.stages.filter(({ number }) => number % plan.count === stage).map(({ rank }) => rank), ranks = `rank${on.length > 1 ? "s" : ""} ${on.join(", ")}`;
    c.fillStyle = v.ink;
    write(c, [`stage ${stage} on ${ranks}`, `stage ${stage}`, `${stage}`], x, w, 12, "600 12px");
  }
  for (let stage = 1; stage < plan.count; stage++) grip(v, edges[store.begins[stage]], stage === store.stage);
  c.fillStyle = v.ink;
  Object.assign(c, { textAlign: "left", font: "600 13px system-ui, sans-serif" });
  c.fillText("layers", 6, TOP + STRIP / 2 + 1, plan.left - 10);
  if (store.layer >= 0) outline(v, edges[store.layer], TOP, edges[store.layer + 1] - edges[store.layer], STRIP);
}

function grip(v, x, chosen) {
  const c = v.pen, y = TOP + STRIP + 9;
  Object.assign(c, { fillStyle: chosen ? v.focus : v.ink, strokeStyle: v.paper, lineWidth: 1.5 });
  c.fillRect(x - (chosen ? 2 : 1), TOP - 8, chosen ? 4 : 2, STRIP + 18);
  c.beginPath();
  for (const way of [-1, 1]) { c.moveTo(x + way * 3, y - 6); c.lineTo(x + way * 10, y); c.lineTo(x + way * 3, y + 6); c.closePath(); }
  c.fill();
}

function outline(v, x, y, w, h) {
  Object.assign(v.pen, { strokeStyle: v.focus, lineWidth: 2.5 });
  v.pen.strokeRect(x + 1, y + 1, max(2, w - 2), h - 2);
}

// Every layer of every rank as [layer, stage, x, width].
function segments(v, rank) {
  const { plan, store, look, chart, at } = v, found = [];
  let x = plan.left;
  for (const { number, rank: own, flight, share } of chart.stages) {
    const stage = number % plan.count;
    for (let layer = store.begins[stage]; own === rank && layer < store.begins[stage + 1]; layer++) {
      const w = look.layers[layer][1 + at] * [share, 1, flight][at] * plan.scale;
      found.push([layer, stage, x, w]);
      x += w;
    }
  }
  return found;
}

// A row a rank: what it has of what bars show, and at the right of the others; the mean as a line.
function rows(v) {
  const c = v.pen, { plan, chart, at, store, look } = v, most = max(...chart.totals.map((own) => own[at])), h = plan.tall - 5;
  const others = [0, 1, 2].filter((one) => one !== at).slice(0, plan.others), edge = v.width - 12;
  Object.assign(c, { fillStyle: v.ink, textAlign: "left", font: "600 12px system-ui, sans-serif" });
  c.fillText(look.measures[at][1], plan.left, plan.head - 12);
  c.textAlign = "right";
  others.forEach((one, k) => c.fillText(look.measures[one][0], edge - (plan.others - 1 - k) * plan.column, plan.head - 12));
  chart.totals.forEach((_, rank) => {
    const y = plan.head + rank * plan.tall;
    let last = -1;
    for (const [layer, stage, x, w] of segments(v, rank)) {
      box(c, x, y, w, h, fill(v, stage, (layer - store.begins[stage]) % 2), v.ink);
      if (h > 16) write(c, [look.layers[layer][0], look.layers[layer][0].split(" ")[0]], x, w, y + h / 2 + 1, "11px");
      c.fillStyle = v.ink;
      if (stage !== last) c.fillRect(x - 1, y - 1, 2, h + 2);
      last = stage;
      if (layer === store.layer) outline(v, x, y, w, h);
    }
  });
  mean(v);
  chart.totals.forEach((own, rank) => {
    const y = plan.head + rank * plan.tall + h / 2 + 1, worst = own[at] === most && most > 0, x = plan.left + own[at] * plan.scale + 6, text = chart.words[rank][at];
    Object.assign(c, { fillStyle: v.ink, textAlign: "left", font: `${worst ? 700 : 500} 13px system-ui, sans-serif` });
    c.fillText(`rank ${rank}`, 6, y, plan.left - 10);
    Object.assign(c, { fillStyle: v.paper, font: `${worst ? 700 : 400} 12px system-ui, sans-serif` });
    c.fillRect(x - 3, y - 8, c.measureText(text).width + 6, 15);
    c.fillStyle = v.ink;
    c.fillText(text, x, y);
    Object.assign(c, { textAlign: "right", font: "12px system-ui, sans-serif" });
    others.forEach((one, k) => c.fillText(chart.words[rank][one], edge - (plan.others - 1 - k) * plan.column, y));
  });
}

function mean(v) {
  const c = v.pen, { plan, chart, at } = v, x = plan.left + chart.means[at] * plan.scale, bottom = plan.head + chart.totals.length * plan.tall;
  if (!plan.scale) return;
  Object.assign(c, { strokeStyle: v.ink, lineWidth: 1.5, fillStyle: v.ink, textAlign: "center", font: "11px system-ui, sans-serif" });
  c.setLineDash([5, 4]);
  c.beginPath();
  c.moveTo(x, plan.head - 4);
  c.lineTo(x, bottom);
  c.stroke();
  c.setLineDash([]);
  const text = `mean ${chart.mean_words[at]}`, half = c.measureText(text).width / 2, named = plan.left + 130 + half;
  c.fillText(text, max(v.width < 700 ? half + 2 : named, min(v.width - half - 4, x)), v.width < 700 ? bottom + 8 : plan.head - 12);
}

// The planned schedule: what is white is the bubble.
function planned(v) {
  const c = v.pen, { plan, chart } = v;
  if (!plan.end) return;
  const scale = (v.width - plan.left - 12) / plan.end;
  Object.assign(c, { fillStyle: v.ink, textAlign: "left", font: "600 12px system-ui, sans-serif" });
  c.fillText("as planned: forward light, backward dark, bubble empty", plan.left, plan.plan - 11, v.width - plan.left - 8);
  chart.totals.forEach((_, rank) => {
    c.globalAlpha = 0.1;
    c.fillRect(plan.left, plan.plan + rank * plan.thin, v.width - plan.left - 12, plan.thin - 2);
    c.globalAlpha = 1;
    c.font = `500 ${min(13, plan.thin - 1)}px system-ui, sans-serif`;
    c.fillText(`rank ${rank}`, 6, plan.plan + (rank + 0.5) * plan.thin, plan.left - 10);
  });
  for (const [rank, stage, forward, start, end] of chart.bars) box(c, plan.left + start * scale, plan.plan + rank * plan.thin, max(0.5, (end - start) * scale), plan.thin - 2, fill(v, stage, forward ? 0 : 2), v.ink);
}
