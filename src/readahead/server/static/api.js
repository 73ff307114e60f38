/** Speaks to the server: JSON, server-sent events, and errors in OpenAI's envelope. */

import { t } from "./i18n.js";
import { told } from "./told.js";

const OWN = { unreachable: () => t("unreachable"), cut: () => t("connectionEnded") };

/** Return what went wrong in the language in use. @param {{said: string, code?: string}} error */
export const wordsOf = ({ said, code = "" }) => OWN[code]?.() ?? told(said);

export class ApiError extends Error {
  /** @param {number} status @param {string} said by the server @param {string} [code] */
  constructor(status, said, code = "") {
    super(wordsOf({ said, code }));
    this.status = status;
    this.said = said;
    this.code = code;
  }
}

async function failure(response) {
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch { /* it is no JSON: the status has to do */ }
  const text = error.message ?? `${response.status} ${response.statusText}`;
  return new ApiError(response.status, text, error.code ?? "");
}

/** Return the response to a request. @throws {ApiError} there is none, or not one of success */
export async function send(method, path, { json, body, signal } = {}) {
  const headers = json === undefined ? {} : { "Content-Type": "application/json" };
  const response = await fetch(path, {
    method,
    headers,
    body: json === undefined ? body : JSON.stringify(json),
    signal,
    credentials: "same-origin",
  }).catch(unreachable);
  if (!response.ok) throw await failure(response);
  return response;
}

function unreachable(error) {
  throw error.name === "AbortError" ? error : new ApiError(0, "", "unreachable");
}

function cut(error) {
  throw error.name === "AbortError" ? error : new ApiError(0, "", "cut");
}

export const get = async (path, signal) => (await send("GET", path, { signal })).json();
export const post = async (path, json, signal) => (await send("POST", path, { json, signal })).json();
export const remove = async (path) => (await send("DELETE", path)).json();

/**
 * Split a stream of text into the data of its events, however it is cut.
 * @returns {(text: string) => string[]} takes a piece, gives the data of each event that it ends
 */
export function eventSplitter() {
  let rest = "";
  return (text) => {
    const events = (rest + text).replaceAll("\r\n", "\n").split("\n\n");
    rest = events.pop() ?? "";
    return events.map(dataOf).filter((data) => data !== "");
  };
}

function dataOf(event) {
  const lines = event.split("\n").filter((line) => line.startsWith("data:"));
  return lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n");
}

/**
 * Yield the JSON values of a response's events until `[DONE]` or its end.
 * @param {Response} response
 * @throws {ApiError} an event tells of an error, or the stream ended early
 */
export async function* events(response, { needsDone = false } = {}) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const split = eventSplitter();
  try {
    for (;;) {
      const { value, done } = await reader.read().catch(cut);
      if (done) break;
      for (const data of split(value)) {
        if (data === "[DONE]") return;
        const event = JSON.parse(data);
        if (event.error && !event.object) throw new ApiError(500, event.error.message, event.error.code);
        yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
  if (needsDone) throw new ApiError(0, "", "cut");
}
