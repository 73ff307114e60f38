"""/metrics: what Prometheus reads; one registry a service, fed by finished traces."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import prometheus_client
from anyio import to_thread
from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from readahead.engine import Engine
from readahead.errors import StoreError
from readahead.lm.generate import Piece
from readahead.lm.reuse import PrefixReader
from readahead.reply import PIECE_STEP, RETRIEVAL_SPANS
from readahead.server.observability.families import COUNTED, FAMILIES, OBSERVED, VLLMS
from readahead.server.observability.outcomes import (
    abstention_of,
    asked_s,
    drafts_of,
    guess_of,
    has_fallen_back,
    method_of,
    number,
    rounds_of,
)
from readahead.server.observability.serving import arrived_s
from readahead.trace import Trace

if TYPE_CHECKING:
    from readahead.server.state import Service

router = APIRouter()


class Metrics:
    """Counts what a service does; may be used from several threads.

    Args:
        service: Whose it is; asked for what it does now when somebody reads the metrics.
    """

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        self._metrics = {family.name: family.made(self.registry) for family in COUNTED}
        self.registry.register(_Now(service))
        ProcessCollector(registry=self.registry)

    def saw(self, trace: Trace) -> None:
        """Count a finished request."""
        if "e2e_s" in trace.attributes:
            self._answered(trace)
        for gap_s in trace.gaps_s(PIECE_STEP):
            self._observe("inter_token_latency_seconds", gap_s)
        self._used(trace)
        self._guessed(trace)
        self._drafted(trace)
        for num_drafted, num_accepted in rounds_of(trace):
            self._verified(num_drafted, num_accepted)

    def failed(self, status: int) -> None:
        """Count a request that was answered by an error."""
        self._add("request_failure_total", 1, str(status))

    def timed(self, pieces: Generator[Piece]) -> Generator[Piece]:
        """Yield the pieces of one answer of the bare target, and measure the time between them.

        Its trace may have several answers; one from documents has a trace of its own, see ``saw``.
        """
        last_s: float | None = None
        with closing(pieces):
            for piece in pieces:
                now_s = time.perf_counter()
                if last_s is not None:
                    self._observe("inter_token_latency_seconds", now_s - last_s)
                last_s = now_s
                yield piece

    def _answered(self, trace: Trace) -> None:
        method, since_s = method_of(trace), asked_s(trace)
        before_s = since_s - arrived_s(trace)
        reason = str(trace.attributes["finish_reason"])
        self._add("request_success_total", 1, reason)
        if reason == "cancelled":  # how long it took is the client's doing
            return
        e2e_s, ttft_s = number(trace, "e2e_s"), number(trace, "ttft_s")
        self._observe("request_queue_time_seconds", number(trace, "queue_s"), method)
        self._observe("e2e_request_latency_seconds", before_s + e2e_s, method)
        if ttft_s:
            self._observe("time_to_first_token_seconds", before_s + ttft_s, method)
            self._observe("request_decode_time_seconds", e2e_s - ttft_s, method)
        if method != "bare":
            retrieval_s = sum(trace.total_s(name, since_s) for name in RETRIEVAL_SPANS)
            self._observe("retrieval_seconds", retrieval_s, method)
        self._observe("model_wait_seconds", trace.total_s("wait", since_s), method)
        self._observe("request_prefill_time_seconds", trace.total_s("prefill", since_s), method)
        if why := abstention_of(trace):
            self._add("abstentions_total", 1, method, why)

    def _used(self, trace: Trace) -> None:
        """Count tokens; also of what was cancelled or failed."""
        counters = trace.counters
        num_prompt = counters.get("prompt_tokens", 0)
        self._add("prompt_tokens_total", num_prompt)
        self._add("generation_tokens_total", counters.get("completion_tokens", 0))
        self._add("computed_tokens_total", counters.get("computed_tokens", 0))
        self._add("drafter_tokens_total", counters.get("drafter_tokens", 0))
        if "reused_tokens" in counters:  # the others are read without the tree
            self._add("prefix_cache_queries_total", num_prompt)
            self._add("prefix_cache_hits_total", min(counters["reused_tokens"], num_prompt))

    def _guessed(self, trace: Trace) -> None:
        if outcome := guess_of(trace):
            num_ahead = trace.counters.get("computed_ahead_tokens", 0)
            num_wasted = trace.counters.get("wasted_tokens", 0)
            self._add("prefetch_guesses_total", 1, outcome)
            self._add("prefetch_wasted_tokens_total", num_wasted)
            self._add("prefetch_reused_tokens_total", num_ahead - num_wasted)

    def _drafted(self, trace: Trace) -> None:
        for outcome, num_drafts in drafts_of(trace).items():
            self._add("drafts_total", num_drafts, outcome)
        self._add("drafts_fallbacks_total", int(has_fallen_back(trace)))

    def _verified(self, num_drafted: int, num_accepted: int) -> None:
        self._add("spec_decode_num_drafts_total", 1)
        self._add("spec_decode_num_draft_tokens_total", num_drafted)
        self._add("spec_decode_num_accepted_tokens_total", num_accepted)
        for place in range(num_accepted):
            self._add("spec_decode_num_accepted_tokens_per_pos_total", 1, str(place))

    def _add(self, name: str, amount: float, *labels: str) -> None:
        metric = self._metrics[name]
        assert isinstance(metric, prometheus_client.Counter)
        (metric.labels(*labels) if labels else metric).inc(max(0, amount))

    def _observe(self, name: str, value: float, *labels: str) -> None:
        metric = self._metrics[name]
        assert isinstance(metric, prometheus_client.Histogram)
        (metric.labels(*labels) if labels else metric).observe(value)


class _Now(Collector):
    """Looks up what a service does and holds at this moment."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield what there is to know, so that no name is given twice."""
        for family in OBSERVED:
            yield GaugeMetricFamily(family.full_name, family.about, labels=family.labels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield it with its values."""
        values = self._values()
        for family in OBSERVED:
            gauge = GaugeMetricFamily(family.full_name, family.about, labels=family.labels)
            for labels, value in values[family.name].items():
                gauge.add_metric(list(labels), value)
            yield gauge

    def _values(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Return values by metric and labels."""
        admission = self._service.admission
        tenants = self._service.open_tenants()
        jobs = Counter[tuple[str, ...]]((job.status,) for tenant in tenants for job in tenant.jobs)
        return {
            "num_requests_running": {(): admission.num_running},
            "num_requests_waiting": {(): admission.num_queued},
            "kv_cache_bytes": {(): sum(_num_cache_bytes(tenant.engine) for tenant in tenants)},
            "session_cache_bytes": {(): sum(tenant.sessions.num_bytes for tenant in tenants)},
            "documents": {(): sum(_num_documents(tenant.engine) for tenant in tenants)},
            "jobs": dict(jobs),
        }


def _num_cache_bytes(engine: Engine) -> int:
    """Return what its prefix tree holds, if it has read anything yet."""
    reader = vars(engine).get("reader")
    return reader.tree.num_bytes if isinstance(reader, PrefixReader) else 0


def _num_documents(engine: Engine) -> int:
    with suppress(StoreError):  # busy, or closed just now: the next reading will tell
        return len(engine.knowledge.store.live_versions())
    return 0


@router.get("/metrics", include_in_schema=False)
async def show(request: Request) -> Response:
    """Return all metrics, as Prometheus reads them."""
    service: Service = request.app.state.service
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    registry = service.metrics.registry
    body = await to_thread.run_sync(encode, registry, limiter=service.probes)
    return Response(body, media_type=content_type)


def table() -> str:
    """Return what there is as a table in Markdown, for the documentation."""
    rows = [
        f"| `{family.full_name}` | {'vLLM' if family.name in VLLMS else 'ours'} | {family.kind} | "
        f"{' '.join(f'`{label}`' for label in family.labels)} | {family.about} |"
        for family in FAMILIES
    ]
    head = ["| metric | name | kind | labels | what it tells |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])
