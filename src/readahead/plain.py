"""One plain answer, from question to trace: the baseline and the oracle of every speculation.

With a governor its tokens may be copied from the passages ahead and verified, which changes none.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from readahead.config import GenerationConfig
from readahead.errors import ContextOverflow
from readahead.knowledge import KnowledgeBase
from readahead.lm import generate
from readahead.lm.base import Cancelled
from readahead.lm.dialogue import Dialogue, Exchange, build_dialogue
from readahead.lm.generate import Piece
from readahead.lm.model import TransformersModel
from readahead.lm.prompt import Context, Prompt
from readahead.lm.sample import SamplingParams
from readahead.reply import Event, Reply
from readahead.retrieval.base import Filter
from readahead.speculation.retrieval.followup import refers_back
from readahead.speculation.retrieval.inject import Injected, Injecting
from readahead.speculation.tokens import decode
from readahead.speculation.tokens.governor import Governor
from readahead.speculation.tokens.lookup import LookupDrafter, Sources
from readahead.trace import Trace
from readahead.turns import Turns
from readahead.types import Hit, Passage

OUTGROWN = "The conversation outgrew the model's context: {} of its first turns were left out."


def sampling_params(config: GenerationConfig) -> SamplingParams:
    """Return how the settings choose tokens."""
    return SamplingParams(
        max_new_tokens=config.max_new_tokens,
        temperature=config.temperature,
        top_k=config.top_k,
        top_p=config.top_p,
        repetition_penalty=config.repetition_penalty,
        frequency_penalty=config.frequency_penalty,
        presence_penalty=config.presence_penalty,
        stop=config.stop,
        seed=config.seed,
    )


def query_behind(question: str, exchanges: Sequence[Exchange]) -> str:
    """Return what to search for a question that follows ``exchanges``."""
    is_follow_up = exchanges and refers_back(question)
    return f"{question} {exchanges[-1].question}" if is_follow_up else question


class PlainRun:
    """Retrieves, builds the prompt, decodes, cites, and traces it all."""

    def __init__(
        self,
        knowledge: KnowledgeBase,
        target: TransformersModel,
        trace: Trace,
        question: str,
        max_prompt_tokens: int,
        turns: Turns,
        *,
        injects: bool,
        exchanges: Sequence[Exchange] = (),
        governor: Governor | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self._governor = governor
        self._exchanges = exchanges
        self._knowledge = knowledge
        self._config = knowledge.config
        self._max_prompt_tokens = max_prompt_tokens
        self._turns = turns
        # What is injected is put in front of one question, and read anew from there.
        self._injects = injects and not exchanges
        self._notes = tuple(notes)
        self._target = target
        self._trace = trace
        self._question = question

    def events(self, filter: Filter | None, cancelled: Cancelled) -> Iterator[Event]:
        """Yield text, citations and, last, the Answer."""
        k = self._config.retrieval.k
        query = query_behind(self._question, self._exchanges)
        hits = self._knowledge.search(query, k, filter=filter, trace=self._trace)
        self._trace.count("retrievals")
        self._trace_passages(hits)
        if not hits:
            yield from self._reply(()).nothing_found()
            return
        prompt = self._prompt(hits)
        reply = self._reply(prompt.passages, fitting_notes(prompt))
        if self._injects:
            pieces = self._injecting(prompt, hits, reply, filter, cancelled)
        else:
            pieces = self._decoding(prompt, cancelled)
        yield from reply.events(self._turns.steps(pieces, trace=self._trace))

    def _decoding(self, prompt: Prompt, cancelled: Cancelled) -> Generator[Piece]:
        """Yield the pieces of an answer, some of whose tokens may be copied and verified.

        Drawn answers are not: how many tokens are drafted depends on measured times, and with it
        which random numbers are used for what, so a seed would not give the same answer again.
        """
        params = sampling_params(self._config.generation)
        if self._governor is None or params.temperature:
            return generate.stream(
                self._target, prompt.token_ids, params, cancelled=cancelled, trace=self._trace
            )
        return decode.stream(
            self._target,
            prompt.token_ids,
            params,
            LookupDrafter(Sources([prompt.token_ids[slice(*span)] for span in prompt.spans])),
            pacer=self._governor,
            cancelled=cancelled,
            trace=self._trace,
        )

    def _trace_passages(self, hits: Sequence[Hit]) -> None:
        """Note what is shown; a trace goes when one of its passages is removed."""
        shown = [{"id": hit.passage.id, "score": hit.score} for hit in hits]
        noted = self._trace.attributes.setdefault("passages", [])
        assert isinstance(noted, list)
        before = {one["id"] for one in noted}
        noted += [one for one in shown if one["id"] not in before]

    def _injecting(
        self,
        prompt: Prompt,
        hits: Sequence[Hit],
        reply: Reply,
        filter: Filter | None,
        cancelled: Cancelled,
    ) -> Generator[Piece]:
        """Yield the pieces of an answer that may get further passages."""
        knowledge = self._knowledge

        def search(query: str, num_hits: int) -> Sequence[Hit]:
            self._trace.count("retrievals")
            return knowledge.search(query, num_hits, filter=filter, trace=self._trace)

        injecting = Injecting(
            self._target,
            self._question,
            prompt,
            hits,
            search,
            config=self._config.inject,
            context=Context(system=self._config.generation.system),
            max_prompt_tokens=self._max_prompt_tokens,
            rarity=knowledge.store.rarity,
        )
        for event in injecting.stream(
            sampling_params(self._config.generation), cancelled=cancelled, trace=self._trace
        ):
            if isinstance(event, Injected):
                self._trace_passages(event.hits)
                reply.extend(event.passages, in_front=event.in_front)
            else:
                yield event

    def _reply(self, passages: Sequence[Passage], notes: Sequence[str] = ()) -> Reply:
        return Reply(
            self._question,
            passages,
            self._trace,
            self._config,
            similarity=self._knowledge.similarity,
            notes=(*self._notes, *notes),
        )

    def _prompt(self, hits: Sequence[Hit]) -> Prompt:
        with self._trace.span("prompt") as span:
            dialogue = build_dialogue(
                self._target.tokenizer,
                self._question,
                [hit.passage for hit in hits],
                self._exchanges,
                max_tokens=self._max_prompt_tokens,
                system=self._config.generation.system,
            )
            prompt = dialogue.prompt
            span.attributes["num_passages"] = len(prompt.passages)
        check_passages(prompt, self._max_prompt_tokens)
        self._notes = (*self._notes, *outgrown_notes(dialogue, self._exchanges))
        self._trace.count("prompt_tokens", len(prompt.token_ids))
        return prompt


def check_passages(prompt: Prompt, max_prompt_tokens: int) -> None:
    """Raise ContextOverflow if none of the passages found fits."""
    if prompt.dropped and not prompt.passages:
        raise ContextOverflow(
            f"None of the {len(prompt.dropped)} passages found fits beside the question into "
            f"{max_prompt_tokens} tokens, which context and memory leave beside an answer.",
            remedy="Ask a shorter question, or lower generation.max_new_tokens.",
        )


def outgrown_notes(dialogue: Dialogue, exchanges: Sequence[Exchange]) -> tuple[str, ...]:
    """Return the note on those of ``exchanges`` that ``dialogue`` leaves out, if there are such."""
    left_out = len(exchanges) - len(dialogue.exchanges)
    return (OUTGROWN.format(left_out),) if left_out else ()


def fitting_notes(prompt: Prompt) -> tuple[str, ...]:
    """Return the notes on the passages that did not fit, if there are such."""
    notes = []
    if prompt.dropped:
        notes.append(f"{len(prompt.dropped)} of the passages found did not fit into the context.")
    if prompt.is_shortened:
        notes.append("The last passage shown was shortened to fit.")
    return tuple(notes)
