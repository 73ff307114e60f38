"""Retrieval while an answer is being written: ask, roll back, add passages, go on.

*Exact* while nothing is injected: the tokens are those of ``generate.stream``. After an injection
they are those of a cold run over what was then to be read; the answer differs from the plain one,
which is what injecting is for. [Jiang23] looks ahead for unlikely tokens, [Su24] for content words
that the model is unsure of. Departs from both: what was retrieved is judged, too, because the
model's own doubt tells little about what the passages lack.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Literal

from readahead.config import InjectConfig
from readahead.evidence import is_refusal
from readahead.lm import generate
from readahead.lm.base import Cache, CachedModel, Cancelled, never
from readahead.lm.generate import Piece
from readahead.lm.node import num_shared
from readahead.lm.prompt import Context, Prompt
from readahead.lm.sample import SamplingParams
from readahead.lm.watch import WatchedModel, num_layers
from readahead.speculation.retrieval.adding import Adding, Search
from readahead.speculation.retrieval.signals import SignalReader, TokenSignals
from readahead.speculation.retrieval.written import Written
from readahead.text import words
from readahead.trace import Trace
from readahead.types import FinishReason, Hit, Passage

Moment = Literal["start", "refusal", "jump"]

HOLD_SHARE = 0.5  # of the threshold: a gate below that has not been seen to fire later
RARE = 0.5  # words at least as rare may get a bias


@dataclass(frozen=True, slots=True)
class Injected:
    """Passages that were put into the answer; they may be cited from now on.

    Attributes:
        hits: Their passages are perhaps shortened.
        num_tokens: That they take in the context.
        prompt: What is read in front of the answer from now on.
        token_ids: All that is read from now on: the prompt, and behind it notes and the answer.
        num_answer_tokens: How many of the answer's tokens that are, some of them not yielded yet.
        in_front: They come before the passages shown so far, and so do their numbers; else after.
        in_answer: They stand within the answer; else in the prompt.
    """

    hits: tuple[Hit, ...]
    num_tokens: int
    prompt: Prompt
    token_ids: tuple[int, ...]
    num_answer_tokens: int
    in_front: bool = False
    in_answer: bool = False

    @property
    def passages(self) -> tuple[Passage, ...]:
        """Return the passages as they are shown."""
        return tuple(hit.passage for hit in self.hits)


class Injecting:
    """One answer that may get further passages while it is written.

    Args:
        model: The target.
        question: As the user asked it.
        prompt: Made of the question and passages of ``hits``, in any order, perhaps shortened.
        hits: What was retrieved for the question.
        search: Finds hits for a query.
        config: When to inject, and how much.
        query: What to search for; None: the question.
        context: The turns before, if the prompt follows some.
        context_hits: Those of its passages that are judged together with the prompt's.
        keeps_prefix: Whether what is found before the answer goes behind the passages shown, so
            that a cache which holds them keeps them; else in front.
        max_prompt_tokens: How long a prompt may be, injected passages included; None: as long as
            the model's context allows.
        rarity: How rare a word is in the index, in [0, 1]; needed for a bias only.
    """

    def __init__(
        self,
        model: CachedModel,
        question: str,
        prompt: Prompt,
        hits: Sequence[Hit],
        search: Search,
        *,
        config: InjectConfig,
        query: str | None = None,
        context: Context | None = None,
        context_hits: Sequence[Hit] = (),
        keeps_prefix: bool = False,
        max_prompt_tokens: int | None = None,
        rarity: Callable[[str], float] | None = None,
    ) -> None:
        self._layer = num_layers(model) // 2
        self._model = WatchedModel(model, [self._layer] if num_layers(model) else [])
        self._adding = Adding(
            model.tokenizer,
            question,
            prompt,
            hits,
            search,
            config,
            query=query or question,
            context=context or Context(),
            context_hits=context_hits,
        )
        self._config = config
        self._keeps_prefix = keeps_prefix
        self._max_prompt_tokens = max_prompt_tokens
        self._rarity = rarity
        self._sufficiency = self._adding.judged()
        self._declined: set[int] = set()  # where sentences begin whose refusal was asked about
        self._not_before = 0  # answer tokens, by the cool-down
        self._holds = True
        self._skips_start = False

    def stream(
        self,
        params: SamplingParams,
        *,
        cache: Cache | None = None,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> Iterator[Piece | Injected]:
        """Yield the answer piece by piece, and each injection before what is written after it.

        While the gate is near its threshold a sentence is held as long as it may become a refusal,
        because what is released cannot be taken back. Arguments are those of ``generate.stream``.
        The trace gets ``signals`` and ``inject`` spans; its attribute ``inject`` lists when the
        gate was asked, what it was told, what was found, and what was injected or why not.
        """
        self._params, self._cancelled = params, cancelled
        self._trace = trace or Trace("generate")
        self._log: list[dict[str, object]] = []
        self._trace.attributes["inject"] = self._log
        self._cache = self._model.new_cache() if cache is None else cache
        self._written = Written(self._model.tokenizer, params.stop)
        # Before anything is read: what is found now costs no second reading.
        if self._begins() and (injected := self._consider("start")) is not None:
            yield injected
        run = 0
        while (injected := (yield from self._run(run))) is not None:
            yield injected
            run += 1

    def _begins(self) -> bool:
        if self._skips_start or self._cancelled():
            return False
        return self._may_inject()

    def skip_start(self) -> None:
        """Do not ask before the prompt is read, for comparisons of what happens after it."""
        self._skips_start = True

    def _run(self, run: int) -> Generator[Piece, None, Injected | None]:
        """Write until the end, or until something is injected; return what was."""
        ids = [token.id for token in self._written.tokens]
        params = replace(
            self._params,
            max_new_tokens=self._params.max_new_tokens - len(ids),
            seed=(self._params.seed + run) % 2**63,
        )
        reader = SignalReader(self._model, self._layer)
        pieces = generate.stream(
            self._model,
            self._adding.layout.ids(ids),
            params,
            cache=self._cache,
            cancelled=self._cancelled,
            trace=self._trace,
        )
        with closing(pieces):
            for piece in pieces:
                if piece.finish_reason != "cancelled":
                    with self._trace.step("signals"):
                        signals = reader.read()
                        moment = self._take(piece, signals)
                    if moment and (injected := self._consider(moment)):
                        return injected
                yield self._release(piece.finish_reason)
        return None

    def _take(self, piece: Piece, signals: TokenSignals) -> Moment | None:
        """Add a piece to the answer; return why the gate should be asked now, if it should."""
        written = self._written
        for token_id, logprob in zip(piece.token_ids, piece.logprobs, strict=True):
            written.push(token_id, logprob, signals)
        if not self._may_inject() or len(written.tokens) < self._not_before:
            return None
        start = written.sentence_start()
        if start not in self._declined and is_refusal(written.sentence()):
            self._declined.add(start)
            return "refusal"
        if piece.token_ids and written.jump() >= self._config.jump:
            return "jump" if written.begins_content_word() else None
        return None

    def _may_inject(self) -> bool:
        return self._adding.may_add

    def _consider(self, moment: Moment) -> Injected | None:
        """Ask the gate; if it fires, retrieve deeper, and inject what is new and fits."""
        written = self._written
        told = [token.signals for token in written.tokens]
        judgement = self._sufficiency.judge(written.sentence(), told)
        record: dict[str, object] = {
            "moment": moment,
            "at_token": max(0, len(written.tokens) - 1),
            "probability": judgement.probability,
            "signals": judgement.signals,
        }
        self._log.append(record)
        self._holds = judgement.probability >= HOLD_SHARE * self._config.threshold
        if judgement.probability < self._config.threshold:
            record["reason"] = "the passages seem to hold the answer"
            return None
        if self._cache.length and (refusal := self._cache.refusal):
            record["reason"] = f"what was read cannot be taken back: {refusal}"
            return None
        with self._trace.span("inject", moment=moment):
            certain = self._written.certain_words() if moment == "jump" else ""
            found = self._adding.find(certain, self._room(), record)
            if not found:
                record["reason"] = "nothing new is close enough, or fits"
                return None
            return self._inject(moment, found, record)

    def _room(self) -> int:
        """Return how many tokens may be read beside the answer."""
        room = max(0, self._model.max_context_tokens - self._params.max_new_tokens)
        return room if self._max_prompt_tokens is None else min(room, self._max_prompt_tokens)

    def _inject(self, moment: Moment, found: list[Hit], record: dict[str, object]) -> Injected:
        """Put passages where they are read next, and take back what was written without them."""
        written, adding = self._written, self._adding
        before = adding.layout.ids([token.id for token in written.tokens])
        place = written.sentence_start()
        written.cut(place)  # what was released stays: it is read again behind the note
        in_front = moment == "start" and not self._keeps_prefix
        in_answer = moment != "start" and self._config.placement != "prompt"
        if in_answer:
            num_tokens = adding.add_note(found, place)
        else:
            num_tokens = adding.add_to_prompt(found, self._room(), in_front=in_front)
        after = adding.layout.ids([token.id for token in written.tokens])
        keep = min(num_shared(tuple(before), tuple(after)), self._cache.length, len(after) - 1)
        self._cache.crop(keep)
        injected = Injected(
            tuple(found),
            num_tokens,
            adding.prompt,
            tuple(after),
            len(written.tokens),
            in_front=in_front,
            in_answer=in_answer,
        )
        self._go_on(injected, record)
        record["num_taken_back"] = len(before) + num_tokens - len(after)
        return injected

    def _go_on(self, injected: Injected, record: dict[str, object]) -> None:
        """Judge anew from here on, with what was injected, and tell the trace."""
        self._sufficiency = self._adding.judged()
        lacks = self._sufficiency.judge().probability
        self._holds = lacks >= HOLD_SHARE * self._config.threshold
        self._not_before = injected.num_answer_tokens + self._config.cool_down_tokens
        self._raise(injected.passages)
        self._trace.count("injections")
        self._trace.count("injected_tokens", injected.num_tokens)
        record["injected"] = [passage.id for passage in injected.passages]
        record["num_tokens"] = injected.num_tokens

    def _raise(self, passages: Sequence[Passage]) -> None:
        """Make the rare words of ``passages`` likelier from now on, if the settings say so."""
        if self._config.logit_bias == 0 or self._rarity is None:
            return
        for passage in passages:
            for start, end in words(passage.text):
                word = passage.text[start:end]
                if self._rarity(word) >= RARE:
                    self._model.bias[self._model.tokenizer.encode(f" {word}")[0]] = (
                        self._config.logit_bias
                    )

    def _release(self, finish_reason: FinishReason | None) -> Piece:
        """Return what is certain to stay of what was written and not returned yet."""
        written = self._written
        if finish_reason:
            return written.release(len(written.tokens), finish_reason)
        start = written.sentence_start()
        return written.release(start if self._is_held(start) else len(written.tokens))

    def _is_held(self, start: int) -> bool:
        """Return whether the sentence that begins at token ``start`` may yet be taken back."""
        return (
            self._holds
            and start not in self._declined
            and self._may_inject()
            and self._written.may_decline()
        )
