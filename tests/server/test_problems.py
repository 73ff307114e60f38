"""Problems can be told, whatever they quote."""

import ast
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import readahead
from readahead import errors
from readahead.errors import ReadaheadError
from readahead.server.problems import Problem, problem_of
from readahead.server.state import Service
from tests.server.conftest import Full

FOLDER = "/srv/secret"


def test_lone_surrogates_in_a_problem_can_be_sent() -> None:
    problem = Problem(400, "What is \ud800?", param="settings.\udfff")
    told = json.loads(bytes(problem.response.body))["error"]
    assert (told["message"], told["param"]) == ("What is \ufffd?", "settings.\ufffd")


@pytest.mark.parametrize(
    ("path", "param", "body"),
    [
        ("/v1/sessions", "settings.\ufffd", {"settings": {"\ud800": 1}}),
        (
            "/v1/chat/completions",
            "readahead.settings.\ufffd",
            {
                "model": "readahead",
                "messages": [{"role": "user", "content": "How?"}],
                "readahead": {"settings": {"\ud800": 1}},
            },
        ),
    ],
)
def test_a_setting_whose_name_is_no_text_is_refused(
    client: TestClient, path: str, param: str, body: dict[str, object]
) -> None:
    headers = {"Content-Type": "application/json"}
    response = client.post(path, content=json.dumps(body), headers=headers)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("StoreError", 500),
        ("DiskFull", 507),
        ("EmbedderMismatch", 409),
        ("ConfigError", 500),
        ("BackendError", 500),
        ("DownloadError", 502),
    ],
)
def test_faults_of_the_server_are_told_whole_to_its_log_alone(
    name: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    kind: type[ReadaheadError] = getattr(errors, name)
    fault = kind(f"{FOLDER}/knowledge.db failed.", remedy=f"chmod 700 {FOLDER}")
    problem = problem_of(fault)
    error = problem.body["error"]
    assert isinstance(error, dict)
    assert (problem.status, error["code"], error["type"][-6:]) == (status, name, "_error")
    assert "secret" not in str(problem.body) and "chmod" not in str(problem.body)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert str(fault) in record.getMessage()


def remedies() -> Iterator[tuple[str, str]]:
    """Yield all remedies of the sources, each with the kind of its error."""
    for path in sorted(Path(readahead.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                for keyword in node.keywords:
                    if keyword.arg == "remedy" and hasattr(errors, node.func.id):
                        yield node.func.id, ast.unparse(keyword.value)


def test_no_remedy_is_for_the_command_line() -> None:
    found = dict.fromkeys(remedies())
    assert len(found) > 50 and any("readahead ls" in remedy for _, remedy in found)
    for name, remedy in found:
        told = problem_of(getattr(errors, name)("It failed.", remedy=remedy)).message
        assert not re.search(r"\breadahead [a-z]|--[a-z]|pip install", told), remedy


def test_a_remedy_that_is_done_otherwise_over_http_says_how(client: TestClient) -> None:
    response = client.get("/v1/documents/99")
    assert response.json()["error"]["message"].endswith("See GET /v1/documents.")


def test_what_only_a_setting_does_is_said_as_a_field() -> None:
    error = errors.ContextOverflow("Too long.", remedy="Lower generation.max_new_tokens.")
    assert problem_of(error).message == "Too long. Lower max_tokens."


def test_settings_that_do_not_go_together_are_the_clients(client: TestClient) -> None:
    settings = {"tokens.mode": "augmented", "tokens.drafter": "lookup"}
    asked = {
        "model": "readahead",
        "messages": [{"role": "user", "content": "How deep is Lake Baikal?"}],
        "readahead": {"method": "rapid", "settings": settings},
    }
    opened = {"method": "rapid", "documents": ["1"], "settings": settings}
    for path, prefix, body in (("chat/completions", "readahead.", asked), ("sessions", "", opened)):
        response = client.post(f"/v1/{path}", json=body)
        error = response.json()["error"]
        assert (response.status_code, error["param"]) == (400, f"{prefix}settings.tokens.mode")
        assert error["code"] == "invalid"
        assert "Set tokens.drafter to rag" in error["message"]


def test_a_full_database_is_507(client: TestClient, service: Service, full: Full) -> None:
    key = {"Authorization": f"Bearer {service.keys.add('ann', tenant='other')}"}
    with full():
        response = client.get("/v1/documents", headers=key)
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (507, "DiskFull")
        assert str(service.config.kb) not in response.text
    assert client.get("/v1/documents", headers=key).status_code == 200
