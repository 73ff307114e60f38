"""The settings in which questions over long documents are answered, as a user names them.

    plain           the target decodes alone
    rag-only        the drafter decodes alone, over the passages that were retrieved
    lookup          tokens are copied; exact, as are the next two
    rag             the drafter drafts
    hybrid          both
    augmented:η     the drafter drafts, and the law of acceptance is another; likewise
    paper:η         the published one
    dynamic:η       ``augmented``, η weakened by retrieval and agreement; see ``transfer``
    ensemble:w      the plain alternative

A number that is left out is that of the settings, or of a preset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from readahead.errors import InputError
from readahead.speculation.tokens.acceptance import Rule

Kind = Literal[
    "plain", "rag-only", "lookup", "rag", "hybrid", "augmented", "paper", "dynamic", "ensemble"
]
ALONE = ("plain", "rag-only")
EXACT = ("plain", "lookup", "rag", "hybrid")
DEFAULT_SETTINGS = "plain rag-only lookup rag hybrid augmented paper dynamic ensemble"


@dataclass(frozen=True, slots=True)
class Setting:
    """A way to answer.

    Attributes:
        name: As it was asked for.
        rule: How draft tokens are accepted.
    """

    name: str
    kind: Kind
    rule: Rule = Rule()

    @property
    def is_exact(self) -> bool:
        """Return whether its tokens have the target's own law."""
        return self.kind in EXACT


def read_settings(
    text: str, *, eta: float, weight: float = 0.8, tail: float = 0.1
) -> list[Setting]:
    """Return the settings that a list names, separated by spaces or commas, each once.

    Args:
        text: Such as ``plain augmented:5``.
        eta: Where none is given.
        weight: Of the target in ``ensemble``, where none is given.
        tail: Of ``augmented``, ``paper`` and ``dynamic``.

    Raises:
        InputError: There is no such setting, or its number is out of range.
    """
    names = dict.fromkeys(text.replace(",", " ").split())
    if not names:
        raise InputError("No setting is named.", remedy=f"Use some of: {DEFAULT_SETTINGS}.")
    return [_setting(name, eta, weight, tail) for name in names]


def _setting(name: str, eta: float, weight: float, tail: float) -> Setting:
    head, colon, number = name.partition(":")
    kind: Kind | None = next((one for one in get_args(Kind) if one == head), None)
    if kind is None or (colon and kind in (*EXACT, "rag-only")):
        raise InputError(
            f"There is no setting {name!r}.",
            remedy=f"Use some of: {DEFAULT_SETTINGS}; the last four may have a number: augmented:5",
        )
    try:
        value = float(number) if colon else weight if kind == "ensemble" else eta
    except ValueError:
        raise InputError(f"In the setting {name!r}, {number!r} is no number.") from None
    match kind:
        case "augmented" | "paper":
            return Setting(name, kind, Rule(kind, eta=value, tail=tail))
        case "dynamic":
            return Setting(name, kind, Rule("augmented", eta=value, tail=tail, is_dynamic=True))
        case "ensemble":
            return Setting(name, kind, Rule(kind, weight=value))
        case _:
            return Setting(name, kind)
