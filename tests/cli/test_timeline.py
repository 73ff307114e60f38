from typing import Any

import pytest
from rich.cells import cell_len

from readahead.cli.output import COLUMNS
from readahead.cli.timeline import num_seconds, timeline
from tests.cli.test_explain import answered, audit
from tests.cli.test_speculated import speculation


def span(name: str, start_s: float, end_s: float | None, **more: Any) -> dict[str, Any]:
    busy_s = more.pop("busy_s", (end_s or start_s) - start_s)
    count = more.pop("count", 1)
    times = {"start_s": start_s, "end_s": end_s, "busy_s": busy_s, "count": count}
    return {"name": name, **times, "attributes": more}


def trace(*spans: dict[str, Any], **attributes: Any) -> dict[str, Any]:
    return {
        "id": "0123456789ab",
        "kind": "ask",
        "started_at": 1_800_000_000.0,
        "attributes": attributes,
        "counters": {"retrievals": 1, "completion_tokens": 3},
        "spans": list(spans),
    }


ASKED = trace(
    span("encode", 0.0, 0.001),
    span("search", 0.001, 0.002),
    span("prefill", 0.5, 5.0, num_tokens=512),
    span("decode", 5.0, 10.0, count=9, busy_s=4.9),
    span("cite", 5.0, 10.0, count=10, busy_s=0.1),
    question="How often does the tide turn?",
    answer="Twice a day. [1]",
    method="plain",
    e2e_s=10.0,
)


CONSIDERED = {
    "moment": "sentence",
    "at_token": 7,
    "probability": 0.625,
    "signals": {"entropy": 1.5},
    "query": "Who lit it?",
    "retrieved": [{"id": "3.1.0", "similarity": 0.5}],
    "injected": ["3.1.0"],
    "num_tokens": 40,
    "num_taken_back": 5,
}


def bars(lines: list[str]) -> list[str]:
    return [line.split("│")[1] for line in lines if line.endswith("│")]


def test_the_bars_share_one_axis() -> None:
    lines = list(timeline(ASKED))
    encode, search, prefill, decode, cite = bars(lines)
    width = len(encode)
    assert encode.rstrip() == search.rstrip() == "█"  # short, and still seen
    assert prefill.index("█") == round(width * 0.05)
    assert len(prefill.rstrip()) == decode.index("█") == width // 2
    assert cite.index("░") == decode.index("█")
    assert decode.endswith("█")
    assert len({len(line) for line in lines if line.endswith("│")}) == 1


def test_a_timeline_tells_all_there_is() -> None:
    lines = list(timeline(ASKED))
    assert lines[0].startswith("ask 0123456789ab · 20")
    assert lines[0].endswith(" · 10.00 s")
    assert lines[1] == "  How often does the tide turn?"
    assert lines[3].split() == ["span", "start", "busy", "steps", "0", "s", "10.00", "s"]
    assert lines[4].split()[:6] == ["encode", "0.000", "s", "0.001", "s", "1"]
    assert "  request: method plain" in lines
    assert "  counts: completion_tokens 3 · retrievals 1" in lines
    assert "  prefill: num_tokens 512" in lines
    assert lines[-1] == "  Twice a day. [1]"


@pytest.mark.parametrize(
    "asked",
    [
        ASKED,
        trace(),
        trace(span("search", 0.0, 0.0), e2e_s=0.0),
        trace(span("prefill", 1.0, None), finish_reason="cancelled"),
        trace(span("later than the end", 9.0, 12.0), span("x" * 200, 12.0, 12.0), e2e_s=10.0),
        trace(question="潮汐每天涨落几次？" * 40, answer="一天两次。" * 100, note="x" * 500),
        trace(span("a\nb\x1b[31m", 0.0, 1.0, why="\x1b[2J"), question="\x1b]0;x\x07\n" * 30),
        trace(inject=[CONSIDERED, {**CONSIDERED, "query": "潮" * 200, "retrieved": []}]),
        trace(prefetch={"guessed": ["1.1.0"] * 90, "policy": "same-set"}),
        trace(drafts=audit(answered("1846"))),
        trace(speculation=speculation()),
        trace(span("decode", 1000.0, 9999.0, count=10**6 - 1), e2e_s=9999.0),
    ],
)
def test_no_line_is_wider_than_the_page(asked: dict[str, Any]) -> None:
    for line in timeline(asked):
        assert cell_len(line) <= COLUMNS
        assert not {"\n", "\x1b", "\x07"} & set(line)


def test_a_request_that_was_cut_off_is_as_long_as_its_spans() -> None:
    assert num_seconds(ASKED) == 10.0
    assert num_seconds(trace(span("search", 0.0, 0.5), span("prefill", 0.5, None))) == 0.5
    assert num_seconds(trace()) == 0.0


def test_what_was_done_before_the_question_stands_left_of_where_it_was_asked() -> None:
    ahead = trace(
        span("suggest", 0.0, 1.0),  # long before
        span("prefill", 95.0, 98.0),
        span("decode", 100.0, 105.0),
        asked_s=100.0,
        e2e_s=5.0,
        method="prefetch",
    )
    lines = list(timeline(ahead))
    assert num_seconds(ahead) == 5.0
    assert lines[0].endswith(" · 5.00 s")
    suggest, prefill, decode = bars(lines)
    assert suggest.strip() == "before"  # listed, not drawn
    mark = next(line for line in lines if "asked" in line).index("▾")
    first = next(line for line in lines if line.endswith("│")).index("│") + 1
    assert prefill.rstrip() and len(prefill.rstrip()) < mark - first
    assert decode.index("█") == pytest.approx(mark - first, abs=1)
    assert all(cell_len(line) <= COLUMNS for line in lines)


def test_a_question_asked_at_once_has_its_mark_on_the_page() -> None:
    lines = list(timeline(trace(span("decode", 0.0, 5.0), asked_s=0.0, e2e_s=5.0)))
    assert any("▾ asked" in line for line in lines)


def test_what_was_considered_for_injection_is_told_in_words() -> None:
    kept = {
        "moment": "start",
        "at_token": 0,
        "probability": 0.1,
        "reason": "the passages seem to hold the answer",
    }
    text = " ".join(" ".join(timeline(trace(inject=[kept, CONSIDERED]))).split())
    assert (
        "inject at start, token 0: the passages lack the answer with probability 0.10 · "
        "nothing injected: the passages seem to hold the answer"
    ) in text
    assert (
        "injected 3.1.0, 40 tokens, 5 taken back · retrieved 3.1.0 for “Who lit it?” · "
        "signals: entropy 1.5"
    ) in text
    assert "{" not in text


def test_drafts_are_told_as_tables() -> None:
    lines = list(timeline(trace(drafts=audit(answered("1846")), method="drafts", answer="1846")))
    assert any(line.startswith("  2 drafts, 3 not needed") for line in lines)
    assert not any("{" in line for line in lines)


def test_rounds_are_summed_up_and_drawn() -> None:
    lines = list(timeline(trace(speculation=speculation(), method="rapid", answer="1846")))
    assert any(line.startswith("  5 rounds · 20 draft tokens") for line in lines)
    assert any(line.endswith(" s  + ■■■■+ ●●○○+ ◆◇◇+") for line in lines)
    assert not any("{" in line or "speculation" in line for line in lines)
