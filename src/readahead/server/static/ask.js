/** Asks one question and hands on the parts of its answer as they come. */

import { ApiError, events, send } from "./api.js";

const NUM_TRIES = 40; // while the answer that was stopped ends its step
const PAUSE_MS = 250;

/**
 * @typedef {{question: string, method: string, session?: string, documents?: string[],
 *   inject?: boolean, settings?: Record<string, unknown>,
 *   exchanges?: {question: string, answer: string}[]}} Question
 */

/** Return the body of the request. @param {Question} asked */
export function bodyOf(asked) {
  const earlier = asked.session ? [] : messagesOf(asked.exchanges ?? []);
  const extension = asked.session
    ? { session: asked.session }
    : {
      method: asked.method,
      ...(asked.documents?.length ? { documents: asked.documents } : {}),
      ...(asked.inject ? { inject: true } : {}),
      ...(Object.keys(asked.settings ?? {}).length ? { settings: asked.settings } : {}),
    };
  return {
    model: "readahead",
    stream: true,
    messages: [...earlier, { role: "user", content: asked.question }],
    readahead: extension,
  };
}

/** Return exchanges as the messages of a chat. */
export function messagesOf(exchanges) {
  return exchanges.flatMap(({ question, answer }) => [
    { role: "user", content: question },
    { role: "assistant", content: answer },
  ]);
}

/**
 * Yield `{text}`, `{citation}` and, last, `{answer, finish}`.
 * @param {Question} asked
 * @param {AbortSignal} signal aborting it ends the request; the server stops within one step
 */
export async function* ask(asked, signal) {
  const response = await begin(bodyOf(asked), signal);
  for await (const chunk of events(response, { needsDone: true })) {
    const [choice] = chunk.choices ?? [];
    if (chunk.readahead?.citation) yield { citation: chunk.readahead.citation };
    if (choice?.delta?.content) yield { text: choice.delta.content };
    if (choice?.finish_reason) yield { answer: chunk.readahead ?? {}, finish: choice.finish_reason };
  }
}

/** Send the request; a session whose last answer is just being stopped is waited for. */
async function begin(json, signal) {
  for (let left = NUM_TRIES; ; left -= 1) {
    try {
      return await send("POST", "/v1/chat/completions", { json, signal });
    } catch (error) {
      if (error.code !== "session_busy" || !left) throw error;
    }
    await new Promise((resolve) => { setTimeout(resolve, PAUSE_MS); });
  }
}

/** Return whether an error says that the server knows the session no more. */
export function isForgotten(error) {
  return error instanceof ApiError && error.status === 404;
}
