import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest

from readahead.errors import InputError
from readahead.trace import Trace
from readahead.turns import Turns


def test_guesses_see_that_an_answer_runs() -> None:
    turns = Turns()
    with turns.answer():
        with turns.answer():
            assert turns.is_answering
        assert turns.is_answering
    assert not turns.is_answering


def count(num: int, names: set[str]) -> Generator[int]:
    for number in range(num):
        names.add(threading.current_thread().name)
        yield number


def test_all_steps_are_made_by_one_thread_which_is_not_the_callers() -> None:
    turns, names = Turns(), set[str]()
    assert list(turns.steps(count(3, names))) == [0, 1, 2]
    turns.run(lambda: names.add(threading.current_thread().name))
    assert len(names) == 1
    assert threading.current_thread().name not in names


def test_the_model_is_free_between_the_steps_of_an_answer() -> None:
    turns = Turns()
    seen = []
    for item in turns.steps(count(2, set())):
        seen.append(turns.run(lambda number=item: number * 10))  # type: ignore[misc]
    assert seen == [0, 10]


def test_who_has_the_model_may_ask_for_it_again() -> None:
    turns = Turns()
    assert turns.run(lambda: turns.run(lambda: 7)) == 7


def test_a_step_waits_for_the_one_that_runs() -> None:
    turns = Turns()
    order: list[str] = []
    began = threading.Event()

    def slow() -> None:
        began.set()
        time.sleep(0.05)
        order.append("slow")

    thread = threading.Thread(target=turns.run, args=(slow,))
    thread.start()
    began.wait()
    turns.run(lambda: order.append("quick"))
    thread.join()
    assert order == ["slow", "quick"]


def test_a_trace_tells_how_long_the_first_step_waited() -> None:
    turns, trace = Turns(), Trace("ask")
    began = threading.Event()

    def slow() -> None:
        began.set()
        time.sleep(0.05)

    thread = threading.Thread(target=turns.run, args=(slow,))
    thread.start()
    began.wait()

    def steps() -> Generator[int]:
        with trace.span("prefill"):
            yield 1
        yield 2

    list(turns.steps(steps(), trace=trace))
    thread.join()
    wait, prefill = trace.spans
    assert wait.name == "wait"
    assert wait.duration_s > 0.03
    assert wait.end_s is not None
    assert wait.end_s <= prefill.start_s


def test_who_has_the_model_does_not_wait_for_it() -> None:
    turns, trace = Turns(), Trace("ask")
    turns.run(lambda: turns.run(lambda: 7, trace=trace))
    assert not trace.spans


def test_a_wait_for_a_thread_that_was_ended_is_over() -> None:
    turns, trace = Turns(), Trace("ask")
    turns.close()
    with pytest.raises(InputError):
        turns.run(lambda: 7, trace=trace)
    assert trace.spans[0].end_s is not None


def test_an_error_in_a_step_reaches_the_caller_and_leaves_the_model_free() -> None:
    turns = Turns()

    def broken() -> Generator[int]:
        yield 1
        raise ValueError("oops")

    with pytest.raises(ValueError, match="oops"):
        list(turns.steps(broken()))
    assert turns.run(lambda: 7) == 7


def test_who_stops_taking_steps_ends_them() -> None:
    turns, ended = Turns(), []

    def endless() -> Generator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.append(threading.current_thread().name)

    steps = turns.steps(endless())
    next(steps)
    del steps
    assert len(ended) == 1


def test_an_interrupt_waits_for_the_end_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    done = threading.Event()

    def slow() -> None:
        time.sleep(0.05)
        done.set()

    submit = turns._thread.submit

    def interrupting(function: Callable[[], object]) -> Future[object]:
        future: Future[object] = submit(function)
        whole = future.result

        def result() -> object:
            monkeypatch.setattr(future, "result", whole)
            raise KeyboardInterrupt

        monkeypatch.setattr(future, "result", result)
        return future

    monkeypatch.setattr(turns._thread, "submit", interrupting)
    with pytest.raises(KeyboardInterrupt):
        turns.run(slow)
    assert done.is_set()


def test_what_runs_sees_that_it_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()
    cancelled = turns.or_interrupted(lambda: False)
    assert not cancelled()
    submit = turns._thread.submit

    def interrupting(function: Callable[[], object]) -> Future[object]:
        future: Future[object] = submit(function)

        def result() -> object:
            raise KeyboardInterrupt

        monkeypatch.setattr(future, "result", result)
        return future

    def long() -> None:
        end_s = time.monotonic() + 20
        while not cancelled() and time.monotonic() < end_s:
            time.sleep(0.001)

    monkeypatch.setattr(turns._thread, "submit", interrupting)
    began_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        turns.run(long)
    assert time.monotonic() - began_s < 10
    assert not cancelled()


def interrupt(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this thread be interrupted while it waits for what it has run from now on."""
    submit, caller = turns._thread.submit, threading.get_ident()

    def result() -> object:
        raise KeyboardInterrupt

    def interrupting(function: Callable[[], object]) -> Future[object]:
        future: Future[object] = submit(function)
        if threading.get_ident() == caller:
            monkeypatch.setattr(future, "result", result)
        return future

    monkeypatch.setattr(turns._thread, "submit", interrupting)


def test_further_interrupts_wait_too_and_end_nothing_that_comes_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns, has_ended = Turns(), threading.Event()
    cancelled = turns.or_interrupted(lambda: False)
    further = iter([KeyboardInterrupt, KeyboardInterrupt])

    def waiting(futures: list[Future[object]]) -> None:
        if (pressed := next(further, None)) is not None:
            raise pressed
        wait(futures)

    def slow() -> None:
        end_s = time.monotonic() + 20
        while not cancelled() and time.monotonic() < end_s:
            time.sleep(0.001)
        time.sleep(0.05)
        has_ended.set()

    interrupt(turns, monkeypatch)
    monkeypatch.setattr("readahead.turns.wait", waiting)
    with pytest.raises(KeyboardInterrupt):
        turns.run(slow)
    assert has_ended.is_set()
    assert next(further, None) is None
    assert not cancelled()


def test_an_interrupt_ends_no_answer_of_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, has_begun = Turns(), threading.Event()

    def other() -> bool:
        cancelled = turns.or_interrupted(lambda: False)

        def long() -> bool:
            has_begun.set()
            is_cut = False
            for _ in range(100):
                is_cut |= cancelled()
                time.sleep(0.002)
            return is_cut

        return turns.run(long)

    with ThreadPoolExecutor(1) as pool:
        is_cut = pool.submit(other)
        has_begun.wait()
        interrupt(turns, monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            turns.run(lambda: None)
        assert not is_cut.result()


def test_a_closed_thread_says_so() -> None:
    turns = Turns()
    turns.close()
    with pytest.raises(InputError, match="closed"):
        turns.run(lambda: 7)


def test_steps_of_other_answers_go_between_those_of_something_long() -> None:
    turns, order = Turns(), list[str]()
    first_is_made, is_waiting = threading.Event(), threading.Event()

    def steps() -> Generator[int]:
        for number in range(3):
            order.append(f"step {number}")
            yield number

    def answer() -> None:
        for number in turns.steps(steps()):
            if number == 0:
                first_is_made.set()
                is_waiting.wait()

    def long() -> None:
        asked = turns.or_interrupted(lambda: False)
        for number in range(3):
            order.append(f"long {number}")
            while not turns._waiting:  # the next step of the other answer
                if number == 2:
                    break
                time.sleep(0.001)
            assert not asked()

    thread = threading.Thread(target=answer)
    thread.start()
    first_is_made.wait()
    is_waiting.set()
    turns.run(long)
    thread.join()
    assert order.index("step 1") < order.index("long 2")
    assert [name for name in order if name.startswith("step")] == ["step 0", "step 1", "step 2"]


def test_the_end_of_an_answer_does_not_wait_for_something_long() -> None:
    turns = Turns()
    is_over, has_begun = threading.Event(), threading.Event()

    def long() -> bool:
        asked = turns.or_interrupted(lambda: False)
        has_begun.set()
        end_s = time.monotonic() + 10
        while not is_over.is_set() and time.monotonic() < end_s:
            asked()
            time.sleep(0.001)
        return is_over.is_set()

    steps = turns.steps(count(1, set()))
    next(steps)
    with ThreadPoolExecutor(1) as pool:
        is_ended = pool.submit(turns.run, long)
        has_begun.wait()
        assert not list(steps)
        is_over.set()
        assert is_ended.result()


def test_a_step_that_asks_in_between_lets_no_further_one_in() -> None:
    turns = Turns()
    asked = turns.or_interrupted(lambda: False)
    depth = 0
    deepest = 0

    def step() -> Generator[int]:
        nonlocal depth, deepest
        for number in range(20):
            depth += 1
            deepest = max(deepest, depth)
            asked()
            depth -= 1
            yield number

    threads = [threading.Thread(target=lambda: list(turns.steps(step()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert deepest <= 2


def test_an_error_in_a_step_made_in_between_reaches_its_own_caller() -> None:
    turns = Turns()
    began = threading.Event()

    def broken() -> Generator[int]:
        yield 1
        raise IndexError("oops")

    def answer(into: list[str]) -> None:
        try:
            for _ in turns.steps(broken()):
                began.set()
        except IndexError as error:
            into.append(str(error))

    caught: list[str] = []
    thread = threading.Thread(target=answer, args=(caught,))
    thread.start()
    began.wait()
    asked = turns.or_interrupted(lambda: False)

    def long() -> int:
        for _ in range(20):
            time.sleep(0.002)
            asked()
        return 7

    assert turns.run(long) == 7
    thread.join()
    assert caught == ["oops"]


@pytest.mark.parametrize("is_long", [True, False])
def test_an_answer_begins_between_the_steps_of_drafts_not_of_another_prompt(is_long: bool) -> None:
    turns, order = Turns(), list[str]()
    began = threading.Event()

    def long() -> None:
        asked = turns.or_interrupted(lambda: False)
        began.set()
        end_s = time.monotonic() + 5
        while not turns._beginning:  # the other answer's first step
            assert time.monotonic() < end_s
            time.sleep(0.001)
        asked()
        order.append("long")

    def short() -> Generator[int]:
        order.append("short")
        yield 1

    run = turns.run_long if is_long else turns.run
    thread = threading.Thread(target=run, args=(long,))
    thread.start()
    began.wait()
    assert list(turns.steps(short())) == [1]
    thread.join()
    assert order == (["short", "long"] if is_long else ["long", "short"])


def test_steps_go_between_those_of_a_prompt_that_is_read_between_drafts() -> None:
    turns, order = Turns(), list[str]()
    asked = turns.or_interrupted(lambda: False)
    has_first, reads = threading.Event(), threading.Event()

    def until_it_waits(queue: object) -> None:
        end_s = time.monotonic() + 5
        while not queue and time.monotonic() < end_s:
            time.sleep(0.001)

    def drafts() -> None:
        until_it_waits(turns._beginning)
        asked()
        order.append("drafts")

    def prompt() -> Generator[int]:
        reads.set()
        until_it_waits(turns._waiting)
        asked()
        order.append("prompt")
        yield 1

    def stream() -> Generator[int]:
        yield 1
        order.append("step")
        yield 2

    def streamed() -> None:
        for number in turns.steps(stream()):
            if number == 1:
                has_first.set()
                reads.wait()

    with ThreadPoolExecutor(3) as pool:
        answers: list[Future[object]] = [pool.submit(streamed)]
        has_first.wait()
        answers += [pool.submit(turns.run_long, drafts)]
        answers += [pool.submit(lambda: list(turns.steps(prompt())))]
        for answer in answers:
            answer.result()
    assert order == ["step", "prompt", "drafts"]


def test_time_that_is_given_to_others_is_told() -> None:
    turns = Turns()
    asked = turns.or_interrupted(lambda: False)

    def drafts() -> float:
        begun_s = turns.given_s
        while not turns._beginning:
            time.sleep(0.001)
        time.sleep(0.01)
        asked()
        return turns.given_s - begun_s

    def slow() -> Generator[int]:
        time.sleep(0.05)
        yield 1

    with ThreadPoolExecutor(1) as pool:
        given_s = pool.submit(turns.run_long, drafts)
        list(turns.steps(slow()))
        assert 0.05 <= given_s.result() < 5


def test_an_urgent_guess_is_awaited_until_it_begins() -> None:
    turns = Turns()
    free, seen = threading.Event(), list[bool]()

    def look() -> None:
        seen.append(turns.is_awaited)

    with ThreadPoolExecutor(3) as pool:
        pool.submit(turns.run, free.wait)
        assert not turns.is_awaited
        urgent = pool.submit(turns.run_guess, look, is_urgent=True)
        end_s = time.monotonic() + 20
        while not turns.is_awaited:
            assert time.monotonic() < end_s
            time.sleep(0.001)
        free.set()
        urgent.result()
    assert seen == [False]
    turns.run_guess(look, is_urgent=False)
    assert seen == [False, False]


def test_a_guess_that_never_begins_is_not_awaited() -> None:
    turns = Turns()
    turns.close()
    with pytest.raises(InputError, match="closed"):
        turns.run_guess(lambda: 7, is_urgent=True)
    assert not turns.is_awaited


def test_what_is_to_run_later_is_not_waited_for() -> None:
    turns, is_held, free, order = Turns(), threading.Event(), threading.Event(), list[str]()

    def hold() -> None:
        is_held.set()
        free.wait()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(turns.run, hold)
        is_held.wait()
        turns.run_later(lambda: order.append("later"))
        assert order == []
        free.set()
        turns.run(lambda: order.append("last"))
    assert order == ["later", "last"]
    turns.close()
    turns.run_later(lambda: order.append("never"))
    assert order == ["later", "last"]
