"""What judges abstention counts rightly, on records small enough to count by hand."""

import json
from pathlib import Path
from typing import Any

import judge_abstention as judge
from readahead.speculation.answers.bars import thresholds

STRICT = thresholds("evidence")["strict"]
RECORD: dict[str, Any] = {
    "question": "When was it built?",
    "golds": ["1885"],
    "documents": ["It was built in 1885.", "It is white.", "Some say 1885.", "Built in 1902."],
    "types": ["correct", "noise", "noise", "misinfo"],
    "drafts": {"drafter": [{"answer": a, "places": [p]} for p, a in enumerate("abcd")]},
}


def test_what_holds_a_right_answer_is_taken_out_with_its_drafts() -> None:
    rest = judge.without_right(RECORD)
    assert rest["documents"] == ["It is white.", "Built in 1902."]
    drafts = rest["drafts"]["drafter"]
    assert [(draft["answer"], draft["places"]) for draft in drafts] == [("b", [0]), ("d", [1])]
    assert len(RECORD["drafts"]["drafter"]) == 4


def test_a_bound_spares_what_the_evidence_carries() -> None:
    strong, weak = STRICT + 0.1, STRICT - 0.1
    answers = [
        judge.Best(strong, 0.92, True, True, 0),
        judge.Best(weak, 0.92, False, False, 1),
        judge.Best(weak, 0.2, True, True, 2),
        judge.Best(0.0, 0.99, False, False, 3),  # not answered anyway
    ]
    metrics = judge.raised(answers)
    assert (metrics["right"], metrics["wrong"]) == (2, 1)
    assert (metrics["lost_right.all.0.9"], metrics["lost_wrong.all.0.9"]) == (1, 1)
    assert (metrics["lost_right.weak.0.9"], metrics["lost_wrong.weak.0.9"]) == (0, 1)
    assert metrics["lost_wrong.all.0.95"] == 0


def test_the_bound_in_use_is_one_that_was_measured() -> None:
    from readahead.speculation.answers.outcome import CLEARLY_LACKING

    results = Path(__file__).parents[2] / "benchmarks" / "results" / "abstention.json"
    metrics = json.loads(results.read_text(encoding="utf-8"))["metrics"]
    assert metrics[f"lost_right.weak.{CLEARLY_LACKING}"] == 0
    assert metrics[f"there.10.{CLEARLY_LACKING}"] < 0.02 < metrics[f"out.10.{CLEARLY_LACKING}"]
