"""Would drafting tokens pay, here, with these models: step costs, a prediction, and a trial of it.

Behind a document of each length steps are timed and taken back, then one answer is decoded without
drafts and with each drafter. The formulas are in ``speculation.tokens.advise``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import get_args

from readahead.config import Config
from readahead.errors import InputError
from readahead.evaluation.course import PLAIN, Course, Run, Task, make_task
from readahead.evaluation.verdict import Advice, Measured, Trial, say, warn
from readahead.lm.model import TransformersModel, load_named
from readahead.speculation.tokens import advise
from readahead.speculation.tokens.advise import Costs
from readahead.speculation.tokens.base import Pacer
from readahead.speculation.tokens.drafters import DrafterKind, check_vocabularies
from readahead.speculation.tokens.governor import FixedPacer, Governor

WAYS = get_args(DrafterKind)
NUM_RUNS = 3  # of each way to decode, taking turns
TRIED_GAMMA = 4  # of the model drafter alone, so that its acceptance is seen where it does not pay
Progress = Callable[[int, int, str], None]


def advise_on(
    config: Config,
    *,
    lengths: Sequence[int],
    max_new_tokens: int = 64,
    progress: Progress | None = None,
) -> Advice:
    """Load the models that the settings name, measure, and say whether drafting pays.

    Args:
        config: Where no drafter is named, the target drafts for itself, from less context.
        lengths: Of the documents, in tokens.
        max_new_tokens: Of the answer that is decoded.
        progress: Called with runs done, all of them, and what is being done.

    Raises:
        VocabularyMismatch: The drafter has other tokens than the target.
        ContextOverflow: A context is too long for the target.
    """
    places = config.models.target_place, config.models.drafter_place
    target = load_named(*places[0])
    drafter = target if places[0] == places[1] else load_named(*places[1])
    return advise_with(
        target,
        drafter,
        config,
        lengths=lengths,
        max_new_tokens=max_new_tokens,
        progress=progress,
    )


def advise_with(
    target: TransformersModel,
    drafter: TransformersModel,
    config: Config,
    *,
    lengths: Sequence[int],
    max_new_tokens: int = 64,
    progress: Progress | None = None,
) -> Advice:
    """Do the same with models that are loaded."""
    if not lengths:
        raise InputError("There is no context to measure.", remedy="Give some with --context.")
    check_vocabularies(target, drafter)
    tasks = [
        make_task(
            target,
            drafter,
            config.tokens,
            num_tokens=length,
            max_new_tokens=max_new_tokens,
            seed=config.generation.seed,
        )
        for length in sorted(set(lengths))
    ]
    tell = _Telling(progress, len(tasks) * (2 + NUM_RUNS * (1 + len(WAYS))))
    measured = []
    for task in tasks:
        tell(f"Reading {len(task.prompt_ids)} tokens")
        measured.append(_measured(Course(target, drafter, task, max_new_tokens), task, tell))
    return Advice(
        target.name,
        drafter.name,
        tuple(measured),
        sentences=tuple(say(measured, target.max_context_tokens)),
        warnings=tuple(warn(measured)),
    )


class _Telling:
    """Counts what is done."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self, label: str) -> None:
        if self._progress:
            self._progress(self._done, self._total, label)
        self._done += 1


def _measured(course: Course, task: Task, tell: _Telling) -> Measured:
    tell("Timing steps")
    costs = course.costs()
    pacers: dict[str, Pacer] = {way: _warm(costs) for way in WAYS}
    pacers["rag"] = pacers[PLAIN] = FixedPacer(TRIED_GAMMA)
    runs: dict[str, list[Run]] = defaultdict(list)
    for number in range(NUM_RUNS):
        order = (PLAIN, *WAYS)
        for way in order[number % len(order) :] + order[: number % len(order)]:
            tell(f"Decoding: {way}")
            runs[way].append(course.run(way, pacers[way]))
    return Measured(
        num_context_tokens=len(task.prompt_ids),
        num_drafter_tokens=len(task.drafter_ids),
        verify_s=dict(costs.verify_s),
        draft_s=costs.draft_s,
        token_s=_token_s(runs[PLAIN]),
        trials=tuple(_trial(way, runs[way], runs[PLAIN], costs) for way in WAYS),
    )


def _warm(costs: Costs) -> Governor:
    """Return a governor that has seen what steps cost."""
    governor = Governor()
    for k, seconds in costs.verify_s.items():
        governor.target.saw(k, seconds)
    governor.drafter.saw(1, costs.draft_s)
    return governor


def _token_s(runs: Sequence[Run]) -> float:
    return median(run.token_s for run in runs)


def _trial(way: str, runs: Sequence[Run], plain: Sequence[Run], costs: Costs) -> Trial:
    rounds = [one for run in runs for one in run.tally.rounds[1:]]  # the first reads the prompt
    gammas = [num_drafted for _, num_drafted, _, _ in rounds]
    num_accepted = sum(accepted for _, _, accepted, _ in rounds)
    beta = advise.acceptance(num_accepted, sum(accepted < g for _, g, accepted, _ in rounds))
    share = sum(gamma > 0 for gamma in gammas) / max(1, len(rounds))
    own = replace(costs, draft_s=costs.draft_s * _model_share(runs))
    per_forward, predicted = advise.replayed(beta, gammas, own)
    return Trial(
        way=way,
        num_new_tokens=len(runs[0].token_ids),
        is_identical=all(run.token_ids == plain[0].token_ids for run in (*runs, *plain)),
        num_draft_tokens=sum(gammas),
        acceptance=beta,
        share=share,
        tokens_per_forward=1 + num_accepted / max(1, len(rounds)),
        predicted_tokens_per_forward=per_forward,
        speed_up=_token_s(plain) / max(_token_s(runs), 1e-9),
        predicted_speed_up=predicted,
        best_gamma=advise.best_gamma(beta, own, share=share),
        best_speed_up=advise.best_speed_up(beta, own, share=share),
        break_even=advise.break_even(own),
    )


def _model_share(runs: Sequence[Run]) -> float:
    """Return the share of draft tokens that a model drafted: the others cost nothing."""
    drafted = [run.tally.drafted for run in runs]
    num_drafted = sum(counts.total() for counts in drafted)
    return sum(counts["model"] for counts in drafted) / max(1, num_drafted)
