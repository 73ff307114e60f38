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
    max_injections: int = Field(
        2, ge=0, le=16, description="how often one answer may look up more passages; 0: never"
    )
    max_tokens: int = Field(192, ge=0, description="of all passages injected into one answer")
    max_tokens_each: int = Field(128, ge=0, description="longer passages are shortened")
    threshold: float = Field(
        0.53,
        ge=0,
        le=1,
        description="how probable it must be that the passages lack the answer, to look up more; "
        "lower: more often",
    )
    min_similarity: float = Field(
        0.51, ge=-1, le=1, description="of the query and a passage; the others are not injected"
    )
    jump: float = Field(
        1.5, ge=0, description="nats of a content word's entropy above those before, to ask again"
    )
    cool_down_tokens: int = Field(16, ge=0, description="between two injections")
    placement: Literal["note", "turn", "prompt"] = Field(
        "note",
        description="where passages go that are added within an answer: note, into its text; turn, "
        "as a message of their own; prompt, beside the first ones, and all is read anew; added "
        "before the answer, they always go there",
    )
    logit_bias: float = Field(
        0.0, ge=0, le=10, description="added for the rare words of injected passages"
    )


class DraftsConfig(Section):
    """How answers are drafted small and chosen by evidence (``method="drafts"``)."""

    preset: Literal["fast", "accurate"] = Field(
        "fast",
        description="fast: the drafter model alone drafts; accurate: the target drafts, too, and "
        "scores what both say: more answers are right, and they take longer",
    )
    strategy: Literal[
        "single", "perspectives", "sources", "time", "authority", "contiguous", "random"
    ] = Field(
        "single",
        description="which passages each draft reads: single, one; perspectives, one of each "
        "opinion; sources, those of one document; time, those of one age; authority, those of one "
        "weight; contiguous, neighbours in the ranking; random, any",
    )
    num_passages: int = Field(
        10,
        ge=1,
        le=1000,
        description="passages that are looked up, drafted from, and searched for evidence; more "
        "find more, and take longer",
    )
    num_drafts: int = Field(
        10, ge=1, le=100, description="drafts at most; more see more passages, and take longer"
    )
    passages_per_draft: int = Field(
        2, ge=1, le=100, description="passages that each draft reads, where not single"
    )
    adaptive: bool = Field(
        True, description="stop after two drafts that agree and that passages bear out: sooner"
    )
    with_rationale: bool = Field(
        False, description="each draft quotes what shows its answer: slower, easier to check"
    )
    with_passages: bool = Field(False, description="shown to the target when it scores, too")
    max_new_tokens: int = Field(24, gt=0, le=100_000, description="of one draft")
    threshold: Literal["strict", "lenient"] | float = Field(
        "lenient",
        description="how probable an answer must be to be given: lenient declines few questions, "
        "strict more; or a number from 0 to 1",
    )
    also: float | None = Field(
        None,
        ge=0,
        le=1,
        description="how probable a further answer must be to be given beside a better one; unset: "
        "as fitted, or, by accurate, where it adds more than it may harm",
    )
    max_refinements: int = Field(
        1,
        ge=0,
        le=2,
        description="times that drafts are written anew, told what was wrong, where none was good "
        "enough; 0: never",
    )
    max_depth: int = Field(
        2,
        ge=0,
        le=2,
        description="how often in a row a question may be split into questions that are answered "
        "first; 0: never",
    )
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
        description="what guesses the next tokens: lookup copies them from the document; rag, the "
        "drafter model, which reads its best part; hybrid, both; auto, hybrid where models.drafter "
        "is named, else lookup",
    )
    mode: Literal["exact", "augmented", "paper", "ensemble"] = Field(
        "exact",
        description="which guessed tokens are kept: exact, those that the target itself would "
        "write; by augmented, paper and ensemble the drafter has a say, so the answer is "
        "approximate; these need the drafter rag",
    )
    eta: float = Field(
        10.0,
        ge=0,
        allow_inf_nan=False,
        description="how strongly the drafter moves the answer, in augmented and paper; 0: not at "
        "all; or self-weak, self, self-strong; upward, upward-strong where the drafter is the "
        "larger model",
    )
    dynamic: bool = Field(
        False,
        description="the drafter moves the answer less where its passages do not resemble the "
        "question, or it disagrees with the target",
    )
    weight: float = Field(
        0.8,
        ge=0,
        le=1,
        description="the target's share in ensemble: 1, as the target writes; 0, as the drafter",
    )
    tail: float = Field(0.1, ge=0, le=1, description="tokens below this share of the peak stay")
    num_draft_tokens: int = Field(
        0,
        ge=0,
        le=64,
        description="tokens that are guessed before each check; 0: as many as measured times make "
        "worth it",
    )
    in_plain: bool = Field(
        False,
        description="plain answers at temperature 0 copy tokens from their passages and check "
        "them: the same answers, often a little sooner",
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
