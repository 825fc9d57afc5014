// All events of a run as typed arrays, read from the blocks that partkit/figures/encoding.py writes. One store per model.
const LANES = 16, SEND = 0, RECV = 1, METRIC = 5, HIDDEN = 6, COLUMNS = ["kind", "tag", "span", "site", "group", "nbytes", "hop"];
const bytes = (n) => { const p = n < 1000 ? 0 : floor(log10(n) / 3); return p ? `${three(n / 1000 ** p)} ${"kMGTP"[p - 1]}B` : words(n, "byte"); };

class Store {
  constructor() { this.reset(-1, 1); }

  // `whole`: of how many events those that come are a sketch (partkit/figures/sketch.py); 0 if they are all there is.
  reset(run, size, whole = 0) {
    assign(this, { run, size, whole, loads: (this.loads ?? 0) + 1, n: 0, paired: 0, begin: 0, last: 0, lanes: 0, held: 0, strings: [], details: [], sends: [], odd: new Map(), values: new Map(), channels: {}, sides: new Map(), kind: new Uint8Array(65536) });
    this.start = new Float64Array(0);
    this.length = new Float32Array(0);
    this.place = this.detail = new Uint16Array(0); // rank * LANES + lane; row of details
    this.partner = new Int32Array(0); // 1 + the event at the other end of the message; 0 for none
  }

  add(view) {
    const buffer = view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
    let at = 0;
    const take = (type, n) => { const part = new type(buffer, at, n); at += part.byteLength; return part; };
    while (at < buffer.byteLength) {
      const size = take(Uint32Array, 2)[0], head = JSON.parse(new TextDecoder().decode(take(Uint8Array, size))), first = this.n, n = head.n;
      this.strings.push(...head.strings);
      this.learn(take(Float64Array, head.details * COLUMNS.length));
      this.grow(first + n);
      const small = head.wide ? Uint16Array : Uint8Array, start = take(Float32Array, n), length = take(Float32Array, n), place = take(small, n);
      this.length.set(length, first);
      this.place.set(place, first);
      this.detail.set(take(small, n), first);
      for (const [i, seq] of head.seq) this.odd.set(i, seq);
      for (const [i, value] of head.values) this.values.set(i, value);
      this.n += n;
      let { begin, last, lanes, held } = this;
      for (let i = 0; i < n; i++) {
        const t = (this.start[first + i] = head.base + start[i]);
        last = max(last, t + length[i]);
        begin = min(begin, t);
        const kind = this.kind[this.detail[first + i]];
        held |= 1 << kind;
        if (kind !== HIDDEN) lanes |= 1 << place[i] % LANES;
      }
      assign(this, { begin, last, lanes, held }); // lanes and kinds that have events: bit by bit
      at += -at & 7;
    }
  }

  learn(rows) {
    for (let i = 0; i < rows.length; i += COLUMNS.length) {
      const row = Object.fromEntries(COLUMNS.map((name, k) => [name, rows[i + k]]));
      for (const name of COLUMNS.slice(1, 5)) row[name + "Text"] = this.strings[row[name]] ?? "";
      // Numbers about memory have a view of their own, and would fill a lane of this one with marks.
      this.kind[this.details.length] = row.kind === METRIC && row.tagText.startsWith("memory: ") ? HIDDEN : row.kind;
      this.details.push(row);
    }
  }

  grow(n) {
    const room = this.start.length;
    for (const name of n > room ? ["start", "length", "place", "detail", "partner"] : []) {
      const old = this[name];
      (this[name] = new old.constructor(max(n, 2 * room))).set(old);
    }
  }

  hidden(i) { return this.kind[this.detail[i]] === HIDDEN; }
  rank(i) { return (this.place[i] / LANES) | 0; }
  end(i) { return this.start[i] + this.length[i]; }
  row(i) { return this.details[this.detail[i]]; }
  peer(i) { const { hop } = this.row(i); return hop < 0 ? -1 : (this.rank(i) + hop) % this.size; }
  isSend(i) { return this.kind[this.detail[i]] === SEND; }

  // The n-th send of a channel (src, dst, tag, group) meets its n-th receive. Some events a call; true when all are done.
  pair() {
    if (this.whole) return true;
    const stop = min(this.n, this.paired + 300000);
    for (let i = this.paired; i < stop; i++) {
      const kind = this.kind[this.detail[i]];
      if (kind > RECV) continue;
      const key = this.rank(i) * 65536 + this.detail[i];
      if (!this.sides.has(key)) this.sides.set(key, this.channel(i));
      const sides = this.sides.get(key);
      if (!sides) continue;
      const mine = sides[kind], theirs = sides[1 - kind], seq = (mine.seq = this.odd.get(i) ?? mine.seq + 1), j = theirs.open.get(seq);
      if (j === undefined) { mine.open.set(seq, i); continue; }
      theirs.open.delete(seq);
      this.partner[i] = j + 1;
      this.partner[j] = i + 1;
      this.sends.push(kind === SEND ? i : j);
    }
    this.paired = stop;
    return stop === this.n;
  }

  channel(i) {
    const { hop, tag, group } = this.row(i), ends = [this.rank(i), this.peer(i)];
    const name = [...(this.isSend(i) ? ends : ends.reverse()), tag, group].join();
    return hop < 0 ? null : (this.channels[name] ??= [SEND, RECV].map(() => ({ seq: -1, open: new Map() })));
  }

  // Everything about an event, line by line.
  describe(i, kinds) {
    const row = this.row(i), peer = this.peer(i), where = peer < 0 ? "" : `${this.isSend(i) ? " to" : " from"} rank ${peer}`;
    return [
      `${kinds[row.kind].name} ${row.tagText}` + (this.values.has(i) ? ` = ${this.values.get(i)}` : ""), `rank ${this.rank(i)}${where}`, row.nbytes > 0 ? bytes(row.nbytes) : "", `${seconds(this.length[i])} from ${seconds(this.start[i])}`,
      row.spanText && `in ${row.spanText}`, row.groupText && `group ${row.groupText}`, row.siteText, row.tag < 0 ? "details in Python only" : "",
    ].filter(Boolean);
  }
}
