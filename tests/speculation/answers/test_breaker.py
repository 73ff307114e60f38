import threading
import time

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from readahead.speculation.answers.breaker import Breaker

NUM_FAILURES, RETRY_AFTER_S = 3, 10.0


class Clock:
    def __init__(self, pause_s: float = 0.0) -> None:
        self.now = 100.0
        self.pause_s = pause_s

    def __call__(self) -> float:
        if self.pause_s:
            time.sleep(self.pause_s)  # let another thread in
        return self.now


def opened(clock: Clock) -> Breaker:
    breaker = Breaker(NUM_FAILURES, RETRY_AFTER_S, now_s=clock)
    for number in range(NUM_FAILURES):
        assert breaker.state == "closed"
        breaker.failed(f"fault {number}")
    return breaker


class BreakerMachine(RuleBasedStateMachine):
    """Requests that run beside each other, and what they may do."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.breaker = Breaker(NUM_FAILURES, RETRY_AFTER_S, now_s=self.clock)
        self.num_in_a_row = 0
        self.waits_until: float | None = None
        self.is_on_trial = False

    @rule(seconds=st.sampled_from([0.0, 1.0, RETRY_AFTER_S - 0.5, RETRY_AFTER_S, 50.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def ask(self) -> None:
        is_due = self.waits_until is None or self.clock.now >= self.waits_until
        assert self.breaker.allow() == is_due
        if self.waits_until is not None and is_due:
            self.is_on_trial = True
            self.waits_until = self.clock.now + RETRY_AFTER_S
            assert not self.breaker.allow()  # one trial, no more

    @rule()
    def succeed(self) -> None:
        self.breaker.succeeded()
        if self.waits_until is None or self.is_on_trial:
            self.num_in_a_row, self.waits_until, self.is_on_trial = 0, None, False
            assert self.breaker.reason == ""

    @rule()
    def fail(self) -> None:
        self.breaker.failed("late")
        if self.waits_until is None:
            self.num_in_a_row += 1
            if self.num_in_a_row == NUM_FAILURES:
                self.waits_until = self.clock.now + RETRY_AFTER_S
        elif self.is_on_trial:
            self.waits_until, self.is_on_trial = self.clock.now + RETRY_AFTER_S, False

    @precondition(lambda self: self.waits_until is not None)
    @rule()
    def recover(self) -> None:
        self.clock.now += RETRY_AFTER_S
        assert self.breaker.allow()
        self.breaker.succeeded()
        assert self.breaker.state == "closed"
        self.num_in_a_row, self.waits_until, self.is_on_trial = 0, None, False

    @invariant()
    def never_opens_early(self) -> None:
        if self.waits_until is None:
            assert self.num_in_a_row < NUM_FAILURES
            assert self.breaker.state == "closed"
        elif self.is_on_trial or self.clock.now >= self.waits_until:
            assert self.breaker.state == "half-open"
        else:
            assert self.breaker.state == "open"


TestBreakerMachine = BreakerMachine.TestCase
TestBreakerMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_it_opens_after_three_failures_and_says_why() -> None:
    breaker = opened(Clock())
    assert breaker.state == "open"
    assert not breaker.allow()
    assert breaker.reason == "fault 2"


def test_a_success_between_them_starts_the_count_again() -> None:
    breaker = Breaker(2, now_s=Clock())
    for _ in range(10):
        breaker.failed("slow")
        breaker.succeeded()
    assert breaker.state == "closed"
    assert breaker.reason == ""


def test_a_failed_trial_opens_it_at_once_and_a_good_one_closes_it() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += RETRY_AFTER_S
    assert breaker.allow()
    breaker.failed("still broken")
    assert (breaker.state, breaker.reason) == ("open", "still broken")
    assert not breaker.allow()
    clock.now += RETRY_AFTER_S
    assert breaker.allow()
    breaker.succeeded()
    assert (breaker.state, breaker.reason) == ("closed", "")
    breaker.failed("once")
    assert breaker.allow()  # counts from the start


def test_a_lost_trial_does_not_keep_it_open_for_ever() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += RETRY_AFTER_S
    assert breaker.allow()
    clock.now += RETRY_AFTER_S - 1
    assert not breaker.allow()
    clock.now += 1
    assert breaker.allow()


def test_late_reports_do_not_move_an_open_breaker() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += RETRY_AFTER_S - 1
    breaker.failed("late")
    breaker.succeeded()
    assert (breaker.state, breaker.reason) == ("open", "fault 2")
    clock.now += 1
    assert breaker.state == "half-open"


def test_of_many_threads_one_gets_the_trial() -> None:
    clock = Clock(pause_s=0.001)
    breaker = opened(clock)
    clock.now += RETRY_AFTER_S
    allowed: list[bool] = []
    start = threading.Barrier(16)

    def ask() -> None:
        start.wait()
        allowed.append(breaker.allow())

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(allowed) == 1


def test_it_needs_a_failure_to_open() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Breaker(0)
