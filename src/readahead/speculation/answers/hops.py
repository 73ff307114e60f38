"""Answer a question in several steps: split it, answer each part, put the answers together.

Each part is retrieved for, drafted and chosen by itself; a later one may ask about the answer of an
earlier one. Then the target answers the question from all passages that hold those answers. If a
part finds no answer, or their sum does not, the question is asked as it stands: a wrong split costs
time. *Approximate*: the answer is at most as probable as its least probable part, and its parts may
be wrong together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from readahead.lm.prompt import CHINESE, wording
from readahead.speculation.answers.outcome import Outcome
from readahead.speculation.answers.split import filled
from readahead.types import Hit


class Ask(Protocol):
    """Answers one question: retrieves for it, drafts, chooses."""

    def __call__(self, question: str, /) -> Outcome:
        """Return what came of it."""
        ...


class Split(Protocol):
    """Splits a question."""

    def __call__(self, question: str, /) -> Sequence[str]:
        """Return its parts in order, which may refer to earlier answers as #1; none: ask it."""
        ...


class Combine(Protocol):
    """Answers a question whose parts are answered."""

    def __call__(self, question: str, known: str, hits: Sequence[Hit], /) -> Outcome:
        """Return what came of it.

        Args:
            question: The whole one.
            known: One line with the parts and their answers.
            hits: The passages that hold them.
        """
        ...


@dataclass(frozen=True, slots=True)
class Hop:
    """A question with what came of it; the root of a tree.

    Attributes:
        question: As it was asked, with the answers of earlier ones filled in.
        children: Its parts, those that were tried.
        is_combined: Whether the outcome was put together from them; otherwise it was asked as it
            stands.
    """

    question: str
    outcome: Outcome
    children: tuple[Hop, ...] = ()
    is_combined: bool = False

    @property
    def confidence(self) -> float:
        """Return the probability that the best answer is right; at most that of any part of it."""
        parts = self.children if self.is_combined else ()
        return min([self.outcome.confidence, *(part.confidence for part in parts)])

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Hop]]:
        """Yield all questions with their depth, in the order of the tree, this one first."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


def ask_in_hops(question: str, ask: Ask, split: Split, combine: Combine, *, max_depth: int) -> Hop:
    """Return the tree of a question, its parts, their parts and so on.

    Args:
        question: As the user asked it.
        ask: Answers one.
        split: Whether, and into what.
        combine: Puts the answers of parts together.
        max_depth: How often in a row a question may be split; 0: never.
    """
    parts = split(question) if max_depth > 0 else ()
    if not parts:
        return Hop(question, ask(question))
    children: list[Hop] = []
    for part in parts:
        whole = filled(part, [child.outcome.answers[0] for child in children])
        children.append(ask_in_hops(whole, ask, split, combine, max_depth=max_depth - 1))
        if children[-1].outcome.is_cancelled:
            return Hop(question, children[-1].outcome, tuple(children))
        if not children[-1].outcome.answers:
            return Hop(question, ask(question), tuple(children))
    outcome = combine(question, known(question, children), evidence(children))
    if outcome.answers or outcome.is_cancelled:
        return Hop(question, outcome, tuple(children), is_combined=True)
    return Hop(question, ask(question), tuple(children))


def known(question: str, children: Sequence[Hop]) -> str:
    """Return one line with the answers of the parts, in the question's language."""
    said = " ".join(f"{child.question} {', '.join(child.outcome.answers)}." for child in children)
    return f"已知：{said}" if wording(question) is CHINESE else f"Known: {said}"


def evidence(children: Sequence[Hop]) -> list[Hit]:
    """Return the passages that hold the answers of the parts, each once, in their order.

    Of an answer that stands in no passage, those that its drafts were written from.
    """
    found: dict[tuple[str, int, int], Hit] = {}
    for child in children:
        outcome = child.outcome
        for one in outcome.choice.selected:
            held = [held.place for held in one.candidate.held]
            read = [p for number in one.candidate.drafts for p in outcome.drafts[number].places]
            for place in held or read:
                passage = outcome.hits[place].passage
                key = (passage.document, passage.start, passage.end)
                found.setdefault(key, outcome.hits[place])
    return list(found.values())
