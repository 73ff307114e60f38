import json
from dataclasses import replace

from readahead.evaluation.verdict import MAX_FALL, Advice, Measured, Trial, say, warn
from readahead.speculation.tokens.advise import Costs, best_gamma, best_speed_up, break_even


def measured(
    num_tokens: int, one_s: float, draft_s: float, beta: float, num_new_tokens: int = 64
) -> Measured:
    """Return what a target whose steps take ``one_s``, however many tokens, would come to."""
    costs = Costs({1: one_s, 17: one_s}, draft_s)
    ways = ("lookup", "rag", "hybrid")
    trials = [replace(trial(way, beta, costs), num_new_tokens=num_new_tokens) for way in ways]
    return Measured(num_tokens, num_tokens // 4, dict(costs.verify_s), draft_s, one_s, (*trials,))


def trial(way: str, beta: float, costs: Costs) -> Trial:
    return Trial(
        way=way,
        num_new_tokens=64,
        is_identical=True,
        num_draft_tokens=40,
        acceptance=beta,
        share=1.0,
        tokens_per_forward=2.0,
        predicted_tokens_per_forward=2.1,
        speed_up=1.5,
        predicted_speed_up=1.6,
        best_gamma=best_gamma(beta, costs),
        best_speed_up=best_speed_up(beta, costs),
        break_even=break_even(costs),
    )


def test_a_cheap_drafter_is_worth_it() -> None:
    first, second = say([measured(500, 1.0, 0.2, 0.8)], 8192)
    assert first.startswith("At 500 tokens the drafter is worth it: 0.80 of its tokens are accept")
    assert "it pays from 0.20 on" in first
    assert second == (
        "At 500 tokens copying decodes 1.50 times as fast as plain, both together 1.50 times."
    )


def test_a_dear_drafter_may_pay_behind_a_longer_context() -> None:
    costs = [measured(500, 1.05, 0.9, 0.8), measured(2000, 1.2, 0.9, 0.8)]
    sentences = list(say(costs, 8192))
    assert sentences[0].startswith(
        "At 500 tokens the drafter is not worth it: it costs 0.86 of a target step; 0.80 of its"
    )
    assert sentences[1].startswith("From about ")
    assert sentences[1].endswith(" tokens of the target's context on it would pay.")
    num_tokens = int(sentences[1].split()[2])
    assert (
        best_speed_up(0.8, Costs({1: 1 + num_tokens / 9_900, 17: 1 + num_tokens / 9_900}, 0.9)) > 1
    )
    assert "but it reads 100 at most" in list(say(costs, 100))[1]


def test_a_drafter_that_never_pays_is_told_so() -> None:
    same = [measured(500, 1.0, 1.1, 0.9), measured(2000, 1.0, 1.1, 0.9)]
    sentences = list(say(same, 8192))
    assert "and not even all of them would pay" in sentences[0]
    assert sentences[1] == "As costs grow with the context, a longer one does not change that."
    alone = list(say(same[:1], 8192))
    assert alone[1] == "Give several --context to see from which on it would pay."


def test_a_short_answer_is_told_to_say_little() -> None:
    *_, last = say([measured(500, 1.0, 0.2, 0.8, num_new_tokens=3)], 8192)
    assert last == "The answer had 3 tokens: too few to trust what was measured."


def test_costs_that_fall_are_warned_of() -> None:
    steady = measured(500, 1.0, 0.2, 0.8)
    assert list(warn([steady])) == []
    a_little = replace(steady, verify_s={1: 1.0, 2: 1.0 - MAX_FALL / 2, 17: 1.2})
    assert list(warn([a_little])) == []
    (warning,) = warn([steady, replace(steady, verify_s={1: 0.9, 2: 1.5, 5: 1.1, 9: 1.2, 17: 1.9})])
    assert warning.startswith(
        "At 500 tokens a step of 5 tokens took 1100.0 ms, one of 2 took 1500.0 ms: either times are"
    )


def test_a_prediction_that_does_not_hold_is_warned_of() -> None:
    one = measured(500, 1.0, 0.2, 0.8)
    lookup, rag, hybrid = one.trials
    slow = replace(rag, speed_up=1.2)
    lucky = replace(hybrid, tokens_per_forward=2.7)
    slower, luckier = warn([replace(one, trials=(lookup, slow, lucky))])
    assert slower.startswith(
        "At 500 tokens rag was told 1.60 times as fast as plain, and 1.20 were found, more than 25%"
    )
    assert luckier.startswith("At 500 tokens hybrid was told 2.10 tokens a forward pass, and 2.70")


def test_advice_is_json() -> None:
    one = measured(500, 1.0, 0.2, 0.8)
    told = json.loads(json.dumps(Advice("big", "small", (one,), ("Yes.",), ("No.",)).to_json()))
    assert told["lengths"][0]["verify_s"] == {"1": 1.0, "17": 1.0}
    assert told["lengths"][0]["trials"][1]["way"] == "rag"
    assert told["sentences"] == ["Yes."]
    assert told["warnings"] == ["No."]
