"""Settings of which models run, and of what is kept of their reading."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from readahead.config.section import Section

Dtype = Literal["auto", "float32", "bfloat16", "float16", "int8"]


class ModelsConfig(Section):
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


class CacheConfig(Section):
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
