// The picture of a run: summary, graph, Gantt, list and details, in one element of a page.
//
//   import { mount } from "./run.js";
//   const picture = mount(element, model, { lines, plan });
//   picture.replace(model);   // the whole model, when the first one was an outline
//   picture.story(story);     // the second piece of the model, when it has come
//   picture.apply(changes);   // as often as they come: they are shown together, once in a frame
//   picture.destroy();
//
// model, story and changes are the JSON of docs/format/timeline.md, parsed. options.lines and options.plan are
// described in details.js; options.failures is false where the page lists failures itself; options.view is "gantt" to
// begin with that.

import { ORDER, Run, STATUS, criticalPath, duration, pathTimes, search } from "./model.js";
import { Groups, ROOT } from "./layout.js";
import { element } from "./canvas.js";
import { Graph } from "./graph.js";
import { Gantt } from "./gantt.js";
import { List } from "./list.js";
import { Details } from "./details.js";

const ROOM = 300; // places that are drawn at the beginning at most
const MOST = 20_000; // that may be drawn when everything is unfolded

export function mount(root, model, options = {}) { return new Picture(root, model, options); }

class Picture {
  constructor(root, model, options) {
    this.root = root;
    this.clock = () => performance.now();
    this.pending = new Map(); // changed vertices that were not shown yet, by number
    this.latest = null;
    this.frame = 0;
    this.selected = null;
    this.found = null;
    this.foundGroups = new Set();
    this.frames = { count: 0, worst: 0 };
    this.options = options;
    this.load(model);
    this.open = this.groups.open(ROOM);
    this.build(options);
    this.beat = setInterval(() => this.tick(), 1000);
    this.tick();
  }

  load(model) {
    this.run = new Run(model);
    this.run.received = this.clock();
    this.groups = new Groups(this.run);
  }

  build(options) {
    const canvas = (label, help) => element("canvas", { tabindex: "0", role: "application", "aria-label": label,
      "aria-description": help, class: "picture-canvas" });
    this.summary = element("div", { class: "picture-summary" });
    this.said = element("p", { class: "picture-said-aloud", role: "status" });
    this.graphCanvas = canvas("Graph of the run",
      "Arrow keys go from place to place, plus and minus zoom, 0 shows all, Enter unfolds a group.");
    this.ganttCanvas = canvas("Gantt of the run", "Left and right go along a lane, up and down to other lanes, plus " +
      "and minus zoom, square brackets move in time, 0 shows all.");
    this.listBox = element("div", { class: "picture-list" });
    this.detailsBox = element("aside", { class: "picture-details", "aria-label": "Details" });
    this.graphPanel = element("div", { class: "picture-panel", id: "picture-graph", role: "tabpanel",
      "aria-labelledby": "picture-tab-graph" }, this.graphCanvas);
    this.ganttPanel = element("div", { class: "picture-panel", id: "picture-gantt", role: "tabpanel",
      "aria-labelledby": "picture-tab-gantt" }, this.ganttCanvas);
    this.root.classList.add("picture");
    this.root.replaceChildren(this.summary, this.toolbar(), element("div", { class: "picture-body" },
      element("div", { class: "picture-side" }, this.listBox),
      element("div", { class: "picture-main" }, this.graphPanel, this.ganttPanel), this.detailsBox), this.said);
    this.list = new List(this.listBox, this);
    this.details = new Details(this.detailsBox, this, options);
    this.detailsBox.hidden = true;
    this.graph = new Graph(this.graphCanvas, this);
    this.gantt = new Gantt(this.ganttCanvas, this);
    this.show(options.view === "gantt" ? "gantt" : "graph");
    this.graph.setPath(false);
  }

  toolbar() {
    const button = (text, act, more = {}) => element("button", { type: "button", onclick: act, ...more }, text);
    const tab = (name, text) => button(text, () => this.show(name), { role: "tab", id: `picture-tab-${name}`,
      "aria-controls": `picture-${name}` });
    this.tabs = { graph: tab("graph", "Graph"), gantt: tab("gantt", "Gantt") };
    const tabs = element("div", { role: "tablist", "aria-label": "Drawing", class: "picture-tabs",
      onkeydown: (e) => {
        if (e.key !== "ArrowLeft" && e.key !== "ArrowRight") return;
        this.show(this.shown === "graph" ? "gantt" : "graph");
        this.tabs[this.shown].focus();
      } }, this.tabs.graph, this.tabs.gantt);
    this.input = element("input", { type: "search", placeholder: "Address, type, worker, status…",
      "aria-label": "Search operations", oninput: () => this.search(this.input.value),
      onkeydown: (e) => { if (e.key === "Enter") this.nextFound(); } });
    this.hits = element("span", { class: "picture-quiet", role: "status" });
    this.modes = element("select", { "aria-label": "Layout of the graph", onchange: () =>
      this.graph.setMode(this.modes.value) }, element("option", { value: "depth" }, "by dependency"),
    element("option", { value: "time" }, "by time"));
    this.pathButton = button("Critical path", () => this.togglePath(), { "aria-pressed": "false" });
    return element("div", { class: "picture-tools", role: "group", "aria-label": "What is drawn" }, tabs, this.modes,
      this.pathButton, button("Unfold all", () => this.unfold(true)), button("Fold all", () => this.unfold(false)),
      button("+", () => this.zoom(1.25), { "aria-label": "Zoom in" }),
      button("−", () => this.zoom(0.8), { "aria-label": "Zoom out" }), button("Fit", () => this[this.shown].fit()),
      this.input, this.hits);
  }

  show(name) {
    this.shown = name;
    for (const n of ["graph", "gantt"]) {
      this.tabs[n].setAttribute("aria-selected", String(n === name));
      this.tabs[n].tabIndex = n === name ? 0 : -1;
      this[`${n}Panel`].hidden = n !== name;
    }
    this.modes.hidden = name !== "graph";
    this[name].surface.resize();
    this.repaint();
  }

  zoom(factor) { this[this.shown].zoom(factor); }

  togglePath() {
    this.following = !this.following;
    this.pathButton.setAttribute("aria-pressed", String(this.following));
    this.graph.setPath(this.following);
    this.gantt.setPath(true);
    if (!this.following) return;
    const path = this.path();
    for (const i of path) this.uncover(i);
    this.refold();
    if (path.length > 0) this.select(path[0], true);
  }

  path() { return criticalPath(this.run, this.run.now(this.clock())); }

  // apply takes changes. They are shown in the next frame, together with all that come until then.
  apply(changes) {
    for (const v of changes.vertices) {
      const had = this.pending.get(v.number);
      if (had && had.address !== undefined && v.address === undefined) { // it was new, and still is
        v.address = had.address;
        v.module = had.module;
        v.type = had.type;
        v.after = had.after;
      }
      this.pending.set(v.number, v);
    }
    this.latest = changes;
    if (!this.frame) this.frame = requestAnimationFrame(() => this.flush());
  }

  flush() {
    this.frame = 0;
    if (!this.latest) return;
    const began = performance.now();
    const changes = { ...this.latest, vertices: [...this.pending.values()] };
    this.pending.clear();
    this.latest = null;
    this.run.received = this.clock();
    const size = this.run.size;
    const { dirty, grown } = this.run.apply(changes, (i) => this.gantt.before(i));
    for (let i = size; i < this.run.size; i++) this.groups.add(i);
    for (const i of dirty) this.groups.count(i);
    this.graph.changed(grown);
    this.gantt.changed(dirty);
    if (grown) this.list.refreshSoon();
    else this.list.soon();
    const soon = this.clock() - (this.summed || 0) > 250;
    if (soon || this.run.head.outcome) this.summarize();
    if (this.selected !== null && soon) this.details.refresh();
    this.frames.count++;
    this.frames.worst = Math.max(this.frames.worst, performance.now() - began);
  }

  // story takes the second piece of the model. Until it comes, nothing is known of waits that are over.
  story(json) {
    this.run.story(json);
    this.gantt.told();
    this.tick();
    if (this.selected !== null) this.details.show(this.selected);
  }

  // replace shows another model of the run: the whole one after an outline, or after a page has lost its place in the
  // stream.
  replace(model) {
    this.pending.clear();
    this.latest = null;
    const had = typeof this.selected === "number" ? this.run.fold(this.selected)?.id ?? this.run.number[this.selected] :
      this.selected;
    this.select(null);
    this.load(model);
    this.slow = null;
    this.gantt.destroy();
    this.gantt = new Gantt(this.ganttCanvas.cloneNode(), this);
    this.ganttCanvas.replaceWith(this.gantt.canvas);
    this.ganttCanvas = this.gantt.canvas;
    this.search(this.input.value);
    this.refold();
    this.tick();
    this.select((typeof had === "number" ? this.run.at.get(had) : this.groups.all.has(had) ? had : null) ?? null);
  }

  // tick is what time alone changes.
  tick() {
    this.summarize();
    if (this.run.head.outcome) return;
    this.repaint();
    if (this.selected !== null && !this.detailsBox.contains(document.activeElement)) this.details.refresh();
  }

  repaint() { this[this.shown].surface.invalidate(); }

  describe(what) {
    if (typeof what === "number") return this.run.fold(what)?.label ?? this.run.title(what);
    const g = this.groups.all.get(what);
    return g.kind === "range" ? `${this.describe(g.parent)} ${g.label}` : g.id.slice(2);
  }

  // select shows the details of a vertex (a number) or a group (its id); null: none.
  select(what, reveal = false) {
    const changed = what !== this.selected;
    this.selected = what;
    if (typeof what === "number" && (reveal || this.graph.placeOf(what) < 0)) {
      this.uncover(what);
      this.refold();
    }
    if (changed) this.details.show(what);
    if (what === null) return this.repaint();
    if (reveal) {
      for (const drawing of [this.graph, this.gantt]) drawing.surface.resize(); // the details may have taken room
      this.graph.reveal(what);
      if (typeof what === "number") this.gantt.reveal(what);
    }
    this.list.reveal(what);
    this.said.textContent = typeof what === "number" ?
      `${this.describe(what)}, ${STATUS[this.run.status[what]]}` : this.describe(what);
    this.repaint();
  }

  // uncover unfolds the groups around a vertex, as long as there are not too many places then.
  uncover(i) {
    for (let id = this.groups.home[i]; id; id = this.groups.all.get(id).parent) {
      if (this.groups.all.get(id).children.length < MOST / 4) this.open.add(id);
    }
  }

  toggle(what) {
    if (typeof what === "number") what = this.run.fold(what)?.id; // of an outline: it is unfolded when the rest has come
    if (typeof what !== "string" || what === ROOT) return;
    if (this.open.has(what)) this.open.delete(what);
    else this.open.add(what);
    this.refold();
    this.details.refresh();
  }

  unfold(all) {
    this.open = all ? this.groups.open(MOST) : new Set([ROOT]);
    this.graph.fitted = false;
    this.refold();
  }

  refold() {
    this.graph.layout();
    this.list.refresh();
  }

  search(text) {
    const hits = text.trim() ? search(this.run, text) : null;
    this.found = hits ? new Set(hits) : null;
    this.foundGroups = new Set();
    if (hits) for (const x of this.groups.around(hits)) if (typeof x === "string") this.foundGroups.add(x);
    this.hits.textContent = hits ? `${hits.length} found` : "";
    this.foundList = hits || [];
    this.foundAt = -1;
    this.list.refresh();
    this.repaint();
  }

  nextFound() {
    if (!this.foundList || this.foundList.length === 0) return;
    this.foundAt = (this.foundAt + 1) % this.foundList.length;
    this.select(this.foundList[this.foundAt], true);
  }

  // summarize says how far the run is, what went wrong first, and where the time goes.
  summarize() {
    this.summed = this.clock();
    const { run } = this;
    const now = run.now(this.clock());
    const { head, counts } = run;
    const words = { f: counts.failed, u: counts.doubt, r: counts.running, q: counts.queued, w: counts.waiting,
      s: counts.skipped, d: counts.done };
    const parts = ORDER.split("").filter((s) => words[s] > 0).map((s) => element("span",
      { class: `picture-count status-${s}` }, `${words[s]} ${STATUS[s]}`));
    const left = counts.left > 0 && !head.outcome ? ` · about ${duration(counts.left)} left` : "";
    const line = element("p", { class: "picture-counts" }, element("strong", {}, head.outcome || "running"),
      ` · ${duration(head.ended >= 0 ? head.ended : now)}${left} · ${counts.total} operations `, ...parts);
    const rows = [line];
    for (const s of run.shortages) {
      const what = { worker: "a worker of the pool", place: "a free slot in the pool" }[s.kind] || "a permit of the limit";
      rows.push(element("p", { class: "picture-lack" }, `${s.vertices} wait for ${what} ${s.name}` +
        (s.inDoubt ? `; operations in doubt hold ${s.inDoubt.length} of its ${s.slots} permits` : "")));
    }
    if (!this.slow || this.clock() - this.slowAt > 1000 || head.outcome) {
      this.slowAt = this.clock();
      this.slow = [...this.failures(), ...this.whereTimeGoes(now)];
    }
    const had = document.activeElement;
    if (this.summary.contains(had) && had !== document.body && !head.outcome) {
      this.summary.firstChild.replaceWith(line); // who is on a link of the summary stays there
      return;
    }
    this.summary.replaceChildren(...rows, ...this.slow);
  }

  failures() {
    const { run } = this;
    if (this.options.failures === false) return [];
    const bad = [];
    for (const i of run.bad) if (bad.push(i) === 20) break; // those that failed first come first
    if (bad.length === 0 && !run.head.errors) return [];
    const more = run.bad.size - bad.length;
    const items = bad.map((i) => {
      const n = run.blamed.get(run.address(i));
      return element("li", {}, element("button", { type: "button", class: "picture-link",
        onclick: () => this.select(i, true) }, run.title(i)),
      element("span", { class: `status-${run.status[i]}` }, ` ${STATUS[run.status[i]]}`),
      n ? ` (${n} skipped because of it)` : "",
      element("pre", { class: "picture-text", tabindex: "0" }, run.failure(i) || run.doubtful(i)));
    });
    if (more > 0) items.push(element("li", {}, `and ${more} more: search for "failed"`));
    for (const text of run.head.errors || []) items.push(element("li", {}, element("pre", { class: "picture-text",
      tabindex: "0" }, text)));
    return [element("h3", {}, "What went wrong"),
      element("ul", { class: "picture-failures", tabindex: "0" }, ...items)];
  }

  whereTimeGoes(now) {
    if (this.run.outline) return [element("p", { class: "picture-quiet" }, "Loading the operations…")];
    const path = criticalPath(this.run, now);
    const times = pathTimes(this.run, path, now);
    if (times.length === 0) return [];
    const text = times.slice(0, 4).map(([label, ms]) => `${duration(ms)} ${label}`).join(", ");
    return [element("p", { class: "picture-quiet" }, `The critical path has ${path.length} ` +
      `${path.length === 1 ? "operation" : "operations"}: ${text}.`)];
  }

  destroy() {
    clearInterval(this.beat);
    if (this.frame) cancelAnimationFrame(this.frame);
    this.graph.destroy();
    this.gantt.destroy();
    this.list.destroy();
    this.root.replaceChildren();
  }
}
