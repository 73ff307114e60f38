"""The next questions of a conversation, made up and got ready for between turns; no threads."""

from __future__ import annotations

from itertools import islice

from readahead.engine import Engine
from readahead.lm.base import Cancelled
from readahead.lm.prompt import num_tokens
from readahead.lm.sample import SamplingParams
from readahead.session.conversation import Conversation, Search
from readahead.speculation.retrieval.guess import Request
from readahead.speculation.retrieval.prefetch import Prefetcher
from readahead.speculation.retrieval.suggest import asking, is_supported, read_questions
from readahead.trace import Trace
from readahead.types import Passage

NUM_TOKENS_EACH = 24  # of a suggestion


class Suggestions:
    """Questions that may come next; each is a guess like one that is typed.

    Args:
        engine: Its target makes them up.
        prefetcher: Searches and reads for them.
        request: What they are part of.

    Attributes:
        questions: The likeliest first.
    """

    def __init__(self, engine: Engine, prefetcher: Prefetcher, request: Request) -> None:
        self.questions: tuple[str, ...] = ()
        self._unready: list[str] = []
        self._engine = engine
        self._prefetcher = prefetcher
        self._request = request

    def forget(self) -> None:
        """Offer none: a question was asked, or what is stored has changed."""
        self.questions, self._unready = (), []

    def make(self, conversation: Conversation, cancelled: Cancelled, trace: Trace) -> bool:
        """Make up what may follow ``conversation`` and get ready for it.

        Returns:
            Whether that is done; if it was cancelled, call it again to go on.
        """
        if self.questions:
            return self._get_ready(cancelled, trace)
        num = self._engine.config.prefetch.num_suggestions
        if not num or not conversation.context.parts:
            return True
        with trace.span("suggest") as span:
            written = self._written(conversation, num, cancelled, trace)
            if written is None:
                return False
            asked = [turn.question for turn in conversation.turns]
            supported = (q for q in read_questions(written, asked) if self._is_supported(q, trace))
            span.attributes["suggestions"] = kept = list(islice(supported, num))
        self.questions = tuple(kept)
        # The likeliest last: it stays in the cache that the next question is read on.
        self._unready = [*kept[1:], *kept[:1]]
        return self._get_ready(cancelled, trace)

    def _get_ready(self, cancelled: Cancelled, trace: Trace) -> bool:
        prefetcher, request = self._prefetcher, self._request
        while self._unready:
            question = self._unready[0]
            get_ready = prefetcher.finish if len(self._unready) == 1 else prefetcher.prepare
            if not get_ready(question, request, cancelled=cancelled, trace=trace):
                return False
            self._unready.pop(0)
        return True

    def _written(
        self, conversation: Conversation, num: int, cancelled: Cancelled, trace: Trace
    ) -> str | None:
        """Return what the target writes when it is asked for the next questions."""
        target, last = self._engine.target, conversation.turns[-1]
        neighbours = self._neighbours(conversation)
        parts = asking(target.tokenizer, conversation.context, last.question, neighbours, num)
        params = SamplingParams(max_new_tokens=NUM_TOKENS_EACH * num)
        if num_tokens(parts) + params.max_new_tokens > target.max_context_tokens:
            return ""
        return self._prefetcher.write(
            parts, conversation.context, params, cancelled=cancelled, trace=trace
        )

    def _neighbours(self, conversation: Conversation) -> list[Passage]:
        """Return what was found for the last question, not shown, and is stored still."""
        shown = {passage.id for passage in conversation.context.passages}
        is_stale = self._engine.knowledge.store.stale_test()
        return [
            hit.passage
            for hit in conversation.found[-1].hits
            if hit.passage.id not in shown and not is_stale(hit.passage.id)
        ]

    def _is_supported(self, question: str, trace: Trace) -> bool:
        found = self._prefetcher.look_up(question, trace)
        is_in_context = isinstance(found, Search) and bool(found.verdict and found.verdict.skip)
        return is_in_context or is_supported(found.hits)
