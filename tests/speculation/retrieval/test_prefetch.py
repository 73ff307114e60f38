"""Guesses change time, never the answer: each is compared with a cold run, token for token."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from readahead.config import PrefetchConfig
from readahead.lm import generate
from readahead.lm.generate import Piece
from readahead.lm.model import TransformersModel
from readahead.lm.prefixtree import PrefixTree
from readahead.lm.prompt import Context, Part, build_prompt
from readahead.lm.reuse import PrefixReader, Reading
from readahead.lm.sample import SamplingParams
from readahead.logistic import Logistic
from readahead.retrieval.lexical import terms
from readahead.speculation.retrieval.gate import TypingGate
from readahead.speculation.retrieval.guess import Found, Request, Start
from readahead.speculation.retrieval.prefetch import Prefetcher
from readahead.speculation.retrieval.staying import Staying
from readahead.trace import Trace
from readahead.types import Hit, Passage
from tests.conftest import make_llama, make_tokenizer

MODEL = TransformersModel(make_llama(), make_tokenizer(), prefill_step_tokens=64)
TEXTS = {
    "moon": "The moon pulls the water.",
    "tide": "The tide turns twice a day.",
    "lamp": "A lamp burns oil all night.",
    "keeper": "The keeper of the lamp is Ada.",
    "day": "A day has twenty four hours.",
}
PASSAGES = [
    Passage(f"{name}.md", text, 0, len(text), id=f"{n}.1.0")
    for n, (name, text) in enumerate(TEXTS.items(), start=1)
]
EMPTY = Context()
PARAMS = SamplingParams(max_new_tokens=10)
REQUEST = Request(k=2, max_tokens=1500, params=PARAMS)
QUESTION = "how often does the tide turn in a day"


def find(text: str, trace: Trace, context: Context = EMPTY) -> Found:
    return Found(tuple(search(text)), context)


def search(text: str) -> list[Hit]:
    """Rank by shared words: real retrieval, small enough to follow by eye."""
    wanted = set(terms(text))
    scored = [Hit(p, len(wanted & set(terms(p.text))) + 0.01) for p in PASSAGES]
    return sorted(scored, key=lambda hit: (-hit.score, hit.passage.id))


def prefetcher(
    budget_bytes: int = 10**9,
    context: Context = EMPTY,
    judge: Staying | None = None,
    **config: object,
) -> Prefetcher:
    settings = PrefetchConfig.model_validate(
        {"threshold": 0, "threshold_question": 0, "min_typing_s": 0, "step_tokens": 16, **config}
    )
    gate = TypingGate(settings, lambda word: 1.0, staying=judge)
    reader = PrefixReader(MODEL, PrefixTree(budget_bytes))
    return Prefetcher(partial(find, context=context), reader, gate, settings)


def type_words(ahead: Prefetcher, question: str, trace: Trace, request: Request = REQUEST) -> None:
    words = question.split()
    for n in range(1, len(words) + 1):
        guess(ahead, " ".join(words[:n]) + " ", trace, request)


def guess(ahead: Prefetcher, text: str, trace: Trace, request: Request = REQUEST) -> bool:
    return ahead.guess(text, request, since_first_s=9.0, since_last_s=9.0, trace=trace)


def take(
    ahead: Prefetcher,
    question: str,
    trace: Trace,
    request: Request = REQUEST,
    context: Context = EMPTY,
) -> tuple[Start, str]:
    start = ahead.take(question, find(question, trace, context), request, trace=trace)
    return start, "".join(piece.text for piece in pieces_of(start))


def pieces_of(start: Start) -> list[Piece]:
    return [event for event in start.events if isinstance(event, Piece)]


def cold(question: str, passages: Sequence[Passage], context: Context = EMPTY) -> str:
    prompt = build_prompt(MODEL.tokenizer, question, passages, max_tokens=1500, context=context)
    return "".join(piece.text for piece in generate.stream(MODEL, prompt.token_ids, PARAMS))


def test_what_was_read_ahead_need_not_be_read_again() -> None:
    ahead, trace = prefetcher(), Trace("test")
    type_words(ahead, QUESTION, trace)
    computed = trace.counters["computed_tokens"]
    start, text = take(ahead, QUESTION, trace)
    assert text == cold(QUESTION, start.prompt.passages)
    assert start.num_kept_passages == 2
    assert start.num_useful_tokens > 0.7 * len(start.prompt.token_ids)
    after = trace.counters["computed_tokens"] - computed
    assert after < 40 + PARAMS.max_new_tokens


def test_a_wrong_guess_leaves_no_trace_in_the_answer() -> None:
    ahead, trace = prefetcher(), Trace("test")
    type_words(ahead, "who is the keeper of the lamp", trace)
    start, text = take(ahead, QUESTION, trace)
    assert text == cold(QUESTION, start.prompt.passages)
    assert start.num_kept_passages == 0
    assert sorted(p.id for p in start.prompt.passages) == ["2.1.0", "5.1.0"]


@pytest.mark.parametrize("policy", ["same-set", "relaxed"])
def test_what_was_read_decides_not_what_is_left_out_where_not_all_fits(policy: str) -> None:
    plain = [hit.passage for hit in search(QUESTION)][:2]
    whole = build_prompt(MODEL.tokenizer, QUESTION, plain, max_tokens=1500)
    short = replace(REQUEST, max_tokens=len(whole.token_ids) - 8)
    wanted = build_prompt(MODEL.tokenizer, QUESTION, plain, max_tokens=short.max_tokens)
    assert wanted.dropped
    ahead, trace = prefetcher(policy=policy), Trace("test")
    type_words(ahead, "hours of a day", trace)  # the second best, in front
    start, _ = take(ahead, QUESTION, trace, short)
    assert start.prompt.passages == wanted.passages


def test_nothing_is_guessed_before_the_gate_lets_it_pass() -> None:
    ahead, trace = prefetcher(threshold=1.0), Trace("test")
    type_words(ahead, QUESTION, trace)
    assert "computed_tokens" not in trace.counters
    assert ahead.reason == "the passages may still change"
    spans = [span for span in trace.spans if span.name == "guess"]
    assert spans and all({"signals", "stays"} <= span.attributes.keys() for span in spans)
    start, text = take(ahead, QUESTION, trace)
    assert (start.num_useful_tokens, text) == (0, cold(QUESTION, start.prompt.passages))


class Judge(Staying):
    """Is sure of some passages and of no other."""

    def __init__(self, ids: set[str]) -> None:
        super().__init__(Logistic(("sure",), (0.5,), (0.1,), (1.0,), bias=0.0))
        self.ids = ids

    def measure(self, hits: Sequence[Hit], *_: object) -> list[dict[str, float]]:
        return [{"sure": float(hit.passage.id in self.ids)} for hit in hits]


def only(*names: str) -> Judge:
    """Return the judge of these passages."""
    return Judge({f"{list(TEXTS).index(name) + 1}.1.0" for name in names})


def test_only_passages_that_are_likely_to_be_shown_are_read() -> None:
    ahead, trace = prefetcher(threshold=0.5, judge=only("day", "moon")), Trace("test")
    guess(ahead, QUESTION + " ", trace)
    assert ahead.prompt is not None
    shown = [passage.document for passage in ahead.prompt.passages]
    assert shown == ["day.md", "moon.md"]  # by rank: tide, day, keeper, moon
    start, text = take(ahead, QUESTION, trace)
    assert [passage.document for passage in start.prompt.passages] == ["day.md", "tide.md"]
    assert start.num_kept_passages == 1
    assert text == cold(QUESTION, start.prompt.passages)


def test_a_passage_on_the_path_stays_in_front_while_it_may_be_shown() -> None:
    judge = only("day")
    ahead, trace = prefetcher(threshold=0.5, judge=judge), Trace("test")
    guess(ahead, "how often does the tide turn in a day ", trace)
    judge.ids |= only("tide").ids  # which is ranked higher
    guess(ahead, "how often does the tide turn in a day or night ", trace)
    assert ahead.prompt is not None
    assert [p.document for p in ahead.prompt.passages] == ["day.md", "tide.md"]


def test_the_question_is_read_once_the_gate_is_sure() -> None:
    read = {}
    for threshold in (0.0, 1.0):
        ahead, trace = prefetcher(threshold_question=threshold, held_back_tokens=0), Trace("test")
        guess(ahead, QUESTION + " ", trace)
        read[threshold] = trace.counters["computed_tokens"]
    question = build_prompt(MODEL.tokenizer, QUESTION, [], max_tokens=1500).parts[-2].token_ids
    assert read[0.0] - read[1.0] == len(question)


def test_a_finished_question_is_read_without_the_gate_up_to_its_first_token() -> None:
    ahead, trace = prefetcher(threshold=1.0), Trace("test")
    ahead.guess(QUESTION, REQUEST, since_first_s=9.0, since_last_s=9.0, trace=trace)
    assert ahead.prompt is None
    assert ahead.finish(QUESTION, REQUEST, decodes=False, trace=trace)
    assert trace.counters["decoded_ahead_tokens"] == 1
    computed = trace.counters["computed_tokens"]
    start, text = take(ahead, QUESTION, trace)
    assert text == cold(QUESTION, start.prompt.passages)
    assert (start.num_kept_passages, start.num_pieces_ahead) == (2, 1)
    assert trace.counters["computed_tokens"] - computed == PARAMS.max_new_tokens - 1
    assert len(start.prompt.token_ids) == computed


def test_a_settled_text_that_seems_unfinished_asks_the_gate() -> None:
    ahead, trace = prefetcher(threshold=1.0), Trace("test")
    kwargs = dict(since_first_s=9.0, since_last_s=9.0, is_settled=True, trace=trace)
    assert ahead.guess(QUESTION + " and the", REQUEST, **kwargs)  # type: ignore[arg-type]
    assert ahead.prompt is None and ahead.decision is not None


def test_the_end_of_a_moving_text_is_held_back() -> None:
    read = {}
    for held_back in (0, 8):
        ahead, trace = prefetcher(held_back_tokens=held_back), Trace("test")
        guess(ahead, QUESTION + " ", trace)
        read[held_back] = trace.counters["computed_tokens"]
    assert read[0] - read[8] == 8


def test_a_guess_stops_within_one_step_and_goes_on_where_it_stopped() -> None:
    ahead, trace = prefetcher(), Trace("test")
    kwargs = dict(since_first_s=9.0, since_last_s=9.0, trace=trace)
    assert not ahead.guess(QUESTION + " ", REQUEST, cancelled=lambda: True, **kwargs)  # type: ignore[arg-type]
    assert "computed_tokens" not in trace.counters  # it left behind its search
    stop = partial(next, iter([False, False]), True)
    assert not ahead.guess(QUESTION + " ", REQUEST, cancelled=stop, **kwargs)  # type: ignore[arg-type]
    assert trace.counters["computed_tokens"] == 16
    assert ahead.guess(QUESTION + " ", REQUEST, **kwargs)  # type: ignore[arg-type]
    start, text = take(ahead, QUESTION, trace)
    assert text == cold(QUESTION, start.prompt.passages)


def test_what_is_ready_is_of_the_prompt_whatever_was_computed_before() -> None:
    ahead, trace = prefetcher(), Trace("test")
    guess(ahead, "why does the moon rise so late ", trace)
    assert ahead.finish(QUESTION, REQUEST, trace=trace)
    assert ahead.prompt is not None
    assert ahead.num_ready_tokens == len(ahead.prompt.token_ids) - 1  # the last is read to answer
    assert ahead.num_computed_tokens > ahead.num_ready_tokens
    ahead.release()
    assert ahead.num_ready_tokens == 0


def test_a_finished_question_is_answered_ahead() -> None:
    ahead, trace = prefetcher(decode_ahead_tokens=4), Trace("test")
    assert ahead.finish(QUESTION, REQUEST, trace=trace)
    assert ahead.ahead is not None
    assert ahead.ahead.num_pieces == 4
    computed = trace.counters["computed_tokens"]
    start, text = take(ahead, f" {QUESTION} ", trace)
    assert text == cold(QUESTION, start.prompt.passages)
    assert start.num_pieces_ahead == 4
    assert trace.counters["computed_tokens"] - computed == PARAMS.max_new_tokens - 4


def test_an_answer_ahead_is_shown_for_the_identical_question_only() -> None:
    ahead, trace = prefetcher(), Trace("test")
    ahead.finish(QUESTION, REQUEST, trace=trace)
    other = QUESTION + " or night"
    start, text = take(ahead, other, trace)
    assert start.num_pieces_ahead == 0
    assert text == cold(other, start.prompt.passages)


def test_decoding_ahead_stops_within_one_step() -> None:
    ahead, trace = prefetcher(), Trace("test")
    stop = partial(next, iter([False] * 30), True)
    while not ahead.finish(QUESTION, REQUEST, cancelled=stop, trace=trace):
        if ahead.ahead is not None:
            break
    start, text = take(ahead, QUESTION, trace)
    assert text == cold(QUESTION, start.prompt.passages)


@pytest.mark.parametrize("text", ["h", "how", " ", ""])
def test_nothing_is_guessed_before_a_word_is_complete(text: str) -> None:
    ahead, trace = prefetcher(), Trace("test")
    assert guess(ahead, text, trace)
    assert ahead.decision is None and ahead.prompt is None


def test_typing_on_drops_the_answer_ahead() -> None:
    ahead, trace = prefetcher(), Trace("test")
    ahead.finish(QUESTION, REQUEST, trace=trace)
    longer = QUESTION + " or in a night"
    guess(ahead, longer, trace)
    assert ahead.ahead is None
    start, text = take(ahead, longer, trace)
    assert text == cold(longer, start.prompt.passages)


def test_a_runner_up_that_overtakes_is_warm() -> None:
    ahead, trace = prefetcher(num_runners_up=1), Trace("test")
    guess(ahead, "the lamp of the keeper ", trace)
    assert ahead.warm(REQUEST, trace=trace)
    found = [hit.passage for hit in search("the lamp of the keeper")]
    reader = PrefixReader(MODEL, ahead._readings.reader.tree)
    for first in found[:2]:
        parts = build_prompt(MODEL.tokenizer, "x", [first], max_tokens=1500).parts[:-2]
        assert reader.num_known(parts) == sum(len(part.token_ids) for part in parts)


def test_an_answer_stops_within_one_step_once_it_is_cancelled() -> None:
    ahead, trace = prefetcher(decode_ahead_tokens=3), Trace("test")
    ahead.finish(QUESTION, REQUEST, trace=trace)
    stop = partial(next, iter([False]), True)
    start = ahead.take(QUESTION, find(QUESTION, trace), REQUEST, cancelled=stop, trace=trace)
    pieces = pieces_of(start)
    assert pieces[-1].finish_reason == "cancelled"
    assert len(pieces) == 3 + 2


def test_what_the_answer_read_is_known_to_the_next_question() -> None:
    ahead, trace = prefetcher(), Trace("test")
    start, _ = take(ahead, QUESTION, trace)
    ahead.reset()
    parts = start.prompt.parts[:-2]
    assert ahead._readings.reader.num_known(parts) == sum(len(part.token_ids) for part in parts)


words = st.sampled_from(
    "how often does the tide turn who is keeper of lamp moon day water oil".split()
)


@settings(max_examples=25, deadline=None)
@given(
    typed=st.lists(st.lists(words, min_size=1, max_size=6), min_size=1, max_size=4),
    asked=st.lists(words, min_size=1, max_size=6),
    steps=st.lists(st.sampled_from(["guess", "finish", "read", "warm"]), min_size=4, max_size=4),
    patience=st.lists(st.integers(0, 6), min_size=4, max_size=4),
    policy=st.sampled_from(["same-set", "exact-order", "relaxed"]),
    budget=st.sampled_from([0, 20_000, 10**9]),
)
def test_whatever_is_typed_the_answer_is_that_of_a_cold_run(
    typed: list[list[str]],
    asked: list[str],
    steps: list[str],
    patience: list[int],
    policy: str,
    budget: int,
) -> None:
    ahead, trace = prefetcher(budget, policy=policy, num_runners_up=1), Trace("test")
    for line, step, num_steps in zip(typed, steps, patience, strict=False):
        text = " ".join(line) + " " * (num_steps % 3 > 0)  # a word may go on
        stop = partial(next, chain([False] * num_steps), True)
        if step == "guess":
            settled = num_steps % 2 == 0
            kwargs = dict(since_first_s=9, since_last_s=9, is_settled=settled, trace=trace)
            ahead.guess(text, REQUEST, cancelled=stop, **kwargs)  # type: ignore[arg-type]
        elif step in {"finish", "read"}:
            ahead.finish(text, REQUEST, decodes=step == "finish", cancelled=stop, trace=trace)
        else:
            ahead.warm(REQUEST, cancelled=stop, trace=trace)
    question = " ".join(asked)
    start, text = take(ahead, question, trace)
    assert text == cold(question, start.prompt.passages)
    best = [hit.passage.id for hit in search(question)[:2]]
    shown = [passage.id for passage in start.prompt.passages]
    if policy == "exact-order":
        assert shown == best
    elif policy == "same-set":
        assert sorted(shown) == sorted(best)
    assert best[0] in shown


def first_turn() -> tuple[Prefetcher, Context, Reading]:
    """Return the state after one turn."""
    ahead, trace = prefetcher(), Trace("test")
    start = ahead.take(QUESTION, find(QUESTION, trace), REQUEST, trace=trace)
    answer = Part(tuple(chain.from_iterable(piece.token_ids for piece in pieces_of(start))))
    context = Context((*start.prompt.parts, answer), start.prompt.passages, "")
    held = (*start.prompt.token_ids, *answer.token_ids)[: start.reading.cache.length]
    ahead = prefetcher(context=context)
    reading = Reading(start.reading.cache, held)
    ahead.reset(reading)
    return ahead, context, reading


def test_a_later_turn_follows_on_the_same_cache() -> None:
    ahead, context, reading = first_turn()
    follow_up, trace = "who is the keeper of the lamp", Trace("test")
    type_words(ahead, follow_up, trace)
    second, text = take(ahead, follow_up, trace, context=context)
    assert text == cold(follow_up, second.prompt.passages, context)
    assert second.prompt.passages
    assert not {p.id for p in second.prompt.passages} & {p.id for p in context.passages}
    assert second.reading.num_reused_tokens > len(reading.token_ids)


def test_a_guess_that_leaves_the_topic_leaves_the_conversation_in_the_cache() -> None:
    ahead, context, reading = first_turn()
    trace = Trace("test")
    ahead._find = find  # the typed part seems to begin another topic
    type_words(ahead, "who is the keeper of the lamp", trace)
    follow_up = "what pulls the water"
    second, text = take(ahead, follow_up, trace, context=context)
    assert text == cold(follow_up, second.prompt.passages, context)
    assert second.reading.num_reused_tokens >= len(reading.token_ids)


@pytest.mark.parametrize("temperature", [0.7])
def test_sampling_ahead_gives_the_sample_of_the_seed(temperature: float) -> None:
    params = SamplingParams(max_new_tokens=10, temperature=temperature, seed=3)
    request = Request(k=2, max_tokens=1500, params=params)
    ahead, trace = prefetcher(decode_ahead_tokens=4), Trace("test")
    ahead.finish(QUESTION, request, trace=trace)
    start, text = take(ahead, QUESTION, trace, request)
    prompt = start.prompt.token_ids
    assert text == "".join(piece.text for piece in generate.stream(MODEL, prompt, params))


@pytest.mark.parametrize("num_tokens", [1, 3, 4, 5, 10, 30])
@pytest.mark.parametrize(
    "sampled", [{}, {"temperature": 0.9, "seed": 5}, {"repetition_penalty": 1.3}], ids=str
)
def test_an_answer_begun_ahead_may_be_of_another_length(
    num_tokens: int, sampled: dict[str, Any]
) -> None:
    request = replace(REQUEST, params=SamplingParams(max_new_tokens=10, **sampled))
    ahead, trace = prefetcher(decode_ahead_tokens=4), Trace("test")
    ahead.finish(QUESTION, request, trace=trace)
    computed = trace.counters["computed_tokens"]
    params = replace(request.params, max_new_tokens=num_tokens)
    start = ahead.take(
        QUESTION, find(QUESTION, trace), replace(request, params=params), trace=trace
    )
    assert start.num_pieces_ahead == min(4, num_tokens)
    pieces = pieces_of(start)
    plain = list(generate.stream(MODEL, start.prompt.token_ids, params))
    assert [(p.text, p.token_ids) for p in pieces] == [(p.text, p.token_ids) for p in plain]
    assert [p.finish_reason for p in pieces] == [p.finish_reason for p in plain]
    assert pieces[-1].finish_reason == "length"
    assert trace.counters["computed_tokens"] - computed == max(0, num_tokens - 4)


@pytest.mark.parametrize("num_tokens", range(1, 12))
def test_a_cut_answer_ends_as_a_short_one_in_the_middle_of_a_character_or_stop(
    num_tokens: int,
) -> None:
    """What may be the beginning of a stop is held back, and comes out where the answer ends."""
    ahead, trace = prefetcher(decode_ahead_tokens=12), Trace("test")
    prompt = build_prompt(MODEL.tokenizer, QUESTION, PASSAGES[:2], max_tokens=1500)
    text = cold(QUESTION, prompt.passages)
    stop = tuple(char + "no such text" for char in set(text)) + ("also none",)
    params = SamplingParams(max_new_tokens=12, stop=stop)
    ahead.finish(QUESTION, replace(REQUEST, params=params), trace=trace)
    params = replace(params, max_new_tokens=num_tokens)
    start, written = take(ahead, QUESTION, trace, replace(REQUEST, params=params))
    assert start.num_pieces_ahead == num_tokens
    plain = generate.stream(MODEL, start.prompt.token_ids, params)
    assert written == "".join(piece.text for piece in plain)


def test_an_answer_begun_ahead_is_dropped_where_tokens_are_chosen_otherwise() -> None:
    ahead, trace = prefetcher(decode_ahead_tokens=4), Trace("test")
    ahead.finish(QUESTION, REQUEST, trace=trace)
    params = replace(PARAMS, max_new_tokens=5, repetition_penalty=1.5)
    start, text = take(ahead, QUESTION, trace, replace(REQUEST, params=params))
    assert start.num_pieces_ahead == 0
    plain = generate.stream(MODEL, start.prompt.token_ids, params)
    assert text == "".join(piece.text for piece in plain)


def test_no_more_is_decoded_ahead_than_the_answer_may_have() -> None:
    ahead, trace = prefetcher(decode_ahead_tokens=16), Trace("test")
    assert ahead.finish(QUESTION, REQUEST, trace=trace)
    assert trace.counters["decoded_ahead_tokens"] == PARAMS.max_new_tokens
