/** Shows a stored document, opened at a span that something cites. */

import { get } from "./api.js";
import { baseName } from "./citations.js";
import { utf16Offsets } from "./codepoints.js";
import { byId, complain, el, icon } from "./dom.js";
import { named, number, t } from "./i18n.js";

const NUM_BEFORE = 30; // blocks drawn around the span; more at a press of a button
const NUM_AFTER = 60;

/** @typedef {{kind: string, heading: string[], page: number|null, start: number, end: number}} Block */

/** @typedef {{start?: number, end?: number, text?: string, passage_id?: string}} Span */

/**
 * Open a document.
 * @param {string} id
 * @param {Span} [span] in code points, of the version that was cited; none: from its beginning
 */
export async function openDocument(id, span = {}) {
  let told;
  let isAsCited;
  try {
    told = await get(`/v1/documents/${encodeURIComponent(id)}`);
    isAsCited = await isUnchanged(told.text, span);
  } catch (error) {
    complain(error.status === 404 ? t("documentGone") : error.message);
    return;
  }
  const dialog = /** @type {HTMLDialogElement} */ (byId("viewer"));
  const reader = new Reader(told, isAsCited ? span : {});
  dialog.replaceChildren(head(told, reader.block, dialog, isAsCited), reader.node);
  if (!dialog.open) dialog.showModal();
  reader.goToSpan();
}

/** Return whether a text still says what was cited: the document may be another by now. */
async function isUnchanged(text, span) {
  const cited = span.text === undefined && span.passage_id ? await passage(span.passage_id) : span;
  if (!cited) return false;
  if (cited.text === undefined) return true;
  const units = utf16Offsets(text, [cited.start, cited.end]);
  return text.slice(units.get(cited.start), units.get(cited.end)) === cited.text;
}

const passage = (id) => get(`/v1/passages/${encodeURIComponent(id)}`).catch(() => null);

function head(told, block, dialog, isAsCited) {
  const removed = Object.entries(told.removed ?? {});
  const place = [
    block?.page ? t("page", { page: block.page }) : "",
    (block?.heading ?? []).join(" › "),
  ].filter(Boolean);
  return el(
    "div",
    { class: "viewer-head" },
    el(
      "div",
      {},
      el("h2", { id: "viewer-title" }, baseName(told.document)),
      place.length > 0 && el("p", { class: "small", id: "viewer-place" }, place.join(" · ")),
      !isAsCited && el("p", { class: "small changed", role: "alert" }, t("documentChanged")),
      removed.length > 0 && el("p", { class: "small soft" }, removedLine(removed)),
    ),
    el(
      "button",
      { type: "button", class: "icon-button", "aria-label": t("close"), onclick: () => dialog.close() },
      icon("close"),
    ),
  );
}

/** Tell what cleaning took away. @param {[string, number][]} removed */
export function removedLine(removed) {
  const kinds = removed.map(([kind, count]) => `${named("cleaned", kind)} ${number(count)}`);
  return t("removed", { what: kinds.join(", ") });
}

class Reader {
  constructor(told, { start, end }) {
    this.text = told.text;
    this.span = start === undefined ? null : { start, end };
    /** @type {Block[]} */
    this.blocks = told.blocks.length ? told.blocks : [wholeOf(told.text)];
    const at = this.span ? this.blocks.findIndex((block) => block.end > this.span.start) : 0;
    this.at = at < 0 ? this.blocks.length - 1 : at;
    this.block = this.span ? this.blocks[this.at] : null;
    const edges = this.blocks.flatMap((block) => [block.start, block.end]);
    this.units = utf16Offsets(this.text, this.span ? [...edges, this.span.start, this.span.end] : edges);
    this.first = Math.max(0, this.at - NUM_BEFORE);
    this.last = Math.min(this.blocks.length, this.at + NUM_AFTER);
    this.node = el("div", { class: "viewer-text", tabIndex: 0, "aria-label": t("documentText"), role: "region" });
    this.#draw();
  }

  goToSpan() {
    const mark = this.node.querySelector("mark");
    (mark ?? this.node).focus({ preventScroll: true });
    mark?.scrollIntoView({ block: "center" });
  }

  #draw() {
    const shown = [];
    let page = this.first > 0 ? this.blocks[this.first - 1].page : null;
    for (const block of this.blocks.slice(this.first, this.last)) {
      if (block.page && block.page !== page) shown.push(pageMark(block.page));
      page = block.page;
      shown.push(this.#shown(block));
    }
    if (this.first > 0) shown.unshift(this.#more("earlier", () => { this.first = Math.max(0, this.first - NUM_AFTER); }));
    if (this.last < this.blocks.length) shown.push(this.#more("later", () => { this.last += NUM_AFTER; }));
    this.node.replaceChildren(...shown);
  }

  #more(key, widen) {
    const press = () => {
      const { scrollHeight, scrollTop } = this.node;
      widen();
      this.#draw();
      if (key === "earlier") this.node.scrollTop = scrollTop + this.node.scrollHeight - scrollHeight;
      this.node.focus({ preventScroll: true });
    };
    return el("p", {}, el("button", { type: "button", class: "ghost", onclick: press }, t(key)));
  }

  #shown(block) {
    const level = Math.min(5, 2 + Math.max(1, block.heading.length));
    const tag = { title: `h${level}`, code: "pre", table: "pre" }[block.kind] ?? "p";
    const node = el(tag);
    const from = Math.max(block.start, this.span?.start ?? 0);
    const to = Math.min(block.end, this.span?.end ?? -1);
    if (from >= to) {
      node.textContent = this.#slice(block.start, block.end);
      return node;
    }
    const mark = el("mark", { tabIndex: -1 }, this.#slice(from, to));
    node.append(this.#slice(block.start, from), mark, this.#slice(to, block.end));
    return node;
  }

  #slice(start, end) {
    return this.text.slice(this.#unit(start), this.#unit(end));
  }

  #unit(offset) {
    return this.units.get(offset) ?? 0;
  }
}

function pageMark(page) {
  return el("p", { class: "page-mark" }, t("page", { page }));
}

function wholeOf(text) {
  return { kind: "paragraph", heading: [], page: null, start: 0, end: [...text].length };
}
