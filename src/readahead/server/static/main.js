/** Begins the page: places, language, colours, keys. */

import { get } from "./api.js";
import { labelsOf } from "./citations.js";
import { Chat } from "./chat.js";
import { showKeys } from "./dialogs.js";
import { byId, complain, el, handFocus, hush, icon } from "./dom.js";
import { drawHistory } from "./history.js";
import { switchLanguage, t, translate } from "./i18n.js";
import { drawLibrary } from "./library.js";
import { choice, choose, loadOffered, METHODS } from "./preferences.js";
import { drawSettings } from "./settings.js";
import { read, write } from "./store.js";

const PLACES = ["chat", "library", "settings"];
const MAX_SCOPE = 200; // documents offered to choose one from
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
    (past) => {
      chat.renew(past);
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

function drawScope() {
  const { document: limit } = choice();
  const scope = /** @type {HTMLSelectElement} */ (byId("scope"));
  if (scope.options.length) scope.options[0].text = t("allDocuments");  // before the list comes
  scope.value = limit;
  scope.classList.toggle("limited", Boolean(limit));
}

async function loadScope() {
  let listed = [];
  try {
    listed = (await get(`/v1/documents?limit=${MAX_SCOPE}`)).data;
  } catch { /* the library says what is wrong */ }
  if (!listed.some((one) => String(one.id) === choice().document)) choose({ document: "" });
  const labels = labelsOf(listed.map((one) => one.name));
  const options = listed.map((one, place) => el("option", { value: String(one.id) }, labels[place]));
  byId("scope").replaceChildren(el("option", { value: "" }, t("allDocuments")), ...options);
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

const KEYS = {
  KeyN: renew,
  KeyQ: begin,
  KeyC: begin,
  KeyL: () => { location.hash = "#library"; },
  KeyS: () => { location.hash = "#settings"; },
  KeyK: showKeys,
};

function pressed(event) {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    const wasOpen = byId("side").classList.contains("open");
    openSide(false);
    if (wasOpen) byId("menu").focus();
    else chat.stop();
  }
  if (!event.altKey || event.ctrlKey || event.metaKey || !(event.code in KEYS)) return;
  if (document.querySelector("dialog[open]")) return;
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
byId("new-chat").addEventListener("click", renew);
byId("new-chat-top").addEventListener("click", renew);
byId("menu").addEventListener("click", () => openSide(true));
byId("scrim").addEventListener("click", () => openSide(false));
byId("theme").addEventListener("click", () => theme(isDark() ? "light" : "dark"));
byId("toast-close").addEventListener("click", hush);
systemTheme.addEventListener("change", drawTheme);
byId("language").addEventListener("click", switchLanguage);
byId("show-keys").addEventListener("click", showKeys);
byId("method").addEventListener("change", (event) => {
  choose({ method: event.target.value });
  chat.strip.rest();
});
byId("scope").addEventListener("change", (event) => choose({ document: event.target.value }));
