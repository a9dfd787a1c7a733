// The lanes of a Gantt: one for each slot of each worker, as far as it was used. Pure.

import { BITS, Heap, NONE } from "./model.js";

// Lanes keeps who ran in which slot. A slot has items, vertices in the order of their beginnings, one behind the other.
export class Lanes {
  constructor(run) {
    this.run = run;
    this.crews = new Map(); // "pool\nworker" -> { pool, worker, slots }
    this.where = new Array(run.size); // by vertex: its slot
    this.sorted = null;
    // Numbers are sorted much faster than by a function: the beginning and the index are one.
    const order = [];
    for (let i = 0; i < run.size; i++) if (shown(run, i)) order.push(run.started[i] * BITS + i);
    for (const x of Float64Array.from(order).sort()) this.put(x % BITS, true);
    for (const crew of this.crews.values()) crew.busy = crew.free = null;
  }

  // update brings a vertex that has changed to its place.
  update(i) {
    const { run } = this;
    const slot = this.where[i];
    if (slot) {
      if (slot.crew.worker === run.worker[i] && slot.crew.pool === run.pool[i] && shown(run, i)) {
        if (bad(run, i)) note(slot, i);
        else if (slot.bad.includes(i)) slot.bad.splice(slot.bad.indexOf(i), 1);
        return;
      }
      const k = slot.items.lastIndexOf(i);
      if (k >= 0) slot.items.splice(k, 1);
      if (slot.bad.includes(i)) slot.bad.splice(slot.bad.indexOf(i), 1);
      this.where[i] = undefined;
      this.tidy(slot.crew);
    }
    if (shown(run, i)) this.put(i);
  }

  // put puts a vertex into the first slot of its worker that is free. ordered tells that those that come have begun in
  // this order.
  put(i, ordered = false) {
    const { run } = this;
    const key = `${run.pool[i]}\n${run.worker[i]}`;
    let crew = this.crews.get(key);
    if (!crew) {
      // busy and free are the slots by when they are free, and by their order, while vertices come in order.
      crew = { pool: run.pool[i], worker: run.worker[i], slots: [], busy: new Heap(), free: new Heap() };
      this.crews.set(key, crew);
      this.sorted = null;
    }
    let slot = ordered ? this.freed(crew, run.started[i]) : this.firstFree(crew, run.started[i]);
    if (!slot) {
      // bad are the items that have failed, or are in doubt: they are drawn even where they are smaller than a pixel.
      slot = { crew, at: crew.slots.length, items: [], bad: [], row: NONE };
      crew.slots.push(slot);
      this.sorted = null;
    }
    slot.items.push(i);
    if (ordered && run.ended[i] >= 0) crew.busy.push(Math.max(0, left(run, i)) * BITS + slot.at);
    if (bad(run, i)) note(slot, i);
    this.where[i] = slot;
  }

  freed(crew, begin) {
    while (crew.busy.size > 0 && crew.busy.list[0] < (begin + 1) * BITS) crew.free.push(crew.busy.pop() % BITS);
    return crew.free.size > 0 ? crew.slots[crew.free.pop()] : null;
  }

  firstFree(crew, begin) {
    for (const slot of crew.slots) {
      const last = slot.items[slot.items.length - 1];
      if (last === undefined || this.run.ended[last] >= 0 && left(this.run, last) <= begin) return slot;
    }
    return null;
  }

  // tidy takes slots away that nobody is in any more, from the last one on.
  tidy(crew) {
    while (crew.slots.length > 0 && crew.slots[crew.slots.length - 1].items.length === 0) crew.slots.pop();
    if (crew.slots.length === 0) this.crews.delete(`${crew.pool}\n${crew.worker}`);
    this.sorted = null;
  }

  // list is the lanes from top to bottom: by pool, worker and slot.
  list() {
    if (this.sorted) return this.sorted;
    const crews = [...this.crews.values()].sort((a, b) => compare(a.pool, b.pool) || compare(a.worker, b.worker));
    this.sorted = [];
    for (const crew of crews) {
      crew.slots.forEach((slot, k) => {
        slot.row = this.sorted.length;
        const { items, bad } = slot;
        this.sorted.push({ crew, slot: k, items, bad, label: laneLabel(crew, k), first: k === 0 });
      });
    }
    return this.sorted;
  }

  laneOf(i) {
    this.list();
    return this.where[i]?.row ?? NONE;
  }
}

// left is when an operation had left its worker's slot at the earliest. The slot is free as soon as the worker has sent the
// result; the operation ends once the result has arrived and is stored, and the next one may have been sent before.
function left(run, i) {
  const took = run.took[i];
  return took > 0 ? Math.min(run.ended[i], run.started[i] + took) : run.ended[i];
}

const bad = (run, i) => run.status[i] === "f" || run.status[i] === "u";

function note(slot, i) {
  if (!slot.bad.includes(i)) slot.bad.push(i);
}

const shown = (run, i) => run.status[i] !== "j" && run.started[i] >= 0 && run.status[i] !== "s" && run.pool[i] !== "";
const compare = (a, b) => a < b ? -1 : a > b ? 1 : 0;

function laneLabel(crew, slot) {
  const worker = crew.worker || "not known yet";
  const pool = crew.pool === "default" || crew.pool === "" ? "" : `${crew.pool} / `;
  return `${pool}${worker} ${slot + 1}`;
}

// firstFrom finds the first item of a lane, from one on, that is not over at a time. It costs little if that is near.
export function firstFrom(run, items, time, now, from = 0) {
  let low = from, high = from, step = 1;
  while (high < items.length && run.until(items[high], now) < time) {
    low = high + 1;
    high += step;
    step *= 2;
  }
  high = Math.min(high, items.length);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (run.until(items[middle], now) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Pressure counts, for each limit, pool and so on that was waited for, how many waited over time: the mean in each of
// at most twice MOMENTS moments of the same length, which doubles when the run outgrows them. A change costs as much as
// the waits of the vertex that has changed.
export class Pressure {
  constructor() {
    this.length = 1; // of a moment, in milliseconds
    this.by = new Map(); // by kind and name
  }

  // add takes the waits of a vertex in, or, with the weight -1, takes them back.
  add(waits, weight = 1) {
    for (const [kind, name, from, to] of waits) {
      if (kind === "t" || kind === "o") continue; // its turn, or on the way
      while (Math.max(from, to) >= 2 * MOMENTS * this.length) this.double();
      let p = this.by.get(kind + name);
      if (!p) {
        // In a moment, wait are the milliseconds that were waited in it by those who began or ended to wait there,
        // less those who began before it: they are the sum of all steps up to it, times the length.
        p = { kind, name, wait: new Float64Array(2 * MOMENTS + 1), step: new Float64Array(2 * MOMENTS + 1), total: 0,
          open: 0 };
        this.by.set(kind + name, p);
      }
      this.edge(p, from, weight);
      if (to >= 0) this.edge(p, to, -weight);
      p.open += to >= 0 ? 0 : weight;
      p.total += to >= 0 ? weight * (to - from) : -weight * from; // of an open one, the time now is to be added
    }
  }

  edge(p, time, weight) {
    const k = Math.floor(time / this.length);
    p.wait[k] += weight * ((k + 1) * this.length - time);
    p.step[k + 1] += weight;
  }

  double() {
    for (const p of this.by.values()) {
      const wait = new Float64Array(2 * MOMENTS + 1), step = new Float64Array(2 * MOMENTS + 1);
      let sum = 0;
      for (let k = 0; k < 2 * MOMENTS; k++) {
        sum += p.step[k];
        wait[k >> 1] += p.wait[k] + sum * this.length;
      }
      sum += p.step[2 * MOMENTS];
      step[MOMENTS] = sum; // who waits still
      p.wait = wait;
      p.step = step;
    }
    this.length *= 2;
  }

  // bands are what was waited for, by how long altogether: { kind, name, counts, most, total }, at most so many.
  bands(now, many) {
    while (now >= 2 * MOMENTS * this.length) this.double();
    const last = Math.floor(now / this.length);
    const all = [];
    for (const p of this.by.values()) {
      const total = p.total + p.open * now;
      if (total > 0.5) all.push({ p, kind: p.kind, name: p.name, total, counts: new Float64Array(last + 1), most: 0 });
    }
    all.sort((a, b) => b.total - a.total || compare(a.name, b.name));
    const shown = all.slice(0, many);
    for (const band of shown) {
      let sum = 0;
      for (let k = 0; k <= last; k++) {
        sum += band.p.step[k];
        let waited = band.p.wait[k] + sum * this.length, length = this.length;
        if (k === last) { // it is not over
          waited -= band.p.open * ((k + 1) * this.length - now);
          length = Math.max(1, now - k * this.length);
        }
        band.counts[k] = Math.max(0, waited / length);
        band.most = Math.max(band.most, band.counts[k]);
      }
    }
    return shown;
  }
}

export const MOMENTS = 300;

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
