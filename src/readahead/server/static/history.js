/** The list of past conversations in the side. */

import { byId, el, icon } from "./dom.js";
import { t } from "./i18n.js";
import { chats, dropChat } from "./store.js";

/**
 * Draw it.
 * @param {string} current the id of the conversation that is open
 * @param {(chat: import("./store.js").Chat) => void} open
 * @param {(id: string) => void} gone
 */
export function drawHistory(current, open, gone) {
  const items = chats().map((chat) => el(
    "li",
    {},
    el(
      "button",
      { type: "button", "aria-current": chat.id === current ? "true" : null, onclick: () => open(chat) },
      el("span", {}, chat.title),
    ),
    el(
      "button",
      {
        type: "button",
        "aria-label": t("forgetLabel", { title: chat.title }),
        onclick: () => {
          dropChat(chat.id);
          gone(chat.id);
        },
      },
      icon("close"),
    ),
  ));
  byId("past").replaceChildren(...items);
}
