"""Score replies to questions over long documents; knows nothing about where they come from.

    f1        token F1 as SQuAD and InfiniteBench define it, Chinese by character [Rajpurkar16]
    choice    1 if the reply chooses a right letter
    rouge     ROUGE-L over summaries, F1 [Lin04, §3.2]
    contains  1 if a right answer stands in the reply, and no wrong one
    recall    the share of the right answers that stand in the reply

Each is in [0, 1]; the best of several right answers counts, but for recall, which asks for all.
InfiniteBench splits Latin letters and digits of Chinese answers into characters, too; here they
stay words, as everywhere in ``metrics``.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from string import ascii_uppercase

from readahead.evaluation.longcases import Metric, Turn
from readahead.evaluation.metrics import contains, token_f1
from readahead.text import is_cjk

_MARKUP_RE = re.compile(r"[*`_\"“”$]|\\boxed|\\text")


def score(metric: Metric, turn: Turn, reply: str) -> float:
    """Return how right a reply to a turn is, in [0, 1]."""
    match metric:
        case "f1":
            return token_f1(reply, turn.golds)
        case "choice":
            return float(chosen_letter(reply, turn.choices) in turn.golds)
        case "rouge":
            return max((rouge_l_sum(reply, gold) for gold in turn.golds), default=0.0)
        case "contains":
            return float(stands(reply, turn.golds) and not stands(reply, turn.wrongs))
        case "recall":
            found = [stands(reply, [gold]) for gold in turn.golds]
            return sum(found) / len(found) if found else 0.0


def stands(reply: str, answers: Sequence[str]) -> bool:
    """Return whether one of the answers stands in the reply, in whole words.

    Punctuation is taken out, so that "1,000" is "1000", or else taken for a space, so that
    "7432517，4594661" are two numbers.
    """
    said = f" {_spaced(reply)} "
    return bool(contains(reply, answers)) or any(
        f" {words} " in said for answer in answers if (words := _spaced(answer))
    )


def chosen_letter(reply: str, choices: Sequence[str]) -> str:
    """Return the letter that a reply chooses, "" if it chooses none.

    In this order: the first letter that it states ("The correct answer is (B)", "Answer: B",
    "答案是B"); a letter that it begins with; the only letter in brackets; the only letter that
    stands alone; the only choice whose text stands in it. "A" before a lower-case word is an
    article. Departs from LongBench v2, which takes a stated letter only [Bai25], and from
    InfiniteBench, which takes the first capital at the start even of a word [Zhang24].
    """
    letters = ascii_uppercase[: len(choices)]
    if not letters:
        return ""
    text = _MARKUP_RE.sub("", unicodedata.normalize("NFKC", reply)).strip()
    stated, leading, bracketed, alone = _patterns(letters)
    for pattern in (stated, leading):
        if found := pattern.search(text):
            return str(found[1])
    for pattern in (bracketed, alone):
        if said := set(pattern.findall(text)):
            return str(said.pop()) if len(said) == 1 else ""
    return _letter_of_text(text, choices)


@lru_cache(maxsize=32)
def _patterns(letters: str) -> tuple[re.Pattern[str], ...]:
    """Return what finds a stated letter, a leading one, one in brackets, and one that is alone."""
    letter = rf"([{letters}])(?![A-Za-z0-9'’])"
    alone = rf"(?<![A-Za-z0-9'’]){letter}(?!(?<=A) [a-z])"
    opened = r"\s*[(\[{【<]?\s*"
    english = r"(?i:\b(?:answer|option|choice)\s*(?:is|:|=)\s*:?(?:\s*(?:the|option|choice)\b)*)"
    named = r"(?:答案|正[确確][选選][项項]|[应應我]?[选選][择擇]?)"
    chinese = rf"{named}(?:[应應][该該]?)?[是为為]?\s*:?(?:[选選][项項])?"
    return (
        re.compile(f"(?:{english}|{chinese}){opened}{letter}"),
        re.compile(rf"\A(?i:option|choice|[选選][项項])?{opened}{alone}"),
        re.compile(rf"[(\[{{【<]\s*{letter}\s*[)\]}}】>]"),
        re.compile(alone),
    )


def _letter_of_text(text: str, choices: Sequence[str]) -> str:
    """Return the letter of the choice that stands in the text; the longest, if it holds the rest.

    "Ann Lee" holds "Ann"; if both are choices, a reply that says the former means the former.
    """
    said = [
        (choice, letter)
        for letter, choice in zip(ascii_uppercase, choices, strict=False)
        if contains(text, [choice])
    ]
    longest = max(said, key=lambda item: len(item[0]), default=("", ""))
    others = [choice for choice, letter in said if letter != longest[1]]
    return longest[1] if all(contains(longest[0], [other]) for other in others) else ""


def rouge_l_sum(reply: str, gold: str) -> float:
    """Return the F1 of the words of a reply that stand in a gold summary in the same order.

        hits = Σ_i |∪_j LCS(g_i, r_j)|     P = hits / |r|     R = hits / |g|     F1 = 2PR / (P + R)

    g_i, r_j: the lines of the gold summary and of the reply, which stand for sentences; one word
    counts as a hit no more often than each of the two has it. No stemming; each CJK character is
    a word. On English it equals the measure of the package ``rouge-score``, which InfiniteBench
    reports.   [Lin04, §3.2]

    Takes time and memory in proportion to the product of the two lengths.
    """
    gold_lines, reply_lines = _lines(gold), _lines(reply)
    num_gold, num_reply = sum(map(len, gold_lines)), sum(map(len, reply_lines))
    free_gold = Counter(word for line in gold_lines for word in line)
    free_reply = Counter(word for line in reply_lines for word in line)
    num_hits = 0
    for line in gold_lines:
        positions = set().union(*(_common(line, said) for said in reply_lines))
        for word in (line[position] for position in sorted(positions)):
            if free_gold[word] and free_reply[word]:
                free_gold[word] -= 1
                free_reply[word] -= 1
                num_hits += 1
    return 2 * num_hits / (num_gold + num_reply) if num_hits else 0.0


def _lines(text: str) -> list[list[str]]:
    lines = (_spaced(line).split() for line in text.split("\n"))
    return [words for words in lines if words]


def _spaced(text: str) -> str:
    """Return the words of a text with one space between them; each CJK character is a word."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    apart = (f" {char} " if is_cjk(char) else char if char.isalnum() else " " for char in folded)
    return " ".join("".join(apart).split())


def _common(gold: Sequence[str], said: Sequence[str]) -> set[int]:
    """Return the positions in ``gold`` of a longest subsequence that it has in common."""
    lengths = [[0] * (len(said) + 1)]
    for word in gold:
        above, row = lengths[-1], [0]
        for j, other in enumerate(said):
            row.append(above[j] + 1 if word == other else max(above[j + 1], row[j]))
        lengths.append(row)
    positions: set[int] = set()
    i, j = len(gold), len(said)
    # There may be several; at a tie the gold word goes first, as in the package.
    while i and j:
        if gold[i - 1] == said[j - 1]:
            positions.add(i - 1)
            i, j = i - 1, j - 1
        elif lengths[i][j - 1] > lengths[i - 1][j]:
            j -= 1
        else:
            i -= 1
    return positions
