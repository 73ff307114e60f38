/** Puts what the server says itself into the reader's language; what is not known stays as it is. */

import { inUse } from "./i18n.js";
import { ZH_SERVER } from "./zhserver.js";

const TABLES = { zh: patternsOf(ZH_SERVER) };

/** Return a text of the server in the language in use. @param {string} text */
export function told(text) {
  const patterns = TABLES[inUse()];
  return patterns && text ? inWords(text, patterns) : text;
}

function inWords(text, patterns) {
  return known(text, patterns) ?? partly(text, patterns);
}

/** Return the patterns of a table, those first that leave the least open. */
function patternsOf(table) {
  const literal = (said) => said.replace(/\{\w+\}/g, "").length;
  return Object.entries(table)
    .sort(([one], [other]) => literal(other) - literal(one))
    .map(([said, words]) => ({ words, names: namesIn(said), pattern: patternOf(said) }));
}

function namesIn(said) {
  return [...said.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
}

function patternOf(said) {
  const parts = said.split(/\{\w+\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join("(.*?)")}$`, "s");
}

/** Return a text in other words, sentence by sentence where it is known so; else null. */
function known(text, patterns) {
  for (const end of endsIn(text)) {
    const head = translated(text.slice(0, end), patterns);
    const rest = head === null ? null : known(text.slice(end + 1), patterns);
    if (rest !== null) return head + rest;
  }
  return translated(text, patterns);
}

/** Return a text with as much of its beginning in other words as is known. */
function partly(text, patterns) {
  for (const end of endsIn(text).reverse()) {
    const head = known(text.slice(0, end), patterns);
    if (head !== null) return head + text.slice(end + 1);
  }
  return text;
}

const endsIn = (text) => [...text.matchAll(/[.:] /g)].map((end) => end.index + 1);

/** Return a text that is known as a whole in other words, else null. */
function translated(text, patterns) {
  for (const { words, names, pattern } of patterns) {
    const found = pattern.exec(text);
    if (!found) continue;
    const values = Object.fromEntries(names.map((name, place) => [name, found[place + 1]]));
    const value = (whole, name) => (name === "why" ? inWords(values.why, patterns) : values[name] ?? whole);
    return words.replace(/\{(\w+)\}/g, value);
  }
  return null;
}
