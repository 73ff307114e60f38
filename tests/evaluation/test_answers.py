"""Answers are scored without their markers, and abstentions for what they are."""

import json

import pytest

from readahead.errors import ContextOverflow
from readahead.evaluation.answers import FailedQuestion, evaluate_answers
from readahead.evaluation.datasets import Question
from readahead.types import Answer, Citation, Timing

CITATION = Citation(1, "1.1.1", "shop", (), None, 0, 4, "text")
ANSWERS = {
    "When?": Answer(
        "In 1990 [1].", False, 1.0, "plain", (CITATION,), timing=Timing(ttft_s=0.1, e2e_s=0.4)
    ),
    "Who?": Answer("Ann", False, 0.0, "plain", timing=Timing(ttft_s=0.3, e2e_s=0.6)),
    "Why?": Answer("The passages do not say.", True, 0.0, "plain"),
    "Where?": Answer("I don't know.", True, 0.0, "plain"),
    "How?": Answer("By magic.", False, 0.0, "plain"),
}
QUESTIONS = [
    Question("When?", ("1990", "the 1990s")),
    Question("Who?", ("Ann",)),
    Question("Why?", ()),
    Question("Where?", ("I don't know.",)),
    Question("How?", ()),
]


def test_scores() -> None:
    seen: list[tuple[int, int]] = []
    report = evaluate_answers(
        QUESTIONS, ANSWERS.__getitem__, progress=lambda done, total: seen.append((done, total))
    )
    when, who, why, where, how = report.scores
    assert (when.exact_match, when.contains, when.num_citations) == (0.0, 1.0, 1)
    assert when.f1 == pytest.approx(2 / 3)
    assert (who.exact_match, who.f1, who.contains) == (1.0, 1.0, 1.0)
    assert (why.exact_match, why.f1, why.contains) == (1.0, 1.0, 1.0)
    assert (where.exact_match, where.f1, where.contains) == (0.0, 0.0, 0.0)
    assert (how.exact_match, how.f1, how.contains) == (0.0, 0.0, 0.0)
    assert report.num_unanswerable == 2
    assert report.exact_match == pytest.approx(2 / 5)
    assert report.f1 == pytest.approx((2 / 3 + 2) / 5)
    assert report.contains == pytest.approx(3 / 5)
    assert report.abstained == pytest.approx(2 / 5)
    assert report.cited == pytest.approx(1 / 3)
    assert report.ttft_p50_s == 0.0
    assert seen[-1] == (5, 5)


def test_times_are_medians() -> None:
    report = evaluate_answers(QUESTIONS[:2], ANSWERS.__getitem__)
    assert report.ttft_p50_s == pytest.approx(0.2)
    assert report.e2e_p50_s == pytest.approx(0.5)


def test_no_questions() -> None:
    report = evaluate_answers([], ANSWERS.__getitem__)
    assert (report.num_questions, report.f1, report.cited) == (0, 0.0, 0.0)


def test_the_report_is_json() -> None:
    values = json.loads(json.dumps(evaluate_answers(QUESTIONS, ANSWERS.__getitem__).to_json()))
    assert values["scores"][1]["answer"] == "Ann"


def test_a_question_that_cannot_be_asked_fails_alone() -> None:
    def ask(question: str) -> Answer:
        if question == "Who?":
            raise ContextOverflow("Too long.", remedy="Shorten it.")
        return ANSWERS[question]

    report = evaluate_answers(QUESTIONS[:3], ask)
    assert report.failed == (FailedQuestion("Who?", "Too long. Shorten it."),)
    assert [score.question for score in report.scores] == ["When?", "Why?"]
    assert report.num_questions == 3
    assert report.contains == pytest.approx(2 / 3)
    assert report.abstained == pytest.approx(1 / 3)
    assert report.cited == 1.0
