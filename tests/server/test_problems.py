"""Problems can be told, whatever they quote."""

import json

import pytest
from fastapi.testclient import TestClient

from readahead.server.problems import Problem


def test_lone_surrogates_in_a_problem_can_be_sent() -> None:
    problem = Problem(400, "What is \ud800?", param="settings.\udfff")
    told = json.loads(bytes(problem.response.body))["error"]
    assert (told["message"], told["param"]) == ("What is \ufffd?", "settings.\ufffd")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/sessions", {"settings": {"\ud800": 1}}),
        (
            "/v1/chat/completions",
            {
                "model": "readahead",
                "messages": [{"role": "user", "content": "How?"}],
                "readahead": {"settings": {"\ud800": 1}},
            },
        ),
    ],
)
def test_a_setting_whose_name_is_no_text_is_refused(
    client: TestClient, path: str, body: dict[str, object]
) -> None:
    headers = {"Content-Type": "application/json"}
    response = client.post(path, content=json.dumps(body), headers=headers)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "readahead.settings.\ufffd"
