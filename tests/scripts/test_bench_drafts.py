"""The benchmark of drafts and its ablations run through, with tiny models."""

import json
import sys
from pathlib import Path

import pytest

import bench_drafts
from ablations import BATCHES, MOST, Recorded, compare, record, variants, without
from readahead.config import load_config
from readahead.evaluation.contest import Contest
from readahead.evaluation.ramdocs import Case, read_cases
from readahead.logistic import Logistic
from readahead.speculation.answers.speculate import Speculator
from tests.conftest import make_llama, make_tokenizer
from tests.evaluation.ending import ending
from tests.retrieval.support import HashingEmbedder

MODEL = Logistic(("held", "support", "logprob"), (0, 0.2, 0), (1, 1, 1), (1, 2, 3), 0.5)
PEOPLE = "Ann Bob Cid Dee Eve Fay".split()


def write(folder: Path) -> Path:
    path = folder / "cases.jsonl"
    rows = [
        {
            "question": f"Who lit {thing}?",
            "documents": [{"text": f"{person} lit {thing}."} for person in PEOPLE],
            "gold_answers": PEOPLE[:2],
            "wrong_answers": PEOPLE[2:],
        }
        for thing in ("the lamp", "the fire")
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.fixture
def cases(tmp_path: Path) -> list[Case]:
    return read_cases(write(tmp_path))


@pytest.fixture
def contest() -> Contest:
    settings = {"drafts.adaptive": False, "drafts.max_refinements": 0}
    return Contest(ending(0), ending(9), load_config(settings))


def test_a_model_knows_nothing_of_what_is_left_out() -> None:
    less = without(MODEL, frozenset({"support"}))
    assert less.names == ("held", "logprob")
    told = {"held": 1.0, "support": 0.9, "logprob": -0.5}
    mean = {**told, "support": 0.2}
    assert less.probability(told) == pytest.approx(MODEL.probability(mean))
    assert less.probability(told) != pytest.approx(MODEL.probability(told))


def test_models_can_be_given() -> None:
    given = variants({"accurate": MODEL, "without_evidence": Logistic((), (), (), (), 1.0)})
    assert given["accurate.single.m5"].model == MODEL
    assert given["without_evidence"].model.names == ()
    assert given["without_support"].model.names == ("held", "logprob")
    assert given["fast.single.m5"].model != MODEL
    assert given["fast.single.m5"].wrong is None
    wrong = given["without_evidence"].wrong
    assert wrong is not None
    assert not {"held", "claim"} & set(wrong.names)


def test_recorded_drafts_are_those_of_the_run(contest: Contest, cases: list[Case]) -> None:
    recorded = record(cases[0], contest, HashingEmbedder())
    assert list(recorded.batches) == [*BATCHES, "target"]
    for batch, (_, m) in BATCHES.items():
        assert len(recorded.batches[batch].drafts) == min(m, 6 if "single" in batch else m)
    outcome = contest.ask("accurate", cases[0])
    drafts = [*recorded.batches[MOST].drafts, *recorded.batches["target"].drafts]
    assert [draft.answer for draft in outcome.drafts] == [draft.answer for draft in drafts]
    speculator = Speculator(
        contest.drafter,
        contest.target,
        contest.config.drafts.model_copy(update={"preset": "accurate"}),
    )
    choice = speculator.answer(cases[0].question, cases[0].hits).choice
    assert len(choice.rated) > 1
    for one in choice.rated:
        judged = recorded.judged[one.candidate.answer]
        assert one.judged is not None
        assert judged.consistency == pytest.approx(one.judged.consistency, abs=1e-3)
        assert judged.support == pytest.approx(one.judged.support, abs=1e-3)


def test_recordings_are_kept(contest: Contest, cases: list[Case]) -> None:
    recorded = [record(case, contest, HashingEmbedder()) for case in cases]
    lines = [json.loads(json.dumps(one.to_json())) for one in recorded]
    kept = [Recorded.from_json(case, line) for case, line in zip(cases, lines, strict=True)]
    metrics = compare(kept, contest, {})
    assert metrics == compare(recorded, contest, {})
    assert metrics["draft_s.fast.single.m10"] > 0
    assert metrics["perplexity.accurate.single.m10"] >= 1
    assert {"top.without_support", "clean.fast.random.m5"} <= set(metrics)


def test_the_benchmark_runs_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("READAHEAD_HOME", str(tmp_path / "home"))
    folder, rows = tmp_path / "tiny", tmp_path / "rows.jsonl"
    make_llama().save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    given = ["--questions", write(tmp_path), "--drafter", folder, "--target", folder]
    given += ["--dtype", "float32", "--rows", rows, "--seed", "3"]

    def run(*more: str) -> dict[str, float]:
        monkeypatch.setattr(sys, "argv", ["bench_drafts.py", *map(str, given), *more])
        bench_drafts.main()
        finished = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (finished["benchmark"], finished["seed"]) == ("drafts", 3)
        metrics: dict[str, float] = finished["metrics"]
        return metrics

    run("--n", "1", "--presets", "fast,accurate")
    metrics = run("--n", "2")
    assert len(rows.read_text(encoding="utf-8").splitlines()) == 2
    assert run("--n", "2") == metrics
    for system in ("fast", "accurate", "plain", "drafter_alone", "best_of_drafts"):
        assert f"clean.{system}" in metrics
    assert metrics["time_ratio.fast"] > 0
