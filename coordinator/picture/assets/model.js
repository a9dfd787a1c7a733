// A run in the browser: the model of docs/format/timeline.md, kept up to date by changes. Pure: it touches no document.

export const NONE = -1;

// Names of the statuses, in the order in which people want to see them.
export const STATUS = {
  f: "failed", u: "in doubt", r: "running", q: "queued", w: "waiting", s: "skipped", d: "done",
};
export const ORDER = "furqwsd";

// over tells that nothing more is expected of a vertex.
export const over = (status) => status === "d" || status === "f" || status === "s";

const WAITS = { t: "its turn", l: "a permit of the limit", p: "a slot of the pool", m: "a worker of the pool", o: "" };

// waitText says what a wait [kind, name, from, to] is for.
export function waitText([kind, name]) {
  if (kind === "t") return "its turn: others come first";
  if (kind === "o") return "on the way";
  if (kind === "l" && name === "default") return "a permit of the limit default (the parallelism)";
  return `${WAITS[kind] || "something"} ${name}`;
}

// waitLabel is the short form of it, for thin bars.
export const waitLabel = ([kind, name]) => kind === "t" ? "turn" : kind === "o" ? "on the way" : name;

// duration writes milliseconds no more exactly than people read them.
export function duration(ms) {
  if (ms < 0 || !Number.isFinite(ms)) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} min ${s % 60} s`;
  return `${Math.floor(m / 60)} h ${m % 60} min`;
}

// Run is a run. Vertices are named by their index; dependencies are indexes, too. A junction has status "j" and no
// address: what passes through it is found by through(). What a large run is asked for in each frame is kept up to date
// with each change, so that a frame costs as much as has changed.
export class Run {
  constructor(json) {
    if (json.version !== 2) throw new Error(`This page reads timelines of version 2, and not of ${json.version}.`);
    const c = json.vertices;
    const n = c.number.length;
    const names = json.names;
    const named = (list) => list.map((k) => names[k]);
    this.head = json.head;
    this.counts = json.counts;
    this.shortages = json.shortages || [];
    this.cursor = json.cursor;
    this.number = c.number;
    this.at = new Map();
    for (let i = 0; i < n; i++) this.at.set(c.number[i], i);
    this.module = named(c.module);
    this.block = named(c.block);
    this.key = c.key;
    this.type = named(c.type);
    this.action = named(c.action);
    this.status = c.letters.split("");
    this.pool = named(c.pool);
    this.worker = named(c.worker);
    this.ready = c.ready;
    this.started = c.started;
    this.ended = c.ended;
    this.took = c.took;
    // The dependencies of vertex i are deps[off[i]] to deps[off[i + 1] - 1].
    this.off = [0];
    this.deps = [];
    for (let i = 0, k = 0; i < n; i++) {
      for (const end = k + c.degree[i]; k < end; k++) this.depend(c.after[k]);
      this.off.push(this.deps.length);
    }
    this.more = new Array(n);
    for (const i in c.more || {}) this.more[i] = c.more[i];
    this.outline = Boolean(json.outline); // vertices are what is drawn first, and some of them are folded groups
    this.told = null; // the story, when it has come
    this.received = 0; // when the model came, by the caller's clock
    this.edges = null; // who depends on whom, when somebody has asked
    this.via = new Array(n).fill(UNKNOWN); // by vertex: which of those before it ended last
    this.open = new Set(); // vertices that have started, and not ended
    this.waiting = new Heap(); // vertices that were queued, by when they were ready: ready * BITS + index
    this.bad = new Set(); // vertices that have failed, or are in doubt
    this.blamed = new Map(); // by address: how many were skipped because of it
    this.last = NONE; // who ended last
    this.stale = false; // whether ends have changed that last and via rest on
    for (let i = 0; i < n; i++) this.enter(i);
  }

  get size() { return this.number.length; }

  // depend adds a dependency of the vertex that is being added.
  depend(number) {
    const d = this.at.get(number);
    if (d !== undefined) this.deps.push(d);
  }

  // story takes the second piece: what vertices have waited for, and their attempts.
  story(json) {
    const c = json.story;
    const first = new Map();
    for (let i = 0, k = 0; i < c.number.length; k += c.waits[i], i++) {
      const v = this.at.get(c.number[i]);
      if (v !== undefined) first.set(v, [i, k]);
    }
    this.told = { ...c, names: json.names, first };
  }

  // enter notes what is kept up to date of a vertex.
  enter(i) {
    const status = this.status[i];
    if (status === "j") return;
    if (this.started[i] >= 0) {
      if (this.ended[i] < 0) this.open.add(i);
      else if (this.last < 0 || this.ended[i] > this.ended[this.last] || this.ended[i] === this.ended[this.last] &&
        this.started[i] < this.started[this.last]) this.last = i;
    }
    if (status === "q") this.waiting.push(Math.max(0, this.ready[i]) * BITS + i);
    else if (status === "f" || status === "u") this.bad.add(i);
    else if (status === "s") {
      const because = this.because(i);
      this.blamed.set(because, (this.blamed.get(because) || 0) + 1);
    }
  }

  // leave takes back what enter has noted.
  leave(i) {
    this.open.delete(i);
    this.bad.delete(i);
    if (this.status[i] === "s") this.blamed.set(this.because(i), this.blamed.get(this.because(i)) - 1);
  }

  // apply takes changes. It returns the indexes of the vertices that are different, and whether some are new. before is
  // called with each vertex that is about to change.
  apply(changes, before = () => {}) {
    this.head = changes.head;
    this.counts = changes.counts;
    this.shortages = changes.shortages || [];
    this.cursor = changes.cursor;
    const dirty = [];
    let grown = false;
    for (const v of changes.vertices) {
      let i = this.at.get(v.number);
      const had = i !== undefined;
      if (!had) {
        if (v.address === undefined && v.status !== "j") continue; // it was new before the cursor that this reader had
        i = this.size;
        this.at.set(v.number, i);
        this.number.push(v.number);
        this.module.push(v.module || "");
        const local = v.module ? (v.address || "").slice(v.module.length + 1) : v.address || "";
        const block = blockOf(local);
        this.block.push(block);
        this.key.push(local.slice(block.length));
        this.type.push(v.type || "");
        for (const number of v.after || []) this.depend(number);
        this.off.push(this.deps.length);
        this.via.push(UNKNOWN);
        grown = true;
      } else {
        before(i);
        this.leave(i);
        if (this.ended[i] >= 0 && this.ended[i] !== v.ended) this.stale = true;
      }
      this.action[i] = v.action || "";
      this.status[i] = v.status;
      this.pool[i] = v.pool || "";
      this.worker[i] = v.worker || "";
      this.ready[i] = v.ready;
      this.started[i] = v.started;
      this.ended[i] = v.ended;
      this.took[i] = v.took || 0;
      v.whole = true;
      this.more[i] = v;
      this.enter(i);
      dirty.push(i);
    }
    return { dirty, grown };
  }

  // forget makes anew what rests on ends that have changed: an operation that had ended is carried out again.
  forget() {
    this.stale = false;
    this.via.fill(UNKNOWN);
    this.last = NONE;
    for (let i = 0; i < this.size; i++) {
      if (this.status[i] === "j" || this.started[i] < 0 || this.ended[i] < 0) continue;
      if (this.last < 0 || this.ended[i] > this.ended[this.last]) this.last = i;
    }
  }

  waits(i) {
    const m = this.more[i];
    if (m?.whole) return m.waits || [];
    const at = this.told?.first.get(i);
    if (!at) return [];
    const { letters, name, from, to, names, waits } = this.told;
    const out = [];
    for (let k = at[1]; k < at[1] + waits[at[0]]; k++) out.push([letters[k], names[name[k]], from[k], to[k]]);
    return out;
  }

  // fold is the group that a vertex of an outline stands for: { id, label, total, counts }; undefined: none.
  fold(i) { return this.more[i]?.fold; }
  holds(i) { return this.more[i]?.holds || []; }
  failure(i) { return this.more[i]?.failure || ""; }
  because(i) { return this.more[i]?.because || ""; }
  doubtful(i) { return this.more[i]?.doubtful || ""; }
  attempts(i) { return this.fromStory(i, "attempts", "attempts") || 0; }
  attempt(i) { return this.fromStory(i, "attempt", "last") || ""; }

  fromStory(i, field, list) {
    const m = this.more[i];
    if (m?.whole) return m[field];
    const at = this.told?.first.get(i);
    return at && this.told[list][at[0]];
  }

  // name is the address within its module, address the whole one.
  name(i) { return this.block[i] + this.key[i]; }
  address(i) { return this.module[i] ? `${this.module[i]}.${this.block[i]}${this.key[i]}` : this.name(i); }

  // labels are what a vertex is called where there is little room, the longest first: with its module, without the
  // type, and without the module.
  labels(i) {
    const { block } = this;
    const name = block[i].slice(block[i].lastIndexOf(".") + 1) + this.key[i];
    if (!this.module[i]) return [this.name(i), name];
    const module = this.module[i].replace(/(^|\.)module\./g, "$1");
    return [`${module} ${this.name(i)}`, `${module} ${name}`, name];
  }

  // find returns the vertex of an address; NONE without one.
  find(address) {
    for (let i = 0; i < this.size; i++) {
      if (address.endsWith(this.key[i]) && this.status[i] !== "j" && this.address(i) === address) return i;
    }
    return NONE;
  }

  // title is what a line calls a vertex.
  title(i) {
    const deposed = this.more[i]?.deposed;
    return deposed ? `${this.address(i)} (deposed ${deposed})` : this.address(i);
  }

  after(i) { return this.deps.slice(this.off[i], this.off[i + 1]); }

  // dependents lists what waits for a vertex: junctions among them.
  dependents(i) {
    if (!this.edges) this.edges = { first: [], link: [], owner: [] };
    const { first, link, owner } = this.edges; // by vertex: its last edge; by edge: the one before it, and who waits
    while (first.length < this.size) first.push(NONE);
    for (let v = owner.length === 0 ? 0 : owner[owner.length - 1] + 1; v < this.size; v++) {
      for (let e = this.off[v]; e < this.off[v + 1]; e++) {
        link.push(first[this.deps[e]]);
        owner.push(v);
        first[this.deps[e]] = e;
      }
    }
    const out = [];
    for (let e = first[i]; e >= 0; e = link[e]) out.push(owner[e]);
    return out.reverse();
  }

  // through lists the vertices behind edges of a vertex, where junctions are passed: "after" or dependents.
  through(i, forward = false, limit = Infinity) {
    const out = [];
    const seen = new Set([i]);
    const todo = [i];
    while (todo.length > 0 && out.length < limit) {
      const v = todo.pop();
      for (const d of forward ? this.dependents(v) : this.after(v)) {
        if (seen.has(d)) continue;
        seen.add(d);
        if (this.status[d] === "j") todo.push(d);
        else out.push(d);
      }
    }
    return out;
  }

  // latest is which of those before a vertex that has started ended last, also through junctions; NONE: none did.
  latest(v) {
    if (this.via[v] !== UNKNOWN) return this.via[v];
    this.via[v] = NONE;
    let best = NONE, whole = true;
    for (let e = this.off[v]; e < this.off[v + 1]; e++) {
      const d = this.deps[e];
      const c = this.status[d] === "j" ? this.latest(d) : d;
      if (c < 0) continue;
      if (this.ended[c] < 0) whole = false;
      else if (best < 0 || this.ended[c] > this.ended[best]) best = c;
    }
    this.via[v] = whole ? best : UNKNOWN;
    return best;
  }

  // now is the time of the run, when the caller's clock says clock.
  now(clock = 0) {
    if (this.head.outcome) return this.head.now;
    return this.head.now + Math.max(0, clock - this.received);
  }

  // until is the end of a vertex, or the time now for one under way.
  until(i, now) { return this.ended[i] >= 0 ? this.ended[i] : now; }

  // extent is how long the time axis is.
  extent(now) { return Math.max(1, this.head.ended, now); }

  // holders are the vertices that have a permit of a limit, or a slot of a pool.
  holders(kind, name) {
    const out = [];
    for (const i of new Set([...this.open, ...this.bad])) {
      if (this.status[i] !== "r" && this.status[i] !== "u") continue;
      if (kind === "p" ? this.pool[i] === name && this.status[i] === "r" : this.holds(i).includes(name)) out.push(i);
    }
    return out.sort((a, b) => a - b);
  }

  // queued lists the vertices that wait for a permit, a slot or a worker now, those that have waited longest first.
  queued(most) {
    const out = [];
    const kept = [];
    while (out.length < most && this.waiting.size > 0) {
      const x = this.waiting.pop();
      const i = x % BITS;
      const holds = this.status[i] === "q" && Math.max(0, this.ready[i]) === (x - i) / BITS;
      if (!holds || x === kept[kept.length - 1]) continue;
      out.push(i);
      kept.push(x);
    }
    for (const x of kept) this.waiting.push(x);
    return out;
  }
}

const UNKNOWN = -2;
export const BITS = 2 ** 22; // more than a run has vertices

// Heap gives out the least of its numbers first.
export class Heap {
  constructor() { this.list = []; }

  get size() { return this.list.length; }

  push(x) {
    const { list } = this;
    let i = list.length;
    list.push(x);
    while (i > 0) {
      const up = (i - 1) >> 1;
      if (list[up] <= x) break;
      list[i] = list[up];
      i = up;
    }
    list[i] = x;
  }

  pop() {
    const { list } = this;
    const top = list[0], x = list.pop();
    if (list.length === 0) return top;
    let i = 0;
    for (;;) {
      let k = 2 * i + 1;
      if (k >= list.length) break;
      if (k + 1 < list.length && list[k + 1] < list[k]) k++;
      if (x <= list[k]) break;
      list[i] = list[k];
      i = k;
    }
    list[i] = x;
    return top;
  }
}

// blockOf is the address of the block of an instance: without the key behind it.
export function blockOf(name) {
  if (!name.endsWith("]")) return name;
  let quoted = false;
  for (let i = 0; i < name.length; i++) {
    const c = name[i];
    if (quoted && c === "\\") i++;
    else if (c === '"') quoted = !quoted;
    else if (c === "[" && !quoted) return name.slice(0, i);
  }
  return name;
}

// criticalPath lists the vertices, first to last, that the end of the run had to wait for: the one that ended last (or
// is running longest), of its dependencies the one that ended last, and so on.
export function criticalPath(run, now) {
  if (run.stale) run.forget();
  let last = run.last;
  let longest = NONE; // of those under way
  for (const i of run.open) if (longest < 0 || run.started[i] < run.started[longest]) longest = i;
  if (longest >= 0 && (last < 0 || now >= run.ended[last])) last = longest;
  const path = [];
  const seen = new Set();
  for (let v = last; v >= 0 && !seen.has(v); v = run.latest(v)) {
    seen.add(v);
    path.push(v);
  }
  return path.reverse();
}

// pathTimes says where the time along a path went: a list of [label, milliseconds], the longest first.
export function pathTimes(run, path, now) {
  const sums = new Map();
  const add = (label, ms) => { if (ms > 0) sums.set(label, (sums.get(label) || 0) + ms); };
  for (const i of path) {
    if (run.started[i] < 0) continue;
    add("operations", run.until(i, now) - run.started[i]);
    for (const w of run.waits(i)) {
      const to = w[3] >= 0 ? w[3] : now;
      add(`waiting for ${waitText(w)}`, to - w[2]);
    }
  }
  return [...sums].sort((a, b) => b[1] - a[1]);
}

// search lists the vertices whose address, type, worker, pool, action or status has all the words.
export function search(run, text, limit = Infinity) {
  const words = text.toLowerCase().split(/\s+/).filter((w) => w);
  const out = [];
  if (words.length === 0) return out;
  // Most names are those of many vertices: for each word and name it is found out once.
  const known = words.map(() => new Map());
  const has = (k, name) => {
    let yes = known[k].get(name);
    if (yes === undefined) known[k].set(name, yes = name.toLowerCase().includes(words[k]));
    return yes;
  };
  for (let i = 0; i < run.size && out.length < limit; i++) {
    if (run.status[i] === "j") continue;
    let all = true;
    for (let k = 0; k < words.length && all; k++) {
      all = has(k, run.module[i]) || has(k, run.block[i]) || has(k, run.worker[i]) || has(k, run.pool[i]) ||
        has(k, run.action[i]) || has(k, STATUS[run.status[i]]) || run.key[i].toLowerCase().includes(words[k]) ||
        (words[k].includes(".") || words[k].includes("[")) && run.address(i).toLowerCase().includes(words[k]);
    }
    if (all) out.push(i);
  }
  return out;
}
