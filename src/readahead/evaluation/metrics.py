"""Score answers and rankings against what is right; knows nothing about where they come from.

English is compared as in SQuAD, without case, punctuation and articles; Chinese character by
character. Half-width and full-width forms are the same.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

from readahead.errors import missing_extra
from readahead.text import is_cjk

_ARTICLES = frozenset({"a", "an", "the"})


def normalize(text: str) -> list[str]:
    """Return the tokens that count: words without articles, and single CJK characters."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(char for char in folded if unicodedata.category(char)[0] not in "PS")
    spaced = "".join(f" {char} " if is_cjk(char) else char for char in kept)
    return [token for token in spaced.split() if token not in _ARTICLES]


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """Return 1.0 if the prediction equals one of the answers, else 0.0."""
    return _best(lambda said, gold: float(said == gold), prediction, answers)


def token_f1(prediction: str, answers: Sequence[str]) -> float:
    """Return the best harmonic mean of precision and recall over the tokens, in [0, 1]."""
    return _best(_f1, prediction, answers)


def contains(prediction: str, answers: Sequence[str]) -> float:
    """Return 1.0 if one of the answers stands in the prediction, in whole tokens, else 0.0."""
    return _best(_contains, prediction, answers)


def ranking(ranks: Sequence[int | None], ks: Sequence[int]) -> dict[str, float]:
    """Return ``recall@k`` for each k, and ``mrr``.

    Args:
        ranks: For each question the rank of the first right hit, from 1; None if there is none.
        ks: How many of the hits count.

    Raises:
        ConfigError: The package ``ir_measures`` is not installed.
    """
    try:
        import ir_measures
    except ImportError:
        raise missing_extra("ir-measures", "eval") from None
    qrels = [ir_measures.Qrel(str(i), "right", 1) for i in range(len(ranks))]
    run = [
        ir_measures.ScoredDoc(str(i), "right" if place == rank else str(place), -place)
        for i, rank in enumerate(ranks)
        for place in range(1, (rank or 1) + 1)
    ]
    names = {ir_measures.R @ k: f"recall@{k}" for k in ks} | {ir_measures.RR: "mrr"}
    values = ir_measures.calc_aggregate(list(names), qrels, run) if ranks else {}
    return {name: float(values.get(measure, 0.0)) for measure, name in names.items()}


def _best(
    score: Callable[[list[str], list[str]], float], prediction: str, answers: Sequence[str]
) -> float:
    said = normalize(prediction)
    return max((score(said, normalize(answer)) for answer in answers), default=0.0)


def _f1(said: list[str], gold: list[str]) -> float:
    if not said or not gold:
        return float(said == gold)
    num_common = sum((Counter(said) & Counter(gold)).values())
    return 2 * num_common / (len(said) + len(gold))


def _contains(said: list[str], gold: list[str]) -> float:
    if not gold:
        return float(said == gold)
    return float(f" {' '.join(gold)} " in f" {' '.join(said)} ")
