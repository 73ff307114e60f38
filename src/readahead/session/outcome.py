"""What came of a guess, told to the trace of a request; changes no answer."""

from __future__ import annotations

from readahead.speculation.retrieval.guess import Start
from readahead.speculation.retrieval.inject import Injected
from readahead.speculation.retrieval.prefetch import Prefetcher
from readahead.trace import Trace


def note_outcome(prefetcher: Prefetcher, start: Start, policy: str, trace: Trace) -> None:
    """Write into the trace of a request what was guessed for it and what of that is used.

    Args:
        prefetcher: Made the guess; it has not begun with the next question yet.
        start: What of the guess was kept.
        policy: By which passages were ordered.
        trace: Gets counters of tokens, and the attributes ``passages`` and ``prefetch``.
    """
    computed = prefetcher.num_computed_tokens
    decoded = trace.counters.get("decoded_ahead_tokens", 0)
    used = start.num_useful_tokens + start.num_pieces_ahead
    trace.count("prompt_tokens", len(start.prompt.token_ids))
    trace.count("computed_ahead_tokens", computed + decoded)
    trace.count("wasted_tokens", computed + decoded - used)
    trace.counters["reused_tokens"] = start.num_ready_tokens
    scores = {hit.passage.id: hit.score for hit in start.found.hits}
    # All that is shown: a trace goes when one of its passages is removed.
    trace.attributes["passages"] = [
        {"id": passage.id, "score": scores.get(passage.id, 0.0)}
        for passage in (*start.prompt.passages, *start.found.context.passages)
    ]
    guessed = prefetcher.prompt
    trace.attributes["prefetch"] = {
        "policy": policy,
        "guessed": [passage.id for passage in guessed.passages] if guessed else [],
        "num_new_passages": len(start.prompt.passages),
        "num_kept_passages": start.num_kept_passages,
        "num_useful_tokens": start.num_useful_tokens,
        "num_answer_tokens_ahead": start.num_pieces_ahead,
    }


def note_injected(injected: Injected, start: Start, trace: Trace) -> None:
    """Add to what ``note_outcome`` wrote that passages were put into the answer."""
    # What was ready behind the place where they stand is read again.
    ready = min(trace.counters["reused_tokens"], start.reading.cache.length)
    trace.counters["reused_tokens"] = ready
    shown = trace.attributes["passages"]
    assert isinstance(shown, list)
    shown += [{"id": hit.passage.id, "score": hit.score} for hit in injected.hits]
