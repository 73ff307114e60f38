import time
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from readahead.lm.base import Cancelled, never
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.speculation.tokens import decode
from readahead.speculation.tokens.base import Drafter, Round
from readahead.speculation.tokens.drafters import HybridDrafter, ModelDrafter
from readahead.speculation.tokens.governor import FixedPacer
from readahead.speculation.tokens.lookup import Lookup, LookupDrafter, Sources
from readahead.speculation.tokens.refresh import RefreshingDrafter, last_sentence
from readahead.trace import Trace

from .support import ByHand, Scripted, plain, prompt, speculated, tokens

GREEDY = SamplingParams(max_new_tokens=32, ignore_eos=True)


class Told:
    """Notes the sentences that are retrieved for."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def __call__(self, sentence: str, *, cancelled: Cancelled = never) -> bool:
        self.sentences.append(sentence)
        return len(self.sentences) % 2 == 0


def letters(token_ids: Sequence[int]) -> str:
    return "".join(map(chr, token_ids))


def refreshing(told: Told, num_tokens: int, trace: Trace | None = None) -> RefreshingDrafter:
    drafter = RefreshingDrafter(Scripted([]), told, letters, num_tokens)
    drafter.begin([], GREEDY, trace=trace)
    return drafter


def test_it_retrieves_at_the_first_end_of_a_sentence_after_so_many_tokens() -> None:
    told, trace = Told(), Trace("test")
    drafter = refreshing(told, 12, trace)
    answer = "One. Two is long. Three is longer by far. Four is the last of them."
    for end in range(len(answer) + 1):
        drafter.propose([ord(char) for char in answer[:end]], FixedPacer(4), 4)
    assert told.sentences == [
        "Two is long.",
        "Three is longer by far.",
        "Four is the last of them.",
    ]
    spans = [span.attributes for span in trace.spans if span.name == "refresh"]
    assert [one["changed"] for one in spans] == [False, True, False]
    assert spans[0]["num_new_tokens"] == len("One. Two is long.")


def test_it_begins_anew_with_each_answer() -> None:
    told = Told()
    drafter = refreshing(told, 4)
    for _ in range(2):
        drafter.propose([ord(char) for char in "It is so."], FixedPacer(4), 4)
        drafter.begin([], GREEDY)
    assert told.sentences == ["It is so."] * 2


def test_who_cancels_waits_for_no_retrieval() -> None:
    told = Told()
    drafter = refreshing(told, 4)
    drafter.propose([ord(char) for char in "It is."], FixedPacer(4), 4, cancelled=lambda: True)
    assert told.sentences == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("The lamp", ""),
        ("The lamp burns.", "The lamp burns."),
        ("The lamp burns. It", "The lamp burns."),
        ("It burns. It shines! ", "It shines!"),
        ("灯在燃烧。它", "灯在燃烧。"),
        ("- oil\n- soot\n", "- soot"),
    ],
)
def test_the_last_sentence_has_ended(text: str, expected: str) -> None:
    assert last_sentence(text) == expected


def test_a_sentence_that_had_ended_before_does_not_count() -> None:
    text = "It burns. It shines. It"
    assert last_sentence(text, 19) == "It shines."
    assert last_sentence(text, 20) == ""


@given(st.text(max_size=60))
def test_the_last_sentence_stands_in_the_text(text: str) -> None:
    assert last_sentence(text) in text


class Rereads:
    """Lets a model read, and a lookup copy from, another text each time."""

    def __init__(self, lookup: LookupDrafter, model: ModelDrafter) -> None:
        self.lookup = lookup
        self.model = model
        self.num = 0

    def __call__(self, sentence: str, *, cancelled: Cancelled = never) -> bool:
        self.num += 1
        ids = [*prompt(1)[:12], *prompt(self.num + 7)]
        self.lookup.prefer(Sources([ids]))
        self.model.read_instead(ids, cancelled=cancelled)
        return True


@pytest.mark.parametrize("kind", ["lookup", "model", "hybrid"])
def test_it_changes_no_token(model: TransformersModel, kind: str) -> None:
    ids = prompt(3)
    lookup = LookupDrafter(Sources([ids]))
    own = ModelDrafter(model, prompt(1), vocabulary_size=model.vocabulary_size)
    drafters: dict[str, Drafter] = {"lookup": lookup, "model": own}
    inner = drafters.get(kind) or HybridDrafter(lookup, own)
    trace, rereads = Trace("test"), Rereads(lookup, own)
    if kind == "lookup":
        own.begin(ids, GREEDY)
    drafter = RefreshingDrafter(inner, rereads, lambda ids: "So. " * len(ids), 5)
    got = speculated(model, ids, GREEDY, drafter, gamma=3, trace=trace)
    assert tokens(got) == tokens(plain(model, ids, GREEDY))
    assert rereads.num >= 3
    assert sum(span.name == "refresh" for span in trace.spans) == rereads.num


class Watching(FixedPacer):
    """Drafts three tokens and notes what drafting took."""

    def __init__(self) -> None:
        super().__init__(3)
        self.spent_s: list[float] = []

    def saw(self, result: Round) -> None:
        self.spent_s += [result.draft_s, result.total_s - result.verify_s]


def test_its_time_is_not_that_of_drafting(model: TransformersModel) -> None:
    lasts_s, slept = 0.2, []

    def refresh(sentence: str, *, cancelled: Cancelled = never) -> bool:
        time.sleep(lasts_s)
        slept.append(sentence)
        return False

    ids, trace, pacer = prompt(3), Trace("test"), Watching()
    drafter = RefreshingDrafter(LookupDrafter(), refresh, lambda ids: "So. " * len(ids), 5)
    list(decode.stream(model, ids, GREEDY, drafter, pacer=pacer, trace=trace))
    assert len(slept) >= 3
    assert trace.total_s("refresh") >= lasts_s * len(slept)
    assert 0 < trace.total_s("draft") < lasts_s
    assert max(pacer.spent_s) < lasts_s


def test_what_others_get_meanwhile_is_neither_refresh_nor_drafting(
    model: TransformersModel,
) -> None:
    trace, pacer = ByHand(), Watching()

    def others() -> bool:
        trace.time_s += 100.0
        return False

    def refresh(sentence: str, *, cancelled: Cancelled = never) -> bool:
        trace.time_s += 7.0
        return cancelled()

    drafter = RefreshingDrafter(LookupDrafter(), refresh, lambda ids: "So. " * len(ids), 5)
    pieces = decode.stream(
        model, prompt(3), GREEDY, drafter, pacer=pacer, cancelled=others, trace=trace
    )
    list(pieces)
    num = sum(span.name == "refresh" for span in trace.spans)
    assert num >= 3
    assert trace.total_s("refresh") == 7.0 * num
    assert trace.total_s("draft") == 0.0
    assert set(pacer.spent_s) == {0.0}


def test_reading_instead_is_reading_from_the_start(model: TransformersModel) -> None:
    params = SamplingParams(temperature=0.8)
    used = ModelDrafter(model, prompt(1), vocabulary_size=model.vocabulary_size)
    trace = Trace("test")
    used.begin(prompt(2), params, trace=trace)
    first = used.propose([5], FixedPacer(4), 4)
    for other in ([*prompt(1)[:10], *prompt(5)], prompt(1)[:7], prompt(6, 40)):
        used.read_instead(other)
        fresh = ModelDrafter(model, other, vocabulary_size=model.vocabulary_size)
        fresh.begin(prompt(2), params, trace=Trace("fresh"))
        answer = [5, *first.token_ids[:2], 9]
        expected = fresh.draw(answer, FixedPacer(4))
        assert torch.allclose(used.draw(answer, FixedPacer(4)).q, expected.q, atol=1e-5)
    spans = [span.attributes for span in trace.spans if span.name == "drafter_prefill"]
    assert [one["num_cached_tokens"] for one in spans[:3]] == [0, 10, 6]


def test_a_drafter_goes_on_with_what_another_read(model: TransformersModel) -> None:
    size = model.vocabulary_size
    before = ModelDrafter(model, prompt(1), vocabulary_size=size)
    before.begin(prompt(2), GREEDY)
    before.propose([5, 6], FixedPacer(4), 4)
    ids = [*prompt(1), 5, 6, *prompt(4)]
    trace = Trace("test")
    after = ModelDrafter(model, ids, vocabulary_size=size, on=before.reading)
    after.begin(prompt(3), GREEDY, trace=trace)
    fresh = ModelDrafter(model, ids, vocabulary_size=size)
    fresh.begin(prompt(3), GREEDY)
    assert torch.allclose(after.draw([8], FixedPacer(1)).q, fresh.draw([8], FixedPacer(1)).q)
    assert trace.spans[0].attributes["num_cached_tokens"] == len(prompt(1)) + 2


def test_other_sources_are_copied_from_at_once() -> None:
    lookup = Lookup(Sources([[1, 2, 3]]), [9, 1, 2])
    assert lookup.start([]).copied is not None
    lookup.prefer(Sources([[1, 2, 4], [9, 1, 2, 5]]))
    copied = lookup.start([]).copied
    assert copied is not None
    assert (copied.token_id, copied.num_matched_tokens) == (5, 3)
