"""Compare ways to answer questions over long documents: how right, how many draft tokens are kept.

All settings answer every question, in turns, in one process; a document is read once.
Rates are over all draft tokens of all answers together, seconds are means over answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import fmean, stdev

from readahead.errors import InputError
from readahead.evaluation.answers import FailedQuestion
from readahead.evaluation.longcases import LongCase
from readahead.evaluation.longmetrics import score
from readahead.evaluation.longread import Long, ask
from readahead.evaluation.rapidrun import Run, Runner
from readahead.evaluation.rapidsettings import ALONE, Setting
from readahead.retrieval.base import Embedder
from readahead.speculation.tokens.tally import Tally

PLAIN = "plain"
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean score with its standard error, 0 where there is one answer only."""

    mean: float
    stderr: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Return that of one value or more."""
        n = len(values)
        return cls(fmean(values), stdev(values) / sqrt(n) if n > 1 else 0.0, n)


@dataclass(frozen=True, slots=True)
class Figures:
    """What one setting comes to.

    Attributes:
        scores: By metric.
        groups: By group of cases, such as a task or a difficulty.
        acceptance_rate: Accepted draft tokens / draft tokens; None where nothing was drafted, like
            the next two. 0 where a governor let nothing be drafted.
        mean_acceptance_length: 1 + accepted draft tokens / rounds with a draft, as vLLM has it.
        acceptance_by_position: Of the draft tokens at each place of a proposal, those accepted.
        tokens_per_forward: 1 + accepted draft tokens / forward passes of the target; None of the
            drafter alone.
        mean_gap: Total variation between a token's law and the target's, mean over tokens; None of
            the drafter alone, whose law is its own.
        identical_share: Answers that are those of ``plain``, token for token; None where that was
            not asked, the tokens are drawn, or the setting does not promise it.
        seconds: Means over answers, by part; ``index_s`` and the two of prefill count in full for
            each, though a document is read once.
        token_s: What a token took after the first ones.
    """

    scores: Mapping[str, Mean]
    groups: Mapping[str, Mean]
    acceptance_rate: float | None
    mean_acceptance_length: float | None
    acceptance_by_position: tuple[float, ...] | None
    tokens_per_forward: float | None
    mean_gap: float | None
    identical_share: float | None
    num_prompt_tokens: float
    num_drafter_tokens: float
    num_new_tokens: float
    seconds: Mapping[str, float]
    token_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """One question, and what came of it in each setting."""

    case: LongCase
    number: int
    runs: Mapping[str, Run]

    def score(self, name: str) -> float:
        """Return how right a setting's answer is."""
        return score(self.case.metric, self.case.turns[self.number], self.runs[name].text)

    def to_json(self) -> dict[str, object]:
        """Return it as JSON values."""
        turn = self.case.turns[self.number]
        replies = {
            name: {"text": run.text, "score": self.score(name)} for name, run in self.runs.items()
        }
        return {
            "id": self.case.id,
            "question": turn.question,
            "golds": list(turn.golds),
            "replies": replies,
        }


@dataclass(frozen=True, slots=True)
class RapidReport:
    """How settings compare over the questions that all of them could be asked.

    Attributes:
        settings: Their figures, by name.
        failed: Questions that cannot be asked, for instance because they are too long.
    """

    settings: Mapping[str, Figures]
    rows: tuple[Row, ...]
    failed: tuple[FailedQuestion, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the report as JSON values."""
        return {
            "num_questions": len(self.rows),
            "settings": {name: asdict(figures) for name, figures in self.settings.items()},
            "questions": [row.to_json() for row in self.rows],
            "failed": [asdict(failure) for failure in self.failed],
        }


def evaluate_rapid(
    cases: Sequence[LongCase],
    runner: Runner,
    settings: Sequence[Setting],
    *,
    max_context_tokens: int | None = None,
    embedder: Embedder | None = None,
    unrelated: bool = False,
    progress: Progress | None = None,
) -> RapidReport:
    """Ask every question in every setting; which comes first changes with each.

    A case that raises InputError is listed in ``failed``, and stops nothing.

    Args:
        cases: Turns that are given, or have no right answer, are not asked.
        runner: Holds the models.
        settings: Each name once.
        max_context_tokens: Of target and drafter, the answer included; None: as the models allow.
        embedder: Of passages and questions; None: they are compared by words.
        unrelated: The drafter reads passages of the next case's document: a stress test.
        progress: Called with the cases done and the cases in all.

    Raises:
        InputError: ``unrelated``, and there is one case only.
    """
    if unrelated and len(cases) < 2:
        raise InputError("Passages of another document need two cases at least.")
    room = _room(runner, max_context_tokens)

    def opened(case: LongCase) -> Long:
        return Long.open(case, runner.target.tokenizer, runner.config, room, embedder)

    rows: list[Row] = []
    failed: list[FailedQuestion] = []
    for place, case in enumerate(cases):
        try:
            other = opened(cases[(place + 1) % len(cases)]) if unrelated else None
            rows += _rows(opened(case), other, runner, settings, room, len(rows))
        except InputError as error:
            failed.append(FailedQuestion(case.turns[0].question, str(error)))
        if progress is not None:
            progress(place + 1, len(cases))
    return report(rows, settings, is_greedy=not runner.params.temperature, failed=failed)


def _room(runner: Runner, max_context_tokens: int | None) -> int:
    limits = [runner.target.max_context_tokens, runner.drafter.max_context_tokens]
    limit = min([*limits, max_context_tokens or limits[0]])
    return limit - runner.params.max_new_tokens


def _rows(
    long: Long,
    other: Long | None,
    runner: Runner,
    settings: Sequence[Setting],
    room: int,
    num_before: int,
) -> list[Row]:
    rows: list[Row] = []
    for number, turn in enumerate(long.case.turns):
        if turn.is_given or not turn.golds:
            continue
        asked = ask(long, number, runner.target.tokenizer, runner.config, room, other=other)
        first = (num_before + len(rows)) % len(settings)
        order = (*settings[first:], *settings[:first])
        runs = {one.name: runner.run(one, asked, long.index_s) for one in order}
        rows.append(Row(long.case, number, {one.name: runs[one.name] for one in settings}))
    return rows


def report(
    rows: Sequence[Row],
    settings: Sequence[Setting],
    *,
    is_greedy: bool,
    failed: Sequence[FailedQuestion] = (),
) -> RapidReport:
    """Return how the settings compare."""
    figures = {one.name: _figures(one, rows, is_greedy) for one in settings} if rows else {}
    return RapidReport(figures, tuple(rows), tuple(failed))


def _figures(setting: Setting, rows: Sequence[Row], is_greedy: bool) -> Figures:
    name = setting.name
    runs = [row.runs[name] for row in rows]
    tally = _total(runs) if setting.kind not in ALONE else None
    scored = [(row.case, row.score(name)) for row in rows]
    is_comparable = is_greedy and setting.is_exact and PLAIN in rows[0].runs
    same = [row.runs[PLAIN].token_ids == row.runs[name].token_ids for row in rows if is_comparable]
    alone = (1.0, 0.0) if setting.is_exact else (None, None)
    tokens_per_forward, mean_gap = (tally.tokens_per_forward, tally.mean_gap) if tally else alone
    return Figures(
        scores=_means((case.metric, value) for case, value in scored),
        groups=_means((group, value) for case, value in scored for group in case.groups),
        acceptance_rate=tally.acceptance_rate if tally else None,
        mean_acceptance_length=tally.mean_acceptance_length if tally else None,
        acceptance_by_position=_by_position(tally) if tally else None,
        tokens_per_forward=tokens_per_forward,
        mean_gap=mean_gap,
        identical_share=fmean(same) if same else None,
        num_prompt_tokens=fmean(run.num_prompt_tokens for run in runs),
        num_drafter_tokens=fmean(run.num_drafter_tokens for run in runs),
        num_new_tokens=fmean(len(run.token_ids) for run in runs),
        seconds={part: fmean(run.seconds[part] for run in runs) for part in runs[0].seconds},
        token_s=sum(run.seconds["decode_s"] for run in runs)
        / max(1, sum(run.num_later_tokens for run in runs)),
    )


def _total(runs: Sequence[Run]) -> Tally:
    """Return what all answers come to together, but for the list of rounds."""
    total = Tally()
    for tally in (run.tally for run in runs if run.tally is not None):
        total.num_rounds += tally.num_rounds
        total.num_new_tokens += tally.num_new_tokens
        total.num_judged_tokens += tally.num_judged_tokens
        total.gap += tally.gap
        for name in ("accept_counts", "drafted", "accepted", "drafted_at", "accepted_at"):
            getattr(total, name).update(getattr(tally, name))
    return total


def _by_position(tally: Tally) -> tuple[float, ...]:
    places = range(len(tally.drafted_at))
    return tuple(tally.accepted_at[place] / tally.drafted_at[place] for place in places)


def _means(named: Iterable[tuple[str, float]]) -> dict[str, Mean]:
    values: defaultdict[str, list[float]] = defaultdict(list)
    for name, value in named:
        values[name].append(value)
    return {name: Mean.of(of) for name, of in values.items()}
