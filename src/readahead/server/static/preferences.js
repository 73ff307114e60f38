/** How the reader wants answers: method, documents, settings; and what the server offers. */

import { get } from "./api.js";
import { read, write } from "./store.js";

export const METHODS = ["prefetch", "plain", "drafts", "rapid"];

/** @type {{target: string, drafter: string, data: any[]}} */
let offered = { target: "", drafter: "", data: [] };
let chosen = { method: "prefetch", document: "", inject: false, settings: {}, ...read("choice", {}), document: "" };
if (!METHODS.includes(chosen.method)) chosen.method = "prefetch";

/** Ask the server what may be set. */
export async function loadOffered() {
  offered = await get("/v1/settings");
  const known = new Set(offered.data.map((setting) => setting.name));
  const kept = Object.entries(chosen.settings ?? {}).filter(([name]) => known.has(name));
  choose({ settings: Object.fromEntries(kept) });
}

export const offer = () => offered;
export const choice = () => chosen;

/** Change part of the choice. */
export function choose(part) {
  chosen = { ...chosen, ...part };
  write("choice", { ...chosen, document: "" }); // a limit that nobody remembers would mislead
  document.dispatchEvent(new CustomEvent("choice"));
}

/** Change one setting; undefined: as the server has it. */
export function setSetting(name, value) {
  const settings = { ...chosen.settings, [name]: value };
  if (value === undefined) delete settings[name];
  choose({ settings });
}

/** Return what goes with a question, or with the session that it belongs to. */
export function scopeAndSettings() {
  const options = {};
  if (chosen.document) options.documents = [chosen.document];
  if (chosen.inject && ["prefetch", "plain"].includes(chosen.method)) options.inject = true;
  if (Object.keys(chosen.settings).length) options.settings = chosen.settings;
  return options;
}
