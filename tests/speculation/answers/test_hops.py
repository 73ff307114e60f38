from collections.abc import Sequence
from functools import partial

import pytest

from readahead.config import DraftsConfig
from readahead.lm.model import TransformersModel
from readahead.speculation.answers.choose import Choice
from readahead.speculation.answers.hops import Hop, ask_in_hops, evidence, known
from readahead.speculation.answers.outcome import Outcome
from readahead.speculation.answers.speculate import Speculator
from readahead.speculation.answers.split import Splitter
from readahead.types import Hit
from tests.speculation.answers.scripted import Scripted, hits

NESTED = "Who is the mother of the man who wrote Hamlet?"
KNOWLEDGE = hits(
    "Hamlet was written by Shakespeare.",
    "Shakespeare was a son of Mary Arden.",
    "The play Hamlet, a work of Shakespeare, is long.",
    "The ferry sails daily.",
)
CONFIG = DraftsConfig.model_validate({"threshold": 0.0, "max_refinements": 0})


def small(prompt: str) -> str:
    """Read one passage as a small model would."""
    shown, _, question = prompt.rpartition("Question: ")
    if "wrote" in question and "mother" not in question and "Hamlet" in shown:
        return "Shakespeare"
    return "Mary Arden" if "Shakespeare?" in question and "Arden" in shown else "unknown"


def large(prompt: str) -> str:
    if "Split the question" in prompt:
        return "Who wrote Hamlet?\nWho is the mother of #1?"
    return "Mary Arden" if "Known: " in prompt and "Arden" in prompt else "unknown"


class World:
    """Answers questions by drafts over what it knows, and remembers what it was asked."""

    def __init__(self, drafter: Scripted | None = None, target: Scripted | None = None) -> None:
        self.target = target or Scripted(large)
        self.speculator = Speculator(drafter or Scripted(small), self.target, CONFIG)
        self.asked: list[str] = []

    def ask(self, question: str) -> Outcome:
        self.asked.append(question)
        return self.speculator.answer(question, KNOWLEDGE)

    def hop(self, question: str = NESTED, max_depth: int = 2) -> Hop:
        split = Splitter(self.target)
        return ask_in_hops(question, self.ask, split, self.speculator.combine, max_depth=max_depth)


def test_a_question_is_answered_in_steps() -> None:
    world = World()
    hop = world.hop()
    assert world.asked == ["Who wrote Hamlet?", "Who is the mother of Shakespeare?"]
    assert hop.outcome.answers == ("Mary Arden",)
    assert hop.is_combined
    assert [child.outcome.answers for child in hop.children] == [("Shakespeare",), ("Mary Arden",)]
    assert hop.outcome.hits == tuple(KNOWLEDGE[:3])


def test_the_audit_is_a_tree() -> None:
    walked = [(depth, hop.question) for depth, hop in World().hop().walk()]
    assert walked == [
        (0, NESTED),
        (1, "Who wrote Hamlet?"),
        (1, "Who is the mother of Shakespeare?"),
    ]


def test_an_answer_is_no_more_probable_than_its_parts() -> None:
    hop = World().hop()
    parts = [child.confidence for child in hop.children]
    assert hop.confidence == min(hop.outcome.confidence, *parts)
    assert 0 < hop.confidence < 1


@pytest.mark.parametrize("question", ["Who wrote Hamlet?", "when was it built"])
def test_a_plain_question_is_asked_as_it_stands(question: str) -> None:
    world = World()
    hop = world.hop(question)
    assert world.asked == [question]
    assert hop == Hop(question, hop.outcome)
    assert world.target.prompts == []


def test_at_no_depth_nothing_is_split() -> None:
    world = World()
    assert world.hop(max_depth=0).children == ()
    assert world.asked == [NESTED]


def nested(question: str) -> Sequence[str]:
    """Split everything, again and again."""
    return (f"What of {question}?", "What of #1?")


@pytest.mark.parametrize(("max_depth", "num_asked"), [(0, 1), (1, 2), (2, 4)])
def test_questions_are_split_no_deeper_than_allowed(max_depth: int, num_asked: int) -> None:
    world = World(Scripted(lambda _: "Shakespeare"), Scripted(lambda _: "Shakespeare"))
    hop = ask_in_hops("Hamlet", world.ask, nested, world.speculator.combine, max_depth=max_depth)
    assert len(world.asked) == num_asked
    assert max(depth for depth, _ in hop.walk()) == max_depth
    assert hop.outcome.answers == ("Shakespeare",)


def test_where_a_part_finds_nothing_the_question_is_asked_as_it_stands() -> None:
    world = World(Scripted(lambda _: "unknown"))
    hop = world.hop()
    assert world.asked == ["Who wrote Hamlet?", NESTED]
    assert len(hop.children) == 1
    assert not hop.is_combined
    assert hop.outcome.answers == ()


def test_where_the_sum_finds_nothing_the_question_is_asked_as_it_stands() -> None:
    target = Scripted(lambda prompt: large(prompt) if "Split" in prompt else "unknown")
    world = World(target=target)
    hop = world.hop()
    assert world.asked[-1] == NESTED
    assert len(hop.children) == 2
    assert not hop.is_combined
    assert hop.confidence == hop.outcome.confidence


def test_a_cancelled_part_ends_the_request() -> None:
    def ask(question: str) -> Outcome:
        return Outcome(is_cancelled=True)

    hop = ask_in_hops("Hamlet", ask, nested, World().speculator.combine, max_depth=1)
    assert hop.outcome.is_cancelled
    assert len(hop.children) == 1


def test_a_cancelled_sum_ends_the_request() -> None:
    world = World()
    combine = partial(world.speculator.combine, cancelled=lambda: True)
    hop = ask_in_hops(NESTED, world.ask, Splitter(world.target), combine, max_depth=1)
    assert hop.outcome.is_cancelled
    assert NESTED not in world.asked


def test_an_answer_with_a_backslash_or_a_number_is_filled_in_as_it_is() -> None:
    said = r"\1 #2 {x}"
    asked: list[str] = []

    def ask(question: str) -> Outcome:
        asked.append(question)
        speculator = Speculator(Scripted(lambda _: said), Scripted(lambda _: said), CONFIG)
        return speculator.answer(question, hits(said, said))

    def combine(question: str, known: str, hits: Sequence[Hit]) -> Outcome:
        return Outcome()

    ask_in_hops("Hamlet", ask, lambda _: ("Who?", "And #1?"), combine, max_depth=1)
    assert asked == ["Who?", rf"And {said}?", "Hamlet"]


def test_what_is_known_is_one_line_in_the_questions_language() -> None:
    children = World().hop().children
    line = "Who wrote Hamlet? Shakespeare. Who is the mother of Shakespeare? Mary Arden."
    assert known(NESTED, children) == f"Known: {line}"
    assert known("谁写的？", children) == f"已知：{line}"


def test_each_passage_is_shown_once() -> None:
    children = World().hop().children
    assert evidence([*children, *children]) == evidence(children)
    assert evidence([Hop("?", Outcome(choice=Choice()))]) == []


def test_an_answer_that_stands_nowhere_brings_what_it_was_drafted_from() -> None:
    speculator = Speculator(Scripted(lambda _: "Ophelia"), Scripted(large), CONFIG)
    outcome = speculator.answer("Who?", KNOWLEDGE[:2])
    assert evidence([Hop("Who?", outcome)]) == KNOWLEDGE[:2]


@pytest.mark.parametrize("preset", ["fast", "accurate"])
def test_a_tiny_model_does_all_of_it(model: TransformersModel, preset: str) -> None:
    config = DraftsConfig.model_validate({"threshold": 0.0, "preset": preset, "max_new_tokens": 4})
    speculator = Speculator(model, model, config)
    hop = ask_in_hops(
        "Compare Lyon and Paris.",
        lambda question: speculator.answer(question, KNOWLEDGE),
        Splitter(model),
        speculator.combine,
        max_depth=1,
    )
    assert [child.question for child in hop.children][:1] == ["What is Lyon?"]
    assert 0 <= hop.confidence <= 1
