import threading
from collections.abc import Iterator
from contextlib import suppress

from readahead.turns import Turns


def test_guesses_see_that_an_answer_runs() -> None:
    turns = Turns()
    with turns.answer():
        with turns.answer():
            assert turns.is_answering
        assert turns.is_answering
    assert not turns.is_answering


def test_the_model_is_free_between_the_steps_of_an_answer() -> None:
    turns = Turns()
    seen = []
    for item in turns.steps(iter([1, 2])):
        with turns.step():
            seen.append(item)
    assert seen == [1, 2]


def test_a_step_waits_for_the_one_that_runs() -> None:
    turns = Turns()
    order: list[str] = []
    began = threading.Event()

    def slow() -> Iterator[str]:
        began.set()
        threading.Event().wait(0.05)
        order.append("slow")
        yield "slow"

    thread = threading.Thread(target=lambda: list(turns.steps(slow())))
    thread.start()
    began.wait()
    with turns.step():
        order.append("quick")
    thread.join()
    assert order == ["slow", "quick"]


def test_an_error_in_a_step_leaves_the_model_free() -> None:
    turns = Turns()

    def broken() -> Iterator[int]:
        yield 1
        raise ValueError

    with suppress(ValueError):
        list(turns.steps(broken()))
    with turns.step():
        pass
