/** Preferences and past conversations in this browser; works, forgetfully, where it may keep none. */

const PREFIX = "readahead.";
const MAX_CHATS = 40;
const MAX_CHARS = 2_000_000;
const unsaved = new Map(); // what the browser would not keep

/** Return what is kept under a name, `fallback` if there is nothing or it cannot be read. */
export function read(name, fallback) {
  if (unsaved.has(name)) return unsaved.get(name);
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? fallback : JSON.parse(text);
  } catch {
    return fallback;
  }
}

/** Keep a value; return whether the browser has it beyond this page. */
export function write(name, value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
    unsaved.delete(name);
    return true;
  } catch {
    unsaved.set(name, value);
    return false;
  }
}

/** Return whether another page has changed the conversations. @param {StorageEvent} event */
export const isOfChats = ({ key }) => key === null || key === `${PREFIX}chats`;

/** @typedef {{question: string, answer: object, strokes?: number[][]}} Turn */
/** @typedef {{id: string, title: string, at: number, turns: Turn[]}} Chat */

/** Return whether an answer came to its end: only such are gone on from. @param {Turn} turn */
export const isWhole = ({ answer }) => Boolean(answer.text) && !answer.stopped && !answer.failed;

/** Return a turn as the exchange that later questions may refer to. @param {Turn} turn */
export const exchangeOf = ({ question, answer }) => ({ question, answer: answer.text });

/** Return the past conversations, the latest first. @returns {Chat[]} */
export function chats() {
  const kept = read("chats", []);
  return Array.isArray(kept) ? kept.filter(isChat) : [];
}

function isChat(chat) {
  return typeof chat?.id === "string" && Array.isArray(chat.turns);
}

/** Return one of them as it is kept now. @returns {Chat|undefined} */
export const chatOf = (id) => chats().find((chat) => chat.id === id);

/**
 * Add a turn to what is kept of a conversation by now: another page may have added some, too.
 * @param {string} id
 * @param {Turn} turn
 * @param {Turn|null} replaced the one that makes room for it
 * @returns {Turn[]} all turns of the conversation
 */
export function keepTurn(id, turn, replaced = null) {
  const turns = [...(chatOf(id)?.turns ?? [])];
  const at = replaced ? turns.map(asText).lastIndexOf(asText(replaced)) : -1;
  if (at >= 0) turns.splice(at, 1);
  turns.push(turn);
  keepChat({ id, title: turns[0].question.slice(0, 80), at: Date.now(), turns });
  return turns;
}

const asText = (value) => JSON.stringify(value);

/** Keep a conversation in front of the others; the oldest go when there are too many. */
function keepChat(chat) {
  const all = [chat, ...chats().filter((other) => other.id !== chat.id)].slice(0, MAX_CHATS);
  while (all.length > 1 && asText(all).length > MAX_CHARS) all.pop();
  for (let num = all.length; num > 0; num -= 1) if (write("chats", all.slice(0, num))) return;
  write("chats", all); // in this page only, but all of them
}

export function dropChat(id) {
  write("chats", chats().filter((chat) => chat.id !== id));
}

/** Drop the turns that cite a document, and the conversations of which nothing is left. */
export function dropCiting(id, name) {
  const cites = ({ answer }) => sourcesOf(answer).some((one) => one.document === name || one.document_id === id);
  const left = chats().map((chat) => ({ ...chat, turns: chat.turns.filter((turn) => !cites(turn)) }));
  write("chats", left.filter((chat) => chat.turns.length));
}

/** Return all that an answer shows of documents: what it cites, and what its audit does. */
function sourcesOf({ citations = [], audit }) {
  const audits = withSteps(audit);
  const evidence = audits.flatMap((one) => one.candidates ?? []).flatMap((one) => one.evidence ?? []);
  const read = audits.flatMap((one) => one.drafts ?? []).flatMap((draft) => draft.passages ?? []);
  return [...citations, ...evidence, ...read.map((passage) => ({ document_id: passage.split(".")[0] }))];
}

const withSteps = (audit) => (audit ? [audit, ...(audit.steps ?? []).flatMap(withSteps)] : []);
