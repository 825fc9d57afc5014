// What one map's reader has chosen: a cut, by the stage that begins there, and a layer. One store per model; the rest comes from Python.
class Store {
  constructor() { assign(this, { stage: 1, layer: -1, gesture: 0, n: 0 }); this.reset(-1); }

  reset(run) { this.run = run; }
  add() { this.n = 0; }

  // Where stages begin and end, and the stage of each layer.
  take({ cut }, count) {
    this.begins = [0, ...cut, count];
    this.stage = max(1, min(cut.length, this.stage));
    this.of = Array.from({ length: count }, (_, layer) => cut.filter((place) => place <= layer).length);
  }

  // Where a stage may begin: each has at least one layer.
  between(stage, place) { return max(this.begins[stage - 1] + 1, min(this.begins[stage + 1] - 1, place)); }
}
