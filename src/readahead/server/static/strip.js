/** The quiet line above the question: what is being read ahead while it is typed. */

import { byId, el } from "./dom.js";
import { number, t } from "./i18n.js";
import { told } from "./told.js";

const DEBOUNCE_MS = 60;
const POLL_MS = 220;
const MAX_POLL_MS = 1000; // while a step of the model takes long
const SUGGEST_POLL_MS = 1500; // after an answer
const PATIENCE_MS = 60_000; // without news, before asking again is pointless
const BACKOFF_MS = 1000; // after a failure; twice as long after each further one
const MAX_BACKOFF_MS = 30_000;
const NUM_CELLS = 24;
const TOKENS_PER_CELL = 24;

/**
 * @typedef {{passages: string[], fetching?: string[], num_tokens: number, num_answer_tokens: number,
 *   probability: number, reason: string, suggestions: string[]}} Status
 */

/** Tells the server each stroke, the latest only, and shows what it has ready. */
export class Strip {
  /**
   * @param {{type: (text: string) => Promise<Status|null>, status: () => Promise<Status|null>}} typist
   * @param {(status: Status) => void} onStatus
   */
  constructor(typist, onStatus) {
    this.typist = typist;
    this.onStatus = onStatus;
    this.text = "";
    this.sent = "";
    this.timer = 0;
    this.isSending = false;
    this.last = "";
    this.numQuiet = 0;
    this.until = 0; // when asking ends, unless there is news
    this.numFailed = 0; // in a row
    this.from = 0; // when asking may go on after a failure
    this.titles = "";
    this.round = 0; // what was sent in an earlier one counts for nothing
    document.addEventListener("visibilitychange", () => this.#isOver || this.#plan(0));
    document.addEventListener("choice", () => this.#succeeded()); // what failed may go by now
  }

  /** Say what stands in the line now. */
  typed(text) {
    this.text = text;
    this.numQuiet = 0;
    this.until = text.trim() ? performance.now() + PATIENCE_MS : 0;
    this.#plan(DEBOUNCE_MS);
    if (!text.trim()) this.#show(null);
  }

  /** Tell the server once more what stands in the line: it is for another session by now. */
  again() {
    this.round += 1;
    this.sent = "";
    if (this.text.trim()) this.typed(this.text);
  }

  /** The line was sent, or reading ahead is off: show nothing, ask nothing. */
  rest() {
    clearTimeout(this.timer);
    this.round += 1;
    this.text = this.sent = "";
    this.until = 0;
    this.#succeeded();
    this.#show(null);
  }

  /** Ask gently, for a while, for what may be asked next. */
  watch() {
    this.until = performance.now() + PATIENCE_MS;
    if (this.text === this.sent) this.#plan(SUGGEST_POLL_MS);
  }

  get #isOver() {
    return document.hidden || performance.now() > this.until;
  }

  #plan(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#send(), Math.max(ms, this.from - performance.now()));
  }

  async #send() {
    if (this.isSending) return; // what is under way looks again when it is back
    this.isSending = true;
    const { text, round } = this;
    try {
      const isNew = text !== this.sent;
      const status = isNew ? await this.typist.type(text) : await this.typist.status();
      this.#succeeded();
      if (status && text === this.text && round === this.round) this.#news(status);
    } catch (error) {
      if (error.name !== "AbortError") this.#failed();
      if (text === this.text && round === this.round) this.until = 0;
    } finally {
      this.isSending = false;
      if (round === this.round) this.sent = text; // what failed, too: a guess costs nothing, the next stroke makes another
    }
    if (this.text !== this.sent) this.#plan(0);
    else if (!this.#isOver) this.#plan(this.#pauseMs());
  }

  #failed() {
    const backoffMs = Math.min(MAX_BACKOFF_MS, BACKOFF_MS * 2 ** this.numFailed);
    this.numFailed += 1;
    this.from = performance.now() + backoffMs;
  }

  #succeeded() {
    this.numFailed = this.from = 0;
  }

  #pauseMs() {
    return this.text ? Math.min(MAX_POLL_MS, POLL_MS * 2 ** (this.numQuiet >> 2)) : SUGGEST_POLL_MS;
  }

  /** @param {Status} status */
  #news(status) {
    const news = JSON.stringify(status);
    const isNew = news !== this.last;
    this.numQuiet = isNew ? 0 : this.numQuiet + 1;
    this.last = news;
    const isAtWork = isNew || status.fetching?.length > 0;
    if (this.text.trim() && isAtWork) this.until = performance.now() + PATIENCE_MS;
    if (!this.text && status.suggestions?.length) this.until = 0;
    this.#show(this.text.trim() ? status : null);
    this.onStatus(status);
  }

  /** @param {Status|null} status */
  #show(status) {
    const strip = byId("strip");
    const isOn = Boolean(status && (status.num_tokens || status.passages.length || this.text));
    strip.classList.toggle("on", isOn);
    if (!isOn) return;
    const inner = /** @type {HTMLElement} */ (strip.firstElementChild);
    if (!inner.firstElementChild) inner.append(...skeleton());
    const [line] = inner.children;
    const [cells, count, titles] = line.children;
    fill(cells, status);
    count.textContent = countLine(status);
    const fetched = status.fetching?.length ? status.fetching : status.passages;
    const key = fetched.join("\n");
    if (key !== this.titles) titles.replaceChildren(...fetched.map(titleOf));
    this.titles = key;
    strip.dataset.tokens = String(status.num_tokens);
    line.classList.toggle("seeking", !status.num_answer_tokens && !status.reason);
    line.title = told(status.reason);
  }
}

function skeleton() {
  const cells = el("div", { class: "strip-cells", "aria-hidden": "true" });
  for (let place = 0; place < NUM_CELLS; place += 1) cells.append(el("i"));
  const count = el("span", { class: "strip-count num" });
  const titles = el("ul", { class: "strip-titles", "aria-label": t("fetching") });
  return [el("div", { class: "strip-line" }, cells, count, titles)];
}

/** @param {Element} cells @param {Status} status */
function fill(cells, status) {
  const numReady = Math.ceil(status.num_tokens / TOKENS_PER_CELL);
  const numWritten = status.num_answer_tokens;
  [...cells.children].forEach((cell, place) => {
    cell.className = place < numWritten ? "written" : place < numReady ? "ready" : "";
  });
}

/** @param {Status} status */
function countLine(status) {
  if (status.num_answer_tokens) {
    return t("answerReady", { n: number(status.num_answer_tokens), m: number(status.num_tokens) });
  }
  if (status.num_tokens) return t("tokensReady", { n: number(status.num_tokens) });
  return t(status.fetching?.length || status.passages.length ? "readingAhead" : "listening");
}

function titleOf(title) {
  return el("li", { title }, title.split(" > ").slice(-2).join(" › "));
}
