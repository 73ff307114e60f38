import json
import resource
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from readahead.lm.model import TransformersModel
from readahead.server.app import create_app
from readahead.server.spool import UPLOADS
from readahead.server.state import TENANTS, Service
from tests.documents.conftest import SLOW_PAGE
from tests.server.conftest import TEXTS, make_config
from tests.server.indexing import open_jobs

Client = TestClient | httpx2.Client


def upload(client: Client, **files: bytes) -> dict[str, Any]:
    """Upload files, ``a_md`` for ``a.md``, and return the job once it is over."""
    parts = [("files", (name.replace("_", "."), content)) for name, content in files.items()]
    response = client.post("/v1/documents", files=parts)
    assert response.status_code == 202, response.text
    return over(client, response.json()["id"])


def over(client: Client, id: str) -> dict[str, Any]:
    deadline_s = time.monotonic() + 60
    while True:
        job: dict[str, Any] = client.get(f"/v1/jobs/{id}").json()
        if job["status"] in ("done", "failed"):
            return job
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def listed(client: Client, **query: object) -> list[dict[str, Any]]:
    response = client.get("/v1/documents", params=query)  # type: ignore[arg-type]
    assert response.status_code == 200, response.text
    documents: list[dict[str, Any]] = response.json()["data"]
    return documents


def problem(response: httpx2.Response) -> tuple[int, str | None]:
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"].endswith("_error")
    return response.status_code, error["param"]


@pytest.fixture
def remote(served: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=served, timeout=60) as client:
        yield client


def test_upload_list_read_and_delete(client: TestClient) -> None:
    parts = [("files", ("dir/moon.md", b"# Moon\n\nThe moon pulls the water.\xe2\x80\x8b\n"))]
    response = client.post("/v1/documents", files=parts)
    queued = response.json()
    assert response.status_code == 202
    assert (queued["object"], queued["files"]) == ("job", ["moon.md"])
    assert queued["status"] in ("queued", "running", "done")
    job = over(client, queued["id"])
    assert {name: job[name] for name in job if name not in ("id", "created_at", "seconds")} == {
        "object": "job",
        "files": ["moon.md"],
        "status": "done",
        "added": 1,
        "unchanged": 0,
        "replaced": 0,
        "failed": [],
        "passages": 1,
        "num_done": 1,
        "num_files": 1,
        "to_encode": 0,
        "encoded": 0,
        "too_long": 0,
        "error": "",
    }
    (found,) = listed(client, query="MOON")
    assert found["removed"] == {"invisible": 1}
    assert found["added_at"] == pytest.approx(time.time(), abs=60)
    shown = client.get(f"/v1/documents/{found['id']}").json()
    assert (shown["object"], shown["id"], shown["document"]) == (
        "document",
        found["id"],
        "moon.md",
    )
    assert shown["text"] == "Moon\n\nThe moon pulls the water."
    assert shown["blocks"][1]["heading"] == ["Moon"]
    gone = client.delete(f"/v1/documents/{found['id']}")
    assert gone.json() == {"object": "document.deleted", "id": found["id"], "deleted": True}
    assert listed(client, query="moon") == []
    for method in ("GET", "DELETE"):
        response = client.request(method, f"/v1/documents/{found['id']}")
        assert problem(response) == (404, None)


def test_the_list_comes_page_by_page(client: TestClient) -> None:
    first = client.get("/v1/documents", params={"limit": 2}).json()
    assert (first["object"], first["has_more"]) == ("list", True)
    last = client.get("/v1/documents", params={"after": first["data"][-1]["id"]}).json()
    assert last["has_more"] is False
    names = [document["name"] for page in (first, last) for document in page["data"]]
    assert [Path(name).name for name in names] == list(TEXTS)[::-1]
    assert listed(client, query="水")[0]["num_passages"] == 1
    for query in ({"limit": "0"}, {"limit": "x"}, {"after": "-1"}, {"after": "9" * 50}):
        assert problem(client.get("/v1/documents", params=query)) == (400, next(iter(query)))


@pytest.mark.parametrize("id", ["0", "99", "lake.md", "1.1.0", "9" * 40, "%00", "½", "-1"])
def test_unknown_ids_are_not_found(client: TestClient, id: str) -> None:
    for method, path in (
        ("GET", "documents"),
        ("DELETE", "documents"),
        ("GET", "jobs"),
    ):
        assert problem(client.request(method, f"/v1/{path}/{id}"))[0] == 404
    assert problem(client.get(f"/v1/jobs/{id}/events"))[0] == 404


def test_uploads_that_are_refused_name_the_field(client: TestClient, service: Service) -> None:
    post = client.post
    assert problem(post("/v1/documents", files={"files": ("a.exe", b"MZ")})) == (415, "files")
    assert problem(post("/v1/documents", files={"file": ("a.md", b"x")})) == (400, "file")
    assert problem(post("/v1/documents", data={"files": "x"})) == (415, None)
    assert problem(post("/v1/documents", json={"files": ["https://example.org/a.md"]}))[0] == 415
    assert problem(post("/v1/documents"))[0] == 415
    assert client.get("/v1/jobs").json() == {"object": "list", "data": [], "has_more": False}
    uploads = service.config.kb / UPLOADS
    assert not uploads.exists() or list(uploads.iterdir()) == []


def test_too_long_an_upload_is_refused_while_it_is_read(
    tmp_path: Path, model: TransformersModel
) -> None:
    service = Service(make_config(tmp_path, server__max_upload_bytes=10_000), model)
    with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
        for num_bytes in (10_001, 1_000_000):  # with or without what is around it
            parts = {"files": ("a.md", b"x" * num_bytes)}
            assert problem(client.post("/v1/documents", files=parts))[0] == 413
        assert upload(client, a_md=b"x " * 5_000)["status"] == "done"
    assert not list((service.config.kb / UPLOADS).glob("*.part"))


def test_the_same_name_replaces_and_a_failure_is_told(client: TestClient) -> None:
    upload(client, a_md=b"First words.")
    (before,) = listed(client, query="a.md")
    job = upload(client, a_md=b"Second words.", b_pdf=b"%PDF-1.4 junk")
    assert (job["replaced"], job["status"]) == (1, "done")
    (failed,) = job["failed"]
    assert failed["path"] == "b.pdf" and "not readable as pdf" in failed["reason"]
    (after,) = listed(client, query="a.md")
    assert after["id"] == before["id"]
    text = client.get(f"/v1/documents/{after['id']}").json()["text"]
    assert text == "Second words."
    jobs = client.get("/v1/jobs", params={"limit": 1}).json()
    assert (jobs["data"], jobs["has_more"]) == ([job], True)


def test_what_looks_like_markup_stays_text(client: TestClient) -> None:
    markup = b"<script>alert(1)</script>\n\n<img src=x onerror=alert(2)> text"
    upload(client, a_txt=markup)
    (found,) = listed(client, query="a.txt")
    response = client.get(f"/v1/documents/{found['id']}")
    assert response.headers["content-type"] == "application/json"
    assert response.json()["text"] == markup.decode()


def test_a_job_is_followed_until_it_is_over(remote: httpx2.Client) -> None:
    files = [("files", (f"{number}.md", b"Some words.")) for number in range(5)]
    id = remote.post("/v1/documents", files=files).json()["id"]
    with remote.stream("GET", f"/v1/jobs/{id}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line]
    states = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert [state["num_done"] for state in states] == sorted(s["num_done"] for s in states)
    assert states[-1] == over(remote, id)
    with remote.stream("GET", f"/v1/jobs/{id}/events") as response:
        assert len([line for line in response.iter_lines() if line]) == 1


def test_a_client_that_stops_following_ends_the_stream(
    remote: httpx2.Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    jobs, slow = service.tenant().jobs, {"files": ("slow.html", SLOW_PAGE)}
    id = remote.post("/v1/documents", files=slow).json()["id"]
    look = jobs.get

    def get(id: str) -> object:
        looks.append(time.monotonic())
        return look(id)

    with remote.stream("GET", f"/v1/jobs/{id}/events") as response:
        monkeypatch.setattr(jobs, "get", get)
        next(response.iter_lines())
    time.sleep(0.5)
    left_s = time.monotonic()
    time.sleep(0.5)
    assert not jobs.get(id).is_over
    assert [look_s for look_s in looks[:-1] if look_s > left_s] == []
    over(remote, id)


def test_twenty_uploads_at_once_beside_searches_answers_and_deletes(
    remote: httpx2.Client, service: Service
) -> None:
    is_over = threading.Event()
    engine = service.tenant().engine
    engine.load()
    num_answers = 0

    def ask() -> None:
        nonlocal num_answers
        while not is_over.is_set() or not num_answers:
            assert engine.ask("How deep is Lake Baikal?").text
            num_answers += 1

    def search() -> None:
        while not is_over.is_set():
            assert engine.knowledge.search("deepest lake", 3)

    def delete() -> None:
        while not is_over.is_set():
            for document in listed(remote, query="same"):
                response = remote.delete(f"/v1/documents/{document['id']}")
                assert response.status_code in (200, 404)

    def send(number: int) -> dict[str, Any]:
        unit = f"Unit {number} hums.".encode()
        files = {f"{number}_md": unit, "same_md": unit}
        return upload(remote, **files)

    with ThreadPoolExecutor(24) as threads:
        others = [threads.submit(task) for task in (ask, search, delete)]
        jobs = list(threads.map(send, range(20)))
        is_over.set()
        for other in others:
            other.result()
    assert {job["status"] for job in jobs} == {"done"}
    assert sum(job["added"] + job["replaced"] for job in jobs) == 40
    names = {document["name"] for document in listed(remote)} - {"same.md"}
    assert {f"{number}.md" for number in range(20)} <= names
    assert engine.knowledge.store.check() == []


def test_half_an_upload_leaves_nothing(
    remote: httpx2.Client, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    uploads = service.config.kb / UPLOADS

    def half() -> Iterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.md"\r\n\r\n'
        yield b"x" * 100_000
        while not list(uploads.glob("*/0")):
            time.sleep(0.02)
        raise ConnectionResetError

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    with pytest.raises(ConnectionResetError):
        remote.post("/v1/documents", content=half(), headers=headers)
    deadline_s = time.monotonic() + 5
    while list(uploads.iterdir()) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert list(uploads.iterdir()) == []
    assert remote.get("/v1/jobs").json()["data"] == []
    assert "Traceback" not in caplog.text


def test_an_upload_that_the_disk_does_not_take_says_so(
    client: TestClient, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, limits[1]))  # as a disk that is full
    try:
        response = client.post("/v1/documents", files=[("files", ("a.md", b"a" * 2**21))])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (507, "DiskFull")
    assert "disk is full" in error["message"] and UPLOADS not in error["message"]
    assert str(service.config.kb / UPLOADS) in caplog.text
    assert list((service.config.kb / UPLOADS).iterdir()) == []


def test_uploads_go_on_when_the_server_starts_again(
    tmp_path: Path, model: TransformersModel
) -> None:
    for name in ("", f"{TENANTS}/other"):
        jobs = open_jobs(tmp_path / "any", kb=tmp_path / "kb" / name)
        jobs.close()  # so that nothing is indexed yet
        with jobs.receiving() as (id, folder):
            (folder / "0").write_bytes(b"Found again.")
            jobs.submit(id, ["a.md"])
        jobs._engine.close()
    service = Service(make_config(tmp_path), model)
    with TestClient(create_app(service), base_url="http://127.0.0.1"):
        assert {tenant.name for tenant in service.open_tenants()} == {"", "other"}
        for tenant in service.open_tenants():
            while not all(job.is_over for job in tenant.jobs):
                time.sleep(0.02)
            assert tenant.engine.knowledge.document("a.md").text == "Found again."


def test_tenants_see_their_own_uploads_only(client: TestClient, service: Service) -> None:
    upload(client, a_md=b"Mine.")
    other = service.tenant("other")
    assert list(other.jobs) == []
    assert other.engine.knowledge.store.documents() == []
