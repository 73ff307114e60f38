"""Settings: one section per component; flags > environment > ``readahead.toml`` > defaults.

An environment variable is spelled ``READAHEAD_SECTION__FIELD``, for instance
``READAHEAD_RETRIEVAL__K=8``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from readahead.errors import ConfigError

Dtype = Literal["auto", "float32", "bfloat16", "float16", "int8"]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
ETA_PRESETS = {
    "self-weak": 5.0,
    "self": 10.0,
    "self-strong": 20.0,
    "upward": 40.0,
    "upward-strong": 50.0,
}
"""Transfer strengths η that were published: the drafter is the target itself, or larger."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DocumentsConfig(_Section):
    """How files are read; every limit holds for one file."""

    max_file_bytes: int = Field(100 * 2**20, gt=0, le=4 * 2**30)
    max_text_chars: int = Field(20_000_000, gt=0)
    timeout_s: float = Field(120.0, gt=0, le=86_400)
    memory_bytes: int = Field(2 * 2**30, gt=0, le=2**40)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class PassagesConfig(_Section):
    """How documents are cut from now on; sizes in words, one Chinese character being 1/1.6."""

    max_words: int = Field(300, gt=0)
    max_words_deep: int = Field(150, gt=0, description="under headings of level 3 and deeper")


class RetrievalConfig(_Section):
    """How passages are ranked."""

    k: int = Field(3, gt=0, le=10_000, description="passages shown to the model")
    num_candidates: int = Field(
        50, gt=0, le=100_000, description="hits taken from each of the two searches"
    )
    rrf_k: int = Field(5, ge=0, le=1_000_000, description="the constant of reciprocal rank fusion")
    kind_weights: Mapping[str, Weight] = Field({"title": 2.0, "code": 1.5})
    mode: Literal["hybrid", "lexical", "dense"] = "hybrid"


class ModelsConfig(_Section):
    """Which models run, where, and in which precision."""

    target: str = "qwen2.5-coder-0.5b"
    drafter: str = Field("", description="writes drafts of answers; empty: the target does")
    drafter_device: str = Field("", description="empty: that of the target")
    drafter_dtype: Dtype | None = Field(None, description="unset: that of the target")
    embedder: str = "all-minilm-l6-v2"
    device: str = "auto"
    dtype: Dtype = Field("auto", description="int8 is of the weights alone, and approximate")
    prefill_step_tokens: int = Field(
        256, gt=0, le=1_000_000, description="a request can be cancelled between"
    )

    @property
    def target_place(self) -> tuple[str, str, Dtype]:
        """Return which model the target is, its device and its precision."""
        return self.target, self.device, self.dtype

    @property
    def drafter_place(self) -> tuple[str, str, Dtype]:
        """Return the same of the drafter; equal places are one model."""
        return (
            self.drafter or self.target,
            self.drafter_device or self.device,
            self.drafter_dtype or self.dtype,
        )


class CacheConfig(_Section):
    """How much memory the keys and values of prefixes may take, and what becomes of the rest."""

    budget_bytes: int | None = Field(
        None, ge=0, description="unset: a quarter of the memory that is free at the start"
    )
    storage: Literal["same", "bfloat16", "int8"] = Field(
        "same", description="of prefixes not used lately; anything but same is approximate"
    )
    spill_bytes: int = Field(0, ge=0, description="disk space for prefixes that lose their memory")
    reuse: Literal["exact", "blend"] = Field(
        "exact", description="blend takes passages from behind other tokens, and is approximate"
    )
    blend_share: float = Field(
        0.2, ge=0.05, le=1, description="of the tokens that blend takes, read again"
    )


class PrefetchConfig(_Section):
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


class InjectConfig(_Section):
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


class DraftsConfig(_Section):
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


class TokensConfig(_Section):
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


class GenerationConfig(_Section):
    """How answers are decoded; temperature 0 is greedy."""

    max_new_tokens: int = Field(256, gt=0, le=1_000_000)
    temperature: float = Field(0.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0, description="0 keeps every token")
    repetition_penalty: float = Field(1.0, gt=0)
    seed: int = Field(0, ge=0, lt=2**63)


class EvidenceConfig(_Section):
    """When a span counts as support for a sentence, and who else judges claims."""

    threshold: float = Field(0.5, ge=0, le=1)
    judge: str = Field(
        "", description="an entailment model that judges drafted answers, too; empty: none"
    )


class TracesConfig(_Section):
    """How many traces a knowledge base keeps."""

    keep: int = Field(200, ge=0, le=100_000)


class Config(BaseSettings):
    """All settings, validated and frozen."""

    model_config = SettingsConfigDict(
        env_prefix="READAHEAD_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        toml_file="readahead.toml",
        extra="forbid",
        frozen=True,
    )

    kb: Path = Path(".readahead")
    documents: DocumentsConfig = DocumentsConfig()
    passages: PassagesConfig = PassagesConfig()
    retrieval: RetrievalConfig = RetrievalConfig()
    models: ModelsConfig = ModelsConfig()
    cache: CacheConfig = CacheConfig()
    prefetch: PrefetchConfig = PrefetchConfig()
    inject: InjectConfig = InjectConfig()
    drafts: DraftsConfig = DraftsConfig()
    tokens: TokensConfig = TokensConfig()
    generation: GenerationConfig = GenerationConfig()
    evidence: EvidenceConfig = EvidenceConfig()
    traces: TracesConfig = TracesConfig()

    @field_validator("kb", mode="before")
    @classmethod
    def _kb_is_named(cls, value: object) -> object:
        if value == "":  # as a path, the current folder
            raise ValueError("Name a folder")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put flags before the environment, and the environment before the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load_config(flags: Mapping[str, object] | None = None) -> Config:
    """Return the settings of the current folder and environment, overridden by ``flags``.

    Args:
        flags: Dotted names to values, for instance ``{"retrieval.k": 8}``; None means not given.

    Raises:
        ConfigError: A setting is unknown or out of its range, or the file cannot be read.
    """
    nested: dict[str, object] = {}
    for name, value in (flags or {}).items():
        if value is None:
            continue
        section, dot, field = name.partition(".")
        if not dot:
            nested[name] = value
            continue
        group = nested.setdefault(section, {})
        assert isinstance(group, dict)
        group[field] = value
    try:
        config = Config()  # on its own: a flag would hide that a section is not a table
        return Config(**nested) if nested else config  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"The setting {where!r} is not usable: {first['msg']} (got {first.get('input')!r}).",
            remedy="See the list of settings in docs/configuration.md.",
        ) from None
    except SettingsError as error:
        raise ConfigError(
            f"An environment variable is not usable: {error}.",
            remedy="Lists and tables are written as JSON there.",
        ) from None
    except RecursionError:
        raise ConfigError(
            "A setting in the environment or in readahead.toml is nested too deeply.",
            remedy="See the list of settings in docs/configuration.md.",
        ) from None
    except (ValueError, OSError) as error:
        raise ConfigError(f"readahead.toml cannot be read: {error}.", remedy="Mend it.") from None


def cache_home() -> Path:
    """Return the folder for downloaded and converted models.

    ``READAHEAD_HOME``, else ``readahead`` under ``XDG_CACHE_HOME``, else ``~/.cache/readahead``.
    """
    if home := os.environ.get("READAHEAD_HOME"):
        return Path(home).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "readahead"
