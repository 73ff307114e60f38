"""Right hits are told by the passage's id, or else by the text of the answer."""

import json

import pytest

from readahead.evaluation.datasets import Question
from readahead.evaluation.retrieval import evaluate_retrieval
from readahead.retrieval.base import Filter
from readahead.trace import Trace
from readahead.types import Hit, Passage

TEXTS = ["Ann sells tea.", "Bob sells bread.", "Cid sells fish."]


class InOrder:
    """Returns the passages in the order of their texts, whatever is asked."""

    def __init__(self, *, with_ids: bool = True) -> None:
        self.passages = [
            Passage("shop", text, 0, len(text), metadata={"id": number} if with_ids else {})
            for number, text in enumerate(TEXTS)
        ]
        self.asked: list[tuple[str, int]] = []

    def search(
        self, query: str, k: int, filter: Filter | None = None, *, trace: Trace | None = None
    ) -> list[Hit]:
        self.asked.append((query, k))
        return [Hit(passage, 1.0 / n) for n, passage in enumerate(self.passages[:k], start=1)]


def test_by_the_id_of_the_passage() -> None:
    retriever = InOrder()
    questions = [
        Question("Who sells tea?", ("Bob",), passage="0"),
        Question("Who sells bread?", (), passage="1"),
        Question("Who sells nails?", ("Ann",), passage="9"),
    ]
    seen: list[tuple[int, int]] = []
    report = evaluate_retrieval(
        questions, retriever, ks=(1, 2), progress=lambda done, total: seen.append((done, total))
    )
    assert report.metrics == pytest.approx({"recall@1": 1 / 3, "recall@2": 2 / 3, "mrr": 0.5})
    assert (report.num_by_passage, report.num_by_answer, report.num_skipped) == (3, 0, 0)
    assert report.missed == ("Who sells nails?",)
    assert retriever.asked[0] == ("Who sells tea?", 2)
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_by_the_text_of_the_answer() -> None:
    questions = [
        Question("Who sells fish?", ("Cid",)),
        Question("Who sells tea?", ("ann",), passage="0"),
        Question("Who sells nails?", ()),
    ]
    report = evaluate_retrieval(questions, InOrder(with_ids=False), ks=(1, 3))
    assert report.metrics == pytest.approx({"recall@1": 0.5, "recall@3": 1.0, "mrr": 2 / 3})
    assert (report.num_by_passage, report.num_by_answer, report.num_skipped) == (0, 2, 1)


def test_the_report_is_json() -> None:
    report = evaluate_retrieval([Question("Who?", ("Ann",))], InOrder())
    values = json.loads(json.dumps(report.to_json()))
    assert values["metrics"] == {"recall@1": 1.0, "recall@3": 1.0, "recall@10": 1.0, "mrr": 1.0}
    assert values["num_questions"] == 1
