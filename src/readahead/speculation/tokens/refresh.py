"""A drafter whose passages are retrieved again while the answer is being written.

An answer goes on to things that its question did not name, and the passages about them were not
retrieved. *Exact*: what the drafter reads decides about time, never about tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from readahead.lm.base import Cancelled, never
from readahead.lm.sample import SamplingParams
from readahead.speculation.tokens.base import REFRESH, Drafter, OwnTime, Pacer, Proposal
from readahead.text import sentences
from readahead.trace import Trace

_ENDS = (*".!?…。！？；", "\n")


class Refresh(Protocol):
    """Retrieves again, and lets the drafter read what it finds."""

    def __call__(self, sentence: str, *, cancelled: Cancelled = never) -> bool:
        """Return whether the drafter reads anything else now.

        Args:
            sentence: The last one of the answer that has ended.
            cancelled: Asked before every model step.
        """
        ...


class RefreshingDrafter:
    """Drafts as another drafter does, and has its passages retrieved again now and then.

    Args:
        drafter: Drafts.
        refresh: Changes what ``drafter`` reads.
        decode: Token ids to text.
        num_tokens: Of the answer, between one retrieval and the next; then at the next sentence
            that ends.
    """

    def __init__(
        self,
        drafter: Drafter,
        refresh: Refresh,
        decode: Callable[[Sequence[int]], str],
        num_tokens: int,
    ) -> None:
        self._drafter = drafter
        self._refresh = refresh
        self._decode = decode
        self._num_tokens = num_tokens
        self._num_before = 0

    def begin(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> None:
        """Get the drafter ready, with the passages of the question."""
        self._trace = trace or Trace("draft")
        self._num_before = 0
        self._drafter.begin(prompt_ids, params, cancelled=cancelled, trace=trace)

    def propose(
        self,
        new_ids: Sequence[int],
        pacer: Pacer,
        max_tokens: int,
        *,
        with_soft: bool = False,
        cancelled: Cancelled = never,
    ) -> Proposal:
        """Return what the drafter proposes, after another retrieval where it is time for one."""
        num_due = self._num_before + self._num_tokens
        if len(new_ids) >= num_due and not cancelled():
            self._look(new_ids, num_due, cancelled)
        return self._drafter.propose(
            new_ids, pacer, max_tokens, with_soft=with_soft, cancelled=cancelled
        )

    def _look(self, new_ids: Sequence[int], num_due: int, cancelled: Cancelled) -> None:
        """Retrieve again if a sentence has ended since the token number ``num_due``."""
        num_early_chars = len(self._decode(new_ids[: num_due - 1]))
        sentence = last_sentence(self._decode(new_ids), num_early_chars)
        if not sentence:
            return
        self._num_before = len(new_ids)
        own = OwnTime(self._trace, cancelled)
        try:
            with self._trace.span(REFRESH, num_new_tokens=len(new_ids)) as span:
                span.attributes["changed"] = self._refresh(sentence, cancelled=own.cancelled)
        finally:
            span.busy_s -= own.given_s


def last_sentence(text: str, num_early_chars: int = 0) -> str:
    """Return the last sentence that has ended, "" if none has behind ``num_early_chars``."""
    spans = sentences(text)
    if spans and not text.rstrip(" ").endswith(_ENDS):
        spans.pop()
    start, end = spans[-1] if spans else (0, 0)
    return text[start:end] if end > num_early_chars else ""
