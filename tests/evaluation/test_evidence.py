"""The checker is measured on labelled claims and on its own edits."""

import json
from pathlib import Path

import pytest

from readahead.errors import InputError, NotFound
from readahead.evaluation.evidence import evaluate_evidence, read_claims

EVIDENCE = ["The shop opened in 1990 in Bern.", "Sales rose by 85 % in 2021.", "It rains."]
ROWS = [
    {"claim": "The shop opened in 1990.", "label": "supported", "evidence": EVIDENCE},
    {"claim": "Sales rose by 85 %.", "label": "supported", "evidence": EVIDENCE},
    {"claim": "A whale sang opera.", "label": "not_supported", "evidence": EVIDENCE},
    {"claim": "Sales rose by 88 % in 2021.", "label": "partially_supported", "evidence": EVIDENCE},
]


def write(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_claims_are_counted(tmp_path: Path) -> None:
    done: list[tuple[int, int]] = []
    report = evaluate_evidence(
        read_claims(write(tmp_path / "c.jsonl", *ROWS)), progress=lambda *at: done.append(at)
    )
    assert (report.true_positives, report.true_negatives) == (2, 2)
    assert (report.false_positives, report.false_negatives) == (0, 0)
    assert (report.balanced_accuracy, report.base_rate, report.n) == (1.0, 0.5, 4)
    assert (report.num_edits, report.edits_caught, report.false_alarms) == (4, 1.0, 0.0)
    assert done[-1] == (4, 4)


def test_what_is_wrong_is_counted_on_each_side(tmp_path: Path) -> None:
    wrong = [
        ROWS[0],
        ROWS[0] | {"label": "not_supported"},
        ROWS[2],
        ROWS[2],
        ROWS[2] | {"label": "supported"},
    ]
    report = evaluate_evidence(read_claims(write(tmp_path / "c.jsonl", *wrong)))
    assert (report.true_positives, report.false_negatives) == (1, 1)
    assert (report.true_negatives, report.false_positives) == (2, 1)
    assert report.balanced_accuracy == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_one_kind_of_label_is_enough(tmp_path: Path) -> None:
    report = evaluate_evidence(read_claims(write(tmp_path / "c.jsonl", ROWS[0])))
    assert report.balanced_accuracy == 1.0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([], "line 2: it is not a JSON object"),
        ({"label": "supported"}, 'line 2: "claim" is missing or empty'),
        (ROWS[0] | {"claim": " "}, 'line 2: "claim" is missing or empty'),
        (ROWS[0] | {"label": "maybe"}, 'line 2: "label" is "maybe"'),
        (ROWS[0] | {"label": ["supported"]}, 'line 2: "label" is \\["supported"\\]'),
        (ROWS[0] | {"evidence": "text"}, 'line 2: "evidence" is not a list of texts'),
        (ROWS[0] | {"evidence": [1]}, 'line 2: "evidence" is not a list of texts'),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, row: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_claims(write(tmp_path / "c.jsonl", ROWS[0], row))


def test_there_must_be_claims(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no claim"):
        read_claims(write(tmp_path / "c.jsonl"))
    with pytest.raises(NotFound):
        read_claims(tmp_path / "none.jsonl")


def test_groups_are_read_where_there_are_any(tmp_path: Path) -> None:
    rows = (ROWS[0] | {"meta": {"claim_title": "Shop"}}, ROWS[1])
    assert [c.group for c in read_claims(write(tmp_path / "c.jsonl", *rows))] == ["Shop", ""]
