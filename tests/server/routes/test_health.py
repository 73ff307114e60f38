from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

from readahead.server.app import create_app
from readahead.server.state import Service
from tests.server.conftest import make_config


def test_it_lives_and_is_ready(client: TestClient) -> None:
    assert (client.get("/health").status_code, client.get("/health").json()) == (
        200,
        {"status": "ok"},
    )
    assert (client.get("/ready").status_code, client.get("/ready").json()) == (
        200,
        {"status": "ready"},
    )


def test_head_answers_as_get_without_a_body(served: str, client: TestClient) -> None:
    with httpx2.Client(base_url=served) as remote:
        for path in ("/health", "/ready"):
            got, head = remote.get(path), remote.head(path)
            assert (head.status_code, head.content) == (got.status_code, b"") == (200, b"")
            assert head.headers["content-length"] == str(len(got.content))
    for path in ("/metrics", "/v1/models", "/"):
        refused = client.head(path)
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET")


def test_before_the_models_are_loaded_it_lives_and_is_not_ready(tmp_path: Path) -> None:
    with TestClient(create_app(Service(make_config(tmp_path))), base_url="http://127.0.0.1") as c:
        assert c.get("/health").status_code == 200
        response = c.get("/ready")
        assert response.status_code == 503
        assert response.json()["error"]["message"] == "The models are being loaded."
        assert response.headers["Retry-After"] == "1"
        assert (c.head("/ready").status_code, c.head("/health").status_code) == (503, 200)


def test_without_its_documents_it_is_not_ready(
    client: TestClient, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    path = service.tenant().engine.knowledge.store.folder / "knowledge.db"
    service.tenant().engine.knowledge.store.close()
    path.write_bytes(b"no database" * 1000)
    service.tenant().engine.knowledge.store._database._local.__dict__.clear()
    response = client.get("/ready")
    assert response.status_code == 503
    assert "cannot be read" in response.json()["error"]["message"]
    assert str(path) not in response.text and "is damaged" in caplog.text
    assert not any(record.exc_info for record in caplog.records)  # a probe asks every few seconds
    assert client.get("/health").status_code == 200
