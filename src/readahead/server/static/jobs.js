/** Shows uploads while they are indexed, and what became of them, wherever one has been meanwhile. */

import { get } from "./api.js";
import { byId, el, say } from "./dom.js";
import { count, number, t } from "./i18n.js";
import { told } from "./told.js";

const FIRST_PAUSE_MS = 250; // before asking after the uploads; most are small
const PAUSE_MS = 1000;
const MAX_PAUSE_MS = 30_000; // after failures
const NUM_KEPT = 20; // that are over

/** @type {Map<string, {job: any, item: HTMLElement}>} */
const known = new Map();
let isWatching = false;

/** Draw the list, where there is a place for it. */
export function drawJobs() {
  const all = [...known.values()].sort((one, other) => other.job.created_at - one.job.created_at);
  for (const { job, item } of all) draw(item, job);
  byId("jobs")?.replaceChildren(...all.map(({ item }) => item));
}

/** Show the uploads that the server has still to index, also those from before this page. */
export async function resumeJobs() {
  const { data } = await get("/v1/jobs");
  data.filter((job) => !isOver(job)).forEach(followJob);
}

/** Show a job until it is over, and what became of it; one that is known is followed already. */
export function followJob(job) {
  if (known.has(job.id)) return;
  known.set(job.id, { job, item: el("li", { class: "job" }) });
  dropOldest();
  drawJobs();
  if (isOver(job)) end([job]);
  else watch();
}

function dropOldest() {
  const over = [...known.values()].filter(({ job }) => isOver(job));
  for (const { job } of over.slice(0, -NUM_KEPT)) known.delete(job.id);
}

const unfinished = () => [...known.values()].map(({ job }) => job).filter((job) => !isOver(job));

/** Ask after all of them at once: a browser has six connections to a server, whatever they carry. */
async function watch() {
  if (isWatching) return;
  isWatching = true;
  for (let pauseMs = FIRST_PAUSE_MS; unfinished().length;) {
    await new Promise((resolve) => { setTimeout(resolve, pauseMs); });
    const asked = unfinished();
    try {
      note(asked, (await get("/v1/jobs?limit=1000")).data);
      pauseMs = PAUSE_MS;
    } catch {
      pauseMs = Math.min(MAX_PAUSE_MS, 2 * Math.max(PAUSE_MS, pauseMs));
    }
  }
  isWatching = false;
}

/** Show what the server tells; what it tells of no more was over long ago. */
function note(asked, listed) {
  const told = new Map(listed.map((job) => [job.id, job]));
  const ended = [];
  for (const { id } of asked) {
    const job = told.get(id);
    if (!job) forget(id);
    else {
      known.get(id).job = job;
      draw(known.get(id).item, job);
    }
    if (!job || isOver(job)) ended.push(job);
  }
  if (ended.length) end(ended);
}

function end(jobs) {
  const last = jobs.filter(Boolean).at(-1);
  if (last) say(summary(last));
  document.dispatchEvent(new CustomEvent("documents"));
}

function forget(id) {
  known.get(id).item.remove();
  known.delete(id);
}

const isOver = (job) => job.status === "done" || job.status === "failed";

function draw(item, job) {
  const name = (job.files ?? []).join(", ");
  item.replaceChildren(
    el("span", {}, el("b", {}, name), " · ", summary(job)),
    ...(isOver(job) ? [] : [el("progress", { ...progress(job), "aria-label": name })]),
    ...(job.failed ?? []).map((one) => el("span", { class: "bad" }, `${one.path}: ${told(one.reason)}`)),
    ...(job.error ? [el("span", { class: "bad" }, told(job.error))] : []),
  );
  item.dataset.status = job.status;
}

/** Return how far a job is: by files or, where there is but one, by passages. */
function progress(job) {
  const total = job.num_files || job.files?.length || 1;
  if (total === 1 && isEncoding(job)) return { max: job.to_encode, value: job.encoded };
  return { max: total, value: job.num_done ?? 0 };
}

const isEncoding = (job) => job.status === "running" && job.to_encode > job.encoded;

function summary(job) {
  if (job.status === "queued") return t("jobQueued");
  if (isEncoding(job)) return t("jobEncoding", { n: number(job.encoded), m: number(job.to_encode) });
  if (job.status === "running") return t("jobRunning");
  if (job.status === "failed") return t("jobFailed");
  const numDone = (job.added ?? 0) + (job.replaced ?? 0) + (job.unchanged ?? 0);
  return `${count("numFiles", numDone)} · ${count("numPassages", job.passages ?? 0)}`;
}
