/** Shows all that was drafted, side by side, and why one was chosen. */

import { placeOf } from "./citations.js";
import { el, icon } from "./dom.js";
import { count, number, percent, seconds, t } from "./i18n.js";
import { told } from "./told.js";

const MAX_EVIDENCE = 3;

/**
 * Return the panel with the audit of an answer by drafts.
 * @param {any} audit as `Answer.audit`
 * @param {(citation: object) => void} open
 */
export function auditPanel(audit, open) {
  return el(
    "section",
    { class: "panel audit", "aria-label": t("audit") },
    el("div", { class: "panel-head" }, el("h3", {}, t("audit")), el("p", { class: "legend" }, headLine(audit))),
    ...content(audit, open),
  );
}

function content(audit, open) {
  const unjudged = audit.drafts.filter((draft) => draft.candidate === null);
  return [
    audit.fell_back && el("p", { class: "noted" }, t("fellBack", { why: told(audit.fell_back) })),
    audit.feedback && el("p", { class: "noted" }, t("feedback", { text: audit.feedback })),
    el(
      "div",
      { class: "candidates" },
      ...audit.candidates.map((one, place) => candidate(one, place, audit, open)),
      ...unjudged.map(faulty),
    ),
    audit.drafts.length > 0 && el(
      "details", {},
      el("summary", {}, t("allDrafts", { n: audit.drafts.length })),
      el("div", { class: "scroll" }, draftTable(audit.drafts)),
    ),
    ...audit.steps.map((step) => stepPart(step, open)),
  ].filter(Boolean);
}

function headLine(audit) {
  const parts = [count("numDrafts", audit.drafts.length)];
  if (audit.num_saved_drafts) parts.push(t("numSaved", { n: audit.num_saved_drafts }));
  if (!audit.fell_back) parts.push(bars(audit));
  return parts.join(" · ");
}

/** Say how probable an answer has to be; audits of older chats do not tell about further ones. */
function bars({ threshold, also }) {
  const p = percent(threshold);
  if (also === undefined) return t("answersFrom", { p });
  return also === null ? t("answersByGain", { p }) : t("answersAlso", { p, also: percent(also) });
}

/** Return the bar that this answer met or missed: a higher one where a better answer is given. */
function barOf(one, audit) {
  const best = audit.candidates.find((other) => other.selected);
  const isFurther = best && best !== one && one.probability >= audit.threshold;
  return isFurther ? audit.also ?? audit.threshold : audit.threshold;
}

function stepPart(step, open) {
  return el("section", {}, el("h3", {}, t("step", { text: step.question })), ...content(step, open));
}

function candidate(one, place, audit, open) {
  const drafts = audit.drafts.filter((draft) => draft.candidate === place);
  const rationales = [...new Set(drafts.map((draft) => draft.rationale).filter(Boolean))];
  return el(
    "article",
    { class: `candidate${one.selected ? " chosen" : ""}` },
    el("p", { class: "verdict" }, one.selected && icon("check"), one.selected ? t("chosen") : t("rejected")),
    el("p", {}, el("b", {}, one.answer)),
    !one.selected && el("p", { class: "small soft" }, told(one.reason)),
    meter(t("probability"), one.probability, barOf(one, audit)),
    scores(one, drafts),
    ...rationales.map((text) => el("blockquote", { "aria-label": t("rationale") }, text)),
    ...one.evidence.slice(0, MAX_EVIDENCE).map((held) => evidence(one.answer, held, open)),
    one.evidence.length > MAX_EVIDENCE &&
      el("p", { class: "small soft" }, t("moreEvidence", { n: one.evidence.length - MAX_EVIDENCE })),
    ...(one.claim?.conflicting ?? []).map((against) => conflict(against, audit, open)),
    one.evidence.length === 0 && el("p", { class: "small soft" }, t("noEvidence")),
  );
}

function meter(name, value, bound) {
  const fill = el("span", { class: "fill" });
  fill.style.width = `${value * 100}%`;
  const line = el("span", { class: "bound", title: t("givenFrom", { p: percent(bound) }) });
  line.style.left = `${bound * 100}%`;
  return el(
    "div",
    { class: "meter" },
    el("span", {}, name),
    el("span", { class: "num" }, percent(value)),
    el("span", { class: "track", "aria-hidden": "true" }, fill, line),
  );
}

function scores(one, drafts) {
  const agreeing = drafts.length;
  const rows = [
    [t("score.agreeing"), number(agreeing)],
    [t("score.claim"), one.claim ? t(`claim.${one.claim.verdict}`) : null],
    [t("score.conflicts"), one.claim?.conflicting.length ? number(one.claim.conflicting.length) : null],
    [t("score.consistency"), one.consistency === null ? null : number(one.consistency, 2)],
    [t("score.support"), one.support === null ? null : number(one.support, 2)],
    [t("score.wrong"), one.wrong === null || one.wrong === undefined ? null : percent(one.wrong)],
  ].filter(([, value]) => value !== null);
  const cells = rows.map(([name, value]) =>
    el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "num" }, value)));
  return el("table", {}, el("tbody", {}, ...cells));
}

/** Return a sentence of a passage with the answer set off in it; it opens the document. */
function evidence(answer, held, open) {
  const [start, end] = placeIn(held.text, answer);
  const citation = { ...held, document_id: held.passage_id.split(".")[0] };
  return el(
    "button",
    { type: "button", class: "evidence", onclick: () => open(citation) },
    el("span", { class: "place" }, placeOf(held)),
    held.text.slice(0, start),
    el("mark", {}, held.text.slice(start, end)),
    held.text.slice(end),
  );
}

/** Return a link to what contradicts an answer; its document has a name where others rely on it. */
function conflict(against, audit, open) {
  const citation = { ...against, document_id: against.passage_id.split(".")[0] };
  const held = audit.candidates.flatMap((one) => one.evidence).find((one) => one.passage_id === against.passage_id);
  const place = held ? placeOf(held) : against.passage_id;
  const text = t("contradicts", { what: told(against.what), place });
  return el("button", { type: "button", class: "evidence against", onclick: () => open(citation) }, text);
}

/** Return where the answer stands in a sentence, all of it where it does not word by word. */
export function placeIn(sentence, answer) {
  const at = sentence.toLowerCase().indexOf(answer.trim().toLowerCase());
  const isFound = answer.trim() !== "" && at >= 0 && sentence.toLowerCase().length === sentence.length;
  return isFound ? [at, at + answer.trim().length] : [0, sentence.length];
}

function faulty(draft) {
  return el(
    "article",
    { class: "candidate unjudged" },
    el("p", { class: "verdict" }, t("notJudged")),
    el("p", {}, draft.answer || "—"),
    draft.fault && el("p", { class: "small soft" }, t(`fault.${draft.fault}`)),
    draft.rationale && el("blockquote", {}, draft.rationale),
  );
}

function draftTable(drafts) {
  const names = ["number", "author", "passages", "prompt", "tokens", "seconds", "logprob", "draft"];
  const rows = drafts.map((draft, place) => el(
    "tr", {},
    el("td", { class: "num" }, number(place + 1)),
    el("td", {}, t(`author.${draft.author}`)),
    el("td", { class: "mono" }, draft.passages.join(" ")),
    el("td", { class: "num" }, number(draft.num_prompt_tokens)),
    el("td", { class: "num" }, number(draft.num_tokens)),
    el("td", { class: "num" }, seconds(draft.seconds)),
    el("td", { class: "num" }, draft.logprob === null ? "" : number(draft.logprob, 2)),
    el("td", {}, draft.answer),
  ));
  const head = names.map((key) => el("th", { scope: "col" }, t(`draft.${key}`)));
  return el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
}
