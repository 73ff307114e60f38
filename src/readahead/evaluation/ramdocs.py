"""Questions over passages that contradict each other, and how right a reply to one is.

Read are the form of RAMDocs [Wang25], whose questions bring their documents along and may have
several right answers at once, and those of ``datasets``, whose passages have to be retrieved.

A reply is judged by the answers that stand in it, whole tokens against whole tokens:

    strict = every gold answer and no wrong one
    clean  = at least one gold answer and no wrong one

RAMDocs looks for the lower-cased answer anywhere in the lower-cased reply. Here, as in ``metrics``,
articles, punctuation and the width of characters make no difference, and "7" does not stand in
"1977": fewer right answers are missed, and fewer are found by chance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from readahead.config import Config
from readahead.errors import InputError
from readahead.evaluation.datasets import (
    Question,
    objects_at,
    read_lines,
    read_questions,
    read_text,
    strings_at,
    text_at,
)
from readahead.evaluation.metrics import contains, exact_match
from readahead.evidence import Markers
from readahead.knowledge import KnowledgeBase
from readahead.types import Hit, Passage

_FORM = (
    'A line is like {"question": "…", "documents": [{"text": "…"}], "gold_answers": ["…"], '
    '"wrong_answers": ["…"]}.'
)
_DOCUMENTS_RE = re.compile(r'"documents"\s*:')


@dataclass(frozen=True, slots=True)
class Case:
    """A question, what may be read for it, and what is right.

    Attributes:
        golds: Each right answer in all its spellings; none: an abstention is right.
        wrongs: Answers that must not be given; none of them equals a right one.
        hits: Best first; empty where they have yet to be retrieved, or nothing was found.
        brings_hits: Whether the file itself said what may be read.
    """

    question: str
    golds: tuple[tuple[str, ...], ...]
    wrongs: tuple[str, ...] = ()
    hits: tuple[Hit, ...] = ()
    brings_hits: bool = False

    @classmethod
    def of(cls, question: Question) -> Case:
        """Return the case of a question whose answers are spellings of one."""
        return cls(question.text, (question.answers,) if question.answers else ())


@dataclass(frozen=True, slots=True)
class Score:
    """How right one reply is."""

    strict: bool
    clean: bool
    contains_gold: bool
    names_wrong: bool
    abstained: bool


def read_cases(path: Path) -> list[Case]:
    """Return the questions of a file, in order.

    Raises:
        NotFound: There is no such file.
        InputError: The file or a line of it is not what it should be; the message says where.
    """
    first = next((line for line in read_text(path).split("\n") if line.strip()), "")
    if not _DOCUMENTS_RE.search(first):
        return [Case.of(question) for question in read_questions(path)]
    numbers = count(1)
    return list(read_lines(path, lambda record: _case(record, next(numbers)), _FORM))


def find_passages(cases: Sequence[Case], config: Config, file: Path | None = None) -> list[Case]:
    """Return the cases, those that do not bring hits along with what is retrieved for them.

    Args:
        cases: Their questions are searched for.
        config: Says how, and how many passages (``drafts.num_passages``).
        file: Holds the passages; None: the knowledge base of the settings does.

    Raises:
        NotFound: There is no such knowledge base, or no embedding model.
        InputError: The file cannot be read.
    """
    if all(case.brings_hits for case in cases):
        return list(cases)
    k = config.drafts.num_passages
    with _knowledge(config, file) as knowledge:
        return [
            case
            if case.brings_hits
            else replace(case, hits=tuple(knowledge.search(case.question, k)))
            for case in cases
        ]


@contextmanager
def _knowledge(config: Config, file: Path | None) -> Iterator[KnowledgeBase]:
    """Open the knowledge base of the settings, or a temporary one of a file."""
    if file is None:
        with KnowledgeBase.open(config, create=False) as knowledge:
            yield knowledge
        return
    with TemporaryDirectory() as folder:
        elsewhere = config.model_copy(update={"kb": Path(folder)})
        with KnowledgeBase.open(elsewhere) as knowledge:
            for failure in knowledge.add([file]).failed:
                raise InputError(
                    f"The passages of {failure.path} cannot be read: {failure.reason}."
                )
            yield knowledge


def score(case: Case, text: str, *, abstained: bool = False) -> Score:
    """Return how right a reply is; an abstention says nothing, whatever its words.

    Citation markers do not count: the number of one may be a wrong answer.
    """
    if abstained:
        right = not case.golds
        return Score(right, right, False, False, True)
    said = Markers.read(text).text
    found = [bool(contains(said, spellings)) for spellings in case.golds]
    is_wrong = bool(contains(said, case.wrongs))
    return Score(
        strict=bool(found) and all(found) and not is_wrong,
        clean=any(found) and not is_wrong,
        contains_gold=any(found),
        names_wrong=is_wrong,
        abstained=False,
    )


def _case(record: dict[str, object], number: int) -> Case:
    golds = [gold for gold in strings_at(record, "gold_answers") if gold.strip()]
    if not golds:
        raise ValueError('"gold_answers" names no answer')
    texts = [text_at(document, "text") for document in objects_at(record, "documents")]
    if not texts:
        raise ValueError('"documents" is empty')
    return Case(
        question=text_at(record, "question"),
        golds=tuple((gold,) for gold in golds),
        wrongs=tuple(
            wrong
            for wrong in strings_at(record, "wrong_answers")
            if wrong.strip() and not exact_match(wrong, golds)
        ),
        hits=tuple(_hit(text, number, place) for place, text in enumerate(texts)),
        brings_hits=True,
    )


def _hit(text: str, number: int, place: int) -> Hit:
    """Return a document as a hit; the order of the file is its ranking."""
    passage = Passage(str(place), text, 0, len(text), id=f"{number}.{place}")
    return Hit(passage, score=1 / (1 + place))
