import json

import pytest

from readahead.speculation.tokens.acceptance import Accepted
from readahead.speculation.tokens.base import Kind, Proposal
from readahead.speculation.tokens.tally import Tally

COPY, MODEL = Kind("lookup", 1), Kind("model", 0)


def tally(*rounds: tuple[int, int], kinds: tuple[Kind, ...] = (COPY,) * 9) -> Tally:
    """Return what counted rounds of so many draft tokens, of which so many were accepted."""
    counted = Tally()
    for num_drafted, num_accepted in rounds:
        proposal = Proposal(tuple(range(num_drafted)), (None,) * num_drafted, kinds[:num_drafted])
        counted.add(0.5, proposal, Accepted(num_accepted, 0, (0.25,) * (num_accepted + 1)))
    return counted


def test_rounds_without_a_draft_count_for_a_forward_pass_and_not_for_a_draft() -> None:
    told = tally((0, 0), (4, 4), (4, 2), (0, 0), (0, 0), (2, 0)).to_json()
    assert (told["num_rounds"], told["num_drafted_rounds"]) == (6, 3)
    assert told["mean_acceptance_length"] == 1 + 6 / 3
    assert told["tokens_per_forward"] == 1 + 6 / 6
    assert told["draft_acceptance_rate"] == 6 / 10


def test_tokens_are_counted_by_source_and_by_place() -> None:
    counted = tally((3, 2), (2, 0), kinds=(COPY, MODEL, MODEL))
    assert counted.drafted == {"lookup": 2, "model": 3}
    assert counted.accepted == {"lookup": 1, "model": 1}
    assert counted.accept_counts == {2: 1, 0: 1}
    assert counted.to_json()["acceptance_by_position"] == [1 / 2, 1 / 2, 0.0]
    assert counted.rounds == [(0.5, 3, 2, "lookup+model"), (0.5, 2, 0, "lookup+model")]
    assert counted.mean_gap == pytest.approx(0.25)


def test_nothing_drafted_is_told_without_dividing_by_it() -> None:
    told = json.loads(json.dumps(Tally().to_json()))
    assert told["draft_acceptance_rate"] == told["mean_gap"] == 0
    assert told["mean_acceptance_length"] == told["tokens_per_forward"] == 1
    assert "drafter_error" not in told
    assert Tally(drafter_error="It is gone.").to_json()["drafter_error"] == "It is gone."
