// The dots of a run, read from the blocks that partkit/figures/cost_points.py writes, and the sliders. One store per model.
const bytes = (n) => { const p = n < 1000 ? 0 : floor(log10(n) / 3); return p ? `${three(n / 1000 ** p)} ${"kMGTP"[p - 1]}B` : `${three(n)} B`; };
const rate = (x) => (x < 1e18 ? `${bytes(x)}/s` : "without limit");
const two = (x) => Number(x.toPrecision(2));

class Store {
  constructor() { this.reset(-1, 1); }

  reset(run, size) { Object.assign(this, { run, size, n: 0, points: new Map() }); }

  add(view) {
    blocks(view, (head) => {
      for (const point of head.points) this.points.set([point.operation, point.algorithm, point.ranks, point.nbytes].join(), point);
      this.n += head.n;
    });
  }
}

// What the reader can move: a trait, its values from left to right, and how they are said.
const powers = (from, to, steps) => Array.from({ length: (to - from) * steps + 1 }, (_, k) => two(10 ** (from + k / steps)));
const SLIDERS = [
  ["ranks", "Ranks", (stops) => stops, (x) => words(x, "rank")],
  ["nbytes", "Bytes", () => [...new Set(powers(0, 9, 10).map(round))], bytes],
  ["latency", "Latency", () => powers(-8, -2, 20), seconds],
  ["bandwidth", "Bandwidth", () => powers(6, 13, 20), rate],
  ["channels", "Channels", () => [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64], (x) => (x ? `${x} shared` : "own links")],
];

// One slider: a range of the places of its values, so that arrow keys go from one to the next.
class Slider {
  constructor(view, [name, label, values, say]) {
    Object.assign(this, { view, name, say, values: values(view.model.get("look").stops) });
    const box = make("label", view.sliders), line = make("span", box, label);
    this.output = make("output", line);
    this.input = make("input", box);
    Object.assign(this.input, { type: "range", min: 0, max: this.values.length - 1, step: 1 });
    this.input.ariaLabel = label;
    this.input.oninput = () => this.set(this.values[this.input.value]);
    this.input.onkeydown = (e) => e.stopPropagation();
  }

  get value() { return this.view.model.get(this.name); }
  set(value) { if (value !== this.value) this.view.set(this.name, value); }

  // The place of the value nearest to x, in parts.
  place(x) { const far = (k) => abs(log10((this.values[k] || 1e-12) / (x || 1e-12))); return this.values.reduce((best, _, k) => (far(k) < far(best) ? k : best), 0); }

  step(by) { this.set(this.values[max(0, min(this.values.length - 1, this.place(this.value) + by))]); }

  show() {
    const text = this.say(this.value);
    this.input.value = this.place(this.value);
    this.output.textContent = text;
    this.input.setAttribute("aria-valuetext", text);
  }
}

// A place on a logarithmic axis.
class Axis {
  constructor(low, high, from, to) { Object.assign(this, { low: log10(low), high: log10(high), from, to }); }
  at(x) { return this.from + ((log10(x) - this.low) / (this.high - this.low)) * (this.to - this.from); }
  value(place) { return 10 ** (this.low + ((place - this.from) / (this.to - this.from)) * (this.high - this.low)); }
  powers() { const out = []; for (let k = ceil(this.low - 1e-9); k <= this.high + 1e-9; k++) out.push(k); return out; }
}

// The time of a curve at a size: straight between its samples, in bytes.
function timeAt(sizes, times, x) {
  let k = 1;
  while (k < sizes.length - 1 && sizes[k] < x) k++;
  return times[k - 1] + ((x - sizes[k - 1]) / (sizes[k] - sizes[k - 1])) * (times[k] - times[k - 1]);
}

// Moved apart until neighbours have `gap` between them, in their order.
function spread(places, gap, bottom) {
  const order = places.map((_, i) => i).sort((a, b) => places[a] - places[b]), out = [];
  let last = -Infinity;
  for (const i of order) last = out[i] = max(places[i], last + gap);
  for (let k = order.length - 1, below = bottom; k >= 0; k--) below = out[order[k]] = min(out[order[k]], below) , below -= gap;
  return out;
}
