/** Sets an answer beside what plain RAG would have taken for it. */

import { el } from "./dom.js";
import { seconds, t } from "./i18n.js";
import { plainEstimate } from "./plain.js";

/** @param {import("./lanes.js").Trace} trace */
export function versus(trace, answer) {
  const plain = plainEstimate(trace, answer);
  if (!plain) {
    const why = { plain: "isPlain", drafts: "noRates" }[answer.method] ?? "noEstimate";
    return el("p", { class: "small soft" }, t(why));
  }
  const own = { ttft: answer.timing.ttft_s, e2e: answer.timing.e2e_s };
  const longest = Math.max(own.e2e, plain.e2e);
  const baseline = answer.method === "rapid" ? t("tokenByToken") : t("plainRag");
  return el(
    "div",
    { class: "versus" },
    el("p", { class: "saved" }, ...verdict(own, plain, answer.method)),
    row(t("thisAnswer"), own, longest, ""),
    row(baseline, plain, longest, "guessed"),
    el("p", { class: "small soft" }, t(answer.method === "drafts" ? "estimateDrafts" : "estimate")),
  );
}

/** Say what it saved, or cost: the first token where it was read ahead, else all of the answer. */
function verdict(own, plain, method) {
  const part = method === "prefetch" ? "ttft" : "e2e";
  const saved = plain[part] - own[part];
  const key = saved >= 0 ? (part === "ttft" ? "soonerFirst" : "soonerAll") : part === "ttft" ? "laterFirst" : "laterAll";
  const [before, after] = t(key).split("{s}");
  return [before, el("b", {}, seconds(Math.abs(saved))), after ?? ""];
}

function row(name, { ttft, e2e }, longest, kind) {
  const first = el("i", { class: "bar-first" });
  const rest = el("i", { class: "bar-rest" });
  first.style.width = `${(ttft / longest) * 62}%`;
  rest.style.width = `${(Math.max(0, e2e - ttft) / longest) * 62}%`;
  const figures = t("firstAndAll", { first: seconds(ttft), all: seconds(e2e) });
  return el(
    "div",
    { class: "bar-row" },
    el("span", {}, name),
    el("span", { class: `bar ${kind}` }, first, rest, el("span", { class: "num small soft" }, figures)),
  );
}
