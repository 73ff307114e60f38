"""Say what is wrong with the answers of a round, for the drafter to do better; runs no model.

When nothing is selected: which of the answers no passage holds, or only one, and what another says
instead. That becomes one line behind the question of a further round, and the next drafts know it.
That line is a hint and no evidence: the new drafts are looked up and rated like the first ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readahead.lm.prompt import CHINESE, wording
from readahead.speculation.answers.choose import Rated
from readahead.text import words
from readahead.types import Draft, Hit

MAX_FINDINGS = 3
MAX_QUOTED_WORDS = 12


@dataclass(frozen=True, slots=True)
class _Wording:
    """What is said of earlier answers, in one language."""

    whole: str
    separator: str
    too_long: str
    nowhere: str
    instead: str
    alone: str


_ENGLISH = _Wording(
    whole="Earlier answers were not good enough: {}. Go by the passages alone.",
    separator="; ",
    too_long="{} is too long",
    nowhere="{} stands in no passage",
    instead="passage {} says {}, not {}",
    alone="only passage {} says {}",
)
_CHINESE = _Wording(
    whole="之前的回答不够好：{}。只根据段落回答。",
    separator="；",
    too_long="{}太长",
    nowhere="{}不在任何段落中",
    instead="段落{}说的是{}，不是{}",
    alone="只有段落{}提到{}",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What speaks against an answer.

    Attributes:
        place: Of the passage that it is about, from 0; None: no passage holds the answer.
        instead: What that passage says; "" if it says the same, but hardly any other does.
        is_cut: Whether the answer was too long to be written out.
    """

    answer: str
    place: int | None = None
    instead: str = ""
    is_cut: bool = False


def find_faults(
    rated: Sequence[Rated], drafts: Sequence[Draft], hits: Sequence[Hit]
) -> list[Finding]:
    """Return what speaks against the answers of a round, the most probable one first.

    Nothing is found where all drafts decline: to ask again for what they did not see would ask
    them to make it up.
    """
    found: list[Finding] = []
    for one in rated[:MAX_FINDINGS]:
        answer = one.candidate.answer
        if one.claim.conflicting:
            first = one.claim.conflicting[0]
            passage = hits[first.passage].passage
            said = passage.text[first.start - passage.start : first.end - passage.start]
            found.append(Finding(answer, first.passage, said))
        elif len(one.candidate.held) == 1:
            found.append(Finding(answer, one.candidate.held[0].place))
        elif not one.candidate.held:
            found.append(Finding(answer))
    cut = (Finding(draft.answer, is_cut=True) for draft in drafts if draft.fault == "cut")
    return [*found, *cut][:MAX_FINDINGS]


def feedback(question: str, findings: Sequence[Finding]) -> str:
    """Return the line for the drafter, in the question's language; "" if there is nothing to say.

    Passages are counted from 1, in the order in which they were retrieved.
    """
    if not findings:
        return ""
    phrases = _CHINESE if wording(question) is CHINESE else _ENGLISH
    said = dict.fromkeys(_said(phrases, finding) for finding in findings)
    return phrases.whole.format(phrases.separator.join(said))


def _said(phrases: _Wording, finding: Finding) -> str:
    answer = f"“{_short(finding.answer)}”"
    if finding.is_cut:
        return phrases.too_long.format(answer)
    if finding.place is None:
        return phrases.nowhere.format(answer)
    number = finding.place + 1
    if finding.instead:
        return phrases.instead.format(number, _short(finding.instead), answer)
    return phrases.alone.format(number, answer)


def _short(text: str) -> str:
    """Return the first words of a text, on one line."""
    ends = [end for _, end in words(text)]
    kept = text if len(ends) <= MAX_QUOTED_WORDS else f"{text[: ends[MAX_QUOTED_WORDS - 1]]} …"
    return " ".join(kept.split())
