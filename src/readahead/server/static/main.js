/** Begins the page: places, language, colours, keys. */

import { Chat } from "./chat.js";
import { showKeys } from "./dialogs.js";
import { byId, complain, el, handFocus, hush, icon, isComposing } from "./dom.js";
import { drawHistory } from "./history.js";
import { switchLanguage, t, translate } from "./i18n.js";
import { drawLibrary } from "./library.js";
import { choice, choose, loadOffered, METHODS } from "./preferences.js";
import { drawScope, loadScope } from "./scope.js";
import { drawSettings } from "./settings.js";
import { chatOf, isOfChats, read, write } from "./store.js";

const PLACES = ["chat", "library", "settings"];
const isMac = /Mac|iP/.test(navigator.platform);
const systemTheme = matchMedia("(prefers-color-scheme: dark)");

translate();
const chat = new Chat(drawPast);
drawPast();
go();
theme(read("theme", ""));
drawChoice();
loadOffered().then(() => place() === "settings" && drawSettings(), (error) => complain(error.message));
loadScope();

function drawPast() {
  drawHistory(
    chat.id,
    (id) => {
      const past = chatOf(id);
      if (past && id !== chat.id) chat.renew(past); // else it is open: its answer is written on
      begin();
    },
    (id) => {
      if (id === chat.id) chat.renew();
      drawPast();
    },
  );
}

function begin() {
  drawPast();
  location.hash = "#chat";
  go();
  byId("question").focus();
}

function renew() {
  chat.renew();
  begin();
}

function place() {
  const name = location.hash.slice(1);
  return PLACES.includes(name) ? name : "chat";
}

/** Show the place that the address names. */
function go() {
  const current = place();
  for (const name of PLACES) byId(`view-${name}`).hidden = name !== current;
  for (const link of document.querySelectorAll(".places a")) {
    const isHere = link.getAttribute("href") === `#${current}`;
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  hush();
  document.title = current === "chat" ? "readahead" : `${t(current)} · readahead`;
  if (current === "library") drawLibrary();
  if (current === "settings") drawSettings();
  openSide(false);
  if (location.hash === "#question") byId("question").focus(); // it was hidden when it was gone to
}

/** Fill the two lists of the composer. */
function drawChoice() {
  const { method } = choice();
  byId("method").replaceChildren(...METHODS.map((name) =>
    el("option", { value: name, selected: name === method }, t(`method.${name}`))));
  byId("method").title = t(`about.${method}`);
  drawScope();
}

/** @param {string} name "light", "dark", or "" for that of the system */
function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  write("theme", name);
  drawTheme();
}

function isDark() {
  const name = read("theme", "");
  return name ? name === "dark" : systemTheme.matches;
}

function drawTheme() {
  const name = t(isDark() ? "theme.dark" : "theme.light");
  byId("theme").replaceChildren(icon("theme"), el("span", {}, t("theme", { name })));
}

/** @param {boolean} isOpen of the drawer that the side is on a phone */
function openSide(isOpen) {
  const wasOpen = byId("side").classList.contains("open");
  byId("main").inert = isOpen;
  if (wasOpen && !isOpen) handFocus(byId("side"), byId("menu"));
  byId("side").classList.toggle("open", isOpen);
  byId("menu").setAttribute("aria-expanded", String(isOpen));
  if (isOpen) byId("new-chat").focus();
}

/** Go to a place, the focus as well. */
function visit(name) {
  const arrive = () => byId(`view-${name}`).focus();
  if (place() === name) {
    arrive();
    return;
  }
  window.addEventListener("hashchange", arrive, { once: true });
  location.hash = `#${name}`;
}

const KEYS = {
  KeyN: renew,
  KeyQ: begin,
  KeyC: begin,
  KeyL: () => visit("library"),
  KeyS: () => visit("settings"),
  KeyK: showKeys,
};

function pressed(event) {
  if (isComposing(event)) return;
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    const wasOpen = byId("side").classList.contains("open");
    openSide(false);
    if (wasOpen) byId("menu").focus();
    else chat.stop();
  }
  if (!event.altKey || event.ctrlKey || event.metaKey || !(event.code in KEYS)) return;
  if (document.querySelector("dialog[open]")) return;
  if (isMac && event.target.matches("input, textarea")) return; // there it writes letters: ł, @
  event.preventDefault();
  KEYS[event.code]();
}

window.addEventListener("hashchange", go);
document.addEventListener("keydown", pressed);
document.addEventListener("language", () => {
  chat.draw();
  drawPast();
  drawChoice();
  drawTheme();
  drawScope();
  loadScope();
  go();
});
document.addEventListener("documents", loadScope);
document.addEventListener("choice", drawChoice);
document.addEventListener("chats", () => {
  chat.adopt();
  drawPast();
});
window.addEventListener("storage", (event) => {
  if (!isOfChats(event)) return;
  chat.hear();
  drawPast();
});
byId("new-chat").addEventListener("click", renew);
byId("new-chat-top").addEventListener("click", renew);
byId("menu").addEventListener("click", () => openSide(true));
byId("scrim").addEventListener("click", () => openSide(false));
byId("theme").addEventListener("click", () => theme(isDark() ? "light" : "dark"));
byId("toast-close").addEventListener("click", hush);
systemTheme.addEventListener("change", drawTheme);
matchMedia("(max-width: 860px)").addEventListener("change", () => openSide(false)); // a tablet turned
byId("language").addEventListener("click", switchLanguage);
byId("show-keys").addEventListener("click", showKeys);
byId("method").addEventListener("change", (event) => choose({ method: event.target.value }));
byId("scope").addEventListener("change", (event) => choose({ document: event.target.value }));
