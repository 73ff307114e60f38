/** The conversation: what is typed, asked, stopped and asked again. */

import { AnswerView } from "./answer.js";
import { ask } from "./ask.js";
import { byId, complain, el, handFocus, say } from "./dom.js";
import { Follower } from "./follower.js";
import { t } from "./i18n.js";
import { Line } from "./line.js";
import { choice, choose, scopeAndSettings } from "./preferences.js";
import { scopeName } from "./scope.js";
import { Session } from "./session.js";
import { chatOf, exchangeOf, isWhole, keepTurn } from "./store.js";
import { Strip } from "./strip.js";
import { welcome } from "./welcome.js";

/** @typedef {import("./store.js").Turn} Turn */

export class Chat {
  /** @param {() => void} changed called when the history has changed */
  constructor(changed) {
    this.changed = changed;
    this.session = new Session();
    this.strip = new Strip(this, (status) => this.#suggest(status.suggestions ?? []));
    this.line = new Line({ typed: (text) => this.#typed(text), entered: () => this.#submit() });
    this.follower = new Follower(byId("turns"));
    this.stopper = null;
    this.renew();
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    byId("stop").addEventListener("click", () => this.stop());
    document.addEventListener("choice", () => this.#readAnew());
  }

  /** The exchanges that further questions may refer to. */
  get exchanges() {
    return this.turns.filter(isWhole).map(exchangeOf);
  }

  /** Begin a conversation, or go on with a past one. @param {import("./store.js").Chat} [chat] */
  renew(chat) {
    this.stop();
    this.writing = null;
    this.session.forget();
    this.strip.rest();
    this.id = chat?.id ?? `${Date.now()}-${Math.random()}`; // randomUUID needs https
    /** @type {Turn[]} */
    this.turns = chat?.turns ?? [];
    choose({ document: "" });
    this.#suggest([]);
    this.draw();
  }

  /** Take over what is kept of this conversation by now. */
  adopt() {
    this.turns = chatOf(this.id)?.turns ?? [];
    this.draw();
  }

  /** Another page has changed what is kept; an answer that is being written joins that as it ends. */
  hear() {
    const kept = chatOf(this.id);
    const isOther = kept && JSON.stringify(kept.turns) !== JSON.stringify(this.turns);
    if (isOther && !this.stopper) this.adopt();
  }

  /** Draw all turns anew. */
  draw() {
    const views = this.turns.map((turn) => {
      const view = this.#view(turn);
      view.whole(turn);
      return view.node;
    });
    if (this.writing) views.push(this.writing.node);
    byId("turn-list").replaceChildren(...(views.length ? views : [welcome()]));
    byId("turns").scrollTop = byId("turns").scrollHeight;
  }

  /** Stop the answer that is being written; the server stops, too. */
  stop() {
    this.stopper?.abort();
  }

  /** Return whether an answer is being written; if so, tell the reader. */
  #isBusy() {
    if (this.stopper) complain(t("busy"));
    return Boolean(this.stopper);
  }

  /** Ask what stands in the line. */
  #submit() {
    const question = this.line.text.trim();
    if (!question || this.#isBusy()) return;
    const strokes = this.line.take();
    this.strip.rest();
    this.#ask({ question, strokes });
  }

  /** @param {{question: string, strokes?: number[][], replaced?: Turn|null}} asked */
  async #ask({ question, strokes = [], replaced = null }) {
    const turn = { question, answer: {}, strokes, scope: scopeName() };
    const { id, turns, exchanges } = this; // another chat may be open when it ends
    const { method } = choice();
    const view = this.#begin(turn);
    try {
      await this.#run(turn, view, method, exchanges);
    } catch (error) {
      turn.answer = endedEarly(view, error);
      view.showEnd();
    } finally {
      this.#busy(null);
      this.writing = null;
    }
    if (this.id === id && method === "prefetch" && isWhole(turn)) {
      this.session.knows([...exchanges, exchangeOf(turn)]);
    }
    this.#keep(turn, { id, turns, replaced });
    this.strip.again();
    if (choice().method === "prefetch" && this.session.id) this.strip.watch();
  }

  /** Show a question, and that it is being answered. */
  #begin(turn) {
    const view = this.#view(turn);
    if (!this.turns.length) byId("turn-list").replaceChildren();
    byId("turn-list").append(view.node);
    view.node.scrollIntoView({ block: "start" });
    this.follower.isNear = true;
    this.#suggest([]);
    this.#busy(new AbortController());
    say(t("thinking"));
    this.writing = view;
    return view;
  }

  async #run(turn, view, method, exchanges) {
    for await (const event of this.#events(turn.question, method, exchanges)) {
      if (!event.answer) view.push(event);
      else {
        turn.answer = { ...event.answer, text: view.said.text };
        view.done(turn);
      }
      this.follower.follow();
    }
  }

  #events(question, method, exchanges) {
    const { signal } = this.stopper;
    if (method === "prefetch") return this.session.ask(question, scopeAndSettings(), exchanges, signal);
    const options = scopeAndSettings({ isFollowUp: exchanges.length > 0 });
    return ask({ question, method, exchanges, ...options }, signal);
  }

  /** Tell the server what stands in the line; called by the strip. */
  async type(text) {
    if (choice().method !== "prefetch" || (!text.trim() && !this.session.id)) return null;
    const options = scopeAndSettings();
    if (this.stopper) return this.session.isOther(options) ? null : this.session.type(text); // it answers
    await this.session.ensure(options, this.exchanges);
    return this.session.type(text);
  }

  async status() {
    return choice().method === "prefetch" ? this.session.status() : null;
  }

  #typed(text) {
    byId("suggestions").hidden = Boolean(text) || !byId("suggestions").childElementCount;
    if (choice().method !== "prefetch") return;
    this.strip.typed(text);
    if (!text && this.turns.length) this.strip.watch();
  }

  /** Method, documents or settings are others: what was read ahead is of no use. */
  #readAnew() {
    this.strip.rest();
    if (choice().method === "prefetch" && this.line.text.trim()) this.strip.typed(this.line.text);
  }

  /** @param {string[]} questions */
  #suggest(questions) {
    const place = byId("suggestions");
    const press = (question) => () => {
      this.line.text = question;
      this.#submit();
    };
    if ([...place.children].map((one) => one.textContent).join("\n") === questions.join("\n")) return;
    handFocus(place, byId("turns"));
    place.replaceChildren(...questions.map((question) =>
      el("button", { type: "button", onclick: press(question) }, question)));
    place.hidden = !questions.length || Boolean(this.line.text);
  }

  /** @param {Turn} turn */
  #view(turn) {
    const { question, scope } = turn;
    const view = new AnswerView(question, { scope, retry: () => this.#retry(view, turn) });
    return view;
  }

  /** Ask again; what failed or was stopped makes room. */
  #retry(view, turn) {
    if (this.#isBusy()) return;
    const isReplaced = !isWhole(turn) && view.node === byId("turn-list").lastElementChild;
    if (isReplaced) {
      handFocus(view.node, byId("turns"));
      view.node.remove();
      this.turns = this.turns.filter((other) => other !== turn);
    }
    this.#ask({ question: turn.question, replaced: isReplaced ? turn : null });
  }

  /** @param {AbortController|null} stopper */
  #busy(stopper) {
    this.stopper = stopper;
    const [gone, next] = stopper ? [byId("send"), byId("stop")] : [byId("stop"), byId("send")];
    next.hidden = false;
    handFocus(gone, next);
    gone.hidden = true;
  }

  /** Keep a turn; of a conversation that was removed meanwhile it stays on the page only. */
  #keep(turn, { id, turns, replaced }) {
    const { text, stopped, failed } = turn.answer;
    if (!text && !stopped && !failed) return;
    const shown = this.id === id ? this.turns : turns;
    const isRemoved = (shown.length || replaced) && !chatOf(id);
    const all = isRemoved ? [...shown, turn] : keepTurn(id, turn, replaced);
    if (this.id === id) {
      this.turns = all;
      if (all.length !== shown.length + 1) this.draw(); // another page has added some
    }
    this.changed();
  }
}

/** Show that an answer was stopped or failed; return what there is of it. */
function endedEarly(view, error) {
  const part = { text: view.said.text, citations: view.said.cited };
  if (error.name === "AbortError") {
    view.stopped();
    return { ...part, stopped: true };
  }
  const failed = { said: error.said ?? error.message, code: error.code ?? "" };
  view.failed(failed);
  return { ...part, failed };
}
