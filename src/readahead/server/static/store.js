/** Preferences and past conversations in this browser; works, forgetfully, where it may keep none. */

const PREFIX = "readahead.";
const MAX_CHATS = 40;
const MAX_CHARS = 2_000_000;
const memory = new Map();

/** Return what is kept under a name, `fallback` if there is nothing or it cannot be read. */
export function read(name, fallback) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? fallback : JSON.parse(text);
  } catch {
    return memory.get(name) ?? fallback;
  }
}

/** Keep a value; return whether the browser has it beyond this page. */
export function write(name, value) {
  memory.set(name, value);
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

/** @typedef {{question: string, answer: object, strokes?: number[][]}} Turn */
/** @typedef {{id: string, title: string, at: number, turns: Turn[]}} Chat */

/** Return the past conversations, the latest first. @returns {Chat[]} */
export function chats() {
  const kept = read("chats", []);
  return Array.isArray(kept) ? kept.filter(isChat) : [];
}

function isChat(chat) {
  return typeof chat?.id === "string" && Array.isArray(chat.turns);
}

/** Keep a conversation in front of the others; the oldest go when there are too many. */
export function keepChat(chat) {
  const all = [chat, ...chats().filter((other) => other.id !== chat.id)].slice(0, MAX_CHATS);
  while (all.length > 1 && JSON.stringify(all).length > MAX_CHARS) all.pop();
  while (!write("chats", all) && all.length > 1) all.pop();
}

export function dropChat(id) {
  write("chats", chats().filter((chat) => chat.id !== id));
}
