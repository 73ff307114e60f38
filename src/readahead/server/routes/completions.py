"""/v1/completions: the bare target goes on with a text, or scores it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field, StrictBool, StrictInt, model_validator

from readahead.bare import bare_trace, echo_bare, stream_choices
from readahead.config import GenerationConfig
from readahead.lm.base import Cancelled
from readahead.lm.echo import Echo
from readahead.lm.sample import MAX_TOP_LOGPROBS, SamplingParams
from readahead.plain import sampling_params
from readahead.server.asking import begun
from readahead.server.observability.serving import asks
from readahead.server.problems import Problem, unsupported
from readahead.server.routes.catalogue import unknown_model
from readahead.server.routes.completed import Choice, Part, joined
from readahead.server.routes.prompts import Prompt, Prompts, read_prompts
from readahead.server.schemas.replies import Envelope, tokens_json
from readahead.server.schemas.requests import MAX_TOKENS, Sampling
from readahead.server.state import Caller, CallerOf, Service, ServiceOf
from readahead.server.stream import streamed
from readahead.trace import Trace

router = APIRouter()
DEFAULTS = GenerationConfig(temperature=1.0, max_new_tokens=16)  # [OpenAI]


class CompletionRequest(Sampling):
    """The body of ``POST /v1/completions``."""

    model: str = Field(max_length=200)
    prompt: Prompts
    max_tokens: StrictInt | None = Field(None, ge=0, le=MAX_TOKENS)
    echo: StrictBool | None = None
    logprobs: StrictInt | None = Field(None, ge=0, le=MAX_TOP_LOGPROBS)
    suffix: str | None = None
    best_of: StrictInt | None = None

    @model_validator(mode="after")
    def _is_served_here(self) -> CompletionRequest:
        if self.suffix:
            raise unsupported("suffix", "the model goes on at the end only")
        if self.best_of not in (None, self.n or 1):
            raise unsupported("best_of", "all answers that are written are returned")
        if self.max_tokens == 0 and not self.echo:
            raise Problem(400, "max_tokens may be 0 with echo only.", param="max_tokens")
        return self

    def params(self, index: int) -> SamplingParams:
        """Return how choice ``index`` is written, if anything is."""
        params = sampling_params(self.generation(DEFAULTS, self.max_tokens or None, index))
        return replace(params, num_top_logprobs=self.logprobs or 0)


@dataclass(frozen=True, slots=True)
class _Used:
    """Comes last: how many tokens were read and written, as JSON values."""

    usage: dict[str, object]


@router.post("/v1/completions")
async def complete(
    request: Request,
    completion: Annotated[CompletionRequest, Body()],
    service: ServiceOf,
    caller: CallerOf,
) -> Response:
    """Go on with each prompt."""
    completion.num_choices(service.config.server.max_choices)
    target = await asyncio.to_thread(lambda: service.loaded.target)
    if completion.model != target.name:
        raise unknown_model(completion.model, f"Completions are written by {target.name!r}.")
    envelope = Envelope.of_text(target.name, is_counted=completion.is_counted)
    asks(completion, envelope.id)
    make = partial(_events, service, caller, completion)
    events = await begun(request, service, caller, make, is_stream=bool(completion.stream))
    if completion.stream:
        return streamed(_chunks(events, envelope, completion), service.config.server.heartbeat_s)
    return JSONResponse(await _whole(events, envelope))


def _events(
    service: Service, caller: Caller, completion: CompletionRequest, cancelled: Cancelled
) -> Generator[Part | _Used]:
    """Yield the parts of all choices, prompt by prompt, and what was used."""
    target = service.loaded.target
    room = 1 if completion.max_tokens is None else completion.max_tokens
    prompts = read_prompts(target, completion.prompt, room)
    num_read = sum(len(prompt.token_ids) for prompt in prompts)
    with bare_trace(service.loaded, "completion", num_read, service.saw) as trace:
        try:
            run = _Run(service, completion, trace, cancelled)
            for prompt in prompts:
                yield from run.parts(prompt)
        finally:
            num_new = trace.counters.get("completion_tokens", 0)
            service.budgets.spend(caller, num_read + num_new)
    yield _Used(tokens_json(num_read, num_new))


class _Run:
    """One request while its prompts are gone on with, one after the other."""

    def __init__(
        self, service: Service, completion: CompletionRequest, trace: Trace, cancelled: Cancelled
    ) -> None:
        self._service = service
        self._completion = completion
        self._trace = trace
        self._cancelled = cancelled
        self._num_begun = 0

    def parts(self, prompt: Prompt) -> Generator[Part]:
        """Yield the parts of all choices of one prompt; none if it was cancelled while read."""
        completion, found = self._completion, None
        if completion.echo and completion.logprobs is not None:
            found = echo_bare(
                self._service.loaded,
                prompt.token_ids,
                completion.logprobs,
                self._cancelled,
                trace=self._trace,
            )
            if found is None:
                return
        places = range(self._num_begun, self._num_begun + (completion.n or 1))
        self._num_begun = places.stop
        if completion.max_tokens == 0:
            self._trace.attributes["finish_reason"] = "length"
            for place in places:
                echoed = self._echoed(self._choice(place), prompt, found)
                yield echoed | {"finish_reason": "length"}
        else:
            yield from self._written(prompt, found, places)

    def _written(
        self, prompt: Prompt, found: Echo | None, places: Sequence[int]
    ) -> Generator[Part]:
        """Yield the parts of choices that go on behind the prompt."""
        answers = stream_choices(
            self._service.loaded,
            prompt.token_ids,
            [self._completion.params(place) for place in places],
            self._cancelled,
            cache=found.cache if found else None,
            trace=self._trace,
        )
        for place, pieces in zip(places, answers, strict=True):
            choice = self._choice(place)
            if self._completion.echo:
                yield self._echoed(choice, prompt, found)
            for piece in self._service.metrics.timed(pieces):
                yield choice.part(
                    piece.text, piece.token_ids, piece.logprobs, piece.top, piece.finish_reason
                )

    def _choice(self, place: int) -> Choice:
        tokenizer = self._service.loaded.target.tokenizer
        return Choice(place, tokenizer, with_logprobs=self._completion.logprobs is not None)

    @staticmethod
    def _echoed(choice: Choice, prompt: Prompt, found: Echo | None) -> Part:
        """Return the prompt as the first part of a choice; nothing is before its first token."""
        if found is None:
            return choice.part(prompt.text, (), (), ())
        top = ((), *found.top) if found.top else ()
        return choice.part(prompt.text, prompt.token_ids, (None, *found.logprobs), top)


async def _whole(events: AsyncIterator[Part | _Used], envelope: Envelope) -> dict[str, object]:
    """Return the completion once all choices are there."""
    parts: list[Part] = []
    usage: dict[str, object] = {}
    async for event in events:
        if isinstance(event, _Used):
            usage = event.usage
        else:
            parts.append(event)
    return envelope.around(joined(parts), usage)


async def _chunks(
    events: AsyncIterator[Part | _Used], envelope: Envelope, completion: CompletionRequest
) -> AsyncIterator[dict[str, object]]:
    """Yield the completion part by part."""
    async for event in events:
        if not isinstance(event, _Used):
            if _says_something(event):
                yield envelope.around([event])
        elif completion.is_counted:
            yield envelope.around([], event.usage)


def _says_something(part: Part) -> bool:
    """Return whether it is more than a token whose text is not certain yet."""
    return any(part[name] for name in ("text", "logprobs", "finish_reason"))
