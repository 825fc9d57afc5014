// What ranks held, read from the blocks that partkit/figures/memory.py writes: states by use, the peak of each account.
const USES = ["parameters", "gradients", "optimizer state", "activations", "buffers", "other"], CAP = USES.length, WIDE = CAP + 1;
const bytes = (n) => { const p = n < 1000 ? 0 : floor(log10(n) / 3); return p ? `${three(n / 1000 ** p)} ${"kMGTP"[p - 1]}B` : words(n, "byte"); };

class Account {
  constructor(rank) { Object.assign(this, { rank, n: 0, room: 0, found: null, time: new Float64Array(0), held: new Float64Array(0), span: new Int32Array(0), site: new Int32Array(0) }); }

  put(first, time, held, span, site) {
    const n = (this.n = first + time.length);
    if (n > this.room) {
      this.room = max(64, 2 * n);
      for (const [name, wide] of [["time", 1], ["held", WIDE], ["span", 1], ["site", 1]]) { const old = this[name]; (this[name] = new old.constructor(this.room * wide)).set(old); }
    }
    this.time.set(time, first);
    this.held.set(held, first * WIDE);
    this.span.set(span, first);
    this.site.set(site, first);
    this.found = null;
  }

  value(i, use) { return this.held[i * WIDE + use]; }
  total(i) { let sum = 0; for (let k = 0; k < CAP; k++) sum += this.value(i, k); return sum; }
  get cap() { return this.n ? this.value(this.n - 1, CAP) : 0; }
  get most() { return this.total(this.peak); }

  // The first state with the largest total; of those that follow on it the last.
  get peak() {
    if (this.found === null) {
      let best = 0, most = -1, level = false;
      for (let i = 0; i < this.n; i++) {
        const total = this.total(i);
        if (total > most) { most = total; best = i; level = true; } else if (level && total === most) best = i; else level = false;
      }
      this.found = best;
    }
    return this.found;
  }

  // Where state i is: at its time, or at its number.
  x(i, counted) { return counted ? i : this.time[i]; }
  get still() { return this.n < 2 || this.time[0] === this.time[this.n - 1]; }

  // The state that holds at this place.
  at(place, counted) {
    let low = 0, high = this.n - 1;
    while (low < high) { const middle = (low + high + 1) >> 1; if (this.x(middle, counted) <= place) low = middle; else high = middle - 1; }
    return low;
  }
}

class Store {
  constructor() { this.reset(-1, 1); }

  reset(run, size) { Object.assign(this, { run, size, n: 0, accounts: [], strings: [], shape: "" }); }

  add(view) {
    blocks(view, (head, take) => {
      this.strings.push(...head.strings);
      this.accounts = head.accounts.map(([rank, label, first, n, shares]) => {
        const account = (first && this.accounts.find((old) => old.rank === rank)) || new Account(rank);
        account.put(first, take(Float64Array, n), take(Float64Array, n * WIDE), take(Int32Array, n), take(Int32Array, n));
        return Object.assign(account, { label, shares });
      });
      this.n += head.n;
    });
    this.shape = JSON.stringify([this.run, this.accounts.map((account) => account.label)]);
  }

  // The outermost spans in which the changes of an account were: [first state, first of the next, name].
  stretches(account) {
    const out = [];
    for (let i = 0; i < account.n; i++) {
      const name = this.strings[account.span[i]].split("/")[0];
      if (!out.length || out.at(-1)[2] !== name) out.push([i, i, name]);
      out.at(-1)[1] = min(i + 1, account.n - 1);
    }
    return out;
  }

  where(account, i) { return [account.span[i] !== undefined && this.strings[account.span[i]] && `in ${this.strings[account.span[i]]}`, this.strings[account.site[i]]?.split("/").at(-1)].filter(Boolean).join(", "); }
}
