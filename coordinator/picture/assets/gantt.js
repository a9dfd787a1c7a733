// The Gantt of a run on a canvas: how many wait for each limit, who waits now, and a lane for each worker's slot.

import { STATUS, criticalPath, duration, waitLabel } from "./model.js";
import { Lanes, Pressure, firstFrom, tickLabel, ticks } from "./lanes.js";
import { MARKS, Surface, pointers } from "./canvas.js";

const ROW = 24, BAR = 15, THIN = 4, AXIS = 26, BAND = 34, WAITER = 18, WAITERS = 12, BANDS = 8;

export class Gantt {
  // host is that of Graph.
  constructor(canvas, host) {
    this.host = host;
    this.canvas = canvas;
    this.lanes = null; // until it is looked at
    this.pressure = null; // until the story is there
    this.from = 0; // the time at the left edge
    this.span = 0; // how much time is to be seen; 0: all, and what comes
    this.scroll = 0;
    this.showPath = true;
    this.path = [];
    this.bands = [];
    this.waiters = [];
    this.ageOfSums = -Infinity;
    this.surface = new Surface(canvas, (c, colours) => this.draw(c, colours));
    this.listen();
  }

  get worst() { return this.surface.worst; }

  // before is told of a vertex that is about to change, changed of those that have.
  before(i) { this.pressure?.add(this.host.run.waits(i), -1); }

  changed(dirty) {
    if (this.lanes) for (const i of dirty) this.lanes.update(i);
    if (this.pressure) for (const i of dirty) this.pressure.add(this.host.run.waits(i));
    this.surface.soon();
  }

  // told is told that the story has come.
  told() {
    const { run } = this.host;
    this.pressure = new Pressure();
    for (let i = 0; i < run.size; i++) if (run.more[i]?.whole || run.told.first.has(i)) this.pressure.add(run.waits(i));
    this.ageOfSums = -Infinity;
    this.surface.invalidate();
  }

  setPath(on) {
    this.showPath = on;
    this.surface.invalidate();
  }

  fit() {
    this.from = 0;
    this.span = 0;
    this.scroll = 0;
    this.surface.invalidate();
  }

  get now() { return this.host.run.now(this.host.clock()); }
  get extent() { return this.host.run.extent(this.now) * 1.02; }
  get gutter() { return Math.min(170, this.surface.width * 0.25); }

  // sums are made anew four times a second at most.
  sums() {
    const clock = this.host.clock();
    if (clock - this.ageOfSums < 250) return;
    this.ageOfSums = clock;
    const { run } = this.host;
    this.bands = this.pressure?.bands(this.now, BANDS) || [];
    this.waiters = run.queued(WAITERS);
    this.path = this.showPath ? criticalPath(run, this.now) : [];
    this.onPath = new Set(this.path);
  }

  draw(c, colours) {
    if (!this.lanes) this.lanes = new Lanes(this.host.run);
    this.sums();
    const s = this.surface;
    const now = this.now, left = this.gutter;
    const span = this.span || this.extent;
    const scale = (s.width - left - 8) / span;
    this.scale = scale;
    const X = (t) => left + (t - this.from) * scale;
    this.X = X;
    const list = this.lanes.list();
    const head = AXIS + this.bands.length * BAND + this.waiters.length * WAITER;
    this.height = head + list.length * ROW + 10;
    this.scroll = Math.max(0, Math.min(this.scroll, this.height - s.height));
    c.font = `12px ${s.font}`;
    c.textBaseline = "middle";
    const marks = ticks(this.from, this.from + span, s.width - left);
    c.strokeStyle = colours.line;
    c.lineWidth = 1;
    c.globalAlpha = 0.45;
    c.beginPath();
    for (const t of marks.at) {
      c.moveTo(Math.round(X(t)) + 0.5, AXIS);
      c.lineTo(Math.round(X(t)) + 0.5, s.height);
    }
    c.stroke();
    c.globalAlpha = 1;
    c.save();
    c.beginPath();
    c.rect(0, AXIS, s.width, s.height - AXIS);
    c.clip();
    let y = AXIS - this.scroll;
    for (const band of this.bands) y = this.drawBand(c, colours, band, y);
    for (const i of this.waiters) y = this.drawWaiter(c, colours, i, y, now);
    this.top = y;
    const first = Math.max(0, Math.floor((AXIS - y) / ROW));
    const last = Math.min(list.length, Math.ceil((s.height - y) / ROW));
    for (let k = first; k < last; k++) this.drawLane(c, colours, list[k], y + k * ROW, now, span);
    if (this.showPath) this.drawPath(c, colours, y, now);
    if (!this.host.run.head.outcome) {
      c.strokeStyle = colours.r;
      c.beginPath();
      c.moveTo(X(now), AXIS);
      c.lineTo(X(now), s.height);
      c.stroke();
    }
    c.restore();
    c.fillStyle = colours.quiet;
    c.textAlign = "center";
    for (const t of marks.at) {
      const x = X(t);
      if (x > left - 5 && x < s.width - 20) c.fillText(tickLabel(t, marks.step), x, AXIS / 2);
    }
  }

  label(c, colours, texts, y, strong = false) {
    c.fillStyle = colours.back;
    c.fillRect(0, y - 9, this.gutter - 2, 18);
    c.fillStyle = strong ? colours.text : colours.quiet;
    c.textAlign = "left";
    c.fillText(this.surface.fit(c, texts, this.gutter - 12), 6, y);
  }

  // drawBand draws how many waited for something, over time.
  drawBand(c, colours, band, y) {
    const s = this.surface, bottom = y + BAND - 6, high = BAND - 14;
    if (bottom > AXIS && y < s.height) {
      c.fillStyle = colours.wait;
      const step = this.pressure.length;
      const from = Math.max(0, Math.floor(this.from / step));
      const to = Math.min(band.counts.length, Math.ceil((this.from + (this.span || this.extent)) / step));
      for (let k = from; k < to; k++) {
        if (band.counts[k] < 0.001) continue;
        const h = Math.max(1, band.counts[k] / band.most * high);
        const x = Math.max(this.gutter, this.X(k * step));
        c.fillRect(x, bottom - h, Math.max(0, this.X((k + 1) * step) - x + 0.5), h);
      }
      c.strokeStyle = colours.line;
      c.strokeRect(this.gutter, bottom, s.width, 0.5);
      const kind = { l: "limit", p: "slots of", m: "no worker in" }[band.kind];
      const most = Math.ceil(band.most - 0.05);
      this.label(c, colours, [`${kind} ${band.name}: up to ${most} wait`, `${band.name}: ${most}`], y + BAND / 2 - 2);
    }
    return y + BAND;
  }

  // drawWaiter draws a vertex that waits now: a thin bar with the name of what it waits for.
  drawWaiter(c, colours, i, y, now) {
    const { run } = this.host;
    const middle = y + WAITER / 2;
    if (y > AXIS - WAITER && y < this.surface.height) {
      const waits = run.waits(i);
      for (const w of waits) {
        const x = Math.max(this.gutter, this.X(w[2]));
        const to = this.X(w[3] >= 0 ? w[3] : now);
        if (to <= this.gutter) continue;
        c.fillStyle = w[0] === "t" ? colours.w : colours.wait;
        c.fillRect(x, middle - THIN / 2, Math.max(1, to - x), THIN);
      }
      const last = waits[waits.length - 1];
      if (last) {
        c.fillStyle = colours.text;
        c.textAlign = "left";
        c.font = `10px ${this.surface.font}`;
        const x = Math.max(this.gutter + 3, this.X(last[2]) + 3);
        c.fillText(this.surface.cut(c, `${waitLabel(last)} ${duration(now - last[2])}`, 200), x, middle - 6);
        c.font = `12px ${this.surface.font}`;
      }
      this.label(c, colours, run.labels(i), middle, this.host.selected === i);
    }
    return y + WAITER;
  }

  drawLane(c, colours, lane, y, now, span) {
    const { run, selected } = this.host;
    const s = this.surface;
    if (lane.first) {
      c.strokeStyle = colours.line;
      c.lineWidth = 1;
      c.beginPath();
      c.moveTo(0, y + 0.5);
      c.lineTo(s.width, y + 0.5);
      c.stroke();
    }
    const until = this.from + span;
    const pixel = 1 / this.scale;
    this.drawBars(lane.items, this.from, until, now, (k, begin, end, many) => {
      this.drawBar(c, colours, lane.items[k], y, begin, end, many, k > 0 ? run.until(lane.items[k - 1], now) : 0);
    }, pixel);
    this.drawBars(lane.bad, this.from, until, now, (k, begin, end) => {
      this.drawBar(c, colours, lane.bad[k], y, begin, end, false, end);
    }, pixel);
    if (selected !== null && this.lanes.where[selected]?.items === lane.items) {
      this.drawBar(c, colours, selected, y, run.started[selected], run.until(selected, now), false, 0);
    }
    this.label(c, colours, [lane.label], y + ROW / 2);
  }

  // drawBars goes through the items of a lane that are in sight. Of those that are smaller than a pixel it looks at one
  // for each pixel, and draws what is next to each other as one: bar is told the first, from when to when, and whether
  // there are many.
  drawBars(items, from, until, now, bar, pixel) {
    const { run } = this.host;
    for (let k = firstFrom(run, items, from, now); k < items.length;) {
      const i = items[k];
      const begin = run.started[i];
      if (begin > until) return;
      let end = run.until(i, now), next = k + 1;
      const { started } = run;
      const small = end - begin < 2 * pixel;
      while (small && next < items.length && started[items[next]] - end < pixel) {
        const later = firstFrom(run, items, end + pixel, now, next); // those before it end less than a pixel further on
        if (later > next) {
          end = Math.max(end, run.until(items[later - 1], now));
          next = later;
        } else if (run.until(items[next], now) - started[items[next]] < 2 * pixel && end - begin < 60 * pixel) {
          end = run.until(items[next], now);
          next++;
        } else break;
      }
      bar(k, begin, end, next - k > 1);
      k = next;
    }
  }

  drawBar(c, colours, i, y, begin, end, many, busy) {
    const { run, selected, found } = this.host;
    const x = Math.max(this.gutter, this.X(begin));
    const to = Math.max(x + 1, this.X(end));
    const wide = !many && to - x > 3;
    if (!many) this.drawWaits(c, colours, i, y, busy);
    c.globalAlpha = found && !found.has(i) ? 0.25 : 1;
    c.fillStyle = colours[run.status[i]];
    c.fillRect(x, y + 3, to - x, BAR);
    if (wide && (run.status[i] === "f" || run.status[i] === "u")) hatch(c, colours.back, x, y + 3, to - x, BAR);
    if (wide && this.showPath && this.onPath.has(i)) {
      c.strokeStyle = colours.path;
      c.lineWidth = 2;
      c.strokeRect(x, y + 3, to - x, BAR);
    }
    if (i === selected && !many) {
      c.strokeStyle = colours.select;
      c.lineWidth = 3;
      c.strokeRect(x - 1, y + 2, to - x + 2, BAR + 2);
    }
    if (!many && to - x > 30) {
      c.fillStyle = colours.back;
      c.textAlign = "left";
      const mark = run.status[i] === "f" || run.status[i] === "u" ? `${MARKS[run.status[i]]} ` : "";
      c.fillText(this.surface.fit(c, run.labels(i).map((text) => mark + text), to - x - 8), x + 4, y + 3 + BAR / 2 + 0.5);
    } else if (run.status[i] === "f") {
      c.fillStyle = colours.f;
      c.textAlign = "center";
      c.fillText(MARKS.f, (x + to) / 2, y + 1);
    }
    c.globalAlpha = 1;
  }

  // drawWaits draws the thin bars before an operation: faint where the operation before it in the lane went on still.
  drawWaits(c, colours, i, y, busy) {
    const { run, selected } = this.host;
    if (i !== selected && (run.started[i] - busy) * this.scale < 1.5) return; // there is no room to be seen
    for (const w of run.waits(i)) {
      if (w[3] < 0) continue;
      const begin = i === selected ? w[2] : Math.max(w[2], busy);
      const x = Math.max(this.gutter, this.X(begin)), to = this.X(w[3]);
      if (to - x < 0.5) continue;
      c.fillStyle = w[0] === "t" || w[0] === "o" ? colours.w : colours.wait;
      c.fillRect(x, y + 3 + BAR + 1, to - x, THIN);
      if (to - x > 40 && begin >= busy) {
        c.fillStyle = colours.quiet;
        c.font = `10px ${this.surface.font}`;
        c.textAlign = "left";
        c.fillText(this.surface.cut(c, waitLabel(w), to - x - 4), x + 2, y + BAR - 3);
        c.font = `12px ${this.surface.font}`;
      }
    }
  }

  // drawPath joins the bars of the critical path.
  drawPath(c, colours, top, now) {
    const { run } = this.host;
    c.strokeStyle = colours.path;
    c.lineWidth = 1.5;
    c.beginPath();
    let last = null;
    for (const i of this.path) {
      const k = this.lanes.laneOf(i);
      if (k < 0) continue;
      const y = top + k * ROW + 3 + BAR / 2;
      const x = this.X(run.started[i]);
      if (last && (x - last.drawn >= 1 || Math.abs(y - last.y) >= 1 && x - last.drawn >= 0.3)) {
        c.moveTo(Math.max(this.gutter, last.x), last.y);
        c.lineTo(Math.max(this.gutter, x), y);
        last = { x: this.X(run.until(i, now)), y, drawn: x };
      } else last = { x: this.X(run.until(i, now)), y, drawn: last ? last.drawn : -Infinity };
    }
    c.stroke();
  }

  // hit finds the vertex at a point; -1: none.
  hit(px, py) {
    const { run } = this.host;
    if (!this.scale || !this.lanes || py < AXIS) return -1;
    const list = this.lanes.list();
    if (py < this.top) {
      const k = Math.floor((py - (this.top - this.waiters.length * WAITER)) / WAITER);
      return this.waiters[k] ?? -1;
    }
    const lane = list[Math.floor((py - this.top) / ROW)];
    if (!lane || px < this.gutter) return -1;
    const slack = 3 / this.scale;
    const t = this.from + (px - this.gutter) / this.scale;
    for (let k = firstFrom(run, lane.items, t - slack, this.now); k < lane.items.length; k++) {
      if (run.started[lane.items[k]] <= t + slack) return lane.items[k];
      break;
    }
    return -1;
  }

  // reveal moves a vertex into sight.
  reveal(i) {
    const { run } = this.host;
    if (!this.lanes || this.surface.height === 0) return;
    const k = this.lanes.laneOf(i);
    if (k < 0) return;
    const head = AXIS + this.bands.length * BAND + this.waiters.length * WAITER;
    const y = head + k * ROW;
    if (y - this.scroll < AXIS || y - this.scroll > this.surface.height - ROW) {
      this.scroll = Math.max(0, y - this.surface.height / 2);
    }
    if (this.span && (run.started[i] < this.from || run.started[i] > this.from + this.span)) {
      this.from = Math.max(0, run.started[i] - this.span / 3);
    }
    this.surface.invalidate();
  }

  zoom(factor, px = (this.surface.width + this.gutter) / 2) {
    const span = this.span || this.extent;
    const t = this.from + Math.max(0, px - this.gutter) / (this.scale || 1);
    const next = Math.min(this.extent, Math.max(20, span / factor));
    this.from = Math.max(0, t - (t - this.from) * next / span);
    this.span = next >= this.extent * 0.999 ? 0 : next;
    if (!this.span) this.from = 0;
    this.surface.invalidate();
  }

  pan(dt) {
    if (this.span) this.from = Math.max(0, Math.min(this.extent - this.span, this.from + dt));
    this.surface.invalidate();
  }

  slide(dy) {
    this.scroll = Math.max(0, this.scroll + dy);
    this.surface.invalidate();
  }

  // step selects the next operation: in the same lane, or in the one above or below.
  step(along, lanes) {
    if (!this.lanes) return;
    const list = this.lanes.list();
    const { run, selected } = this.host;
    if (list.length === 0) return;
    const at = typeof selected === "number" ? this.lanes.laneOf(selected) : -1;
    if (at < 0) return this.choose(list[0].items[0]);
    const lane = list[at + lanes];
    if (!lane) return;
    if (lanes === 0) {
      const next = lane.items[lane.items.indexOf(selected) + along];
      if (next !== undefined) this.choose(next);
      return;
    }
    const k = Math.min(firstFrom(run, lane.items, run.started[selected], this.now), lane.items.length - 1);
    this.choose(lane.items[k]);
  }

  choose(i) {
    this.host.select(i);
    this.reveal(i);
  }

  listen() {
    pointers(this.canvas, {
      hover: (x, y) => {
        const i = this.hit(x, y);
        this.canvas.classList.toggle("over", i >= 0);
        this.canvas.title = i < 0 ? "" : `${this.host.describe(i)} (${STATUS[this.host.run.status[i]]})`;
      },
      tap: (x, y) => {
        const i = this.hit(x, y);
        this.host.select(i < 0 ? null : i);
      },
      drag: (dx, dy) => {
        this.pan(-dx / this.scale);
        this.slide(-dy);
      },
      pinch: (factor, x) => this.zoom(factor, x),
    });
    this.canvas.addEventListener("wheel", (e) => {
      e.preventDefault();
      if (e.shiftKey || e.offsetX < this.gutter) this.slide(e.deltaY);
      else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.pan(e.deltaX / this.scale);
      else this.zoom(Math.exp(-e.deltaY / 400), e.offsetX);
    }, { passive: false });
    this.canvas.addEventListener("keydown", (e) => {
      const keys = {
        ArrowLeft: () => this.step(-1, 0), ArrowRight: () => this.step(1, 0), ArrowUp: () => this.step(0, -1),
        ArrowDown: () => this.step(0, 1), "+": () => this.zoom(1.25), "=": () => this.zoom(1.25),
        "-": () => this.zoom(0.8), 0: () => this.fit(), PageUp: () => this.slide(-this.surface.height * 0.8),
        PageDown: () => this.slide(this.surface.height * 0.8), "[": () => this.pan(-this.span / 4),
        "]": () => this.pan(this.span / 4), Escape: () => this.host.select(null),
      };
      const act = !e.ctrlKey && !e.metaKey && !e.altKey && keys[e.key];
      if (act) {
        e.preventDefault();
        act();
      }
    });
  }

  destroy() { this.surface.destroy(); }
}

// hatch marks a bar for those who do not see its colour.
function hatch(c, colour, x, y, w, h) {
  c.save();
  c.beginPath();
  c.rect(x, y, w, h);
  c.clip();
  c.strokeStyle = colour;
  c.lineWidth = 1.2;
  c.beginPath();
  for (let k = -h; k < Math.min(w, 4000); k += 6) {
    c.moveTo(x + k, y + h);
    c.lineTo(x + k + h, y);
  }
  c.stroke();
  c.restore();
}
