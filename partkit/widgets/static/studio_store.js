// What one studio shows: the plan that Python sends, the run laid over it, and where the reader is. One store per model.
class Store {
  constructor() { Object.assign(this, { cursor: { rank: 0, time: Infinity }, zoom: 1, hidden: {} }); this.reset(-1, 1); }

  reset(run) { Object.assign(this, { run, n: 0, measured: [] }); }

  add(view) {
    blocks(view, (head) => {
      this.measured.push(...head.rows);
      this.n += head.n;
    });
  }

  // Bars by row, and what lies between them; the last of a row is what may come next, without an end.
  take(chart) {
    if (chart === this.chart) return;
    const { rank, kind, microbatch, start, end, name, label, chunk } = chart.bars;
    this.chart = chart;
    this.rows = chart.rows.map(() => []);
    this.bars = rank.map((r, i) => {
      const bar = { rank: r, kind: kind[i], microbatch: microbatch[i], start: start[i], end: end[i], name: name[i], label: label[i], chunk: chunk[i], place: this.rows[r].length };
      this.rows[r].push(bar);
      return bar;
    });
    this.named = new Map(this.bars.map((bar) => [bar.name, bar]));
    this.segments = this.rows.map((row, r) => {
      const out = [];
      let last = 0;
      for (const bar of row) {
        if (bar.start - last > 1e-9) out.push({ rank: r, start: last, end: bar.start });
        if (bar.end > bar.start) out.push({ rank: r, start: bar.start, end: bar.end, bar });
        last = bar.end;
      }
      return [...out, { rank: r, start: last, end: Infinity }];
    });
    this.cursor.rank = min(this.cursor.rank, this.rows.length - 1);
  }

  // The run as bars of the plan's unit, while it belongs to what is on the board.
  run_bars() {
    const { unit } = this.chart;
    if (!unit || !this.measured.length) return [];
    const begin = min(...this.measured.map((row) => row[2]));
    return this.measured.flatMap(([, name, start, end]) => (this.named.has(name) ? [{ ...this.named.get(name), start: (start - begin) / unit, end: (end - begin) / unit, measured: true }] : []));
  }

  // The segment in which the reader is.
  get here() { const { rank, time } = this.cursor, row = this.segments[rank]; return row.find((one) => time < one.end) ?? row.at(-1); }
  index() { return this.segments[this.cursor.rank].indexOf(this.here); }
}
