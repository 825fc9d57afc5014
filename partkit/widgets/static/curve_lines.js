// The lines of a run's metrics, read from the blocks that partkit/figures/curve.py writes, and the scales they are drawn on.
const MOST = 1e280; // numbers beyond are drawn outside the picture
const digits = (x) => (abs(x) >= 1e4 && abs(x) < 1e7 ? x.toFixed(0) : String(Number(x.toPrecision(4))));

class Line {
  constructor(name, rank) { Object.assign(this, { name, rank, n: 0, time: new Float64Array(64), value: new Float64Array(64) }); }

  // Points from number `first` on.
  put(first, time, value) {
    const n = (this.n = first + time.length);
    for (const [column, part] of [["time", time], ["value", value]]) {
      const old = this[column];
      if (n > old.length) (this[column] = new Float64Array(2 * n)).set(old);
      this[column].set(part, first);
    }
  }

  x(i, axis) { return axis === "seconds" ? this.time[i] : i + 1; }

  // The point whose x is nearest.
  nearest(at, axis) {
    let low = 0, high = this.n - 1;
    while (low < high) { const middle = (low + high) >> 1; if (this.x(middle, axis) < at) low = middle + 1; else high = middle; }
    return low > 0 && at - this.x(low - 1, axis) < this.x(low, axis) - at ? low - 1 : low;
  }
}

class Store {
  constructor() { this.reset(-1, 1); }

  reset(run, size) { Object.assign(this, { run, size, n: 0, names: [], lines: [], shape: "" }); }

  add(view) {
    blocks(view, (head, take) => {
      this.lines = head.lines.map(([name, rank, label, first, n]) => {
        const line = (first && this.lines.find((old) => old.name === name && old.rank === rank)) || new Line(name, rank);
        line.put(first, take(Float64Array, n), take(Float64Array, n));
        return Object.assign(line, { label });
      });
      this.names = head.names;
      this.n += head.n;
      this.shape = JSON.stringify([this.run, this.names, this.lines.map((line) => [line.name, line.label])]);
    });
  }
}

// From numbers to a place between 0 and 1; NaN for what has no place. The same rules as in partkit/figures/curve_picture.py.
class Scale {
  constructor(low, high, log = false) {
    const f = (this.f = log ? log10 : (x) => x);
    Object.assign(this, { low, high, log, base: f(low), size: f(high) - f(low) });
  }

  at(x) { const place = (this.f(x) - this.base) / this.size; return Number.isFinite(place) ? place : NaN; }

  // With room round `low` and `high`; from 0 if that is not far below them.
  static around([low, high], log) {
    if (low > high) return Scale.around([0.1, 1], log);
    const [a, b] = log ? [log10(low), log10(high)] : [low, high], room = log ? max(0.05 * (b - a), b > a ? 0.08 : 0.5) : 0.05 * (b - a) || abs(a) * 0.1 || 1;
    return log ? new Scale(10 ** (a - room), 10 ** (b + room), true) : new Scale(a >= 0 && a <= 0.35 * b ? 0 : a - room, b + room);
  }

  ticks(rough) {
    for (const digits of this.log ? [[1], [1, 2, 5]] : []) {
      const found = [];
      for (let k = floor(this.base); k <= this.base + this.size; k++) found.push(...digits.map((d) => d * 10 ** k).filter((x) => x >= this.low && x <= this.high));
      if (found.length > 2) return found.filter((_, i) => i % ceil(found.length / max(3, rough)) === 0);
    }
    return roundNumbers(this.low, this.high, (this.high - this.low) / max(1, rough));
  }
}

// The lowest and the highest number of some lines that a scale can show.
function range(lines, read, log) {
  let low = Infinity, high = -Infinity;
  for (const line of lines) {
    for (let i = 0; i < line.n; i++) {
      const x = read(line, i);
      if (abs(x) < MOST && (x > (log ? 1 / MOST : -MOST))) { low = min(low, x); high = max(high, x); }
    }
  }
  return [low, high];
}
