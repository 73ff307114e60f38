"""The benchmark of tokens runs through with tiny models, also where nothing can be timed."""

import json
import sys
from pathlib import Path

import pytest

import bench_rapid
from tests.conftest import make_llama, make_tokenizer

SPEEDS = {"decode_speedup", "token_s", "worst_ratio"}


@pytest.mark.parametrize(("max_new_tokens", "told"), [(1, set()), (6, SPEEDS)])
def test_only_what_was_timed_has_a_speed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    max_new_tokens: int,
    told: set[str],
) -> None:
    tiny, questions, passages = (tmp_path / name for name in ("tiny", "q.jsonl", "p.jsonl"))
    make_llama().save_pretrained(tiny)
    make_tokenizer().save_pretrained(tiny)
    rows = [{"id": n, "title": f"{n}", "text": f"Lamp {n} burns oil."} for n in range(4)]
    passages.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    asked = {"question": "What burns?", "answers": ["oil"], "passage": 1}
    questions.write_text(json.dumps(asked), encoding="utf-8")
    given = {
        "--questions": questions,
        "--passages": passages,
        "--target": tiny,
        "--drafter": tiny,
        "--n": 1,
        "--context": 60,
        "--max-new-tokens": max_new_tokens,
        "--dtype": "float32",
    }
    words = [str(word) for pair in given.items() for word in pair]
    monkeypatch.setattr(sys, "argv", ["bench_rapid", *words])
    bench_rapid.main()
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])["metrics"]
    assert {key.split(".")[0] for key in metrics} & SPEEDS == told
    assert metrics["identical_share"] == 1
