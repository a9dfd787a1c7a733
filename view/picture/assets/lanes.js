// The lanes of a Gantt: one for each slot of each worker, as far as it was used. Pure.

// Lanes keeps who ran in which slot. A slot has items, vertices in the order of their beginnings, one behind the other.
export class Lanes {
  constructor(run) {
    this.run = run;
    this.crews = new Map(); // "pool\nworker" -> { pool, worker, slots: [[vertex...]...] }
    this.where = new Map(); // vertex -> [crew, slot]
    this.sorted = null;
    const order = [];
    for (let i = 0; i < run.size; i++) if (shown(run, i)) order.push(i);
    order.sort((a, b) => run.started[a] - run.started[b] || a - b);
    for (const i of order) this.put(i);
  }

  // update brings a vertex that has changed to its place.
  update(i) {
    const run = this.run;
    const at = this.where.get(i);
    if (at && at[0].worker === run.worker[i] && at[0].pool === run.pool[i] && shown(run, i)) return;
    if (at) {
      const items = at[0].slots[at[1]];
      const k = items.lastIndexOf(i);
      if (k >= 0) items.splice(k, 1);
      this.where.delete(i);
      this.tidy(at[0]);
    }
    if (shown(run, i)) this.put(i);
  }

  put(i) {
    const run = this.run;
    const key = `${run.pool[i]}\n${run.worker[i]}`;
    let crew = this.crews.get(key);
    if (!crew) {
      crew = { pool: run.pool[i], worker: run.worker[i], slots: [] };
      this.crews.set(key, crew);
      this.sorted = null;
    }
    const begin = run.started[i];
    let slot = crew.slots.findIndex((items) => {
      if (items.length === 0) return true;
      const last = items[items.length - 1];
      return run.ended[last] >= 0 && run.ended[last] <= begin;
    });
    if (slot < 0) {
      slot = crew.slots.length;
      crew.slots.push([]);
      this.sorted = null;
    }
    crew.slots[slot].push(i);
    this.where.set(i, [crew, slot]);
  }

  // tidy takes slots away that nobody is in any more, from the last one on.
  tidy(crew) {
    while (crew.slots.length > 0 && crew.slots[crew.slots.length - 1].length === 0) crew.slots.pop();
    if (crew.slots.length === 0) this.crews.delete(`${crew.pool}\n${crew.worker}`);
    this.sorted = null;
  }

  // list is the lanes from top to bottom: by pool, worker and slot.
  list() {
    if (this.sorted) return this.sorted;
    const crews = [...this.crews.values()].sort((a, b) => compare(a.pool, b.pool) || compare(a.worker, b.worker));
    this.sorted = [];
    for (const crew of crews) {
      crew.slots.forEach((items, slot) => {
        this.sorted.push({ crew, slot, items, label: laneLabel(crew, slot), first: slot === 0 });
      });
    }
    return this.sorted;
  }

  laneOf(i) {
    const at = this.where.get(i);
    if (!at) return -1;
    return this.list().findIndex((l) => l.crew === at[0] && l.slot === at[1]);
  }
}

const shown = (run, i) => run.status[i] !== "j" && run.started[i] >= 0 && run.status[i] !== "s" && run.pool[i] !== "";
const compare = (a, b) => a < b ? -1 : a > b ? 1 : 0;

function laneLabel(crew, slot) {
  const worker = crew.worker || "not known yet";
  const pool = crew.pool === "default" || crew.pool === "" ? "" : `${crew.pool} / `;
  return `${pool}${worker} ${slot + 1}`;
}

// firstFrom finds the first item of a lane that is not over at a time.
export function firstFrom(run, items, time, now) {
  let low = 0, high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (run.until(items[middle], now) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// queued lists the vertices that wait for a permit, a slot or a worker now, those that have waited longest first.
export function queued(run, most) {
  const out = [];
  for (let i = 0; i < run.size; i++) if (run.status[i] === "q") out.push(i);
  out.sort((a, b) => run.ready[a] - run.ready[b] || a - b);
  return out.slice(0, most);
}

// pressure counts, for each limit, pool and so on that was waited for, how many waited at each of n moments: a list of
// { kind, name, counts, most, total }, by how long was waited for it altogether.
export function pressure(run, n, extent, now) {
  const by = { l: new Map(), p: new Map(), m: new Map() };
  for (let i = 0; i < run.size; i++) {
    for (const w of run.waits(i)) {
      const names = by[w[0]];
      if (!names) continue; // its turn, or on the way
      let p = names.get(w[1]);
      if (!p) {
        p = { kind: w[0], name: w[1], steps: new Int32Array(n + 1), total: 0, counts: null, most: 0 };
        names.set(w[1], p);
      }
      const to = w[3] >= 0 ? w[3] : now;
      p.total += to - w[2];
      const a = Math.min(n - 1, Math.max(0, Math.floor(w[2] / extent * n)));
      const b = Math.min(n, Math.max(a + 1, Math.ceil(to / extent * n)));
      p.steps[a]++;
      p.steps[b]--;
    }
  }
  const all = [...by.l.values(), ...by.p.values(), ...by.m.values()];
  for (const p of all) {
    p.counts = new Int32Array(n);
    let sum = 0;
    for (let k = 0; k < n; k++) {
      sum += p.steps[k];
      p.counts[k] = sum;
      p.most = Math.max(p.most, sum);
    }
  }
  return all.sort((a, b) => b.total - a.total || compare(a.name, b.name));
}

// ticks chooses the marks of a time axis: about every so many pixels, at round times.
export function ticks(from, to, width) {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5,
    36e5, 72e5, 216e5, 864e5];
  const least = (to - from) * 90 / Math.max(1, width);
  const step = steps.find((s) => s >= least) || Math.ceil(least / 864e5) * 864e5;
  const out = [];
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) out.push(t);
  return { step, at: out };
}

// tickLabel writes a mark: with as much as the step needs.
export function tickLabel(t, step) {
  const s = t / 1000;
  const m = Math.floor(s / 60), h = Math.floor(m / 60);
  const two = (k) => String(k).padStart(2, "0");
  if (step < 1000) {
    const digits = step < 10 ? 3 : step < 100 ? 2 : 1;
    return `${two(m)}:${(s % 60).toFixed(digits).padStart(3 + digits, "0")}`;
  }
  return h > 0 ? `${h}:${two(m % 60)}:${two(Math.floor(s % 60))}` : `${two(m)}:${two(Math.floor(s % 60))}`;
}
