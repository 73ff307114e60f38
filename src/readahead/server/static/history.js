/** The list of past conversations in the side. */

import { byId, el, icon } from "./dom.js";
import { t } from "./i18n.js";
import { chats, dropChat } from "./store.js";

/**
 * Draw it.
 * @param {string} current the id of the conversation that is open
 * @param {(id: string) => void} open
 * @param {(id: string) => void} gone
 */
export function drawHistory(current, open, gone) {
  const items = chats().map((chat, place) => el(
    "li",
    {},
    el(
      "button",
      { type: "button", "aria-current": chat.id === current ? "true" : null, onclick: () => open(chat.id) },
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
          const left = [...byId("past").children];
          (left[Math.min(place, left.length - 1)]?.lastElementChild ?? byId("new-chat")).focus();
        },
      },
      icon("close"),
    ),
  ));
  byId("past").replaceChildren(...items);
}
