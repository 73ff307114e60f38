import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from readahead.config import ServerConfig
from readahead.server.guard import budgets as module
from readahead.server.guard.budgets import DAY_S, FILE_NAME, Budgets
from readahead.server.guard.files import write_json
from readahead.server.guard.keys import Key
from readahead.server.problems import Problem
from readahead.server.state import Caller

ANN = Key("ann", "0" * 64, tokens_per_day=100, requests_per_minute=2)
BOB = Key("bob", "1" * 64)
NOON_S = 20_000 * DAY_S + DAY_S / 2


class Clock:
    """The time, as the test says."""

    def __init__(self) -> None:
        self.now_s = NOON_S

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def make(folder: Path, clock: Clock, **limits: int) -> Budgets:
    return Budgets(folder, ServerConfig(**limits), clock)


def refusal(budgets: Budgets, key: Key, what: str) -> Problem | None:
    try:
        budgets.count_request(key) if what == "requests" else budgets.check_tokens(key)
    except Problem as problem:
        assert (problem.status, problem.code) == (429, f"{what}_exhausted")
        return problem
    return None


def test_requests_within_a_minute_are_limited(tmp_path: Path, clock: Clock) -> None:
    budgets = make(tmp_path, clock)
    assert not refusal(budgets, ANN, "requests")
    clock.now_s += 20
    assert not refusal(budgets, ANN, "requests")
    clock.now_s += 0.5
    for _ in range(3):  # what is refused does not count
        problem = refusal(budgets, ANN, "requests")
        assert problem and problem.headers["Retry-After"] == "40"
    clock.now_s += 39.5
    assert not refusal(budgets, ANN, "requests")
    assert refusal(budgets, ANN, "requests")
    assert not refusal(budgets, BOB, "requests")


def test_a_clock_that_is_set_back_locks_nobody_out(tmp_path: Path, clock: Clock) -> None:
    budgets = make(tmp_path, clock)
    for _ in range(2):
        budgets.count_request(ANN)
    clock.now_s -= 10_000
    assert not refusal(budgets, ANN, "requests")


def test_tokens_of_a_day_are_limited(tmp_path: Path, clock: Clock) -> None:
    budgets = make(tmp_path, clock)
    budgets.spend(Caller("ann"), 99)
    assert not refusal(budgets, ANN, "tokens")
    budgets.spend(Caller("ann"), 30)
    problem = refusal(budgets, ANN, "tokens")
    assert problem and problem.headers["Retry-After"] == str(DAY_S // 2)
    assert "100 tokens a day" in problem.message
    clock.now_s += DAY_S / 2  # midnight
    assert not refusal(budgets, ANN, "tokens")
    assert budgets.num_tokens("ann") == 0


def test_the_settings_limit_keys_that_have_no_limit(tmp_path: Path, clock: Clock) -> None:
    budgets = make(tmp_path, clock, tokens_per_day=10, requests_per_minute=1)
    for name in ("ann", "bob"):
        budgets.spend(Caller(name), 10)
    assert not refusal(budgets, ANN, "tokens")
    assert refusal(budgets, BOB, "tokens")
    budgets.count_request(BOB)
    assert refusal(budgets, BOB, "requests")


def test_tokens_survive_a_restart(tmp_path: Path, clock: Clock) -> None:
    make(tmp_path, clock).spend(Caller("ann"), 70)
    again = make(tmp_path, clock)
    assert again.num_tokens("ann") == 70
    again.spend(Caller("ann"), 30)
    assert refusal(make(tmp_path, clock), ANN, "tokens")
    clock.now_s += DAY_S
    assert not refusal(make(tmp_path, clock), ANN, "tokens")


def test_the_last_count_is_the_one_that_stays(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets, is_writing, go_on = make(tmp_path, clock), threading.Event(), threading.Event()

    def slow(path: Path, value: object, *, is_synced: bool) -> None:
        if not is_writing.is_set():
            is_writing.set()
            assert go_on.wait(30)
        write_json(path, value, is_synced=is_synced)

    monkeypatch.setattr(module, "write_json", slow)
    with ThreadPoolExecutor(2) as answers:
        first = answers.submit(budgets.spend, Caller("ann"), 1)
        assert is_writing.wait(30)
        second = answers.submit(budgets.spend, Caller("ann"), 2)
        wait([second], 0.2)
        assert budgets.num_tokens("ann") in (1, 3)  # who asks does not wait
        go_on.set()
        first.result(), second.result()
    assert budgets.num_tokens("ann") == make(tmp_path, clock).num_tokens("ann") == 3


def test_who_has_no_key_has_no_budget(tmp_path: Path, clock: Clock) -> None:
    make(tmp_path, clock).spend(Caller(), 70)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"day": 1}', '{"day": "x", "tokens": {}}'])
def test_a_damaged_file_begins_anew(tmp_path: Path, clock: Clock, content: str) -> None:
    (tmp_path / FILE_NAME).write_text(content)
    budgets = make(tmp_path, clock)
    budgets.spend(Caller("ann"), 7)
    assert make(tmp_path, clock).num_tokens("ann") == 7


def test_a_disk_that_takes_nothing_stops_no_answer(tmp_path: Path, clock: Clock) -> None:
    budgets = make(tmp_path / "missing", clock)
    budgets.spend(Caller("ann"), 100)
    assert refusal(budgets, ANN, "tokens")
