/** Turns a trace into lanes of things that happened; draws nothing. */

import { named, number, percent, seconds, t } from "./i18n.js";
import { told } from "./told.js";

/**
 * @typedef {{name: string, start_s: number, end_s: number|null, count: number, busy_s: number,
 *   attributes: Record<string, any>}} Span
 * @typedef {{id: string, kind: string, started_at: number, attributes: Record<string, any>,
 *   counters: Record<string, number>, spans: Span[]}} Trace
 * `aheadUntil` is where the part of a bar that came before Enter ends.
 * @typedef {{kind: "bar"|"tick"|"diamond"|"round", start: number, end: number, text: string,
 *   title: string, isHollow?: boolean, aheadUntil?: number, run?: number, drafted?: number, accepted?: number}} Item
 * @typedef {{key: string, items: Item[]}} Lane
 */

const LONG_GAP_S = 3; // in which nothing happened: drawn shorter
const GAP_SHARE = 0.08; // of all that is drawn in full
const MIN_GAP_S = 0.1;
const MIN_WAIT_S = 0.005; // below, nobody waited
const LANE_OF = {
  wait: "wait",
  encode: "retrieval", search: "retrieval", retrieve: "retrieval", topic: "retrieval",
  suggest: "prefill", reuse: "prefill", blend: "prefill", prefill: "prefill",
  draft: "draft", verify: "draft", score: "draft", refine: "draft", split: "draft",
  drafter_prefill: "draft", drafter_decode: "draft", refresh: "draft",
  decode: "decode",
};
const SEVERAL_MARKS = new Set(["draft", "verify", "drafter_decode"]); // told round by round instead
export const LANES = ["typing", "gate", "retrieval", "wait", "prefill", "draft", "decode"];

/**
 * Return what to draw.
 * @param {Trace} trace
 * @param {number[][]} [strokes] seconds before Enter and length of the text, of each stroke
 */
export function lanesOf(trace, strokes = []) {
  const asked = trace.attributes.asked_s ?? 0;
  const ends = trace.spans.map((span) => span.end_s ?? span.start_s);
  const end = asked + (trace.attributes.e2e_s ?? Math.max(0, ...ends) - asked);
  const lanes = Object.fromEntries(LANES.map((key) => [key, /** @type {Item[]} */ ([])]));
  const rounds = trace.attributes.speculation?.rounds ?? [];
  lanes.typing.push(...typing(trace, strokes, asked));
  const aside = trace.spans.filter((span) => span.name === "suggest");
  for (const span of trace.spans) {
    if (aside.some((whole) => isWithin(span, whole))) continue;
    if (span.name === "guess" || span.name === "inject") lanes.gate.push(gate(span));
    const key = LANE_OF[span.name];
    if (span.name === "wait" && span.busy_s < MIN_WAIT_S) continue;
    if (!key || (rounds.length && SEVERAL_MARKS.has(span.name))) continue;
    lanes[key].push(bar(span, asked, end));
  }
  rounds.forEach((round, place) => {
    const next = rounds[place + 1]?.[0] ?? end;
    lanes.draft.push(roundItem(round, next, place));
    lanes.decode.push(runItem(round, next));
  });
  const all = Object.values(lanes).flat();
  const start = Math.min(asked, ...all.map((item) => item.start));
  const last = Math.max(end, start + 1e-3, ...all.map((item) => item.end));
  const shown = LANES.map((key) => ({ key, items: lanes[key].sort((a, b) => a.start - b.start) }));
  const gaps = gapsIn([...all, { start, end: start }, { start: asked, end: asked }], last);
  return { lanes: shown, start, end: last, asked, first: firstToken(trace, asked), gaps };
}

/**
 * Return where nothing happened for long, with the seconds that it is drawn as.
 * @param {{start: number, end: number}[]} items
 * @returns {{start: number, end: number, shown: number}[]}
 */
export function gapsIn(items, end) {
  const found = [];
  const begun = Math.min(end, ...items.map((item) => item.start));
  let reached = begun;
  for (const item of [...items, { start: end, end }].sort((a, b) => a.start - b.start)) {
    if (item.start - reached > LONG_GAP_S) found.push({ start: reached, end: item.start });
    reached = Math.max(reached, item.end);
  }
  const idle = found.reduce((total, gap) => total + gap.end - gap.start, 0);
  const shown = Math.max(MIN_GAP_S, (end - begun - idle) * GAP_SHARE);
  return found.map((gap) => ({ ...gap, shown: Math.min(shown, gap.end - gap.start) }));
}

/** Return how far along the axis a moment stands, in the seconds that are drawn. */
export function placeOnAxis(at, start, gaps) {
  return gaps.reduce((place, gap) => {
    const within = Math.min(1, Math.max(0, (at - gap.start) / (gap.end - gap.start)));
    return place - within * (gap.end - gap.start - gap.shown);
  }, at - start);
}

/** Return whether a span is part of what was done for a suggestion. */
function isWithin(span, whole) {
  return span !== whole && span.start_s >= whole.start_s && span.start_s < (whole.end_s ?? Infinity);
}

function firstToken(trace, asked) {
  const ttft = trace.attributes.ttft_s;
  return ttft > 0 ? asked + ttft : null;
}

function typing(trace, strokes, asked) {
  if (strokes.length) {
    return strokes.map(([before, length]) => ({
      kind: "tick",
      start: asked - before,
      end: asked - before,
      title: t("lane.typing"),
      text: t("x.stroke", { n: number(length), s: seconds(before) }),
    }));
  }
  return trace.spans.filter((span) => span.name === "guess" && span.attributes.text).map((span) => ({
    kind: "tick",
    start: span.start_s,
    end: span.start_s,
    title: t("lane.typing"),
    text: t("x.typedSoFar", { text: span.attributes.text }),
  }));
}

/** @param {Span} span @returns {Item} */
function gate(span) {
  const { moment, is_finished: isFinished, text = "", probability, passed, reason } = span.attributes;
  const at = { kind: "diamond", start: span.start_s, end: span.start_s, title: t("lane.gate") };
  if (span.name === "inject") return { ...at, text: t("x.inject", { moment: named("moment", moment ?? "") }) };
  if (isFinished) return { ...at, text: t("x.finished", { text }) };
  const values = { text, p: percent(probability ?? 0), why: told(reason ?? "") };
  return { ...at, isHollow: !passed, text: t(passed ? "x.passed" : reason ? "x.waited" : "x.held", values) };
}

/** @param {Span} span @returns {Item} */
function bar(span, asked, end) {
  const last = span.end_s ?? end;
  const noted = span.attributes;
  const isAhead = span.start_s < asked;
  const values = {
    s: seconds(span.busy_s || last - span.start_s),
    n: number(noted.num_tokens ?? noted.num_reused_tokens ?? noted.num_drafts ?? noted.num_rows ?? span.count),
    cached: number(noted.num_cached_tokens ?? 0),
    steps: number(span.count),
    each: seconds(span.busy_s / Math.max(1, span.count)),
  };
  const when = isAhead ? ` ${t(last <= asked ? "x.ahead" : "x.begunAhead")}` : "";
  const title = t(`span.${span.name}`);
  return {
    kind: "bar",
    start: span.start_s,
    end: last,
    title,
    text: t(`x.${span.name}`, values) + when,
    ...(isAhead ? { aheadUntil: Math.min(last, asked) } : {}),
  };
}

function roundItem([start, drafted, accepted, source], next, place) {
  const values = { n: place + 1, drafted, accepted, source: t(`source.${source || "none"}`) };
  const text = drafted ? t("x.round", values) : t("x.plainRound", values);
  return { kind: "round", start, end: next, drafted, accepted, title: t("lane.draft"), text };
}

function runItem([start, , accepted], next) {
  const text = t("x.run", { n: number(accepted + 1), s: seconds(next - start) });
  return { kind: "bar", start, end: next, title: t("lane.decode"), text, run: accepted + 1 };
}
