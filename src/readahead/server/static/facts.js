/** The line of figures below an answer. */

import { el } from "./dom.js";
import { number, percent, seconds, t } from "./i18n.js";

/** Return the figures that matter for the method that ran. @param {any} answer */
export function factsOf(answer) {
  const facts = answer.method === "drafts" && answer.audit?.drafts ? drafted(answer) : written(answer);
  return el("p", { class: "facts" }, ...facts.filter(Boolean));
}

function drafted({ confidence, abstained, audit, timing }) {
  return [
    !abstained && fact("fact.probability", percent(confidence)),
    fact("fact.drafts", number(audit.drafts.length)),
    fact("fact.after", seconds(timing.e2e_s)),
  ];
}

function written({ confidence, abstained, citations, usage, timing, speculation, method }) {
  const perForward = speculation?.tokens_per_forward;
  const isReused = usage.reused_tokens > 0;
  return [
    usage.completion_tokens > 0 && fact("fact.first", seconds(timing.ttft_s)),
    isReused && fact(method === "prefetch" ? "fact.ready" : "fact.reused", number(usage.reused_tokens), number(usage.prompt_tokens)),
    usage.completion_tokens > 1 && timing.tpot_s > 0 && fact("fact.rate", number(1 / timing.tpot_s, 1)),
    perForward && fact("fact.perForward", number(perForward, 1)),
    !abstained && citations?.length > 0 && fact("fact.supported", percent(confidence)),
  ];
}

/** Return a text whose first value is set off. */
function fact(key, value, of = "") {
  const [before, after] = t(key, { of }).split("{value}");
  return el("span", { class: "num" }, before, el("b", {}, value), after ?? "");
}
