import test from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Run, blockOf, criticalPath, duration, pathTimes, search } from "./model.js";
import { Groups, ROOT, byDepth, byTime, edges, layers, modules } from "./layout.js";
import { Lanes, Pressure, firstFrom, tickLabel, ticks } from "./lanes.js";

// run makes a model of vertices [address, status, started, ended, after...], numbered from 10.
function run(list, more = {}) {
  const n = list.length;
  const module = list.map(([a]) => (a.match(/^(module\.[a-z]+\.)+/) || ["."])[0].slice(0, -1));
  const local = list.map(([a], i) => module[i] ? a.slice(module[i].length + 1) : a);
  const names = ["", "t", "create", "eu", "w1", ...module, ...local.map(blockOf)];
  const fill = (k) => new Array(n).fill(k);
  const after = list.map((v) => v.slice(4).map((k) => k + 10));
  const r = new Run({
    version: 2, cursor: 1, head: { run: "r", begun: 0, ended: -1, now: 100, ...more.head },
    counts: {}, names,
    vertices: {
      number: list.map((_, i) => i + 10), module: list.map((_, i) => i + 5), block: list.map((_, i) => i + 5 + n),
      key: local.map((l) => l.slice(blockOf(l).length)),
      type: fill(1), action: fill(2), letters: list.map((v) => v[1]).join(""), pool: fill(3), worker: fill(4),
      ready: fill(0), started: list.map((v) => v[2]), ended: list.map((v) => v[3]), took: more.took || fill(0),
      degree: after.map((l) => l.length), after: after.flat(), more: more.more || {},
    },
  });
  if (more.waits) r.story(story(more.waits));
  return r;
}

// story is the second piece: the waits of vertices, [kind, name, from, to], by their indexes.
function story(waits) {
  const all = Object.values(waits).flat();
  return { names: all.map((w) => w[1]), story: {
    number: Object.keys(waits).map((i) => Number(i) + 10), waits: Object.values(waits).map((l) => l.length),
    letters: all.map((w) => w[0]).join(""), name: all.map((_, k) => k), from: all.map((w) => w[2]),
    to: all.map((w) => w[3]), attempts: Object.keys(waits).map(() => 2), last: Object.keys(waits).map(() => "A"),
  } };
}

test("the critical path goes back by what ended last, through junctions", () => {
  const r = run([["a.a", "d", 0, 30], ["a.b", "d", 0, 50], ["", "j", -1, -1, 0, 1], ["a.c", "d", 50, 60, 2],
    ["a.d", "d", 0, 55], ["a.e", "d", 60, 90, 3, 4]]);
  assert.deepEqual(criticalPath(r, 100).map((i) => r.address(i)), ["a.b", "a.c", "a.e"]);
});

test("what is under way is on the path, up to now", () => {
  const r = run([["a.a", "d", 0, 30], ["a.b", "r", 30, -1, 0], ["a.c", "w", -1, -1, 1]]);
  assert.deepEqual(criticalPath(r, 100), [0, 1]);
});

test("the time of a path is work and waits", () => {
  const r = run([["a.a", "d", 20, 50]], { waits: { 0: [["l", "quota", 0, 20]] } });
  assert.deepEqual(pathTimes(r, [0], 100), [["operations", 30], ["waiting for a permit of the limit quota", 20]]);
});

test("changes lead to the model that a reader of everything has", () => {
  const r = run([["a.a", "r", 0, -1]]);
  const common = { head: { run: "r", ended: -1, now: 1 }, counts: {}, shortages: [], cursor: 5 };
  const { dirty, grown } = r.apply({ ...common, vertices: [
    { number: 10, status: "d", ready: 0, started: 0, ended: 9 },
    { number: 99, address: "module.m.a.z", module: "module.m", type: "t", after: [10], status: "q", ready: 9,
      started: -1, ended: -1, waits: [["p", "eu", 9, -1]] },
    { number: 1234, status: "d", ready: 0, started: 0, ended: 1 }, // it was new before this reader began
  ] });
  assert.deepEqual([dirty, grown, r.size], [[0, 1], true, 2]);
  assert.deepEqual([r.status, r.after(1), r.name(1), r.dependents(0)], [["d", "q"], [0], "a.z", [1]]);
});

test("paths of modules are split outside of quotes", () => {
  assert.deepEqual(modules('module.a["x.module.y"].module.b[0]'), ['module.a["x.module.y"]', "module.b[0]"]);
  assert.deepEqual(modules(""), []);
  assert.equal(blockOf('a.b["x[1]"]'), "a.b");
  assert.equal(blockOf("a.b"), "a.b");
});

test("groups fold, count, and unfold as far as there is room", () => {
  const list = [["a.x", "d", 0, 1]];
  for (let i = 0; i < 50; i++) list.push([`module.m.a.y[${i}]`, "d", 0, 1]);
  const r = run(list);
  const g = new Groups(r);
  assert.deepEqual(g.drawn(new Set([ROOT])).list, [0, "m:module.m"]);
  assert.equal(g.all.get("m:module.m").counts.d, 50);
  r.status[1] = "f";
  g.count(1);
  assert.deepEqual(g.all.get(ROOT).counts, { d: 50, f: 1 });
  assert.equal(g.drawn(g.open(10)).list.length, 2); // the module, opened, shows its one block, folded
  assert.equal(g.drawn(g.open(300)).list.length, 51);
  assert.deepEqual([...g.around([3])].filter((x) => typeof x === "string"), ["b:module.m:a.y", "m:module.m"]);
});

test("edges pass junctions, and many meet in one place", () => {
  const list = [];
  for (let i = 0; i < 20; i++) list.push([`a.b${i}`, "d", 0, 1]);
  list.push(["", "j", -1, -1, ...list.map((_, i) => i)]);
  for (let i = 0; i < 20; i++) list.push([`a.c${i}`, "w", -1, -1, 20]);
  const r = run(list);
  const { list: places, at } = new Groups(r).drawn(new Set([ROOT]));
  const e = edges(r, at, places.length);
  assert.equal(e.extra, 1);
  assert.equal(e.pairs.length, 40);
});

// The outline is made by the server, and the rest of the picture by these modules: if they did not group alike, the
// picture would jump when the whole run has come.
test("an outline has the places that are drawn of the whole run, in their order, with the same edges", () => {
  const [outline, shape] = ["outline", "shape"].map((name) => new Run(JSON.parse(readFileSync(`${name}.json`, "utf8"))));
  assert.ok(outline.outline && !shape.outline && outline.size < 400 && shape.size > 5000);
  const said = (r) => {
    const groups = new Groups(r);
    const { list, at } = groups.drawn(groups.open(300));
    const nameOf = list.map((what) => {
      const g = typeof what === "number" ? r.fold(what) : groups.all.get(what);
      return g ? `${g.id} ${g.label} ${g.total} ${JSON.stringify(Object.entries(g.counts).sort())}` :
        `${r.address(what)} ${r.status[what]} ${r.type[what]} ${r.action[what]}`;
    });
    const { pairs, extra } = edges(r, at, list.length);
    // Junctions have no names: each is called by what is before it.
    const before = new Map();
    for (const [b, a] of pairs) if (a >= list.length) before.set(a, [...before.get(a) || [], b]);
    const call = (p) => p < list.length ? nameOf[p] : `(${before.get(p).map(call).sort().join()})`;
    return { places: nameOf, extra, pairs: pairs.map(([b, a]) => `${call(b)} -> ${call(a)}`).sort() };
  };
  const drawn = said(shape);
  assert.ok(drawn.places.some((name) => name.startsWith("r:")) && drawn.extra > 0 && drawn.pairs.length > 100);
  assert.deepEqual(said(outline), drawn);
});

test("each layer is behind what it depends on, circles of groups included", () => {
  assert.deepEqual([...layers(4, [[0, 1], [1, 2], [0, 2], [2, 3]])], [0, 1, 2, 3]);
  const circle = layers(3, [[0, 1], [1, 0], [1, 2]]);
  assert.ok(circle[2] > circle[1]);
});

test("no two places lie on each other", () => {
  const pairs = [];
  for (let i = 0; i < 400; i++) pairs.push([i % 7, 7 + i]);
  for (const plan of [byDepth(407, pairs), byTime(407, Float64Array.from({ length: 407 }, (_, i) =>
    i < 300 ? i * 3 : Infinity), layers(407, pairs), 1000)]) {
    const seen = new Set();
    for (let i = 0; i < 407; i++) {
      const key = `${Math.round(plan.x[i])} ${Math.round(plan.y[i])}`;
      assert.ok(!seen.has(key), key);
      seen.add(key);
      assert.ok(plan.x[i] >= 0 && plan.y[i] >= 0 && plan.x[i] <= plan.width && plan.y[i] <= plan.height);
    }
  }
});

// A layer was one column of up to 60 places. In a drawing of the usual size they were too small for their names.
test("a long layer has as many columns as make its names readable, and a short one has one", () => {
  const screen = { width: 985, height: 612 };
  const fan = (n) => byDepth(n + 2, Array.from({ length: n }, (_, i) => [[0, i + 1], [i + 1, n + 1]]).flat(), screen);
  const columns = (plan) => new Set(plan.x).size - 2;
  const scale = (plan) => Math.min(screen.width / plan.width, screen.height / plan.height);
  assert.deepEqual([columns(fan(10)), columns(fan(48))], [1, 2]);
  const knot = byDepth(3, [[0, 2], [2, 1]], screen, 2); // a junction takes little room, and stands where it is drawn
  assert.ok(knot.width < 2 * 190 + 200 && knot.x[2] + 95 > 190 && knot.x[2] + 95 < knot.x[1], `${knot.x}`);
  assert.ok(scale(fan(48)) > 0.65, `${scale(fan(48))}`);
  const most = byTime(100, Float64Array.from({ length: 100 }, (_, i) => i), new Int32Array(100), 100, screen);
  assert.ok(scale(most) > 0.4, `${scale(most)}`);
});

test("names lose their type first and their module last, where there is little room", () => {
  const r = run([["module.a.module.b.fleet_vm.node[3]", "d", 0, 1], ["data.fleet_vm.x", "d", 0, 1]]);
  assert.deepEqual(r.labels(0), ["a.b fleet_vm.node[3]", "a.b node[3]", "node[3]"]);
  assert.deepEqual(r.labels(1), ["data.fleet_vm.x", "x"]);
});

test("a slot has one operation at a time, live as from the beginning", () => {
  const r = run([["a.a", "d", 0, 30], ["a.b", "r", 10, -1], ["a.c", "d", 30, 40], ["a.d", "s", -1, 50]]);
  const lanes = new Lanes(r);
  assert.deepEqual(lanes.list().map((l) => [l.label, l.items]), [["eu / w1 1", [0, 2]], ["eu / w1 2", [1]]]);
  r.worker[1] = "w2"; // it became known who has it
  lanes.update(1);
  assert.deepEqual(lanes.list().map((l) => l.label), ["eu / w1 1", "eu / w2 1"]);
  assert.equal(firstFrom(r, [0, 2], 35, 100), 1);
  assert.equal(lanes.laneOf(1), 1);
});

// A worker frees its slot when it sends a result, and the next operation may be sent before the result is stored. Eight
// slots had nine lanes.
test("an operation that is sent before the result of the one before is stored has the same slot", () => {
  const list = [["a.a", "d", 0, 33], ["a.b", "d", 0, 50], ["a.c", "d", 31, 62]];
  const want = [["eu / w1 1", [0, 2]], ["eu / w1 2", [1]]];
  const r = run(list, { took: [30, 49, 28] });
  assert.deepEqual(new Lanes(r).list().map((l) => [l.label, l.items]), want);
  const live = run([...list.slice(0, 2), ["a.c", "w", -1, -1]], { took: [30, 49, 0] });
  const lanes = new Lanes(live);
  live.status[2] = "r";
  live.started[2] = 31;
  lanes.update(2);
  assert.deepEqual(lanes.list().map((l) => [l.label, l.items]), want);
});

test("what a run is asked for in each frame is the same after changes as from the beginning", () => {
  const list = [["a.a", "d", 0, 30], ["a.b", "r", 10, -1], ["a.c", "q", -1, -1, 0], ["a.d", "w", -1, -1, 1, 2]];
  const r = run(list, { waits: { 2: [["l", "q", 30, -1]] } });
  const pressure = new Pressure();
  pressure.add(r.waits(2));
  assert.deepEqual([r.queued(5), criticalPath(r, 50), [...r.open]], [[2], [1], [1]]);
  const common = { head: { run: "r", ended: -1, now: 90 }, counts: {}, cursor: 5 };
  const { dirty } = r.apply({ ...common, vertices: [
    { number: 11, status: "f", ready: 0, started: 10, ended: 50, failure: "no room" },
    { number: 12, status: "d", ready: 30, started: 60, ended: 80, waits: [["l", "q", 30, 60]] },
    { number: 13, status: "s", ready: -1, started: -1, ended: 80, because: "a.b" },
  ] }, (i) => pressure.add(r.waits(i), -1));
  for (const i of dirty) pressure.add(r.waits(i));
  const other = new Pressure();
  other.add([["l", "q", 30, 60]]);
  assert.deepEqual(pressure.bands(90, 5).map((b) => [...b.counts]), other.bands(90, 5).map((b) => [...b.counts]));
  assert.deepEqual([r.queued(5), criticalPath(r, 90), [...r.open], [...r.bad], r.blamed.get("a.b")],
    [[], [0, 2], [], [1], 1]);
});

test("an operation that is carried out again is on the path with its new times", () => {
  const r = run([["a.a", "u", 0, 30], ["a.b", "d", 0, 40], ["a.c", "d", 40, 50, 0, 1]]);
  assert.deepEqual(criticalPath(r, 100), [1, 2]);
  r.apply({ head: { ended: -1, now: 90 }, counts: {}, cursor: 5, vertices: [
    { number: 10, status: "d", ready: 0, started: 0, ended: 45 }] });
  assert.deepEqual(criticalPath(r, 100), [0, 2]);
});

test("pressure counts who waited for what, and when, however long the run becomes", () => {
  const p = new Pressure();
  p.add([["l", "q", 0, 50]]);
  p.add([["l", "q", 25, -1], ["t", "", 0, 25]]);
  const mean = (now, from, to) => {
    const [b] = p.bands(now, 8);
    let sum = 0;
    for (let t = from; t < to; t++) sum += b.counts[Math.floor(t / p.length)];
    return sum / (to - from);
  };
  assert.equal(p.bands(100, 8).length, 1);
  assert.ok(Math.abs(p.bands(100, 8)[0].total - 125) < 1e-9);
  assert.deepEqual([mean(100, 0, 25), mean(100, 25, 50), mean(100, 50, 100)].map((x) => Math.round(x * 100) / 100),
    [1, 2, 1]);
  const before = p.bands(100_000, 8)[0];
  assert.ok(Math.abs(before.total - (50 + 99_975)) < 1e-6 && p.length > 100);
  const area = before.counts.reduce((sum, n, k) => sum + n * (k === before.counts.length - 1 ?
    100_000 - k * p.length : p.length), 0);
  assert.ok(Math.abs(area - before.total) < 1, `${area} is not ${before.total}`);
  p.add([["l", "q", 25, -1]], -1); // it was queued no longer than that
  p.add([["l", "q", 25, 50_000]]);
  assert.ok(Math.abs(p.bands(100_000, 8)[0].total - (50 + 49_975)) < 1e-6);
  assert.ok(p.bands(100_000, 8)[0].counts.at(-1) < 1e-9);
});

test("those who have waited longest are queued first, each once", () => {
  const r = run([["a.a", "q", -1, -1], ["a.b", "q", -1, -1], ["a.c", "d", 0, 1]]);
  const back = (number, status) => r.apply({ head: { ended: -1, now: 1 }, counts: {}, cursor: 5,
    vertices: [{ number, status, ready: 0, started: -1, ended: -1 }] });
  back(11, "w");
  back(11, "q");
  assert.deepEqual(r.queued(9), [0, 1]);
  assert.deepEqual(r.queued(1), [0]);
  assert.deepEqual(r.queued(9), [0, 1]);
});

test("instances of a block without end are grouped by ranges", () => {
  const list = [];
  for (let i = 0; i < 1200; i++) list.push([`a.x[${i}]`, i < 300 ? "d" : "w", -1, -1]);
  const g = new Groups(run(list));
  const ranges = g.all.get("b::a.x").children;
  assert.deepEqual([ranges.length, g.all.get(ranges[0]).label, g.all.get("b::a.x").counts],
    [5, "[0] … [249]", { d: 300, w: 900 }]);
});

test("a search takes all words, of addresses, workers and statuses", () => {
  const r = run([["a.web", "f", 0, 1], ["a.db", "d", 0, 1], ["module.x.a.web", "d", 0, 1]]);
  assert.deepEqual(search(r, "WEB done"), [2]);
  assert.deepEqual(search(r, "failed"), [0]);
  assert.deepEqual(search(r, " "), []);
});

test("times are written as people read them", () => {
  assert.equal(duration(12), "12 ms");
  assert.equal(duration(2500), "2.5 s");
  assert.equal(duration(65_000), "1 min 5 s");
  const t = ticks(0, 60_000, 600);
  assert.equal(t.step, 10_000);
  assert.equal(tickLabel(70_000, t.step), "01:10");
  assert.equal(tickLabel(1500, 500), "00:01.5");
});

test("a hundred thousand vertices are laid out at once, as some hundred places", () => {
  const list = [];
  for (let i = 0; i < 100_000; i++) {
    const dep = i < 100 ? [] : [i - 100];
    list.push([`module.m.t.x${i % 500}[${i}]`, "d", i, i + 100, ...dep]);
  }
  const r = run(list);
  const began = performance.now();
  const g = new Groups(r);
  const { list: places, at } = g.drawn(g.open(300));
  assert.ok(places.length <= 300);
  const e = edges(r, at, places.length);
  byDepth(places.length + e.extra, e.pairs);
  criticalPath(r, 200_000);
  new Lanes(r);
  console.log(`100,000 vertices: ${Math.round(performance.now() - began)} ms`);
});
