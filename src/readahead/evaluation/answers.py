"""Measure how often answers are right; knows nothing about how they are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median

from readahead.errors import InputError
from readahead.evaluation.datasets import Question
from readahead.evaluation.metrics import contains, exact_match, token_f1
from readahead.evidence import Markers
from readahead.types import Answer


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """One question, what was answered, and how right it is; the scores are in [0, 1].

    A question without a right answer scores 1.0 for an abstention and 0.0 for anything else; an
    abstention from any other question scores 0.0.
    """

    question: str
    answer: str
    abstained: bool
    num_citations: int
    exact_match: float
    f1: float
    contains: float


@dataclass(frozen=True, slots=True)
class FailedQuestion:
    """A question that cannot be asked, for instance because it is longer than the context."""

    question: str
    reason: str


@dataclass(frozen=True, slots=True)
class AnswersReport:
    """How right the answers are, how often there is none, and how fast they came.

    Attributes:
        exact_match: Mean over all questions, a failed one counting 0.0; likewise ``f1`` and
            ``contains``, which is the share of answers with a right answer in their text.
        abstained: The share of questions with an abstention.
        cited: The share of the answers given that have a citation.
        scores: Of the questions that did not fail.
    """

    num_questions: int
    num_unanswerable: int
    exact_match: float
    f1: float
    contains: float
    abstained: float
    cited: float
    ttft_p50_s: float
    e2e_p50_s: float
    scores: tuple[AnswerScore, ...]
    failed: tuple[FailedQuestion, ...]

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON values."""
        return asdict(self)


def evaluate_answers(
    questions: Sequence[Question],
    ask: Callable[[str], Answer],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> AnswersReport:
    """Ask every question and report how right the answers are.

    A question that raises InputError is listed in ``failed``, and stops nothing.
    ``progress`` is called with the questions done and the questions in all.
    """
    answers: list[Answer] = []
    scores: list[AnswerScore] = []
    failed: list[FailedQuestion] = []
    for number, question in enumerate(questions, start=1):
        try:
            answer = ask(question.text)
        except InputError as error:
            failed.append(FailedQuestion(question.text, str(error)))
        else:
            answers.append(answer)
            scores.append(_score(question, answer))
        if progress is not None:
            progress(number, len(questions))
    given = [score for score in scores if not score.abstained]
    zeros = [0.0] * len(failed)
    return AnswersReport(
        num_questions=len(questions),
        num_unanswerable=sum(not question.answers for question in questions),
        exact_match=_mean([score.exact_match for score in scores] + zeros),
        f1=_mean([score.f1 for score in scores] + zeros),
        contains=_mean([score.contains for score in scores] + zeros),
        abstained=_mean([score.abstained for score in scores] + zeros),
        cited=_mean([score.num_citations > 0 for score in given]),
        ttft_p50_s=median([answer.timing.ttft_s for answer in answers] or [0.0]),
        e2e_p50_s=median([answer.timing.e2e_s for answer in answers] or [0.0]),
        scores=tuple(scores),
        failed=tuple(failed),
    )


def _score(question: Question, answer: Answer) -> AnswerScore:
    said = Markers.read(answer.text).text
    if answer.abstained or not question.answers:
        right = float(answer.abstained and not question.answers)
        exact, f1, contained = right, right, right
    else:
        exact = exact_match(said, question.answers)
        f1 = token_f1(said, question.answers)
        contained = contains(said, question.answers)
    return AnswerScore(
        question=question.text,
        answer=answer.text,
        abstained=answer.abstained,
        num_citations=len(answer.citations),
        exact_match=exact,
        f1=f1,
        contains=contained,
    )


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
