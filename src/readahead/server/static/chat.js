/** The conversation: what is typed, asked, stopped and asked again. */

import { AnswerView } from "./answer.js";
import { ask, isForgotten } from "./ask.js";
import { byId, complain, el, handFocus, say } from "./dom.js";
import { t } from "./i18n.js";
import { choice, choose, scopeAndSettings } from "./preferences.js";
import { Session } from "./session.js";
import { chats, keepChat } from "./store.js";
import { Strip } from "./strip.js";
import { welcome } from "./welcome.js";

const MAX_STROKES = 400;
const FOLLOW_PX = 120; // from the end, within which the page goes along with the text

export class Chat {
  /** @param {() => void} changed called when the history has changed */
  constructor(changed) {
    this.changed = changed;
    this.session = new Session();
    this.strip = new Strip(this, (status) => this.#suggest(status.suggestions ?? []));
    this.stopper = null;
    this.renew();
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    byId("stop").addEventListener("click", () => this.stop());
    const line = this.line;
    line.addEventListener("input", () => this.#typed());
    line.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.submit();
      }
    });
  }

  get line() {
    return /** @type {HTMLTextAreaElement} */ (byId("question"));
  }

  get exchanges() {
    return this.turns
      .filter((turn) => turn.answer.text && !turn.answer.stopped)
      .map((turn) => ({ question: turn.question, answer: turn.answer.text }));
  }

  /** Begin a conversation, or go on with a past one. @param {import("./store.js").Chat} [chat] */
  renew(chat) {
    this.stop();
    this.writing = null;
    this.session.forget();
    this.strip.rest();
    this.id = chat?.id ?? `${Date.now()}-${Math.random()}`; // randomUUID needs https
    this.turns = chat?.turns ?? [];
    this.strokes = [];
    choose({ document: "" });
    this.#suggest([]);
    this.draw();
  }

  /** Draw all turns anew. */
  draw() {
    const views = this.turns.map((turn) => {
      const view = this.#view(turn.question, turn.scope);
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

  /** Ask what stands in the line, or `question`. */
  async submit(question = this.line.value.trim()) {
    if (!question || this.stopper) return;
    const turn = { question, answer: {}, strokes: this.#strokesUntil(performance.now()), scope: scopeName() };
    const view = this.#view(question, turn.scope);
    if (!this.turns.length) byId("turn-list").replaceChildren();
    byId("turn-list").append(view.node);
    view.node.scrollIntoView({ block: "start" });
    this.#clearLine();
    this.#busy(new AbortController());
    say(t("thinking"));
    this.writing = view;
    const chat = { id: this.id, turns: this.turns }; // another may be open when it ends
    try {
      await this.#run(turn, view);
    } catch (error) {
      if (error.name === "AbortError") {
        turn.answer = { text: view.said.text, stopped: true };
        view.stopped();
      } else view.failed(error.message);
      view.showEnd();
    } finally {
      this.#busy(null);
      this.writing = null;
    }
    if (turn.answer.text || turn.answer.stopped) this.#keep(turn, chat);
    if (choice().method === "prefetch" && this.session.id) this.strip.watch();
  }

  async #run(turn, view) {
    for await (const event of this.#events(turn.question)) {
      const isNear = nearEnd();
      if (!event.answer) view.push(event);
      else {
        turn.answer = { ...event.answer, text: view.said.text };
        view.done(turn);
      }
      if (isNear) byId("turns").scrollTop = byId("turns").scrollHeight;
    }
  }

  /** Yield the events of an answer; once more, with all that was said, if the session is gone. */
  async * #events(question) {
    const { method } = choice();
    const { signal } = this.stopper;
    if (method !== "prefetch") {
      const { exchanges } = this;
      const options = scopeAndSettings({ isFollowUp: exchanges.length > 0 });
      yield* ask({ question, method, exchanges, ...options }, signal);
      return;
    }
    const session = await this.#ready(signal);
    try {
      yield* ask({ question, method, session }, signal);
    } catch (error) {
      if (!isForgotten(error)) throw error;
      this.session.lose(session);
      yield* ask({ question, method, session: await this.#ready(signal) }, signal);
    }
  }

  #ready(signal) {
    return this.session.ensure(scopeAndSettings(), this.exchanges, signal);
  }

  /** Tell the server what stands in the line; called by the strip. */
  async type(text) {
    if (choice().method !== "prefetch" || (!text.trim() && !this.session.id)) return null;
    if (this.stopper && this.session.isOther(scopeAndSettings())) return null; // the session answers
    await this.#ready();
    return this.session.type(text);
  }

  async status() {
    return choice().method === "prefetch" ? this.session.status() : null;
  }

  #typed() {
    const { value } = this.line;
    this.strokes.push([performance.now(), value.length]);
    if (!value) this.strokes = [];
    fit(this.line);
    byId("suggestions").hidden = Boolean(value) || !byId("suggestions").childElementCount;
    if (choice().method !== "prefetch") return;
    this.strip.typed(value);
    if (!value && this.turns.length) this.strip.watch();
  }

  #strokesUntil(entered) {
    const strokes = this.strokes.slice(-MAX_STROKES);
    return strokes.map(([at, length]) => [Math.round(entered - at) / 1000, length]);
  }

  #clearLine() {
    this.line.value = "";
    this.strokes = [];
    fit(this.line);
    this.strip.rest();
    this.#suggest([]);
  }

  /** @param {string[]} questions */
  #suggest(questions) {
    const place = byId("suggestions");
    const press = (question) => () => {
      this.line.value = question;
      this.submit();
    };
    if ([...place.children].map((one) => one.textContent).join("\n") === questions.join("\n")) return;
    handFocus(place, byId("turns"));
    place.replaceChildren(...questions.map((question) =>
      el("button", { type: "button", onclick: press(question) }, question)));
    place.hidden = !questions.length || Boolean(this.line.value);
  }

  #view(question, scope) {
    const view = new AnswerView(question, { scope, retry: () => this.#retry(view, question) });
    return view;
  }

  /** Ask again; what failed or was stopped makes room. */
  #retry(view, question) {
    if (this.stopper) {
      complain(t("busy"));
      return;
    }
    const last = this.turns.at(-1);
    const isUnfinished = !last || last.question !== question || last.answer.stopped;
    if (isUnfinished && view.node === byId("turn-list").lastElementChild) {
      handFocus(view.node, byId("turns"));
      view.node.remove();
      if (last?.question === question && last.answer.stopped) this.turns.pop();
    }
    this.submit(question);
  }

  /** @param {AbortController|null} stopper */
  #busy(stopper) {
    this.stopper = stopper;
    const [gone, next] = stopper ? [byId("send"), byId("stop")] : [byId("stop"), byId("send")];
    next.hidden = false;
    handFocus(gone, next);
    gone.hidden = true;
  }

  #keep(turn, { id, turns }) {
    if (turns.length && !chats().some((kept) => kept.id === id)) return; // it was removed
    turns.push(turn);
    keepChat({ id, title: turns[0].question.slice(0, 80), at: Date.now(), turns });
    this.changed();
  }
}

/** Return the name of the document that the question is limited to, "" for all. */
function scopeName() {
  const { selectedOptions } = /** @type {HTMLSelectElement} */ (byId("scope"));
  return choice().document ? selectedOptions[0]?.textContent ?? "" : "";
}

function fit(line) {
  line.style.height = "auto";
  line.style.height = `${line.scrollHeight}px`;
}

function nearEnd() {
  const turns = byId("turns");
  return turns.scrollHeight - turns.scrollTop - turns.clientHeight < FOLLOW_PX;
}
