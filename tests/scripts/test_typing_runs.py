"""Typing a dozen made-up questions, fitting a gate on them, and simulating what it saves."""

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fit_gate import Examples, evaluate, examples, fit, folds, out_of_fold
from readahead.config import Config
from readahead.knowledge import KnowledgeBase
from readahead.retrieval.store import Store
from simulate_typing import Scheme, Typed, simulate, summary, typed_questions
from tests.retrieval.support import HashingEmbedder, add_texts
from typing_runs import Recording, load, type_all

THINGS = "comet crater dome eclipse galaxy lens meteor mirror nebula planet quasar sun".split()
PLACES = "attic barn cellar".split()
NEVER, ALWAYS = 2.0, 0.0
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
    ahead = summary(typed_questions(recording), lengths, Scheme(0.5, 0.5))
    assert ahead["ttft_ratio_mean"] < 1 and ahead["reused"] > 0


def typed(*rankings: str, probability: float = 1.0) -> Typed:
    return Typed(rankings, [probability] * (len(rankings) - 1))


def test_a_closed_gate_is_plain() -> None:
    outcome = simulate(typed("abc", "abc", "abc"), LENGTHS, Scheme(NEVER, NEVER))
    assert outcome.ttft_ratio == pytest.approx(1.0)
    assert (outcome.wasted, outcome.reused) == (0, 0)


def test_a_right_guess_leaves_only_the_question_to_read() -> None:
    """At 768 tokens a second, 384 tokens need half a second; there is a second."""
    scheme = Scheme(ALWAYS, ALWAYS, prefill_per_s=768, retrieval_s=0)
    outcome = simulate(
        typed("xyz", "abc", "abc", "acb", "cba"), LENGTHS | dict.fromkeys("xyz", 0), scheme
    )
    assert outcome.ttft_ratio == pytest.approx(20 / 404)
    assert outcome.wasted == 0


def test_what_is_read_in_vain_is_counted() -> None:
    scheme = Scheme(ALWAYS, ALWAYS, prefill_per_s=768, retrieval_s=0)
    outcome = simulate(typed("def", "def", "def", "abc"), LENGTHS, scheme)
    assert outcome.ttft_ratio == pytest.approx(1.0)
    assert outcome.wasted == pytest.approx(384 / 404)


def test_a_guess_that_was_wrong_makes_way() -> None:
    scheme = Scheme(ALWAYS, ALWAYS, prefill_per_s=1e6, retrieval_s=0)
    outcome = simulate(typed("abc", "def", "def"), LENGTHS, scheme)
    assert outcome.wasted == outcome.reused == pytest.approx(384 / 404)


def test_a_doubtful_guess_reads_the_first_passage_alone() -> None:
    scheme = Scheme(0.5, 0.9, prefill_per_s=768, retrieval_s=0)
    outcome = simulate(typed("abc", "abc", "abc", "abc", probability=0.7), LENGTHS, scheme)
    assert outcome.reused == pytest.approx(128 / 404)


def test_the_policies_differ_in_what_they_keep() -> None:
    scheme = Scheme(ALWAYS, ALWAYS, prefill_per_s=1e6, retrieval_s=0)
    question = typed("abc", "bacd")
    other = typed("abc", "bdcaef")

    def reused(policy: str) -> list[float]:
        tried = replace(scheme, policy=policy)
        return [simulate(each, LENGTHS, tried).reused for each in (question, other)]

    whole, none = pytest.approx(384 / 404), 0
    assert reused("same-set") == [whole, none]
    assert reused("exact-order") == [none, none]
    assert reused("relaxed") == [whole, whole]


@given(
    st.lists(st.permutations("abcdefgh"), min_size=1, max_size=8),
    st.floats(0, 1),
    st.sampled_from(["same-set", "exact-order", "relaxed"]),
    st.sampled_from([0.0, 0.35]),
    st.sampled_from([50.0, 550.0, 5000.0]),
)
def test_no_more_is_kept_than_was_read(
    rankings: list[list[str]], probability: float, policy: str, pause_s: float, speed: float
) -> None:
    scheme = Scheme(0.3, 0.6, policy, pause_s, prefill_per_s=speed)
    question = Typed(rankings, [probability] * (len(rankings) - 1))
    outcome = simulate(question, LENGTHS, scheme)
    assert 0 <= outcome.reused <= 384 / 404
    assert outcome.wasted >= 0
    # At worst one step is waited for; reading ahead delays nothing else.
    plain_s = scheme.retrieval_s + 404 / speed
    assert outcome.ttft_ratio <= 1 + (64 / speed + scheme.retrieval_s) / plain_s + 1e-9
