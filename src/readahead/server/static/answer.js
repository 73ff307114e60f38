/** One question with its answer: while it is written, and what explains it afterwards. */

import { get, wordsOf } from "./api.js";
import { auditPanel } from "./audit.js";
import { baseName, CitedText, sourceList } from "./citations.js";
import { complain, el, icon, say } from "./dom.js";
import { factsOf } from "./facts.js";
import { count, t } from "./i18n.js";
import { rememberRates } from "./plain.js";
import { timelinePanel } from "./timeline.js";
import { told } from "./told.js";
import { openDocument } from "./viewer.js";

const MAX_LOOKED_AT = 10;
const PAUSE_MS = 250;

const open = (citation) => openDocument(citation.document_id, citation);

/** Draws one turn. */
export class AnswerView {
  /**
   * @param {string} question
   * @param {{retry: () => void, scope?: string}} more `scope`: the document that it is limited to
   */
  constructor(question, { retry, scope }) {
    this.retry = retry;
    this.said = new CitedText(open);
    this.waiting = el("p", { class: "waiting" }, t("thinking"));
    this.answer = el("div", { class: "answer" }, this.waiting);
    this.node = el(
      "article",
      { class: "turn", "aria-label": t("turnLabel", { question }) },
      el("h2", { class: "asked" }, question),
      scope && el("p", { class: "small soft scope" }, t("onlyIn", { name: scope })),
      this.answer,
    );
  }

  /** @param {{text?: string, citation?: any}} event */
  push({ text, citation }) {
    if (citation) this.said.cite(citation);
    if (text === undefined) return;
    this.#swap();
    this.said.node.classList.add("writing");
    this.said.push(text);
  }

  /** Show a whole answer at once. @param {import("./store.js").Turn} turn */
  whole(turn) {
    for (const citation of turn.answer.citations ?? []) this.said.cite(citation);
    this.push({ text: turn.answer.text ?? "" });
    if (turn.answer.stopped) this.stopped({ isNew: false });
    else if (turn.answer.failed) this.failed(turn.answer.failed, { isNew: false });
    else this.done(turn, { isNew: false });
  }

  /** The answer is complete. @param {import("./store.js").Turn} turn */
  done(turn, { isNew = true } = {}) {
    const { answer } = turn;
    this.#end();
    if (answer.abstained) this.#abstain(answer);
    else if (answer.citations?.length) this.answer.append(sourceList(answer.citations, open));
    else this.answer.append(el("p", { class: "unsupported" }, icon("question"), t("unsupported")));
    if (answer.method === "rapid") this.#tellDocument(answer.trace_id);
    for (const note of answer.notes ?? []) this.answer.append(el("p", { class: "noted" }, told(note)));
    this.answer.append(factsOf(answer), this.#tools(turn));
    if (isNew) say(spoken(answer));
  }

  /** It was stopped by the reader. */
  stopped({ isNew = true } = {}) {
    this.#end();
    this.answer.append(el("p", { class: "noted" }, t("stopped")), this.#tools(null));
    if (isNew) say(t("stopped"));
  }

  /** It failed. @param {{said: string, code?: string}} error */
  failed(error, { isNew = true } = {}) {
    this.#end();
    const role = isNew ? "alert" : null;
    this.answer.append(el("p", { class: "failed", role }, wordsOf(error)), this.#tools(null));
  }

  /** Bring its end into sight. */
  showEnd() {
    this.answer.lastElementChild?.scrollIntoView({ block: "nearest" });
  }

  #end() {
    this.said.finish();
    this.said.node.classList.remove("writing");
    this.#swap();
    if (!this.said.text) this.said.node.remove();
  }

  /** Put the answer where the waiting was; it may not be on the page yet. */
  #swap() {
    if (this.waiting.parentNode) this.waiting.replaceWith(this.said.node);
  }

  /** Say which document was read whole. */
  #tellDocument(traceId) {
    const place = el("p", { class: "small soft read-whole" });
    this.answer.append(place);
    traceOf(traceId).then(({ attributes }) => {
      if (attributes.document) place.append(t("readWhole", { name: baseName(attributes.document) }));
      place.title = attributes.document ?? "";
    }, () => {});
  }

  /** Set an answer that says there is none apart, and show what was looked at. */
  #abstain(answer) {
    const words = told(this.said.text);
    if (words !== this.said.text) this.said.node.textContent = words; // the server's own, not the model's
    const looked = el("div");
    const help = el("p", { class: "small", hidden: true }, t("abstainedHelp"));
    const box = el(
      "section",
      { class: "abstained", "aria-label": t("abstainedLabel") },
      el("p", { class: "flag" }, icon("question"), t("abstained")),
      this.said.node,
      help,
    );
    this.answer.append(box, looked);
    lookedAt(answer.trace_id).then((passages) => {
      help.hidden = !passages.length;
      if (passages.length) looked.append(sourceList(passages, open, t("lookedAt")));
    }, () => {});
  }

  #tools(turn) {
    const bar = el("div", { class: "tools" });
    if (this.said.text) bar.append(tool("copy", t("copy"), () => copy(this.said)));
    bar.append(tool("retry", t("retry"), this.retry));
    const place = el("div");
    if (turn?.answer.trace_id) {
      bar.append(this.#toggle("timeline", place, () => timelineOf(turn)));
    }
    if (turn?.answer.audit?.drafts?.length) {
      bar.append(this.#toggle("audit", place, async () => auditPanel(turn.answer.audit, open)));
    }
    const whole = el("div", { class: "answer" }, bar, place);
    return whole;
  }

  /** Return a button that shows and hides a panel. */
  #toggle(name, place, make) {
    let panel = null;
    const button = tool(name, t(name), async () => {
      if (panel) {
        panel.remove();
        panel = null;
      } else {
        panel = await make();
        if (panel) place.append(panel);
        panel?.scrollIntoView({ block: "nearest" });
      }
      button.setAttribute("aria-expanded", String(Boolean(panel)));
    });
    button.setAttribute("aria-expanded", "false");
    button.classList.add(`show-${name}`);
    return button;
  }
}

function tool(name, label, press) {
  return el("button", { type: "button", class: "quiet", onclick: press }, icon(name), label);
}

/** Copy a text; where the browser does not let the page, as without https, select it at least. */
async function copy({ node, text }) {
  try {
    await navigator.clipboard.writeText(text);
    say(t("copied"));
  } catch {
    getSelection().selectAllChildren(node);
    complain(t("notCopied"));
  }
}

async function timelineOf(turn) {
  try {
    const trace = await traceOf(turn.answer.trace_id);
    if (turn.answer.method !== "drafts") rememberRates(trace);
    return timelinePanel(trace, { ...turn.answer, numWritten: numWritten(turn.answer) }, turn.strokes);
  } catch (error) {
    complain(error.status === 404 ? t("traceGone") : error.message);
    return null;
  }
}

/** Return a trace; it is kept a moment after its answer has ended. */
async function traceOf(id, numTries = 4) {
  try {
    return await get(`/v1/traces/${id}`);
  } catch (error) {
    if (error.status !== 404 || numTries <= 1) throw error;
  }
  await new Promise((resolve) => { setTimeout(resolve, PAUSE_MS); });
  return traceOf(id, numTries - 1);
}

/** Return the length of the answer in tokens, of one by drafts that of the draft chosen. */
function numWritten(answer) {
  const at = (answer.audit?.candidates ?? []).findIndex((one) => one.selected);
  const draft = answer.audit?.drafts?.find((one) => one.candidate === at);
  return draft?.num_tokens || answer.usage?.completion_tokens || 0;
}

/** Return the passages that an answer was sought in. */
async function lookedAt(traceId) {
  const trace = await traceOf(traceId);
  const ids = (trace.attributes.passages ?? []).map((passage) => passage.id).slice(0, MAX_LOOKED_AT);
  const found = await Promise.allSettled(ids.map((id) => get(`/v1/passages/${id}`)));
  return found.filter((one) => one.status === "fulfilled").map((one) => one.value);
}

/** Return what a screen reader says of a finished answer. */
function spoken(answer) {
  const num = answer.citations?.length ?? 0;
  const start = answer.abstained ? t("abstained") : num ? count("answered", num) : t("unsupported");
  const text = answer.text ?? "";
  return `${start} ${answer.abstained ? told(text) : text}`;
}
