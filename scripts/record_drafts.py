"""Record short drafts and the verifier's scores for RAMDocs questions.

One line of JSON a question, so that choosing can be fitted and compared without any model:

    {"question", "golds", "wrongs", "documents": [text], "types": [type],
     "drafts": {AUTHOR: [{"answer", "places", "fault", "logprob", "seconds", …}]},
     "judged": {answer: {"open": {"consistency", "support"}, "closed": {…}}}}

AUTHOR is ``drafter`` or ``target``, each of single documents, or ``whole``, the target's of all.
``open`` is what the target thinks of an answer behind all documents, ``closed`` without any.
``--brief`` leaves out ``whole`` and ``open``, which take most of the time. What is there already is
not done again, so a run can be stopped and taken up.

    python scripts/record_drafts.py FILE --questions RAMDOCS [--drafter NAME] [--target NAME]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from readahead.lm.model import TransformersModel
from readahead.lm.weights import pull
from readahead.speculation.answers.drafts import Drafter
from readahead.speculation.answers.verify import Statement, Verifier
from readahead.types import Passage


def main() -> None:
    """Record what is not recorded yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--drafter", default="qwen2.5-coder-0.5b")
    parser.add_argument("--target", default="qwen2.5-coder-1.5b")
    parser.add_argument("--n", type=int, default=60)
    parser.add_argument("--brief", action="store_true", help="only what choosing is fitted on")
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.questions.read_text("utf-8").splitlines()][: args.n]
    done = args.file.read_text("utf-8").splitlines() if args.file.exists() else []
    recorder = Recorder(_load(args.drafter), _load(args.target), is_brief=args.brief)
    with args.file.open("a", encoding="utf-8") as file:
        for row in rows[len(done) :]:
            file.write(json.dumps(recorder.record(row), ensure_ascii=False) + "\n")
            file.flush()


def _load(name: str) -> TransformersModel:
    return TransformersModel.load(pull(name).folder, device="cpu", dtype="bfloat16", name=name)


class Recorder:
    """Runs both models on one question after the other."""

    def __init__(
        self, drafter: TransformersModel, target: TransformersModel, *, is_brief: bool = False
    ) -> None:
        self._is_brief = is_brief
        self._drafters = {"drafter": Drafter(drafter), "target": Drafter(target)}
        self._whole = Drafter(target)
        self._verifier = Verifier(target)

    def record(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the record of a question."""
        passages = [
            Passage(str(place), document["text"], 0, len(document["text"]), id=str(place))
            for place, document in enumerate(row["documents"])
        ]
        question = row["question"]
        singles = [(place,) for place in range(len(passages))]
        drafts = {
            name: [asdict(draft) for draft in drafter.draft(question, passages, singles)]
            for name, drafter in self._drafters.items()
        }
        if not self._is_brief:
            (whole,) = self._whole.draft(question, passages, [tuple(range(len(passages)))])
            drafts["whole"] = [asdict(whole)]
        answers = [draft["answer"] for written in drafts.values() for draft in written]
        answers = list(dict.fromkeys(answer for answer in answers if answer))
        return {
            "question": question,
            "golds": row["gold_answers"],
            "wrongs": row["wrong_answers"],
            "documents": [document["text"] for document in row["documents"]],
            "types": [document["type"] for document in row["documents"]],
            "drafts": drafts,
            "judged": self._judged(question, passages, answers),
        }

    def _judged(
        self, question: str, passages: Sequence[Passage], answers: Sequence[str]
    ) -> dict[str, Any]:
        statements = [Statement(answer) for answer in answers]
        rows = {"closed": self._verifier.judge(question, statements)}
        if not self._is_brief:
            rows["open"] = self._verifier.judge(question, statements, passages)
        return {
            answer: {
                name: {"consistency": judged[i].consistency, "support": judged[i].support}
                for name, judged in rows.items()
            }
            for i, answer in enumerate(answers)
        }


if __name__ == "__main__":
    main()
