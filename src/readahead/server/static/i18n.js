/** The page's words in the reader's language. */

import { icon } from "./dom.js";
import { EN } from "./en.js";
import { ZH } from "./zh.js";
import { read, write } from "./store.js";

const WORDS = { en: EN, zh: ZH };
const TAGS = { en: "en", zh: "zh-Hans" };
let language = first();

function first() {
  const kept = read("language", "");
  if (kept in WORDS) return kept;
  return navigator.language?.toLowerCase().startsWith("zh") ? "zh" : "en";
}

/**
 * Return a text; `{name}` in it stands for a value.
 * @param {string} key
 * @param {Record<string, string|number>} [values]
 */
export function t(key, values = {}) {
  const text = WORDS[language][key] ?? EN[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}

/** Return a text about `n` things; its forms for one and for more stand on the sides of a bar. */
export function count(key, n) {
  const forms = t(key, { n: number(n) }).split("|");
  return n === 1 ? forms[0] : forms[forms.length - 1];
}

export const has = (key) => key in WORDS[language];

/** Return the language in use. @returns {"en"|"zh"} */
export const inUse = () => language;

/** Return the words for one of a few names that the server uses, the name where there are none. */
export const named = (group, name) => (has(`${group}.${name}`) ? t(`${group}.${name}`) : name.replaceAll("_", " "));

/** Return a number as the language writes it. */
export function number(value, digits = 0) {
  return new Intl.NumberFormat(TAGS[language], {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  }).format(value);
}

/** Return seconds for people: 12 ms, 0.24 s, 3.1 s, 48 s. */
export function seconds(value) {
  if (value > 0 && value < 0.1) return `${number(value * 1000, value < 0.001 ? 1 : 0)} ms`;
  return `${number(value, value < 1 ? 2 : value < 20 ? 1 : 0)} s`;
}

export function percent(value) {
  return new Intl.NumberFormat(TAGS[language], { style: "percent" }).format(value);
}

export function date(value) {
  const style = { dateStyle: "medium", timeStyle: "short" };
  return new Intl.DateTimeFormat(TAGS[language], style).format(new Date(value));
}

/** Put the texts into all that is marked with them. */
export function translate(root = document) {
  document.documentElement.lang = TAGS[language];
  for (const node of root.querySelectorAll("[data-t]")) {
    const text = document.createElement("span");
    text.textContent = t(node.dataset.t);
    node.replaceChildren(...(node.dataset.icon ? [icon(node.dataset.icon)] : []), text);
  }
  for (const node of root.querySelectorAll("[data-label]")) {
    node.setAttribute("aria-label", t(node.dataset.label));
    if (node.tagName === "BUTTON") node.title = t(node.dataset.label);
    if (node.dataset.icon && !node.dataset.t) node.replaceChildren(icon(node.dataset.icon));
  }
  for (const node of root.querySelectorAll("[data-placeholder]")) {
    node.placeholder = t(node.dataset.placeholder);
  }
}

/** Change to the other language, and say so to whoever has to draw anew. */
export function switchLanguage() {
  language = language === "en" ? "zh" : "en";
  write("language", language);
  translate();
  document.dispatchEvent(new CustomEvent("language"));
}
