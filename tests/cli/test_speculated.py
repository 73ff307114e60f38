from typing import Any

import pytest
from rich.cells import cell_len

from readahead.cli.output import COLUMNS
from readahead.cli.speculated import MAX_ROUNDS, drawn, table


def speculation(**more: Any) -> dict[str, Any]:
    return {
        "mode": "exact",
        "num_rounds": 5,
        "num_draft_tokens": 20,
        "num_accepted_tokens": 13,
        "draft_acceptance_rate": 0.65,
        "mean_acceptance_length": 3.6,
        "drafted": {"lookup": 16, "model": 4},
        "accepted": {"lookup": 13},
        "acceptance_by_position": [1.0, 0.75, 0.5],
        "mean_gap": 0.0,
        "rounds": [
            [0.5, 0, 0, ""],
            [0.75, 4, 4, "lookup"],
            [1.0, 4, 2, "model"],
            [2.0, 3, 1, "lookup+model"],
        ],
        "seconds": {
            "retrieval_s": 0.02,
            "prefill_s": 3.1,
            "drafter_prefill_s": 0.4,
            "draft_s": 0.25,
            "verify_s": 1.5,
        },
        "read": {
            "passages": ["3.1.2", "3.1.7"],
            "num_tokens": 612,
            "is_fallback": False,
            "num_prompt_tokens": 700,
        },
        **more,
    }


def test_a_table_tells_how_many_whose_when_and_from_what() -> None:
    assert list(table(speculation())) == [
        "  5 rounds · 20 draft tokens, 13 accepted (0.65) · 3.60 tokens per forward of the target",
        "  source      lookup    model",
        "  drafted         16        4",
        "  accepted        13        0",
        "  position     1    2    3",
        "  accepted  1.00 0.75 0.50",
        "  seconds   retrieval 0.02 · prefill 3.10 · drafter prefill 0.40 · draft 0.25 · "
        "verify 1.50",
        "  the drafter read 700 tokens, of them 2 passages, 612 tokens: 3.1.2 3.1.7",
    ]


@pytest.mark.parametrize(
    ("governor", "expected"),
    [
        (None, "drafted in 2 rounds, 3 were plain"),
        (
            {},
            "drafted in 2 rounds, 3 were plain; the governor had nothing to choose from",
        ),
        (
            {
                "lookup": {"acceptance": 0.62, "speed_up": 1.8},
                "model": {"acceptance": 0.8, "speed_up": 0.71},
            },
            "drafted in 2 rounds, 3 were plain; the governor expects copying to decode 1.80 times "
            "as fast as plain where something matches, at an acceptance of 0.62; the drafter to "
            "decode 0.71 times as fast as plain, at an acceptance of 0.80, which is not worth it",
        ),
    ],
)
def test_a_table_tells_why_so_little_was_drafted(
    governor: dict[str, Any] | None, expected: str
) -> None:
    told = speculation(num_drafted_rounds=2)
    if governor is not None:
        told["governor"] = governor
    lines = list(table(told))
    assert max(map(len, lines)) <= COLUMNS
    assert " ".join(" ".join(lines).split()).split(" source ")[0].endswith(expected)


def test_a_refresh_is_told_where_there_was_one() -> None:
    seconds = {**speculation()["seconds"], "refresh_s": 0.0}
    assert list(table(speculation(seconds=seconds))) == list(table(speculation()))
    told = " ".join(table(speculation(seconds={**seconds, "refresh_s": 0.75})))
    assert "verify 1.50 · refresh 0.75" in told


def test_what_is_approximate_tells_its_gap() -> None:
    *_, last = table(speculation(mode="augmented", mean_gap=0.0321))
    assert "mode augmented: approximate" in last
    assert "0.0321" in last


def test_without_a_model_passages_were_copied_from() -> None:
    read = {"passages": ["3.1.2"], "num_tokens": 40, "is_fallback": True, "num_prompt_tokens": 0}
    told = " ".join(" ".join(table(speculation(read=read))).split())
    assert told.endswith(
        "copied first from 1 passages, 40 tokens; none resembles the question, so these are the "
        "best: 3.1.2"
    )


def test_a_tally_alone_is_told_as_far_as_it_goes() -> None:
    lacking = speculation(drafted={}, accepted={}, acceptance_by_position=[])
    for name in ("mode", "seconds", "read"):
        del lacking[name]
    assert len(list(table(lacking))) == 1


def test_rounds_are_drawn_token_by_token() -> None:
    legend, line = drawn(speculation()["rounds"])
    assert legend.startswith("  rounds: ■ copied")
    assert line == "     0.500 s  + ■■■■+ ●●○○+ ◆◇◇+"
    assert list(drawn([])) == []


@pytest.mark.parametrize("num_rounds", [1, 40, MAX_ROUNDS + 3])
def test_many_rounds_are_broken_into_lines(num_rounds: int) -> None:
    rounds = [(number / 4, number % 65, number % 65 // 2, "lookup") for number in range(num_rounds)]
    lines = list(drawn(rounds))
    assert max(map(cell_len, lines)) <= COLUMNS
    assert sum(line.count("+") for line in lines[1:]) == min(num_rounds, MAX_ROUNDS)
    assert (lines[-1] == "  and 3 more rounds") == (num_rounds > MAX_ROUNDS)
    wide = speculation(
        rounds=rounds,
        acceptance_by_position=[0.5] * 64,
        read={**speculation()["read"], "passages": ["10.10.100"] * 90},
    )
    assert max(map(cell_len, table(wide))) <= COLUMNS
