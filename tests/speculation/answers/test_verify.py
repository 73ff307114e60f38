import itertools
import math
from collections.abc import Sequence

import pytest
import torch

from readahead.lm.base import Cancelled, Scored, never
from readahead.lm.model import TransformersModel
from readahead.lm.prompt import Prompt
from readahead.speculation.answers.asking import CHINESE_DRAFT, ENGLISH_DRAFT
from readahead.speculation.answers.verify import Judged, Statement, Verifier
from readahead.trace import Trace
from tests.speculation.answers.scripted import TOKENIZER, Scripted, passage, silent

QUESTION = "When was the lighthouse built?"
PASSAGES = [passage("The lighthouse was built in 1885."), passage("It is white.", 1)]
STATEMENTS = [
    Statement("1885", "The lighthouse was built in 1885."),
    Statement("In the year 1902"),
    Statement("1885"),
    Statement("八月", "灯塔建于八月。"),
]


class Choosing(Scripted):
    """Replies with given probabilities of first bytes, to whatever it is asked."""

    def __init__(self, **odds: float) -> None:
        super().__init__(silent)
        self.odds = odds

    def score(
        self,
        prompts: Sequence[Prompt],
        continuations: Sequence[Sequence[int]],
        *,
        options: Sequence[int] = (),
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> list[Scored]:
        told = tuple(math.log(self.odds.get(TOKENIZER.decode([i]), 1e-12)) for i in options)
        return [Scored((-1.0,) * len(ids), told) for ids in continuations]


def assert_alike(some: Sequence[Judged], others: Sequence[Judged]) -> None:
    for one, other in zip(some, others, strict=True):
        assert one.consistency == pytest.approx(other.consistency, abs=1e-4)
        assert one.support == pytest.approx(other.support, abs=1e-4)


@pytest.mark.parametrize("passages", [[], PASSAGES])
def test_the_order_of_drafts_does_not_matter(
    model: TransformersModel, passages: list[object]
) -> None:
    verifier = Verifier(model)
    shown = PASSAGES if passages else []
    judged = verifier.judge(QUESTION, STATEMENTS, shown)
    assert len({round(one.consistency, 3) for one in judged}) == len(STATEMENTS)
    for order in itertools.permutations(range(len(STATEMENTS))):
        permuted = verifier.judge(QUESTION, [STATEMENTS[i] for i in order], shown)
        assert_alike(permuted, [judged[i] for i in order])


def test_a_batch_equals_single_drafts(model: TransformersModel) -> None:
    verifier = Verifier(model)
    singles = [verifier.judge(QUESTION, [statement], PASSAGES)[0] for statement in STATEMENTS]
    assert_alike(verifier.judge(QUESTION, STATEMENTS, PASSAGES), singles)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_consistency_is_that_of_the_drafts_own_tokens(
    model: TransformersModel, statement: Statement
) -> None:
    """Not of those from position 0 on, nor a number that somebody made up."""
    tokenizer = model.tokenizer
    head, tail = tokenizer.frame(ENGLISH_DRAFT.closed)
    prompt = tokenizer.encode_control(f"{head}Question: {QUESTION}{tail}")
    said = statement.answer
    if statement.rationale:
        said = f"Rationale: {statement.rationale}\nAnswer: {statement.answer}"
    ids = tokenizer.encode(said)
    with torch.no_grad():
        logits = model.backend(torch.tensor([[*prompt, *ids]])).logits[0]
    logprobs = logits.log_softmax(-1)[len(prompt) - 1 : -1]
    expected = logprobs.gather(-1, torch.tensor(ids)[:, None]).mean().item()
    (judged,) = Verifier(model).judge(QUESTION, [statement])
    assert judged.consistency == pytest.approx(expected, abs=1e-4)


def test_a_long_answer_with_the_same_mean_scores_the_same() -> None:
    statements = [
        Statement("1885"),
        Statement("It was built in the year 1885 " * 9, "It says so. " * 5),
    ]
    short, long = Verifier(Scripted(silent)).judge(QUESTION, statements)
    assert short.consistency == pytest.approx(long.consistency)
    assert short.support == long.support


def test_an_empty_draft_scores_nothing() -> None:
    (judged,) = Verifier(Scripted(silent)).judge(QUESTION, [Statement("")])
    assert judged.consistency == -math.inf


@pytest.mark.parametrize(
    ("odds", "support"),
    [
        ({"Y": 0.6, "N": 0.2}, 0.75),
        ({"y": 0.6, "n": 0.2}, 0.75),  # whoever writes "yes" is not against it
        ({"Y": 0.3, "y": 0.3, "N": 0.1, "n": 0.1}, 0.75),
        ({"Y": 0.03, "N": 0.01, "T": 0.96}, 0.75),  # "The rationale …"
        ({"Y": 0.6, "N": 0.2, " ": 0.2}, 0.75),  # a space begins both
        ({"Y": 1e-9, "N": 3e-9}, 0.25),
    ],
)
def test_support_is_the_share_of_yes_among_both_words(
    odds: dict[str, float], support: float
) -> None:
    (judged,) = Verifier(Choosing(**odds)).judge(QUESTION, [Statement("1885")])
    assert judged.support == pytest.approx(support, abs=1e-3)


def test_support_is_asked_in_the_language_of_the_question() -> None:
    model = Scripted(silent)
    Verifier(model).judge("灯塔建于哪一年？", [Statement("1885年")])
    ((prompt, said),) = model.scored
    assert CHINESE_DRAFT.closed in prompt
    assert "理由是否支持答案？（是或否）" in said


def test_the_verifier_sees_passages_if_they_are_shown_and_writes_nothing() -> None:
    model = Scripted(silent)
    Verifier(model).judge(QUESTION, STATEMENTS, PASSAGES)
    Verifier(model).judge(QUESTION, STATEMENTS)
    shown = [prompt for prompt, _ in model.scored if PASSAGES[0].text in prompt]
    assert len(shown) == len(STATEMENTS)
    assert model.prompts == []


def test_the_question_is_read_once_for_all(model: TransformersModel) -> None:
    one, all_of_them = Trace("one"), Trace("all")
    statements = [Statement("1885"), Statement("1902"), Statement("1999")]
    Verifier(model).judge(QUESTION, statements[:1], PASSAGES, trace=one)
    Verifier(model).judge(QUESTION, statements, PASSAGES, trace=all_of_them)
    per_draft = (all_of_them.counters["computed_tokens"] - one.counters["computed_tokens"]) / 2
    assert per_draft < one.counters["computed_tokens"] / 3


@pytest.mark.parametrize("after", [0, 1, 5, 20])
def test_cancelling_stops_within_one_step(model: TransformersModel, after: int) -> None:
    asked = itertools.count()
    trace = Trace("test")
    judged = Verifier(model).judge(
        QUESTION, STATEMENTS, PASSAGES, cancelled=lambda: next(asked) >= after, trace=trace
    )
    assert judged == []
    step = len(STATEMENTS) * model.prefill_step_tokens
    assert trace.counters["computed_tokens"] <= after * step


@pytest.mark.parametrize("control", ["<|im_end|>", "<|im_start|>system\n"])
def test_what_people_wrote_becomes_no_control_token(model: TransformersModel, control: str) -> None:
    """If it did, the same text would take fewer tokens."""
    traces = [Trace("test"), Trace("test")]
    for trace, added in zip(traces, (control, "x" * len(control)), strict=True):
        statement = Statement(f"1885{added}", f"It says{added}")
        Verifier(model).judge(f"When{added}?", [statement], [passage(added)], trace=trace)
    assert traces[0].counters["computed_tokens"] == traces[1].counters["computed_tokens"]


def test_no_drafts_no_judgement() -> None:
    assert Verifier(Scripted(silent)).judge(QUESTION, []) == []
