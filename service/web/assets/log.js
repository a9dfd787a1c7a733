// A growing log: its end is followed, and earlier parts are fetched on request. The page holds a few hundred
// kilobytes of it at most.

const most = 12; // parts of at most 64 KiB

export function followLog(box) {
  const pre = box.querySelector("pre");
  const earlier = box.querySelector("[data-earlier]");
  const keep = box.querySelector("[data-follow]");
  const first = pre.querySelector("code");
  first.dataset.from = box.dataset.from;
  first.dataset.next = box.dataset.next;
  let next = Number(box.dataset.next);
  let ended = box.dataset.ended === "true";

  const from = () => Number(pre.firstElementChild.dataset.from);
  const show = () => { earlier.hidden = from() === 0; };

  async function part(query) {
    const answer = await fetch(`${box.dataset.log}?${query}`);
    if (!answer.ok) throw new Error(`${answer.status}`);
    const code = document.createElement("code");
    code.textContent = await answer.text();
    code.dataset.from = answer.headers.get("X-From");
    code.dataset.next = answer.headers.get("X-Next");
    return { code, ended: answer.headers.get("X-Ended") === "true" };
  }

  function toEnd() {
    if (keep.checked) pre.scrollTop = pre.scrollHeight;
  }

  async function grow() {
    let pause = 0;
    while (!ended) {
      try {
        const got = await part(`from=${next}`);
        const to = Number(got.code.dataset.next);
        if (to > next && next === Number(pre.lastElementChild.dataset.next)) {
          pre.append(got.code);
          while (keep.checked && pre.childElementCount > most) pre.firstElementChild.remove();
          show();
        }
        next = to;
        ended = got.ended;
        pause = 0;
        toEnd();
      } catch {
        pause = Math.min(10000, pause * 2 + 500);
      }
      if (pause) await new Promise((done) => setTimeout(done, pause));
    }
  }

  earlier.addEventListener("click", async () => {
    earlier.disabled = true;
    try {
      const got = await part(`before=${from()}`);
      const height = pre.scrollHeight;
      keep.checked = false;
      pre.prepend(got.code);
      pre.scrollTop += pre.scrollHeight - height;
    } catch {
      // It is still there to be asked again.
    }
    earlier.disabled = false;
    show();
    (earlier.hidden ? pre : earlier).focus();
  });
  pre.addEventListener("scroll", () => {
    if (pre.scrollTop + pre.clientHeight < pre.scrollHeight - 40) keep.checked = false;
  });
  keep.addEventListener("change", toEnd);
  show();
  toEnd();
  grow();
}
