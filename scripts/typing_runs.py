"""Record what is retrieved while questions are typed; decides nothing.

A recording is one JSON object, so that fitting and simulating need no model:

    {"rarity": {word: rarity}, "passages": {id: [heading, text]},
     "questions": [[{"text": …, "hits": [[id, score, similarity], …]}, …], …]}

One step for each complete word; the last is the whole question.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from readahead.config import load_config
from readahead.evaluation.datasets import read_questions
from readahead.knowledge import KnowledgeBase
from readahead.retrieval.lexical import terms
from readahead.types import Hit, Passage

NUM_HITS = 10


@dataclass(frozen=True, slots=True)
class Step:
    """What was retrieved for the text typed so far."""

    text: str
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """Questions, each as its steps; the last step is the whole question."""

    questions: tuple[tuple[Step, ...], ...]
    rarity: dict[str, float]


def prefixes(question: str) -> Iterator[str]:
    """Return what has been typed at the end of each word."""
    words = question.split()
    for end in range(1, len(words) + 1):
        yield " ".join(words[:end])


def record(questions: Path, passages: Path, n: int | None, file: Path) -> None:
    """Type the questions over a temporary knowledge base and write what was retrieved."""
    asked = [question.text for question in read_questions(questions)[:n]]
    with (
        tempfile.TemporaryDirectory() as kb,
        KnowledgeBase.open(load_config({"kb": Path(kb)})) as knowledge,
    ):
        knowledge.add([passages])
        whole = type_all(knowledge, asked)
    file.write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")


def type_all(knowledge: KnowledgeBase, questions: Sequence[str]) -> dict[str, Any]:
    """Return the recording of questions, typed word by word."""
    typed = []
    for number, question in enumerate(questions, start=1):
        texts = prefixes(question)
        typed.append([Step(text, tuple(knowledge.search(text, NUM_HITS))) for text in texts])
        if number % 50 == 0:
            print(f"{number} of {len(questions)} questions typed", flush=True)
    words = {term for question in questions for term in terms(question)}
    shown = {hit.passage.id: hit.passage for steps in typed for step in steps for hit in step.hits}
    return {
        "rarity": {word: knowledge.store.rarity(word) for word in sorted(words)},
        "passages": {id: [list(p.heading), p.text] for id, p in shown.items()},
        "questions": [[_to_json(step) for step in steps] for steps in typed],
    }


def _to_json(step: Step) -> dict[str, Any]:
    hits = [[hit.passage.id, hit.score, hit.similarity] for hit in step.hits]
    return {"text": step.text, "hits": hits}


def load(file: Path) -> Recording:
    """Return a recording that ``record`` wrote."""
    whole = json.loads(file.read_text(encoding="utf-8"))
    passages = {
        id: Passage("", text, 0, len(text), heading=tuple(heading), id=id)
        for id, (heading, text) in whole["passages"].items()
    }

    def hits(recorded: Sequence[tuple[str, float, float | None]]) -> tuple[Hit, ...]:
        return tuple(Hit(passages[id], score, similarity) for id, score, similarity in recorded)

    typed = tuple(
        tuple(Step(step["text"], hits(step["hits"])) for step in steps)
        for steps in whole["questions"]
    )
    return Recording(typed, whole["rarity"])
