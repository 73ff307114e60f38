"""Choose the bounds of the topic on half of the conversations, and report the other half.

Builds a knowledge base of the sample documents and plays each conversation as a session would:
judge, retrieve unless that is skipped, follow. A skip is right when an answer to the question
stands in a passage in context. A wrong one costs an answer and a right one some milliseconds, so
the bounds are the most cautious that save what is asked for, not those that save most. The shipped
``TopicBounds`` are those of the first half.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from readahead.config import load_config
from readahead.knowledge import KnowledgeBase
from readahead.retrieval.base import Vector
from readahead.speculation.retrieval.topic import (
    NUM_RUNNERS_UP,
    Topic,
    TopicBounds,
    stored_vectors,
)
from readahead.types import Hit, Passage

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))

from report import finish, options  # noqa: E402

GRID = (
    (0.0, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5),  # similarity
    (-0.1, -0.05, 0.0, 0.05, 0.1, 0.15, 0.2),  # lead
)
K = 3
MOST_RETRIEVALS = 0.56  # a turn, on the half that is chosen on; 0.62 is to hold on the other


@dataclass(frozen=True, slots=True)
class Turn:
    """A question, what it is about, and strings of which one must be in context."""

    question: str
    topic: str
    answers: tuple[str, ...]

    def is_answered_in(self, passages: Iterable[Passage]) -> bool:
        """Return whether an answer stands in one of the passages."""
        return any(a in f"{p.context}\n{p.text}" for a in self.answers for p in passages)


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a turn; ``is_change`` is what the conversation says of the topic."""

    turn: Turn
    skipped: bool
    answered: bool
    is_change: bool
    changed: bool
    num_passages: int
    signals: dict[str, object]


@dataclass(slots=True)
class Stage:
    """Plays conversations over a knowledge base; asks it nothing twice."""

    knowledge: KnowledgeBase
    num_runners_up: int = NUM_RUNNERS_UP
    compares_vectors: bool = True
    _vectors: dict[str, Vector] = field(default_factory=dict)
    _hits: dict[str, list[Hit]] = field(default_factory=dict)

    def embed(self, question: str) -> Vector:
        """Return the vector of a question."""
        if question not in self._vectors:
            embedder = self.knowledge.embedder
            assert embedder is not None
            self._vectors[question] = embedder.embed_query(question)[0]
        return self._vectors[question]

    def search(self, query: str) -> list[Hit]:
        """Return what is read and the runners-up."""
        if query not in self._hits:
            self._hits[query] = self.knowledge.search(query, K + self.num_runners_up)
        return self._hits[query]

    def play(self, turns: Sequence[Turn], bounds: TopicBounds) -> list[Played]:
        """Return what becomes of the turns of one conversation."""
        topic = Topic(stored_vectors(self.knowledge.store), bounds)
        played: list[Played] = []
        for turn in turns:
            vector = self.embed(turn.question) if self.compares_vectors else None
            verdict = topic.judge(turn.question, vector)
            hits = [] if verdict.skip else self.search(verdict.query)
            has_changed = topic.follow(verdict, hits, k=K)
            context = [self.knowledge.store.passage(id) for id in topic.passages]
            is_change = bool(played) and played[-1].turn.topic != turn.topic
            answered = turn.is_answered_in(context)
            played.append(
                Played(
                    turn,
                    skipped=verdict.skip,
                    answered=answered,
                    is_change=is_change,
                    changed=has_changed,
                    num_passages=len(context),
                    signals=verdict.signals,
                )
            )
        return played

    def answered_without_topic(self, turns: Sequence[Turn]) -> list[bool]:
        """Return whether a search for each bare question finds an answer."""
        return [
            turn.is_answered_in(hit.passage for hit in self.search(turn.question)[:K])
            for turn in turns
        ]


def read_conversations(path: Path) -> list[list[Turn]]:
    """Return the conversations of a JSON Lines file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        [Turn(t["question"], t["topic"], tuple(t["answers"])) for t in json.loads(line)["turns"]]
        for line in lines
    ]


def measure(played: Sequence[Played]) -> dict[str, float]:
    """Return the figures of turns that were played.

    A change is missed if passages of the old topic stay in the way; it is neither found nor missed
    if the answer was in context and nothing was retrieved.
    """
    skipped = [p for p in played if p.skipped]
    changes = [p for p in played if p.is_change]
    return {
        "retrievals_per_turn": 1 - len(skipped) / len(played),
        "skips": len(skipped),
        "right_skips": sum(p.answered for p in skipped) / max(1, len(skipped)),
        "answer_in_context": sum(p.answered for p in played) / len(played),
        "changes": len(changes),
        "changes_found": sum(p.changed for p in changes),
        "changes_missed": sum(not p.changed and not (p.skipped and p.answered) for p in changes),
        "changes_false": sum(p.changed and not p.is_change for p in played),
        "passages_in_context": sum(p.num_passages for p in played) / len(played),
        "most_passages_in_context": max(p.num_passages for p in played),
    }


def choose(stage: Stage, conversations: Sequence[Sequence[Turn]]) -> TopicBounds:
    """Return the bounds that lose and mistake least, and of those the most cautious."""

    def rank(values: tuple[float, float]) -> tuple[float, ...]:
        played = [p for turns in conversations for p in stage.play(turns, TopicBounds(*values))]
        figures = measure(played)
        lost = round((1 - figures["answer_in_context"]) * len(played))
        mistaken = figures["changes_missed"] + figures["changes_false"]
        wasteful = max(0.0, figures["retrievals_per_turn"] - MOST_RETRIEVALS)
        similarity, lead = values
        return (-wasteful, -lost, -mistaken, lead, similarity)

    return TopicBounds(*max(product(*GRID), key=rank))


def report(knowledge: KnowledgeBase, conversations: Sequence[Sequence[Turn]]) -> dict[str, float]:
    """Choose, print the table, and return the figures as name.row."""
    stage = Stage(knowledge)
    halves = conversations[::2], conversations[1::2]
    swapped, first = choose(stage, halves[1]), choose(stage, halves[0])
    words, alone = Stage(knowledge, compares_vectors=False), Stage(knowledge, num_runners_up=0)
    shipped = TopicBounds()
    rows = {
        "chosen_on": (stage, first, halves[0]),
        "held_out": (stage, first, halves[1]),
        "held_out_swapped": (stage, swapped, halves[0]),
        "shipped": (stage, shipped, conversations),
        "shipped_words_only": (words, shipped, conversations),
        "shipped_no_runners_up": (alone, shipped, conversations),
    }
    metrics: dict[str, float] = {}
    for name, (one, bounds, part) in rows.items():
        figures = measure([p for turns in part for p in one.play(turns, bounds)])
        metrics |= {f"{key}.{name}": value for key, value in figures.items()}
        cells = "  ".join(f"{key} {value:.3g}" for key, value in figures.items())
        print(f"{name}: {bounds}\n    {cells}")
    bare = [found for turns in conversations for found in stage.answered_without_topic(turns)]
    metrics["answer_in_context.every_bare_question"] = sum(bare) / len(bare)
    print(f"each question searched for by itself: answer found {sum(bare) / len(bare):.3g}")
    metrics["centroid_auc"] = centroid_auc(stage, conversations)
    print(f"embedding of the questions before: AUC {metrics['centroid_auc']:.3g}")
    show_mistakes([p for turns in conversations for p in stage.play(turns, shipped)])
    return metrics


def centroid_auc(stage: Stage, conversations: Sequence[Sequence[Turn]]) -> float:
    """Return how well the embedding of the running topic's questions tells that it goes on.

    The area under the ROC curve of the cosine of a question and their mean; 0.5 tells nothing.
    """
    cosines: list[float] = []
    goes_on: list[bool] = []
    for turns in conversations:
        begun = 0
        for at in range(1, len(turns)):
            mean = sum(stage.embed(turn.question) for turn in turns[begun:at])
            cosines.append(float(stage.embed(turns[at].question) @ mean / np.linalg.norm(mean)))
            goes_on.append(turns[at].topic == turns[at - 1].topic)
            begun = begun if goes_on[-1] else at
    return float(roc_auc_score(goes_on, cosines))


def show_mistakes(played: Sequence[Played]) -> None:
    """Print the turns of which the shipped bounds make something else than a person would."""
    for p in played:
        if not p.answered or p.changed != p.is_change:
            lost = "" if p.answered else "answer lost, "
            change = f"change {p.is_change}, found {p.changed}"
            print(f"  {lost}{change}: {p.turn.question} {p.signals}")


def main() -> None:
    """Build the knowledge base and report."""
    parser = options(__doc__ or "")
    parser.add_argument(
        "--conversations", type=Path, default=ROOT / "benchmarks" / "conversations.jsonl"
    )
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="more files to search")
    given = parser.parse_args()
    conversations = read_conversations(given.conversations)
    with (
        tempfile.TemporaryDirectory() as kb,
        KnowledgeBase.open(load_config({"kb": Path(kb)})) as knowledge,
    ):
        added = knowledge.add([ROOT / "examples" / "documents", *given.also])
        print(f"{added.passages} passages, {len(conversations)} conversations")
        metrics = report(knowledge, conversations)
        embedder = knowledge.config.models.embedder
    also = "".join(f" and {path.name}" for path in given.also)
    finish(
        "topic",
        {**metrics, "num_passages": added.passages},
        models={"embedder": embedder},
        workload=f"{given.conversations.name} over examples/documents{also}, k {K}",
        n=sum(map(len, conversations)),
        out=given.out,
    )


if __name__ == "__main__":
    main()
