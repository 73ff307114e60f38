"""Answers of a conversation that may get further passages; knows no threads.

What is found before the answer goes behind the passages that were read ahead, so that these stay
read. Whether those in context and those shown hold the answer is judged together.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from readahead.engine import Engine
from readahead.lm.base import Cancelled
from readahead.lm.prompt import Prompt
from readahead.lm.reuse import Reading
from readahead.lm.sample import SamplingParams
from readahead.session.conversation import Conversation, Search
from readahead.speculation.retrieval.guess import Event, Found
from readahead.speculation.retrieval.inject import Injecting
from readahead.trace import Trace
from readahead.types import Hit


def write_injecting(
    engine: Engine,
    conversation: Conversation,
    question: str,
    prompt: Prompt,
    found: Found,
    reading: Reading,
    params: SamplingParams,
    *,
    cancelled: Cancelled,
    trace: Trace,
) -> Generator[Event]:
    """Yield an answer in ``conversation``; see ``Write``. Nothing happens before the first event.

    A question that refers back is searched for again with the words of its topic, too.
    """

    def search(query: str, num_hits: int) -> Sequence[Hit]:
        return conversation.search(query, num_hits, trace)

    verdict = found.verdict if isinstance(found, Search) else None
    query = verdict.query if verdict else question
    injecting = Injecting(
        engine.target,
        question,
        prompt,
        found.hits,
        search,
        config=engine.config.inject,
        query=query,
        context=found.context,
        context_hits=conversation.nearest(query, found.context),
        keeps_prefix=True,
        max_prompt_tokens=engine.max_prompt_tokens,
        rarity=engine.knowledge.store.rarity,
    )
    yield from injecting.stream(params, cache=reading.cache, cancelled=cancelled, trace=trace)
