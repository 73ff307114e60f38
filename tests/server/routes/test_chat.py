"""Chat completions, asked by the official client over a real port."""

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import BadRequestError, NotFoundError, OpenAI, Stream
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from starlette.testclient import TestClient

from readahead.config import Config
from readahead.lm.generate import Piece, generate
from readahead.lm.messages import message_ids
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.reply import Event, Reply
from readahead.server.app import create_app
from readahead.server.routes import chat
from readahead.server.schemas.settings import SETTINGS, configured
from readahead.server.state import Service
from readahead.trace import Trace
from tests.server.clients import sent, wait_until
from tests.server.conftest import make_config

QUESTION = "How deep is Lake Baikal?"
ASKED = [{"role": "user", "content": QUESTION}]
BOTH = [{"role": "user", "content": "Is the Eiffel Tower as tall as Lake Baikal is deep?"}]


@pytest.fixture
def openai(served: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{served}/v1", api_key="none", max_retries=0) as client:
        yield client


def ask(openai: OpenAI, **more: object) -> ChatCompletion:
    given = {"model": "readahead", "messages": ASKED, **more}
    answer = openai.chat.completions.create(**given)  # type: ignore[call-overload]
    assert isinstance(answer, ChatCompletion)
    return answer


def stream(openai: OpenAI, **more: object) -> list[ChatCompletionChunk]:
    given = {"model": "readahead", "messages": ASKED, "stream": True, **more}
    chunks = openai.chat.completions.create(**given)  # type: ignore[call-overload]
    assert isinstance(chunks, Stream)
    return list(chunks)


def extension(of: ChatCompletion | ChatCompletionChunk) -> dict[str, object]:
    assert of.model_extra is not None
    found = of.model_extra["readahead"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("method", ["prefetch", "plain", "drafts", "rapid"])
def test_every_method_answers_as_the_engine_does(
    openai: OpenAI, service: Service, method: str
) -> None:
    answer = ask(openai, extra_body={"readahead": {"method": method}})
    engine = service.tenant().engine
    expected = engine.ask(QUESTION, method="plain" if method == "prefetch" else method)
    assert answer.choices[0].message.content == expected.text
    told = extension(answer)
    assert told["method"] == method
    assert told["abstained"] == expected.abstained
    assert engine.knowledge.store.trace(str(told["trace_id"]))["attributes"]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == expected.usage.completion_tokens
    assert answer.usage.total_tokens == sum(
        (answer.usage.prompt_tokens, answer.usage.completion_tokens)
    )


def test_a_stream_says_what_the_whole_says(openai: OpenAI) -> None:
    whole = ask(openai)
    chunks = stream(openai)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason == "length"
    assert all(chunk.usage is None for chunk in chunks)
    assert extension(chunks[-1])["citations"] == extension(whole)["citations"]
    assert {chunk.id for chunk in chunks} == {chunks[0].id}


def test_usage_comes_once_and_last_where_it_is_asked_for(openai: OpenAI) -> None:
    chunks = stream(openai, stream_options={"include_usage": True})
    assert [chunk.usage is None for chunk in chunks[:-1]] == [True] * (len(chunks) - 1)
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 12


def test_the_second_time_the_passages_are_known(openai: OpenAI) -> None:
    first, second = ask(openai), ask(openai)
    assert first.choices[0].message.content == second.choices[0].message.content
    assert first.usage is not None and second.usage is not None
    assert first.usage.prompt_tokens_details is not None
    assert second.usage.prompt_tokens_details is not None
    assert first.usage.prompt_tokens_details.cached_tokens == 0
    assert (second.usage.prompt_tokens_details.cached_tokens or 0) > 50


def test_earlier_messages_are_followed(openai: OpenAI) -> None:
    earlier = [*ASKED, {"role": "assistant", "content": "It is 1,642 metres deep [1]."}]
    asked = [*earlier, {"role": "user", "content": "And where does the tower stand?"}]
    for method in ("prefetch", "plain", "rapid"):
        body = {"readahead": {"method": method}}
        alone = ask(openai, messages=asked[-1:], extra_body=body)
        behind = ask(openai, messages=asked, extra_body=body)
        assert alone.usage is not None and behind.usage is not None
        if method != "prefetch":  # where another topic stands for itself
            assert behind.usage.prompt_tokens > alone.usage.prompt_tokens


def test_a_message_may_come_in_parts(openai: OpenAI) -> None:
    parts = [{"type": "text", "text": text} for text in ("How deep is ", "Lake Baikal?")]
    for model in ("readahead", "tiny"):
        asked = {"model": model, "max_tokens": 5, "temperature": 0}
        whole, pieced = (
            ask(openai, **asked),
            ask(openai, messages=[{"role": "user", "content": parts}], **asked),
        )
        assert pieced.choices[0].message.content == whole.choices[0].message.content
        assert whole.usage is not None and pieced.usage is not None
        assert pieced.usage.prompt_tokens == whole.usage.prompt_tokens


def test_each_marker_is_annotated_with_what_it_cites(
    openai: OpenAI, service: Service, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = service.tenant().engine
    said = "水在一百摄氏度沸腾。 Lake Baikal is 1,642 metres deep. It is the deepest lake. See [7]."

    def answered(*asked: object) -> Iterator[Event]:
        passages = [hit.passage for hit in engine.knowledge.search(f"{QUESTION} 水沸腾", 3)]
        pieces = [Piece(said, (1,)), Piece(" 水在一百摄氏度沸腾。", (2,), finish_reason="stop")]
        return Reply(QUESTION, passages, Trace("ask"), engine.config).events(pieces)

    monkeypatch.setattr(chat, "answer_events", answered)
    answer = ask(openai)
    message, citations = answer.choices[0].message, extension(answer)["citations"]
    assert message.content is not None and message.annotations is not None
    assert isinstance(citations, list) and len(citations) == 3
    marked = re.findall(r"\[\d\]", message.content)
    assert marked == ["[1]", "[2]", "[3]", "[1]"]  # the last sentence is the first again
    assert [one.type for one in message.annotations] == ["url_citation"] * 4
    for marker, annotation in zip(marked, message.annotations, strict=True):
        cited = annotation.url_citation
        assert message.content[cited.start_index : cited.end_index] == marker
        citation = citations[int(marker[1]) - 1]
        assert cited.title == citation["heading"][0]
        url, _, place = cited.url.partition("#")
        start, end = map(int, place.split("-"))
        assert client.get(url).json()["text"][start:end] == citation["text"]


def test_an_answer_can_be_sent_back_as_the_client_dumps_it(openai: OpenAI) -> None:
    answer = ask(openai, max_tokens=3, max_completion_tokens=3).choices[0].message.model_dump()
    assert {"tool_calls", "function_call", "audio", "annotations"} <= set(answer)
    assert ask(openai, messages=[*ASKED, answer, *ASKED]).choices[0].message.content


def test_drafts_say_that_they_left_earlier_messages_out(openai: OpenAI) -> None:
    asked = [*ASKED, {"role": "assistant", "content": "1,642 m."}, *ASKED]
    answer = ask(openai, messages=asked, extra_body={"readahead": {"method": "drafts"}})
    assert "earlier messages were left out" in str(extension(answer)["notes"])


def test_what_the_client_instructs_is_read_as_text(openai: OpenAI) -> None:
    instructed = [{"role": "system", "content": "Be brief.<|im_end|>"}, *ASKED]
    plain = {"readahead": {"method": "plain"}}
    told, untold = (ask(openai, messages=m, extra_body=plain) for m in (instructed, ASKED))
    assert told.usage is not None and untold.usage is not None
    # Two line ends and each byte of it; a control token would be one.
    assert told.usage.prompt_tokens - untold.usage.prompt_tokens == 2 + len("Be brief.<|im_end|>")


def test_sampling_is_the_requests(openai: OpenAI) -> None:
    drawn = [ask(openai, temperature=1.5, seed=7).choices[0].message.content for _ in range(2)]
    other = ask(openai, temperature=1.5, seed=8).choices[0].message.content
    assert drawn[0] == drawn[1] != other
    free = {ask(openai, temperature=1.5).choices[0].message.content for _ in range(4)}
    assert len(free) > 1
    greedy = ask(openai, temperature=0).choices[0].message.content
    narrow = ask(openai, temperature=1.5, seed=7, top_p=1e-6).choices[0].message.content
    assert narrow == greedy != drawn[0]
    for name in ("max_tokens", "max_completion_tokens"):
        for model in ("readahead", "tiny"):
            usage = ask(openai, model=model, temperature=0, **{name: 3}).usage
            assert usage is not None and usage.completion_tokens == 3
    whole = ask(openai).choices[0].message.content or ""
    stop = whole[3:5]
    cut = ask(openai, stop=[stop])
    assert cut.choices[0].message.content == whole[: whole.index(stop)].rstrip()
    assert cut.choices[0].finish_reason == "stop"


def test_several_choices_are_drawn_apart(openai: OpenAI) -> None:
    answer = ask(openai, n=3, temperature=1.5, seed=1)
    texts = [choice.message.content for choice in answer.choices]
    assert len(set(texts)) == 3
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len(extension(answer)["choices"]) == 3  # type: ignore[arg-type]
    by_index: dict[int, str] = {}
    for chunk in stream(openai, n=3, temperature=1.5, seed=1):
        choice = chunk.choices[0]
        by_index[choice.index] = by_index.get(choice.index, "") + (choice.delta.content or "")
    assert list(by_index.values()) == texts


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"n": 5}, "n"),
        ({"temperature": 3}, "temperature"),
        ({"logprobs": True}, "logprobs"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format.type"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": "  "}]}, "messages"),
        ({"messages": [{"role": "assistant", "content": "Hi"}]}, "messages"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens"),
        ({"messages": [{**ASKED[0], "tool_calls": []}]}, "messages.0.tool_calls"),
        ({"messages": [{**ASKED[0], "name": "Ada"}]}, "messages.0.name"),
        ({"metadata": {"a": "b" * 513}}, "metadata.a"),
        ({"metadata": {"a" * 65: "b"}}, f"metadata.{'a' * 65}"),
        ({"metadata": dict.fromkeys("abcdefghijklmnopq", "")}, "metadata"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"stop": 5}, "stop"),
        ({"extra_body": {"nonsense": 1}}, "nonsense"),
        ({"extra_body": {"readahead": {"nonsense": 1}}}, "readahead.nonsense"),
        ({"extra_body": {"readahead": {"method": "magic"}}}, "readahead.method"),
        (
            {"extra_body": {"readahead": {"settings": {"models.target": "x"}}}},
            "readahead.settings.models.target",
        ),
        (
            {"extra_body": {"readahead": {"settings": {"retrieval.k": -1}}}},
            "readahead.settings.retrieval.k",
        ),
        (
            {"extra_body": {"readahead": {"settings": {"retrieval.k": True}}}},
            "readahead.settings.retrieval.k",
        ),
        (
            {"extra_body": {"readahead": {"settings": {"retrieval.k": 10**6}}}},
            "readahead.settings.retrieval.k",
        ),
    ],
)
def test_what_is_not_served_is_named(openai: OpenAI, more: dict[str, object], param: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        ask(openai, **more)
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["param"] == param
    assert caught.value.body["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"temperature": 0.5}, "temperature"),
        ({"frequency_penalty": 1}, "frequency_penalty"),
        ({"presence_penalty": -1}, "presence_penalty"),
        ({"stop": "."}, "stop"),
        ({"max_tokens": 5}, "max_tokens"),
        ({"max_completion_tokens": 5}, "max_completion_tokens"),
        ({"messages": [{"role": "system", "content": "Be brief."}, *ASKED]}, "messages"),
    ],
)
def test_what_drafts_do_not_heed_is_named(
    openai: OpenAI, more: dict[str, object], param: str
) -> None:
    with pytest.raises(BadRequestError, match="[Dd]rafts .* the method plain") as caught:
        ask(openai, extra_body={"readahead": {"method": "drafts"}}, **more)
    assert (caught.value.param, caught.value.code) == (param, "unsupported")


def test_settings_of_a_request_are_its_own(openai: OpenAI) -> None:
    many, few = (
        ask(
            openai,
            messages=BOTH,
            extra_body={"readahead": {"method": "plain", "settings": {"retrieval.k": k}}},
        )
        for k in (3, 1)
    )
    assert many.usage is not None and few.usage is not None
    assert many.usage.prompt_tokens > few.usage.prompt_tokens


def test_documents_can_be_chosen(openai: OpenAI, service: Service) -> None:
    infos = service.tenant().engine.knowledge.store.documents()
    tower = next(info for info in infos if info.name.endswith("tower.md"))
    for given in (tower.name, str(tower.id)):
        answer = ask(openai, messages=BOTH, extra_body={"readahead": {"documents": [given]}})
        trace = service.tenant().engine.knowledge.store.trace(str(extension(answer)["trace_id"]))
        attributes = trace["attributes"]
        assert isinstance(attributes, dict)
        assert {str(p["id"]).split(".")[0] for p in attributes["passages"]} == {str(tower.id)}
    with pytest.raises(NotFoundError):
        ask(openai, extra_body={"readahead": {"documents": ["nowhere"]}})


def test_an_unknown_model_is_not_found(openai: OpenAI) -> None:
    with pytest.raises(NotFoundError, match=r"no model 'gpt-9' here\. GET /v1/models") as caught:
        ask(openai, model="gpt-9")
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"


def test_a_question_that_does_not_fit_is_told_before_the_stream(openai: OpenAI) -> None:
    with pytest.raises(BadRequestError) as caught:
        stream(openai, messages=[{"role": "user", "content": "deep " * 2000}])
    assert caught.value.code == "context_length_exceeded"


def test_a_body_that_is_no_json_is_told_so(client: TestClient) -> None:
    answer = client.post(
        "/v1/chat/completions", content=b"{", headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "json_invalid"


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize("method", ["prefetch", "plain", "drafts", "rapid"])
def test_a_client_that_leaves_ends_its_request(
    served: str, service: Service, method: str, is_stream: bool
) -> None:
    engine = service.tenant().engine
    engine.load(method if method != "prefetch" else "plain")
    body = {
        "model": "readahead",
        "messages": ASKED,
        "stream": is_stream,
        "max_tokens": None if method == "drafts" else 1500,
        "readahead": {
            "method": method,
            "settings": {"drafts.adaptive": False} if method == "drafts" else {},
        },
    }
    with sent(served, "/v1/chat/completions", body) as connection:
        if is_stream and method != "drafts":
            connection.recv(10)
        else:
            wait_until(lambda: service.admission.num_running == 1)
    wait_until(lambda: service.admission.num_running == 0)
    (trace,) = engine.knowledge.store.traces(1)
    whole = engine.knowledge.store.trace(str(trace["id"]))
    assert isinstance(whole["attributes"], dict)
    assert whole["attributes"]["finish_reason"] == "cancelled"


def test_a_short_answer_does_not_wait_for_a_long_one(openai: OpenAI) -> None:
    ended: list[str] = []

    def ask_for(name: str, num_tokens: int) -> None:
        ask(openai, max_tokens=num_tokens)
        ended.append(name)

    ask(openai)
    long = threading.Thread(target=ask_for, args=("long", 1200))
    long.start()
    time.sleep(0.2)
    ask_for("short", 5)
    long.join()
    assert ended == ["short", "long"]


def spoken(openai: OpenAI, **more: object) -> ChatCompletion:
    return ask(openai, model="tiny", max_tokens=8, **more)


def test_the_bare_target_answers_from_no_documents(openai: OpenAI, service: Service) -> None:
    answer = spoken(openai, temperature=0)
    target = service.loaded.target
    ids = message_ids(target.tokenizer, [("user", QUESTION)], 2000)
    (expected,) = generate(target, [ids], SamplingParams(max_new_tokens=8))
    assert answer.choices[0].message.content == expected.text
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(ids)
    assert "readahead" not in (answer.model_extra or {})


def test_the_bare_target_tells_log_probabilities(openai: OpenAI, service: Service) -> None:
    answer = spoken(openai, temperature=0, logprobs=True, top_logprobs=3)
    told = answer.choices[0].logprobs
    assert told is not None and told.content is not None
    assert answer.usage is not None and len(told.content) == answer.usage.completion_tokens
    for token in told.content:
        assert token.top_logprobs[0].logprob == token.logprob  # the most likely, at temperature 0
        assert len(token.top_logprobs) == 3
    written = b"".join(bytes(token.bytes or []) for token in told.content)
    assert written.decode("utf-8", "replace").startswith(answer.choices[0].message.content or "?")
    chunks = stream(
        openai, model="tiny", max_tokens=8, temperature=0, logprobs=True, top_logprobs=3
    )
    streamed = [
        token
        for chunk in chunks
        if chunk.choices[0].logprobs is not None
        for token in chunk.choices[0].logprobs.content or []
    ]
    assert streamed == told.content


def test_the_bare_target_draws_choices_apart_and_reads_instructions(openai: OpenAI) -> None:
    texts = [choice.message.content for choice in spoken(openai, n=3, seed=1).choices]
    assert len(set(texts)) == 3
    instructed = [{"role": "developer", "content": "Be brief."}, *ASKED]
    told, untold = spoken(openai, messages=instructed), spoken(openai)
    assert told.usage is not None and untold.usage is not None
    assert told.usage.prompt_tokens > untold.usage.prompt_tokens


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"extra_body": {"readahead": {}}}, "readahead"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ],
)
def test_what_the_bare_target_does_not_serve_is_named(
    openai: OpenAI, more: dict[str, object], param: str
) -> None:
    with pytest.raises(BadRequestError) as caught:
        spoken(openai, **more)
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["param"] == param


def test_a_session_goes_on_with_what_was_said(
    openai: OpenAI, client: TestClient, service: Service
) -> None:
    id = client.post("/v1/sessions", json={}).json()["id"]
    client.post(f"/v1/sessions/{id}/typing", json={"text": QUESTION})
    in_session = {"readahead": {"session": id}}
    first = ask(openai, extra_body=in_session)
    assert extension(first)["session"] == id
    assert first.choices[0].message.content == ask(openai).choices[0].message.content
    second = ask(openai, extra_body=in_session)
    assert first.usage is not None and second.usage is not None
    assert second.usage.prompt_tokens > first.usage.prompt_tokens
    short = ask(openai, max_tokens=2, extra_body=in_session)
    assert short.usage is not None and short.usage.completion_tokens == 2
    assert len(client.get(f"/v1/sessions/{id}").json()["turns"]) == 3
    with pytest.raises(NotFoundError):
        ask(openai, extra_body={"readahead": {"session": "nobodys"}})
    for more in ({"messages": [{"role": "system", "content": "Hi"}, *ASKED]}, {"n": 2}):
        with pytest.raises(BadRequestError):
            ask(openai, extra_body=in_session, **more)
    with pytest.raises(BadRequestError) as caught:
        ask(openai, extra_body={"readahead": {"session": id, "method": "plain"}})
    assert caught.value.param == "readahead.method"


def test_a_session_keeps_its_settings_when_a_question_sets_its_length(
    openai: OpenAI, client: TestClient
) -> None:
    def said(settings: dict[str, object], **more: object) -> str | None:
        id = client.post("/v1/sessions", json={"settings": settings}).json()["id"]
        return (
            ask(openai, extra_body={"readahead": {"session": id}}, **more)
            .choices[0]
            .message.content
        )

    strict: dict[str, object] = {"generation.repetition_penalty": 1.8}
    assert said(strict, max_tokens=12) == said(strict) != said({})


def test_a_session_about_a_document_names_what_it_does_not_heed(
    openai: OpenAI, client: TestClient
) -> None:
    about = {"method": "rapid", "documents": ["1"]}
    in_session = {"readahead": {"session": client.post("/v1/sessions", json=about).json()["id"]}}
    for name, value in {"max_tokens": 2, "stop": ".", "seed": 1}.items():
        with pytest.raises(BadRequestError, match="as its settings say") as caught:
            ask(openai, extra_body=in_session, **{name: value})
        assert caught.value.param == name
    assert ask(openai, extra_body=in_session).choices[0].message.content


def test_every_setting_of_requests_can_be_set_to_what_it_is(config: Config) -> None:
    current = {
        name: getattr(getattr(config, name.split(".")[0]), name.split(".")[1]) for name in SETTINGS
    }
    given = json.loads(json.dumps(current))
    assert configured(config, given) == config


def test_the_servers_own_instructions_stand_before_the_clients(
    tmp_path: Path, model: TransformersModel
) -> None:
    service = Service(make_config(tmp_path, generation__system="Be kind."), model)
    service.tenant().engine.knowledge.add(["-"], stdin=b"A lake is deep.", stdin_name="a.txt")
    with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
        lengths = [
            client.post(
                "/v1/chat/completions",
                json={
                    "model": "readahead",
                    "messages": [*system, {"role": "user", "content": "Is a lake deep?"}],
                    "readahead": {"method": "plain"},
                },
            ).json()["usage"]["prompt_tokens"]
            for system in ([], [{"role": "system", "content": "Be brief."}])
        ]
    assert lengths[1] - lengths[0] == len("\n\nBe brief.")
