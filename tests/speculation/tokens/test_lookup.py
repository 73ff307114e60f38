from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from readahead.errors import ConfigError
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.speculation.tokens import decode
from readahead.speculation.tokens.base import Drafter, Kind, Proposal, Round
from readahead.speculation.tokens.governor import FixedPacer
from readahead.speculation.tokens.lookup import Copied, Lookup, LookupDrafter, Place, Sources
from readahead.speculation.tokens.tally import Tally
from tests.speculation.tokens.test_automaton import num_common_at_end

from .support import plain, prompt, tokens

GREEDY = SamplingParams(max_new_tokens=32, ignore_eos=True)
TEXT = st.lists(st.integers(0, 2), max_size=20)
SOURCES = st.lists(TEXT, max_size=4)


@dataclass
class Paced:
    """A pacer that goes on while all drafted so far survive with at least ``floor``."""

    rates: dict[int, float] = field(default_factory=dict)
    floor: float = 0.0
    max_draft_tokens: int = 16
    asked: list[tuple[Kind, float, int]] = field(default_factory=list)

    def gain_s(self, kind: Kind, survival: float, num_drafted: int, num_unread: int = 0) -> float:
        self.asked.append((kind, survival, num_drafted))
        assert num_unread == 0  # no model reads anything
        return survival * self.rate(kind) - self.floor

    def rate(self, kind: Kind) -> float:
        return self.rates.get(kind.level, 1.0)

    def saw_draft_step(self, num_tokens: int, seconds: float) -> None:
        raise AssertionError("there is no model")

    def saw(self, result: Round) -> None: ...


def brute(sources: list[list[int]], written: list[int], draft: list[int]) -> Copied | None:
    """Return what stands behind the longest match, the first of equally long ones."""
    best = None
    for text in [*sources, written]:
        for stop in range(1, len(text)):
            length = num_common_at_end(text[:stop], written + draft)
            if length > (best.num_matched_tokens if best else 0):
                best = Copied(text[stop], length)
    return best


def proposal(sources: list[list[int]], prompt: list[int], pacer: Paced | None = None) -> Proposal:
    drafter: Drafter = LookupDrafter(Sources(sources))
    drafter.begin(prompt, SamplingParams())
    return drafter.propose([], pacer or Paced(), 8)


@given(sources=SOURCES, prompt=TEXT, answer=TEXT, draft=TEXT, cuts=st.sets(st.integers(0, 20)))
def test_what_is_copied_stands_behind_the_longest_match(
    sources: list[list[int]],
    prompt: list[int],
    answer: list[int],
    draft: list[int],
    cuts: set[int],
) -> None:
    lookup = Lookup(Sources(sources), prompt)
    for cut in sorted(cuts):
        new = answer[:cut]
        start = place = lookup.start(new)
        copied = [start.copied]
        for token_id in draft:
            place = place.after(token_id)
            copied.append(place.copied)
        assert copied == [
            brute(sources, prompt + new, draft[:num]) for num in range(len(draft) + 1)
        ]
        assert lookup.start(new) == start  # drafting leaves no trace


@given(sources=SOURCES, prompt=TEXT, answer=TEXT, limit=st.integers(0, 9))
def test_a_proposal_goes_from_match_to_match(
    sources: list[list[int]], prompt: list[int], answer: list[int], limit: int
) -> None:
    drafter = LookupDrafter(Sources(sources))
    drafter.begin(prompt, SamplingParams())
    for num in range(len(answer) + 1):
        expected: list[Copied] = []
        while len(expected) < limit:
            draft = [copied.token_id for copied in expected]
            following = brute(sources, prompt + answer[:num], draft)
            if following is None:
                break
            expected.append(following)
        found = drafter.propose(answer[:num], Paced(), limit)
        assert found.token_ids == tuple(copied.token_id for copied in expected)
        assert found.kinds == tuple(copied.kind for copied in expected)
        assert found.q == (None,) * len(expected)
        assert found.soft is None


@pytest.mark.parametrize(
    ("sources", "prompt", "expected"),
    [
        ([[1, 2, 3], [4, 5]], [1], (2, 3)),  # 4 stands in another source
        ([[1, 2, 3], [3, 4]], [1, 2], (3, 4)),  # a new match of one token
        ([[1, 2], [1, 3]], [1], (2,)),  # the higher-ranked of two
        ([[1, 2], [0, 1, 3]], [0, 1], (3,)),  # the longer of two
        ([[1, 2]], [1, 3, 4, 1], (2,)),  # a source before the text, where equally long
        ([[1, 2]], [0, 1, 3, 0, 1], (3, 0, 1, 3, 0, 1, 3, 0)),  # a loop goes on
        ([], [7, 8, 7], (8, 7, 8, 7, 8, 7, 8, 7)),
        ([], [1, 2, 3], ()),
        ([[], []], [], ()),
    ],
)
def test_proposals_of_small_texts(
    sources: list[list[int]], prompt: list[int], expected: tuple[int, ...]
) -> None:
    assert proposal(sources, prompt).token_ids == expected


@pytest.mark.parametrize(
    ("length", "level"),
    [(1, 1), (2, 2), (3, 3), (4, 4), (5, 4), (6, 5), (8, 5), (9, 6), (15, 6), (16, 7), (99, 7)],
)
def test_longer_matches_are_of_a_higher_level(length: int, level: int) -> None:
    assert Copied(0, length).kind == Kind("lookup", level)


def test_the_match_grows_while_it_is_copied() -> None:
    found = proposal([list(range(20))], [3, 4])
    assert found.token_ids == tuple(range(5, 13))
    assert [kind.level for kind in found.kinds] == [2, 3, 4, 4, 5, 5, 5, 6]


def test_the_pacer_hears_how_probable_it_is_that_all_before_are_accepted() -> None:
    pacer = Paced({1: 0.5, 2: 0.8, 3: 0.9, 4: 0.25}, floor=0.1)
    found = proposal([list(range(20))], [3], pacer)
    assert found.token_ids == (4, 5, 6)
    assert [asked[0].level for asked in pacer.asked] == [1, 2, 3, 4]
    assert [asked[1] for asked in pacer.asked] == pytest.approx([1.0, 0.5, 0.4, 0.36])
    assert [asked[2] for asked in pacer.asked] == [0, 1, 2, 3]


def test_nothing_is_proposed_where_nothing_is_gained() -> None:
    assert proposal([[1, 2]], [1], Paced(floor=2.0)) == Proposal()


def test_sources_are_shared_and_requests_know_nothing_of_each_other() -> None:
    sources = Sources([[1, 2, 3]])
    one, other = LookupDrafter(sources), LookupDrafter(sources)
    one.begin([8, 9, 8], SamplingParams())
    other.begin([8], SamplingParams())
    assert one.propose([], Paced(), 1).token_ids == (9,)
    assert other.propose([], Paced(), 1) == Proposal()
    one.begin([8], SamplingParams())
    assert one.propose([], Paced(), 1) == Proposal()
    assert one.propose([1], Paced(), 1).token_ids == (2,)


def test_a_place_follows_tokens_that_stand_nowhere() -> None:
    place: Place = Lookup(Sources([[1, 2, 3]]), []).start([])
    assert place.copied is None
    assert place.after(7).copied is None
    assert place.after(7).after(1).copied == Copied(2, 1)


def test_copied_tokens_have_no_distribution() -> None:
    with pytest.raises(ConfigError, match="'exact'.*'rag'"):
        LookupDrafter().propose([], Paced(), 4, with_soft=True)


@pytest.fixture(scope="module")
def answers(model: TransformersModel) -> list[tuple[list[int], list[int]]]:
    """Return prompts and what plain greedy decoding says to them."""
    prompts = [prompt(seed, 8 + seed) for seed in range(8)]
    return [(ids, tokens(plain(model, ids, GREEDY))) for ids in prompts]


def spoilt(text: list[int], seed: int) -> list[int]:
    """Return ``text`` with every fifth token another one or so."""
    generator = torch.Generator().manual_seed(seed)
    is_other = torch.rand(len(text), generator=generator) < 0.2
    others = torch.randint(0, 256, (len(text),), generator=generator)
    return torch.where(is_other, others, torch.tensor(text)).tolist()


@pytest.mark.parametrize("gamma", range(1, 9))
def test_copying_changes_no_greedy_token(
    model: TransformersModel, answers: list[tuple[list[int], list[int]]], gamma: int
) -> None:
    tally = Tally()
    for seed, (ids, expected) in enumerate(answers):
        for texts in ([], [expected], [spoilt(expected, seed), ids, spoilt(expected, seed + 99)]):
            drafter, pacer = LookupDrafter(Sources(texts)), FixedPacer(gamma)
            got = decode.stream(model, ids, GREEDY, drafter, pacer=pacer, tally=tally)
            assert tokens(list(got)) == expected
    # All of what may happen to a proposal did happen.
    assert set(tally.accept_counts) == set(range(gamma + 1))
    assert 0.2 < tally.acceptance_rate < 0.98
