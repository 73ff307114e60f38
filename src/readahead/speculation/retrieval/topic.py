"""What a conversation is about, and whether its next question needs a retrieval at all.

Knows no model, no cache and no clock: questions, their vectors and hits are given to it. The
passages of the last retrievals are remembered, those that were read and the runners-up that were
not. A question that the former match better than the latter probably asks about what is in context
already. This is approximate: a wrong guess here leaves the answer to passages that lack it, so
whoever skips a retrieval should still watch for that.

Departs from the source, which compares with the embedding of the conversation: questions that
follow each other are alike whether or not their topic changes, so that tells nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice

from readahead.evidence.terms import read_terms
from readahead.retrieval.base import Vector
from readahead.retrieval.content import content_hash, embedded_text
from readahead.retrieval.lexical import MAX_QUERY_CHARS, terms
from readahead.retrieval.store import Store
from readahead.speculation.retrieval.followup import refers_back
from readahead.text import num_words
from readahead.types import Hit, Passage

VectorsOf = Callable[[Sequence[Passage]], Sequence[Vector | None]]

NUM_RUNNERS_UP = 7  # hits to ask for beyond those that are read
MAX_RUNNERS_UP = 50
MAX_ADDED_WORDS = 8


@dataclass(frozen=True, slots=True)
class TopicBounds:
    """Where the decisions fall, on the scale of matches; chosen by ``scripts/fit_topic.py``.

    Attributes:
        similarity: The match with the best passage in context from which a question that refers
            to nothing said before can be on topic, and a retrieval skipped.
        lead: By how much that must be above the best runner-up's for a retrieval to be skipped;
            to be on topic, 0 is enough.
    """

    similarity: float = 0.4
    lead: float = 0.05


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a question before anything is searched.

    Attributes:
        on_topic: Whether it stays with what is being talked about.
        skip: Whether the passages in context will probably do, without a retrieval.
        signs: The words by which it refers back.
        similarity: The match of the best passage in context.
        lead: The same less the match of the best runner-up.
        threshold: What ``similarity`` had to reach.
        query: What to search for: the question, with the topic's words if it refers back.
    """

    question: str
    on_topic: bool
    skip: bool
    signs: tuple[str, ...]
    similarity: float
    lead: float
    threshold: float
    query: str

    @property
    def signals(self) -> dict[str, object]:
        """Return what the trace shows."""
        return {
            "on_topic": self.on_topic,
            "skip": self.skip,
            "refers_back": list(self.signs),
            "similarity": round(self.similarity, 3),
            "lead": round(self.lead, 3),
            "threshold": round(self.threshold, 3),
        }


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A passage as questions are compared with it."""

    held: frozenset[str]
    vector: Vector | None

    def match(self, asked: Set[str], vector: Vector | None) -> float:
        if vector is None or self.vector is None:
            return match(asked, self.held, None)
        return match(asked, self.held, float(vector @ self.vector))


class Topic:
    """What one conversation is about; starts anew when the topic changes.

    Each turn: ``judge`` the question; unless that says ``skip``, search for ``verdict.query``, for
    the passages to read and ``NUM_RUNNERS_UP`` more; ``follow`` with what was found. When a passage
    in context is removed, ``reset``; when others are, ``drop``.

    Args:
        vectors: Returns the stored vectors of passages; without it only words are compared.
        bounds: Where the decisions fall.
    """

    def __init__(self, vectors: VectorsOf | None = None, bounds: TopicBounds | None = None) -> None:
        self._vectors = vectors
        self._bounds = bounds or TopicBounds()
        self._in_context: dict[str, _Remembered] = {}
        self._runners_up: dict[str, _Remembered] = {}
        self._words: Counter[str] = Counter()
        self._num_words = 0.0
        self.num_turns = 0

    @property
    def passages(self) -> tuple[str, ...]:
        """Return the ids of the passages in context, in the order they came."""
        return tuple(self._in_context)

    @property
    def words(self) -> list[str]:
        """Return what the topic's questions were about, the most frequent words first."""
        return [word for word, _ in self._words.most_common(MAX_ADDED_WORDS)]

    def judge(self, question: str, vector: Vector | None = None) -> Verdict:
        """Return what can be told of a question without a search; never raises.

        Args:
            question: Any string.
            vector: The question's, (dim,); None where there is no embedder.
        """
        asked = read_terms(question[:MAX_QUERY_CHARS]).content
        similarity = _best(self._in_context, asked, vector)
        lead = similarity - _best(self._runners_up, asked, vector)
        signs = refers_back(question) if self.num_turns else ()
        threshold = loosened(self._bounds.similarity, self._num_words)
        is_near = bool(self._in_context) and similarity >= threshold
        on_topic = bool(signs) or (is_near and lead >= 0)
        skip = on_topic and is_near and lead >= self._bounds.lead
        query = " ".join([question, *self.words]) if signs else question
        return Verdict(question, on_topic, skip, signs, similarity, lead, threshold, query)

    def is_left(self, verdict: Verdict, hits: Sequence[Hit]) -> bool:
        """Return whether question and hits have left the topic, so that it may be dropped.

        Args:
            verdict: Of the question.
            hits: Those that are to be read, best first.
        """
        if verdict.on_topic or not hits or not self._in_context:
            return False
        return hits[0].passage.id not in self._in_context

    def follow(self, verdict: Verdict, hits: Sequence[Hit] = (), *, k: int = 3) -> bool:
        """Take note of a turn, and of what was retrieved for it; return whether the topic changed.

        Args:
            verdict: Of the question.
            hits: What was found, best first; none if the retrieval was skipped.
            k: How many of them are read; the rest are runners-up.
        """
        if has_changed := self.is_left(verdict, hits[:k]):
            self.reset()
        self._remember(hits, k)
        self._words.update(_content_words(verdict.question))
        self._num_words += num_words(verdict.question)
        self.num_turns += 1
        return has_changed

    def drop(self, is_stale: Callable[[str], bool]) -> None:
        """Forget the runners-up that, by their ids, cannot be found any more."""
        runners_up = self._runners_up.items()
        self._runners_up = {id: it for id, it in runners_up if not is_stale(id)}

    def reset(self) -> None:
        """Forget everything."""
        self._in_context, self._runners_up = {}, {}
        self._words.clear()
        self._num_words, self.num_turns = 0.0, 0

    def _remember(self, hits: Sequence[Hit], k: int) -> None:
        passages = [hit.passage for hit in hits]
        vectors = self._vectors(passages) if self._vectors and passages else [None] * len(passages)
        for rank, (passage, vector) in enumerate(zip(passages, vectors, strict=True)):
            remembered = _Remembered(read_terms(embedded_text(passage)).held, vector)
            if rank < k:
                self._in_context[passage.id] = remembered
            else:
                self._runners_up[passage.id] = remembered
        rest = {id: it for id, it in self._runners_up.items() if id not in self._in_context}
        self._runners_up = dict(islice(rest.items(), max(0, len(rest) - MAX_RUNNERS_UP), None))


def loosened(threshold: float, num_words: float) -> float:
    """Return ``threshold`` for a topic about which so many words were asked.

        source:  t(n) = max(1.0, 1.2 − 0.002·(n − 10))            of an entropy
        here:    t(n) = t₀ · max(5/6, min(1, 1 − (n − 10)/600))   of a match in [0, 1]

    t₀: the threshold of a topic that has just begun. Both fall by a sixth over a hundred words and
    no further: the longer a topic is talked about, the fewer retrievals.
    """
    return threshold * max(5 / 6, min(1.0, 1 - (num_words - 10) / 600))


def match(asked: Set[str], held: Set[str], cosine: float | None) -> float:
    """Return how well a passage matches a question.

        m(q, p) = ½·(|q ∩ p| / |q| + cos(q, p))

    q: the content terms of the question; p: those of the passage, or their vectors. No share of
    nothing: a question without content has |q ∩ p| / |q| = 0. Without vectors, the share alone.
    """
    share = len(asked & held) / len(asked) if asked else 0.0
    return share if cosine is None else (share + cosine) / 2


def stored_vectors(store: Store) -> VectorsOf:
    """Return what looks up the vectors that a store keeps of its passages."""

    def look_up(passages: Sequence[Passage]) -> list[Vector | None]:
        hashes = [content_hash(passage) for passage in passages]
        known = store.known_vectors(hashes)
        return [known.get(hash) for hash in hashes]

    return look_up


def _best(remembered: Mapping[str, _Remembered], asked: Set[str], vector: Vector | None) -> float:
    """Return the best match among passages, 0 if there are none."""
    return max((passage.match(asked, vector) for passage in remembered.values()), default=0.0)


def _content_words(question: str) -> list[str]:
    """Return the words of a question that say something, as they are searched for."""
    return [word for word in terms(question) if read_terms(word).content]
