"""What requests may not hold is named by the place where it stands in the body."""

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from readahead.server.problems import Problem, problem_of
from readahead.server.routes.completions import CompletionRequest
from readahead.server.routes.embeddings import EmbeddingRequest
from readahead.server.routes.search import SearchRequest
from readahead.server.routes.sessions import NewSession, Typing
from readahead.server.schemas.requests import ChatRequest, Extension, Message
from tests.server.routes.test_page_told import WRONG

REQUESTS = (ChatRequest, CompletionRequest, EmbeddingRequest, NewSession, SearchRequest, Typing)
ASKED = {"role": "user", "content": "How?"}
WHOLE: dict[type[BaseModel], dict[str, Any]] = {
    ChatRequest: {"model": "readahead", "messages": [ASKED]},
    CompletionRequest: {"model": "tiny", "prompt": "a"},
    EmbeddingRequest: {"model": "tiny", "input": "a"},
    NewSession: {},
    SearchRequest: {"query": "a"},
    Typing: {"text": "a"},
}


def complaint(request: type[BaseModel], body: dict[str, Any]) -> Problem | None:
    """Return what is said of a body, as its route says it; None where it is taken."""
    try:
        request.model_validate(json.loads(json.dumps(body)))
    except ValidationError as error:
        one = error.errors()[0]
        return problem_of(RequestValidationError([{**one, "loc": ("body", *one["loc"])}]))
    except Problem as problem:
        return problem
    return None


def bodies() -> Iterator[tuple[type[BaseModel], dict[str, Any]]]:
    """Yield bodies with one value that may be wrong, at any depth."""
    for request in REQUESTS:
        for name, value in product(request.model_fields, WRONG):
            yield request, WHOLE[request] | {name: value}
    for name, value in product(Message.model_fields, WRONG):
        yield ChatRequest, WHOLE[ChatRequest] | {"messages": [ASKED, ASKED | {name: value}]}
    for name, value in product(Extension.model_fields, WRONG):
        yield ChatRequest, WHOLE[ChatRequest] | {"readahead": {name: value}}
    for name, part in product(("content", "metadata", "stop"), WRONG):
        message = {"messages": [ASKED | {"content": [part]}]}
        yield ChatRequest, WHOLE[ChatRequest] | (message if name == "content" else {name: [part]})
    for key in ("x" * 65, "[key]"):
        yield ChatRequest, WHOLE[ChatRequest] | {"metadata": {key: "y" * 513}}


def is_place(param: str, body: object) -> bool:
    """Return whether ``param`` leads to a value of ``body``, or to a field that it lacks."""
    name, _, rest = param.partition(".")
    if isinstance(body, list):
        return (
            name.isdecimal()
            and int(name) < len(body)
            and (not rest or is_place(rest, body[int(name)]))
        )
    if not isinstance(body, dict):
        return False
    if name not in body:
        return not rest
    return not rest or is_place(rest, body[name])


def test_the_field_at_fault_is_named_as_it_stands_in_the_body() -> None:
    found = [(body, problem) for request, body in bodies() if (problem := complaint(request, body))]
    assert len(found) > 500
    for body, problem in found:
        assert problem.status == 400 and problem.param, (problem.message, body)
        assert is_place(problem.param, body), (problem.param, str(body)[:300])
        assert problem.code in ("invalid", "unsupported", "blank"), problem.message


@pytest.mark.parametrize("request_", [ChatRequest, CompletionRequest])
@pytest.mark.parametrize("stop", [["a"] * 5, 5, ["a", 5], "", [""], "x" * 1001, {"a": 1}])
def test_what_stops_an_answer_is_said_whole(request_: type[BaseModel], stop: object) -> None:
    problem = complaint(request_, WHOLE[request_] | {"stop": stop})
    assert problem is not None
    assert problem.param == "stop"
    told = "stop: Input should be a text, or a list of at most 4, each of 1 to 1000 characters."
    assert problem.message == told


@pytest.mark.parametrize(
    "content",
    [5, None, ["a"], [{"type": "image_url", "image_url": {"url": "x"}}], [{"type": "text"}]],
)
def test_what_a_message_may_hold_is_said(content: object) -> None:
    problem = complaint(
        ChatRequest, WHOLE[ChatRequest] | {"messages": [ASKED, ASKED | {"content": content}]}
    )
    assert problem is not None
    assert problem.param == "messages.1.content"
    assert problem.message.endswith('should be a text, or a list of {"type": "text", "text": "…"}.')


def test_parts_of_text_are_taken() -> None:
    parts = [{"type": "text", "text": "How "}, {"type": "text", "text": "deep?"}]
    chat = ChatRequest.model_validate(
        WHOLE[ChatRequest] | {"messages": [ASKED | {"content": parts}]}
    )
    assert chat.messages[0].text == "How deep?"
