/** The server's session behind the conversation: made when first needed, anew when forgotten. */

import { get, post, remove } from "./api.js";
import { isForgotten, messagesOf } from "./ask.js";

export class Session {
  constructor() {
    this.id = "";
    this.key = "";
    /** @type {Promise<string>|null} */
    this.making = null;
  }

  /**
   * Return the id of a session for this scope and settings that knows the exchanges so far.
   * @param {{documents?: string[], inject?: boolean, settings?: object}} options
   * @param {{question: string, answer: string}[]} exchanges
   */
  async ensure(options, exchanges) {
    const key = JSON.stringify(options);
    if (this.id && this.key === key) return this.id;
    if (this.making && this.key === key) return this.making;
    this.forget();
    this.key = key;
    this.making = make(options, exchanges);
    try {
      this.id = await this.making;
    } finally {
      this.making = null;
    }
    return this.id;
  }

  /** Let the server forget it, too. */
  forget() {
    if (this.id) remove(`/v1/sessions/${this.id}`).catch(() => {});
    this.id = "";
    this.making = null;
  }

  /** Tell what stands in the line; null where the session is gone. */
  async type(text) {
    return this.#told(() => post(`/v1/sessions/${this.id}/typing`, { text }));
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

async function make(options, exchanges) {
  const { id } = await post("/v1/sessions", {
    ...options,
    ...(exchanges.length ? { messages: messagesOf(exchanges) } : {}),
  });
  return id;
}
