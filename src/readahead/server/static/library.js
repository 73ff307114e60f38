/** The page of documents: upload, list, search, read, delete. */

import { get, post, remove, send } from "./api.js";
import { labelsOf, placeOf } from "./citations.js";
import { confirmed } from "./dialogs.js";
import { byId, complain, el, handFocus, icon, say } from "./dom.js";
import { count, date, number, t } from "./i18n.js";
import { drawJobs, followJob, resumeJobs } from "./jobs.js";
import { dropCiting } from "./store.js";
import { openDocument, removedLine } from "./viewer.js";

const DEBOUNCE_MS = 250;
const NUM_HITS = 5;
const PAGE = 50;

/** @typedef {{id: string, name: string, num_passages: number, num_chars: number,
 *   added_at: number|string, removed: Record<string, number>}} Listed */

let timer = 0;
let query = "";

document.addEventListener("documents", () => byId("view-library").hidden || refresh());

/** Draw the page. */
export function drawLibrary() {
  const place = /** @type {HTMLElement} */ (byId("view-library").firstElementChild);
  const search = el("input", {
    type: "search", id: "find", value: query, placeholder: t("findPlaceholder"), "aria-label": t("find"),
    oninput: (event) => {
      query = event.target.value;
      clearTimeout(timer);
      timer = setTimeout(refresh, DEBOUNCE_MS);
    },
  });
  place.replaceChildren(
    el("h1", {}, t("library")),
    el("p", { class: "lead" }, t("libraryLead")),
    dropArea(),
    el("ul", { class: "jobs", id: "jobs", "aria-label": t("uploads") }),
    el("div", { class: "finder", role: "search" }, search),
    el("div", { id: "hits" }),
    el("section", { id: "documents", "aria-label": t("documents") }),
  );
  drawJobs();
  resumeJobs().catch(() => {}); // that there is no server, the list of documents says
  return refresh();
}

function dropArea() {
  const input = el("input", {
    type: "file", multiple: true, id: "files", class: "sr", tabIndex: -1, "aria-label": t("chooseFiles"),
    onchange: (event) => {
      upload([...event.target.files]);
      event.target.value = "";
    },
  });
  const area = el(
    "div",
    { class: "drop", id: "drop" },
    icon("upload"),
    el("p", {}, t("drop")),
    el("button", { type: "button", class: "ghost", id: "choose", onclick: () => input.click() }, t("chooseFiles")),
    el("p", { class: "small soft" }, t("formats")),
    input,
  );
  area.addEventListener("dragover", (event) => {
    event.preventDefault();
    area.classList.add("over");
  });
  area.addEventListener("dragleave", () => area.classList.remove("over"));
  area.addEventListener("drop", (event) => {
    event.preventDefault();
    area.classList.remove("over");
    upload([...(event.dataTransfer?.files ?? [])]);
  });
  return area;
}

/** @param {File[]} files */
async function upload(files) {
  if (!files.length) return;
  const body = new FormData();
  for (const file of files) body.append("files", file);
  try {
    followJob(await (await send("POST", "/v1/documents", { body })).json());
  } catch (error) {
    complain(error.message);
  }
}

/** List the documents, and the passages that fit what is looked for. */
async function refresh() {
  const asked = query.trim();
  try {
    const [listed, found] = await Promise.all([documents(asked), asked ? hits(asked) : []]);
    if (asked !== query.trim() || !byId("documents")) return;
    byId("documents").replaceChildren(...documentList(listed, asked));
    byId("hits").replaceChildren(...hitList(found));
  } catch (error) {
    complain(error.message);
  }
}

async function documents(asked, after = "") {
  const params = new URLSearchParams({ limit: String(PAGE) });
  if (asked) params.set("query", asked);
  if (after) params.set("after", after);
  return get(`/v1/documents?${params}`);
}

async function hits(asked) {
  return (await post("/v1/search", { query: asked, k: NUM_HITS })).hits;
}

function documentList({ data, has_more: hasMore }, asked) {
  if (!data.length) return [el("p", { class: "empty" }, t(asked ? "noneFound" : "noDocuments"))];
  const list = el("ul", { class: "docs" }, ...rows(data));
  const more = el("button", { type: "button", class: "ghost" }, t("more"));
  more.addEventListener("click", async () => {
    try {
      const next = await documents(asked, data[data.length - 1].id);
      if (!more.isConnected) return; // pressed twice, or another list by now
      const added = documentList(next, asked);
      byId("documents").append(...added);
      handFocus(more, added[0].querySelector("button"));
      more.remove();
    } catch (error) {
      complain(error.message);
    }
  });
  return [list, ...(hasMore ? [more] : [])];
}

function rows(data) {
  const labels = labelsOf(data.map((listed) => listed.name));
  return data.map((listed, place) => row(listed, labels[place]));
}

/** @param {Listed} listed @param {string} name */
function row(listed, name) {
  const removed = Object.entries(listed.removed ?? {});
  const when = typeof listed.added_at === "number" ? listed.added_at * 1000 : listed.added_at;
  const figures = [
    count("numPassages", listed.num_passages),
    t("numChars", { n: number(listed.num_chars) }),
    when ? date(when) : "",
  ];
  const item = el(
    "li",
    { class: "doc" },
    el(
      "div",
      {},
      el("button", { type: "button", class: "name", onclick: () => openDocument(listed.id) }, name),
      el("p", { class: "small soft num" }, figures.filter(Boolean).join(" · ")),
      removed.length > 0 && el("p", { class: "small soft" }, removedLine(removed)),
    ),
    el(
      "button",
      {
        type: "button", class: "icon-button", "aria-label": t("deleteLabel", { name }),
        onclick: () => drop(listed, name, item),
      },
      icon("trash"),
    ),
  );
  return item;
}

/** @param {Listed} listed @param {string} name */
async function drop(listed, name, item) {
  if (!(await confirmed(t("deleteQuestion", { name }), t("deleteDetail"), t("delete")))) return;
  try {
    await remove(`/v1/documents/${encodeURIComponent(listed.id)}`);
    item.remove();
    say(t("deleted", { name }));
    dropCiting(String(listed.id), listed.name);
    document.dispatchEvent(new CustomEvent("chats"));
    document.dispatchEvent(new CustomEvent("documents"));
    byId("find").focus();
  } catch (error) {
    complain(error.message);
  }
}

function hitList(found) {
  if (!found.length) return [];
  const items = found.map((hit) => el(
    "li", {},
    el(
      "button",
      { type: "button", class: "evidence", onclick: () => openDocument(hit.document_id, hit) },
      el("span", { class: "place" }, placeOf(hit)),
      hit.text.length > 240 ? `${[...hit.text].slice(0, 240).join("")}…` : hit.text,
    ),
  ));
  return [el("h2", {}, t("hits")), el("ul", { class: "hits" }, ...items)];
}
