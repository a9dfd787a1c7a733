// Where things are drawn: groups that fold, layers by dependency, rows by time, lanes by worker. Pure.

// ROOT is the group that has everything.
export const ROOT = "";

// modules splits the path of a module instance: "module.a[0].module.b" has two parts.
export function modules(path) {
  const parts = [];
  let begin = 0, quoted = false;
  for (let i = 0; i <= path.length; i++) {
    const c = path[i];
    if (quoted) {
      if (c === "\\") i++;
      else if (c === '"') quoted = false;
      continue;
    }
    if (c === '"') quoted = true;
    const ends = i === path.length || (c === "." && path.startsWith("module.", i + 1));
    if (ends && i > begin) {
      parts.push(path.slice(begin, i));
      begin = i + 1;
    }
  }
  return parts;
}

// WIDE is how many instances of a block are one group; those of a block with more are grouped by ranges.
const WIDE = 250;

// Groups is the tree of modules, blocks and ranges of a run. A group has an id, its parent's id, a label, and its
// children: groups (strings) and vertices (numbers). counts has how many vertices below it have each status.
export class Groups {
  constructor(run) {
    this.run = run;
    this.all = new Map();
    this.all.set(ROOT, group(ROOT, null, run.head.run, "root"));
    this.home = new Array(run.size); // the innermost group of each vertex
    this.was = new Array(run.size); // the status under which it is counted
    this.blocks = new Map(); // by module, then by block: the group of its instances
    this.many = new Map(); // by module, then by block: how many instances there are, before they are grouped
    for (let i = 0; i < run.size; i++) {
      if (run.key[i] === "" || run.status[i] === "j") continue;
      const m = within(this.many, run.module[i], () => new Map());
      m.set(run.block[i], (m.get(run.block[i]) || 0) + 1);
    }
    for (let i = 0; i < run.size; i++) this.put(i);
    this.sum(ROOT);
  }

  // add takes a vertex that is new.
  add(i) {
    this.put(i);
    const was = this.was[i];
    this.was[i] = undefined;
    if (was === undefined) return;
    this.all.get(this.home[i]).counts[was]--; // put has counted it in its home alone
    this.all.get(this.home[i]).total--;
    this.count(i);
  }

  // put puts a vertex into its group, and counts it there, but not in those around it.
  put(i) {
    const { run } = this;
    if (run.status[i] === "j") return;
    const home = this.homeOf(i);
    const g = this.all.get(home);
    this.home[i] = home;
    g.children.push(i);
    g.counts[run.status[i]] = (g.counts[run.status[i]] || 0) + 1;
    g.total++;
    this.was[i] = run.status[i];
  }

  homeOf(i) {
    const { run } = this;
    const blocks = within(this.blocks, run.module[i], () => new Map());
    const block = run.key[i] === "" ? "" : run.block[i];
    let id = blocks.get(block);
    if (id === undefined) {
      let path = "";
      id = ROOT;
      for (const part of modules(run.module[i])) {
        path = path ? `${path}.${part}` : part;
        id = this.child(id, `m:${path}`, part, "module");
      }
      if (block !== "") id = this.child(id, `b:${path}:${block}`, block, "block");
      blocks.set(block, id);
    }
    if (block === "" || (this.many.get(run.module[i])?.get(block) || 0) <= 2 * WIDE) return id;
    const g = this.all.get(id);
    const last = g.children[g.children.length - 1];
    if (last !== undefined && this.all.get(last).total < WIDE) {
      this.all.get(last).label = `${this.all.get(last).begin} … ${run.key[i]}`;
      return last;
    }
    const range = this.child(id, `r:${id}:${g.children.length}`, run.key[i], "range");
    this.all.get(range).begin = run.key[i];
    return range;
  }

  child(parent, id, label, kind) {
    if (!this.all.has(id)) {
      this.all.set(id, group(id, parent, label, kind));
      this.all.get(parent).children.push(id);
    }
    return id;
  }

  // sum adds the counts of the groups within a group to its own.
  sum(id) {
    const g = this.all.get(id);
    for (const c of g.children) {
      if (typeof c === "number") continue;
      const inner = this.sum(c);
      g.total += inner.total;
      for (const s in inner.counts) g.counts[s] = (g.counts[s] || 0) + inner.counts[s];
    }
    return g;
  }

  // count brings the counts of the groups around a vertex up to date.
  count(i) {
    const status = this.run.status[i], was = this.was[i];
    if (status === was) return;
    this.was[i] = status;
    for (let id = this.home[i]; id !== null && id !== undefined; id = this.all.get(id).parent) {
      const g = this.all.get(id);
      if (was) g.counts[was]--;
      else g.total++;
      g.counts[status] = (g.counts[status] || 0) + 1;
    }
  }

  // open chooses the groups that are unfolded at the beginning: as many as there is room for, outer ones first.
  open(room) {
    const open = new Set([ROOT]);
    let drawn = this.all.get(ROOT).children.length;
    let level = [...this.all.get(ROOT).children];
    while (level.length > 0) {
      const next = [];
      for (const id of level) {
        if (typeof id === "number") continue;
        const more = this.all.get(id).children.length;
        if (drawn + more - 1 > room) continue;
        drawn += more - 1;
        open.add(id);
        next.push(...this.all.get(id).children);
      }
      level = next;
    }
    return open;
  }

  // drawn lists what is drawn when these groups are unfolded, in the order of the tree: ids of folded groups, and
  // vertices. at finds for each vertex its place in the list.
  drawn(open) { return whole(this.drawnSteps(open)); }

  *drawnSteps(open) {
    const list = [], at = new Int32Array(this.run.size).fill(-1);
    let work = 0;
    const place = (id, to) => {
      for (const c of this.all.get(id).children) {
        if (typeof c === "number") at[c] = to;
        else place(c, to);
      }
    };
    const todo = [...this.all.get(ROOT).children].reverse();
    while (todo.length > 0) {
      const c = todo.pop();
      if (typeof c === "number") {
        at[c] = list.length;
        list.push(c);
        work++;
      } else if (open.has(c)) {
        const { children } = this.all.get(c);
        for (let k = children.length - 1; k >= 0; k--) todo.push(children[k]);
      } else {
        place(c, list.length);
        list.push(c);
        work += this.all.get(c).total;
      }
      if (work > STEP) {
        work = 0;
        yield;
      }
    }
    return { list, at };
  }

  // rows lists the lines of a tree: [id or vertex, level], with what unfolded groups have below them.
  rows(open, keep = null) {
    const rows = [];
    const walk = (id, level) => {
      for (const c of this.all.get(id).children) {
        if (typeof c === "number") {
          if (!keep || keep.has(c)) rows.push([c, level]);
          continue;
        }
        if (keep && !keep.has(c)) continue;
        rows.push([c, level]);
        if (open.has(c) || keep) walk(c, level + 1);
      }
    };
    walk(ROOT, 1);
    return rows;
  }

  // around adds the groups around vertices to a set of vertices.
  around(vertices) {
    const keep = new Set(vertices);
    for (const i of vertices) {
      for (let id = this.home[i]; id && !keep.has(id); id = this.all.get(id).parent) keep.add(id);
    }
    return keep;
  }
}

// within returns the entry of a map, made when it is not there.
function within(map, key, make) {
  let x = map.get(key);
  if (x === undefined) map.set(key, x = make());
  return x;
}

function group(id, parent, label, kind) {
  return { id, parent, label, kind, children: [], counts: {}, total: 0 };
}

// STEP is about how many vertices are looked at in a step of what is done in slices.
const STEP = 8192;

// whole does at once what is made for slices.
export function whole(steps) {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

// edges lists the pairs [before, after] of places between which something depends, each once. A junction that many
// meet in is a place of its own, behind the others; extra says how many of these there are.
export const edges = (run, at, places) => whole(edgeSteps(run, at, places));

export function* edgeSteps(run, at, places) {
  const { off, deps, status } = run;
  const spot = new Map(); // the place of a junction that has one
  const sources = new Map(); // by junction: the places before it
  const out = [];
  const seen = new Set();
  const add = (b, a) => {
    if (b === a || b < 0 || a < 0 || b === undefined || a === undefined) return;
    const key = b * 4194304 + a;
    if (seen.has(key)) return;
    seen.add(key);
    out.push([b, a]);
  };
  const before = (j) => {
    let set = sources.get(j);
    if (set) return set;
    set = new Set();
    sources.set(j, set);
    for (let e = off[j]; e < off[j + 1]; e++) {
      const d = deps[e];
      if (status[d] !== "j") {
        if (at[d] >= 0) set.add(at[d]);
      } else for (const p of before(d)) set.add(p);
    }
    if (set.size > 8) {
      const p = places + spot.size;
      spot.set(j, p);
      for (const s of set) add(s, p);
      set = new Set([p]);
      sources.set(j, set);
    }
    return set;
  };
  const size = run.size; // those that come meanwhile are for the next time
  for (let i = 0; i < size; i++) {
    if (i % STEP === STEP - 1) yield;
    if (status[i] === "j") continue;
    for (let e = off[i]; e < off[i + 1]; e++) {
      const d = deps[e];
      if (status[d] === "j") for (const p of before(d)) add(p, at[i]);
      else add(at[d], at[i]);
    }
  }
  return { pairs: out, extra: spot.size };
}

// layers gives each of n places its layer: one behind the last of those that it depends on. Folded groups may depend on
// each other in a circle; the edges that close one count for nothing.
export function layers(n, pairs) {
  const next = Array.from({ length: n }, () => []);
  const entering = new Int32Array(n);
  for (const [b, a] of pairs) {
    next[b].push(a);
    entering[a]++;
  }
  const layer = new Int32Array(n);
  const done = new Uint8Array(n);
  const ready = [];
  for (let i = 0; i < n; i++) if (entering[i] === 0) ready.push(i);
  let head = 0, left = n, probe = 0;
  while (left > 0) {
    if (head === ready.length) { // a circle: it is opened before the first place that is left
      while (done[probe]) probe++;
      ready.push(probe);
    }
    const v = ready[head++];
    if (done[v]) continue;
    done[v] = 1;
    left--;
    for (const a of next[v]) {
      if (done[a]) continue;
      layer[a] = Math.max(layer[a], layer[v] + 1);
      if (--entering[a] === 0) ready.push(a);
    }
  }
  return layer;
}

export const NODE = { width: 190, height: 26, gapX: 70, gapY: 10 };
const KNOT = 20; // the width of a column that has only junctions
const READABLE = 0.65; // the scale from which on names are read well
const TANGLED = 5000; // places up to which the edges between them are untangled

// byDepth lays n places out in layers, from left to right. Within a layer, what depends on neighbours is neighbours. A
// layer has several columns where names could not be read otherwise in a drawing of the size screen. Places from real on
// are junctions. It returns x and y of the upper left corners, and the size.
export const byDepth = (n, pairs, screen, real) => whole(byDepthSteps(n, pairs, screen, real));

export function* byDepthSteps(n, pairs, screen, real = n) {
  const layer = layers(n, pairs);
  yield;
  let count = 0;
  for (let i = 0; i < n; i++) count = Math.max(count, layer[i] + 1);
  const columns = Array.from({ length: count }, () => []);
  for (let i = 0; i < n; i++) columns[layer[i]].push(i);
  if (n <= TANGLED) yield* untangle(columns, layer, n, pairs);
  const x = new Float64Array(n), y = new Float64Array(n);
  let right = 0, bottom = 0;
  const knots = columns.map((column) => column.every((v) => v >= real));
  const most = rowsFor(columns, knots, screen);
  yield;
  for (const [k, column] of columns.entries()) {
    if (knots[k]) { // each stands around its middle
      column.forEach((v, row) => {
        x[v] = right + KNOT / 2 - NODE.width / 2;
        y[v] = row * (NODE.height + NODE.gapY);
        bottom = Math.max(bottom, y[v] + NODE.height);
      });
      right += KNOT + NODE.gapX;
      continue;
    }
    const wrap = Math.max(1, Math.ceil(column.length / most));
    const rows = Math.ceil(column.length / wrap);
    column.forEach((v, k) => {
      x[v] = right + Math.floor(k / rows) * (NODE.width + 20);
      y[v] = (k % rows) * (NODE.height + NODE.gapY);
      bottom = Math.max(bottom, y[v] + NODE.height);
    });
    right += wrap * (NODE.width + 20) - 20 + NODE.gapX;
  }
  for (const [k, column] of columns.entries()) { // short columns stand in the middle
    const rows = knots[k] ? column.length : Math.ceil(column.length / Math.max(1, Math.ceil(column.length / most)));
    const shift = (bottom - (rows * (NODE.height + NODE.gapY) - NODE.gapY)) / 2;
    for (const v of column) y[v] += Math.max(0, shift);
  }
  return { x, y, width: Math.max(0, right - NODE.gapX), height: bottom, layer };
}

// rowsFor chooses how many places are below each other: as many as can be read, or else as many as are drawn largest.
function rowsFor(columns, knots, screen) {
  const wide = screen?.width || 1000, high = screen?.height || 600; // before it is on the screen
  let longest = 1;
  columns.forEach((column, k) => { if (!knots[k]) longest = Math.max(longest, column.length); });
  let best = longest, most = 0;
  for (let rows = longest; rows >= 1; rows = Math.min(rows - 1, Math.floor(rows * 0.9))) {
    let width = -NODE.gapX;
    columns.forEach((column, k) => {
      width += knots[k] ? KNOT + NODE.gapX : Math.ceil(column.length / rows) * (NODE.width + 20) - 20 + NODE.gapX;
    });
    const scale = Math.min(wide / width, high / (rows * (NODE.height + NODE.gapY)));
    if (scale > most) [best, most] = [rows, scale];
    if (scale >= READABLE) break;
  }
  return best;
}

// untangle orders the columns: each place by the middle of those that it is joined with in the columns before, then
// behind, a few times over.
function* untangle(columns, layer, n, pairs) {
  const back = Array.from({ length: n }, () => []), forth = Array.from({ length: n }, () => []);
  for (const [b, a] of pairs) {
    if (layer[b] < layer[a]) {
      back[a].push(b);
      forth[b].push(a);
    }
  }
  const rank = new Float64Array(n);
  const number = (column) => column.forEach((v, k) => { rank[v] = (k + 0.5) / column.length; });
  columns.forEach(number);
  const middle = new Float64Array(n);
  const sweep = (column, joined) => {
    for (const v of column) {
      const list = joined[v];
      let sum = 0;
      for (const o of list) sum += rank[o];
      middle[v] = list.length ? sum / list.length : rank[v];
    }
    column.sort((a, b) => middle[a] - middle[b] || a - b);
    number(column);
  };
  for (let round = 0; round < 4; round++) {
    for (let k = 1; k < columns.length; k++) sweep(columns[k], back);
    yield;
    for (let k = columns.length - 2; k >= 0; k--) sweep(columns[k], forth);
    yield;
  }
}

// byTime lays places out by when they began: begin has the time of each, Infinity where it has not. What has not begun
// stands behind the time now, by layer. Rows are filled from above. What has begun is about as wide as it is high, in
// units of the size screen.
export function byTime(n, begin, layer, now, screen) {
  const x = new Float64Array(n), y = new Float64Array(n);
  const step = NODE.width + 14;
  let begun = 0;
  for (let i = 0; i < n; i++) if (begin[i] !== Infinity) begun++;
  const shape = screen?.width && screen?.height ? screen.width / screen.height : 1.6;
  const width = Math.max(step * 3, Math.sqrt(1.5 * begun * step * (NODE.height + NODE.gapY) * shape));
  const scale = now > 0 ? width / now : 0;
  const order = Array.from({ length: n }, (_, i) => i).sort((a, b) => begin[a] - begin[b] ||
    layer[a] - layer[b] || a - b);
  const free = []; // by row: where it is free from
  let bottom = 0, right = 0;
  const perLayer = new Map();
  let first = -1;
  for (const v of order) {
    if (begin[v] === Infinity) {
      if (first < 0) first = layer[v];
      const k = perLayer.get(layer[v]) || 0;
      perLayer.set(layer[v], k + 1);
      x[v] = width + step * (1 + (layer[v] - first) * 1.2);
      y[v] = k * (NODE.height + NODE.gapY);
    } else {
      x[v] = begin[v] * scale;
      let row = 0;
      while (row < free.length && free[row] > x[v]) row++;
      free[row] = x[v] + step;
      y[v] = row * (NODE.height + NODE.gapY);
    }
    right = Math.max(right, x[v] + NODE.width);
    bottom = Math.max(bottom, y[v] + NODE.height);
  }
  return { x, y, width: right, height: bottom, layer, scale };
}
