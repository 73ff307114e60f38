"""The OpenAPI document says what the server does, and schemathesis finds no exception to it."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from readahead.lm.model import TransformersModel
from readahead.server.app import ROUTERS, create_app
from readahead.server.schemas.openapi import LINKS, OPERATIONS
from readahead.server.state import Service
from readahead.trace import Trace
from tests.conftest import make_llama, make_tokenizer
from tests.retrieval.support import HashingEmbedder
from tests.server.conftest import listening, make_config

# Blank questions, settings out of their range and the like follow the schema and are refused.
EXCLUDED = "positive_data_acceptance"
NUM_EXAMPLES = 3
CALLS = {
    name: re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(name))).fullmatch
    for name in OPERATIONS
}
ASKED = {"messages": [{"role": "user", "content": "How deep is Lake Baikal?"}]}


@pytest.fixture
def document(service: Service) -> dict[str, Any]:
    return create_app(service).openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield f"{method.upper()} {path}", operation


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield reference
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_all_operations_are_described(document: dict[str, Any]) -> None:
    routes = {
        f"{method} {getattr(route, 'path', '').replace(':path', '')}"
        for module in ROUTERS
        for route in module.router.routes
        if getattr(route, "include_in_schema", False)
        for method in getattr(route, "methods", ())
    }
    described = dict(operations(document))
    assert set(described) == set(OPERATIONS) == routes
    assert len({operation["operationId"] for operation in described.values()}) == len(described)
    known_tags = {tag["name"] for tag in document["tags"]}
    for operation in described.values():
        assert operation["summary"][0].isupper()
        assert set(operation["tags"]) <= known_tags
        assert "422" not in operation["responses"]  # what is not valid is 400


def test_all_that_is_referred_to_is_there_and_nothing_else(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    prefix = "#/components/schemas/"
    assert {name.removeprefix(prefix) for name in references(document)} == set(schemas)


def test_errors_are_described_where_they_may_be(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        errors = {status for status in operation["responses"] if status >= "400"}
        needed = {"403"} if name == "GET /health" else {"401", "403", "503"}
        if "requestBody" in operation:
            needed |= {"400", "413", "429"}
        if "{" in name:
            needed |= {"404"}
        assert needed <= errors, name
        for status in errors:
            content = operation["responses"][status]["content"]["application/json"]
            assert content["schema"]["$ref"].endswith("/Error")


def test_links_lead_to_operations(document: dict[str, Any]) -> None:
    ids = {operation["operationId"] for _, operation in operations(document)}
    linked = {
        link
        for _, operation in operations(document)
        for response in operation["responses"].values()
        for link in response.get("links", {})
    }
    assert linked <= ids
    assert ids - linked >= {"list_documents", "health"}
    assert set(OPERATIONS) >= set(LINKS)


def test_only_health_is_open(document: dict[str, Any]) -> None:
    assert document["security"] == [{"bearer": []}, {}]
    assert [name for name, one in operations(document) if one.get("security") == []] == [
        "GET /health"
    ]


def test_every_operation_gives_what_the_document_says(
    client: TestClient, service: Service, document: dict[str, Any]
) -> None:
    schema = schemathesis.openapi.from_dict(document)
    seen: list[str] = []

    def call(name: str, *, path: str = "", **more: Any) -> Any:
        method, template = name.split()
        response = client.request(method, path or template, **more)
        assert response.status_code < 300, response.text
        schema[template][method].validate_response(response)
        seen.append(name)
        is_json = response.headers["content-type"] == "application/json"
        return response.json() if is_json else response.text

    files = [("files", ("hill.md", b"# Hill\n\nThe hill is 300 m high."))]
    job = call("POST /v1/documents", files=files)["id"]
    while call("GET /v1/jobs/{id}", path=f"/v1/jobs/{job}")["status"] not in ("done", "failed"):
        time.sleep(0.05)
    assert call("GET /v1/jobs")["data"][0]["status"] == "done"
    assert job in call("GET /v1/jobs/{id}/events", path=f"/v1/jobs/{job}/events")

    id = call("GET /v1/documents")["data"][0]["id"]
    call("GET /v1/documents/{id}", path=f"/v1/documents/{id}")
    hit = call("POST /v1/search", json={"query": "lake"})["hits"][0]
    call("GET /v1/passages/{id}", path=f"/v1/passages/{hit['passage_id']}")

    session = call("POST /v1/sessions")["id"]
    for method in ("prefetch", "plain", "drafts", "rapid"):
        asked = {
            "model": "readahead",
            "readahead": {"method": method, "documents": [hit["document"]]},
        }
        call("POST /v1/chat/completions", json=ASKED | asked)
    turn = {"model": "readahead", "readahead": {"session": session}}
    assert call("POST /v1/chat/completions", json=ASKED | turn)["readahead"]["session"] == session
    bare = {"model": "tiny", "logprobs": True, "top_logprobs": 2, "n": 2, "max_tokens": 3}
    call("POST /v1/chat/completions", json=ASKED | bare)
    call("POST /v1/chat/completions", json=ASKED | {"model": "readahead", "stream": True, "n": 2})
    for more in ({"max_tokens": 0}, {"n": 2}, {"stream": True}):
        body = {"model": "tiny", "prompt": "The lake", "echo": True, "logprobs": 1, **more}
        call("POST /v1/completions", json=body)

    typing = f"/v1/sessions/{session}/typing"
    call("POST /v1/sessions/{id}/typing", path=typing, json={"text": "How deep is "})
    call("GET /v1/sessions/{id}/status", path=f"/v1/sessions/{session}/status")
    turns = call("GET /v1/sessions/{id}", path=f"/v1/sessions/{session}")["turns"]
    assert turns[0]["passages"]
    assert len(call("GET /v1/sessions")["data"]) == 1
    call("DELETE /v1/sessions/{id}", path=f"/v1/sessions/{session}")
    call("DELETE /v1/documents/{id}", path=f"/v1/documents/{id}")

    trace = call("GET /v1/traces")["data"][0]["id"]
    call("GET /v1/traces/{id}", path=f"/v1/traces/{trace}")
    call("GET /v1/models")
    call("GET /v1/models/{name}", path="/v1/models/tiny")
    for name in ("GET /v1/settings", "GET /ready", "GET /health"):
        call(name)
    assert set(OPERATIONS) - set(seen) == {"POST /v1/embeddings"}  # needs an embedder; see there


def test_the_examples_are_answered(client: TestClient, document: dict[str, Any]) -> None:
    session = client.post("/v1/sessions").json()["id"]
    for name, operation in operations(document):
        content = operation.get("requestBody", {}).get("content", {})
        body = content.get("application/json", {}).get("example")
        if body is None or name == "POST /v1/embeddings":
            continue
        if body.get("model") == "smollm2-135m":
            body = body | {"model": "tiny"}
        response = client.post(name.split()[1].replace("{id}", session), json=body)
        assert response.status_code == 200, response.text


def test_an_error_of_no_operation_has_the_envelope(client: TestClient) -> None:
    for method, path, status in (("GET", "/nothing", 404), ("PUT", "/v1/documents/1", 405)):
        response = client.request(method, path)
        assert response.status_code == status
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    assert response.headers["allow"] == "DELETE, GET"


@pytest.fixture
def exemplary(tmp_path: Path) -> Iterator[Service]:
    """A server that has the models, documents and the trace of the document's examples."""
    config = make_config(tmp_path, retrieval__mode="hybrid")
    target = TransformersModel(make_llama().eval(), make_tokenizer(), name="smollm2-135m")
    service = Service(config, target)
    service.loaded.embedder = HashingEmbedder()
    knowledge = service.tenant().engine.knowledge
    for name, text in (("lake.md", b"# Lake Baikal"), ("hill.md", b"# Hill\n\nIt is high.")):
        knowledge.add(["-"], stdin=text, stdin_name=name)
    trace = Trace("ask")
    trace.id = OPERATIONS["GET /v1/traces/{id}"].id
    knowledge.keep_trace(trace)
    yield service
    service.close()


def counted(app: ASGIApp, seen: set[str]) -> ASGIApp:
    """Return ``app``; the operations that it answers with success are added to ``seen``."""

    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 300:
                call = f"{scope['method']} {scope['path']}"
                seen.update(name for name, is_one in CALLS.items() if is_one(call))
            await send(message)

        await app(scope, receive, sent if scope["type"] == "http" else send)

    return asked


def test_schemathesis_finds_nothing(exemplary: Service, tmp_path: Path) -> None:
    """Nor does it only look at refusals: each operation has answered it with success."""
    seen: set[str] = set()
    with listening(counted(create_app(exemplary), seen)) as served:
        done = found_by_schemathesis(served, tmp_path)
    assert done.returncode == 0, done.stdout
    assert f"Tested: {len(OPERATIONS)}" in done.stdout
    assert set(OPERATIONS) - seen == set()


def found_by_schemathesis(served: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{served}/openapi.json"),
            *("--phases", "examples,coverage,fuzzing,stateful"),
            *("--max-examples", str(NUM_EXAMPLES), "--seed", "1", "--generation-deterministic"),
            *("--exclude-checks", EXCLUDED, "--workers", "1", "--no-color"),
        ],
        cwd=tmp_path,
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
