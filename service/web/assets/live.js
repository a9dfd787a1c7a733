// If a page names an event stream, it is fetched again when the stream reports a change, and those of its parts
// that are marked as live are replaced if they differ. The focus and typed text are preserved.

const policy = window.trustedTypes?.createPolicy("millipede", { createHTML: (text) => text });

// parse parses the HTML of a page of this service. Scripts in it do not run, and the server has escaped its
// content.
export function parse(text) {
  return new DOMParser().parseFromString(policy ? policy.createHTML(text) : text, "text/html");
}

let reading = false;
let again = false;

// refresh fetches the page again. Requests that arrive meanwhile cause one more fetch.
export async function refresh() {
  if (reading) {
    again = true;
    return;
  }
  reading = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.status === 401) location.reload();
    if (answer.ok) merge(parse(await answer.text()));
  } catch {
    // The stream detects a lost connection as well, and shows it.
  }
  reading = false;
  if (again) {
    again = false;
    setTimeout(refresh, 500);
  }
}

function merge(fresh) {
  for (const now of document.querySelectorAll("[data-live]")) {
    const then = fresh.getElementById(now.id);
    if (then) replace(now, then);
  }
  // A new part is inserted at its position, and started if necessary.
  for (const part of fresh.querySelectorAll("main > section[id]")) {
    if (document.getElementById(part.id)) continue;
    let before = part.nextElementSibling;
    while (before && !(before.id && document.getElementById(before.id))) before = before.nextElementSibling;
    const added = document.importNode(part, true);
    const place = before && document.getElementById(before.id);
    if (place) place.before(added);
    else document.getElementById("main").append(added);
    document.dispatchEvent(new CustomEvent("part", { detail: added }));
  }
  for (const gone of document.querySelectorAll("[data-until]")) {
    if (fresh.getElementById(gone.id)) continue;
    for (const part of gone.querySelectorAll("[data-picture]")) part.dispatchEvent(new Event("gone"));
    gone.remove();
  }
}

// replace updates an element to equal another one, child by child, and keeps equal children.
function replace(now, then) {
  if (now.isEqualNode(then)) return;
  const kept = now.matches("input, textarea, select, details");
  if (now.nodeName !== then.nodeName) {
    now.replaceWith(document.importNode(then, true));
    return;
  }
  for (const { name } of [...now.attributes]) {
    if (!then.hasAttribute(name) && !(kept && name === "open")) now.removeAttribute(name);
  }
  for (const { name, value } of then.attributes) {
    if (now.getAttribute(name) !== value) now.setAttribute(name, value);
  }
  const before = [...now.childNodes];
  const after = [...then.childNodes];
  after.forEach((child, i) => {
    const old = before[i];
    if (!old) now.append(document.importNode(child, true));
    else if (old.nodeType === Node.ELEMENT_NODE && child.nodeType === Node.ELEMENT_NODE) replace(old, child);
    else if (!old.isEqualNode(child)) old.replaceWith(document.importNode(child, true));
  });
  for (const rest of before.slice(after.length)) rest.remove();
}

// follow listens to the event stream of the page.
export function follow() {
  const every = Number(document.body.dataset.every);
  if (every) setInterval(() => { if (!document.hidden) refresh(); }, every * 1000);
  const address = document.body.dataset.events;
  if (!address) return;
  const trouble = document.getElementById("trouble");
  let timer = 0;
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(refresh, 100);
  };
  listen(address, {
    changed: soon,
    reset: soon,
    open: () => { trouble.hidden = true; },
    lost: () => {
      trouble.hidden = false;
      refresh(); // if the session has ended, the page is loaded again, and asks for a login
    },
  });
}

// listen opens an event stream, and opens it again after the last event when it breaks. kinds has a function
// for each kind of event, which is called with its data; "open" and "lost" are called when the connection
// changes. It returns a function that closes the stream.
export function listen(address, kinds) {
  let source;
  let last = "";
  let pause = 500;
  let timer = 0;
  let ended = false;
  const close = () => {
    ended = true;
    clearTimeout(timer);
    source?.close();
  };
  const open = () => {
    const url = new URL(address, location.href);
    if (last) url.searchParams.set("cursor", last);
    source = new EventSource(url);
    source.onopen = () => {
      pause = 500;
      kinds.open?.();
    };
    source.onerror = () => {
      source.close();
      if (ended) return;
      timer = setTimeout(open, pause + Math.random() * pause);
      if (pause > 1000) kinds.lost?.();
      pause = Math.min(2 * pause, 15000);
    };
    for (const kind of ["changed", "reset", "changes", "end"]) {
      source.addEventListener(kind, (event) => {
        last = event.lastEventId;
        kinds[kind]?.(event.data);
      });
    }
  };
  open();
  addEventListener("pagehide", close, { once: true });
  return close;
}
