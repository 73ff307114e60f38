"""Fitting the evidence checker on claims that are easily told apart."""

import json
import sys
from pathlib import Path

import pytest

import fit_evidence
from readahead.lm.model import TransformersModel
from readahead.logistic import Logistic

THINGS = "comet crater dome eclipse galaxy lens meteor mirror nebula planet".split()


def test_the_checker_is_fitted_written_and_its_table_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[dict[str, object]] = []
    for i, thing in enumerate(THINGS * 2):
        evidence = [f"The {thing} stands in room {i + 2}.", "It rains."]
        rows.append({"claim": evidence[0], "label": "supported", "evidence": evidence})
        rows.append({"claim": "A whale sang.", "label": "not_supported", "evidence": evidence})
        rows[-1]["meta"] = rows[-2]["meta"] = {"claim_title": f"{thing} {i}"}
    claims, file, page = tmp_path / "c.jsonl", tmp_path / "m.json", tmp_path / "p.md"
    claims.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    page.write_text("Head\n<!-- figures: begin -->\nold\n<!-- figures: end -->\nTail\n")
    monkeypatch.setattr(fit_evidence, "NUM_SHUFFLES", 2)
    argv = ["fit", "--claims", str(claims), "--model", str(file), "--page", str(page)]
    monkeypatch.setattr(sys, "argv", argv)
    fit_evidence.main()
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert record["metrics"]["balanced_accuracy.all"] == 1.0
    assert record["n"] == 40
    model = Logistic.from_json(json.loads(file.read_text(encoding="utf-8")))
    assert model.threshold == 0.5
    assert model.names[-1] == "judge"
    assert model.probability({"window": 1.0}) > model.probability({"window": 0.0})
    assert model.probability({"judge": 2.0}) > model.probability({"judge": -2.0})
    text = page.read_text(encoding="utf-8")
    assert text.startswith("Head\n<!-- figures: begin -->\n| features | balanced accuracy |")
    assert "old" not in text


def test_a_language_model_says_yes_or_no(model: TransformersModel) -> None:
    judge = fit_evidence.YesOrNo(model)
    seen = [judge(claim, ["The comet stands in room 2."]) for claim in ("It stands.", "It sang.")]
    assert all(0.0 < probability < 1.0 for probability in seen)
    assert seen[0] != seen[1]
