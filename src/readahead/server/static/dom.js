/** Builds elements; text goes in as text, never as markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Return an element. Keys of `props` that begin with "on" are listeners, `class` and `aria-…` are
 * attributes, the others properties if the element has them.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...(Node|string|null|undefined|false)} children
 * @returns {HTMLElement}
 */
export function el(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class" || name === "role" || name.includes("-") || !(name in element)) {
      element.setAttribute(name, value === true ? "" : value);
    } else element[name] = value;
  }
  element.append(...children.filter((child) => child || child === 0 || child === ""));
  return element;
}

/** Return an SVG element with attributes. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter(Boolean));
  return element;
}

/** Return one of the drawings of icons.svg; it says nothing, the control's label does. */
export function icon(name) {
  const use = svg("use", { href: `/static/icons.svg#${name}` });
  return svg("svg", { class: "icon", "aria-hidden": "true", viewBox: "0 0 24 24" }, use);
}

/** Return whether a key belongs to the writing of a character; Safari tells so by its code only. */
export const isComposing = (event) => event.isComposing || event.keyCode === 229;

export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** Tell a screen reader something that others see; what is said twice running is heard twice. */
export function say(text) {
  const place = byId("said");
  place.textContent = place.textContent === text ? `${text}\u00a0` : text;
}

/** Let the focus go on to `next` where it is on something that is about to go. */
export function handFocus(gone, next) {
  if (gone.contains(document.activeElement)) next?.focus({ preventScroll: true });
}

let hiding = 0;

/** Show that something went wrong, for a while. */
export function complain(text) {
  byId("toast").hidden = false;
  byId("toast-text").textContent = text;
  clearTimeout(hiding);
  hiding = setTimeout(hush, 8000);
}

/** Take away what `complain` shows. */
export function hush() {
  handFocus(byId("toast"), byId("main"));
  byId("toast").hidden = true;
  byId("toast-text").textContent = "";
}
