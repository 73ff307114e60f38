/** The list to choose a document from that questions are limited to. */

import { get } from "./api.js";
import { labelsOf } from "./citations.js";
import { byId, complain, el } from "./dom.js";
import { t } from "./i18n.js";
import { choice, choose } from "./preferences.js";

const MAX_SCOPE = 200; // documents offered

const list = () => /** @type {HTMLSelectElement} */ (byId("scope"));

/** Show what is chosen. */
export function drawScope() {
  const { document: limit } = choice();
  const scope = list();
  if (scope.options.length) scope.options[0].text = t("allDocuments"); // before the list comes
  scope.value = limit;
  scope.classList.toggle("limited", Boolean(limit));
}

/** Ask which documents there are; where that fails, all stays as it is. */
export async function loadScope() {
  let told;
  try {
    told = await get(`/v1/documents?limit=${MAX_SCOPE}`);
  } catch {
    return; // the library says what is wrong
  }
  const { data, has_more: hasMore } = told;
  const labels = labelsOf(data.map((one) => one.name));
  const options = data.map((one, place) => el("option", { value: String(one.id) }, labels[place]));
  if (hasMore) options.push(...chosenToo(data), el("option", { disabled: true }, t("newestOnly", { n: MAX_SCOPE })));
  else liftIfGone(data);
  list().replaceChildren(el("option", { value: "" }, t("allDocuments")), ...options);
  drawScope();
}

/** Return the option that is chosen, where it is none of the newest. */
function chosenToo(data) {
  return isAmong(data) ? [] : [...list().selectedOptions];
}

/** Lift the limit to a document that is no more, and say so. */
function liftIfGone(data) {
  if (isAmong(data)) return;
  complain(t("scopeGone", { name: scopeName() }));
  choose({ document: "" });
}

function isAmong(data) {
  const { document: limit } = choice();
  return !limit || data.some((one) => String(one.id) === limit);
}

/** Return the name of the document that questions are limited to, "" for all. */
export function scopeName() {
  return choice().document ? list().selectedOptions[0]?.textContent ?? "" : "";
}
