/** Shows an upload while it is indexed. */

import { events, send } from "./api.js";
import { el, say } from "./dom.js";
import { count, t } from "./i18n.js";
import { told } from "./told.js";

/**
 * Follow a job to its end.
 * @param {any} job
 * @param {HTMLElement} list
 */
export async function showJob(job, list) {
  const item = el("li", { class: "job" });
  list.prepend(item);
  draw(item, job);
  let last = job;
  if (!isOver(job)) {
    for await (const now of events(await send("GET", `/v1/jobs/${job.id}/events`))) {
      last = now;
      draw(item, now);
      if (isOver(now)) break;
    }
  }
  say(summary(last));
  document.dispatchEvent(new CustomEvent("documents"));
}

const isOver = (job) => job.status === "done" || job.status === "failed";

function draw(item, job) {
  const total = job.num_files || job.files?.length || 1;
  const name = (job.files ?? []).join(", ");
  item.replaceChildren(
    el("span", {}, el("b", {}, name), " · ", summary(job)),
    ...(isOver(job) ? [] : [el("progress", { max: total, value: job.num_done ?? 0, "aria-label": name })]),
    ...(job.failed ?? []).map((one) => el("span", { class: "bad" }, `${one.path}: ${told(one.reason)}`)),
    ...(job.error ? [el("span", { class: "bad" }, told(job.error))] : []),
  );
  item.dataset.status = job.status;
}

function summary(job) {
  if (!isOver(job)) return t(job.status === "queued" ? "jobQueued" : "jobRunning");
  if (job.status === "failed") return t("jobFailed");
  const numDone = (job.added ?? 0) + (job.replaced ?? 0) + (job.unchanged ?? 0);
  return `${count("numFiles", numDone)} · ${count("numPassages", job.passages ?? 0)}`;
}
