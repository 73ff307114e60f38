"""What goes into a store and what it tells about its content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from readahead.types import Document, Passage, PassageKind


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to store, cut into passages."""

    document: Document
    passages: Sequence[Passage]


@dataclass(frozen=True, slots=True)
class NewSource:
    """A file, or standard input, with all documents that it holds now."""

    name: str
    sha256: str
    documents: Sequence[NewDocument]


@dataclass(frozen=True, slots=True)
class Changes:
    """How many sources a call added, found unchanged and replaced.

    Attributes:
        passages: How many it wrote.
        deleted: How many documents were no longer in their source.
    """

    added: int = 0
    unchanged: int = 0
    replaced: int = 0
    passages: int = 0
    deleted: int = 0

    def __add__(self, other: Changes) -> Changes:
        """Return the sums."""
        return Changes(
            self.added + other.added,
            self.unchanged + other.unchanged,
            self.replaced + other.replaced,
            self.passages + other.passages,
            self.deleted + other.deleted,
        )


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """One line of the list of documents.

    Attributes:
        added_at: In seconds since the epoch.
        removed: What cleaning took out, counted by kind.
    """

    id: int
    name: str
    source: str
    version: int
    num_chars: int
    num_passages: int
    added_at: float
    removed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Outline:
    """What ranking needs of a passage."""

    kind: PassageKind
    heading: tuple[str, ...]
