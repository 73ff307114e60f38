"""Settings of the three kinds of speculation."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from readahead.config.section import Section

ETA_PRESETS = {
    "self-weak": 5.0,
    "self": 10.0,
    "self-strong": 20.0,
    "upward": 40.0,
    "upward-strong": 50.0,
}
"""Transfer strengths η that were published: the drafter is the target itself, or larger."""


class PrefetchConfig(Section):
    """What is done ahead while a question is being typed."""

    enabled: bool = True
    policy: Literal["same-set", "exact-order", "relaxed"] = "same-set"
    relaxed_k: int = Field(
        6, gt=0, description="relaxed: how far down a passage read ahead may have fallen"
    )
    threshold: float = Field(
        0.2, ge=0, le=1, description="the probability that passages are shown, to read them ahead"
    )
    threshold_question: float = Field(
        0.6, ge=0, le=1, description="that the best passage is final, to read the question, too"
    )
    horizon_tokens: int = Field(
        450, gt=0, description="that may be read before the text changes; longer plans count less"
    )
    num_runners_up: int = Field(
        0, ge=0, le=16, description="passages behind the first that are read in its place, too"
    )
    min_tokens: int = Field(3, ge=1, description="words typed before anything is guessed")
    min_typing_s: float = Field(0.3, ge=0, le=86_400, description="time since the first stroke")
    debounce_s: float = Field(0.01, ge=0, le=86_400, description="time since the last stroke")
    settle_s: float = Field(
        0.12,
        ge=0,
        le=86_400,
        description="of no stroke, after which the last word is whole; more if typing is slow",
    )
    rest_s: float = Field(
        0.3,
        ge=0,
        le=86_400,
        description="of no stroke, after which a finished question is read whole",
    )
    held_back_tokens: int = Field(
        8, ge=0, description="of the typed text, not read while keys move"
    )
    step_tokens: int = Field(
        192, gt=0, le=100_000, description="read between two looks at the keys"
    )
    decode_ahead_tokens: int = Field(16, ge=0, description="of the answer, before it is asked for")
    num_suggestions: int = Field(
        2, ge=0, le=8, description="questions made up between turns; 0 switches this off"
    )


class InjectConfig(Section):
    """What is retrieved while an answer is being written, in conversations also ahead."""

    enabled: bool = False
    max_injections: int = Field(2, ge=0, le=16, description="in one answer")
    max_tokens: int = Field(192, ge=0, description="of all passages injected into one answer")
    max_tokens_each: int = Field(128, ge=0, description="longer passages are shortened")
    threshold: float = Field(
        0.53, ge=0, le=1, description="the probability that the passages lack the answer"
    )
    min_similarity: float = Field(
        0.51, ge=-1, le=1, description="of the query and a passage; the others are not injected"
    )
    jump: float = Field(
        1.5, ge=0, description="nats of a content word's entropy above those before, to ask again"
    )
    cool_down_tokens: int = Field(16, ge=0, description="between two injections")
    placement: Literal["note", "turn", "prompt"] = Field(
        "note", description="of what comes within an answer; before it, always in the prompt"
    )
    logit_bias: float = Field(
        0.0, ge=0, le=10, description="added for the rare words of injected passages"
    )


class DraftsConfig(Section):
    """How answers are drafted small and chosen by evidence (``method="drafts"``)."""

    preset: Literal["fast", "accurate"] = Field(
        "fast", description="fast: the drafter drafts; accurate: the target does, too, and scores"
    )
    strategy: Literal[
        "single", "perspectives", "sources", "time", "authority", "contiguous", "random"
    ] = Field("single", description="which passages each draft is written from")
    num_passages: int = Field(10, ge=1, le=1000, description="retrieved for the drafts")
    num_drafts: int = Field(10, ge=1, le=100, description="at most")
    passages_per_draft: int = Field(2, ge=1, le=100, description="where not single")
    adaptive: bool = Field(True, description="stop after two drafts that agree and hold")
    with_rationale: bool = Field(False, description="each draft quotes what shows its answer")
    with_passages: bool = Field(False, description="shown to the target when it scores, too")
    max_new_tokens: int = Field(24, gt=0, le=100_000, description="of one draft")
    threshold: Literal["strict", "lenient"] | float = Field(
        "lenient", description="the probability of being right from which on to answer"
    )
    also: float | None = Field(
        None,
        ge=0,
        le=1,
        description="that of further answers; unset: as fitted (accurate: by gain)",
    )
    max_refinements: int = Field(1, ge=0, le=2, description="rounds with the verifier's findings")
    max_depth: int = Field(2, ge=0, le=2, description="of questions split into others; 0: never")
    splits_by_model: bool = Field(
        False, description="the target splits where no rule does; small ones do it badly"
    )
    timeout_s: float = Field(60.0, gt=0, le=86_400, description="for drafting, before plain RAG")
    num_failures: int = Field(3, ge=1, le=1000, description="in a row, before plain RAG")
    retry_after_s: float = Field(30.0, ge=0, le=86_400, description="of plain RAG, until a trial")
    seed: int = Field(0, ge=0, lt=2**63)

    @field_validator("threshold")
    @classmethod
    def _is_probability(cls, value: str | float) -> str | float:
        if isinstance(value, float) and not 0 <= value <= 1:
            raise ValueError("Give strict, lenient or a number in [0, 1]")
        return value


class TokensConfig(Section):
    """How tokens are drafted and verified: ``method="rapid"``, and plain answers if so set."""

    drafter: Literal["auto", "lookup", "rag", "hybrid"] = Field(
        "auto",
        description="lookup copies; rag: models.drafter reads the best part; hybrid: both; auto: "
        "hybrid where models.drafter is named, else lookup",
    )
    mode: Literal["exact", "augmented", "paper", "ensemble"] = Field(
        "exact", description="the law of acceptance; all but exact are approximate, and need rag"
    )
    eta: float = Field(
        10.0,
        ge=0,
        allow_inf_nan=False,
        description="transfer strength of augmented and paper, or self-weak, self, self-strong; "
        "upward, upward-strong where the drafter is the larger model",
    )
    dynamic: bool = Field(
        False, description="weaken eta where retrieval or drafter is not to be trusted"
    )
    weight: float = Field(0.8, ge=0, le=1, description="of the target in ensemble")
    tail: float = Field(0.1, ge=0, le=1, description="tokens below this share of the peak stay")
    num_draft_tokens: int = Field(
        0, ge=0, le=64, description="per verification; 0: as many as measured costs make worth it"
    )
    in_plain: bool = Field(
        False, description="greedy plain answers copy and verify tokens, too, which changes none"
    )
    context_tokens: int = Field(4096, gt=0, description="of the drafter's passages, at most")
    context_share: float = Field(0.25, gt=0, le=1, description="of the document, at most")
    context_min_similarity: float = Field(
        0.3, ge=-1, le=1, description="of the question and a passage that the drafter reads"
    )
    refresh_tokens: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="of the answer, after which they are retrieved again; 0: never",
    )

    @field_validator("eta", mode="before")
    @classmethod
    def _eta_is_named(cls, value: object) -> object:
        return ETA_PRESETS.get(value, value) if isinstance(value, str) else value
