// The picture of a run on its page: the model is fetched, and changes are followed while the phase is in
// progress.
import { mount } from "./picture/run.js";
import { listen, parse } from "./live.js";

const address = (base, key, value) => `${base}?${new URLSearchParams({ [key]: value })}`;
const outline = (box) => address(box.dataset.picture, "outline", "yes");

// show draws the timeline for an element until the element leaves the page. early is the answer to the first request,
// which was made before the modules were loaded.
export async function show(box, early) {
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

  // begin shows what is drawn first: the run, or the outline of a large one.
  async function begin(model) {
    box.replaceChildren(root);
    picture = mount(root, model, options);
    box.picture = picture;
    await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)));
    picture.shownAt = performance.now();
  }

  // load fetches and shows the model. It returns whether the phase is in progress.
  async function load(asked) {
    let answer = await asked;
    if (answer.status === 204) return answer.headers.get("X-Live") === "true" ? null : false;
    let model = await answer.json();
    if (gone) return false;
    const first = !picture;
    if (first) await begin(model);
    if (model.outline) {
      answer = await fetch(box.dataset.picture);
      model = await answer.json();
      if (gone) return false;
      picture.replace(model);
    } else if (!first) picture.replace(model);
    const wanted = first && new URLSearchParams(location.search).get("vertex");
    if (wanted) picture.input.value = wanted, picture.search(wanted), picture.nextFound();
    box.dataset.cursor = model.cursor;
    fetch(address(box.dataset.picture, "story", "yes")).then(async (told) => {
      if (told.status === 200 && !gone) picture.story(await told.json());
    }).catch(() => {}); // without it, past waits are not drawn
    return answer.headers.get("X-Live") === "true";
  }

  async function start() {
    let live = null;
    const asked = early || fetch(outline(box));
    early = null;
    try {
      live = await load(asked);
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
        if (!over) load(fetch(box.dataset.picture)).catch(() => {}); // what was drawn last stays
      },
    });
  }
  await start();
}
