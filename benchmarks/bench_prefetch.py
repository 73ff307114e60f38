"""Measure what reading ahead while a question is typed does to the time to first token.

The claim: at three words a second and 0.35 s before Enter, the first token comes in a fifth of the
plain time, and the answer is, token for token, that of a cold run over the same passages in the
same order. Each question is asked plainly and typed ahead, in turns, in one process.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ahead import NUM_ANSWER_TOKENS, Turn, ahead_options, figures, settings, show, tell
from readahead.engine import Engine
from readahead.evaluation.datasets import read_questions
from readahead.evaluation.lossless import is_lossless
from readahead.evaluation.typing import type_out
from readahead.session import Session
from readahead.types import Answer
from report import finish


def main() -> None:
    """Index the passages, then ask each question twice."""
    parser = ahead_options(__doc__)
    parser.add_argument("--n", type=int, default=40, help="how many questions")
    given = parser.parse_args()
    if not given.questions or not given.passages:
        parser.error("--questions and --passages are needed")
    questions = read_questions(given.questions)[: given.n]
    with tempfile.TemporaryDirectory() as folder:
        config = settings(given, Path(folder))
        with Engine.open(config) as engine:
            engine.knowledge.add([given.passages])
            engine.load().ask(questions[0].text)  # the first pass through a model is slow
            turns = []
            for index, question in enumerate(questions):
                turns.append(asked(engine, question.text, index, given))
                tell(question.text, turns[-1])
            device, dtype = str(engine.target.device), str(engine.target.dtype).split(".")[1]
    metrics = figures(turns)
    show(metrics)
    decodes = "" if not given.no_decode_ahead else ", nothing decoded ahead"
    finish(
        "prefetch",
        metrics,
        models={"target": given.target, "embedder": config.models.embedder},
        workload=f"{given.questions.name} over {given.passages.name}, {NUM_ANSWER_TOKENS} tokens, "
        f"{given.words_per_s:g} words/s, {given.pause:g} s before Enter, {given.policy}{decodes}",
        n=len(turns),
        out=given.out,
        device=device,
        dtype=dtype,
    )


def asked(engine: Engine, question: str, index: int, given: argparse.Namespace) -> Turn:
    """Return what the question came to; which of the two goes first changes each time."""
    if index % 2:
        plain = engine.ask(question)
        return Turn(plain, *typed(engine, question, given))
    ahead = typed(engine, question, given)
    return Turn(engine.ask(question), *ahead)


def typed(
    engine: Engine, question: str, given: argparse.Namespace
) -> tuple[Answer, Mapping[str, Any], bool]:
    """Type the question and submit it; return the answer, its trace and if it is lossless."""
    with Session(engine) as session:
        type_out(
            question,
            session.type,
            words_per_s=given.words_per_s,
            pause_s=given.pause,
        )
        *_, answer = session.submit(question)
    assert isinstance(answer, Answer)
    (turn,) = session.turns
    return answer, engine.knowledge.store.trace(answer.trace_id), is_lossless(engine, turn)


if __name__ == "__main__":
    main()
