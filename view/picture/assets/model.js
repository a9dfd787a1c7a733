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
// address: what passes through it is found by through().
export class Run {
  constructor(json) {
    if (json.version > 1) throw new Error(`This page reads timelines of version 1, and not of ${json.version}.`);
    const c = json.vertices;
    const n = c.number.length;
    this.head = json.head;
    this.counts = json.counts;
    this.shortages = json.shortages || [];
    this.cursor = json.cursor;
    this.at = new Map();
    for (let i = 0; i < n; i++) this.at.set(c.number[i], i);
    const names = json.names;
    this.number = c.number.slice();
    this.module = c.module.map((k) => names[k]);
    this.address = c.address.map((a, i) => this.module[i] ? `${this.module[i]}.${a}` : a);
    this.type = c.type.map((k) => names[k]);
    this.action = c.action.map((k) => names[k]);
    this.status = c.status.split("");
    this.pool = c.pool.map((k) => names[k]);
    this.worker = c.worker.map((k) => names[k]);
    this.ready = c.ready.slice();
    this.started = c.started.slice();
    this.ended = c.ended.slice();
    this.took = c.took.slice();
    this.after = c.after.map((list) => this.indexes(list));
    this.more = new Array(n);
    for (const i in c.more || {}) this.more[i] = c.more[i];
    this.received = 0; // when the model came, by the caller's clock
    this.next = null; // the dependents of each vertex, made when somebody asks
  }

  get size() { return this.number.length; }

  indexes(numbers) {
    const out = [];
    for (const k of numbers) {
      const i = this.at.get(k);
      if (i !== undefined) out.push(i);
    }
    return out;
  }

  // apply takes changes. It returns the indexes of the vertices that are different, and whether some are new.
  apply(changes) {
    this.head = changes.head;
    this.counts = changes.counts;
    this.shortages = changes.shortages || [];
    this.cursor = changes.cursor;
    const dirty = [];
    let grown = false;
    for (const v of changes.vertices) {
      let i = this.at.get(v.number);
      if (i === undefined) {
        if (v.address === undefined && v.status !== "j") continue; // it was new before the cursor that this reader had
        i = this.size;
        this.at.set(v.number, i);
        this.number.push(v.number);
        this.module.push(v.module || "");
        this.address.push(v.address || "");
        this.type.push(v.type || "");
        this.after.push(this.indexes(v.after || []));
        this.next = null;
        grown = true;
      }
      this.action[i] = v.action || "";
      this.status[i] = v.status;
      this.pool[i] = v.pool || "";
      this.worker[i] = v.worker || "";
      this.ready[i] = v.ready;
      this.started[i] = v.started;
      this.ended[i] = v.ended;
      this.took[i] = v.took || 0;
      this.more[i] = v;
      dirty.push(i);
    }
    return { dirty, grown };
  }

  waits(i) { return this.more[i]?.waits || []; }
  holds(i) { return this.more[i]?.holds || []; }
  failure(i) { return this.more[i]?.failure || ""; }
  because(i) { return this.more[i]?.because || ""; }
  doubtful(i) { return this.more[i]?.doubtful || ""; }
  attempts(i) { return this.more[i]?.attempts || 0; }
  attempt(i) { return this.more[i]?.attempt || ""; }

  // title is what a line calls a vertex.
  title(i) {
    const deposed = this.more[i]?.deposed;
    return deposed ? `${this.address[i]} (deposed ${deposed})` : this.address[i];
  }

  // name is the address within its module.
  name(i) {
    const m = this.module[i];
    return m ? this.address[i].slice(m.length + 1) : this.address[i];
  }

  // dependents lists what waits for a vertex: junctions among them.
  dependents(i) {
    if (!this.next) {
      this.next = Array.from({ length: this.size }, () => []);
      for (let v = 0; v < this.size; v++) for (const d of this.after[v]) this.next[d].push(v);
    }
    return this.next[i];
  }

  // through lists the vertices behind edges of a vertex, where junctions are passed: "after" or dependents.
  through(i, forward = false, limit = Infinity) {
    const out = [];
    const seen = new Set([i]);
    const todo = [i];
    while (todo.length > 0 && out.length < limit) {
      const v = todo.pop();
      for (const d of forward ? this.dependents(v) : this.after[v]) {
        if (seen.has(d)) continue;
        seen.add(d);
        if (this.status[d] === "j") todo.push(d);
        else out.push(d);
      }
    }
    return out;
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
    for (let i = 0; i < this.size; i++) {
      if (this.status[i] !== "r" && this.status[i] !== "u") continue;
      if (kind === "p" ? this.pool[i] === name && this.status[i] === "r" : this.holds(i).includes(name)) out.push(i);
    }
    return out;
  }
}

// criticalPath lists the vertices, first to last, that the end of the run had to wait for: the one that ended last (or
// is running longest), of its dependencies the one that ended last, and so on.
export function criticalPath(run, now) {
  let last = -1;
  for (let i = 0; i < run.size; i++) {
    if (run.started[i] < 0 || run.status[i] === "j") continue;
    if (last < 0) { last = i; continue; }
    const a = run.until(i, now), b = run.until(last, now);
    if (a > b || (a === b && run.started[i] < run.started[last])) last = i;
  }
  const path = [];
  const before = new Map(); // by junction: which of those before it ended last
  const latest = (v) => {
    let best = -1;
    for (const d of run.after[v]) {
      let c = d;
      if (run.status[d] === "j") {
        if (!before.has(d)) {
          before.set(d, -1);
          before.set(d, latest(d));
        }
        c = before.get(d);
      }
      if (c >= 0 && run.ended[c] >= 0 && (best < 0 || run.ended[c] > run.ended[best])) best = c;
    }
    return best;
  };
  const seen = new Set();
  for (let v = last; v >= 0 && !seen.has(v); v = latest(v)) {
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
  for (let i = 0; i < run.size && out.length < limit; i++) {
    if (run.status[i] === "j") continue;
    const all = `${run.address[i]} ${run.worker[i]} ${run.pool[i]} ${run.action[i]} ${STATUS[run.status[i]]}`;
    const hay = all.toLowerCase();
    if (words.every((w) => hay.includes(w))) out.push(i);
  }
  return out;
}
