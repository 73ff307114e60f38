"""The records that every part exchanges; knows nothing but the standard library.

All character positions are half-open intervals ``[start, end)`` into a document's stored text,
counted in Unicode code points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

BlockKind = Literal["title", "paragraph", "list", "code", "table", "caption"]
PassageKind = BlockKind
DraftAuthor = Literal["drafter", "target"]
DraftFault = Literal["", "empty", "refusal", "echo", "cut"]
FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class Block:
    """One structural unit of a document: ``text[start:end]`` of the document that holds it.

    Attributes:
        heading: The titles above the block, outermost first; a title's own text is its last item.
        page: Counted from 1; None where the format has no pages.
        level: 1 to 6 for a title, None for every other kind.
    """

    kind: BlockKind
    start: int
    end: int
    heading: tuple[str, ...] = ()
    page: int | None = None
    level: int | None = None

    def to_json(self) -> dict[str, object]:
        """Return what is told of it, as JSON values."""
        return {
            "kind": self.kind,
            "heading": self.heading,
            "page": self.page,
            "start": self.start,
            "end": self.end,
        }


@dataclass(frozen=True, slots=True)
class Document:
    """Clean text with its structure.

    Attributes:
        name: Where it came from, as the user knows it: a path, ``file.jsonl#3``,
            ``file.jsonl#id=A7``, or ``-``.
        blocks: In reading order, not overlapping; what lies between two blocks is white space.
        removed: What cleaning took out, counted by kind, for instance ``{"page_number": 12}``.
        metadata: Free-form JSON values, for filters.
    """

    name: str
    text: str
    blocks: tuple[Block, ...] = ()
    removed: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, object] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return what is told of it, as JSON values."""
        return {
            "document": self.name,
            "text": self.text,
            "blocks": [block.to_json() for block in self.blocks],
            "removed": self.removed,
        }


@dataclass(frozen=True, slots=True)
class Passage:
    """The unit that is indexed, retrieved and cited.

    Attributes:
        text: Equals the document's ``text[start:end]``, to the character.
        context: What a reader of the text alone would lack: a repeated table header or fence
            opener. Indexed and shown to models in front of the text, never cited.
        id: ``document.version.ordinal`` once stored, for instance ``3.1.7``; empty before.
    """

    document: str
    text: str
    start: int
    end: int
    kind: PassageKind = "paragraph"
    heading: tuple[str, ...] = ()
    page: int | None = None
    context: str = ""
    id: str = ""
    metadata: Mapping[str, object] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return what is told of it, as JSON values."""
        return {
            "passage_id": self.id,
            "document": self.document,
            "heading": self.heading,
            "kind": self.kind,
            "page": self.page,
            "text": self.text,
            "start": self.start,
            "end": self.end,
        }


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage with its score; higher is better, comparable only within one search.

    Attributes:
        similarity: The cosine of query and passage vectors, comparable between searches; None
            where there are no vectors.
    """

    passage: Passage
    score: float
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """The span of a stored document that supports a sentence of the answer.

    ``text`` equals ``[start:end]`` of the stored text of the version that ``passage_id`` names.
    """

    marker: int
    passage_id: str
    document: str
    heading: tuple[str, ...]
    page: int | None
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A short answer that a drafter wrote from some of the passages.

    Attributes:
        places: Of the passages it was shown, in the ranking, from 0.
        fault: Why it cannot be the answer: ``empty``, ``refusal``, ``echo`` (it repeats what it was
            asked), ``cut`` (it ran into its length limit); "" for one that can.
        author: Whose it is: by the preset ``accurate`` the target drafts, too.
        logprob: ln ρ_draft, the mean of ln q over its tokens.
        seconds: Of the batch that it was written in.
    """

    answer: str
    places: tuple[int, ...]
    rationale: str = ""
    fault: DraftFault = ""
    author: DraftAuthor = "drafter"
    logprob: float = 0.0
    num_prompt_tokens: int = 0
    num_tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Token and retrieval counts of one request.

    ``computed_tokens`` went through the target's forward pass, ``reused_tokens`` came from a cache.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    computed_tokens: int = 0
    reused_tokens: int = 0
    retrievals: int = 0


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall-clock seconds of one request; ``tpot_s`` is the mean time per token after the first."""

    ttft_s: float = 0.0
    e2e_s: float = 0.0
    retrieval_s: float = 0.0
    prefill_s: float = 0.0
    tpot_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its evidence, its cost and the trace that explains it.

    Attributes:
        text: With citation markers such as ``[1]``.
        abstained: Whether the passages were found not to hold the answer.
        confidence: In [0, 1]: the share of sentences that a stored span supports; of an answer
            by drafts, the probability that it is right.
        method: What ran, for instance ``plain``.
        notes: What the reader should know: dropped passages, markers the model made up.
        audit: All that was drafted, and why this was chosen, as JSON values; empty for what was
            not drafted.
        speculation: What draft tokens came to, as JSON values; of a session, ``prefetch`` with what
            was guessed and done ahead; empty where nothing was.
    """

    text: str
    abstained: bool
    confidence: float
    method: str
    citations: tuple[Citation, ...] = ()
    usage: Usage = Usage()
    timing: Timing = Timing()
    finish_reason: FinishReason = "stop"
    notes: tuple[str, ...] = ()
    audit: Mapping[str, object] = field(default_factory=dict)
    speculation: Mapping[str, object] = field(default_factory=dict)
    trace_id: str = ""
