"""Further passages for an answer: found, cut to what fits, put where they are read next.

Knows neither when an answer needs them nor what was computed for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from readahead.config import InjectConfig
from readahead.lm.prompt import Context, Prompt, build_prompt
from readahead.lm.tokenizer import Tokenizer
from readahead.speculation.retrieval.placing import (
    Layout,
    note_ids,
    num_tokens,
    shortened,
    turn_ids,
)
from readahead.speculation.retrieval.sufficiency import Sufficiency
from readahead.types import Hit, Passage

Search = Callable[[str, int], Sequence[Hit]]

NUM_DEEPER = 3  # hits looked at beyond those shown


class Adding:
    """What one answer is written from: its prompt, notes within it, and the hits of both.

    Args:
        tokenizer: The target's.
        question: As the user asked it.
        prompt: Made of the question and passages of ``hits``, in any order, perhaps shortened.
        hits: What was retrieved for the question.
        search: Finds hits for a query.
        config: How much may be added, and where.
        query: What to search for.
        context: The turns before the prompt.
        context_hits: Those of its passages that are judged together with the prompt's.

    Attributes:
        prompt: What is read in front of the answer.
        layout: The same, and the notes.
        hits: Those of the passages in ``layout``, as they are shown and in order.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        question: str,
        prompt: Prompt,
        hits: Sequence[Hit],
        search: Search,
        config: InjectConfig,
        *,
        query: str,
        context: Context,
        context_hits: Sequence[Hit],
    ) -> None:
        self.prompt = prompt
        self.layout = Layout(prompt.token_ids)
        self.hits = _as_shown(prompt.passages, hits)
        self._tokenizer = tokenizer
        self._question = question
        self._search = search
        self._config = config
        self._query = query
        self._context = context
        self._context_hits = tuple(context_hits)
        self._num_additions = self._num_added_tokens = 0

    @property
    def may_add(self) -> bool:
        """Return whether the settings allow any more."""
        return (
            self._num_additions < self._config.max_injections
            and self._num_added_tokens < self._config.max_tokens
        )

    @property
    def num_tokens(self) -> int:
        """Return how many tokens are read beside the answer."""
        return len(self.layout.ids([]))

    def judged(self) -> Sufficiency:
        """Return what judges whether all that is shown by now holds the answer."""
        return Sufficiency(self._question, [*self._context_hits, *self.hits])

    def find(self, certain: str, room: int, record: dict[str, object]) -> list[Hit]:
        """Return hits that are not shown yet, each shortened to what fits.

        Args:
            certain: Words of the answer to search for, too.
            room: How many tokens may be read beside the answer.
            record: Gets the query and what was retrieved.
        """
        query = f"{self._query} {certain}".strip()
        shown = {_key(passage) for passage in self._shown()}
        hits = self._search(query, len(shown) + NUM_DEEPER)
        record["query"] = query
        record["retrieved"] = [{"id": hit.passage.id, "similarity": hit.similarity} for hit in hits]
        new = [
            hit
            for hit in hits
            if _key(hit.passage) not in shown
            and (hit.similarity is None or hit.similarity >= self._config.min_similarity)
        ]
        return self._fitting(new, room)

    def add_note(self, found: Sequence[Hit], place: int) -> int:
        """Put passages behind ``place`` tokens of the answer; return how many tokens that takes."""
        note = self._note([hit.passage for hit in found])
        self.layout.add_note(place, note)
        self.hits = [*self.hits, *found]
        return self._counted(len(note))

    def add_to_prompt(self, found: Sequence[Hit], room: int, *, in_front: bool) -> int:
        """Put passages before or behind those of the prompt; return how many tokens that takes.

        Args:
            found: What is added.
            room: How many tokens the prompt may have.
            in_front: Whether they come first, and so do their numbers.
        """
        before = self.num_tokens
        self.hits = [*found, *self.hits] if in_front else [*self.hits, *found]
        self.prompt = build_prompt(
            self._tokenizer,
            self._question,
            [hit.passage for hit in self.hits],
            max_tokens=room,
            context=self._context,
        )
        self.layout.prompt_ids = self.prompt.token_ids
        return self._counted(self.num_tokens - before)

    def _counted(self, num_added: int) -> int:
        self._num_additions += 1
        self._num_added_tokens += num_added
        return num_added

    def _fitting(self, hits: Sequence[Hit], room: int) -> list[Hit]:
        """Return the first of ``hits``, shortened to the budgets and to the context's room."""
        num_read = self.num_tokens + len(self._note([]))
        room = min(room - num_read, self._config.max_tokens - self._num_added_tokens)
        fitting: list[Hit] = []
        for number, hit in enumerate(hits, start=len(self._shown()) + 1):
            passage = shortened(
                self._tokenizer,
                hit.passage,
                number=number,
                max_tokens=min(room, self._config.max_tokens_each),
                question=self._question,
            )
            if passage is None:
                break
            room -= num_tokens(self._tokenizer, passage, number)
            fitting.append(replace(hit, passage=passage))
        return fitting

    def _shown(self) -> list[Passage]:
        """Return all passages that the model was shown, in the order of their numbers."""
        return [*self._context.passages, *(hit.passage for hit in self.hits)]

    def _note(self, passages: Sequence[Passage]) -> tuple[int, ...]:
        ids = turn_ids if self._config.placement == "turn" else note_ids
        number = len(self._shown()) + 1
        return ids(self._tokenizer, passages, first_number=number, question=self._question)


def _as_shown(passages: Sequence[Passage], hits: Sequence[Hit]) -> list[Hit]:
    """Return the hit of each passage of a prompt, in the prompt's order, with what it shows."""
    known = {_key(hit.passage): hit for hit in hits}
    return [
        replace(known.get(_key(passage)) or Hit(passage, 0.0), passage=passage)
        for passage in passages
    ]


def _key(passage: Passage) -> tuple[str, int]:
    """Return what tells a passage from others, shortened or not."""
    return (passage.id, 0) if passage.id else (passage.document, passage.start)
