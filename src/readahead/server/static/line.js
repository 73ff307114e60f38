/** The line that a question is typed into: its text, its strokes, and the key that sends it. */

import { byId, isComposing } from "./dom.js";

const MAX_STROKES = 400;

export class Line {
  /** @param {{typed: (text: string) => void, entered: () => void}} hears */
  constructor({ typed, entered }) {
    this.field = /** @type {HTMLTextAreaElement} */ (byId("question"));
    this.strokes = [];
    this.field.addEventListener("input", () => {
      this.#note();
      typed(this.text);
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || isComposing(event)) return;
      event.preventDefault();
      entered();
    });
  }

  get text() {
    return this.field.value;
  }

  set text(text) {
    this.field.value = text;
    this.#fit();
  }

  /** Empty the line; return when each of its strokes came, in seconds before now. */
  take() {
    const now = performance.now();
    const strokes = this.strokes.slice(-MAX_STROKES);
    this.text = "";
    this.strokes = [];
    return strokes.map(([at, length]) => [Math.round(now - at) / 1000, length]);
  }

  #note() {
    this.strokes.push([performance.now(), this.text.length]);
    if (!this.text) this.strokes = [];
    this.#fit();
  }

  #fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${this.field.scrollHeight}px`;
  }
}
