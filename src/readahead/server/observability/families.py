"""Which metrics there are: names, units and labels, vLLM's where it has the same; counts nothing.

Labels take few values, none of which comes from a request: no question, name or tenant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Histogram

PREFIX = "readahead_"
Kind = Literal["counter", "gauge", "histogram"]
Metric = Counter | Histogram

_LATENCY_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0, 120.0, 300.0)
_STEP_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


VLLMS = frozenset(
    (
        "request_queue_time_seconds time_to_first_token_seconds inter_token_latency_seconds "
        "e2e_request_latency_seconds request_prefill_time_seconds request_decode_time_seconds "
        "request_success_total prompt_tokens_total generation_tokens_total "
        "prefix_cache_queries_total prefix_cache_hits_total "
        "spec_decode_num_drafts_total spec_decode_num_draft_tokens_total "
        "spec_decode_num_accepted_tokens_total spec_decode_num_accepted_tokens_per_pos_total "
        "num_requests_running num_requests_waiting"
    ).split()
)
"""The names that are vLLM's, there with the prefix ``vllm:``. [vLLM]"""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric.

    Attributes:
        name: Without the prefix, with the unit and, for a counter, ``_total``.
        about: What it counts, one sentence without a full stop.
        labels: Their names.
        buckets: Of a histogram: upper bounds.
    """

    name: str
    kind: Kind
    about: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def full_name(self) -> str:
        """Return the name that ``/metrics`` shows."""
        return PREFIX + self.name

    def made(self, registry: CollectorRegistry) -> Metric:
        """Return the counter or histogram, known to ``registry``."""
        if self.kind == "counter":
            return Counter(self.full_name, self.about, self.labels, registry=registry)
        return Histogram(
            self.full_name, self.about, self.labels, registry=registry, buckets=self.buckets
        )


def _counter(name: str, about: str, *labels: str) -> Family:
    return Family(name, "counter", about, labels)


def _histogram(name: str, about: str, *labels: str, buckets: tuple[float, ...]) -> Family:
    return Family(name, "histogram", about, labels, buckets)


COUNTED = (
    _histogram(
        "request_queue_time_seconds",
        "From the arrival of a request to its turn: others were answered",
        "method",
        buckets=_LATENCY_S,
    ),
    _histogram(
        "time_to_first_token_seconds",
        "From the arrival of a request to the first text of its answer, queue included",
        "method",
        buckets=_LATENCY_S,
    ),
    _histogram(
        "inter_token_latency_seconds",
        "Between two pieces that the model writes of one answer, a token or an accepted run each",
        buckets=_STEP_S,
    ),
    _histogram(
        "e2e_request_latency_seconds",
        "From the arrival of a request to the end of its answer, queue included",
        "method",
        buckets=_LATENCY_S,
    ),
    _histogram(
        "retrieval_seconds",
        "Of an answer spent on retrieval after the question; 0 where it was done ahead",
        "method",
        buckets=_STEP_S,
    ),
    _histogram(
        "model_wait_seconds",
        "Of an answer spent waiting for the model, which was busy, before its first step",
        "method",
        buckets=_STEP_S,
    ),
    _histogram(
        "request_prefill_time_seconds",
        "Of an answer spent on reading its prompt after the question; 0 where it was done ahead",
        "method",
        buckets=_LATENCY_S,
    ),
    _histogram(
        "request_decode_time_seconds",
        "From the first text of an answer to its end",
        "method",
        buckets=_LATENCY_S,
    ),
    _counter("request_success_total", "Answers that came to their end", "finished_reason"),
    _counter(
        "request_failure_total", "Requests under /v1 that were answered by an error", "status"
    ),
    _counter("prompt_tokens_total", "Tokens of the prompts of answers and drafts"),
    _counter("generation_tokens_total", "Tokens of answers and drafts"),
    _counter("computed_tokens_total", "Tokens that went through the target, also ahead"),
    _counter("drafter_tokens_total", "Tokens that went through the drafter"),
    _counter("prefix_cache_queries_total", "Prompt tokens that were looked up in the prefix tree"),
    _counter("prefix_cache_hits_total", "Prompt tokens that were read already, also ahead"),
    _counter("spec_decode_num_drafts_total", "Proposals of draft tokens that were verified"),
    _counter("spec_decode_num_draft_tokens_total", "Draft tokens"),
    _counter("spec_decode_num_accepted_tokens_total", "Draft tokens that were accepted"),
    _counter(
        "spec_decode_num_accepted_tokens_per_pos_total",
        "Draft tokens that were accepted, by their position in the proposal, from 0",
        "position",
    ),
    _counter(
        "prefetch_guesses_total",
        "Questions that something was read ahead for: passages kept, partly kept, or dropped",
        "outcome",
    ),
    _counter("prefetch_reused_tokens_total", "Tokens computed ahead that the answer used"),
    _counter("prefetch_wasted_tokens_total", "Tokens computed ahead that the answer did not use"),
    _counter(
        "drafts_total",
        "Drafts: selected, rejected, without use (by fault), or saved, as the first ones agreed",
        "outcome",
    ),
    _counter("drafts_fallbacks_total", "Questions to drafts that plain RAG answered instead"),
    _counter("abstentions_total", "Answers that say there is none", "method", "reason"),
)
"""What is counted as it happens."""

OBSERVED = (
    Family("num_requests_running", "gauge", "Answers that are written in turns"),
    Family("num_requests_waiting", "gauge", "Requests that wait for their turn"),
    Family("kv_cache_bytes", "gauge", "Memory that prefix trees hold"),
    Family("session_cache_bytes", "gauge", "Memory that sessions hold beside the prefix trees"),
    Family("documents", "gauge", "Documents of all tenants that were asked since the start"),
    Family("jobs", "gauge", "Uploads, by how far they are", ("status",)),
)
"""What is looked up when somebody asks."""

FAMILIES = (*COUNTED, *OBSERVED)
