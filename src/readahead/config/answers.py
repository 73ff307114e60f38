"""Settings of how answers are written, supported and traced."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from readahead.config.section import Section


class GenerationConfig(Section):
    """How answers are decoded; temperature 0 is greedy."""

    max_new_tokens: int = Field(256, gt=0, le=1_000_000)
    temperature: float = Field(0.0, ge=0, allow_inf_nan=False)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(
        0,
        ge=0,
        description="each token is drawn from so many of the most probable; 0: from all; of no "
        "effect at temperature 0, where the most probable is taken",
    )
    repetition_penalty: float = Field(
        1.0,
        ge=0.01,
        le=100,
        description="above 1 the model avoids words that it has read or used; 1: off",
    )
    frequency_penalty: float = Field(
        0.0, ge=-2, le=2, description="taken off a token's logit each time the answer has it"
    )
    presence_penalty: float = Field(
        0.0, ge=-2, le=2, description="taken off the logit of tokens that the answer has"
    )
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        (), description="texts that end an answer, no part of it"
    )
    system: str = Field("", description="said to the model behind its instructions")
    seed: int = Field(0, ge=0, lt=2**63)


class EvidenceConfig(Section):
    """When a span counts as support for a sentence, and who else judges claims."""

    threshold: float = Field(
        0.5,
        ge=0,
        le=1,
        description="how well a passage must support a sentence to be cited for it, from 0 to 1; "
        "higher: fewer citations, and surer ones",
    )
    judge: str = Field(
        "", description="an entailment model that judges drafted answers, too; empty: none"
    )


class TracesConfig(Section):
    """How many traces a knowledge base keeps."""

    keep: int = Field(200, ge=0, le=100_000)
