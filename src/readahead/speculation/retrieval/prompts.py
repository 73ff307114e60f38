"""The prompts of guesses: which passages, in which order; reads none of them."""

from __future__ import annotations

from collections.abc import Sequence

from readahead.config import PrefetchConfig
from readahead.lm.prompt import Prompt, build_prompt, num_tokens
from readahead.lm.reuse import PrefixReader, Reading
from readahead.speculation.retrieval.gate import Decision
from readahead.speculation.retrieval.guess import Found, Request
from readahead.speculation.retrieval.order import Known, order_passages
from readahead.speculation.retrieval.plan import plan_passages
from readahead.types import Passage


class Prompts:
    """Builds prompts along what a reader knows.

    Args:
        reader: Knows what was read.
        config: Names the policy and the thresholds.
    """

    def __init__(self, reader: PrefixReader, config: PrefetchConfig) -> None:
        self._reader = reader
        self._config = config

    def best(self, question: str, found: Found, request: Request, on: Reading | None) -> Prompt:
        """Return the prompt with the best passages in the order that the policy chooses.

        In that of the ranks where not all fit: another would shorten or drop better ones.
        """
        new, num_free = _not_shown(found, request.k)
        hits = [found.hits[place] for place in new]
        known = self._known(question, found, request, on)
        passages = order_passages(hits, num_free, self._config, known)
        prompt = self.built(question, passages, found, request)
        if not (prompt.dropped or prompt.is_shortened):
            return prompt
        return self.built(question, [hit.passage for hit in hits[:num_free]], found, request)

    def planned(
        self,
        text: str,
        found: Found,
        decision: Decision,
        request: Request,
        on: Reading | None,
    ) -> Prompt:
        """Return the prompt with those passages that are worth reading before the text changes."""
        new, num_free = _not_shown(found, request.k)
        judged = [place for place in new if place < len(decision.stays)]
        hits = [found.hits[place] for place in judged]
        stays = [decision.stays[place] for place in judged]
        known = self._known(text, found, request, on)
        passages = plan_passages(hits, stays, num_free, self._config, known)
        return self.built(text, passages, found, request)

    def _known(self, question: str, found: Found, request: Request, on: Reading | None) -> Known:
        def known(passages: Sequence[Passage]) -> tuple[int, int]:
            parts = self.built(question, passages, found, request).parts[:-2]
            return self._reader.num_known(parts, on), num_tokens(parts)

        return known

    def built(
        self, question: str, passages: Sequence[Passage], found: Found, request: Request
    ) -> Prompt:
        """Return the prompt with just these passages."""
        return build_prompt(
            self._reader.model.tokenizer,
            question,
            passages,
            max_tokens=request.max_tokens,
            context=found.context,
        )


def _not_shown(found: Found, k: int) -> tuple[list[int], int]:
    """Return which hits the context does not show, and for how many of them there is room."""
    shown = {passage.id for passage in found.context.passages}
    is_new = [hit.passage.id not in shown for hit in found.hits]
    num_shown = sum(not new for new in is_new[:k])
    return [place for place, new in enumerate(is_new) if new], max(0, k - num_shown)
