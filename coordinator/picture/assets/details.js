// What is known of one vertex, or of a folded group, as a panel. Everything is put in as text.

import { ORDER, STATUS, duration, over, waitText } from "./model.js";
import { element } from "./canvas.js";

const SHOWN = 12; // links of a kind at most

export class Details {
  // options.lines(vertex) and options.plan(vertex) return promises of the last lines of its log (a list of texts), and
  // of its part of the plan (a text, or an element that the page has made); both may be absent. A vertex is
  // { number, address, attempt, deposed }.
  constructor(box, host, options) {
    this.host = host;
    this.box = box;
    this.options = options;
    this.what = null;
    this.extra = null;
  }

  // show shows something else, or nothing.
  show(what, focus = false) {
    this.what = what;
    this.extra = null;
    this.box.hidden = what === null;
    if (what === null) return this.box.replaceChildren();
    this.extra = element("div");
    if (typeof what === "number" && !this.host.run.outline) this.load(what);
    this.refresh();
    if (focus) this.box.querySelector("h3")?.focus();
  }

  // load asks for the log and the plan.
  load(i) {
    const { run } = this.host;
    const vertex = { number: run.number[i], address: run.address(i), attempt: run.attempt(i),
      deposed: run.more[i]?.deposed || "" };
    const extra = this.extra;
    const part = (title, ask, put) => {
      if (!ask) return;
      const body = element("div", {}, element("p", { class: "picture-quiet" }, "Loading…"));
      extra.append(element("h4", {}, title), body);
      Promise.resolve(ask(vertex)).then((got) => put(body, got), (err) => put(body, null, err));
    };
    part("Last lines", this.options.lines, (body, got, err) => {
      if (got && got.length > 0) body.replaceChildren(element("pre", { tabindex: "0" }, got.join("\n")));
      else body.replaceChildren(element("p", {}, err ? `They cannot be read: ${err}` : "None."));
    });
    part("In the plan", this.options.plan, (body, got, err) => {
      if (got instanceof Node) body.replaceChildren(got);
      else if (!got) body.replaceChildren(element("p", {}, err ? `It cannot be read: ${err}` : "Nothing."));
      else body.replaceChildren(element("pre", { tabindex: "0" }, got));
    });
  }

  // refresh shows the present state of what is shown.
  refresh() {
    if (this.what === null) return;
    const had = document.activeElement;
    const inside = this.box.contains(had) && had.dataset.key;
    const close = element("button", { type: "button", class: "picture-close", "data-key": "close",
      "aria-label": "Close", onclick: () => this.host.select(null) }, "✕");
    const fold = typeof this.what === "number" ? this.host.run.fold(this.what) : this.host.groups.all.get(this.what);
    const body = fold ? this.group(fold) : typeof this.what === "number" ? this.vertex(this.what) : [];
    this.box.replaceChildren(close, ...body, this.extra);
    if (inside) this.box.querySelector(`[data-key="${CSS.escape(inside)}"]`)?.focus();
  }

  group(g) {
    const open = this.host.open.has(g.id);
    const rows = ORDER.split("").filter((s) => g.counts[s] > 0).map((s) => [STATUS[s], String(g.counts[s])]);
    return [element("h3", { tabindex: "-1" }, g.label), list([["Operations", String(g.total)], ...rows]),
      element("p", {}, element("button", { type: "button", "data-key": "fold",
        onclick: () => this.host.toggle(g.id) }, open ? "Fold" : "Unfold"))];
  }

  vertex(i) {
    const { run } = this.host;
    const now = run.now(this.host.clock());
    const status = run.status[i];
    const rows = [["Status", element("span", { class: `status-${status}` }, STATUS[status])],
      ["Action", `${run.action[i]} ${run.type[i]}`]];
    if (run.pool[i]) rows.push(["Pool", run.pool[i]]);
    if (run.worker[i]) rows.push(["Worker", run.worker[i]]);
    if (run.attempts(i) > 0) {
      rows.push(["Attempt", `${run.attempts(i) > 1 ? `${run.attempts(i)}, the last one ` : ""}${run.attempt(i)}`]);
    }
    if (run.started[i] >= 0) {
      rows.push(["Started", `after ${duration(run.started[i])}`]);
      const took = run.until(i, now) - run.started[i];
      rows.push([over(status) ? "Took" : "Runs for", duration(took)]);
      if (over(status) && run.took[i] > 0 && took - run.took[i] > 50) {
        rows.push(["On the worker", duration(run.took[i])]);
      }
    }
    if (run.holds(i).length > 0) rows.push(["Holds permits of", run.holds(i).join(", ")]);
    const out = [element("h3", { tabindex: "-1" }, run.title(i)), ...this.steps(i), list(rows)];
    const text = (title, said) => {
      if (said) out.push(element("h4", {}, title), element("pre", { class: "picture-text", tabindex: "0" }, said));
    };
    text("Why it failed", run.failure(i));
    text("Why its outcome is not known", run.doubtful(i));
    if (run.because(i)) {
      const j = run.find(run.because(i));
      out.push(element("p", {}, "Skipped because this failed: ", j < 0 ? run.because(i) : this.link(j)));
    }
    this.waiting(out, i, now);
    this.links(out, "Depends on", run.through(i, false, 400), (j) => !over(run.status[j]));
    this.links(out, "Needed by", run.through(i, true, 400), () => false);
    return out;
  }

  // steps goes along the critical path, while it is shown.
  steps(i) {
    if (!this.host.following) return [];
    const path = this.host.path();
    const at = path.indexOf(i);
    if (at < 0) return [];
    const step = (to, text) => element("button", { type: "button", "data-key": text, disabled: path[to] === undefined,
      onclick: () => this.host.select(path[to], true) }, text);
    return [element("p", { class: "picture-steps" }, step(at - 1, "Previous"), step(at + 1, "Next"),
      ` critical path: ${at + 1} of ${path.length}`)];
  }

  // waiting says what a vertex waits for, and has waited for.
  waiting(out, i, now) {
    const { run } = this.host;
    if (run.status[i] === "w") {
      const open = run.through(i).filter((j) => !over(run.status[j]));
      out.push(element("h4", {}, "Waits for"), open.length === 0 ? element("p", {}, "its turn: others come first") :
        this.list(open));
      return;
    }
    const waits = run.waits(i);
    if (waits.length === 0) return;
    const current = run.status[i] === "q" ? waits[waits.length - 1] : null;
    if (current) {
      out.push(element("h4", {}, "Waits for"), element("p", {},
        `${waitText(current)}, for ${duration(now - current[2])}`));
      if (current[0] === "l" || current[0] === "p") {
        const holders = run.holders(current[0], current[1]).filter((j) => j !== i);
        if (holders.length > 0) out.push(element("p", {}, "Held by:"), this.list(holders));
      }
      for (const s of run.shortages.filter((x) => x.name === current[1])) {
        if (s.inDoubt) out.push(element("p", {}, `Operations in doubt hold permits: ${s.inDoubt.join(", ")}`));
      }
    }
    out.push(element("h4", {}, "Has waited for"), list(waits.map((w) => [waitText(w),
      duration((w[3] >= 0 ? w[3] : now) - w[2])])));
  }

  links(out, title, all, first) {
    if (all.length === 0) return;
    all.sort((a, b) => Number(first(b)) - Number(first(a)) || a - b);
    out.push(element("h4", {}, `${title} (${all.length >= 400 ? "400 and more" : all.length})`), this.list(all));
  }

  list(vertices) {
    const items = vertices.slice(0, SHOWN).map((j) => element("li", {}, this.link(j)));
    if (vertices.length > SHOWN) items.push(element("li", {}, `and ${vertices.length - SHOWN} more`));
    return element("ul", { class: "picture-links" }, ...items);
  }

  link(j) {
    const { run } = this.host;
    return element("button", { type: "button", class: "picture-link", "data-key": `v${j}`,
      onclick: () => this.host.select(j, true) },
    element("span", { class: `picture-mark status-${run.status[j]}`, "aria-hidden": "true" }, "●"),
    `${run.title(j)}, ${STATUS[run.status[j]]}`);
  }
}

function list(rows) {
  return element("dl", { class: "picture-facts" },
    ...rows.flatMap(([k, v]) => [element("dt", {}, k), element("dd", {}, v)]));
}
