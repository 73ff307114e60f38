"""What responses look like, for the OpenAPI document; tests hold real responses to it.

Those of models are in ``answershapes``.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from readahead.server.schemas.settings import Method
from readahead.server.spool import JobStatus
from readahead.types import FinishReason, PassageKind


class Shape(BaseModel):
    """A JSON object with these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class Trouble(Shape):
    """What went wrong."""

    message: str = Field(description="what, limit and remedy, in one line")
    type: str = Field(description="the kind of the error, by status")
    param: str | None = Field(description="the field that is at fault, if it is one")
    code: str | None = Field(description="for programs")


class Error(Shape):
    """Every error, whatever went wrong; the last event of a stream that fails, too."""

    error: Trouble


class Unread(Shape):
    """A file that could not be read."""

    path: str
    reason: str


class Job(Shape):
    """Files that are to be indexed, and what became of those that were."""

    object: Literal["job"]
    id: str
    status: JobStatus
    files: list[str]
    created_at: float
    added: int
    unchanged: int
    replaced: int
    failed: list[Unread]
    passages: int = Field(description="written")
    num_done: int = Field(description="files that are dealt with")
    num_files: int
    to_encode: int = Field(description="passages to embed, of the files read so far")
    encoded: int = Field(description="of these, also of the file at work")
    too_long: int = Field(description="of those, longer than the embedder reads")
    seconds: float
    error: str = Field(description="why all of it failed or, while it is queued, what it waits for")


class Jobs(Shape):
    """Uploads, the newest first."""

    object: Literal["list"]
    data: list[Job]
    has_more: bool


class DocumentLine(Shape):
    """One document of the list."""

    object: Literal["document"]
    id: str
    name: str
    num_passages: int
    num_chars: int
    added_at: float
    removed: dict[str, int] = Field(description="what cleaning took out, counted by kind")


class Documents(Shape):
    """Documents, the newest first."""

    object: Literal["list"]
    data: list[DocumentLine]
    has_more: bool


class Block(Shape):
    """A part of a document's text, from start to end."""

    kind: PassageKind
    heading: list[str]
    page: int | None
    start: int
    end: int


class Document(Shape):
    """A document's stored text, with its structure."""

    object: Literal["document"]
    id: str
    document: str
    text: str
    blocks: list[Block]
    removed: dict[str, int]


class Deleted(Shape):
    """What is no longer there."""

    object: Literal["document.deleted", "session.deleted"]
    id: str
    deleted: Literal[True]


class Found(Shape):
    """A passage."""

    passage_id: str
    document: str
    document_id: str
    heading: list[str]
    kind: PassageKind
    page: int | None
    text: str
    start: int
    end: int


class Hit(Found):
    """A passage that fits a query; a score compares the hits of one query only."""

    score: float


class Hits(Shape):
    """The passages that fit a query best, best first."""

    object: Literal["list"]
    hits: list[Hit]


class Passage(Found):
    """A passage, by its id."""

    object: Literal["passage"]


class Session(Shape):
    """A conversation, and how it was opened."""

    object: Literal["session"]
    id: str
    created_at: int
    last_used_at: int
    num_turns: int = Field(description="how many were answered")
    is_answering: bool
    method: Literal["prefetch", "rapid"]
    documents: list[str]
    kinds: list[PassageKind]
    metadata: dict[str, Any]
    inject: bool | None
    settings: dict[str, Any]


class Sessions(Shape):
    """The conversations that are open, the oldest first."""

    object: Literal["list"]
    data: list[Session]


class Status(Shape):
    """What is ready for the question that is being typed."""

    object: Literal["session.status"]
    passages: list[str] = Field(description="the headings of those read ahead, in this order")
    fetching: list[str] = Field(description="the headings of those being read ahead now")
    num_tokens: int = Field(description="of its prompt, read already; the conversation counts")
    num_answer_tokens: int = Field(description="of the answer, decoded ahead")
    probability: float = Field(description="that the best passage is final, as the gate sees it")
    reason: str = Field(description='why nothing more is done ahead; "" while or after it is')
    suggestions: list[str] = Field(description="questions that may come next")


class Place(Shape):
    """Where a passage or a citation stands; without words once its document is deleted."""

    passage_id: str
    document: str
    document_id: str
    heading: list[str]
    page: int | None
    start: int
    end: int
    marker: int | None
    text: str | None


class Turn(Shape):
    """A question and its answer."""

    question: str
    answer: str
    finish_reason: FinishReason
    abstained: bool
    trace_id: str
    citations: list[Place]
    passages: list[Place]


class Conversation(Session):
    """What was said, and what is ready for the question that is being typed."""

    turns: list[Turn] = Field(description="the last ones, 100 at most")
    status: Status
    suggestions: list[str]


class TraceLine(Shape):
    """One request of the list; a field that it does not have is null."""

    object: Literal["trace"]
    id: str
    kind: str
    started_at: float
    question: str | None
    method: str | None
    target: str | None
    finish_reason: str | None
    ttft_s: float | None
    e2e_s: float | None
    user: str | None = Field(description="as the request said")
    metadata: dict[str, str] | None = Field(description="likewise")


class Traces(Shape):
    """The last requests, the latest first."""

    object: Literal["list"]
    data: list[TraceLine]
    has_more: bool


class Span(Shape):
    """A stretch of a request, in seconds since its beginning."""

    name: str
    start_s: float
    end_s: float | None
    count: int
    busy_s: float
    attributes: dict[str, Any]


class Trace(Shape):
    """What happened in one request, and when."""

    object: Literal["trace"]
    id: str
    kind: str
    started_at: float
    attributes: dict[str, Any]
    counters: dict[str, int]
    spans: list[Span]


class Setting(Shape):
    """What a request may set: the value where it does not, who reads it, its type and range."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    object: Literal["setting"]
    name: str
    value: Any
    methods: list[Method] = Field(description="of answering, that read it")
    described: dict[str, Any] = Field(alias="schema")


class Settings(Shape):
    """All of them, and the models in use."""

    object: Literal["list"]
    target: str
    drafter: str
    embedder: str
    mode: str = Field(description="of retrieval: dense, lexical or hybrid")
    data: list[Setting]


class Health(Shape):
    """A word."""

    status: Literal["ok", "ready"]
