from collections.abc import Iterable, Iterator

import pytest

from readahead.bare import bare_trace, echo_bare, stream_bare, stream_choices
from readahead.config import Config
from readahead.errors import ContextOverflow
from readahead.lm.generate import Piece, stream
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.loading import Loaded
from readahead.trace import Trace

PROMPT = list(b"The tide turns twice a day.")


@pytest.fixture
def loaded(model: TransformersModel) -> Iterator[Loaded]:
    loaded = Loaded(Config(), model)
    yield loaded
    loaded.turns.close()


def params(seed: int = 0, num_tokens: int = 8) -> SamplingParams:
    return SamplingParams(max_new_tokens=num_tokens, temperature=1.0, seed=seed, ignore_eos=True)


def token_ids(pieces: Iterable[Piece]) -> list[int]:
    return [i for piece in pieces for i in piece.token_ids]


def test_it_writes_what_the_model_writes(loaded: Loaded, model: TransformersModel) -> None:
    trace = Trace("test")
    got = list(stream_bare(loaded, PROMPT, params(), trace=trace))
    assert got == list(stream(model, PROMPT, params()))
    assert trace.counters["completion_tokens"] == 8
    assert trace.attributes["finish_reason"] == "length"
    assert 0 < float(str(trace.attributes["ttft_s"])) <= trace.now_s()


def test_several_answers_equal_single_ones_and_read_the_prompt_once(
    loaded: Loaded, model: TransformersModel
) -> None:
    trace = Trace("test")
    wanted = [params(seed) for seed in (3, 4, 5)]
    for one, pieces in zip(
        wanted, stream_choices(loaded, PROMPT, wanted, trace=trace), strict=True
    ):
        assert token_ids(pieces) == token_ids(stream(model, PROMPT, one))
    # The last token of the prompt is read by each, and the last of an answer by none.
    assert trace.counters["computed_tokens"] == len(PROMPT) - 1 + 3 * 8


def test_an_echo_leaves_what_answers_go_on_from(loaded: Loaded, model: TransformersModel) -> None:
    trace = Trace("test")
    found = echo_bare(loaded, PROMPT, 2, trace=trace)
    assert found is not None
    [got] = map(
        token_ids, stream_choices(loaded, PROMPT, [params()], cache=found.cache, trace=trace)
    )
    assert got == token_ids(stream(model, PROMPT, params()))
    assert trace.counters["computed_tokens"] == len(PROMPT) - 1 + 8


def test_guesses_are_kept_away_while_it_writes(loaded: Loaded) -> None:
    pieces = stream_bare(loaded, PROMPT, params())
    next(pieces)
    assert loaded.turns.is_answering
    pieces.close()
    assert not loaded.turns.is_answering


@pytest.mark.parametrize("num_choices", [1, 3])
def test_cancelling_ends_all_answers(loaded: Loaded, num_choices: int) -> None:
    trace = Trace("test")
    wanted = [params()] * num_choices
    got = [list(some) for some in stream_choices(loaded, PROMPT, wanted, lambda: True, trace=trace)]
    assert got == [[Piece("", finish_reason="cancelled")]] * num_choices
    assert trace.counters["computed_tokens"] == 0
    assert echo_bare(loaded, PROMPT, 0, lambda: True) is None


def test_the_context_is_a_limit_before_anything_is_read(loaded: Loaded) -> None:
    trace, prompt = Trace("test"), [1] * 2048
    for num_choices in (1, 2):
        with pytest.raises(ContextOverflow):
            list(map(list, stream_choices(loaded, prompt, [params()] * num_choices, trace=trace)))
    assert trace.counters == {}


def test_a_trace_is_told_of_however_it_ends(loaded: Loaded) -> None:
    seen: list[Trace] = []
    with bare_trace(loaded, "completion", 27, seen.append) as trace:
        list(stream_bare(loaded, PROMPT, params(), trace=trace))
    assert seen == [trace]
    assert trace.attributes["method"] == "bare"
    assert trace.counters["prompt_tokens"] == 27
    assert float(str(trace.attributes["e2e_s"])) >= float(str(trace.attributes["ttft_s"]))
    with pytest.raises(RuntimeError), bare_trace(loaded, "completion", 27, seen.append):
        raise RuntimeError
    assert seen[-1].attributes["finish_reason"] == "cancelled"
    assert "e2e_s" not in seen[-1].attributes
