"""What requests may hold; unknown fields are refused by name, and none is ignored."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    model_validator,
)

from readahead.config import GenerationConfig
from readahead.server.problems import Problem, unsupported
from readahead.server.schemas.fields import Mended, Off, refused, said_as
from readahead.server.schemas.scope import Scope
from readahead.server.schemas.settings import Method

MAX_STOPS = 4
MAX_TOKENS = 1_000_000
DECODING = (
    *("temperature", "top_p", "seed", "frequency_penalty", "presence_penalty"),
    *("stop", "max_tokens", "max_completion_tokens"),
)
MAX_LABELS = 16  # [OpenAI], as the lengths of their names and values
Key = Annotated[str, Field(max_length=64), Mended]
Value = Annotated[str, Field(max_length=512), Mended]
Stop = Annotated[str, Field(min_length=1, max_length=1000)]
Stops = Annotated[
    Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS)],
    said_as("Input should be a text, or a list of at most 4, each of 1 to 1000 characters"),
]


class Strict(BaseModel):
    """A part of a request."""

    model_config = ConfigDict(extra="forbid")


class StreamOptions(Strict):
    """Of a stream."""

    include_usage: StrictBool = False
    include_obfuscation: Off = False


class Sampling(Strict):
    """How tokens are chosen; unset fields are as OpenAI's API or the server's settings say.

    ``user`` and ``metadata`` change no answer: they are kept with its trace.
    """

    temperature: StrictFloat | None = Field(None, ge=0, le=2)
    top_p: StrictFloat | None = Field(None, gt=0, le=1)
    seed: StrictInt | None = Field(None, ge=-(2**63), lt=2**63)
    frequency_penalty: StrictFloat | None = Field(None, ge=-2, le=2)
    presence_penalty: StrictFloat | None = Field(None, ge=-2, le=2)
    stop: Stops | None = None
    n: StrictInt | None = Field(None, ge=1)
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    user: Annotated[str, Field(max_length=1000), Mended] | None = None
    metadata: Annotated[dict[Key, Value], Field(max_length=MAX_LABELS)] | None = None
    logit_bias: dict[str, StrictFloat] | None = None

    @model_validator(mode="after")
    def _is_served(self) -> Sampling:
        if self.logit_bias:
            raise unsupported("logit_bias", "no token can be favoured here")
        if self.stream_options is not None and not self.stream:
            raise unsupported("stream_options", "it goes with stream: true only")
        return self

    @property
    def labels(self) -> dict[str, object]:
        """Return what the client calls this request, if anything."""
        named = {"user": self.user, "metadata": self.metadata}
        return {name: value for name, value in named.items() if value}

    @property
    def is_counted(self) -> bool:
        """Return whether a stream is to tell what it used."""
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def stops(self) -> tuple[str, ...]:
        """Return the texts that end an answer."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    def num_choices(self, most: int) -> int:
        """Return how many answers are wanted.

        Raises:
            Problem: 400, more than ``most``.
        """
        num = self.n or 1
        if num > most:
            raise Problem(400, f"n is {num}; it may be at most {most}.", param="n")
        return num

    def generation(
        self, defaults: GenerationConfig, max_new_tokens: int | None, index: int = 0
    ) -> GenerationConfig:
        """Return how choice ``index`` of the answer is decoded.

        Without a seed, answers that are drawn differ from call to call, as clients expect.
        """
        own = {
            "max_new_tokens": max_new_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "frequency_penalty": self.frequency_penalty,
            "presence_penalty": self.presence_penalty,
            "stop": self.stops or None,
        }
        given = {name: value for name, value in own.items() if value is not None}
        drawn = given.get("temperature", defaults.temperature) != 0
        if self.seed is not None:
            given["seed"] = (self.seed + index) % 2**63
        elif drawn:
            given["seed"] = secrets.randbits(63)
        return defaults.model_copy(update=given)


class Text(Strict):
    """A part of a message."""

    type: Literal["text"]
    text: str


Content = Annotated[
    str | list[Text],
    said_as('Input should be a text, or a list of {"type": "text", "text": "…"}'),
]


class Message(BaseModel):
    """One message of a conversation.

    What an answer has besides, as clients dump it to send it back, is None or not used.
    """

    model_config = ConfigDict(extra="forbid")

    role: Literal["system", "developer", "user", "assistant"]
    content: Content
    name: Annotated[None, refused("the model is told roles, no names")] = None
    refusal: None = None
    annotations: list[Any] | None = None
    audio: None = None
    function_call: None = None
    tool_calls: None = None

    @property
    def text(self) -> str:
        """Return what it says."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


class Extension(Scope):
    """What only readahead takes."""

    prefix: ClassVar[str] = "readahead."

    method: Method = "prefetch"
    session: str | None = Field(None, max_length=100)
    inject: StrictBool | None = None
    settings: dict[str, Any] = {}


class ResponseFormat(Strict):
    """Of an answer: text is all that there is."""

    type: Literal["text"]


class ChatRequest(Sampling):
    """The body of ``POST /v1/chat/completions``."""

    model: str = Field(max_length=200)
    messages: list[Message] = Field(min_length=1, max_length=1000)
    max_tokens: StrictInt | None = Field(None, ge=1, le=MAX_TOKENS)
    max_completion_tokens: StrictInt | None = Field(None, ge=1, le=MAX_TOKENS)
    logprobs: StrictBool | None = None
    top_logprobs: StrictInt | None = Field(None, ge=0, le=20)
    response_format: ResponseFormat | None = None
    store: Off | None = None
    service_tier: Literal["auto", "default"] | None = None
    readahead: Extension | None = None

    @model_validator(mode="after")
    def _has_one_length(self) -> ChatRequest:
        if self.max_tokens not in (None, self.max_completion_tokens or self.max_tokens):
            raise Problem(
                400,
                f"max_tokens is {self.max_tokens}, and max_completion_tokens "
                f"{self.max_completion_tokens}. Give one of them.",
                param="max_tokens",
            )
        return self

    @property
    def max_new_tokens(self) -> int | None:
        """Return the length limit of the answer."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def decoding(self) -> list[str]:
        """Return the fields that say how tokens are chosen, or how many."""
        return [name for name in DECODING if getattr(self, name) is not None]
