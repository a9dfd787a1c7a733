// The list beside the canvases: the same groups and vertices as a tree, for keyboards and screen readers. Only the
// lines in sight are in the document.

import { ORDER, STATUS } from "./model.js";
import { MARKS, element } from "./canvas.js";

const LINE = 24;

export class List {
  // host is that of Graph.
  constructor(box, host) {
    this.host = host;
    this.box = box;
    this.inner = element("div", { class: "picture-lines", role: "presentation" });
    box.append(this.inner);
    box.tabIndex = 0;
    box.setAttribute("role", "tree");
    box.setAttribute("aria-label", "Operations of the run");
    this.rows = [];
    this.wanted = false;
    this.active = 0;
    box.addEventListener("scroll", () => this.invalidate());
    box.addEventListener("click", (e) => this.click(e));
    box.addEventListener("keydown", (e) => this.key(e));
    this.observer = new ResizeObserver(() => this.invalidate());
    this.observer.observe(box);
    this.refresh();
  }

  // refresh makes the lines anew: after folding, searching, or when vertices are new.
  refresh() {
    const { groups, open, found, foundGroups } = this.host;
    const keep = found ? new Set([...found, ...foundGroups]) : null;
    this.rows = groups.rows(open, keep);
    this.inner.style.height = `${Math.min(this.rows.length * LINE, 8_000_000)}px`;
    this.active = Math.max(0, this.rows.findIndex(([what]) => what === this.host.selected));
    this.invalidate();
  }

  // soon and refreshSoon are for what changes by itself: the lines in sight five times a second at most, all of them
  // once.
  soon() { this.inTime("due", 200, () => this.invalidate()); }

  refreshSoon() { this.inTime("dueAll", 1000, () => this.refresh()); }

  inTime(which, pause, act) {
    if (this[which]) return;
    this[which] = setTimeout(() => {
      this[which] = 0;
      act();
    }, pause);
  }

  invalidate() {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => {
      this.wanted = false;
      this.draw();
    });
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / LINE) - 4);
    const last = Math.min(this.rows.length, first + Math.ceil(this.box.clientHeight / LINE) + 8);
    const lines = [];
    for (let k = first; k < last; k++) lines.push(this.line(k));
    if (this.active < first || this.active >= last) { // a screen reader must find what is active
      if (this.rows[this.active]) lines.push(this.line(this.active));
    }
    this.inner.replaceChildren(...lines);
    this.box.setAttribute("aria-activedescendant", this.rows.length > 0 ? `picture-line-${this.active}` : "");
  }

  line(k) {
    const { run, groups, open, selected, found } = this.host;
    const [what, level] = this.rows[k];
    const g = typeof what === "number" ? run.fold(what) : groups.all.get(what);
    const isGroup = g !== undefined;
    const status = isGroup ? ORDER.split("").find((s) => g.counts[s] > 0) || "w" : run.status[what];
    const said = isGroup ? ORDER.split("").filter((s) => g.counts[s] > 0).map((s) => `${g.counts[s]} ${STATUS[s]}`)
      .join(", ") : STATUS[status];
    const line = element("div", {
      class: `picture-line${what === selected ? " selected" : ""}${k === this.active ? " active" : ""}`,
      id: `picture-line-${k}`, role: "treeitem", "aria-level": level, "aria-posinset": k + 1,
      "aria-setsize": this.rows.length, "aria-selected": what === selected ? "true" : "false",
      "aria-expanded": isGroup ? String(open.has(what) || Boolean(found)) : undefined, "data-row": k,
    },
    element("span", { class: `picture-mark status-${status}`, "aria-hidden": "true" },
      isGroup ? (open.has(what) || found ? "▾" : "▸") : MARKS[status]),
    element("span", { class: "picture-name" }, isGroup ? g.label : this.short(what)),
    element("span", { class: "picture-said" }, isGroup ? said : `${run.action[what]} · ${said}`));
    line.style.top = `${k * LINE}px`;
    line.style.paddingLeft = `${level * 0.9}em`;
    return line;
  }

  // short is what a line calls a vertex: below its block, its key is enough.
  short(i) {
    const home = this.host.groups.all.get(this.host.groups.home[i]);
    const name = this.host.run.name(i);
    return home.kind === "block" || home.kind === "range" ? this.host.run.key[i] : name;
  }

  click(e) {
    const line = e.target.closest("[data-row]");
    if (!line) return;
    this.active = Number(line.dataset.row);
    const what = this.rows[this.active][0];
    if (typeof what === "string" && e.target.closest(".picture-mark")) this.host.toggle(what);
    else this.host.select(what, true);
    this.invalidate();
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || this.rows.length === 0) return;
    const page = Math.max(1, Math.floor(this.box.clientHeight / LINE) - 1);
    const [what, level] = this.rows[Math.min(this.active, this.rows.length - 1)];
    const isOpen = typeof what === "string" && this.host.open.has(what);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.rows.length,
      End: this.rows.length };
    if (e.key in moves) this.move(this.active + moves[e.key]);
    else if (e.key === "Enter" || e.key === " ") {
      if (typeof what === "string" && e.key === " ") this.host.toggle(what);
      else this.host.select(what, true);
    } else if (e.key === "ArrowRight" && typeof what === "string") {
      if (isOpen) this.move(this.active + 1);
      else this.host.toggle(what);
    } else if (e.key === "ArrowLeft") {
      if (isOpen) this.host.toggle(what);
      else {
        let k = this.active;
        while (k > 0 && this.rows[k][1] >= level) k--;
        this.move(k);
      }
    } else if (e.key === "Escape") this.host.select(null);
    else return;
    e.preventDefault();
  }

  move(to) {
    this.active = Math.max(0, Math.min(this.rows.length - 1, to));
    this.into(this.active);
    this.invalidate();
  }

  into(k) {
    const top = k * LINE;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + LINE > this.box.scrollTop + this.box.clientHeight) {
      this.box.scrollTop = top + LINE - this.box.clientHeight;
    }
  }

  // reveal moves the line of something into sight.
  reveal(what) {
    const k = this.rows.findIndex(([w]) => w === what);
    if (k < 0) return;
    this.active = k;
    this.into(k);
    this.invalidate();
  }

  destroy() {
    clearTimeout(this.due);
    clearTimeout(this.dueAll);
    this.observer.disconnect();
  }
}
