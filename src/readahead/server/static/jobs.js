/** Shows uploads while they are indexed, and what became of them, wherever one has been meanwhile. */

import { events, get, send } from "./api.js";
import { byId, el, say } from "./dom.js";
import { count, number, t } from "./i18n.js";
import { told } from "./told.js";

const PAUSE_MS = 1000; // before asking after a job whose events ended early; longer after failures
const MAX_PAUSE_MS = 30_000;
const NUM_KEPT = 20; // that are over

/** @type {Map<string, {job: any, item: HTMLElement}>} */
const known = new Map();

/** Draw the list, where there is a place for it. */
export function drawJobs() {
  const all = [...known.values()].sort((one, other) => other.job.created_at - one.job.created_at);
  for (const { job, item } of all) draw(item, job);
  byId("jobs")?.replaceChildren(...all.map(({ item }) => item));
}

/** Show the uploads that the server has still to index, also those from before this page. */
export async function resumeJobs() {
  const { data } = await get("/v1/jobs");
  for (const job of data) if (!isOver(job)) followJob(job);
}

/** Show a job, and follow it to its end; one that is known is followed already. */
export async function followJob(job) {
  if (known.has(job.id)) return;
  known.set(job.id, { job, item: el("li", { class: "job" }) });
  dropOldest();
  drawJobs();
  await follow(job.id);
  const last = known.get(job.id)?.job;
  if (last) say(summary(last));
  document.dispatchEvent(new CustomEvent("documents"));
}

function dropOldest() {
  const over = [...known.values()].filter(({ job }) => isOver(job));
  for (const { job } of over.slice(0, -NUM_KEPT)) known.delete(job.id);
}

async function follow(id) {
  if (isOver(known.get(id).job)) return;
  try {
    for await (const now of events(await send("GET", `/v1/jobs/${id}/events`))) note(now);
  } catch { /* it is asked after */ }
  let pauseMs = PAUSE_MS;
  while (!isOver(known.get(id).job)) {
    await new Promise((resolve) => { setTimeout(resolve, pauseMs); });
    try {
      note(await get(`/v1/jobs/${id}`));
      pauseMs = PAUSE_MS;
    } catch (error) {
      if (error.status === 404) {
        forget(id); // over for long
        return;
      }
      pauseMs = Math.min(MAX_PAUSE_MS, 2 * pauseMs);
    }
  }
}

function note(job) {
  const one = known.get(job.id);
  one.job = job;
  draw(one.item, job);
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
