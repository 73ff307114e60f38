"""Measure how well a retriever finds the passages that hold the answers; knows no index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from readahead.evaluation.datasets import Question
from readahead.evaluation.metrics import contains, ranking
from readahead.retrieval.base import Retriever
from readahead.types import Hit


@dataclass(frozen=True, slots=True)
class RetrievalReport:
    """How often, and how early, a right passage is among the hits.

    A hit is right if its metadata ``id`` is the question's passage. Where the question names no
    passage or the hits carry no ids, a hit is right if its text contains an answer.

    Attributes:
        num_by_passage: Questions judged by the id of the passage.
        num_by_answer: Questions judged by the text of the answer.
        num_skipped: Questions with neither; they count for nothing.
        metrics: ``recall@k`` for each k, and ``mrr`` over the hits looked at.
        missed: The questions without a right hit.
    """

    num_questions: int
    num_by_passage: int
    num_by_answer: int
    num_skipped: int
    metrics: dict[str, float]
    missed: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON values."""
        return asdict(self)


def evaluate_retrieval(
    questions: Sequence[Question],
    retriever: Retriever,
    *,
    ks: Sequence[int] = (1, 3, 10),
    progress: Callable[[int, int], None] | None = None,
) -> RetrievalReport:
    """Search for every question and report where the right passage stands.

    ``progress`` is called with the questions done and the questions in all.
    """
    ranks: list[int | None] = []
    missed: list[str] = []
    num_by_passage = num_skipped = 0
    for number, question in enumerate(questions, start=1):
        if question.passage or question.answers:
            hits = retriever.search(question.text, max(ks))
            by_passage = bool(question.passage) and all("id" in h.passage.metadata for h in hits)
            rank = _rank(question, hits, by_passage)
            ranks.append(rank)
            num_by_passage += by_passage
            missed += [question.text] if rank is None else []
        else:
            num_skipped += 1
        if progress is not None:
            progress(number, len(questions))
    return RetrievalReport(
        num_questions=len(questions),
        num_by_passage=num_by_passage,
        num_by_answer=len(ranks) - num_by_passage,
        num_skipped=num_skipped,
        metrics=ranking(ranks, ks),
        missed=tuple(missed),
    )


def _rank(question: Question, hits: Sequence[Hit], by_passage: bool) -> int | None:
    for rank, hit in enumerate(hits, start=1):
        passage = hit.passage
        if by_passage:
            is_right = str(passage.metadata["id"]) == question.passage
        else:
            is_right = bool(contains(passage.text, question.answers))
        if is_right:
            return rank
    return None
