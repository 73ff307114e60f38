/** How the reader wants answers: method, documents, settings; and what the server offers. */

import { get } from "./api.js";
import { read, write } from "./store.js";

export const METHODS = ["prefetch", "plain", "drafts", "rapid"];

const INJECTING = ["prefetch", "plain"];

/** @type {{target: string, drafter: string, data: any[]}} */
let offered = { target: "", drafter: "", data: [] };
let chosen = { method: "prefetch", document: "", inject: false, settings: {}, ...read("choice", {}), document: "" };
if (!METHODS.includes(chosen.method)) chosen.method = "prefetch";

/** Ask the server what may be set. */
export async function loadOffered() {
  offered = await get("/v1/settings");
  const schemas = new Map(offered.data.map((setting) => [setting.name, setting.schema]));
  const kept = Object.entries(chosen.settings ?? {})
    .filter(([name, value]) => schemas.has(name) && accepts(schemas.get(name), value));
  choose({ settings: Object.fromEntries(kept) });
}

/** Return whether a value is one that a setting's schema allows. */
export function accepts(schema, value) {
  if (schema.anyOf) return schema.anyOf.some((kind) => accepts(kind, value));
  if (schema.enum) return schema.enum.includes(value);
  if (schema.type === "integer" || schema.type === "number") return isInRange(schema, value);
  return (value === null ? "null" : typeof value) === schema.type;
}

function isInRange(kind, value) {
  if (!Number.isFinite(value) || (kind.type === "integer" && !Number.isInteger(value))) return false;
  return value >= (kind.minimum ?? -Infinity) && value <= (kind.maximum ?? Infinity)
    && value > (kind.exclusiveMinimum ?? -Infinity) && value < (kind.exclusiveMaximum ?? Infinity);
}

export const offer = () => offered;
export const mayInject = () => INJECTING.includes(chosen.method);
export const choice = () => chosen;

/** Change part of the choice; who listens hears of it if it is another one. */
export function choose(part) {
  const before = JSON.stringify(chosen);
  chosen = { ...chosen, ...part };
  write("choice", { ...chosen, document: "" }); // a limit that nobody remembers would mislead
  if (JSON.stringify(chosen) !== before) document.dispatchEvent(new CustomEvent("choice"));
}

/** Change one setting; undefined: as the server has it. */
export function setSetting(name, value) {
  const settings = { ...chosen.settings, [name]: value };
  if (value === undefined) delete settings[name];
  choose({ settings });
}

/**
 * Return what goes with a question, or with the session that it belongs to.
 * @param {{isFollowUp?: boolean}} [asked] whether earlier messages go with the question
 */
export function scopeAndSettings({ isFollowUp = false } = {}) {
  const { method } = chosen;
  const options = {};
  if (chosen.document) options.documents = [chosen.document];
  if (chosen.inject && mayInject() && !(method === "plain" && isFollowUp)) options.inject = true;
  const settings = Object.entries(chosen.settings).filter(([name]) => isRead(name));
  if (settings.length) options.settings = Object.fromEntries(settings);
  return options;
}

/** Return whether the chosen method reads a setting. Until the server has told, all go: it refuses those that do not. */
export function isRead(name) {
  const setting = offered.data.find((one) => one.name === name);
  return !setting || setting.methods.includes(chosen.method);
}
