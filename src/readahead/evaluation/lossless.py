"""Whether what was read ahead changed an answer: the promise, checked on a user's own data.

Compared without injection, whatever ``inject.enabled`` says: an answer into which passages were put
is not meant to be that of its first prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from readahead.engine import Engine
from readahead.errors import InputError
from readahead.evaluation.typing import type_out
from readahead.lm import generate
from readahead.plain import sampling_params
from readahead.session import Session, Turn
from readahead.text import num_words
from readahead.types import Answer

WORDS_PER_S = 8.0
MAX_TYPING_S = 3.0
PAUSE_S = 0.5  # long enough to be answered ahead, too


@dataclass(slots=True)
class LosslessReport:
    """What became of the questions that were typed ahead and asked again from nothing.

    Attributes:
        changed: Those whose answers differ.
        failed: Those that could not be asked, with the reason.
    """

    num_questions: int = 0
    num_identical: int = 0
    num_read_ahead: int = 0
    changed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON values."""
        return {
            "num_questions": self.num_questions,
            "num_identical": self.num_identical,
            "num_read_ahead": self.num_read_ahead,
            "changed": self.changed,
            "failed": self.failed,
        }


def is_lossless(engine: Engine, turn: Turn) -> bool:
    """Return whether a cold run over the same prompt gives the same answer, token for token.

    Always so in float32; in lower precisions, rounding may decide between tokens that are about
    equally likely. Never so of an answer that holds injected passages (``turn.injected``).
    """
    params = sampling_params(engine.config.generation)
    prompts = [turn.prompt.token_ids]
    (cold,) = engine.turns.run(partial(generate.generate, engine.target, prompts, params))
    return cold.token_ids == turn.token_ids


def verify(
    engine: Engine,
    questions: Sequence[str],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> LosslessReport:
    """Type each question, submit it, and compare the answer with that of a cold run.

    Args:
        engine: Its knowledge base and target are those that are checked.
        questions: Each is a conversation of its own.
        progress: Told how many are done, of how many.
    """
    report = LosslessReport(num_questions=len(questions))
    for number, question in enumerate(questions, start=1):
        with Session(engine, inject=False) as session:
            _ask(engine, session, question, report)
        if progress:
            progress(number, len(questions))
    return report


def _ask(engine: Engine, session: Session, question: str, report: LosslessReport) -> None:
    words_per_s = max(WORDS_PER_S, num_words(question) / MAX_TYPING_S)
    type_out(question, session.type, words_per_s=words_per_s, pause_s=PAUSE_S)
    try:
        *_, answer = session.submit(question)
    except InputError as error:
        report.failed[question] = str(error)
        return
    assert isinstance(answer, Answer)
    report.num_read_ahead += answer.usage.reused_tokens > 0
    if not session.turns or is_lossless(engine, session.turns[0]):
        report.num_identical += 1
    else:
        report.changed.append(question)
