// Who sent how much to whom, read from the blocks that partkit/figures/comm_matrix.py writes. One store per model.
const NO_SPAN = "no span", GROUP = "group ";
const amount = (x, kind) => { const p = x < 1000 ? 0 : floor(log10(x) / 3); return kind === "messages" ? x.toLocaleString("en-US") : p ? `${three(x / 1000 ** p)} ${"kMGTP"[p - 1]}B` : `${x} B`; };

class Store {
  constructor() { this.reset(-1, 1); }

  reset(run, size) { Object.assign(this, { run, size, n: 0, rows: max(1, min(size, 512)), fold: ceil(size / 512) || 1, places: [], cells: [], collectives: new Set(), shape: 0 }); }

  add(view) {
    blocks(view, (head, take) => {
      const n = head.cells;
      const [messages, bytes, place, src, dst] = [Float64Array, Float64Array, Uint32Array, Uint16Array, Uint16Array].map((type) => take(type, n));
      this.shape += head.places.length + head.collectives.length;
      this.places.push(...head.places);
      for (const name of head.collectives) this.collectives.add(name);
      Object.assign(this, { rows: head.rows, fold: head.fold });
      for (let i = 0; i < n; i++) {
        const cells = (this.cells[place[i]] ??= new Map()), code = src[i] * this.rows + dst[i], cell = cells.get(code);
        if (cell) { cell[0] += messages[i]; cell[1] += bytes[i]; } else cells.set(code, [messages[i], bytes[i]]);
      }
      this.n += head.n;
    });
  }

  // [group of the chooser, its labels]: what a phase of the run can be, besides everything.
  phases() {
    const labels = [...new Set(this.places.flat())].sort((a, b) => (a === NO_SPAN) - (b === NO_SPAN)), kind = (label) => (this.collectives.has(label) ? "Collectives" : label.startsWith(GROUP) ? "Groups" : "Spans");
    return ["Spans", "Collectives", "Groups"].map((name) => [name, labels.filter((label) => kind(label) === name)]).filter(([, found]) => found.length);
  }

  rank(row) { const first = row * this.fold, last = min(first + this.fold, this.size) - 1; return first < last ? `ranks ${first}-${last}` : `rank ${first}`; }

  matrix(phase) { return new Matrix(this, phase); }
}

// The messages and bytes of one phase.
class Matrix {
  constructor(store, phase) {
    const size = store.rows, zeros = (n) => new Float64Array(n);
    Object.assign(this, { size, messages: zeros(size * size), bytes: zeros(size * size) });
    store.cells.forEach((cells, place) => {
      if (phase && !store.places[place].includes(phase)) return;
      for (const [code, [messages, bytes]] of cells) { this.messages[code] += messages; this.bytes[code] += bytes; }
    });
  }

  // What is looked at: totals by row and column, the cells that are not empty, the least and the most of them.
  look(kind) {
    const { size } = this, value = this[kind], used = [], sent = new Float64Array(size), received = new Float64Array(size);
    let total = 0, low = Infinity, high = 0;
    for (let i = 0; i < value.length; i++) {
      if (!value[i]) continue;
      used.push(i);
      sent[floor(i / size)] += value[i];
      received[i % size] += value[i];
      total += value[i];
      low = min(low, value[i]);
      high = max(high, value[i]);
    }
    return Object.assign(this, { kind, value, used, sent, received, total, low, high });
  }

  // Which of `n` colours, from 0.
  level(i, n, log) {
    const part = !log ? this.value[i] / this.high : this.high > this.low ? log10(this.value[i] / this.low) / log10(this.high / this.low) : 1;
    return floor(max(0, min(1, part)) * (n - 1));
  }
}
