"""Questions over long documents, as records; knows neither files nor models.

A case is one document with the questions asked about it, one after the other. What ``longdocs``
reads and what ``needles`` makes are cases; ``longmetrics`` scores replies to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Literal

from readahead.errors import InputError
from readahead.lm.tokenizer import Tokenizer

Metric = Literal["f1", "choice", "rouge", "contains", "recall"]
"""How a reply is scored; ``longmetrics.score`` says what each is."""

_CUT = "\ufffd"


@dataclass(frozen=True, slots=True)
class Turn:
    """One question of a case.

    Attributes:
        golds: Right answers; of a multiple choice the right letters.
        choices: The texts of a multiple choice, to be lettered from A; else empty.
        wrongs: Answers that must not be given.
        is_given: The first gold is part of the conversation; it is shown, not asked for.
    """

    question: str
    golds: tuple[str, ...]
    choices: tuple[str, ...] = ()
    wrongs: tuple[str, ...] = ()
    is_given: bool = False

    @property
    def prompt(self) -> str:
        """Return the question as a model is asked it, with the choices and their letters."""
        if not self.choices:
            return self.question
        listed = "\n".join(
            f"({letter}) {choice}"
            for letter, choice in zip(ascii_uppercase, self.choices, strict=False)
        )
        return (
            f"{self.question}\n\nChoices:\n{listed}\n\n"
            'Reply with one line: "The correct answer is (letter)".'
        )


@dataclass(frozen=True, slots=True)
class LongCase:
    """A document and what is asked about it.

    Attributes:
        document: Empty where the conversation itself is what is long.
        turns: In order; later ones follow the golds of earlier ones.
        metric: How replies to its turns are scored.
        groups: Names under which its scores are averaged, such as a task or a difficulty.
    """

    id: str
    document: str
    turns: tuple[Turn, ...]
    metric: Metric
    groups: tuple[str, ...] = ()


def keep_ends(case: LongCase, tokenizer: Tokenizer, max_document_tokens: int) -> LongCase:
    """Return the case with the middle of its document cut out, if it is longer than allowed.

    LongBench v2 and InfiniteBench cut there, as beginning and end often matter most [Bai25,
    Zhang24]. Cut before anything retrieves: who retrieves from the whole document shows its
    drafter what the target cannot see. The length is kept to within a few tokens, as those at
    the seam may merge.

    Raises:
        InputError: Nothing is allowed.
    """
    if max_document_tokens < 1:
        raise InputError(f"A document cannot be cut to {max_document_tokens} tokens.")
    token_ids = tokenizer.encode(case.document)
    if len(token_ids) <= max_document_tokens:
        return case
    num_head = (max_document_tokens + 1) // 2
    num_tail = max_document_tokens - num_head
    # A token may be a part of a character; what is left of a cut one is no text.
    head = tokenizer.decode(token_ids[:num_head]).rstrip(_CUT)
    tail = tokenizer.decode(token_ids[len(token_ids) - num_tail :]).lstrip(_CUT)
    return replace(case, document=head + tail)


def behind_history(dialogues: Sequence[LongCase], num_questions: int) -> list[LongCase]:
    """Return the last questions of the last dialogues, asked behind all that was said before.

    The earlier dialogues are one document that all cases begin with, so its KV is computed once;
    the earlier turns of a case's own dialogue follow. RAPID's chat experiment is described so,
    without code: 100 last questions behind 122K tokens [Chen25, Table 2].

    Raises:
        InputError: So many questions leave no dialogue for the history.
    """
    if not 0 < num_questions < len(dialogues):
        raise InputError(
            f"{num_questions} last questions of {len(dialogues)} dialogues leave no history.",
            remedy="Ask for at least one, and for fewer than there are dialogues.",
        )
    history = _transcript(turn for case in dialogues[:-num_questions] for turn in case.turns)
    return [
        replace(case, document=history + _transcript(case.turns[:-1]), turns=case.turns[-1:])
        for case in dialogues[-num_questions:]
    ]


def _transcript(turns: Iterable[Turn]) -> str:
    return "".join(
        f"User: {turn.question}\n\nAssistant: {' '.join(turn.golds[:1])}\n\n" for turn in turns
    )
