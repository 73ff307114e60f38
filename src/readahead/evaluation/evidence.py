"""Measure how often the evidence checker is right, on labelled claims and on edited sentences.

Claims are in the form of WiCE [Kamoi23]: JSON Lines of ``{"claim", "label", "evidence"}``, the
evidence a list of sentences, supported told from the rest: by the score,
which a claim may pass whose verdict is only ``partly`` because a value in it is not stated.

    balanced accuracy = ½ (supported found / supported + others found / others)
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from readahead.errors import InputError
from readahead.evaluation.datasets import read_lines
from readahead.evaluation.edits import edited
from readahead.evidence.claims import Checker, Claim, Judge
from readahead.types import Passage

SUPPORTED = "supported"
LABELS = (SUPPORTED, "partially_supported", "not_supported")
SEED = 0

_FORM = (
    'A line is like {"claim": "…", "label": "supported", "evidence": ["…", "…"]}; the label is '
    f"{', '.join(LABELS[:-1])} or {LABELS[-1]}."
)


@dataclass(frozen=True, slots=True)
class LabelledClaim:
    """A claim, and what people found that its evidence says.

    Attributes:
        evidence: The sentences of one document.
        group: Claims of the same group are about the same; empty if not known.
    """

    text: str
    label: str
    evidence: tuple[str, ...]
    group: str = ""

    def passage(self) -> Passage:
        """Return the evidence as one passage."""
        text = "\n\n".join(self.evidence)
        return Passage("evidence", text, 0, len(text))


@dataclass(frozen=True, slots=True)
class EvidenceReport:
    """How often verdicts are right.

    Attributes:
        base_rate: The share of claims that are supported.
        true_positives: Supported, and found to be; ``false_positives`` are not supported.
        edits_caught: Of the evidence's own sentences with one value changed, the share that is
            found contradicted, or to state a value that stands nowhere; 0 without edits.
        false_alarms: The share of the same sentences, unchanged, of which that is said.
    """

    balanced_accuracy: float
    n: int
    base_rate: float
    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int
    num_edits: int
    edits_caught: float
    false_alarms: float

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON values."""
        return asdict(self)


def read_claims(path: Path) -> list[LabelledClaim]:
    """Return the claims of a file, in order.

    Raises:
        NotFound: There is no such file.
        InputError: The file or a line of it is not what it should be; the message says where.
    """
    claims = list(read_lines(path, _claim, _FORM))
    if not claims:
        raise InputError(f"{path} holds no claim.", remedy=_FORM)
    return claims


def evaluate_evidence(
    claims: Sequence[LabelledClaim],
    *,
    judge: Judge | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> EvidenceReport:
    """Check every claim, and one sentence of every evidence unchanged and edited.

    Args:
        claims: What is to be told.
        judge: A second opinion on the claims.
        progress: Told how many are done, of how many.
    """
    generator = random.Random(SEED)
    pairs: list[tuple[bool, bool]] = []
    alarms: list[tuple[bool, bool]] = []
    for number, claim in enumerate(claims, start=1):
        checker = Checker([claim.passage()], judge=judge)
        found = checker.check(claim.text)
        pairs.append((claim.label == SUPPORTED, found.score >= checker.threshold))
        alarms += _alarms(checker, claim.evidence, generator)
        if progress is not None:
            progress(number, len(claims))
    return _report(pairs, alarms)


def is_alarm(claim: Claim) -> bool:
    """Return whether a value of the claim is contradicted, or stands nowhere."""
    return claim.verdict == "contradicted" or claim.features.get("values", 1.0) > 0


def _alarms(
    checker: Checker, sentences: Sequence[str], generator: random.Random
) -> list[tuple[bool, bool]]:
    """Return whether a sentence of the evidence raises an alarm, and whether its edit does."""
    for sentence in generator.sample(sentences, len(sentences)):
        edit = edited(sentence, generator)
        if edit is not None:
            return [(is_alarm(checker.check(sentence)), is_alarm(checker.check(edit.text)))]
    return []


def _report(
    pairs: Sequence[tuple[bool, bool]], alarms: Sequence[tuple[bool, bool]]
) -> EvidenceReport:
    positives, negatives = pairs.count((True, True)), pairs.count((False, False))
    missed, wrong = pairs.count((True, False)), pairs.count((False, True))
    rates = [
        right / (right + others)
        for right, others in ((positives, missed), (negatives, wrong))
        if right + others
    ]
    num_alarms = max(1, len(alarms))
    return EvidenceReport(
        balanced_accuracy=sum(rates) / len(rates) if rates else 0.0,
        n=len(pairs),
        base_rate=(positives + missed) / max(1, len(pairs)),
        true_positives=positives,
        false_positives=wrong,
        true_negatives=negatives,
        false_negatives=missed,
        num_edits=len(alarms),
        edits_caught=sum(caught for _, caught in alarms) / num_alarms,
        false_alarms=sum(false for false, _ in alarms) / num_alarms,
    )


def _claim(record: dict[str, object]) -> LabelledClaim:
    text, label, evidence = record.get("claim"), record.get("label"), record.get("evidence")
    if not isinstance(text, str) or not text.strip():
        raise ValueError('"claim" is missing or empty')
    if label not in LABELS:
        raise ValueError(f'"label" is {json.dumps(label)[:40]}')
    if not isinstance(evidence, list) or not all(isinstance(one, str) for one in evidence):
        raise ValueError('"evidence" is not a list of texts')
    meta = record.get("meta")
    group = meta.get("claim_title", "") if isinstance(meta, dict) else ""
    return LabelledClaim(text, str(label), tuple(evidence), str(group))
