/** The server's session behind the conversation: made when first needed, anew when forgotten. */

import { get, post, remove } from "./api.js";
import { ask, isForgotten, messagesOf } from "./ask.js";

export class Session {
  constructor() {
    this.id = "";
    this.key = "";
    this.known = ""; // the exchanges that it knows
    /** @type {Promise<string>|null} */
    this.making = null;
    this.unwanted = new AbortController();
  }

  /**
   * Yield the events of an answer; once more, in a session made anew, if the server has lost it.
   * @param {string} question
   * @param {{documents?: string[], inject?: boolean, settings?: object}} options
   * @param {{question: string, answer: string}[]} exchanges so far
   * @param {AbortSignal} signal
   */
  async * ask(question, options, exchanges, signal, isAgain = false) {
    const id = await this.ensure(options, exchanges, signal);
    try {
      yield* ask({ question, method: "prefetch", session: id }, signal);
    } catch (error) {
      if (isForgotten(error)) this.lose(id);
      else if (!isRefusal(error) && this.id === id) this.forget(); // it knows half an answer now
      if (isAgain || !isForgotten(error)) throw error;
      yield* this.ask(question, options, exchanges, signal, true);
    }
  }

  /** It has answered, and knows these exchanges by now. */
  knows(exchanges) {
    this.known = JSON.stringify(exchanges);
  }

  /**
   * Return the id of a session for this scope and settings that knows just these exchanges.
   * @param {{documents?: string[], inject?: boolean, settings?: object}} options
   * @param {{question: string, answer: string}[]} exchanges
   * @param {AbortSignal} [signal] ends the waiting; the session is made all the same
   * @throws {DOMException} AbortError: the waiting was ended, or the session is forgotten meanwhile
   */
  async ensure(options, exchanges, signal) {
    if (this.isOther(options) || this.known !== JSON.stringify(exchanges)) this.forget();
    this.key = JSON.stringify(options);
    this.knows(exchanges);
    if (this.id) return this.id;
    this.making ??= this.#make(options, exchanges);
    return unlessAborted(this.making, signal);
  }

  /** Return whether there is a session, but for another scope or other settings. */
  isOther(options) {
    return Boolean(this.id || this.making) && this.key !== JSON.stringify(options);
  }

  /** Let the server forget it, too; one that is being made as soon as its id is known. */
  forget() {
    if (this.id) discard(this.id);
    this.unwanted.abort();
    this.unwanted = new AbortController();
    this.id = "";
    this.making = null;
  }

  #make(options, exchanges) {
    const { signal } = this.unwanted;
    const made = make(options, exchanges).then((id) => {
      if (signal.aborted) discard(id);
      else this.id = id;
      return id;
    }).finally(() => {
      if (!signal.aborted) this.making = null;
    });
    return unlessAborted(made, signal);
  }

  /** Tell what stands in the line; null where the session is gone. */
  async type(text) {
    return this.id ? this.#told(() => post(`/v1/sessions/${this.id}/typing`, { text })) : null;
  }

  async status() {
    return this.id ? this.#told(() => get(`/v1/sessions/${this.id}/status`)) : null;
  }

  /** The server knows the session no more; another may have been made meanwhile. */
  lose(id) {
    if (this.id === id) this.id = "";
  }

  async #told(call) {
    const { id } = this;
    try {
      return await call();
    } catch (error) {
      if (!isForgotten(error)) throw error;
      this.lose(id);
      return null;
    }
  }
}

/** Return whether a question was turned away before it reached the session. */
const isRefusal = (error) => error.status >= 400 && error.status < 500;

async function make(options, exchanges) {
  const { id } = await post("/v1/sessions", {
    ...options,
    ...(exchanges.length ? { messages: messagesOf(exchanges) } : {}),
  });
  return id;
}

function discard(id) {
  remove(`/v1/sessions/${id}`).catch(() => {});
}

/** Return what a promise comes to, unless the signal is aborted before. */
function unlessAborted(promise, signal) {
  return new Promise((resolve, reject) => {
    promise.then(resolve, reject);
    if (signal?.aborted) reject(signal.reason);
    else signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
