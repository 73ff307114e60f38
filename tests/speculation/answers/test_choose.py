import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from readahead.logistic import Logistic
from readahead.speculation.answers.choose import (
    MAX_ANSWERS,
    Choice,
    Rated,
    choose,
    expected_gain,
    fitted,
    perplexity,
    rate,
)
from readahead.speculation.answers.pool import Candidate, pool
from readahead.speculation.answers.verify import Judged
from readahead.types import Draft, DraftFault
from tests.speculation.answers.scripted import hits

QUESTION = "When was the lighthouse built?"
HITS = hits(
    "The lighthouse was built in 1885. It is white.",
    "The old lighthouse of 1885 still burns.",
    "The bridge was built in 1902.",
)
PASSAGES = [hit.passage for hit in HITS]
FAULTS: list[DraftFault] = ["", "", "", "empty", "refusal", "echo", "cut"]
DRAFTS = st.lists(
    st.builds(
        Draft,
        st.sampled_from(["1885", "In 1885", "1902", "white", "nine", "the bridge"]),
        st.tuples(st.integers(0, 2)),
        fault=st.sampled_from(FAULTS),
        logprob=st.sampled_from([-0.1, -0.5, -2.0]),
    ),
    max_size=6,
)
WORTH = {"1885": (-0.5, 0.9), "1902": (-1.0, 0.6), "white": (-2.0, 0.5), "nine": (-3.0, 0.1)}


def draft(answer: str, place: int = 0, fault: DraftFault = "", logprob: float = -0.5) -> Draft:
    return Draft(answer, (place,), fault=fault, logprob=logprob)


def judged(candidates: list[Candidate]) -> list[Judged]:
    return [Judged(*WORTH.get(one.answer, (-4.0, 0.2))) for one in candidates]


def chosen(drafts: list[Draft], *, verified: bool = False, threshold: float = 0.0) -> Choice:
    candidates = pool(QUESTION, drafts, PASSAGES)
    rated = rate(QUESTION, candidates, drafts, HITS, judged(candidates) if verified else None)
    return choose(rated, threshold=threshold, also=0.9)


@pytest.mark.parametrize("verified", [False, True])
@given(drafts=DRAFTS, data=st.data())
def test_the_order_of_drafts_never_changes_the_choice(
    drafts: list[Draft], verified: bool, data: st.DataObject
) -> None:
    """Where the first draft always wins, this fails at once."""
    order = data.draw(st.permutations(range(len(drafts))))
    one = chosen(drafts, verified=verified)
    other = chosen([drafts[number] for number in order], verified=verified)
    said = [(r.candidate.answer, r.reason) for r in one.rated]
    assert said == [(r.candidate.answer, r.reason) for r in other.rated]
    assert [r.probability for r in one.rated] == pytest.approx([r.probability for r in other.rated])


@pytest.mark.parametrize("verified", [False, True])
@pytest.mark.parametrize("fault", ["empty", "refusal", "echo", "cut"])
def test_a_draft_with_a_fault_never_wins(fault: DraftFault, verified: bool) -> None:
    best = draft("1885", fault=fault, logprob=0.0)
    assert chosen([best], verified=verified) == Choice()
    choice = chosen([best, best, best, draft("nine", logprob=-9.0)], verified=verified)
    assert [one.candidate.answer for one in choice.rated] == ["nine"]


@given(drafts=DRAFTS)
def test_what_is_selected_is_what_a_sound_draft_says(drafts: list[Draft]) -> None:
    """Nobody answers anew: choosing among drafts is all that is done."""
    sound = {one.answer for one in drafts if not one.fault}
    choice = chosen(drafts)
    assert {one.candidate.answer for one in choice.rated} <= sound
    assert bool(choice.selected) == bool(sound)
    assert all(0 <= one.probability <= 1 for one in choice.rated)


def test_evidence_beats_a_confident_drafter() -> None:
    """Self-consistent fiction scores high with a verifier that sees no passages."""
    drafts = [draft("nine", 2, logprob=-0.01), draft("1885", 0, logprob=-1.0)]
    assert chosen(drafts).rated[0].candidate.answer == "1885"


def test_agreement_from_different_passages_counts() -> None:
    alone = chosen([draft("1885", 0), draft("white", 1)])
    together = chosen([draft("1885", 0), draft("In 1885", 1)])
    assert together.rated[0].signals["agreeing"] == 2 * alone.rated[0].signals["agreeing"]


def test_probabilities_differ_from_answer_to_answer() -> None:
    """A score that is the same for all drafts chooses nothing."""
    drafts = [draft("1885", 0), draft("1902", 2), draft("nine", 1)]
    for verified in (False, True):
        told = [one.probability for one in chosen(drafts, verified=verified).rated]
        assert len({round(p, 6) for p in told}) == 3


def test_consistency_counts_where_it_is_known() -> None:
    drafts = [draft("1885", 0), draft("1902", 2)]
    candidates = pool(QUESTION, drafts, PASSAGES)
    model = Logistic(("consistency",), (0.0,), (1.0,), (1.0,), 0.0)
    for values in ((-0.1, -3.0), (-3.0, -0.1)):
        scores = [Judged(value, 0.5) for value in values]
        best = rate(QUESTION, candidates, drafts, HITS, scores, model=model)[0]
        assert best.candidate is candidates[values.index(-0.1)]
        assert best.judged is scores[values.index(-0.1)]


def test_signals_say_what_is_known() -> None:
    drafts = [draft("1885", 0), draft("In 1885", 2, logprob=-0.1), draft("nine", 1), draft("", 1)]
    drafts[3] = draft("", 1, "empty")
    candidates = pool(QUESTION, drafts, PASSAGES)
    held, unheld = (one.signals for one in rate(QUESTION, candidates, drafts, HITS))
    assert held["held"] == pytest.approx(math.log(3))
    assert held["held_share"] == pytest.approx(2 / 3)
    assert held["agreeing"] == pytest.approx(2 / 3)  # of the sound ones
    assert held["own"] == pytest.approx(1 / 2)
    assert held["logprob"] == pytest.approx(-0.1)
    assert held["coverage"] == pytest.approx(1.0)  # "lighthouse" and "built", in one sentence
    assert held["rank"] == 1.0
    assert (unheld["held"], unheld["coverage"], unheld["rank"]) == (0.0, 0.0, 0.0)


@given(drafts=DRAFTS, threshold=st.floats(0, 1), also=st.floats(0, 1))
def test_answers_below_the_threshold_are_not_given(
    drafts: list[Draft], threshold: float, also: float
) -> None:
    candidates = pool(QUESTION, drafts, PASSAGES)
    rated = rate(QUESTION, candidates, drafts, HITS)
    choice = choose(rated, threshold=threshold, also=also)
    assert all(one.probability >= threshold for one in choice.selected)
    assert all(one.probability >= also for one in choice.selected[1:])
    assert [one.candidate for one in choice.rated] == [one.candidate for one in rated]
    for one in choice.selected:
        for other in choice.selected:
            assert one is other or not one.candidate.terms <= other.candidate.terms


def test_several_right_answers_are_given_together() -> None:
    drafts = [draft("1885", 0), draft("1885", 1), draft("1902", 2)]
    rated = rate(QUESTION, pool(QUESTION, drafts, PASSAGES), drafts, HITS)
    assert len(choose(rated, threshold=0.0, also=0.0).selected) == 2
    best, other = choose(rated, threshold=0.0, also=1.0).rated
    assert best.reason == ""
    assert other.reason.endswith("below 1.00: too unlikely to be given beside a better answer")


def test_a_reason_names_the_bar_that_was_missed() -> None:
    drafts = [draft("1885", 0), draft("1885", 1), draft("1902", 2)]
    rated = rate(QUESTION, pool(QUESTION, drafts, PASSAGES), drafts, HITS)
    least = rated[-1].probability
    low = choose(rated, threshold=(least + 1) / 2, also=0.0)
    assert low.rated[-1].reason.endswith(": too unlikely to be given")
    assert low.also == (least + 1) / 2  # never below the threshold
    assert choose(rated, threshold=0.0, harm=1.0).also is None


def test_an_answer_with_more_words_is_no_further_answer() -> None:
    drafts = [draft("1885", 0), draft("white 1885", 1)]
    rated = rate(QUESTION, pool(QUESTION, drafts, PASSAGES), drafts, HITS)
    choice = choose(rated, threshold=0.0, also=0.0)
    assert len(choice.selected) == 1
    assert "says the same" in choice.rated[1].reason


def test_an_abstention_says_why() -> None:
    choice = chosen([draft("nine")], threshold=1.0)
    assert choice.selected == ()
    assert "below 1.00" in choice.rated[0].reason


@st.composite
def weighed(draw: st.DrawFn) -> list[Rated]:
    """Draw answers with probabilities of being right and wrong, as ``choose`` is given them."""
    said = draw(
        st.lists(st.sampled_from(["1885", "1902", "white", "nine", "old 1885"]), max_size=5)
    )
    drafts = [draft(answer) for answer in dict.fromkeys(said)]
    rated = rate(QUESTION, pool(QUESTION, drafts, PASSAGES), drafts, HITS)
    share = st.sampled_from([0.0, 0.01, 0.1, 0.25, 0.4, 0.6, 0.9, 1.0])
    told = [replace(one, probability=draw(share), wrong=draw(share)) for one in rated]
    return sorted(told, key=lambda one: (-one.probability, one.candidate.answer))


def said(choice: Choice) -> list[str]:
    return [one.candidate.answer for one in choice.selected]


HARM = st.sampled_from([0.0, 1.0, 2.5])


@given(rated=weighed(), harm=HARM, data=st.data())
def test_by_gain_the_order_of_answers_does_not_matter(
    rated: list[Rated], harm: float, data: st.DataObject
) -> None:
    mixed = data.draw(st.permutations(rated))
    choice = choose(rated, threshold=0.0, harm=harm)
    assert choice.rated == choose(mixed, threshold=0.0, harm=harm).rated
    assert bool(choice.selected) == bool(rated)
    assert len(choice.selected) <= MAX_ANSWERS
    for one in choice.selected:
        for other in choice.selected:
            assert one is other or not one.candidate.agrees_with(other.candidate)


@given(rated=weighed(), harm=HARM, more=st.floats(0, 1), data=st.data())
def test_an_answer_that_is_more_probably_wrong_never_comes_in(
    rated: list[Rated], harm: float, more: float, data: st.DataObject
) -> None:
    assume(rated)
    number = data.draw(st.integers(0, len(rated) - 1))
    one = rated[number]
    assert one.wrong is not None
    before = said(choose(rated, threshold=0.0, harm=harm))
    worse = [*rated]
    worse[number] = replace(one, wrong=min(1.0, one.wrong + more))
    after = said(choose(worse, threshold=0.0, harm=harm))
    assert one.candidate.answer in before or one.candidate.answer not in after


@given(rated=weighed(), harm=HARM)
def test_an_answer_that_cannot_be_wrong_always_joins(rated: list[Rated], harm: float) -> None:
    choice = choose(rated, threshold=0.0, harm=harm)
    for one in choice.rated:
        if one.wrong == 0 and one.probability > 0 and one.reason:
            is_sure = any(other.probability == 1 for other in choice.selected)
            is_full = len(choice.selected) == MAX_ANSWERS
            assert is_full or is_sure or "says the same" in one.reason


@given(rated=weighed(), harm=HARM)
def test_each_answer_given_raises_the_gain(rated: list[Rated], harm: float) -> None:
    selected = choose(rated, threshold=0.0, harm=harm).selected
    gain = expected_gain(selected, harm)
    best = max((expected_gain([one], harm) for one in rated), default=0.0)
    assert gain >= best
    assert len(selected) <= 1 or gain > best


@given(rated=weighed(), threshold=st.floats(0, 1))
def test_by_gain_no_answer_below_the_threshold_is_given(
    rated: list[Rated], threshold: float
) -> None:
    choice = choose(rated, threshold=threshold, harm=2.0)
    assert all(one.probability >= threshold for one in choice.selected)
    assert bool(choice.selected) == any(one.probability >= threshold for one in rated)


def test_what_a_further_answer_would_do_is_told() -> None:
    drafts = [draft("1885", 0), draft("1902", 2), draft("nine", 1)]
    rated = rate(QUESTION, pool(QUESTION, drafts, PASSAGES), drafts, HITS)
    worth = {"1885": (0.7, 0.1), "1902": (0.6, 0.21), "nine": (0.4, 0.02)}
    told = [
        replace(one, probability=p, wrong=w)
        for one, (p, w) in ((one, worth[one.candidate.answer]) for one in rated)
    ]
    choice = choose(told, threshold=0.0, harm=2.5)
    assert said(choice) == ["1885", "nine"]
    (left,) = [one for one in choice.rated if one.reason]
    assert left.reason == (
        "beside the better answer it would rather harm: wrong with probability 0.21"
    )
    # 1 − 0.3 · 0.6 · 0.4 is nearly twice what 1885 is worth alone, if no answer may be wrong.
    assert said(choose(told, threshold=0.0, harm=0.0)) == ["1885", "1902", "nine"]
    assert expected_gain(choice.selected, 2.5) == pytest.approx(0.82 * 0.75 * 0.95)


def test_the_smallest_gain_counts_and_two_wrongs_make_no_right() -> None:
    drafts = [draft("1885", 0), draft("1902", 2)]
    rated = rate(QUESTION, pool(QUESTION, drafts, PASSAGES), drafts, HITS)
    for worth, num_given in ((((0.9, 0.1), (0.01, 0.0)), 2), (((0.6, 0.9), (0.5, 0.9)), 1)):
        pairs = zip(rated, worth, strict=True)
        told = [replace(one, probability=p, wrong=w) for one, (p, w) in pairs]
        assert len(choose(told, threshold=0.0, harm=2.5).selected) == num_given


def test_the_least_harmful_comes_before_the_most_probable() -> None:
    drafts = [draft("1885", 0), draft("1902", 2)]
    first, second = rate(QUESTION, pool(QUESTION, drafts, PASSAGES), drafts, HITS)
    told = [replace(first, probability=0.6, wrong=0.3), replace(second, probability=0.5, wrong=0.1)]
    choice = choose(told, threshold=0.0, harm=2.0)
    assert [one.candidate for one in choice.rated] == [second.candidate, first.candidate]
    assert said(choose(told, threshold=0.55, harm=2.0)) == [first.candidate.answer]


def test_being_wrong_is_told_where_the_verifier_was_asked() -> None:
    drafts = [draft("1885", 0), draft("1902", 2)]
    candidates = pool(QUESTION, drafts, PASSAGES)
    told = rate(QUESTION, candidates, drafts, HITS, judged(candidates))
    assert all(one.wrong is not None and 0 < one.wrong < 1 for one in told)
    assert all(one.wrong is None for one in rate(QUESTION, candidates, drafts, HITS))
    alone = rate(QUESTION, candidates, drafts, HITS, model=fitted("evidence"))
    assert all(one.wrong is None for one in alone)


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [([], 0), ([0.7], 1), ([0.5, 0.5], 2), ([0.2] * 5, 5), ([0, 0], 2), ([1, 0], 1)],
)
def test_perplexity_counts_answers(probabilities: list[float], expected: float) -> None:
    assert perplexity(probabilities) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), min_size=1))
def test_perplexity_is_between_one_and_all(probabilities: list[float]) -> None:
    assert 1 - 1e-9 <= perplexity(probabilities) <= len(probabilities) + 1e-9


def test_nothing_comes_of_nothing() -> None:
    assert choose([], threshold=0.0, also=0.0) == Choice()
    assert rate(QUESTION, [], [], []) == []
