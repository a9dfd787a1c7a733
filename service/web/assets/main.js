// What pages do beyond showing themselves: they follow what happens, follow logs, and keep times current.
import { follow } from "./live.js";
import { followLog } from "./log.js";

follow();
for (const log of document.querySelectorAll("[data-log]")) followLog(log);

const picture = document.querySelector("[data-picture]");
if (picture) import("./run.js").then((run) => run.show(picture));

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
