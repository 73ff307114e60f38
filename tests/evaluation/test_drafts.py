"""Every system answers over the same passages; what cannot be asked fails alone."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from readahead.config import Config, load_config
from readahead.errors import InputError, NotFound
from readahead.evaluation.contest import PLAIN, SYSTEMS, Contest, Cost, Metered, Reply
from readahead.evaluation.drafts import (
    BEST_OF_DRAFTS,
    Row,
    best_of_drafts,
    evaluate_drafts,
    report,
)
from readahead.evaluation.ramdocs import Case
from readahead.lm.generate import stream
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.trace import Trace
from readahead.types import Draft, Hit, Passage
from tests.conftest import make_llama, make_tokenizer
from tests.evaluation.ending import ending

TEXTS = ("Ann lit the lamp.", "Bob lit the lamp.", "It rains.")


def case(question: str = "Who lit the lamp?") -> Case:
    hits = tuple(
        Hit(Passage(str(place), text, 0, len(text), id=str(place)), 1 / (1 + place))
        for place, text in enumerate(TEXTS)
    )
    return Case(question, (("Ann",),), ("Bob",), hits, brings_hits=True)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return load_config(
        {
            "kb": tmp_path / "kb",
            "generation.max_new_tokens": 6,
            "drafts.max_new_tokens": 24,
            "drafts.threshold": 0.0,
            "drafts.adaptive": False,
        }
    )


@pytest.fixture
def contest(config: Config) -> Contest:
    return Contest(ending(0), ending(10), config)


def said(rows: tuple[Row, ...]) -> list[list[tuple[str, int, int]]]:
    return [
        [
            (reply.text, reply.cost.num_target_tokens, reply.cost.num_drafter_tokens)
            for reply in row.replies.values()
        ]
        for row in rows
    ]


def test_every_system_answers_every_question(contest: Contest) -> None:
    cases = [case(), case("Who?"), case("Who was it?")]
    seen: list[tuple[int, int]] = []
    found = evaluate_drafts(cases, contest, progress=lambda *done: seen.append(done))
    assert (found.num_questions, found.failed, seen[-1]) == (3, (), (3, 3))
    assert list(found.systems) == [*SYSTEMS, BEST_OF_DRAFTS]
    assert [row.case for row in found.rows] == cases
    assert any(row.replies["fast"].text for row in found.rows)
    assert any(row.replies["accurate"].text for row in found.rows)
    for row in found.rows:
        costs = {name: reply.cost for name, reply in row.replies.items()}
        assert costs["fast"].num_target_tokens == costs["drafter_alone"].num_target_tokens == 0
        assert costs[PLAIN].num_drafter_tokens == 0 < costs[PLAIN].num_target_tokens
        assert min(costs["accurate"].num_target_tokens, costs["fast"].num_drafter_tokens) > 0
        assert costs[BEST_OF_DRAFTS] == costs["accurate"]
    # The same again, in another order, says and reads the same.
    assert said(evaluate_drafts(cases[::-1], contest).rows[::-1]) == said(found.rows)


def test_plain_is_the_plain_answer(contest: Contest) -> None:
    asked = case()
    alone = evaluate_drafts([asked], contest, [PLAIN])
    assert list(alone.systems) == [PLAIN]
    assert alone.time_ratio == {}
    assert alone.rows[0].replies[PLAIN].text == contest.ask(PLAIN, asked).text != ""


def test_a_question_that_cannot_be_asked_fails_alone(contest: Contest) -> None:
    found = evaluate_drafts([case("lamp " * 3000), case()], contest, ["fast", PLAIN])
    assert found.num_questions == 1
    (failure,) = found.failed
    assert "tokens" in failure.reason


def test_without_passages_every_system_abstains(contest: Contest) -> None:
    nothing = replace(case(), hits=())
    assert all(contest.ask(name, nothing) == Reply("", abstained=True) for name in SYSTEMS)


def test_tokens_are_those_that_were_read(model: TransformersModel) -> None:
    metered, trace = Metered(model), Trace("test")
    list(stream(metered, [1, 2, 3], SamplingParams(max_new_tokens=4), trace=trace))
    assert metered.num_tokens == trace.counters["computed_tokens"]


def test_figures_are_means_and_ratios() -> None:
    def row(fast: str, plain: str, seconds: float) -> Row:
        replies = {
            "fast": Reply(fast, not fast, Cost(seconds, seconds / 2, 0, 10)),
            PLAIN: Reply(plain, False, Cost(4.0, 1.0, 30, 0)),
        }
        return Row(case(), replies)

    found = report([row("Ann", "Ann or Bob", 1.0), row("", "Ann", 2.0)])
    fast, plain = found.systems["fast"], found.systems[PLAIN]
    assert (fast.clean, fast.strict, fast.names_wrong, fast.abstained) == (0.5, 0.5, 0.0, 0.5)
    assert (plain.clean, plain.contains_gold, plain.names_wrong) == (0.5, 1.0, 0.5)
    assert (fast.seconds_mean, fast.seconds_p50, fast.drafter_tokens) == (1.5, 1.5, 10)
    assert fast.seconds_p95 == pytest.approx(1.95)
    assert found.time_ratio == {"fast": 3 / 8}
    assert found.cpu_ratio == {"fast": 3 / 4}
    metrics = found.metrics()
    assert (metrics["clean.fast"], metrics["time_ratio.fast"]) == (0.5, 3 / 8)
    assert (metrics["cpu_seconds.fast"], metrics["cpu_ratio.fast"]) == (0.75, 3 / 4)
    values = json.loads(json.dumps(found.to_json()))
    assert values["questions"][0]["replies"]["fast"]["clean"] is True
    kept = [Row.from_json(case(), record) for record in values["questions"]]
    assert report(kept).metrics() == metrics


def test_no_question_is_no_figure() -> None:
    assert report([]).metrics() == {}


def test_the_best_of_drafts_are_the_clean_ones() -> None:
    drafts = (
        Draft("Bob", (1,)),
        Draft("Ann", (0,), fault="cut"),
        Draft("Ann B.", (0,)),
        Draft("ann", (0,)),
    )
    reply = Reply("Bob", False, Cost(1.0, 1.0, 2, 3), drafts)
    best = best_of_drafts(case(), reply)
    assert (best.text, best.abstained, best.cost) == ("Ann B.; ann", False, reply.cost)
    assert best_of_drafts(case(), replace(reply, drafts=drafts[:2])).abstained


def test_models_are_those_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READAHEAD_HOME", str(tmp_path / "home"))
    folder = tmp_path / "tiny"
    make_llama().save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    settings = {"models.target": str(folder), "models.device": "cpu"}
    same = Contest.load(load_config(settings))
    assert same.drafter is not same.target
    assert evaluate_drafts([case()], same, ["fast"]).systems["fast"].target_tokens == 0
    with pytest.raises(NotFound):
        Contest.load(load_config(settings | {"models.drafter": "smollm2-135m"}))
    with pytest.raises(InputError):
        Contest.load(load_config(settings | {"models.drafter": str(tmp_path)}))
