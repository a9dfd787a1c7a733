// The graph of a run on a canvas: places (vertices, and groups that are folded) with arrows from what came first.

import { ORDER, criticalPath } from "./model.js";
import { NODE, byDepthSteps, byTime, edgeSteps, layers, whole } from "./layout.js";
import { MARKS, Surface, inSlices, pointers } from "./canvas.js";

const FEW = 2500; // places up to which the layout by time follows the run closely
const AT_ONCE = 1000; // vertices up to which the layout is made at once
const CURVES = 1500; // arrows that are drawn at most: more of them would be a grey area

export class Graph {
  // host has run, groups, open (the unfolded groups), selected (a vertex, a group's id, or null), found (a Set, or
  // null), clock(), select(what), toggle(id).
  constructor(canvas, host) {
    this.host = host;
    this.canvas = canvas;
    this.view = { x: 0, y: 0, scale: 1 };
    this.mode = "depth";
    this.showPath = false;
    this.path = new Set();
    this.fitted = false;
    this.follows = true; // the view shows everything, whatever size the canvas has, until somebody moves it
    this.laidOut = 0;
    this.surface = new Surface(canvas, (c, colours) => this.draw(c, colours));
    this.listen();
    this.layout();
  }

  get worst() { return this.surface.worst; }

  // layout places everything anew: after folding, when vertices are new, and now and then in the layout by time. Of a
  // large run it is made in slices; until it is ready, the one before is shown, with the run that it was made of.
  layout() {
    this.stop?.();
    this.stop = null;
    this.stale = false;
    this.laidOut = this.host.clock();
    if (this.host.run.size <= AT_ONCE || !this.plan) return this.adopt(whole(this.layoutSteps()));
    this.stop = inSlices(this.layoutSteps(), (made) => {
      this.stop = null;
      this.adopt(made);
    });
  }

  * layoutSteps() {
    const { run, groups, open } = this.host;
    const { list, at } = yield* groups.drawnSteps(open);
    const of = { run, groups };
    const { pairs, extra } = yield* edgeSteps(run, at, list.length);
    yield;
    const n = list.length + extra;
    if (this.mode !== "time") return { of, list, at, pairs,
      plan: yield* byDepthSteps(n, pairs, this.surface, list.length) };
    const begin = new Float64Array(n).fill(Infinity);
    for (let i = 0; i < at.length; i++) {
      if (at[i] >= 0 && run.started[i] >= 0) begin[at[i]] = Math.min(begin[at[i]], run.started[i]);
    }
    for (const [b, a] of pairs) { // a junction stands where the last of those before it does
      if (a >= list.length && begin[b] !== Infinity) {
        begin[a] = begin[a] === Infinity ? begin[b] : Math.max(begin[a], begin[b]);
      }
    }
    yield;
    const plan = byTime(n, begin, layers(n, pairs), run.extent(run.now(this.host.clock())),
      this.surface);
    return { of, list, at, pairs, plan };
  }

  adopt({ of, list, at, pairs, plan }) {
    this.of = of;
    this.places = list;
    this.spot = new Map(list.map((what, p) => [what, p]));
    this.at = at;
    this.pairs = pairs;
    this.plan = plan;
    if (!this.fitted && this.surface.width > 0) this.fit();
    this.refreshPath();
    if (this.wanted !== undefined) this.reveal(this.wanted);
    this.surface.invalidate();
  }

  // changed is told that vertices have changed.
  changed(grown) {
    const age = this.host.clock() - this.laidOut;
    this.stale = this.stale || grown;
    if (!this.stop && (this.stale && age > 500 || this.mode === "time" && age > 1000) &&
      (this.places.length <= FEW || age > 10_000)) return this.layout();
    if (this.showPath && this.host.clock() - this.pathAt > 500) this.refreshPath();
    this.surface.soon();
  }

  setMode(mode) {
    this.mode = mode;
    this.fitted = false;
    this.layout();
  }

  setPath(on) {
    this.showPath = on;
    this.refreshPath();
    this.surface.invalidate();
  }

  // current tells whether what is drawn is the run that the host has, and not one that it had before.
  get current() { return this.of.run === this.host.run; }

  refreshPath() {
    this.pathAt = this.host.clock();
    this.path = new Set();
    this.pathPairs = new Set();
    if (!this.showPath || !this.current) return;
    const { run } = this.host;
    let last = -1;
    for (const i of criticalPath(run, run.now(this.host.clock()))) {
      const p = this.at[i];
      this.path.add(p);
      if (last >= 0 && last !== p) this.pathPairs.add(last * 4194304 + p);
      last = p;
    }
  }

  fit() {
    const { width, height } = this.plan;
    const s = this.surface;
    if (s.width === 0) return;
    this.fitted = this.follows = true;
    this.fittedTo = `${s.width} ${s.height}`;
    const scale = Math.min(1.2, (s.width - 40) / Math.max(1, width), (s.height - 40) / Math.max(1, height));
    this.view.scale = Math.max(0.02, scale);
    this.view.x = Math.max(20, (s.width - width * this.view.scale) / 2);
    this.view.y = Math.max(20, (s.height - height * this.view.scale) / 2);
    s.invalidate();
  }

  // reveal moves a place into sight.
  reveal(what) {
    this.wanted = this.stop ? what : undefined; // when the layout is ready
    const p = this.placeOf(what);
    if (p < 0) return;
    const v = this.view, s = this.surface;
    if (this.follows) this.fit();
    if (v.scale < 0.45) {
      v.scale = 0.8;
      this.follows = false;
    }
    const x = this.plan.x[p] * v.scale + v.x, y = this.plan.y[p] * v.scale + v.y;
    const aside = x < 20 || x + NODE.width * v.scale > s.width - 20;
    const above = y < 20 || y + NODE.height * v.scale > s.height - 20;
    if (aside) v.x += s.width / 2 - x - NODE.width * v.scale / 2;
    if (above) v.y += s.height / 2 - y;
    if (aside || above) this.follows = false;
    s.invalidate();
  }

  placeOf(what) {
    if (what === null || what === undefined || !this.current) return -1;
    return typeof what === "number" ? this.at[what] ?? -1 : this.spot.get(what) ?? -1;
  }

  draw(c, colours) {
    const { view, plan, surface } = this;
    if (!this.fitted || this.follows && this.fittedTo !== `${surface.width} ${surface.height}`) this.fit();
    const left = -view.x / view.scale - NODE.width, right = (surface.width - view.x) / view.scale;
    const top = -view.y / view.scale - NODE.height, bottom = (surface.height - view.y) / view.scale;
    c.translate(view.x, view.y);
    c.scale(view.scale, view.scale);
    this.drawEdges(c, colours, left, right, top, bottom);
    const n = this.places.length;
    const small = view.scale < 0.35;
    const tiny = view.scale * NODE.height < 6; // there is a colour to be seen, and no more
    c.font = `${fontSize(view.scale)}px ${surface.font}`;
    c.textBaseline = "middle";
    const selected = this.placeOf(this.host.selected);
    for (let p = 0; p < n; p++) {
      const x = plan.x[p], y = plan.y[p];
      if (x < left || x > right || y < top || y > bottom) continue;
      if (tiny && p !== selected && !this.path.has(p)) this.drawDot(c, colours, p, x, y);
      else this.drawPlace(c, colours, p, x, y, small, p === selected);
    }
    c.globalAlpha = 1;
    c.fillStyle = colours.quiet;
    for (let p = n; p < plan.x.length; p++) {
      if (plan.x[p] < left || plan.x[p] > right || plan.y[p] < top || plan.y[p] > bottom) continue;
      c.beginPath();
      c.arc(plan.x[p] + NODE.width / 2, plan.y[p] + NODE.height / 2, 4, 0, 7);
      c.fill();
    }
  }

  drawEdges(c, colours, left, right, top, bottom) {
    const { plan, pairs, places } = this;
    const selected = this.placeOf(this.host.selected);
    const h = NODE.height / 2;
    const strong = [];
    c.strokeStyle = colours.line;
    c.lineWidth = 1 / Math.max(0.4, this.view.scale);
    c.beginPath();
    let drawn = 0;
    for (let k = 0; k < pairs.length; k++) {
      const b = pairs[k][0], a = pairs[k][1];
      const x1 = b < places.length ? plan.x[b] + NODE.width : plan.x[b] + NODE.width / 2;
      const x2 = a < places.length ? plan.x[a] : plan.x[a] + NODE.width / 2;
      const y1 = plan.y[b] + h, y2 = plan.y[a] + h;
      if (Math.max(x1, x2) < left || Math.min(x1, x2) > right + NODE.width || Math.max(y1, y2) < top ||
        Math.min(y1, y2) > bottom + NODE.height) continue;
      const ofPath = this.showPath && this.pathPairs.has(b * 4194304 + a);
      if (ofPath || a === selected || b === selected) {
        strong.push([x1, y1, x2, y2, ofPath]);
        continue;
      }
      if (drawn++ < CURVES) curve(c, x1, y1, x2, y2);
    }
    c.stroke();
    for (const [x1, y1, x2, y2, ofPath] of strong) {
      c.strokeStyle = ofPath ? colours.path : colours.select;
      c.lineWidth = 2.5 / Math.max(0.4, this.view.scale);
      c.beginPath();
      curve(c, x1, y1, x2, y2);
      c.stroke();
    }
  }

  // groupOf is the folded group that is drawn in a place; undefined for a vertex.
  groupOf(what) {
    return typeof what === "number" ? this.of.run.fold(what) : this.of.groups.all.get(what);
  }

  statusOf(what) {
    return typeof what === "number" ? this.of.run.status[what] : worst(this.of.groups.all.get(what).counts);
  }

  faded(what) {
    const { found, foundGroups } = this.host;
    return found !== null && this.current && !(typeof what === "number" ? found.has(what) : foundGroups.has(what));
  }

  drawDot(c, colours, p, x, y) {
    const what = this.places[p];
    c.fillStyle = colours[this.statusOf(what)];
    c.globalAlpha = this.faded(what) ? 0.25 : 1;
    c.fillRect(x, y, NODE.width, NODE.height);
  }

  drawPlace(c, colours, p, x, y, small, selected) {
    const what = this.places[p];
    const g = this.groupOf(what);
    const isGroup = g !== undefined;
    const status = this.statusOf(what);
    const w = NODE.width, h = NODE.height;
    c.globalAlpha = this.faded(what) ? 0.25 : 1;
    if (isGroup && !small) { // a second sheet behind says that there are more
      c.fillStyle = colours.raised;
      c.strokeStyle = colours.line;
      c.lineWidth = 1;
      c.fillRect(x + 4, y + 4, w, h);
      c.strokeRect(x + 4, y + 4, w, h);
    }
    c.fillStyle = small ? colours[status] : colours.back;
    c.fillRect(x, y, w, h);
    if (!small) {
      if (isGroup) {
        let at = x;
        for (const s of ORDER) {
          const part = (g.counts[s] || 0) / g.total * w;
          if (part <= 0) continue;
          c.fillStyle = colours[s];
          c.fillRect(at, y + h - 5, part, 5);
          at += part;
        }
      } else {
        c.fillStyle = colours[status];
        c.fillRect(x, y, 20, h);
      }
    }
    c.strokeStyle = selected ? colours.select : this.path.has(p) ? colours.path : colours[status];
    c.lineWidth = selected || this.path.has(p) ? 3 : 1.2;
    if (status === "s" || status === "w") c.setLineDash([4, 3]);
    c.strokeRect(x, y, w, h);
    c.setLineDash([]);
    if (!small) {
      c.textAlign = "center";
      if (!isGroup) {
        c.fillStyle = colours.back;
        c.fillText(MARKS[status] || "", x + 10, y + h / 2 + 1);
      }
      c.textAlign = "left";
      c.fillStyle = colours.text;
      const texts = isGroup ? [`▸ ${g.label} (${g.total})`] : this.of.run.labels(what);
      const room = isGroup ? w - 12 : w - 30;
      c.fillText(this.surface.fit(c, texts, room), x + (isGroup ? 6 : 25), y + h / 2 - (isGroup ? 2 : 0));
    }
    c.globalAlpha = 1;
  }

  // hit finds the place at a point of the canvas; -1: none.
  hit(px, py) {
    if (!this.current) return -1;
    const x = (px - this.view.x) / this.view.scale, y = (py - this.view.y) / this.view.scale;
    const { plan } = this;
    for (let p = this.places.length - 1; p >= 0; p--) {
      if (x >= plan.x[p] && x <= plan.x[p] + NODE.width && y >= plan.y[p] && y <= plan.y[p] + NODE.height) return p;
    }
    return -1;
  }

  zoom(factor, px = this.surface.width / 2, py = this.surface.height / 2) {
    const v = this.view;
    this.follows = false;
    const scale = Math.min(4, Math.max(0.02, v.scale * factor));
    v.x = px - (px - v.x) * scale / v.scale;
    v.y = py - (py - v.y) * scale / v.scale;
    v.scale = scale;
    this.surface.invalidate();
  }

  // step finds the next place in a direction from the selected one, and selects it.
  step(dx, dy) {
    if (!this.current) return;
    const { plan } = this;
    const from = this.placeOf(this.host.selected);
    if (from < 0) {
      if (this.places.length > 0) this.choose(0);
      return;
    }
    let best = -1, least = Infinity;
    for (let p = 0; p < this.places.length; p++) {
      const x = plan.x[p] - plan.x[from], y = plan.y[p] - plan.y[from];
      const along = dx ? x * dx : y * dy, aside = Math.abs(dx ? y : x);
      if (p === from || along < 1) continue;
      const far = along + 2.5 * aside;
      if (far < least) {
        least = far;
        best = p;
      }
    }
    if (best >= 0) this.choose(best);
  }

  choose(p) {
    this.host.select(this.places[p]);
    this.reveal(this.places[p]);
  }

  listen() {
    pointers(this.canvas, {
      hover: (x, y) => {
        const p = this.hit(x, y);
        this.canvas.classList.toggle("over", p >= 0);
        this.canvas.title = p < 0 ? "" : this.host.describe(this.places[p]);
      },
      tap: (x, y) => {
        const p = this.hit(x, y);
        this.host.select(p < 0 ? null : this.places[p]);
      },
      drag: (dx, dy) => {
        this.follows = false;
        this.view.x += dx;
        this.view.y += dy;
        this.surface.invalidate();
      },
      pinch: (factor, x, y) => this.zoom(factor, x, y),
    });
    this.canvas.addEventListener("dblclick", (e) => {
      const p = this.hit(e.offsetX, e.offsetY);
      if (p >= 0) this.host.toggle(this.places[p]);
    });
    this.canvas.addEventListener("wheel", (e) => {
      e.preventDefault();
      if (e.shiftKey) {
        this.follows = false;
        this.view.x -= e.deltaY + e.deltaX;
        this.surface.invalidate();
      } else this.zoom(Math.exp(-e.deltaY / 400), e.offsetX, e.offsetY);
    }, { passive: false });
    this.canvas.addEventListener("keydown", (e) => {
      const keys = {
        ArrowLeft: () => this.step(-1, 0), ArrowRight: () => this.step(1, 0), ArrowUp: () => this.step(0, -1),
        ArrowDown: () => this.step(0, 1), "+": () => this.zoom(1.25), "=": () => this.zoom(1.25),
        "-": () => this.zoom(0.8), 0: () => this.fit(), Enter: () => this.host.toggle(this.host.selected),
        Escape: () => this.host.select(null), Home: () => this.current && this.places.length > 0 && this.choose(0),
      };
      const act = !e.ctrlKey && !e.metaKey && !e.altKey && keys[e.key];
      if (act) {
        e.preventDefault();
        act();
      }
    });
  }

  destroy() {
    this.stop?.();
    this.surface.destroy();
  }
}

// fontSize keeps names readable in a drawing that is made smaller, as far as they fit into their places.
function fontSize(scale) { return Math.min(18, Math.max(12, Math.round(11 / scale))); }

// worst is the status that people want to see first of those that are counted.
function worst(counts) {
  for (const s of ORDER) if (counts[s] > 0) return s;
  return "w";
}

function curve(c, x1, y1, x2, y2) {
  const bend = Math.max(20, Math.abs(x2 - x1) / 2);
  c.moveTo(x1, y1);
  c.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
}
