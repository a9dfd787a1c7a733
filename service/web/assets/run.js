// The picture of a run on its page: the model is fetched, and changes are followed while the phase is in
// progress.
import { mount } from "./picture/run.js";
import { listen, parse } from "./live.js";

const address = (base, key, value) => `${base}?${new URLSearchParams({ [key]: value })}`;

// show draws the timeline for an element until the element leaves the page.
export async function show(box) {
  const root = document.createElement("div");
  let picture = null;
  let close = null;
  let gone = false;
  box.addEventListener("gone", () => {
    gone = true;
    close?.();
    picture?.destroy();
  });

  const options = {
    failures: false, // they are shown above on the page
    async plan(vertex) {
      const answer = await fetch(address(box.dataset.plan, "address", vertex.address));
      if (answer.status === 204) return null;
      const body = parse(await answer.text()).getElementById("object");
      body?.removeAttribute("id");
      return body && document.importNode(body, true);
    },
    async lines(vertex) {
      const answer = await fetch(address(box.dataset.lines, "about", vertex.address));
      const text = await answer.text();
      return text ? text.trimEnd().split("\n") : [];
    },
  };

  // load fetches and shows the model. It returns whether the phase is in progress.
  async function load() {
    const answer = await fetch(box.dataset.picture, { headers: { Accept: "application/json" } });
    if (answer.status === 204) return answer.headers.get("X-Live") === "true" ? null : false;
    const model = await answer.json();
    if (gone) return false;
    if (picture) picture.replace(model);
    else {
      box.replaceChildren(root);
      picture = mount(root, model, options);
      box.picture = picture;
      requestAnimationFrame(() => setTimeout(() => { picture.shownAt = performance.now(); }));
      const wanted = new URLSearchParams(location.search).get("vertex");
      if (wanted) picture.input.value = wanted, picture.search(wanted), picture.nextFound();
    }
    box.dataset.cursor = model.cursor;
    fetch(address(box.dataset.picture, "story", "yes")).then(async (told) => {
      if (told.status === 200 && !gone) picture.story(await told.json());
    }).catch(() => {}); // without it, past waits are not drawn
    return answer.headers.get("X-Live") === "true";
  }

  async function start() {
    let live = null;
    try {
      live = await load();
    } catch {
      // It is tried again.
    }
    if (gone || live === false) return;
    if (live === null) {
      setTimeout(start, 500);
      return;
    }
    let over = false;
    close = listen(address(box.dataset.picture, "cursor", box.dataset.cursor), {
      changes: (data) => {
        const changes = JSON.parse(data);
        over = changes.head.ended >= 0;
        picture.apply(changes);
      },
      end: () => {
        close();
        if (!over) load();
      },
    });
  }
  await start();
}
