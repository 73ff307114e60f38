from functools import partial

import pytest

from readahead.lm import generate
from readahead.lm.prefixtree import PrefixTree
from readahead.lm.prompt import build_prompt
from readahead.lm.reuse import PrefixReader
from readahead.lm.sample import SamplingParams
from readahead.speculation.retrieval.ahead import Readings
from readahead.trace import Trace
from tests.speculation.retrieval.test_prefetch import EMPTY, MODEL, PASSAGES, QUESTION

PROMPT = build_prompt(MODEL.tokenizer, QUESTION, PASSAGES[:2], max_tokens=1500)
PARTS = PROMPT.parts
NUM_TOKENS = len(PROMPT.token_ids)


@pytest.fixture
def readings() -> Readings:
    return Readings(PrefixReader(MODEL, PrefixTree(10**9)), step_tokens=16)


def after(num_steps: int) -> partial[bool]:
    """Return a cancellation that is seen after so many steps."""
    return partial(next, iter([False] * num_steps), True)


def test_what_was_read_before_a_cancellation_is_kept_and_counted_once(readings: Readings) -> None:
    trace = Trace("test")
    assert not readings.read(PARTS, 0, EMPTY, after(2), trace)
    assert readings.num_computed_tokens == 2 * 16
    assert readings.read(PARTS, 0, EMPTY, after(100), trace)
    assert readings.num_computed_tokens == NUM_TOKENS == trace.counters["computed_tokens"]


def test_only_what_is_shared_is_useful(readings: Readings) -> None:
    readings.read(PARTS, 0, EMPTY, after(100), Trace("test"))
    ids = PROMPT.token_ids
    assert readings.num_useful_tokens(ids) == NUM_TOKENS
    changed = (*ids[:20], ids[20] + 1, *ids[21:])
    assert readings.num_useful_tokens(changed) == 20
    readings.release()
    assert readings.on(EMPTY) is None
    assert readings.num_useful_tokens(ids) == NUM_TOKENS
    readings.reset()
    assert readings.num_useful_tokens(ids) == readings.num_computed_tokens == 0


def test_what_is_read_aside_is_remembered_and_leaves_the_readings(readings: Readings) -> None:
    readings.read(PARTS[:1], 0, EMPTY, after(100), Trace("test"))
    held = readings.on(EMPTY)
    assert held is not None
    length = held.cache.length
    assert not readings.read_aside(PARTS, after(1), Trace("test"))
    assert readings.read_aside(PARTS, after(100), Trace("test"))
    assert readings.on(EMPTY) is held
    assert held.cache.length == length
    assert readings.reader.num_known(PARTS) == NUM_TOKENS


def test_reading_on_stops_within_one_step(readings: Readings) -> None:
    trace = Trace("test")
    readings.read(PARTS[:1], 0, EMPTY, after(100), trace)
    reading = readings.on(EMPTY)
    assert reading is not None
    begin = reading.cache.length
    readings.reset()
    readings.read_on(reading, PROMPT.token_ids, after(1), trace)
    assert reading.cache.length == begin + 16
    assert reading.token_ids == PROMPT.token_ids[: begin + 16]
    readings.read_on(reading, PROMPT.token_ids, after(100), trace)
    assert reading.cache.length == NUM_TOKENS
    assert readings.num_computed_tokens == NUM_TOKENS - begin
    assert readings.num_useful_tokens(PROMPT.token_ids) == NUM_TOKENS - begin


def test_a_fork_goes_on_alone(readings: Readings) -> None:
    assert readings.fork() is None
    readings.read(PARTS, 0, EMPTY, after(100), Trace("test"))
    reading = readings.on(EMPTY)
    readings.reset(reading)
    twin = readings.fork()
    assert twin is not None
    assert reading is not None
    twin.cache.crop(5)
    assert reading.cache.length == NUM_TOKENS


@pytest.mark.parametrize("num_steps", [1, 3])
def test_writing_goes_on_where_it_was_cancelled(readings: Readings, num_steps: int) -> None:
    params, trace = SamplingParams(max_new_tokens=8), Trace("test")
    written, num_calls = None, 0
    while written is None:
        written = readings.write(PARTS, EMPTY, params, after(num_steps), trace)
        num_calls += 1
    assert num_calls > 8 / num_steps
    whole = generate.generate(MODEL, [PROMPT.token_ids], params)[0]
    assert written == whole.text
    assert trace.counters["decoded_ahead_tokens"] == len(whole.token_ids)
    assert trace.counters["computed_tokens"] == NUM_TOKENS + len(whole.token_ids) - 1


def test_writing_begins_anew_once_something_else_was_read(readings: Readings) -> None:
    params = SamplingParams(max_new_tokens=8)
    assert readings.write(PARTS, EMPTY, params, after(NUM_TOKENS // 16 + 4), Trace("test")) is None
    readings.read(PARTS[:1], 0, EMPTY, after(100), Trace("test"))
    written = readings.write(PARTS, EMPTY, params, after(100), Trace("test"))
    assert written == generate.generate(MODEL, [PROMPT.token_ids], params)[0].text
