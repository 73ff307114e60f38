"""Typing a dozen made-up questions, fitting a gate on them, and simulating what it saves."""

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fit_staying
from fit_gate import examples
from readahead.config import Config, PrefetchConfig
from readahead.knowledge import KnowledgeBase
from readahead.retrieval.store import Store
from readahead.types import Hit, Passage
from simulate_typing import Typed, moments, simulate, summary, typed_questions
from tests.retrieval.support import HashingEmbedder, add_texts
from typing_fit import Examples, evaluate, fit, folds, out_of_fold
from typing_reader import Scheme, with_config
from typing_runs import Recording, Step, load, type_all

THINGS = "comet crater dome eclipse galaxy lens meteor mirror nebula planet quasar sun".split()
PLACES = "attic barn cellar".split()
LENGTHS = dict.fromkeys("abcdefgh", 128)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    folder = tmp_path_factory.mktemp("typed")
    with Store.open(folder / "kb") as store:
        embedder = HashingEmbedder()
        texts = {t + p: f"The {t} stands in the {p} today." for t in THINGS for p in PLACES}
        add_texts(store, embedder, **texts)
        knowledge = KnowledgeBase(store, Config(kb=store.folder), embedder)
        asked = [f"where stands the {t} in the {PLACES[n % 3]} today" for n, t in enumerate(THINGS)]
        whole = type_all(knowledge, asked)
        file = folder / "typed.json"
        file.write_text(json.dumps(whole), encoding="utf-8")
        yield load(file)


@pytest.fixture(scope="module")
def data(recording: Recording) -> Examples:
    return examples(recording)


def test_each_word_is_a_retrieval(recording: Recording) -> None:
    assert len(recording.questions) == len(THINGS)
    for n, (thing, steps) in enumerate(zip(THINGS, recording.questions, strict=True)):
        assert [len(step.text.split()) for step in steps] == list(range(1, 9))
        assert f"{thing} stands in the {PLACES[n % 3]}" in steps[-1].hits[0].passage.text


def test_an_example_is_positive_once_the_best_passage_is_final(data: Examples) -> None:
    by_question = data.labels.reshape(len(THINGS), 7)
    assert by_question[:, 6].all()  # thing and place are named
    assert 0 < by_question[:, 3:6].mean() < 0.6  # the thing alone: one in three


def test_what_waits_is_answered_no(data: Examples) -> None:
    assert data.waits.reshape(len(THINGS), 7)[:, :2].all()  # fewer than three words
    assert (out_of_fold(data)[data.waits] == 0).all()


def test_a_question_is_in_one_fold(data: Examples) -> None:
    held_out = np.array(list(folds(data)))
    assert (held_out.sum(axis=0) == 1).all()
    for fold in held_out:
        assert not {*data.questions[fold]} & {*data.questions[~fold]}


def test_the_gate_learns_that_the_place_must_be_named(data: Examples) -> None:
    f1, auc = evaluate(data)
    base_rate = data.labels.mean()
    assert f1 > 2 * base_rate / (1 + base_rate)  # of always yes
    assert auc > 0.7
    model = fit(data, np.ones(len(data.labels), dtype=np.bool_))
    assert 0 < model.threshold < 1


def test_the_questions_can_be_simulated(recording: Recording) -> None:
    lengths = {hit.passage.id: 64 for steps in recording.questions for s in steps for hit in s.hits}
    ahead = summary(typed_questions(recording), lengths, Scheme())
    assert ahead["ttft_ratio_mean"] < 1 and ahead["reused"] > 0


@pytest.fixture(scope="module")
def judged(recording: Recording) -> fit_staying.Judged:
    return fit_staying.examples(recording)


def test_a_passage_is_positive_if_it_is_shown_in_the_end(judged: fit_staying.Judged) -> None:
    whole = judged.data.labels[~judged.is_typed].reshape(len(THINGS), 6)
    assert whole[:, :3].all() and not whole[:, 3:].any()
    assert 0 < judged.data.labels[judged.is_typed].mean() < 1
    assert not np.isnan(judged.data.features).any()


def test_whether_a_passage_stays_can_be_told(judged: fit_staying.Judged) -> None:
    metrics = fit_staying.report(judged)
    assert metrics["stays_auc"] > 0.8
    assert metrics["stays_f1"] > 2 * metrics["stays_base_rate"] / (1 + metrics["stays_base_rate"])


SIMPLE = Scheme(step_s=0.0, guess_s=0.0, retrieval_s=0.0, system_tokens=0, question_tokens=20)
NEVER = with_config(SIMPLE, threshold=1.0)
ALWAYS = with_config(SIMPLE, threshold=0.0, min_typing_s=0.0, debounce_s=0.0)
FAST = replace(ALWAYS, prefill_per_s=1e6)


def typed(*rankings: str, stays: float = 0.9) -> Typed:
    """Return a question of one word for each ranking."""
    steps = []
    for end, ranking in enumerate(rankings, start=1):
        hits = tuple(Hit(Passage("d", "", 0, 0, id=id), 1.0) for id in ranking)
        steps.append(Step(" ".join(["moon"] * end), hits))
    return Typed(steps, [[stays] * len(ranking) for ranking in rankings])


def test_a_closed_gate_is_plain() -> None:
    outcome = simulate(typed("abc", "abc", "abc"), LENGTHS, NEVER)
    assert outcome.ttft_ratio == pytest.approx(1.0)
    assert (outcome.wasted, outcome.reused) == (0, 0)


def test_a_right_guess_leaves_only_the_question_to_read() -> None:
    outcome = simulate(typed("abc", "abc", "acb", "cba"), LENGTHS, FAST)
    assert outcome.ttft_ratio == pytest.approx(20 / 404)
    assert outcome.wasted == 0


def test_each_step_costs_something_and_enter_waits_for_it() -> None:
    costly = replace(with_config(FAST, step_tokens=96), step_s=0.5, system_tokens=100)
    outcome = simulate(typed("abc", "abc"), LENGTHS, costly)
    assert outcome.plain_s == pytest.approx(2 * 0.5, abs=1e-3)  # 504 tokens, in steps of 256
    # Begun when the first word was complete, 0.4 s from the start, and 0.26 s before Enter.
    assert outcome.num_kept == 96
    begun_s = 1 / 3 + 1 / 15
    assert outcome.ttft_s == pytest.approx(begun_s + 0.5 + 2 * 0.5 - 2 / 3, abs=1e-3)


def test_a_finished_question_is_read_to_its_last_token() -> None:
    costly = replace(FAST, step_s=0.001, prefill_per_s=2000.0)
    question = typed("abc", "abc", "abc", "abc")
    hasty = replace(costly, pause_s=0.29)  # nothing is decoded yet
    outcome = simulate(question, LENGTHS, hasty)
    assert (outcome.num_kept, outcome.num_wasted) == (403, 0)
    assert outcome.ttft_s == pytest.approx(costly.reading_s(1))


def test_what_is_read_in_vain_is_counted() -> None:
    outcome = simulate(typed("def", "def", "def", "abc"), LENGTHS, FAST)
    assert outcome.ttft_ratio == pytest.approx(1.0)
    assert outcome.wasted == pytest.approx(384 / 404)


def test_what_a_step_reads_of_the_next_passage_counts_for_that_one() -> None:
    outcome = simulate(typed("abc", "abc", "afg"), LENGTHS, FAST)
    assert (outcome.num_kept, outcome.num_wasted) == (128, 256)


def test_a_guess_that_was_wrong_makes_way_and_is_remembered() -> None:
    outcome = simulate(typed("abc", "def", "def"), LENGTHS, FAST)
    assert outcome.wasted == outcome.reused == pytest.approx(384 / 404)
    back = simulate(typed("abc", "def", "abc"), LENGTHS, FAST)
    assert back.reused == pytest.approx(384 / 404)


def test_what_is_likely_to_be_shown_is_read() -> None:
    question = typed("abc", "abc", "abc")
    doubtful = replace(question, stays=[[0.9, 0.1, 0.8]] * 3)
    outcome = simulate(doubtful, LENGTHS, with_config(FAST, threshold=0.5))
    assert outcome.reused == pytest.approx(256 / 404)
    assert outcome.wasted == 0


def test_a_word_is_complete_once_a_space_is_struck_or_it_has_settled() -> None:
    scheme = Scheme(PrefetchConfig(min_typing_s=0.1, debounce_s=0.01, settle_s=0.15, rest_s=0.3))
    found, last_s = moments("moon tides pull", scheme)
    assert last_s == pytest.approx(1.0)
    assert [(moment.num_words, moment.is_settled) for moment in found] == [(1, False), (2, False)]
    assert found[0].at_s == pytest.approx(1 / 3 + 1 / 18 + 0.01)
    found, _ = moments("moon tides pull", replace(scheme, pause_s=0.35))
    assert (found[-1].num_words, found[-1].is_settled) == (3, True)
    assert found[-1].at_s == pytest.approx(1.0 + 0.15)


def test_a_slow_typist_takes_longer_to_settle() -> None:
    slow = Scheme(PrefetchConfig(settle_s=0.1, rest_s=0.3), words_per_s=1.5, pause_s=0.35)
    found, last_s = moments("moons tides pulls", slow)
    first_s = 1 / 7.5
    assert found[-1].at_s - last_s == pytest.approx(1.5 * (last_s - first_s) / 16)


def test_a_pause_leaves_nothing_to_wait_for() -> None:
    question = typed("def", "def", "def", "abc")
    paused = replace(FAST, pause_s=0.35)
    assert simulate(question, LENGTHS, paused).ttft_ratio == 0
    unfinished = replace(question, steps=question.steps[:3])  # too short to be a question
    assert simulate(unfinished, LENGTHS, paused).ttft_ratio == pytest.approx(20 / 404)


def test_the_policies_differ_in_what_they_keep() -> None:
    question = typed("abc", "bacd")
    other = typed("abc", "bdcaef")

    def reused(policy: str) -> list[float]:
        tried = with_config(FAST, policy=policy)
        return [simulate(each, LENGTHS, tried).reused for each in (question, other)]

    whole, none = pytest.approx(384 / 404), 0
    assert reused("same-set") == [whole, none]
    assert reused("exact-order") == [none, none]
    assert reused("relaxed") == [whole, whole]


@settings(deadline=None)
@given(
    st.lists(st.permutations("abcdefgh"), min_size=1, max_size=8),
    st.floats(0, 1),
    st.sampled_from(["same-set", "exact-order", "relaxed"]),
    st.sampled_from([0.0, 0.35]),
    st.sampled_from([50.0, 550.0, 5000.0]),
)
def test_no_more_is_kept_than_was_read(
    rankings: list[list[str]], stays: float, policy: str, pause_s: float, speed: float
) -> None:
    scheme = with_config(Scheme(pause_s=pause_s, prefill_per_s=speed), policy=policy)
    question = typed(*map("".join, rankings), stays=stays)
    outcome = simulate(question, LENGTHS, scheme)
    assert 0 <= outcome.num_kept < outcome.num_tokens
    assert outcome.num_wasted >= 0
    # At worst one step is waited for; reading ahead delays nothing else.
    step_s = scheme.guess_s + scheme.reading_s(scheme.config.step_tokens)
    assert outcome.ttft_s <= outcome.plain_s + step_s + 1e-9
