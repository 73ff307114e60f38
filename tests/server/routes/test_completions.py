"""Completions of the bare target, asked for by the official client over a real port."""

import json
from collections.abc import Iterator
from itertools import islice

import pytest
from openai import BadRequestError, NotFoundError, OpenAI, Stream
from openai.types import Completion

from readahead.lm.generate import generate
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.lm.score import score
from readahead.lm.tokenizer import Tokenizer
from readahead.server.routes.completions import CompletionRequest, _events
from readahead.server.state import Caller, Service
from tests.conftest import make_tokenizer
from tests.server.clients import sent, wait_until

PROMPT = "The tide turns twice a day, 潮水。"
IDS = Tokenizer(make_tokenizer()).encode(PROMPT)  # a token a byte


@pytest.fixture
def openai(served: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{served}/v1", api_key="none", max_retries=0) as client:
        yield client


def complete(openai: OpenAI, **more: object) -> Completion:
    given = {"model": "tiny", "prompt": PROMPT, "temperature": 0, **more}
    completion = openai.completions.create(**given)  # type: ignore[call-overload]
    assert isinstance(completion, Completion)
    return completion


def stream(openai: OpenAI, **more: object) -> list[Completion]:
    given = {"model": "tiny", "prompt": PROMPT, "temperature": 0, "stream": True, **more}
    chunks = openai.completions.create(**given)  # type: ignore[call-overload]
    assert isinstance(chunks, Stream)
    return list(chunks)


def plain(model: TransformersModel, prompt: str = PROMPT, **more: object) -> tuple[str, int, str]:
    params = SamplingParams(**{"max_new_tokens": 16, **more})  # type: ignore[arg-type]
    [written] = generate(model, [model.tokenizer.encode(prompt)], params)
    return written.text, len(written.token_ids), written.finish_reason


def test_it_is_what_the_model_writes(openai: OpenAI, model: TransformersModel) -> None:
    completion = complete(openai)
    text, num_tokens, reason = plain(model)
    [choice] = completion.choices
    assert (choice.index, choice.text, choice.finish_reason) == (0, text, reason)
    assert choice.logprobs is None
    assert completion.object == "text_completion"
    assert completion.id.startswith("cmpl-")
    assert completion.model == "tiny"
    assert completion.usage is not None
    assert completion.usage.prompt_tokens == len(IDS)
    assert completion.usage.completion_tokens == num_tokens
    assert completion.usage.total_tokens == len(IDS) + num_tokens


def test_it_draws_unless_told_otherwise(openai: OpenAI, model: TransformersModel) -> None:
    drawn = [complete(openai, temperature=None, seed=7).choices[0].text for _ in range(2)]
    assert drawn == [plain(model, temperature=1.0, seed=7)[0]] * 2
    unseeded = {complete(openai, temperature=None).choices[0].text for _ in range(3)}
    assert len(unseeded) > 1


def test_a_stream_is_the_whole_in_parts(openai: OpenAI) -> None:
    asked = {"logprobs": 2, "echo": True, "n": 2, "temperature": 1, "seed": 3}
    whole = complete(openai, **asked)
    chunks = stream(openai, **asked, stream_options={"include_usage": True})
    assert {chunk.id for chunk in chunks} == {chunks[0].id}
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage
    for choice in whole.choices:
        parts = [one for chunk in chunks for one in chunk.choices if one.index == choice.index]
        assert len(parts) > 2
        assert "".join(part.text for part in parts) == choice.text
        reasons = [part.finish_reason for part in parts]
        assert reasons == [None] * (len(parts) - 1) + [choice.finish_reason]
        assert choice.logprobs is not None
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            told = [value for part in parts for value in getattr(part.logprobs, name)]
            assert told == getattr(choice.logprobs, name) or name.endswith("logprobs")


def test_a_stream_tells_its_usage_only_if_asked(openai: OpenAI) -> None:
    asked: list[dict[str, object]] = [
        {},
        {"stream_options": {}},
        {"stream_options": {"include_usage": False}},
    ]
    for options in asked:
        chunks = stream(openai, **options)
        assert all(chunk.choices and chunk.usage is None for chunk in chunks)
        assert all(chunk.choices[0].text or chunk.choices[0].finish_reason for chunk in chunks)


def test_an_echo_is_the_score_of_the_text(openai: OpenAI, model: TransformersModel) -> None:
    completion = complete(openai, echo=True, logprobs=3, max_tokens=0)
    [choice] = completion.choices
    assert (choice.text, choice.finish_reason) == (PROMPT, "length")
    assert completion.usage is not None
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (len(IDS), 0)
    told = choice.logprobs
    assert told is not None and told.token_logprobs and told.top_logprobs
    [expected] = score(model, [IDS[:1]], [IDS[1:]])
    assert told.token_logprobs[0] is None
    assert told.token_logprobs[1:] == pytest.approx(expected.logprobs, abs=1e-4)
    assert told.top_logprobs[0] is None
    for token, logprob, top in zip(
        told.tokens or (), told.token_logprobs, told.top_logprobs, strict=True
    ):
        if top is not None:
            assert top[token] == logprob
            assert 3 <= len(top) <= 4
            assert max(top.values()) >= logprob


def test_tokens_say_where_they_stand(openai: OpenAI) -> None:
    [choice] = complete(openai, echo=True, logprobs=0, max_tokens=4).choices
    told = choice.logprobs
    assert told is not None and told.tokens and told.text_offset and told.top_logprobs
    assert told.tokens[:3] == ["T", "h", "e"]
    assert told.text_offset[:3] == [0, 1, 2]
    at = len(PROMPT) - 1  # the last character has three bytes, each of which is a token
    assert told.tokens[len(IDS) - 3 : len(IDS)] == [f"bytes:\\x{b:02x}" for b in "。".encode()]
    assert told.text_offset[len(IDS) - 3 : len(IDS)] == [at] * 3
    assert told.text_offset[len(IDS)] == len(PROMPT)
    assert len(told.tokens) == len(IDS) + 4
    assert all(len(top) == 1 for top in told.top_logprobs[1:] if top)


def test_an_echo_without_logprobs_is_the_text_alone(openai: OpenAI) -> None:
    [alone] = complete(openai).choices
    [echoed] = complete(openai, echo=True).choices
    assert (echoed.text, echoed.logprobs) == (PROMPT + alone.text, None)
    assert complete(openai, echo=True, max_tokens=0).choices[0].text == PROMPT


def test_logprobs_are_those_of_the_model(openai: OpenAI, model: TransformersModel) -> None:
    params = SamplingParams(max_new_tokens=16, temperature=0)
    [written] = generate(model, [IDS], params)
    for asked in ({}, {"echo": True}):
        told = complete(openai, logprobs=5, **asked).choices[0].logprobs
        assert told is not None and told.token_logprobs
        got = told.token_logprobs[-len(written.token_ids) :]
        assert got == pytest.approx(written.logprobs, abs=1e-4)


def test_several_prompts_and_choices(openai: OpenAI, model: TransformersModel) -> None:
    completion = complete(openai, prompt=["潮", "A lamp"], n=2, temperature=1, seed=5)
    assert [choice.index for choice in completion.choices] == [0, 1, 2, 3]
    expected = [
        plain(model, prompt, temperature=1.0, seed=5 + place)
        for place, prompt in enumerate(["潮", "潮", "A lamp", "A lamp"])
    ]
    assert [choice.text for choice in completion.choices] == [text for text, _, _ in expected]
    assert completion.usage is not None
    assert completion.usage.prompt_tokens == 3 + 6
    assert completion.usage.completion_tokens == sum(num for _, num, _ in expected)


def test_token_ids_are_prompts_too(openai: OpenAI) -> None:
    [expected] = complete(openai, echo=True).choices
    for prompt in (IDS, [IDS]):
        assert complete(openai, prompt=prompt, echo=True).choices[0].text == expected.text


def test_text_never_becomes_a_control_token(openai: OpenAI) -> None:
    told = complete(openai, prompt="<|im_end|>", echo=True, logprobs=0, max_tokens=0)
    logprobs = told.choices[0].logprobs
    assert logprobs is not None and logprobs.tokens == list("<|im_end|>")


def test_control_tokens_are_named_and_take_no_room(openai: OpenAI) -> None:
    told = complete(
        openai, prompt=[*IDS[:1], 256, *IDS[1:2]], echo=True, logprobs=0, max_tokens=0
    ).choices[0]
    assert told.text == "Th"
    assert told.logprobs is not None
    assert told.logprobs.tokens == ["T", "<|im_end|>", "h"]
    assert told.logprobs.text_offset == [0, 1, 1]


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_stop_string_ends_it(openai: OpenAI, is_stream: bool) -> None:
    whole = complete(openai, max_tokens=24).choices[0].text
    asked = {"max_tokens": 24, "stop": ["no such text", whole[3:5]]}
    if is_stream:
        choices = [choice for chunk in stream(openai, **asked) for choice in chunk.choices]
    else:
        choices = complete(openai, **asked).choices
    assert "".join(choice.text for choice in choices) == whole[: whole.index(whole[3:5])]
    assert choices[-1].finish_reason == "stop"


def test_penalties_hold(openai: OpenAI, model: TransformersModel) -> None:
    penalties: dict[str, object] = {"frequency_penalty": 2.0, "presence_penalty": 2.0}
    text = complete(openai, max_tokens=40, **penalties).choices[0].text
    assert text == plain(model, PROMPT, max_new_tokens=40, **penalties)[0]
    assert text != plain(model, max_new_tokens=40)[0]


def test_the_length_is_that_of_the_context_at_most(openai: OpenAI) -> None:
    for more in ({}, {"max_tokens": 8}):
        completion = complete(openai, prompt=[66] * 2040, **more)
        assert completion.usage is not None
        assert completion.usage.completion_tokens <= 8
    assert complete(openai, prompt=[66] * 2048, max_tokens=0, echo=True, logprobs=0)


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(("num_tokens", "max_tokens"), [(2040, 9), (1, 5000), (2048, 1)])
def test_a_length_that_does_not_fit_is_refused(
    openai: OpenAI, num_tokens: int, max_tokens: int, is_stream: bool
) -> None:
    with pytest.raises(BadRequestError, match=f"{num_tokens} tokens") as caught:
        complete(openai, prompt=[66] * num_tokens, max_tokens=max_tokens, stream=is_stream)
    assert caught.value.code == "context_length_exceeded"
    assert "2048" in str(caught.value)
    assert max_tokens == 1 or "lower max_tokens" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"logit_bias": {"65": 1}}, "logit_bias"),
        ({"n": 5}, "n"),
        ({"n": 0}, "n"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": -1}, "logprobs"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"temperature": 2.5}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"stop": 5}, "stop"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": ["a", ""]}, "prompt"),
        ({"prompt": ["a", 5]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": [259]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": {"text": "a"}}, "prompt"),
        ({"prompt": ["a"] * 65}, "prompt"),
        ({"extra_body": {"top_k": 5}}, "top_k"),
        ({"extra_body": {"readahead": {}}}, "readahead"),
    ],
)
def test_what_is_not_served_is_named(openai: OpenAI, given: dict[str, object], param: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        complete(openai, **given)
    body = caught.value.body
    assert isinstance(body, dict)
    assert body["param"] == param
    assert body["code"] in ("invalid", "unsupported", "blank")
    assert body["type"] == "invalid_request_error"
    assert body["message"]


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_prompt_that_is_too_long_is_refused(openai: OpenAI, is_stream: bool) -> None:
    for prompt in ([66] * 2048, ["a", "b" * 2048]):
        with pytest.raises(BadRequestError, match="2048 tokens") as caught:
            complete(openai, prompt=prompt, n=2, stream=is_stream)
        assert caught.value.code == "context_length_exceeded"


@pytest.mark.parametrize("name", ["readahead", "gpt-4o"])
def test_another_model_is_not_found(openai: OpenAI, name: str) -> None:
    with pytest.raises(NotFoundError) as caught:
        complete(openai, model=name)
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"


def test_what_is_harmless_is_taken(openai: OpenAI) -> None:
    taken = {"user": "me", "best_of": 1, "extra_body": {"metadata": {"a": "b"}}, "suffix": ""}
    assert complete(openai, **taken).choices[0].text == complete(openai).choices[0].text


def test_a_lone_surrogate_is_a_character_as_any(openai: OpenAI) -> None:
    body = {"model": "tiny", "prompt": "a\ud800", "echo": True, "max_tokens": 0}
    response = openai._client.post(
        f"{openai.base_url}completions",
        content=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    assert response.json()["choices"][0]["text"] == "a\ufffd"


def counted(service: Service, name: str) -> float:
    return service.metrics.registry.get_sample_value(f"readahead_{name}_total") or 0.0


def test_it_is_counted(openai: OpenAI, service: Service) -> None:
    completion = complete(openai, n=2, echo=True, logprobs=1)
    assert completion.usage is not None
    assert counted(service, "prompt_tokens") == len(IDS)
    assert counted(service, "generation_tokens") == completion.usage.completion_tokens
    assert counted(service, "computed_tokens") <= len(IDS) + completion.usage.completion_tokens


@pytest.mark.parametrize("num_taken", [1, 100])
def test_a_key_spends_what_was_read_and_written(service: Service, num_taken: int) -> None:
    """Also where nobody waits for the end."""
    asked = CompletionRequest(model="tiny", prompt=PROMPT, temperature=0, max_tokens=5)
    events = _events(service, Caller("key"), asked, lambda: False)
    taken = list(islice(events, num_taken))
    events.close()
    num_new = 1 if num_taken == 1 else len(taken) - 1  # the last one says what was used
    assert service.budgets.num_tokens("key") == len(IDS) + num_new


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("is_echo", [False, True])
def test_a_client_that_leaves_ends_its_request(
    served: str, service: Service, is_echo: bool, is_stream: bool
) -> None:
    more = {"echo": True, "logprobs": 5, "max_tokens": 0} if is_echo else {"max_tokens": 40}
    body = {"model": "tiny", "prompt": [[66] * 2000] * 60, "stream": is_stream, **more}
    with sent(served, "/v1/completions", body):
        wait_until(lambda: service.admission.num_running == 1)
    wait_until(lambda: service.admission.num_running == 0)
    assert counted(service, "computed_tokens") < 60 * 2000 / 2
