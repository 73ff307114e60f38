/** What plain RAG would have taken, from rates that were measured; an estimate, and said to be. */

import { read, write } from "./store.js";

const MIN_TOKENS = 16; // read in one go, to measure a rate by

/** @typedef {import("./lanes.js").Trace} Trace */

/**
 * Return seconds per prompt token and per written token, null where the trace does not tell.
 * @param {Trace} trace
 */
export function ratesOf(trace) {
  const reads = trace.spans.filter(
    (span) => span.name === "prefill" && span.attributes.num_tokens >= MIN_TOKENS,
  );
  const numRead = sum(reads.map((span) => span.attributes.num_tokens));
  const searches = trace.spans.filter((span) => span.name === "search");
  const retrieval = sum(
    trace.spans.filter((span) => ["encode", "search"].includes(span.name)).map((span) => span.busy_s),
  );
  return {
    target: trace.attributes.target ?? "",
    readS: numRead ? sum(reads.map((span) => span.busy_s)) / numRead : null,
    writeS: writeS(trace),
    retrievalS: searches.length ? retrieval / searches.length : 0,
    numPromptTokens: trace.counters.prompt_tokens ?? 0,
  };
}

/** Return the seconds of a step that writes one token. */
function writeS(trace) {
  const decode = trace.spans.find((span) => span.name === "decode" && span.count > 1);
  if (decode) return decode.busy_s / decode.count;
  const rounds = trace.attributes.speculation?.rounds ?? [];
  const gaps = rounds
    .slice(1, -1)
    .map(([start, drafted], place) => (drafted ? null : rounds[place + 2][0] - start))
    .filter((gap) => gap !== null);
  if (gaps.length) return gaps.sort((a, b) => a - b)[gaps.length >> 1];
  const verify = trace.spans.find((span) => span.name === "verify" && span.count > 1);
  return verify ? verify.busy_s / verify.count : null; // a little more than one token costs
}

/**
 * Return what the same answer would have taken with nothing guessed, null where it is not known.
 * @param {Trace} trace
 * @param {{method: string, numWritten: number}} answer
 */
export function plainEstimate(trace, { method, numWritten }) {
  if (method === "plain") return null;
  const own = ratesOf(trace);
  const rates = method === "drafts" ? read("rates", null) : own;
  if (!rates?.readS || !rates.writeS || !rates.numPromptTokens) return null;
  const ttft = waitedS(trace) + (own.retrievalS || rates.retrievalS) + rates.numPromptTokens * rates.readS;
  return { ttft, e2e: ttft + Math.max(0, numWritten - 1) * rates.writeS };
}

/** Return for how long the answer waited for a busy model, as plain RAG would have. */
function waitedS(trace) {
  const asked = trace.attributes.asked_s ?? 0;
  return sum(trace.spans.filter((span) => span.name === "wait" && span.start_s >= asked).map((span) => span.busy_s));
}

/** Keep the rates of an answer that the target wrote, to compare drafts with. @param {Trace} trace */
export function rememberRates(trace) {
  const rates = ratesOf(trace);
  if (rates.readS && rates.writeS && rates.numPromptTokens) write("rates", rates);
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}
