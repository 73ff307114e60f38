"""/v1/embeddings: vectors of texts, by the embedder that retrieval uses."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Generator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field, StrictInt

from readahead.lm.base import Cancelled
from readahead.retrieval.base import Embedder, Vector, Vectors
from readahead.server.asking import begun
from readahead.server.problems import Problem
from readahead.server.routes.catalogue import unknown_model
from readahead.server.schemas.fields import AnyText, said_as
from readahead.server.schemas.requests import Strict
from readahead.server.state import Caller, CallerOf, Service, ServiceOf, Tenant, TenantOf

router = APIRouter()
MAX_INPUTS = 2048  # [OpenAI]
MAX_TOKENS = 300_000  # of all inputs together  [OpenAI]
BATCH_SIZE = 16  # between two looks at a cancellation


Input = Annotated[AnyText, Field(min_length=1)]
Inputs = Annotated[
    Input | Annotated[list[Input], Field(min_length=1, max_length=MAX_INPUTS)],
    said_as(
        "Input should be a text that is not empty, or a list of 1 to 2048 of them; token ids are "
        "not taken"
    ),
]


class EmbeddingRequest(Strict):
    """The body of ``POST /v1/embeddings``."""

    model: str = Field(max_length=200)
    input: Inputs
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: StrictInt | None = Field(None, ge=1)
    user: str | None = Field(None, max_length=1000)

    @property
    def texts(self) -> list[str]:
        """Return what is to be embedded."""
        return [self.input] if isinstance(self.input, str) else self.input


@dataclass(frozen=True, slots=True)
class _Counted:
    """Comes first: the request is as it must be."""

    num_tokens: int


@router.post("/v1/embeddings")
async def embed(
    request: Request,
    embedding: Annotated[EmbeddingRequest, Body()],
    service: ServiceOf,
    caller: CallerOf,
    tenant: TenantOf,
) -> Response:
    """Return the vector of each text, of unit length, as passages are embedded."""
    make = partial(_events, service, caller, tenant, embedding)
    events = await begun(request, service, caller, make)
    return JSONResponse(await _whole(events, embedding))


def _events(
    service: Service,
    caller: Caller,
    tenant: Tenant,
    embedding: EmbeddingRequest,
    cancelled: Cancelled,
) -> Generator[_Counted | Vectors]:
    """Yield how many tokens there are, then vectors in order, a batch at a time."""
    embedder, texts = _embedder(tenant, embedding), embedding.texts
    num_tokens = _counted(embedder, texts)
    yield _Counted(num_tokens)
    service.budgets.spend(caller, num_tokens)
    for start in range(0, len(texts), BATCH_SIZE):
        if cancelled():
            return
        yield embedder.embed_passages(texts[start : start + BATCH_SIZE])


def _embedder(tenant: Tenant, embedding: EmbeddingRequest) -> Embedder:
    """Return the embedder that the request names.

    Raises:
        Problem: 404, there is none of that name, or none at all; 400, its vectors are of another
            length than the request wants.
        NotFound: It was not pulled.
        ConfigError: The extra ``dense`` is not installed.
    """
    knowledge = tenant.engine.knowledge
    name = knowledge.config.models.embedder
    if embedding.model != name and not knowledge.is_lexical:
        raise unknown_model(embedding.model, f"Texts are embedded by {name!r}.")
    embedder = knowledge.embedder
    if embedder is None:
        raise unknown_model(
            embedding.model, "Nothing is embedded: only words are matched (see retrieval.mode)."
        )
    if embedding.dimensions not in (None, embedder.dim):
        raise Problem(
            400,
            f"dimensions is {embedding.dimensions}; the vectors of {name!r} have {embedder.dim}.",
            param="dimensions",
            code="unsupported",
        )
    return embedder


def _counted(embedder: Embedder, texts: list[str]) -> int:
    """Return how many tokens all texts have; none may be longer than is read."""
    counts = embedder.count_tokens(texts)
    for place, num_tokens in enumerate(counts):
        if num_tokens > embedder.max_tokens:
            raise Problem(
                400,
                f"input[{place}] has {num_tokens} tokens; the embedder reads "
                f"{embedder.max_tokens}. Cut it into parts.",
                param="input",
                code="context_length_exceeded",
            )
    if sum(counts) > MAX_TOKENS:
        raise Problem(
            400,
            f"The input has {sum(counts)} tokens; at most {MAX_TOKENS} are embedded at a time.",
            param="input",
        )
    return sum(counts)


async def _whole(
    events: AsyncIterator[_Counted | Vectors], embedding: EmbeddingRequest
) -> dict[str, object]:
    """Return the vectors once all are there."""
    num_tokens, vectors = 0, list[Vector]()
    async for event in events:
        if isinstance(event, _Counted):
            num_tokens = event.num_tokens
        else:
            vectors.extend(event)
    data = [
        {"object": "embedding", "index": index, "embedding": _encoded(vector, embedding)}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": num_tokens, "total_tokens": num_tokens}
    return {"object": "list", "data": data, "model": embedding.model, "usage": usage}


def _encoded(vector: Vector, embedding: EmbeddingRequest) -> str | list[float]:
    if embedding.encoding_format == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
    numbers: list[float] = vector.tolist()
    return numbers
