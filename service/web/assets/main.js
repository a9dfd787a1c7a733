// The dynamic behaviour of pages: they follow changes and logs, and keep times current.
import { follow, parse } from "./live.js";
import { followLog } from "./log.js";

follow();
start(document);
document.addEventListener("part", (event) => start(event.detail));

// Closed details are fetched when they are opened.
document.addEventListener("toggle", async (event) => {
  const box = event.target;
  const address = box.dataset?.fetch;
  if (!address || !box.open) return;
  delete box.dataset.fetch;
  try {
    const answer = await fetch(address);
    const body = parse(await answer.text()).getElementById("object");
    if (!answer.ok || !body) throw new Error(`${answer.status}`);
    body.removeAttribute("id");
    box.querySelector("p").replaceWith(document.importNode(body, true));
  } catch {
    box.dataset.fetch = address; // the link to the object's own page still works
  }
}, true);

// start starts the scripts of a part of the page: logs, the picture of a run.
function start(part) {
  for (const log of part.querySelectorAll("[data-log]")) followLog(log);
  const picture = part.querySelector("[data-picture]");
  if (picture) {
    const early = fetch(`${picture.dataset.picture}?outline=yes`);
    early.catch(() => {}); // it is asked for again
    import("./run.js").then((run) => run.show(picture, early)).catch(() => {
      picture.textContent = "The drawing could not be loaded. Reload the page.";
    });
  }
}

function ago(then) {
  const s = (Date.now() - then) / 1000;
  if (s < 10) return "just now";
  if (s < 60) return `${Math.floor(s)} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ago`;
  return `${Math.floor(s / 86400)} days ago`;
}

setInterval(() => {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const text = ago(Date.parse(time.dateTime));
    if (time.textContent !== text) time.textContent = text;
  }
}, 15000);
