/** The page of settings: methods, what a request may set, and the values in use. */

import { byId, el } from "./dom.js";
import { t } from "./i18n.js";
import { accepts, choice, choose, isRead, mayInject, METHODS, offer, setSetting } from "./preferences.js";
import { told } from "./told.js";

const MAIN = ["retrieval.k", "drafts.preset", "drafts.num_drafts", "drafts.strategy", "drafts.threshold",
  "drafts.with_rationale", "tokens.mode", "tokens.drafter", "tokens.num_draft_tokens", "tokens.in_plain",
  "inject.threshold", "evidence.threshold"];

/** Draw the page, with the settings that the chosen method reads. */
export function drawSettings() {
  const place = /** @type {HTMLElement} */ (byId("view-settings").firstElementChild);
  const { target, drafter, embedder, mode, data } = offer();
  const own = data.filter((setting) => isRead(setting.name));
  const main = own.filter((setting) => MAIN.includes(setting.name));
  const rest = own.filter((setting) => !MAIN.includes(setting.name));
  const isOpen = place.querySelector("details")?.open ?? false; // it is drawn again as settings come
  place.replaceChildren(
    el("h1", {}, t("settings")),
    el("p", { class: "lead" }, t("settingsLead")),
    el(
      "section",
      {},
      el("h2", {}, t("method")),
      el("div", { role: "radiogroup", "aria-label": t("method") }, ...METHODS.map(methodRow)),
      mayInject() && injectRow(),
    ),
    el("section", {}, el("h2", {}, t("mainSettings")), ...main.map(settingRow)),
    el("details", { open: isOpen }, el("summary", {}, t("moreSettings")), ...rest.map(settingRow)),
    el(
      "section",
      { class: "setting-group" },
      el("h2", {}, t("models")),
      el("p", {}, `${t("target")}: `, el("code", {}, target)),
      el("p", {}, `${t("drafter")}: `, el("code", {}, drafter)),
      el("p", {}, `${t("embedder")}: `, el("code", {}, mode === "lexical" ? "—" : embedder)),
    ),
    el("div", {}, el("button", { type: "button", class: "ghost", id: "reset", onclick: reset }, t("reset"))),
  );
}

function reset() {
  choose({ settings: {}, inject: false });
  drawSettings();
  byId("reset").focus();
}

function methodRow(method) {
  const id = `method-${method}`;
  const radio = el("input", {
    type: "radio", name: "default-method", id, checked: choice().method === method,
    onchange: () => {
      choose({ method });
      drawSettings();
      byId(id).focus();
    },
  });
  return el(
    "div",
    { class: "setting" },
    el("div", {}, el("label", { htmlFor: id }, t(`method.${method}`)), el("p", {}, t(`about.${method}`))),
    radio,
  );
}

function injectRow() {
  const box = el("input", {
    type: "checkbox", id: "inject", checked: choice().inject,
    onchange: (event) => choose({ inject: event.target.checked }),
  });
  return el(
    "div",
    { class: "setting" },
    el("div", {}, el("label", { htmlFor: "inject" }, t("inject")), el("p", {}, t("about.inject"))),
    box,
  );
}

function settingRow(setting) {
  const id = `setting-${setting.name}`;
  const own = () => choice().settings[setting.name];
  const inUse = () => own() ?? setting.value;
  const line = el("p", { class: "mono" });
  const row = el(
    "div",
    { class: "setting" },
    el(
      "div",
      {},
      el("label", { htmlFor: id }, t(`setting.${setting.name}`)),
      setting.schema.description && el("p", {}, sentence(told(setting.schema.description))),
      line,
    ),
    control(setting, id, inUse(), (value) => {
      setSetting(setting.name, same(value, setting.value) ? undefined : value);
      show();
    }),
  );
  const show = () => { // in place: the focus is on its way to where the reader sends it
    row.classList.toggle("changed", own() !== undefined);
    line.textContent = `${setting.name} = ${JSON.stringify(inUse())}`;
  };
  show();
  return row;
}

const sentence = (text) => text[0].toUpperCase() + text.slice(1);
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function control(setting, id, value, change) {
  const kinds = [setting.schema, ...(setting.schema.anyOf ?? [])];
  const words = kinds.find((kind) => kind.enum)?.enum;
  if (words) return select(id, words, value, change);
  if (kinds.some((kind) => kind.type === "boolean")) {
    const flip = (event) => change(event.target.checked);
    return el("input", { type: "checkbox", id, checked: value, onchange: flip });
  }
  const kind = kinds.find((one) => one.type === "integer" || one.type === "number") ?? {};
  return numberInput(setting, kind, id, value, change);
}

function numberInput(setting, kind, id, value, change) {
  const range = closed(kind);
  const set = ({ target }) => {
    const isEmpty = target.value === "" && !target.validity.badInput;
    if (!isEmpty && !accepts(range, target.valueAsNumber)) {
      refuse(target, inWords(range));
      return;
    }
    accept(target);
    if (isEmpty) target.value = setting.value ?? "";
    change(isEmpty ? setting.value : target.valueAsNumber);
  };
  return el("input", {
    type: "number", id, min: String(range.minimum ?? range.exclusiveMinimum ?? ""),
    max: String(range.maximum ?? range.exclusiveMaximum ?? ""),
    step: range.type === "integer" ? "1" : "any", value: value ?? "", onchange: set,
  });
}

/** Return a schema of numbers, its bounds among them where they are whole. */
function closed(kind) {
  if (kind.type !== "integer") return kind;
  const { exclusiveMinimum: above, exclusiveMaximum: below, ...rest } = kind;
  if (above !== undefined) rest.minimum = above + 1;
  if (below !== undefined) rest.maximum = below - 1;
  return rest;
}

/** Mark a field whose value is not kept, and say what may stand in it. */
function refuse(input, reason) {
  accept(input);
  const id = `${input.id}-bad`;
  input.setAttribute("aria-invalid", "true");
  input.setAttribute("aria-describedby", id);
  input.previousElementSibling.append(el("p", { class: "bad", id, role: "alert" }, reason));
}

/** Take the mark away. */
function accept(input) {
  byId(`${input.id}-bad`)?.remove();
  input.removeAttribute("aria-invalid");
  input.removeAttribute("aria-describedby");
}

/** Say which numbers a schema takes. */
function inWords({ type, minimum, exclusiveMinimum, maximum, exclusiveMaximum }) {
  const bounds = [["≥", minimum], [">", exclusiveMinimum], ["≤", maximum], ["<", exclusiveMaximum]]
    .filter(([, bound]) => bound !== undefined)
    .map((parts) => parts.join(" "));
  return t(type === "integer" ? "giveWhole" : "giveNumber", { range: bounds.join(", ") });
}

function select(id, words, value, change) {
  const known = words.includes(value) ? words : [...words, value];
  const options = known.map((word) => el("option", { value: String(word), selected: word === value }, String(word)));
  return el("select", { id, onchange: (event) => change(known[event.target.selectedIndex]) }, ...options);
}
