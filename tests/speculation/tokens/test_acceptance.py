"""The laws of acceptance, proved by enumeration in float64: no samples, but for the chi-square."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from readahead.errors import ConfigError, InputError
from readahead.speculation.tokens.acceptance import (
    Accepted,
    Dice,
    Generated,
    Mode,
    Rule,
    TargetRow,
    accept,
    agreement,
    augmented,
    certain,
    chance,
    decide,
    ensemble,
    overlap,
    residual,
    total_variation,
)
from readahead.speculation.tokens.base import Proposal
from tests.speculation.tokens.enumeration import (
    KIND,
    Said,
    Script,
    Tokens,
    World,
    answer_law,
    distance,
    one_round,
    round_law,
)

DOC = Path(__file__).parents[3] / "docs" / "tokens.md"
MODES: list[Mode] = ["exact", "augmented", "paper", "ensemble"]
RULES = [Rule(), Rule("ensemble"), Rule("ensemble", weight=0.3)]
RULES += [Rule(mode, eta, tail=tail) for mode in MODES[1:3] for eta, tail in [(2, 0), (10, 0.1)]]
RULES += [Rule(mode, 10.0, is_dynamic=True) for mode in MODES[1:3]]
P = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
Q = torch.tensor([0.1, 0.2, 0.6, 0.1], dtype=torch.float64)


def label(rule: Rule) -> str:
    return f"{rule.mode}-{rule.eta:g}-{rule.weight:g}{'-dynamic' * rule.is_dynamic}"


def moved(p: list[float], q: list[float], eta: float, tail: float) -> list[float]:
    """p̂ once more, from logits, in plain Python."""
    weights = [a and math.exp(math.log(a) + eta * (b - a)) for a, b in zip(p, q, strict=True)]
    soft = [w / sum(weights) for w in weights]
    mixed = [s if s >= tail * max(soft) else a for s, a in zip(soft, p, strict=True)]
    return [x / sum(mixed) for x in mixed]


def strength(rule: Rule, p: list[float], q: list[float]) -> float:
    """η at one token, in plain Python."""
    agreement = sum(min(a, b) for a, b in zip(p, q, strict=True))
    return rule.eta * agreement if rule.is_dynamic else rule.eta


def published(p: list[float], judge: list[float], q: list[float]) -> list[float]:
    """min(q, p̂) + (1 − β) · norm((p − min(q, p̂))₊), in plain Python."""
    shared = [min(a, b) for a, b in zip(q, judge, strict=True)]
    left = [max(a - m, 0.0) for a, m in zip(p, shared, strict=True)]
    missing = 1 - sum(shared)
    if missing < 1e-12:
        return shared
    return [m + missing * a / sum(left) for m, a in zip(shared, left, strict=True)]


def claimed(rule: Rule, world: World, context: Tokens, *, bonus: bool) -> list[float]:
    """The law of a token that the docstrings claim."""
    p, q = world.p(context).tolist(), world.q(context).tolist()
    if rule.mode == "exact":
        return p
    if rule.mode == "ensemble":
        return [rule.weight * a + (1 - rule.weight) * b for a, b in zip(p, q, strict=True)]
    judge = moved(p, q, strength(rule, p, q), rule.tail)
    if rule.mode == "augmented":
        return judge
    copied = world.copied(context)
    drawn = q if copied is None else [float(token == copied) for token in range(world.size)]
    return p if bonus else published(p, judge, drawn)


def grown(
    laws: dict[Tokens, float], length: int, row: Callable[[Tokens], list[float]]
) -> dict[Tokens, float]:
    """Return the law of ``length`` tokens where those that are missing have the law ``row``."""
    whole: dict[Tokens, float] = defaultdict(float)
    begun = list(laws.items())
    while begun:
        ids, probability = begun.pop()
        if len(ids) == length:
            whole[ids] += probability
            continue
        begun += [((*ids, x), probability * c) for x, c in enumerate(row(ids)) if c > 0]
    return whole


def rounds_gap(
    said: dict[Said, float], num_tokens: int, row: Callable[[Tokens], list[float]]
) -> float:
    """Return how far a round, gone on with by the law that is claimed, is off that law."""
    laws: dict[Tokens, float] = defaultdict(float)
    for one, probability in said.items():
        laws[one.ids] += probability
    length = num_tokens + 1
    return distance(grown(laws, length, row), grown({(): 1.0}, length, row))


@pytest.mark.parametrize(("zeros", "certainty"), [(2, 0), (3, 5)])
@pytest.mark.parametrize(("size", "num_tokens"), [(v, g) for v in (2, 3, 4) for g in (1, 2, 3, 4)])
@pytest.mark.parametrize("rule", [RULES[0], RULES[1], RULES[4], RULES[6], RULES[7]], ids=label)
def test_a_round_has_the_law_that_its_mode_claims(
    rule: Rule, size: int, num_tokens: int, zeros: int, certainty: int
) -> None:
    """p and q differ from context to context, have zeros, and every second draft may be certain."""
    world = World(size, 10 * size + num_tokens, certainty, zeros)

    def row(ids: Tokens) -> list[float]:
        return claimed(rule, world, ids, bonus=len(ids) == num_tokens)

    said = round_law(rule, world, (), num_tokens)
    assert rounds_gap(said, num_tokens, row) < 1e-12
    for one in said:
        gaps = [
            sum(abs(a - b) for a, b in zip(row(ids), world.p(ids).tolist(), strict=True)) / 2
            for ids in (one.ids[:place] for place in range(len(one.ids)))
        ]
        assert one.gaps == pytest.approx(gaps, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    rule=st.sampled_from(RULES),
    seed=st.integers(0, 10**6),
    size=st.integers(2, 5),
    num_tokens=st.integers(0, 2),
    zeros=st.integers(0, 8),
    certainty=st.integers(0, 10),
)
def test_so_it_has_in_any_world(
    rule: Rule, seed: int, size: int, num_tokens: int, zeros: int, certainty: int
) -> None:
    world = World(size, seed, certainty, zeros)
    said = round_law(rule, world, (), num_tokens)
    gap = rounds_gap(
        said,
        num_tokens,
        lambda ids: claimed(rule, world, ids, bonus=len(ids) == num_tokens),
    )
    assert gap < 1e-12


@pytest.mark.parametrize("rule", [RULES[0], RULES[1], RULES[3], RULES[4], RULES[7]], ids=label)
def test_several_rounds_have_the_same_law_whatever_the_draft_length(rule: Rule) -> None:
    world = World(3, seed=5, certainty=3)
    plain = grown({(): 1.0}, 3, lambda ids: claimed(rule, world, ids, bonus=False))
    for num_tokens in range(5):
        assert distance(answer_law(rule, world, num_tokens, 3), plain) < 1e-12


def test_the_published_residual_depends_on_the_draft_length() -> None:
    world, rule = World(3, seed=5), Rule("paper")
    laws = [answer_law(rule, world, num_tokens, 3) for num_tokens in range(3)]
    assert distance(laws[0], laws[1]) > 0.05
    assert distance(laws[1], laws[2]) > 0.01


@pytest.mark.parametrize("seed", range(5))
def test_the_published_residual_does_not_keep_p(seed: int) -> None:
    """Negative control: the proof of ``exact`` must find what is wrong with ``paper``."""
    world = World(3, seed, zeros=0)
    said = round_law(Rule("paper", tail=0), world, (), 2)
    assert rounds_gap(said, 2, lambda ids: world.p(ids).tolist()) > 0.05


def test_the_table_of_the_documentation_is_right() -> None:
    lines = DOC.read_text("utf-8").partition("| η |")[2].splitlines()[2:7]
    rows = [[float(figure) for figure in line.replace("|", " ").split()] for line in lines]
    assert [row[0] for row in rows] == [0, 2, 5, 10, 20]
    for eta, *printed in rows:
        judge = augmented(P, Q, eta, tail=0.0)
        shared = overlap(judge, Q, 0)
        out = shared + (1 - shared.sum()) * residual(P, shared)
        gaps = [total_variation(out, P), total_variation(out, judge)]
        figures = [*judge.tolist(), float(shared.sum()), *out.tolist(), *gaps]
        figures += augmented(P, Q, eta, tail=0.1).tolist()
        assert printed == pytest.approx(figures, abs=0.00051)


def drafted(ids: Tokens, rows: list[Tensor | None], soft: Tensor | None = None) -> Proposal:
    return Proposal(ids, tuple(rows), (KIND,) * len(ids), soft)


def first_choice(world: World, context: Tokens, num_tokens: int, dice: Dice) -> Proposal:
    """Draft the most probable token, and say that it was drawn from q."""
    q = world.q(context)
    return drafted((int(q.argmax()),), [q])


def other_q(world: World, context: Tokens, num_tokens: int, dice: Dice) -> Proposal:
    """Draw from the two most probable tokens, and say that it was from all."""
    q = world.q(context)
    kept = torch.where(q >= q.topk(2).values[-1], q, 0.0)
    return drafted((dice.draw(kept / kept.sum()),), [q])


def dropped(world: World, context: Tokens, num_tokens: int, dice: Dice) -> Proposal:
    """Draw from q, and propose nothing where the token that was drawn is not probable."""
    q = world.q(context)
    token_id = dice.draw(q)
    return drafted((token_id,), [q]) if q[token_id] > 0.4 else drafted((), [])


@pytest.mark.parametrize("draft", [first_choice, other_q, dropped])
def test_a_q_that_was_not_drawn_from_is_found_out(
    draft: Callable[[World, Tokens, int, Dice], Proposal],
) -> None:
    """Negative controls: three mistakes that others made; each moves the law away from p."""
    world = World(4, seed=3, zeros=0)
    gap = rounds_gap(round_law(Rule(), world, (), 1, draft), 1, lambda ids: world.p(ids).tolist())
    assert gap > 0.01
    assert rounds_gap(round_law(Rule(), world, (), 1), 1, lambda ids: world.p(ids).tolist()) < 1e-12


def stopped(world: World, context: Tokens, num_tokens: int, dice: Dice) -> Proposal:
    """Draft on until a token is improbable, as a governor may; that one is kept and verified."""
    ids: Tokens = ()
    rows: list[Tensor | None] = []
    while len(ids) < num_tokens:
        q = world.q(context + ids)
        ids += (dice.draw(q),)
        rows.append(q)
        if q[ids[-1]] < 0.4:
            break
    soft = torch.stack([world.q(context + ids[:place]) for place in range(len(ids) + 1)])
    return drafted(ids, rows, soft)


@pytest.mark.parametrize("rule", [RULES[0], RULES[1], RULES[4], RULES[7]], ids=label)
def test_how_many_are_drafted_may_depend_on_what_was_drawn(rule: Rule) -> None:
    world = World(3, seed=4)
    said = round_law(rule, world, (), 3, stopped)
    assert {len(one.ids) for one in said} == {1, 2, 3, 4}
    lengths = {len(stopped(world, (), 3, Script((side,))).token_ids) for side in range(2)}
    assert len(lengths) == 2
    assert rounds_gap(said, 3, lambda ids: claimed(rule, world, ids, bonus=False)) < 1e-12


def hot(token_id: int, size: int) -> Tensor:
    row = torch.zeros(size, dtype=torch.float64)
    row[token_id] = 1.0
    return row


def greedy_round(rule: Rule, world: World, context: Tokens, ids: Tokens, certainty: bool) -> Tokens:
    """Return what a proposal of ``ids`` adds at temperature 0."""
    soft = torch.stack([world.q(context + ids[:place]) for place in range(len(ids) + 1)])
    rows = [None if certainty else hot(token_id, world.size) for token_id in ids]

    def target_row(place: int) -> tuple[Tensor, Tensor]:
        p = world.p(context + ids[:place])
        return certain(p), p

    generator = torch.Generator().manual_seed(0)
    accepted = accept(rule, drafted(ids, list(rows), soft), target_row, generator)
    return (*ids[: accepted.num_accepted], accepted.next_id)


def greedy_token(rule: Rule, world: World, context: Tokens) -> int:
    p, q = world.p(context), world.q(context)
    if rule.mode == "exact":
        return int(p.argmax())
    if rule.mode == "ensemble":
        return int((rule.weight * p + (1 - rule.weight) * q).argmax())
    eta = strength(rule, p.tolist(), q.tolist())
    judge = moved(p.tolist(), q.tolist(), eta, rule.tail)
    return judge.index(max(judge))


@settings(max_examples=40, deadline=None)
@given(
    rule=st.sampled_from([rule for rule in RULES if rule.mode != "paper"]),
    seed=st.integers(0, 10**6),
    num_tokens=st.integers(0, 4),
    certainty=st.booleans(),
    data=st.data(),
)
def test_greedy_tokens_are_the_first_choices_of_the_law(
    rule: Rule, seed: int, num_tokens: int, certainty: bool, data: st.DataObject
) -> None:
    """Perfect, random and mixed drafts."""
    world = World(4, seed)
    answer: Tokens = ()
    while len(answer) < 8:
        ids: Tokens = ()
        for _ in range(num_tokens):
            right = greedy_token(rule, world, answer + ids)
            ids += (data.draw(st.sampled_from([right, right, right, 0, 1, 2, 3])),)
        answer += greedy_round(rule, world, answer, ids, certainty)
    for place, token_id in enumerate(answer):
        assert token_id == greedy_token(rule, world, answer[:place])


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("token_id", range(4))
def test_greedy_by_the_published_rule_keeps_its_first_choice_or_takes_that_of_p(
    seed: int, token_id: int
) -> None:
    world = World(4, seed)
    first, *_ = greedy_round(Rule("paper"), world, (), (token_id,), certainty=True)
    kept = token_id == greedy_token(Rule("augmented"), world, ())
    assert first == (token_id if kept else greedy_token(Rule(), world, ()))


def sampled(rule: Rule, world: World, num_tokens: int, generator: torch.Generator) -> Tokens:
    return one_round(rule, world, (), num_tokens, Generated(generator)).ids


def chi_square_excess(counts: Counter[Tokens], laws: dict[Tokens, float]) -> float:
    """Return χ² less what it exceeds with a probability of 1e-6 at most.

        P(χ²ₖ ≥ k + 2 · √(k · t) + 2 · t) ≤ exp(−t)    (Laurent, Massart 2000)

    Outcomes that are expected less than five times are counted together.
    """
    n = counts.total()
    rare = {ids for ids, probability in laws.items() if n * probability < 5}
    cells = [(counts[ids], n * laws[ids]) for ids in laws.keys() - rare]
    cells.append((n - sum(c for c, _ in cells), max(n - sum(e for _, e in cells), 1.0)))
    chi_square = sum((count - expected) ** 2 / expected for count, expected in cells)
    t = math.log(1e6)
    return chi_square - (len(cells) + 2 * math.sqrt(len(cells) * t) + 2 * t)


@pytest.mark.parametrize("rule", [RULES[0], RULES[1], RULES[4], RULES[6], RULES[7]], ids=label)
def test_what_a_generator_draws_has_the_enumerated_law(rule: Rule) -> None:
    """The seed is fixed: with another one, this fails wrongly in one of 10⁶ runs at most."""
    world, generator = World(3, 8, 3, zeros=1), torch.Generator().manual_seed(1)
    in_float32 = World(3, 8, 3, zeros=1, dtype=torch.float32)
    counts = Counter(sampled(rule, in_float32, 2, generator) for _ in range(1000))
    laws: dict[Tokens, float] = defaultdict(float)
    for said, probability in round_law(rule, world, (), 2).items():
        laws[said.ids] += probability
    assert set(counts) <= set(laws)
    assert chi_square_excess(counts, laws) < 0
    if rule.mode != "exact":  # the power: p itself would be told from it
        exact = round_law(Rule(), world, (), 2)
        assert chi_square_excess(counts, {said.ids: exact[said] for said in exact}) > 0


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.8, 1.0])
def test_the_dice_are_fair(probability: float) -> None:
    """Hoeffding: with another seed, one of them is off by more in one of 10⁶ runs at most."""
    dice, n = Generated(torch.Generator().manual_seed(2)), 5000
    share = sum(dice.happens(probability) for _ in range(n)) / n
    bound = math.sqrt(math.log(2e6) / (2 * n)) if 0 < probability < 1 else 0.0
    assert abs(share - probability) <= bound


def test_what_is_nearly_certain_is_drawn_still() -> None:
    """Wrong in one of 10⁶ runs with another seed: 0.95²⁷⁰."""
    dice = Generated(torch.Generator().manual_seed(2))
    assert {dice.draw(torch.tensor([0.95, 0.05])) for _ in range(270)} == {0, 1}


def test_the_dice_draw_by_the_probabilities() -> None:
    dice = Generated(torch.Generator().manual_seed(2))
    counts: Counter[Tokens] = Counter((dice.draw(P),) for _ in range(5000))
    assert chi_square_excess(counts, {(x,): c for x, c in enumerate(P.tolist())}) < 0
    assert chi_square_excess(counts, {(x,): c for x, c in enumerate(Q.tolist())}) > 0


def test_the_same_seed_gives_the_same_tokens() -> None:
    world = World(4, 0, dtype=torch.float32)
    runs = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(7)
        runs.append([sampled(Rule(), world, 3, generator) for _ in range(30)])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) > 5


def test_rows_behind_a_rejection_are_not_asked_for() -> None:
    asked: list[int] = []

    def target_row(place: int) -> tuple[Tensor, None]:
        asked.append(place)
        return hot(2, 4), None

    proposal = drafted((2, 1, 2, 2), [None] * 4)
    accepted = accept(Rule(), proposal, target_row, torch.Generator())
    assert accepted == Accepted(1, 2, (0.0, 0.0))
    assert asked == [0, 1]


def test_no_draft_is_a_plain_step() -> None:
    accepted = accept(Rule(), Proposal(), lambda _: (hot(3, 4), None), torch.Generator())
    assert accepted == Accepted(0, 3, (0.0,))


@pytest.mark.parametrize("ids", [(), (1,)])
@pytest.mark.parametrize("mode", ["augmented", "ensemble"])
def test_a_drafter_without_distributions_is_refused(mode: Mode, ids: Tokens) -> None:
    proposal = drafted(ids, [None] * len(ids))
    with pytest.raises(ConfigError, match=f"{mode}.*'exact'"):
        accept(Rule(mode), proposal, lambda _: (P, None), torch.Generator())


def test_tokens_that_are_ruled_out_never_come() -> None:
    p = torch.tensor([0.0, 0.7, 0.3, 0.0])
    q = torch.tensor([0.9, 0.0, 0.1, 0.0])
    soft = torch.stack([q, q])
    generator = torch.Generator().manual_seed(0)
    for rule in (Rule(), Rule("augmented", 50.0), Rule("paper", 50.0)):
        for _ in range(100):
            accepted = accept(rule, drafted((0,), [q], soft), lambda _: (p, None), generator)
            assert accepted.num_accepted == 0
            assert accepted.next_id in (1, 2)


WEIGHTS = st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1.0)), min_size=6, max_size=6)


def normed(weights: list[float]) -> Tensor:
    row = torch.tensor(weights, dtype=torch.float64)
    return row / row.sum() if row.sum() > 0 else hot(0, len(weights))


@settings(max_examples=80, deadline=None)
@given(p=WEIGHTS, q=WEIGHTS, eta=st.floats(0, 60), tail=st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_the_parts_are_distributions(
    p: list[float], q: list[float], eta: float, tail: float
) -> None:
    one, other = normed(p), normed(q)
    judge = augmented(one, other, eta, tail)
    shared = overlap(judge, other, 0)
    for row in (judge, residual(one, shared), residual(judge, shared), ensemble(one, other, 0.8)):
        assert float(row.min()) >= 0
        assert float(row.sum()) == pytest.approx(1.0)
    assert ((judge > 0) <= (one > 0)).all()  # what is ruled out stays so
    assert judge.tolist() == pytest.approx(moved(one.tolist(), other.tolist(), eta, tail))
    back = shared + (1 - shared.sum()) * residual(judge, shared)
    torch.testing.assert_close(back, judge)


@settings(max_examples=80, deadline=None)
@given(p=WEIGHTS, q=WEIGHTS, weight=st.floats(0, 1))
def test_an_ensemble_accepts_one_less_its_share_of_the_gap(
    p: list[float], q: list[float], weight: float
) -> None:
    one, other = normed(p), normed(q)
    accepted = float(overlap(ensemble(one, other, weight), other, 0).sum())
    assert accepted == pytest.approx(1 - weight * total_variation(one, other))


def test_the_dynamic_strength_falls_with_agreement() -> None:
    """It is η where p is q, and nothing where they share no token."""
    dynamic = Rule("augmented", 10.0, tail=0.0, is_dynamic=True)
    apart = torch.tensor([0.5, 0.5, 0.0, 0.0]), torch.tensor([0.0, 0.0, 0.5, 0.5])
    torch.testing.assert_close(dynamic.judged_by(*apart), apart[0])
    assert float((dynamic.judged_by(P, Q) - P).abs().sum()) > 0.1
    torch.testing.assert_close(dynamic.judged_by(P, Q), augmented(P, Q, 5.0, 0.0))
    assert agreement(P, Q) == pytest.approx(0.5)
    assert agreement(P, P) == pytest.approx(1.0)


def test_without_strength_nothing_moves() -> None:
    torch.testing.assert_close(augmented(P, Q, 0.0, 0.1), P)


def test_the_tail_keeps_its_share_of_p() -> None:
    whole, guarded = (augmented(P, Q, 10.0, tail) for tail in (0.0, 0.1))
    assert whole.tolist() == pytest.approx([0.001, 0.008, 0.985, 0.006], abs=0.001)
    torch.testing.assert_close(guarded[:2] / guarded[1], P[:2] / P[1])
    assert float(guarded[2] / guarded[1]) == pytest.approx(float(whole[2]) / 0.3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_type_of_numbers_is_kept(dtype: torch.dtype) -> None:
    p, q = P.to(dtype), Q.to(dtype)
    for row in (
        augmented(p, q, 10.0, 0.1),
        ensemble(p, q, 0.8),
        residual(p, overlap(p, q, 0)),
        residual(p, overlap(p, None, 0)),
        certain(p),
    ):
        assert row.dtype == dtype


def test_nothing_left_gives_the_base() -> None:
    assert residual(P, P) is P


@pytest.mark.parametrize(
    ("wanted", "drafted_at", "expected"),
    [(0.2, 0.4, 0.5), (0.4, 0.2, 1.0), (0.0, 0.3, 0.0), (0.0, 0.0, 0.0), (0.3, 0.0, 1.0)],
)
def test_the_chance_of_a_token(wanted: float, drafted_at: float, expected: float) -> None:
    judge, q = torch.tensor([wanted, 1 - wanted]), torch.tensor([drafted_at, 1 - drafted_at])
    assert chance(judge, q, 0) == pytest.approx(expected)


def test_a_certain_token_is_accepted_as_often_as_it_is_probable() -> None:
    assert chance(P, None, 2) == pytest.approx(0.15)
    assert overlap(P, None, 2).tolist() == [0, 0, pytest.approx(0.15), 0]


@pytest.mark.parametrize("mode", MODES[1:])
def test_p_itself_may_stand_for_the_soft_p(mode: Mode) -> None:
    rule = Rule(mode)
    torch.testing.assert_close(rule.judged_by(P, Q, P), rule.judged_by(P, Q))
    judge = rule.judged_by(certain(P), Q, P)
    torch.testing.assert_close(judge, certain(rule.judged_by(P, Q)))


def test_the_rule_says_what_it_needs() -> None:
    assert [Rule(mode).needs_soft for mode in MODES] == [False, True, True, True]
    assert [Rule(mode).is_exact for mode in MODES] == [True, False, False, False]


@pytest.mark.parametrize(
    ("name", "value"),
    [("mode", "fast"), ("eta", -1.0), ("eta", math.nan), ("weight", 1.5), ("tail", -0.1)],
)
def test_a_value_out_of_range_is_named(name: str, value: object) -> None:
    with pytest.raises(InputError, match=name):
        Rule(**{name: value})  # type: ignore[arg-type]


def test_dice_are_a_seam() -> None:
    """Whoever decides, the same is decided."""
    generator = torch.Generator().manual_seed(3)
    row: TargetRow = lambda _: (P, None)  # noqa: E731
    proposal = drafted((2, 0), [Q, Q])
    one = decide(Rule(), proposal, row, Generated(torch.Generator().manual_seed(3)))
    assert one == accept(Rule(), proposal, row, generator)
