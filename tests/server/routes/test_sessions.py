"""Sessions over HTTP: opened, typed into, looked at, closed."""

import json
import statistics
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from starlette.testclient import TestClient

from readahead.config import Config
from readahead.lm.base import Cache
from readahead.lm.model import TransformersModel
from readahead.server import served as served_session
from readahead.server.app import create_app
from readahead.server.served import NOT_AHEAD, ServedSession
from readahead.server.state import Service
from readahead.session import Session
from readahead.types import Answer
from tests.server.conftest import make_config
from tests.session.test_session import QUICK, until

QUESTION = "How deep is the lake?"
MAX_NEW_TOKENS = 12  # in make_config
NUM_THREADS = 45  # more than the server has for what blocks
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return make_config(
        tmp_path_factory.mktemp("quick"),
        **QUICK,
        server__max_sessions=3,
        server__session_idle_s=600.0,
    )


@pytest.fixture
def other(service: Service) -> Iterator[TestClient]:
    """Give the client of another tenant."""
    key = service.keys.add("b", tenant="b")
    with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
        client.headers["Authorization"] = f"Bearer {key}"
        yield client


def client_of(client: TestClient, key: str) -> TestClient:
    """Return a client of the same server with another key."""
    headers = {"Authorization": f"Bearer {key}"}
    return TestClient(client.app, "http://127.0.0.1", headers=headers)


def post(client: TestClient, path: str, **body: object) -> dict[str, Any]:
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def get(client: TestClient, path: str) -> dict[str, Any]:
    response = client.get(path)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def opened(client: TestClient, **body: object) -> str:
    return str(post(client, "/v1/sessions", **body)["id"])


def held(service: Service, id: str, tenant: str = "") -> ServedSession:
    return service.tenant(tenant).sessions.get(id)


def ask(session: ServedSession, question: str = QUESTION) -> Answer:
    *_, answer = session.submit(question)
    assert isinstance(answer, Answer)
    return answer


def test_a_session_from_its_opening_to_its_end(client: TestClient) -> None:
    session = post(client, "/v1/sessions")
    assert session["object"] == "session"
    assert abs(session["created_at"] - time.time()) < 60
    assert (session["method"], session["documents"], session["num_turns"]) == ("prefetch", [], 0)
    path = f"/v1/sessions/{session['id']}"
    assert get(client, path)["turns"] == []
    assert get(client, "/v1/sessions") == {"object": "list", "data": [session]}
    gone = {"object": "session.deleted", "id": session["id"], "deleted": True}
    assert client.delete(path).json() == gone
    assert get(client, "/v1/sessions")["data"] == []


ROUTES = [
    ("GET", "/v1/sessions/{}"),
    ("DELETE", "/v1/sessions/{}"),
    ("POST", "/v1/sessions/{}/typing"),
    ("GET", "/v1/sessions/{}/status"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_an_unknown_one_is_not_found(client: TestClient, method: str, path: str) -> None:
    body = {"text": "How"} if method == "POST" else None
    response = client.request(method, path.format("none"), json=body)
    assert response.status_code == 404
    assert response.json()["error"]["type"] == "not_found_error"


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_another_tenants_is_not_found(
    service: Service, other: TestClient, method: str, path: str
) -> None:
    key = service.keys.add("a")
    id = opened(client_of(other, key))
    body = {"text": "How"} if method == "POST" else None
    assert other.request(method, path.format(id), json=body).status_code == 404
    assert held(service, id).idle_s < 600
    assert get(other, "/v1/sessions")["data"] == []


@pytest.mark.parametrize(
    ("param", "body"),
    [
        ("method", {"method": "drafts"}),
        ("colour", {"colour": "red"}),
        ("inject", {"inject": "perhaps"}),
        ("documents", {"method": "rapid"}),
        ("documents", {"method": "rapid", "documents": ["1", "2"]}),
        ("kinds", {"method": "rapid", "documents": ["1"], "kinds": ["table"]}),
        ("metadata", {"method": "rapid", "documents": ["1"], "metadata": {"a": 1}}),
        ("inject", {"method": "rapid", "documents": ["1"], "inject": True}),
        ("settings.retrieval.mode", {"settings": {"retrieval.mode": "dense"}}),
        ("settings.retrieval.k", {"settings": {"retrieval.k": 0}}),
        ("settings.drafts.preset", {"settings": {"drafts.preset": "fast"}}),
        (
            "settings.retrieval.k",
            {"method": "rapid", "documents": ["1"], "settings": {"retrieval.k": 1}},
        ),
    ],
)
def test_what_cannot_be_opened_is_named(
    client: TestClient, param: str, body: dict[str, object]
) -> None:
    response = client.post("/v1/sessions", json=body)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert (error["param"], error["code"] in ("invalid", "unsupported")) == (param, True)
    assert get(client, "/v1/sessions")["data"] == []


def test_a_document_that_is_not_there(client: TestClient) -> None:
    response = client.post("/v1/sessions", json={"documents": ["none.md"]})
    assert (response.status_code, response.json()["error"]["param"]) == (404, "documents")


def test_settings_and_filter_hold_for_all_questions(client: TestClient, service: Service) -> None:
    tower = next(
        info
        for info in service.tenant().engine.knowledge.store.documents()
        if info.name.endswith("tower.md")
    )
    id = opened(client, documents=[str(tower.id)], settings={"retrieval.k": 1})
    for question in (QUESTION, "Where is the tower?"):
        ask(held(service, id), question)
    turns = get(client, f"/v1/sessions/{id}")["turns"]
    shown = [passage["document"] for turn in turns for passage in turn["passages"]]
    assert set(shown) == {tower.name}
    listed = get(client, "/v1/sessions")["data"][0]
    assert (listed["settings"], listed["num_turns"]) == ({"retrieval.k": 1}, 2)


def test_lone_surrogates_do_no_harm(client: TestClient) -> None:
    body = json.dumps({"metadata": {"\ud800": "\udfff"}})
    response = client.post("/v1/sessions", content=body, headers=JSON)
    assert response.status_code == 200
    path = f"/v1/sessions/{response.json()['id']}"
    typed = client.post(f"{path}/typing", content=json.dumps({"text": "\ud83d"}), headers=JSON)
    assert typed.status_code == 200
    assert get(client, path)["metadata"] == {"\ufffd": "\ufffd"}


def test_what_is_ready_moves_while_one_types(client: TestClient, service: Service) -> None:
    path = f"/v1/sessions/{opened(client)}"
    for end in range(1, len(QUESTION)):
        status = post(client, f"{path}/typing", text=QUESTION[:end])
    assert status["object"] == "session.status"
    assert set(status) == {
        *("object", "passages", "num_tokens", "num_answer_tokens", "probability", "reason"),
        *("suggestions", "fetching"),
    }
    post(client, f"{path}/typing", text=QUESTION)
    until(lambda: get(client, f"{path}/status")["num_answer_tokens"] == MAX_NEW_TOKENS)
    status = get(client, f"{path}/status")
    assert status["passages"] == ["Lake Baikal"]
    assert status["num_tokens"] > 0
    assert get(client, path)["status"] == status
    assert post(client, f"{path}/typing", text="")["num_tokens"] == 0  # the line is empty


@pytest.mark.parametrize("body", [{}, {"text": 3}, {"text": "x" * 20_001}])
def test_what_cannot_be_typed(client: TestClient, body: dict[str, object]) -> None:
    response = client.post(f"/v1/sessions/{opened(client)}/typing", json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "text")


@contextmanager
def busy_model(service: Service) -> Iterator[None]:
    """Keep the model busy with one step during the ``with`` body."""
    is_held, free = threading.Event(), threading.Event()

    def step() -> None:
        is_held.set()
        free.wait()

    holding = threading.Thread(target=service.loaded.turns.run, args=(step,))
    holding.start()
    is_held.wait()
    try:
        yield
    finally:
        free.set()
        holding.join()


def call(base: str, key: str, path: str, **body: object) -> dict[str, Any]:
    """Send a request to a real server."""
    headers = JSON | {"Authorization": f"Bearer {key}"}
    request = Request(base + path, json.dumps(body).encode(), headers)
    with urlopen(request, timeout=30) as response:
        found: dict[str, Any] = json.load(response)
        return found


def test_typing_waits_for_no_model_step(service: Service, served: str) -> None:
    """The model is busy, and what waits for it has taken all places of such routes."""
    own, other = service.keys.add("a"), service.keys.add("b", tenant="b")
    path = f"/v1/sessions/{call(served, own, '/v1/sessions')['id']}/typing"
    seconds = []
    with ThreadPoolExecutor(NUM_THREADS) as pool, busy_model(service):
        waiting = [pool.submit(call, served, other, "/v1/sessions") for _ in range(NUM_THREADS)]
        time.sleep(0.3)
        for end in range(1, len(QUESTION)):
            began_s = time.perf_counter()
            call(served, own, path, text=QUESTION[:end])
            seconds.append(time.perf_counter() - began_s)
        assert not any(one.done() for one in waiting)
    assert [one.result()["object"] for one in waiting] == ["session"] * NUM_THREADS
    print(f"a stroke: {statistics.median(seconds):.4f} s, at most {max(seconds):.4f} s")
    assert statistics.median(seconds) < 0.05


def test_guesses_keep_out_of_the_way_of_live_answers(client: TestClient, service: Service) -> None:
    answering, typing = opened(client), opened(client)
    path = f"/v1/sessions/{typing}"
    with closing(held(service, answering).submit(QUESTION)) as events:
        next(events)
        post(client, f"{path}/typing", text="Where does the tower stand?")
        time.sleep(0.3)  # due long ago, had there been no answer
        status = get(client, f"{path}/status")
        assert (status["num_tokens"], status["num_answer_tokens"]) == (0, 0)
        for _ in events:
            pass
    until(lambda: get(client, f"{path}/status")["num_answer_tokens"] > 0)  # now


def test_guesses_keep_out_of_the_way_of_other_tenants_answers(
    service: Service, other: TestClient
) -> None:
    path = f"/v1/sessions/{opened(other)}"
    service.tenant("b").engine.knowledge.add(["-"], stdin=b"A tower of clay.", stdin_name="t.txt")
    for _ in service.tenant().engine.stream(QUESTION):
        post(other, f"{path}/typing", text="What is the tower of?")
        time.sleep(0.02)
        status = get(other, f"{path}/status")
        assert (status["num_tokens"], status["num_answer_tokens"]) == (0, 0)
    until(lambda: get(other, f"{path}/status")["num_answer_tokens"] > 0)


@pytest.mark.parametrize("setting", ["session_bytes", "budget_bytes"])
def test_what_idle_sessions_have_read_fits_a_budget(
    tmp_path_factory: pytest.TempPathFactory, model: TransformersModel, setting: str
) -> None:
    """Each answer has the memory of those that are idle given back."""
    section = "cache" if setting == "budget_bytes" else "server"
    more = {f"{section}__{setting}": 0, "prefetch__enabled": False}
    service = Service(make_config(tmp_path_factory.mktemp("tight"), **more), model)
    service.tenant().engine.knowledge.add(["-"], stdin=b"A lake is deep.", stdin_name="lake.txt")
    with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
        session = held(service, opened(client))
        texts = [ask(session).text]
        until(lambda: session.num_bytes == 0)
        body = {
            "model": "readahead",
            "messages": [{"role": "user", "content": QUESTION}],
            "readahead": {"session": opened(client)},
        }
        other = held(service, body["readahead"]["session"])  # type: ignore[index]
        answer = post(client, "/v1/chat/completions", **body)
        texts.append(answer["choices"][0]["message"]["content"])
        until(lambda: other.num_bytes == 0)
    service.close()
    assert texts[0] == texts[1]


def test_what_was_said_outlives_its_documents(client: TestClient, service: Service) -> None:
    path = f"/v1/sessions/{opened(client)}"
    session = held(service, path.rpartition("/")[2])
    answer = ask(session)
    (turn,) = get(client, path)["turns"]
    assert (turn["question"], turn["answer"]) == (QUESTION, answer.text)
    assert turn["trace_id"] == answer.trace_id
    shown = turn["passages"][0]
    assert shown["text"].endswith("It is 1,642 metres deep.")
    assert (shown["document_id"], shown["heading"]) == ("1", ["Lake Baikal"])
    service.tenant().engine.knowledge.remove([shown["document"]])
    (turn,) = get(client, path)["turns"]
    assert turn["passages"] == [shown | {"text": None}]
    assert turn["answer"] == answer.text
    ask(session, "And the tower?")
    assert len(get(client, path)["turns"]) == 2


def test_a_session_about_one_document(client: TestClient, service: Service) -> None:
    session = post(client, "/v1/sessions", method="rapid", documents=["1"])
    path = f"/v1/sessions/{session['id']}"
    assert session["documents"] == ["1"]
    assert post(client, f"{path}/typing", text="How")["reason"] == NOT_AHEAD
    assert ask(held(service, session["id"])).method == "rapid"
    (turn,) = get(client, path)["turns"]
    assert (turn["question"], turn["passages"]) == (QUESTION, [])


def test_suggestions_are_told(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/v1/sessions/{opened(client)}"
    session = held(service, path.rpartition("/")[2])
    about = session._about
    assert isinstance(about, Session)
    about._suggestions.questions = ("How old is the lake?",)  # the tiny model asks nothing
    assert get(client, path)["suggestions"] == ["How old is the lake?"]
    assert get(client, f"{path}/status")["suggestions"] == ["How old is the lake?"]


def test_deleting_ends_the_answer(client: TestClient, service: Service) -> None:
    path = f"/v1/sessions/{opened(client)}"
    events = held(service, path.rpartition("/")[2]).submit(QUESTION)
    next(events)
    assert client.delete(path).status_code == 200
    *_, answer = events
    assert isinstance(answer, Answer)
    assert answer.finish_reason == "cancelled"
    assert not service.loaded.turns.is_answering


def test_an_answer_that_deleting_cut_says_so(client: TestClient, service: Service) -> None:
    id = opened(client)
    session = held(service, id)
    with ThreadPoolExecutor(2) as pool:
        with busy_model(service):
            asking = pool.submit(completed, client, id)
            until(lambda: session.is_answering)
            deleting = pool.submit(client.delete, f"/v1/sessions/{id}")
            until(lambda: session._is_closed)
        status, body = asking.result()
        assert deleting.result().status_code == 200
    assert (status, body["choices"][0]["finish_reason"]) == (200, "stop")  # as OpenAI has it
    assert body["readahead"]["finish_reason"] == "cancelled"


def test_of_what_was_said_the_last_is_told(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_session, "NUM_KEPT", 2)
    path = f"/v1/sessions/{opened(client)}"
    for question in ("How deep?", "How high?", "How old?"):
        ask(held(service, path.rpartition("/")[2]), question)
    told = get(client, path)
    assert [turn["question"] for turn in told["turns"]] == ["How high?", "How old?"]
    assert told["num_turns"] == 3


def test_opening_one_does_not_hold_up_the_server(service: Service, served: str) -> None:
    with ThreadPoolExecutor(1) as pool, busy_model(service):
        opening = pool.submit(call, served, "", "/v1/sessions")
        time.sleep(0.1)
        with urlopen(f"{served}/health", timeout=5) as response:
            assert json.load(response) == {"status": "ok"}
        assert not opening.done()  # it measures the model, for the first time
    assert opening.result()["object"] == "session"


def test_idle_ones_are_closed_without_being_asked_for(service: Service) -> None:
    app = create_app(service)
    sessions = service.tenant().sessions
    sessions._idle_s = 0.2
    server = service.config.server.model_copy(update={"session_idle_s": 0.2})
    service.config = service.config.model_copy(update={"server": server})
    with TestClient(app, base_url="http://127.0.0.1") as client:
        session = held(service, opened(client))
        session.type(QUESTION)
        about = session._about
        assert isinstance(about, Session)
        until(lambda: about._worker.is_closed)
        assert sessions._sessions == {}


def test_a_fault_while_idle_ones_are_closed_is_logged_and_passes(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = service.config.server.model_copy(update={"session_idle_s": 0.02})
    service.config = service.config.model_copy(update={"server": server})
    expire, num_calls = service.tenant().sessions.expire, 0

    def faulty() -> None:
        nonlocal num_calls
        num_calls += 1
        if num_calls == 1:
            raise ZeroDivisionError
        expire()

    monkeypatch.setattr(service.tenant().sessions, "expire", faulty)
    with TestClient(create_app(service), base_url="http://127.0.0.1"):
        until(lambda: num_calls > 2)
    assert "idle sessions could not be closed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_closed_one_gives_its_memory_back(client: TestClient, service: Service) -> None:
    path = f"/v1/sessions/{opened(client)}"
    id = path.rpartition("/")[2]
    ask(held(service, id))
    post(client, f"{path}/typing", text="Where is the tower?")
    until(lambda: get(client, f"{path}/status")["num_answer_tokens"] > 0)
    caches = [weakref.ref(cache) for cache in caches_of(held(service, id))]
    assert caches
    client.delete(path)
    assert [cache() for cache in caches] == [None] * len(caches)


def caches_of(session: ServedSession) -> list[Cache]:
    about = session._about
    assert isinstance(about, Session)
    readings = about._prefetcher._readings._readings.values()
    return [reading.cache for reading in readings if reading is not None]


def completed(client: TestClient, id: str) -> tuple[int, dict[str, Any]]:
    """Return status and body of an answer in a session."""
    messages = [{"role": "user", "content": QUESTION}]
    body = {"model": "readahead", "messages": messages, "readahead": {"session": id}}
    response = client.post("/v1/chat/completions", json=body)
    return response.status_code, response.json()


def test_a_chat_uses_what_was_read_ahead(client: TestClient, service: Service) -> None:
    id = opened(client)
    post(client, f"/v1/sessions/{id}/typing", text=QUESTION)
    until(lambda: get(client, f"/v1/sessions/{id}/status")["num_answer_tokens"] == MAX_NEW_TOKENS)
    _, answer = completed(client, id)
    assert answer["readahead"]["usage"]["retrievals"] == 0
    trace = get(client, f"/v1/traces/{answer['readahead']['trace_id']}")
    assert trace["attributes"]["prefetch"]["num_answer_tokens_ahead"] == MAX_NEW_TOKENS
    (turn,) = get(client, f"/v1/sessions/{id}")["turns"]
    assert turn["answer"] == answer["choices"][0]["message"]["content"]


def test_sessions_draw_different_answers_and_begin_their_own_ahead(
    config: Config, model: TransformersModel, tmp_path: Path
) -> None:
    generation = config.generation.model_copy(update={"temperature": 1.5})
    service = Service(config.model_copy(update={"generation": generation}), model)
    (tmp_path / "lake.md").write_text("The lake is 1,642 metres deep.", encoding="utf-8")
    service.tenant().engine.knowledge.add([tmp_path / "lake.md"])
    with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
        plain, ahead = opened(client), opened(client)
        path = f"/v1/sessions/{ahead}"
        post(client, f"{path}/typing", text=QUESTION)
        until(lambda: get(client, f"{path}/status")["num_answer_tokens"] > 3)
        answers = [completed(client, id)[1] for id in (plain, ahead)]
        trace = get(client, f"/v1/traces/{answers[1]['readahead']['trace_id']}")
    service.close()
    assert trace["attributes"]["prefetch"]["num_answer_tokens_ahead"] > 3
    first, second = (answer["choices"][0]["message"]["content"] for answer in answers)
    assert first != second


def test_a_chat_in_a_session_that_is_answering(client: TestClient, service: Service) -> None:
    id = opened(client)
    with closing(held(service, id).submit(QUESTION)) as events:
        next(events)
        status, body = completed(client, id)
    assert (status, body["error"]["code"]) == (409, "session_busy")
    assert completed(client, id)[0] == 200


def test_a_chat_in_another_tenants_session(service: Service, other: TestClient) -> None:
    id = opened(client_of(other, service.keys.add("a")))
    assert completed(other, id)[0] == 404
    assert held(service, id).said == ()


def test_it_follows_what_was_said_elsewhere(client: TestClient, service: Service) -> None:
    said = [
        {"role": "user", "content": "Where is the tower?"},
        {"role": "assistant", "content": "In Paris [1]."},
    ]
    session = post(client, "/v1/sessions", messages=said)
    assert "messages" not in session
    ask(held(service, session["id"]))
    about = held(service, session["id"])._about
    assert isinstance(about, Session)
    assert [turn.question for turn in about.turns] == ["Where is the tower?", QUESTION]
    for wrong in (said[:1], said[1:], [{"role": "system", "content": "x"}, *said]):
        response = client.post("/v1/sessions", json={"messages": wrong})
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "messages"
