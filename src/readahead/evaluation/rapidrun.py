"""One question over a long document, answered in one setting after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from readahead.config import Config
from readahead.evaluation.longread import Asked, Reader
from readahead.evaluation.rapidsettings import ALONE, Setting
from readahead.lm.base import Cancelled, never
from readahead.lm.generate import stream
from readahead.lm.model import TransformersModel, load_named
from readahead.lm.prompt import Prompt, joined
from readahead.lm.reuse import Reading
from readahead.lm.sample import SamplingParams
from readahead.plain import sampling_params
from readahead.speculation.tokens import decode
from readahead.speculation.tokens.acceptance import Rule
from readahead.speculation.tokens.base import Drafter, Pacer
from readahead.speculation.tokens.drafters import (
    DrafterKind,
    ModelDrafter,
    check_vocabularies,
    make_drafter,
)
from readahead.speculation.tokens.governor import FixedPacer, Governor
from readahead.speculation.tokens.lookup import LookupDrafter, Sources
from readahead.speculation.tokens.refresh import RefreshingDrafter
from readahead.speculation.tokens.summary import phases
from readahead.speculation.tokens.tally import Tally
from readahead.speculation.tokens.transfer import dynamic, eta_preset
from readahead.trace import Trace


@dataclass(frozen=True, slots=True)
class Run:
    """One answer, and what it took.

    Attributes:
        tally: Of draft tokens; None where nothing was drafted.
        seconds: ``index`` and ``prefill`` of a document count for each question and setting,
            though it is read once.
        num_later_tokens: Those that ``seconds["decode"]`` brought, which begins with the first.
    """

    text: str
    token_ids: tuple[int, ...]
    num_prompt_tokens: int
    num_drafter_tokens: int
    tally: Tally | None
    seconds: Mapping[str, float]
    num_later_tokens: int


class Runner:
    """Answers one question after the other, in any setting.

    Args:
        target: Reads whole documents.
        drafter: Reads what was retrieved; may be the target.
        config: Of tokens and generation.

    Raises:
        VocabularyMismatch: The drafter has other tokens than the target.
    """

    def __init__(
        self, target: TransformersModel, drafter: TransformersModel, config: Config
    ) -> None:
        check_vocabularies(target, drafter)
        self.config = config
        self.params: SamplingParams = sampling_params(config.generation)
        self.target, self.drafter = target, drafter
        self._target, self._drafter = Reader(target), Reader(drafter)
        self._pacers: dict[str, Pacer] = {}

    @classmethod
    def load(cls, config: Config) -> Self:
        """Load the models that the settings name; the target drafts if no drafter is named.

        Raises:
            NotFound: One was not pulled.
            InputError: One is an embedding model.
            VocabularyMismatch: The drafter has other tokens than the target.
        """
        models = config.models
        target = load_named(*models.target_place)
        is_one = models.drafter_place == models.target_place
        return cls(target, target if is_one else load_named(*models.drafter_place), config)

    @property
    def eta(self) -> float:
        """Return the preset of η for these two models."""
        return eta_preset(num_weights(self.target), num_weights(self.drafter))

    def run(self, setting: Setting, asked: Asked, index_s: float = 0.0) -> Run:
        """Return the answer to a question.

        Raises:
            ContextOverflow: It does not fit, or the drafter's context is too short.
        """
        trace, tally = Trace("evaluation"), Tally()
        if setting.kind in ALONE:
            is_plain = setting.kind == "plain"
            reader, prompt = (
                (self._target, asked.prompt) if is_plain else (self._drafter, asked.own)
            )
            cache = reader.fork(_beginning(prompt))
            pieces = stream(reader.model, prompt.token_ids, self.params, cache=cache, trace=trace)
        else:
            pieces = decode.stream(
                self.target,
                asked.prompt.token_ids,
                self.params,
                self._make(setting, asked),
                rule=self._rule(setting, asked),
                pacer=self._pacer(setting.name),
                cache=self._target.fork(_beginning(asked.prompt)),
                trace=trace,
                tally=tally,
            )
        timed = _Timed(trace)
        for piece in pieces:
            timed.add(piece.text, piece.token_ids)
        return self._told(setting, asked, timed, tally, index_s)

    def _make(self, setting: Setting, asked: Asked) -> Drafter:
        kind: DrafterKind = setting.kind if setting.kind in ("lookup", "hybrid") else "rag"
        lookup = LookupDrafter(Sources(asked.part.copied))
        model = None if kind == "lookup" else self._model_drafter(asked)
        drafter = make_drafter(kind, lookup, model)
        num = self.config.tokens.refresh_tokens
        if not num:
            return drafter
        decode = self.target.tokenizer.decode
        return RefreshingDrafter(drafter, _Refresh(asked, lookup, model), decode, num)

    def _model_drafter(self, asked: Asked) -> ModelDrafter:
        ids = _beginning(asked.own)
        return ModelDrafter(
            self.drafter,
            asked.own.token_ids,
            vocabulary_size=self.target.vocabulary_size,
            on=Reading(self._drafter.fork(ids), ids),
        )

    def _rule(self, setting: Setting, asked: Asked) -> Rule:
        return dynamic(setting.rule, asked.trust) if setting.kind == "dynamic" else setting.rule

    def _pacer(self, name: str) -> Pacer:
        """Return what says how much is drafted: one for each setting, that learns."""
        num = self.config.tokens.num_draft_tokens
        return self._pacers.setdefault(name, FixedPacer(num) if num else Governor())

    def _told(
        self, setting: Setting, asked: Asked, timed: _Timed, tally: Tally, index_s: float
    ) -> Run:
        trace, kind = timed.trace, setting.kind
        drafts_by_model = kind not in ("plain", "lookup")
        own_s = self._drafter.seconds if drafts_by_model else 0.0
        target_s = 0.0 if kind == "rag-only" else self._target.seconds
        found = phases(trace)
        read_s = found["prefill_s"]
        seconds = {
            "index_s": 0.0 if kind == "plain" else index_s,
            "retrieval_s": 0.0 if kind == "plain" else asked.part.retrieval_s,
            "prefill_s": target_s + (0.0 if kind == "rag-only" else read_s),
            "drafter_prefill_s": own_s
            + (read_s if kind == "rag-only" else found["drafter_prefill_s"]),
            **{part: found[part] for part in ("draft_s", "refresh_s", "verify_s")},
            "decode_s": timed.decode_s,
        }
        return Run(
            timed.text,
            tuple(timed.token_ids),
            0 if kind == "rag-only" else len(asked.prompt.token_ids),
            len(asked.own.token_ids) if drafts_by_model else 0,
            None if kind in ALONE else tally,
            seconds,
            len(timed.token_ids) - timed.num_first,
        )


class _Refresh:
    """Lets the drafter read what is found for the question and a sentence of its answer."""

    def __init__(self, asked: Asked, lookup: LookupDrafter, model: ModelDrafter | None) -> None:
        self._asked, self._lookup, self._model = asked, lookup, model
        self._part = asked.part

    def __call__(self, sentence: str, *, cancelled: Cancelled = never) -> bool:
        """Return whether another passage is read now."""
        part = self._asked.refreshed(sentence)
        if set(part.selected.places) <= set(self._part.selected.places):
            return False
        self._part = part
        self._lookup.prefer(Sources(part.copied))
        if self._model is not None:
            self._model.read_instead(part.own.token_ids, cancelled=cancelled)
        return True


@dataclass(slots=True)
class _Timed:
    """An answer as it comes."""

    trace: Trace
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    num_first: int = 0
    first_s: float | None = None
    decode_s: float = 0.0

    def add(self, text: str, token_ids: Sequence[int]) -> None:
        self.text += text
        self.token_ids += token_ids
        now_s = self.trace.now_s()
        if self.first_s is None:
            self.first_s, self.num_first = now_s, len(token_ids)
        self.decode_s = now_s - self.first_s


def num_weights(model: TransformersModel) -> int:
    """Return how many weights a model has."""
    return sum(weight.numel() for weight in model.backend.parameters())


def _beginning(prompt: Prompt) -> tuple[int, ...]:
    """Return what of a prompt stands in front of the question, or of the first one."""
    return joined(prompt.parts[: 1 + len(prompt.passages)])
