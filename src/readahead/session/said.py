"""What was read and written in one turn of a conversation; decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from readahead.lm.prompt import Prompt
from readahead.speculation.retrieval.guess import Event
from readahead.speculation.retrieval.inject import Injected
from readahead.types import Passage


class Shown(NamedTuple):
    """A passage as the model was shown it: ``[start, end)`` of its document."""

    id: str
    start: int
    end: int
    in_answer: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and its answer, as the model read and wrote them.

    Attributes:
        prompt: All that the model read before it wrote, the earlier turns among it.
        token_ids: The answer's, and among them those of notes that were injected into it.
        shown: The passages of ``prompt`` and those of notes, shortened or not; also those that are
            no longer stored.
        injected: The passages of notes.
    """

    question: str
    prompt: Prompt
    token_ids: tuple[int, ...]
    text: str
    shown: tuple[Shown, ...]
    injected: tuple[Passage, ...] = ()

    @property
    def passages(self) -> tuple[Passage, ...]:
        """Return all that this turn showed, in the order of their numbers."""
        return (*self.prompt.passages, *self.injected)


@dataclass(slots=True)
class Saying:
    """An answer while it is written.

    Attributes:
        prompt: What is read before it; a longer one once passages were put into it.
        injected: The passages of notes so far.
    """

    prompt: Prompt
    injected: list[Passage] = field(default_factory=list)
    _answer_ids: list[int] = field(default_factory=list)
    _last: Injected | None = None

    def push(self, event: Event) -> None:
        """Take note of what was written or injected."""
        if not isinstance(event, Injected):
            self._answer_ids += event.token_ids
            return
        self._last, self.prompt = event, event.prompt
        if event.in_answer:
            self.injected += event.passages

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Return all that is read, the prompt first."""
        if self._last is None:
            return (*self.prompt.token_ids, *self._answer_ids)
        # What it read of the answer was perhaps not yielded when the listener left.
        return (*self._last.token_ids, *self._answer_ids[self._last.num_answer_tokens :])

    def turn(self, question: str, text: str) -> Turn:
        """Return the turn that it came to."""
        shown = [Shown(p.id, p.start, p.end) for p in self.prompt.passages]
        shown += [Shown(p.id, p.start, p.end, in_answer=True) for p in self.injected]
        behind = self.token_ids[len(self.prompt.token_ids) :]
        return Turn(question, self.prompt, behind, text, tuple(shown), tuple(self.injected))


def without_gone(turn: Turn, has_gone: Callable[[str], bool]) -> Turn:
    """Return ``turn``, without what it read if a document of that has gone; the answer stays."""
    ids = [id for part in turn.prompt.parts for id in part.label.split()]
    ids += [passage.id for passage in turn.passages]
    if not any(map(has_gone, ids)):
        return turn
    return replace(turn, prompt=Prompt("", ()), injected=())
