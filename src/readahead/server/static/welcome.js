/** What stands where a conversation has not begun. */

import { get } from "./api.js";
import { labelsOf } from "./citations.js";
import { el } from "./dom.js";
import { t } from "./i18n.js";

const NUM_NAMED = 3;

export function welcome() {
  const library = el("p", {}, link("welcomeLibrary"));
  nameDocuments(library).catch(() => {}); // then it stays as it is: whoever asks is told why
  return el(
    "div",
    { class: "welcome" },
    el("img", { src: "/static/icon.svg", alt: "" }),
    el("h1", {}, t("welcome")),
    el("p", {}, t("welcomeText")),
    library,
  );
}

/** Tell which documents there are, the newest ones by name. */
async function nameDocuments(library) {
  const { data, has_more: hasMore } = await get(`/v1/documents?limit=${NUM_NAMED}`);
  if (!data.length) return;
  const names = labelsOf(data.map((info) => info.name)).join(t("listComma")) + (hasMore ? " …" : "");
  library.replaceChildren(t("welcomeDocuments", { names }), " ", link("welcomeOpen"));
}

const link = (key) => el("a", { href: "#library" }, t(key));
