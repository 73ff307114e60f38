/** Draws an answer on one time axis: what was guessed, checked, read and written, and when. */

import { el, svg } from "./dom.js";
import { named, number, seconds, t } from "./i18n.js";
import { lanesOf, placeOnAxis } from "./lanes.js";
import { versus } from "./versus.js";

const NAME_WIDTH = 96;
const LANE = 30;
const BAR = 16;
const TOP = 26;
const MIN_BAR = 2.5;
const PALE = 0.62;
const MIN_LABEL = 13;
const GAP_MARGIN = 24; // pixels without figures around a gap
const MAX_PARTS = 24; // of one round, drawn one by one

/** @typedef {import("./lanes.js").Item} Item */

/**
 * Return the panel with the timeline of a trace.
 * @param {import("./lanes.js").Trace} trace
 * @param {{method: string, timing: any, usage: any, numWritten: number}} answer
 * @param {number[][]} [strokes]
 */
export function timelinePanel(trace, answer, strokes) {
  const told = lanesOf(trace, strokes);
  told.lanes = told.lanes.filter((lane) => lane.items.length);
  const explain = el("p", { class: "explain" }, t("explainHint"));
  const canvas = el("div", { class: "timeline-canvas" });
  let width = 0;
  const draw = () => {
    if (!canvas.clientWidth || canvas.clientWidth === width) return;
    width = canvas.clientWidth;
    canvas.replaceChildren(drawing(told, width, explain));
  };
  new ResizeObserver(draw).observe(canvas);
  return el(
    "section",
    { class: "panel timeline", "aria-label": t("timeline") },
    el("div", { class: "panel-head" }, el("h3", {}, t("timeline")), legend(told)),
    canvas,
    explain,
    versus(trace, answer),
    el("details", {}, el("summary", {}, t("asTable")), el("div", { class: "scroll" }, table(trace))),
  );
}

function legend(told) {
  const isReadAhead = told.lanes.some((lane) => lane.items.some((item) => item.aheadUntil));
  const isDrafted = told.lanes.some((lane) => lane.items.some((item) => item.kind === "round"));
  return el(
    "p",
    { class: "legend" },
    isReadAhead && el("span", {}, t("legendAhead")),
    isDrafted && el("span", {}, t("legendRounds")),
  );
}

function drawing(told, width, explain) {
  const left = width < 460 ? 0 : NAME_WIDTH;
  const lane = left ? LANE : LANE + 14; // narrow: names stand above their lanes
  const height = TOP + told.lanes.length * lane + 22;
  const placeOf = (at) => placeOnAxis(at, told.start, told.gaps);
  const length = placeOf(told.end);
  const scale = (at) => left + (placeOf(at) / length) * (width - left - 6) + 1;
  const root = svg("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": t("timelineLabel"),
  });
  root.append(...axis(told, length, scale, height), ...told.gaps.map((gap) => breakMark(gap, scale, height)));
  const drawn = told.lanes.map(({ key, items }, row) => {
    const middle = TOP + row * lane + lane / 2 + (left ? 0 : 6);
    root.append(...frame(key, middle, left, width));
    return items.map((item) => itemNode(item, key, middle, scale, explain));
  });
  root.append(...drawn.flatMap(shortOnTop));
  rove(root, drawn);
  return root;
}

/** Return the items of a lane so that what is short is drawn over what is long. */
function shortOnTop(nodes) {
  const width = (node) => Number(node.firstElementChild.getAttribute("width") ?? 0);
  return [...nodes].sort((a, b) => width(b) - width(a));
}

function frame(key, middle, left, width) {
  const name = svg("text", { class: "lane-name", x: 0, y: left ? middle + 4 : middle - 12 });
  name.append(t(`lane.${key}`));
  return [svg("line", { class: "rule", x1: left, x2: width, y1: middle, y2: middle }), name];
}

/** Return what stands for a while in which nothing happened. */
function breakMark(gap, scale, height) {
  const [from, to] = [scale(gap.start), scale(gap.end)];
  const middle = (from + to) / 2;
  const text = svg("text", { x: middle, y: height - 4, "text-anchor": "middle" });
  text.append(`… ${seconds(gap.end - gap.start)} …`);
  const d = `M${from} ${TOP}V${height - 18}M${to} ${TOP}V${height - 18}`;
  return svg("g", { class: "break" }, svg("path", { d }), text);
}

function axis(told, length, scale, height) {
  const step = niceStep(length / 7);
  const gapAt = (at) => told.gaps.find((gap) =>
    scale(at) > scale(gap.start) - GAP_MARGIN && scale(at) < scale(gap.end) + GAP_MARGIN);
  const nodes = [];
  for (let tick = Math.ceil((told.start - told.asked) / step); tick * step <= told.end - told.asked + 1e-9; tick += 1) {
    const at = tick * step;
    const gap = gapAt(told.asked + at);
    if (gap) {
      tick = Math.max(tick, Math.floor((gap.end - told.asked) / step));
      continue;
    }
    const x = scale(told.asked + at);
    const text = svg("text", { x, y: height - 4, "text-anchor": "middle" });
    text.append(`${number(Math.abs(at) < 1e-9 ? 0 : at, step < 0.1 ? 2 : step < 1 ? 1 : 0)} s`);
    nodes.push(svg("line", { class: "rule", x1: x, x2: x, y1: TOP, y2: height - 18 }), text);
  }
  const asked = scale(told.asked);
  const marks = [[asked, told.asked > told.start ? t("enter") : ""]];
  if (told.first) marks.push([scale(told.first), t("firstToken")]);
  marks.forEach(([x, name], place) => {
    if (!name) return;
    const isClose = place === 1 && x - asked < 76 && told.asked > told.start;
    const y = isClose ? 10 : 20;
    const anchor = x > scale(told.end) - 70 ? "end" : place === 0 && x > 60 ? "end" : "start";
    const text = svg("text", { class: "moment-name", x: anchor === "end" ? x - 4 : x + 4, y, "text-anchor": anchor });
    text.append(name);
    nodes.push(svg("line", { class: "moment", x1: x, x2: x, y1: y - 8, y2: height - 18 }), text);
  });
  return nodes;
}

/** Return 1, 2 or 5 times a power of ten, at least `value`. */
export function niceStep(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-3)));
  return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= value) ?? power;
}

/** @param {Item} item */
function itemNode(item, key, middle, scale, explain) {
  const x = scale(item.start);
  const width = Math.max(MIN_BAR, scale(item.end) - x);
  const group = svg("g", {
    class: `item lane-${key}`, role: "img", tabindex: -1, "aria-label": `${item.title}: ${item.text}`,
  });
  const split = item.aheadUntil === undefined ? x : scale(item.aheadUntil);
  group.append(...shapes(item, x, width, middle, split));
  const tell = () => {
    group.parentNode?.querySelector(".chosen")?.classList.remove("chosen");
    group.classList.add("chosen");
    explain.replaceChildren(el("b", {}, item.title), " · ", item.text);
  };
  group.addEventListener("mouseenter", tell);
  group.addEventListener("focus", tell);
  return group;
}

/** Return what is drawn of an item; what lies before `split` is paler. */
function shapes(item, x, width, middle, split) {
  if (item.kind === "tick") {
    const area = { x: x - 4, y: middle - 10, width: 8, height: 20, fill: "transparent" };
    const tick = { class: "shape", x: x - 1, y: middle - 7, width: 2, height: 14, rx: 1 };
    return [svg("rect", area), svg("rect", tick)];
  }
  if (item.kind === "diamond") {
    const d = `M${x} ${middle - 7}l7 7-7 7-7-7z`;
    return [svg("path", { class: item.isHollow ? "shape hollow" : "shape", d })];
  }
  if (item.kind === "round" && item.drafted) return parts(item, x, width, middle);
  const height = item.kind === "round" ? 4 : BAR;
  const gap = item.kind === "round" || width < 6 ? 0 : 1;
  const rect = (from, to, opacity) => svg("rect", {
    class: "shape", x: from, y: middle - height / 2, width: Math.max(MIN_BAR, to - from), height,
    rx: Math.min(4, width / 2), opacity,
  });
  const end = x + width - gap;
  const isWhole = split - x < MIN_BAR || end - split < MIN_BAR;
  const label = item.run && width >= MIN_LABEL ? runLabel(item.run, x + width / 2, middle) : null;
  if (isWhole) return [rect(x, end, split > x + MIN_BAR ? PALE : 1), label].filter(Boolean);
  return [rect(x, split, PALE), rect(split, end, 1)];
}

/** Return the number of tokens that one forward pass gave. */
function runLabel(run, x, middle) {
  const text = svg("text", { class: "run", x, y: middle + 4, "text-anchor": "middle" });
  text.append(String(run));
  return text;
}

/** Return a cell for each draft token: filled if it was accepted. */
function parts(item, x, width, middle) {
  const num = Math.min(item.drafted, MAX_PARTS);
  const each = Math.min(7, (width - 2) / num);
  const frame = svg("rect", { class: "shape", x, y: middle - BAR / 2, width, height: BAR, fill: "transparent" });
  if (each < 1.6) {
    const share = (item.accepted / item.drafted) * width;
    return [
      svg("rect", { class: "part no", x, y: middle - BAR / 2, width, height: BAR }),
      svg("rect", { class: "part", x, y: middle - BAR / 2, width: Math.max(share, 0.1), height: BAR }),
    ];
  }
  const cells = Array.from({ length: num }, (_, place) => svg("rect", {
    class: place < item.accepted ? "part" : "part no",
    x: x + place * each + 0.5, y: middle - BAR / 2 + 2, width: Math.max(1, each - 1.5), height: BAR - 4, rx: 1,
  }));
  return [frame, ...cells];
}

/** Make one tab stop of all items: arrows go on in time, or to the next lane. */
function rove(root, drawn) {
  const rows = drawn.filter((items) => items.length);
  if (!rows.length) return;
  rows[0][0].setAttribute("tabindex", "0");
  root.addEventListener("keydown", (event) => {
    const row = rows.findIndex((items) => items.includes(event.target));
    const column = row < 0 ? -1 : rows[row].indexOf(event.target);
    const next = {
      ArrowRight: rows[row]?.[column + 1],
      ArrowLeft: rows[row]?.[column - 1],
      ArrowDown: rows[row + 1]?.[0],
      ArrowUp: rows[row - 1]?.[0],
    }[event.key];
    if (!next) return;
    event.preventDefault();
    event.target.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}

function table(trace) {
  const names = ["span", "start", "busy", "steps"].map((key) => el("th", { scope: "col" }, t(`table.${key}`)));
  const rows = trace.spans.map((span) => el(
    "tr", {},
    el("td", {}, named("span", span.name)),
    el("td", { class: "num" }, seconds(span.start_s)),
    el("td", { class: "num" }, seconds(span.busy_s)),
    el("td", { class: "num" }, number(span.count)),
  ));
  return el("table", {}, el("thead", {}, el("tr", {}, ...names)), el("tbody", {}, ...rows));
}

