"""Settings of what happens to documents until they are found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from readahead.config.section import Section

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class DocumentsConfig(Section):
    """How files are read; every limit holds for one file."""

    max_file_bytes: int = Field(100 * 2**20, gt=0, le=4 * 2**30)
    max_text_chars: int = Field(20_000_000, gt=0)
    max_pages: int = Field(100_000, gt=0, description="of a PDF")
    timeout_s: float = Field(120.0, gt=0, le=86_400)
    memory_bytes: int = Field(2 * 2**30, gt=0, le=2**40)
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


class PassagesConfig(Section):
    """How documents are cut from now on; sizes in words, one Chinese character being 1/1.6."""

    max_words: int = Field(300, gt=0)
    max_words_deep: int = Field(150, gt=0, description="under headings of level 3 and deeper")


class RetrievalConfig(Section):
    """How passages are ranked."""

    k: int = Field(
        3,
        gt=0,
        le=10_000,
        description="passages that the model reads for an answer; more find more, and take longer",
    )
    num_candidates: int = Field(
        50, gt=0, le=100_000, description="hits taken from each of the two searches"
    )
    rrf_k: int = Field(5, ge=0, le=1_000_000, description="the constant of reciprocal rank fusion")
    kind_weights: Mapping[str, Weight] = Field({"title": 2.0, "code": 1.5})
    mode: Literal["hybrid", "lexical", "dense"] = "hybrid"
