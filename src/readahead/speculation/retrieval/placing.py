"""Where injected passages stand among the tokens that a model reads; decides nothing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from readahead.evidence.terms import read_terms
from readahead.lm.prompt import CHINESE, passage_text, wording
from readahead.lm.tokenizer import Tokenizer
from readahead.text import sentences, words
from readahead.types import Passage

MIN_TOKENS = 24  # a passage cut shorter than that says nothing
# Without an end, small models go on with one more passage of the list.
_NOTE = ("\n[note] Further passages:\n", "[end of note]\nAnswer: ")
_CHINESE_NOTE = ("\n[注] 补充段落：\n", "[注完]\n回答：")


@dataclass(slots=True)
class Layout:
    """A prompt, the answer behind it, and notes within the answer.

    Attributes:
        notes: Token ids, each with the number of answer tokens in front of it, in order.
    """

    prompt_ids: tuple[int, ...]
    notes: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)

    def add_note(self, place: int, note: tuple[int, ...]) -> None:
        """Put a note behind ``place`` answer tokens, never in front of an earlier note."""
        last = self.notes[-1][0] if self.notes else 0
        self.notes.append((max(place, last), note))

    def ids(self, answer_ids: Sequence[int]) -> list[int]:
        """Return all token ids in the order in which they are read."""
        ids = list(self.prompt_ids)
        done = 0
        for place, note in self.notes:
            ids += [*answer_ids[done:place], *note]
            done = place
        return [*ids, *answer_ids[done:]]


def note_ids(
    tokenizer: Tokenizer, passages: Sequence[Passage], *, first_number: int, question: str
) -> tuple[int, ...]:
    """Return the tokens of a marked note, in the language of ``question``.

    Everything in it is text: no passage can become a control token.
    """
    begin, end = _CHINESE_NOTE if wording(question) is CHINESE else _NOTE
    return (
        *tokenizer.encode(begin),
        *_passage_ids(tokenizer, passages, first_number),
        *tokenizer.encode(end),
    )


def turn_ids(
    tokenizer: Tokenizer, passages: Sequence[Passage], *, first_number: int, question: str
) -> tuple[int, ...]:
    """Return the tokens that end the model's turn and ask again, behind the passages."""
    words = wording(question)
    _, tail = tokenizer.frame(words.instructions)
    return (
        *tokenizer.encode_control(tokenizer.turn()),
        *_passage_ids(tokenizer, passages, first_number),
        *tokenizer.encode(f"{words.question}{question}"),
        *tokenizer.encode_control(tail),
    )


def _passage_ids(
    tokenizer: Tokenizer, passages: Sequence[Passage], first_number: int
) -> Iterator[int]:
    for number, passage in enumerate(passages, start=first_number):
        yield from tokenizer.encode(passage_text(number, passage))


def num_tokens(tokenizer: Tokenizer, passage: Passage, number: int) -> int:
    """Return how many tokens a passage takes, its number and heading included."""
    return len(tokenizer.encode(passage_text(number, passage)))


def shortened(
    tokenizer: Tokenizer, passage: Passage, *, number: int, max_tokens: int, question: str = ""
) -> Passage | None:
    """Return ``passage`` or the part of it that fits into ``max_tokens``; None if hardly any does.

    Of the parts that begin with a sentence and end behind a word, it is the one that says most of
    the question's words, the first of equals. It is a span of the stored text, so it can be cited.
    """
    if num_tokens(tokenizer, passage, number) <= max_tokens:
        return passage
    if max_tokens < MIN_TOKENS:
        return None
    asked = read_terms(question).content
    parts = [
        part
        for start, _ in sentences(passage.text)
        if (part := _beginning(tokenizer, passage, start, number, max_tokens)) is not None
    ]
    return max(parts, key=lambda part: len(asked & read_terms(part.text).held), default=None)


def _beginning(
    tokenizer: Tokenizer, passage: Passage, start: int, number: int, max_tokens: int
) -> Passage | None:
    """Return what fits of ``passage`` from ``start`` on, up to the end of a word."""

    def size(end: int) -> int:
        return num_tokens(tokenizer, _cut(passage, start, end), number)

    ends = [end for _, end in words(passage.text) if end > start]
    fitting = bisect_right(ends, max_tokens, key=size)
    return _cut(passage, start, ends[fitting - 1]) if fitting else None


def _cut(passage: Passage, start: int, end: int) -> Passage:
    return replace(
        passage,
        text=passage.text[start:end],
        start=passage.start + start,
        end=passage.start + end,
    )
