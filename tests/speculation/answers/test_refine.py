import pytest

from readahead.config import DraftsConfig
from readahead.speculation.answers.choose import rate
from readahead.speculation.answers.pool import pool
from readahead.speculation.answers.refine import Finding, feedback, find_faults
from readahead.speculation.answers.speculate import Speculator
from readahead.trace import Trace
from readahead.types import Draft, Hit
from tests.speculation.answers.scripted import Scripted, hits, silent

QUESTION = "When was the lighthouse of Orrin built?"
HITS = hits("It is white.", "The lighthouse of Orrin was built in 1885.", "The ferry sails daily.")
AGAIN = "Earlier answers were not good enough"


def faults(*drafts: Draft, shown: list[Hit] = HITS, question: str = QUESTION) -> list[Finding]:
    candidates = pool(question, drafts, [hit.passage for hit in shown])
    return find_faults(rate(question, candidates, drafts, shown), drafts, shown)


def test_a_passage_that_says_otherwise_is_named() -> None:
    said = "The lighthouse of Orrin was built in 1902"
    assert faults(Draft(said, (0,))) == [Finding(said, 1, "1885")]


def test_an_answer_that_stands_nowhere_is_named() -> None:
    assert faults(Draft("Ada King", (0,))) == [Finding("Ada King")]


def test_an_answer_that_stands_once_is_named() -> None:
    assert faults(Draft("1885", (0,))) == [Finding("1885", 1)]
    assert faults(Draft("1885", (0,)), shown=[HITS[1], HITS[1]]) == []


def test_a_draft_that_was_cut_is_told_to_be_shorter() -> None:
    assert faults(Draft("In the year of", (0,), fault="cut")) == [
        Finding("In the year of", is_cut=True)
    ]


def test_nothing_is_asked_again_where_all_decline() -> None:
    assert faults(Draft("unknown", (0,), fault="refusal"), Draft("", (1,), fault="empty")) == []


@pytest.mark.parametrize(
    ("finding", "english", "chinese"),
    [
        (Finding("1902"), "“1902” stands in no passage", "“1902”不在任何段落中"),
        (
            Finding("1902", 1, "1885"),
            "passage 2 says 1885, not “1902”",
            "段落2说的是1885，不是“1902”",
        ),
        (Finding("1902", 0), "only passage 1 says “1902”", "只有段落1提到“1902”"),
        (Finding("In the", is_cut=True), "“In the” is too long", "“In the”太长"),
    ],
)
def test_findings_become_one_line_in_the_questions_language(
    finding: Finding, english: str, chinese: str
) -> None:
    assert english in feedback(QUESTION, [finding])
    assert chinese in feedback("灯塔建于哪一年？", [finding])
    assert english in feedback(QUESTION, [finding, finding, Finding("x\n\ny " * 99)])
    assert "\n" not in feedback(QUESTION, [Finding("x\n\ny " * 99)])
    assert len(feedback(QUESTION, [Finding("x\n\ny " * 99)])) < 200


def test_nothing_to_say_is_nothing() -> None:
    assert feedback(QUESTION, []) == ""


class Learning(Scripted):
    """Says one thing at first and another once it is told what was wrong."""

    def __init__(self, first: str, then: str) -> None:
        super().__init__(lambda prompt: then if AGAIN in prompt else first)


def config(**options: object) -> DraftsConfig:
    return DraftsConfig.model_validate({"threshold": 0.999, "adaptive": False, **options})


@pytest.mark.parametrize(("rounds", "expected"), [(0, "Ada King"), (1, "1885"), (2, "1885")])
def test_a_further_round_is_kept_if_it_is_better(rounds: int, expected: str) -> None:
    drafter, trace = Learning("Ada King", "1885"), Trace("test")
    speculator = Speculator(drafter, Scripted(silent), config(max_refinements=rounds))
    outcome = speculator.answer(QUESTION, HITS, trace=trace)
    assert outcome.choice.rated[0].candidate.answer == expected
    assert ("“Ada King” stands in no passage" in outcome.feedback) == (rounds > 0)
    kept = [span.attributes["kept"] for span in trace.spans if span.name == "refine"]
    # The second further round says the same again, so it is no better.
    assert kept == [True, False][:rounds]
    assert len(drafter.prompts) == 3 * (1 + rounds)


def test_a_further_round_that_is_worse_is_dropped() -> None:
    drafter, trace = Learning("1885", "Ada King"), Trace("test")
    speculator = Speculator(drafter, Scripted(silent), config(max_refinements=2))
    outcome = speculator.answer(QUESTION, HITS, trace=trace)
    assert outcome.choice.rated[0].candidate.answer == "1885"
    assert outcome.feedback == ""
    assert [s.attributes["kept"] for s in trace.spans if s.name == "refine"] == [False]


def test_an_answer_needs_no_further_round() -> None:
    drafter = Learning("1885", "Ada King")
    outcome = Speculator(drafter, Scripted(silent), config(threshold=0.0)).answer(QUESTION, HITS)
    assert outcome.answers == ("1885",)
    assert len(drafter.prompts) == 3


def test_the_passages_are_numbered_as_the_line_counts_them() -> None:
    drafter = Learning("Ada King", "1885")
    Speculator(drafter, Scripted(silent), config()).answer(QUESTION, HITS)
    first, further = drafter.prompts[1], drafter.prompts[4]
    assert "[1] 1.md" in first
    assert "[2] 1.md" in further
    assert further.index(QUESTION) < further.index(AGAIN)


def test_both_draft_in_every_round_of_the_preset_accurate() -> None:
    drafter, target = Scripted(lambda _: "1885"), Scripted(lambda _: "Ada King")
    Speculator(drafter, target, config(preset="accurate")).answer(QUESTION, HITS)
    for model in (drafter, target):
        assert [AGAIN in prompt for prompt in model.prompts] == [False] * 3 + [True] * 3


def test_a_cancelled_further_round_is_a_cancelled_request() -> None:
    drafter = Learning("Ada King", "1885")
    outcome = Speculator(drafter, Scripted(silent), config()).answer(
        QUESTION, HITS, cancelled=lambda: len(drafter.prompts) > 3
    )
    assert outcome.is_cancelled
    assert outcome.answers == ()
