// What the canvases have in common: their size, their colours, one drawing for each frame, and how text is cut.

// COLOURS are the custom properties of picture.css that canvases draw with.
const COLOURS = ["text", "quiet", "line", "back", "raised", "f", "u", "r", "q", "w", "s", "d", "path", "select",
  "wait"];

// Surface is a canvas that is drawn at most once in a frame, and only when something has changed.
export class Surface {
  constructor(canvas, draw) {
    this.canvas = canvas;
    this.draw = draw;
    this.context = canvas.getContext("2d");
    this.width = this.height = 0;
    this.wanted = 0; // the frame in which it is drawn next
    this.later = 0; // the timer that asks for one
    this.drawn = this.cost = 0; // when it was drawn last, and how long that took
    this.cuts = new Map(); // shortened texts, and widths of whole ones: measuring is slow
    this.widths = new Map();
    this.worst = 0; // the longest time that a drawing took, in milliseconds
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(canvas);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.restyle = () => { this.readColours(); this.invalidate(); };
    this.dark.addEventListener("change", this.restyle);
    this.readColours();
    this.resize();
  }

  readColours() {
    // A canvas takes no var() and no light-dark(): an element beside it says what they come to.
    const probe = document.createElement("span");
    probe.hidden = true;
    this.canvas.after(probe);
    this.colours = {};
    for (const name of COLOURS) {
      probe.style.color = `var(--picture-${name})`;
      this.colours[name] = getComputedStyle(probe).color;
    }
    probe.remove();
    this.font = getComputedStyle(this.canvas).fontFamily || "sans-serif";
  }

  resize() {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight;
    const w = Math.round(this.width * ratio), h = Math.round(this.height * ratio);
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
    }
    this.ratio = ratio;
    this.invalidate();
  }

  // soon draws again for what has changed by itself: ten times a second at most, and for no more than a fifth of the
  // time.
  soon() {
    if (this.wanted || this.later || this.width === 0) return;
    const due = this.drawn + Math.max(100, 4 * this.cost) - performance.now();
    if (due <= 0) return this.invalidate();
    this.later = setTimeout(() => {
      this.later = 0;
      this.invalidate();
    }, due);
  }

  // invalidate draws again in the next frame, for what the user does.
  invalidate() {
    if (this.wanted || this.width === 0) return;
    this.wanted = requestAnimationFrame(() => {
      this.wanted = 0;
      const began = this.drawn = performance.now();
      this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
      this.context.clearRect(0, 0, this.width, this.height);
      this.draw(this.context, this.colours);
      this.cost = performance.now() - began;
      this.worst = Math.max(this.worst, this.cost);
    });
  }

  // fit returns the first of some texts that is not wider than so many pixels, or else what is left of the last one.
  fit(c, texts, width) {
    const last = texts.length - 1;
    for (let k = 0; k < last; k++) if (this.wide(c, texts[k]) <= width) return texts[k];
    return this.cut(c, texts[last], width);
  }

  // cut shortens text to a width in pixels, in its middle, because addresses differ at both ends.
  cut(c, text, width) {
    if (width < 14) return "";
    const wide = this.wide(c, text);
    if (wide <= width) return text;
    const room = Math.floor(width / 4) * 4;
    return this.remember(this.cuts, `${c.font} ${room} ${text}`, () => {
      const fits = (n) => c.measureText(shortened(text, n)).width <= room;
      let n = Math.floor(text.length * room / wide); // about as many characters as there is room for
      if (fits(n)) while (n + 1 < text.length && fits(n + 1)) n++;
      else while (n > 1 && !fits(n)) n--;
      return n < 2 ? "" : shortened(text, n);
    });
  }

  // wide is how many pixels a text takes.
  wide(c, text) {
    return this.remember(this.widths, `${c.font} ${text}`, () => c.measureText(text).width);
  }

  remember(all, key, make) {
    let out = all.get(key);
    if (out !== undefined) return out;
    out = make();
    if (all.size > 20_000) all.clear();
    all.set(key, out);
    return out;
  }

  destroy() {
    if (this.wanted) cancelAnimationFrame(this.wanted);
    clearTimeout(this.later);
    this.observer.disconnect();
    this.dark.removeEventListener("change", this.restyle);
  }
}

function shortened(text, n) {
  const head = Math.ceil(n * 0.4);
  return `${text.slice(0, head)}…${text.slice(text.length - (n - head))}`;
}

// inSlices does what a generator makes in slices of a few milliseconds, so that the page goes on meanwhile, and calls
// then with what it returns. It returns what ends it before.
export function inSlices(steps, then) {
  let ended = false;
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    if (ended) return;
    const until = performance.now() + 8;
    for (;;) {
      const { done, value } = steps.next();
      if (done) {
        ended = true;
        port1.close();
        return then(value);
      }
      if (performance.now() > until) break;
    }
    port2.postMessage(0);
  };
  port2.postMessage(0);
  return () => {
    ended = true;
    port1.close();
  };
}

// SLIP is how many pixels a pointer may move between its press and its release, and still have clicked.
const SLIP = 4;

// pointers tells on of what mice, pens and fingers do on a canvas: hover(x, y) without a press, tap(x, y),
// drag(dx, dy), and pinch(factor, x, y) for two fingers that move apart (a factor above 1) or together around a point.
export function pointers(canvas, on) {
  const down = new Map(); // where those are that are pressed, by their ID
  let begin = null; // where the only one was pressed; null as soon as it has clicked nothing
  // middle is the point between two fingers, or the place of one, and how far they are apart.
  const middle = () => {
    const [a, b = a] = down.values();
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, apart: Math.hypot(a.x - b.x, a.y - b.y) };
  };
  canvas.addEventListener("pointerdown", (e) => {
    if (down.size === 2) return; // a third finger says nothing
    down.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
    begin = down.size === 1 ? middle() : null;
    canvas.setPointerCapture(e.pointerId);
  });
  canvas.addEventListener("pointermove", (e) => {
    if (!down.has(e.pointerId)) return on.hover(e.offsetX, e.offsetY);
    let was = middle();
    if (begin) {
      if (Math.hypot(e.offsetX - begin.x, e.offsetY - begin.y) <= SLIP) return;
      was = begin;
      begin = null;
    }
    down.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
    const is = middle();
    on.drag(is.x - was.x, is.y - was.y);
    if (was.apart > 0 && is.apart > 0) on.pinch(is.apart / was.apart, is.x, is.y);
  });
  canvas.addEventListener("pointerup", (e) => {
    if (down.delete(e.pointerId) && begin) on.tap(begin.x, begin.y);
    begin = null;
  });
  canvas.addEventListener("pointercancel", (e) => {
    down.delete(e.pointerId);
    begin = null;
  });
}

// MARKS are drawn besides the colours, because not everybody sees those.
export const MARKS = { f: "✕", u: "?", r: "▶", q: "◷", w: "·", s: "⤼", d: "✓" };

// element makes an element with attributes, properties that begin with "on" as listeners, and children. Text is text.
export function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) {
    if (v === undefined || v === null || v === false) continue;
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (k === "class") e.className = v;
    else e.setAttribute(k, v === true ? "" : String(v));
  }
  e.append(...children.filter((c) => c !== null && c !== undefined && c !== ""));
  return e;
}
