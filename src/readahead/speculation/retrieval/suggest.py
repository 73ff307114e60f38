"""Guess the next question of a conversation: what a drafter writes, and search supports.

Knows no threads and no cache. A suggestion is a guess like any other: it costs time between turns,
and changes nothing unless it is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from readahead.lm.prompt import CHINESE, Context, Part, wording
from readahead.lm.tokenizer import Tokenizer
from readahead.text import fold, num_words
from readahead.types import Hit, Passage

MAX_SUGGESTION_WORDS = 24
MIN_SUGGESTION_WORDS = 3
MIN_SIMILARITY = 0.45
MAX_NEIGHBOURS = 4

# "1. ", "- ", "Q: " and the like in front of a question.
_BULLET = re.compile(
    r"^[\s\-*•·–—\"“「]*(?:\d+\s*[.)、:：]|Q(?:uestion)?\s*\d*\s*[:：]|问题\s*\d*\s*[:：])?[\s\"“「]*"
)
_CLOSERS = ' "”」*'
_MARKS = "?？"


def asking(
    tokenizer: Tokenizer, context: Context, question: str, neighbours: Sequence[Passage], num: int
) -> tuple[Part, ...]:
    """Return the parts that ask the drafter, behind the conversation, for the next questions.

    Args:
        tokenizer: The drafter's.
        context: The turns so far, the last of them just answered.
        question: The last one; its language is that of the suggestions.
        neighbours: Passages that were found and not shown; their headings are named.
        num: How many questions to ask for.
    """
    words = wording(question)
    _, tail = tokenizer.frame(words.instructions)
    named = dict.fromkeys(" > ".join(p.heading[-1:]) or p.document for p in neighbours)
    headings = "; ".join(list(named)[:MAX_NEIGHBOURS])
    if words is CHINESE:
        request = f"写出{num}个我接下来可能会问的简短问题，每行一个。"
        hint = f"还可以问：{headings}。" if headings else ""
    else:
        request = f"Write {num} short questions that I may ask next, one a line."
        hint = f" There is also something on: {headings}." if headings else ""
    return (
        *context.parts,
        Part(tuple(tokenizer.encode_control(tokenizer.turn()))),
        Part(tuple(tokenizer.encode(request + hint))),
        Part(tuple(tokenizer.encode_control(tail))),
    )


def read_questions(text: str, asked: Sequence[str]) -> Iterator[str]:
    """Yield the questions in what the drafter wrote, without those asked before and repetitions."""
    seen = {_bare(question) for question in asked}
    for line in text.splitlines():
        question = _BULLET.sub("", line, count=1).rstrip(_CLOSERS)
        is_question = question[-1:] in _MARKS and question[:-1].count("?") == 0
        has_length = MIN_SUGGESTION_WORDS <= num_words(question) <= MAX_SUGGESTION_WORDS
        if question and is_question and has_length and _bare(question) not in seen:
            seen.add(_bare(question))
            yield question


def is_supported(hits: Sequence[Hit]) -> bool:
    """Return whether the best passage is about a suggestion: nobody is offered a dead end.

    Without vectors there is no measure that means the same for all questions: then it is enough
    that anything was found.
    """
    if not hits:
        return False
    similarity = hits[0].similarity
    return similarity is None or similarity >= MIN_SIMILARITY


def _bare(question: str) -> str:
    return "".join(char for char in fold(question) if char.isalnum())
