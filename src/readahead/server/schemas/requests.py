"""What requests may hold; unknown fields are refused by name, and none is ignored."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    ValidationError,
    model_validator,
)

from readahead.config import Config, GenerationConfig
from readahead.errors import ConfigError
from readahead.rapid import drafts_by_model
from readahead.server.problems import Problem, of_field, unsupported
from readahead.server.schemas.fields import AnyText, Off, refused
from readahead.server.schemas.scope import Scope

MAX_STOPS = 4
MAX_TOKENS = 1_000_000
DECODING = (
    *("temperature", "top_p", "seed", "frequency_penalty", "presence_penalty"),
    *("stop", "max_tokens", "max_completion_tokens"),
)
MAX_LABELS = 16  # [OpenAI], as the lengths of their names and values
Key = Annotated[AnyText, Field(max_length=64)]
Value = Annotated[AnyText, Field(max_length=512)]
Stop = Annotated[str, Field(min_length=1, max_length=1000)]


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
    stop: Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS)] | None = None
    n: StrictInt | None = Field(None, ge=1)
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    user: Annotated[AnyText, Field(max_length=1000)] | None = None
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


class Message(BaseModel):
    """One message of a conversation.

    What an answer has besides, as clients dump it to send it back, is None or not used.
    """

    model_config = ConfigDict(extra="forbid")

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Text]
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

    method: Literal["prefetch", "plain", "drafts", "rapid"] = "prefetch"
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


SETTINGS = (
    "retrieval.k",
    "inject.threshold",
    "inject.placement",
    "inject.max_injections",
    "drafts.preset",
    "drafts.strategy",
    "drafts.num_passages",
    "drafts.num_drafts",
    "drafts.passages_per_draft",
    "drafts.adaptive",
    "drafts.with_rationale",
    "drafts.threshold",
    "drafts.also",
    "drafts.max_refinements",
    "drafts.max_depth",
    "tokens.drafter",
    "tokens.mode",
    "tokens.eta",
    "tokens.dynamic",
    "tokens.weight",
    "tokens.num_draft_tokens",
    "tokens.in_plain",
    "evidence.threshold",
    "generation.top_k",
    "generation.repetition_penalty",
)
"""What a request may set; the rest is the server's."""
LIMITS = {"retrieval.k": 100, "drafts.num_passages": 100, "drafts.num_drafts": 32}
"""So that one request does not take the server for itself."""


def configured(config: Config, settings: dict[str, Any]) -> Config:
    """Return ``config`` with a request's ``settings``.

    Raises:
        Problem: 400, a setting is not one that requests may set, is out of its range, or does not
            go with another one.
    """
    sections: dict[str, BaseModel] = {}
    for name, value in settings.items():
        param = f"readahead.settings.{name}"
        if name not in SETTINGS:
            raise Problem(
                400,
                f"{name!r} cannot be set by a request. Those that can: {', '.join(SETTINGS)}.",
                param=param,
                code="unsupported",
            )
        if name in LIMITS and isinstance(value, int | float) and value > LIMITS[name]:
            raise Problem(400, f"{name} may be at most {LIMITS[name]}.", param=param)
        group, _, field = name.partition(".")
        section = sections.get(group) or getattr(config, group)
        try:
            values = {**section.model_dump(), field: value}
            sections[group] = type(section).model_validate(values, strict=True)
        except ValidationError as error:
            message = of_field(name, error.errors()[0]["msg"])
            raise Problem(400, message, param=param) from None
    config = config.model_copy(update=sections)
    if "tokens" in sections:
        try:
            drafts_by_model(config)
        except ConfigError as error:
            param = "readahead.settings.tokens.mode"
            raise Problem(400, str(error), param=param, code="invalid") from None
    return config


def seeded(config: Config, seed: int) -> Config:
    """Return ``config`` with another seed where its answers are drawn; else as it is."""
    if not config.generation.temperature:
        return config
    generation = config.generation.model_copy(update={"seed": seed})
    return config.model_copy(update={"generation": generation})
