/** Small dialogs; the browser keeps the focus in them and closes them on Esc. */

import { byId, el } from "./dom.js";
import { t } from "./i18n.js";

const KEYS = [
  ["Enter", "keys.ask"],
  ["Shift + Enter", "keys.line"],
  ["Esc", "keys.stop"],
  ["Alt + Q", "keys.question"],
  ["Alt + N", "keys.new"],
  ["Alt + C", "keys.chat"],
  ["Alt + L", "keys.library"],
  ["Alt + S", "keys.settings"],
  ["Alt + K", "keys.keys"],
  ["← → ↑ ↓", "keys.timeline"],
];

/** Ask whether to do something that cannot be undone. @returns {Promise<boolean>} */
export function confirmed(question, detail, verb) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("confirm"));
  return new Promise((resolve) => {
    dialog.returnValue = "";
    dialog.replaceChildren(
      el(
        "form",
        { class: "dialog-body", method: "dialog" },
        el("h2", { id: "confirm-title" }, question),
        el("p", {}, detail),
        el(
          "div",
          { class: "dialog-actions" },
          el("button", { class: "ghost", value: "", autofocus: true }, t("cancel")),
          el("button", { class: "button danger", value: "yes" }, verb),
        ),
      ),
    );
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
    dialog.showModal();
  });
}

/** Show the list of keys. */
export function showKeys() {
  const dialog = /** @type {HTMLDialogElement} */ (byId("keys"));
  const rows = KEYS.flatMap(([keys, what]) => [el("dt", {}, el("kbd", {}, keys)), el("dd", {}, t(what))]);
  dialog.replaceChildren(
    el(
      "form",
      { class: "dialog-body", method: "dialog" },
      el("h2", { id: "keys-title" }, t("shortcuts")),
      el("dl", { class: "keys" }, ...rows),
      el("p", { class: "small soft" }, t("keysMac")),
      el("div", { class: "dialog-actions" }, el("button", { class: "ghost", autofocus: true }, t("close"))),
    ),
  );
  if (!dialog.open) dialog.showModal();
}
