"""What answers from the documents may be asked for: the rest is refused by its name."""

from typing import Any

import pytest
from starlette.testclient import TestClient

ASKED = {
    "model": "readahead",
    "messages": [{"role": "user", "content": "How deep is Lake Baikal?"}],
}


def refused(client: TestClient, method: str, **more: Any) -> dict[str, Any]:
    """Return the error of a question."""
    extension = {"method": method, **more.pop("readahead", {})}
    response = client.post("/v1/chat/completions", json=ASKED | {"readahead": extension} | more)
    assert response.status_code in (400, 404), response.text
    error: dict[str, Any] = response.json()["error"]
    return error


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [
        ("plain", "drafts.preset", "fast"),
        ("plain", "tokens.eta", 5.0),
        ("prefetch", "tokens.in_plain", True),
        ("drafts", "generation.repetition_penalty", 5.0),
        ("drafts", "generation.top_k", 3),
        ("drafts", "retrieval.k", 3),
        ("drafts", "inject.threshold", 0.5),
        ("rapid", "inject.threshold", 0.5),
        ("rapid", "retrieval.k", 3),
    ],
)
def test_a_setting_that_the_method_does_not_read_is_refused(
    client: TestClient, method: str, name: str, value: object
) -> None:
    error = refused(client, method, readahead={"settings": {name: value}})
    assert (error["param"], error["code"]) == (f"readahead.settings.{name}", "unsupported")
    assert f"{name} is of the method" in error["message"]


@pytest.mark.parametrize(
    ("value", "code"), [(-1, "invalid"), (True, "invalid"), (10**6, "invalid")]
)
def test_a_value_out_of_range_is_told_where_it_stands(
    client: TestClient, value: object, code: str
) -> None:
    error = refused(client, "plain", readahead={"settings": {"retrieval.k": value}})
    assert (error["param"], error["code"]) == ("readahead.settings.retrieval.k", code)


def test_a_document_that_is_not_there_is_told_where_it_stands(client: TestClient) -> None:
    error = refused(client, "plain", readahead={"documents": ["1", "nowhere.md"]})
    assert (error["param"], error["code"]) == ("readahead.documents", "NotFound")


@pytest.mark.parametrize(
    ("param", "code", "method", "more"),
    [
        ("messages", "blank", "plain", {"messages": [{"role": "user", "content": " "}]}),
        ("messages", "invalid", "plain", {"messages": [{"role": "assistant", "content": "a"}]}),
        ("n", "invalid", "plain", {"n": 5}),
        ("readahead.inject", "unsupported", "drafts", {"readahead": {"inject": True}}),
        ("readahead.inject", "unsupported", "rapid", {"readahead": {"inject": True}}),
    ],
)
def test_every_refusal_has_a_code(
    client: TestClient, param: str, code: str, method: str, more: dict[str, Any]
) -> None:
    error = refused(client, method, **more)
    assert (error["param"], error["code"]) == (param, code)


@pytest.mark.parametrize("method", ["prefetch", "plain", "rapid"])
@pytest.mark.parametrize("max_tokens", [5000, 2040])
def test_more_tokens_than_the_context_holds_are_refused(
    client: TestClient, method: str, max_tokens: int
) -> None:
    error = refused(client, method, max_tokens=max_tokens)
    assert error["code"] == "context_length_exceeded"
    assert "room for 0." in error["message"] and "lower max_tokens" in error["message"]


@pytest.mark.parametrize("more", [{"n": 2}, {"seed": 3}, {"top_p": 0.5}, {"temperature": 0}])
def test_what_changes_nothing_of_what_is_greedy_goes_with_drafts(
    client: TestClient, more: dict[str, Any]
) -> None:
    asked = ASKED | {"readahead": {"method": "drafts"}}
    alone, told = (
        client.post("/v1/chat/completions", json=body).json() for body in (asked, asked | more)
    )
    [text] = {choice["message"]["content"] for choice in told["choices"]}
    assert text == alone["choices"][0]["message"]["content"]
