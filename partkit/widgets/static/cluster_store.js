// Which rank or link of a cluster its reader has chosen. One store per model; everything else comes from Python.
class Store {
  constructor() { Object.assign(this, { target: "rank 0", from: -1, n: 0 }); this.reset(-1, 1); }

  reset(run) { this.run = run; }
  add() { this.n = 0; }

  get kind() { return this.target.split(" ")[0]; }
  get numbers() { return this.target.split(" ").slice(1).map(Number); }

  // The rank where arrow keys start from: the last one of a pair.
  get rank() { return this.kind === "wire" ? this.last ?? 0 : this.numbers.at(-1); }

  choose(target) {
    this.target = target;
    if (this.kind !== "wire") this.last = this.rank;
  }

  // The nearest place in a direction, [dx, dy].
  next(places, [dx, dy]) {
    const [x, y] = places[this.rank], cost = ([a, b]) => { const along = (a - x) * dx + (b - y) * dy, off = abs((a - x) * dy) + abs((b - y) * dx); return along > 1 ? along + 3 * off : Infinity; };
    const costs = places.map(cost), best = min(...costs);
    return best < Infinity ? costs.indexOf(best) : this.rank;
  }
}
