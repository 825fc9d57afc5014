// A run message by message, as partkit/figures/stepper_bundle.py tells it. Each block holds the whole story so far: the last one counts.
const STEP = ["src", "dst", "round", "nbytes", "tag", "span", "what", "who", "content", "taken", "takenFirst", "put", "putFirst"];
const WAITING = ["src", "dst", "nbytes", "tag", "what", "held", "who", "taken", "takenFirst", "count", "number"];

class Store {
  constructor() { this.reset(-1, 1); }

  reset(run, size) { Object.assign(this, { run, size, n: 0, steps: [], boards: [], waiting: [], head: "", strips: 0, longest: 0, digits: 0, version: {} }); }

  add(view) {
    let at = 0, block;
    for (let size; at < view.byteLength; at += 8 + size) { size = view.getUint32(at, true); block = [at + 8, size]; }
    const told = JSON.parse(new TextDecoder().decode(new Uint8Array(view.buffer, view.byteOffset + block[0], block[1])));
    const { texts, sets } = told, contents = told.contents.map(([values, who]) => ({ values: values.map((i) => texts[i]), sets: who.map((i) => sets[i]) })); // a set: ranks, and their name
    const named = (names) => (row) => {
      const thing = Object.fromEntries(names.map((name, i) => [name, row[i]]));
      for (const name of ["tag", "span", "what"]) thing[name] = texts[thing[name]] ?? "";
      return Object.assign(thing, { who: told.recorded && sets[thing.who], content: contents[thing.content] });
    };
    const strip = ([number, what, content]) => ({ number, what: texts[what], ...contents[content] });
    const boards = told.boards.map((own) => own.map(([since, strips]) => ({ since, strips: strips.map(strip) }))), all = boards.flat().flatMap((board) => board.strips);
    Object.assign(this, told, { boards, steps: told.steps.map(named(STEP)), waiting: told.waiting.map(named(WAITING)), version: {} });
    for (const one of this.waiting) {
      const strip = this.board(one.src, this.steps.length).find(({ number }) => number === one.taken), part = (list) => list.slice(one.takenFirst, one.takenFirst + one.count);
      one.content = strip && { values: part(strip.values), sets: part(strip.sets) };
    }
    this.strips = max(0, ...boards.flat().map((board) => board.strips.length));
    this.longest = all.reduce((most, { values }) => max(most, values.length), 0);
    this.digits = all.reduce((most, { values }) => values.reduce((a, value) => max(a, value.length), most), 0);
  }

  // What a rank holds after k messages.
  board(rank, k) { return this.boards[rank]?.findLast(({ since }) => since <= k)?.strips ?? []; }

  // How much a rank has sent and received in k messages.
  traffic(rank, k) {
    return [["sent", "src"], ["got", "dst"]].map(([word, end]) => { const own = this.steps.slice(0, k).filter((step) => step[end] === rank); return `${word} ${own.length}, ${words(own.reduce((sum, { nbytes }) => sum + nbytes, 0), "byte")}`; });
  }

  // The messages that are looked at when k have gone: the last one, or all of its round.
  current(k, unit) {
    const last = this.steps[k - 1];
    let first = k - 1;
    while (last && unit === "round" && this.steps[first - 1]?.round === last.round) first--;
    return last ? this.steps.slice(first, k) : [];
  }

  // Where the next step, or the one before, leads.
  turn(k, unit, way) {
    const { steps } = this;
    if (unit !== "round") return max(0, min(steps.length, k + way));
    let at = way > 0 ? k : k - 1;
    const { round } = steps[at] ?? {};
    while (steps[at]?.round === round && at >= 0 && at < steps.length) at += way;
    return way > 0 ? at : at + 1;
  }

  // A message in words.
  tell({ src, dst, what, nbytes, tag, span, who, content }) {
    const carried = content?.values.length <= 8 ? `: ${content.values.join(" ")}` : "";
    return dots(`rank ${src} to rank ${dst}`, what, words(nbytes, "byte"), tag, span && `in ${span}`, who && `data of ${who[1]}${carried}`);
  }
}
