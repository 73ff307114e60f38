/** An answer's text with its markers as buttons, and the list of what they cite. */

import { el } from "./dom.js";
import { t } from "./i18n.js";

/**
 * @typedef {{marker: number, passage_id: string, document: string, document_id: string,
 *   heading: string[], page: number|null, start: number, end: number, text: string}} Citation
 */

const UNFINISHED = /\[\d*$/;

/** Return where a citation stands: document, page, headings. @param {Partial<Citation>} citation */
export function placeOf(citation) {
  const page = citation.page ? t("page", { page: citation.page }) : "";
  return [baseName(citation.document ?? ""), page, (citation.heading ?? []).join(" › ")]
    .filter(Boolean)
    .join(" · ");
}

/** Return the last part of a path. */
export function baseName(name) {
  return name.split("/").pop() || name;
}

/** Return what to call documents: the last part of the path, all of it where two share that. */
export function labelsOf(names) {
  const bases = names.map(baseName);
  return bases.map((base, place) => (bases.indexOf(base) === bases.lastIndexOf(base) ? base : names[place]));
}

/** Text that comes in pieces; a marker becomes a button once its citation is known. */
export class CitedText {
  /** @param {(citation: Citation) => void} open */
  constructor(open) {
    this.node = el("div", { class: "said" });
    this.text = "";
    this.open = open;
    this.held = "";
    /** @type {Map<number, Citation>} */
    this.citations = new Map();
  }

  /** @param {Citation} citation */
  cite(citation) {
    this.citations.set(citation.marker, citation);
  }

  get cited() {
    return [...this.citations.values()];
  }

  /** Add a piece; what may be half a marker waits for the next one. */
  push(piece) {
    this.text += piece;
    const whole = this.held + piece;
    const cut = UNFINISHED.exec(whole)?.index ?? whole.length;
    this.held = whole.slice(cut);
    this.#show(whole.slice(0, cut));
  }

  /** Show what was held back. */
  finish() {
    this.#show(this.held);
    this.held = "";
  }

  #show(text) {
    for (const part of text.split(/(\[\d+\])/)) {
      const citation = /^\[\d+\]$/.test(part) && this.citations.get(Number(part.slice(1, -1)));
      if (citation) this.node.append(this.#marker(citation));
      else if (part) this.node.append(part);
    }
  }

  #marker(citation) {
    const label = t("citationLabel", { n: citation.marker, place: placeOf(citation) });
    return el(
      "button",
      {
        type: "button",
        class: "cite",
        title: citation.text,
        "aria-label": label,
        onclick: () => this.open(citation),
      },
      String(citation.marker),
    );
  }
}

/** Return the list of sources. @param {Citation[]} citations @param {(c: Citation) => void} open */
export function sourceList(citations, open, title = t("sources")) {
  const items = citations.map((citation, index) =>
    el(
      "li",
      {},
      el(
        "button",
        { type: "button", class: "source", onclick: () => open(citation) },
        el("span", { class: "n num" }, String(citation.marker ?? index + 1)),
        el("span", { class: "place" }, placeOf(citation)),
        el("span", { class: "words" }, citation.text),
      ),
    ),
  );
  return el("div", {}, el("p", { class: "sources-title" }, title), el("ul", { class: "sources" }, ...items));
}
