"""What the responses of models look like, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from readahead.server.schemas.shapes import Shape
from readahead.types import FinishReason


class UrlCitation(Shape):
    """Where a marker stands, and what it leads to."""

    start_index: int
    end_index: int
    title: str
    url: str


class Annotation(Shape):
    """A marker in the text of an answer."""

    type: Literal["url_citation"]
    url_citation: UrlCitation


class Reply(Shape):
    """The message of an answer."""

    role: Literal["assistant"]
    content: str
    refusal: None
    annotations: list[Annotation]


class Alternative(Shape):
    """A token that could have stood here."""

    token: str
    logprob: float
    bytes: list[int]


class Token(Alternative):
    """A token of the answer."""

    top_logprobs: list[Alternative]


class Tokens(Shape):
    """The tokens of an answer."""

    content: list[Token]
    refusal: None


class ChatChoice(Shape):
    """One answer."""

    index: int
    message: Reply
    logprobs: Tokens | None
    finish_reason: Literal["stop", "length"]


class CachedTokens(Shape):
    """Of the prompt."""

    cached_tokens: int


class ChatUsage(Shape):
    """What the choices of one request used: they have the prompt in common."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class Cited(Shape):
    """The span of a stored document that supports a sentence of the answer."""

    marker: int = Field(description="the number in the text: [1]")
    passage_id: str = Field(description="for GET /v1/passages/{id}")
    document: str = Field(description="the document's name")
    document_id: str = Field(description="for GET /v1/documents/{id}")
    heading: list[str] = Field(description="the titles above the span, outermost first")
    page: int | None = Field(description="where the document has pages")
    start: int = Field(description="of the span in the document's stored text, in characters")
    end: int = Field(description="likewise; one behind the last character")
    text: str = Field(description="the stored text from start to end")


class AnswerUsage(Shape):
    """What an answer cost."""

    prompt_tokens: int = Field(
        description="of the prompt with its passages; by drafts, of all their prompts"
    )
    completion_tokens: int = Field(description="of the answer; by drafts, of all drafts")
    computed_tokens: int = Field(description="that went through the target for this answer")
    reused_tokens: int = Field(description="of the prompt that were read before, also ahead")
    retrievals: int = Field(description="how often passages were looked up")


class AnswerTiming(Shape):
    """Seconds of one answer."""

    ttft_s: float = Field(description="to the first text")
    e2e_s: float = Field(description="to the end")
    retrieval_s: float = Field(description="looking up passages")
    prefill_s: float = Field(description="reading the prompt")
    tpot_s: float = Field(description="per token behind the first, on average")


class Answered(Shape):
    """An answer with its evidence and cost."""

    method: str = Field(description="what ran: prefetch, plain, drafts or rapid")
    finish_reason: FinishReason = Field(
        description="why the text ends: stop, length, or cancelled, which OpenAI's field calls "
        "stop: its session was deleted"
    )
    abstained: bool = Field(description="whether the passages were found not to hold the answer")
    confidence: float = Field(
        ge=0,
        le=1,
        description="the share of sentences that a stored span supports; by drafts, the "
        "probability that the answer is right",
    )
    citations: list[Cited] = Field(description="what the markers [1], [2] … in the text cite")
    usage: AnswerUsage = Field(description="tokens and retrievals")
    timing: AnswerTiming = Field(description="seconds")
    notes: list[str] = Field(description="what a reader should know: passages that did not fit, …")
    audit: dict[str, Any] = Field(description="by drafts: all that was drafted, why one was chosen")
    speculation: dict[str, Any] = Field(
        description="what draft tokens came to or, by prefetch, what was done ahead"
    )
    trace_id: str = Field(description="for GET /v1/traces/{id}")
    session: str = Field("", description="the id that the request named, if it did")
    choices: list[Answered] = Field([], description="with n > 1, these fields of every choice")


class ChatCompletion(Shape):
    """An answer; ``readahead`` goes with the model of this name."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: ChatUsage
    readahead: Answered | None = Field(None, description="of the model readahead")


class Logprobs(Shape):
    """The tokens of a completion, in parallel lists."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(Shape):
    """One continuation."""

    index: int
    text: str
    logprobs: Logprobs | None
    finish_reason: Literal["stop", "length"]


class Used(Shape):
    """How many tokens were read."""

    prompt_tokens: int
    total_tokens: int


class CompletionUsage(Used):
    """How many tokens were read and written."""

    completion_tokens: int


class Completion(Shape):
    """Continuations of each prompt."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage


class Embedding(Shape):
    """The vector of one text: numbers, or their float32 bytes in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Embeddings(Shape):
    """Vectors in the order of the input."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Used


class Model(Shape):
    """What may be asked."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class Models(Shape):
    """All of them."""

    object: Literal["list"]
    data: list[Model]
