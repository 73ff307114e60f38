/** What stands where a conversation has not begun. */

import { el } from "./dom.js";
import { t } from "./i18n.js";

export function welcome() {
  return el(
    "div",
    { class: "welcome" },
    el("img", { src: "/static/icon.svg", alt: "" }),
    el("h1", {}, t("welcome")),
    el("p", {}, t("welcomeText")),
    el("p", {}, el("a", { href: "#library" }, t("welcomeLibrary"))),
  );
}
