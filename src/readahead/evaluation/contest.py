"""The systems that answer one question over given passages, each reading everything anew.

``fast`` and ``accurate`` are the presets of drafting, ``plain`` is the target over all passages,
and ``drafter_alone`` is the drafter over all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

from torch import Tensor

from readahead.config import Config
from readahead.evaluation.ramdocs import Case
from readahead.evidence import Markers, is_refusal
from readahead.knowledge import load_embedder
from readahead.lm import generate as decoding
from readahead.lm import score as scoring
from readahead.lm.base import Cache, CachedModel, Cancelled, Generation, Scored, never
from readahead.lm.generate import Piece, stream
from readahead.lm.model import load_named
from readahead.lm.prompt import Prompt, build_prompt
from readahead.lm.sample import SamplingParams
from readahead.lm.tokenizer import Tokenizer
from readahead.plain import check_passages, sampling_params
from readahead.retrieval.base import Embedder, Vectors
from readahead.retrieval.content import embedded_text
from readahead.speculation.answers.calibration import read_calibration
from readahead.speculation.answers.speculate import Speculator
from readahead.trace import Trace
from readahead.types import Draft

PRESETS = ("fast", "accurate")
PLAIN = "plain"
DRAFTER_ALONE = "drafter_alone"
SYSTEMS = (*PRESETS, PLAIN, DRAFTER_ALONE)
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Cost:
    """What an answer took; tokens are those that went through a model, padding included.

    Attributes:
        cpu_seconds: Of this process, all threads together: on a busy machine they say more.
    """

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    num_target_tokens: int = 0
    num_drafter_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What one system says to a question.

    Attributes:
        text: Its answers, joined by ``"; "``.
        drafts: What it chose among, if it did.
    """

    text: str
    abstained: bool
    cost: Cost = Cost()
    drafts: tuple[Draft, ...] = ()


@dataclass(slots=True)
class Metered:
    """A model that counts the tokens that go through it, padding included."""

    model: CachedModel
    num_tokens: int = field(default=0, init=False)

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer of the model's vocabulary."""
        return self.model.tokenizer

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Return the tokens that end an answer."""
        return self.model.eos_token_ids

    @property
    def max_context_tokens(self) -> int:
        """Return the number of positions that the model can attend to."""
        return self.model.max_context_tokens

    @property
    def prefill_step_tokens(self) -> int:
        """Return how many tokens are prefilled in one step."""
        return self.model.prefill_step_tokens

    @property
    def fingerprint(self) -> str:
        """Identify all that keys and values depend on beside the tokens."""
        return self.model.fingerprint

    def new_cache(self, padding: Sequence[int] = (0,)) -> Cache:
        """Return an empty cache."""
        return self.model.new_cache(padding)

    def forward(self, token_ids: Tensor, cache: Cache, *, num_logits: int = 1) -> Tensor:
        """Read ``token_ids`` (B, T), extend ``cache`` by T, return the last logits."""
        self.num_tokens += token_ids.numel()
        return self.model.forward(token_ids, cache, num_logits=num_logits)

    def generate(
        self,
        prompts: Sequence[Prompt],
        params: SamplingParams,
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> list[Generation]:
        """Return one generation per prompt, in order."""
        ids = [prompt.token_ids for prompt in prompts]
        return decoding.generate(self, ids, params, cancelled=cancelled, trace=trace)

    def score(
        self,
        prompts: Sequence[Prompt],
        continuations: Sequence[Sequence[int]],
        *,
        options: Sequence[int] = (),
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> list[Scored]:
        """Return ln p of every token of each continuation, and of each option behind it."""
        ids = [prompt.token_ids for prompt in prompts]
        return scoring.score(
            self, ids, continuations, options=options, cancelled=cancelled, trace=trace
        )


class Contest:
    """Asks one system after the other.

    Args:
        drafter: Small.
        target: Verifies, and answers plainly.
        config: Of drafting and of plain answers; ``drafts.preset`` is whatever is asked.
        embedder: Makes the vectors by which ``perspectives`` groups passages; without one it goes
            by rank.
        is_calibrated: Whether what was fitted on the user's own questions counts, each preset's
            own.
    """

    def __init__(
        self,
        drafter: CachedModel,
        target: CachedModel,
        config: Config,
        *,
        embedder: Embedder | None = None,
        is_calibrated: bool = False,
    ) -> None:
        self.config = config
        self._embedder = embedder
        self.drafter, self.target = Metered(drafter), Metered(target)
        self._speculators = {
            preset: Speculator(
                # Where one model is both, what it drafts for "accurate" it drafts once.
                self.target if preset == "accurate" and drafter is target else self.drafter,
                self.target,
                config.drafts.model_copy(update={"preset": preset}),
                calibration=read_calibration(config.kb, preset) if is_calibrated else None,
            )
            for preset in PRESETS
        }

    @classmethod
    def load(cls, config: Config, *, calibrated: bool = False) -> Self:
        """Load the models that the settings name; the target drafts if no drafter is named.

        Args:
            config: Of a user.
            calibrated: Whether the calibration counts that the knowledge base may have.

        Raises:
            NotFound: One was not pulled.
            InputError: One is an embedding model.
        """
        models = config.models
        target = load_named(*models.target_place)
        is_one = models.drafter_place == models.target_place
        drafter = target if is_one else load_named(*models.drafter_place)
        groups = config.drafts.strategy == "perspectives" and config.retrieval.mode != "lexical"
        return cls(
            drafter,
            target,
            config,
            embedder=load_embedder(models) if groups else None,
            is_calibrated=calibrated,
        )

    def ask(self, system: str, case: Case) -> Reply:
        """Return the reply of one of ``SYSTEMS``; without passages all of them abstain.

        Raises:
            ContextOverflow: The question does not fit.
        """
        if not case.hits:
            return Reply("", abstained=True)
        if system in PRESETS:
            return self._chosen(system, case)
        return self._plain(self.target if system == PLAIN else self.drafter, case)

    def measured(self, action: Callable[[], _Result]) -> tuple[_Result, Cost]:
        """Return what ``action`` returns, and what it took."""
        before = self.target.num_tokens, self.drafter.num_tokens
        trace, cpu_s = Trace("evaluation"), time.process_time()
        result = action()
        return result, Cost(
            seconds=trace.now_s(),
            cpu_seconds=time.process_time() - cpu_s,
            num_target_tokens=self.target.num_tokens - before[0],
            num_drafter_tokens=self.drafter.num_tokens - before[1],
        )

    def _chosen(self, preset: str, case: Case) -> Reply:
        vectors, query = vectors_of(case, self._embedder) if self._embedder else (None, None)
        speculator = self._speculators[preset]
        outcome, cost = self.measured(
            lambda: speculator.answer(
                case.question, case.hits, vectors=vectors, question_vector=query
            )
        )
        return Reply("; ".join(outcome.answers), not outcome.answers, cost, outcome.drafts)

    def _plain(self, model: Metered, case: Case) -> Reply:
        """Return what a model says with all passages in front of it, as ``plain`` asks it."""
        params = sampling_params(self.config.generation)
        room = model.max_context_tokens - params.max_new_tokens
        passages = [hit.passage for hit in case.hits]

        def pieces() -> list[Piece]:
            prompt = build_prompt(model.tokenizer, case.question, passages, max_tokens=room)
            check_passages(prompt, room)
            return list(stream(model, prompt.token_ids, params))

        written, cost = self.measured(pieces)
        text = "".join(piece.text for piece in written).strip()
        return Reply(text, is_refusal(Markers.read(text).text), cost)


def vectors_of(case: Case, embedder: Embedder) -> tuple[Vectors, Vectors]:
    """Return the vectors of the passages and of the question.

    They take no part in any time: a knowledge base has them when drafting begins.
    """
    passages = embedder.embed_passages([embedded_text(hit.passage) for hit in case.hits])
    return passages, embedder.embed_query(case.question)
