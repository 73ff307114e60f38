"""The conversations of the benchmarks ask what the sample documents answer."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from readahead.documents.read import Reader

ROOT = Path(__file__).parent.parent
LINES = (ROOT / "benchmarks" / "conversations.jsonl").read_text(encoding="utf-8").splitlines()
CONVERSATIONS = [json.loads(line)["turns"] for line in LINES]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    with Reader() as reader:
        files = sorted((ROOT / "examples" / "documents").iterdir())
        return [document.text for file in files for document in reader.read(file)]


def test_there_are_twenty_of_five_turns() -> None:
    assert [len(turns) for turns in CONVERSATIONS] == [5] * 20
    assert all(set(turn) == {"question", "topic", "answers"} for t in CONVERSATIONS for turn in t)


def test_every_answer_stands_in_a_sample_document(texts: list[str]) -> None:
    answers = [answer for turns in CONVERSATIONS for turn in turns for answer in turn["answers"]]
    assert [a for a in answers if not any(a in text for text in texts)] == []
    assert all(turn["answers"] for turns in CONVERSATIONS for turn in turns)


def test_each_topic_has_two_turns_or_more_and_some_change() -> None:
    changes = []
    for turns in CONVERSATIONS:
        topics = [turn["topic"] for turn in turns]
        assert all(topics.count(topic) >= 2 for topic in topics), topics
        changes.append(sum(before != after for before, after in pairwise(topics)))
    assert max(changes) == 2
    assert sum(change > 0 for change in changes) >= 15


def test_some_are_in_chinese() -> None:
    assert sum("？" in turns[0]["question"] for turns in CONVERSATIONS) in (3, 4)
