from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, product

import pytest
import torch
from torch import Tensor
from transformers import (
    MistralConfig,
    MistralForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

from readahead.errors import BackendError, ContextOverflow, VocabularyMismatch
from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams, distribution
from readahead.speculation.tokens import decode
from readahead.speculation.tokens.acceptance import Rule
from readahead.speculation.tokens.base import Round
from readahead.speculation.tokens.drafters import (
    HybridDrafter,
    ModelDrafter,
    check_vocabularies,
)
from readahead.speculation.tokens.governor import FixedPacer, Governor
from readahead.speculation.tokens.lookup import LookupDrafter, Sources
from readahead.speculation.tokens.tally import Tally
from readahead.trace import Trace
from tests.conftest import make_llama, make_tokenizer
from tests.lm.test_kv import RECURRENT
from tests.lm.test_model import make_longrope

from .support import ByHand, Scripted, chi_square, plain, prompt, speculated, text, tokens

GREEDY = SamplingParams(max_new_tokens=40, ignore_eos=True)
Law = dict[tuple[int, ...], float]


@pytest.fixture(scope="module")
def other() -> TransformersModel:
    """Return another random model over the same tokens: a bad drafter."""
    return TransformersModel(make_llama(seed=1), make_tokenizer(), prefill_step_tokens=16)


def model_drafter(
    model: TransformersModel, own: list[int] | None = None, target: TransformersModel | None = None
) -> ModelDrafter:
    size = (target or model).vocabulary_size
    return ModelDrafter(model, own, vocabulary_size=size)


@pytest.mark.parametrize("gamma", range(1, 9))
@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
def test_greedy_tokens_are_those_of_the_plain_loop(
    model: TransformersModel, gamma: int, noise: float
) -> None:
    for seed in range(3):
        ids = prompt(seed)
        expected = plain(model, ids, GREEDY)
        got = speculated(model, ids, GREEDY, Scripted(tokens(expected), noise), gamma=gamma)
        assert tokens(got) == tokens(expected)
        assert text(got) == text(expected)
        told = [p for piece in got for p in piece.logprobs]
        known = [p for piece in expected for p in piece.logprobs]
        assert told == pytest.approx(known, abs=1e-4)


def test_the_most_likely_tokens_are_those_of_the_plain_loop(model: TransformersModel) -> None:
    params, ids = replace(GREEDY, num_top_logprobs=3), prompt(0)
    expected = plain(model, ids, params)
    got = speculated(model, ids, params, Scripted(tokens(expected), 0.3), gamma=4)
    told, known = ([top for piece in some for top in piece.top] for some in (got, expected))
    assert len(got) < len(told) == len(tokens(expected))
    for one, other in zip(told, known, strict=True):
        assert [i for i, _ in one] == [i for i, _ in other]
        assert [p for _, p in one] == pytest.approx([p for _, p in other], abs=1e-4)


DRAFTERS: dict[str, Callable[[TransformersModel, TransformersModel, list[int]], object]] = {
    "self": lambda model, other, ids: model_drafter(model),
    "self, short": lambda model, other, ids: model_drafter(model, ids[-8:]),
    "other": lambda model, other, ids: model_drafter(other, ids[3:]),
    "lookup": lambda model, other, ids: LookupDrafter(Sources([ids])),
    "hybrid": lambda model, other, ids: HybridDrafter(
        LookupDrafter(Sources([ids])), model_drafter(other, ids[-5:])
    ),
    "hybrid, self": lambda model, other, ids: HybridDrafter(
        LookupDrafter(Sources([ids])), model_drafter(model)
    ),
}


@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize("gamma", [None, 1, 4, 8])
def test_no_drafter_changes_a_greedy_token(
    model: TransformersModel, other: TransformersModel, name: str, gamma: int | None
) -> None:
    for seed in range(2):
        ids = prompt(seed)
        drafter = DRAFTERS[name](model, other, ids)
        got = speculated(model, ids, GREEDY, drafter, gamma=gamma)  # type: ignore[arg-type]
        assert tokens(got) == tokens(plain(model, ids, GREEDY))


def test_a_model_that_drafts_for_itself_is_always_right(model: TransformersModel) -> None:
    trace = Trace("test")
    speculated(model, prompt(5), GREEDY, model_drafter(model), gamma=4, trace=trace)
    told = trace.attributes["speculation"]
    assert isinstance(told, dict)
    assert told["draft_acceptance_rate"] == 1.0
    assert (
        told["num_rounds"] == 1 + 8
    )  # the prompt gives one token, each later pass five, 39 in all
    assert told["mean_gap"] == 0.0
    assert len(told["rounds"]) == told["num_rounds"]


def test_processors_and_penalties_hold_on_both_sides(
    model: TransformersModel, other: TransformersModel
) -> None:
    def even_only(ids: Tensor, logits: Tensor) -> Tensor:
        wanted = torch.arange(logits.shape[-1]) % 2 == ids.shape[0] % 2
        return logits.masked_fill(~wanted, -torch.inf)

    params = replace(GREEDY, processors=(even_only,), repetition_penalty=1.3)
    ids = prompt(7)
    expected = tokens(plain(model, ids, params))
    assert all(token_id % 2 == (len(ids) + i) % 2 for i, token_id in enumerate(expected))
    for drafter in (model_drafter(model), model_drafter(other), LookupDrafter(Sources([ids]))):
        trace = Trace("test")
        got = speculated(model, ids, params, drafter, gamma=4, trace=trace)
        assert tokens(got) == expected
    # A draft that ignored them would be rejected at every other token.
    trace = Trace("test")
    speculated(model, ids, params, model_drafter(model), gamma=4, trace=trace)
    told = trace.attributes["speculation"]
    assert isinstance(told, dict)
    assert told["draft_acceptance_rate"] == 1.0


def test_the_end_of_sequence_ends_within_a_run(model: TransformersModel) -> None:
    eos = next(iter(model.eos_token_ids))
    for seed in range(40):
        ids = prompt(seed)
        params = SamplingParams(max_new_tokens=60)
        expected = plain(model, ids, params)
        script = [*tokens(expected), eos, 1, 2, 3]
        got = speculated(model, ids, params, Scripted(script), gamma=8)
        assert tokens(got) == tokens(expected)
        assert got[-1].finish_reason == expected[-1].finish_reason
        if expected[-1].finish_reason == "stop":
            return
    pytest.fail("no prompt ends by itself")


def test_stop_strings_end_within_a_run(model: TransformersModel) -> None:
    ids = prompt(3)
    whole = plain(model, ids, GREEDY)
    said = text(whole)
    stop = said[len(said) // 2 : len(said) // 2 + 2]
    params = replace(GREEDY, stop=(stop,))
    got = speculated(model, ids, params, Scripted(tokens(whole)), gamma=6)
    assert text(got) == text(plain(model, ids, params)) == said[: said.index(stop)]
    assert got[-1].finish_reason == "stop"


def test_the_cache_holds_what_was_read_and_nothing_else(model: TransformersModel) -> None:
    ids = prompt(4)
    whole = tokens(plain(model, ids, GREEDY))
    for gamma, num_pieces in product((1, 3, 8), (1, 2, 5, 99)):
        cache = model.new_cache()
        pieces = decode.stream(
            model, ids, GREEDY, Scripted(whole, 0.3), pacer=FixedPacer(gamma), cache=cache
        )
        written = tokens(list(islice(pieces, num_pieces)))
        pieces.close()
        assert len(ids) <= cache.length <= len(ids) + len(written)
        after = torch.tensor([[*ids, *written][cache.length :] or [1]])
        got = model.forward(after, cache)[0, -1]
        fresh = torch.tensor([[*ids, *written, *([] if after.shape[1] else [1])]])
        if cache.length == fresh.shape[1]:
            assert torch.allclose(got, model.forward(fresh, model.new_cache())[0, -1], atol=1e-4)


def test_a_known_beginning_is_not_read_again(model: TransformersModel) -> None:
    ids = prompt(6)
    cache = model.new_cache()
    model.forward(torch.tensor([ids[:10]]), cache)
    trace = Trace("test")
    expected = tokens(plain(model, ids, GREEDY))
    got = decode.stream(
        model, ids, GREEDY, Scripted(expected), cache=cache, pacer=FixedPacer(4), trace=trace
    )
    assert tokens(list(got)) == expected
    prefill = next(span for span in trace.spans if span.name == "prefill")
    assert prefill.attributes["num_tokens"] == len(ids) - 10


def test_the_context_may_be_filled_to_the_end(model: TransformersModel) -> None:
    small = TransformersModel(make_llama(max_position_embeddings=40), make_tokenizer())
    ids = prompt(2)
    params = SamplingParams(max_new_tokens=500, ignore_eos=True)
    expected = plain(small, ids, params)
    for drafter in (Scripted(tokens(expected)), model_drafter(small), model_drafter(small, ids)):
        got = speculated(small, ids, params, drafter, gamma=8)
        assert tokens(got) == tokens(expected)
        assert len(tokens(got)) == 16
        assert got[-1].finish_reason == "length"


def test_a_drafter_whose_context_is_full_drafts_no_more(model: TransformersModel) -> None:
    small = TransformersModel(make_llama(max_position_embeddings=30), make_tokenizer())
    ids = prompt(2)
    drafter = ModelDrafter(small, ids[:20], vocabulary_size=model.vocabulary_size)
    got = speculated(model, ids, GREEDY, drafter, gamma=4)
    assert tokens(got) == tokens(plain(model, ids, GREEDY))
    with pytest.raises(ContextOverflow, match="exact"):
        drafter = ModelDrafter(small, ids[:20], vocabulary_size=model.vocabulary_size)
        speculated(model, ids, GREEDY, drafter, gamma=4, rule=Rule("augmented"))


@pytest.mark.parametrize("num_asked", range(1, 12))
def test_a_cancelled_request_stops_within_one_step(
    model: TransformersModel, num_asked: int
) -> None:
    asked = 0

    def cancelled() -> bool:
        nonlocal asked
        asked += 1
        return asked > num_asked

    steps = 0
    forward = model.forward

    def counted(*args: object, **kwargs: object) -> Tensor:
        nonlocal steps
        assert asked <= num_asked, "a step after the cancellation"
        steps += 1
        return forward(*args, **kwargs)  # type: ignore[arg-type]

    drafter = model_drafter(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "forward", counted)
        pieces = list(
            decode.stream(
                model, prompt(1), GREEDY, drafter, pacer=FixedPacer(3), cancelled=cancelled
            )
        )
    assert pieces[-1].finish_reason == "cancelled"


def test_longrope_is_read_alike_up_to_where_it_ends() -> None:
    model, ids = make_longrope(), prompt(1, 50)
    expected = plain(model, ids, GREEDY)
    assert (len(tokens(expected)), expected[-1].finish_reason) == (14, "length")
    for noise in (0.0, 0.3):
        got = speculated(model, ids, GREEDY, Scripted(tokens(expected), noise), gamma=5)
        assert tokens(got) == tokens(expected)


def test_who_cancels_leaves_no_draft_tokens_in_the_cache(model: TransformersModel) -> None:
    ids = prompt(1)
    whole = tokens(plain(model, ids, GREEDY))
    for num_asked in range(12):
        asked, cache = iter(range(100)), model.new_cache()
        pieces = decode.stream(
            model,
            ids,
            GREEDY,
            Scripted(whole, 1.0),
            pacer=FixedPacer(6),
            cache=cache,
            cancelled=lambda asked=asked, num=num_asked: next(asked) >= num,  # type: ignore[misc]
        )
        written = tokens(list(pieces))
        assert cache.length == min(16 * num_asked, len(ids) + max(0, len(written) - 1)), num_asked


def test_windows_are_taken_back(model: TransformersModel) -> None:
    """transformers issues 47447 and 48280: rolling back behind a window that has filled."""
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=16,
        max_position_embeddings=256,
        eos_token_id=tokenizer.eos_token_id,
    )
    backend = MistralForCausalLM(config)
    for parameter in backend.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    windowed = TransformersModel(backend, tokenizer, prefill_step_tokens=8)
    for ids in (prompt(0, 6), prompt(1, 15), prompt(2, 40)):
        expected = tokens(plain(windowed, ids, GREEDY))
        for noise in (0.0, 0.3, 1.0):
            got = speculated(windowed, ids, GREEDY, Scripted(expected, noise), gamma=5)
            assert tokens(got) == expected
        got = speculated(windowed, ids, GREEDY, model_drafter(windowed), gamma=5)
        assert tokens(got) == expected
        expected = tokens(plain(model, ids, GREEDY))
        for gamma in (2, 5, 8):  # most of these draft tokens are rejected
            got = speculated(model, ids, GREEDY, model_drafter(windowed), gamma=gamma)
            assert tokens(got) == expected


def test_a_target_that_cannot_go_back_decodes_plainly() -> None:
    """A recurrent state holds rejected draft tokens for ever, and no error tells."""
    tokenizer = make_tokenizer()
    torch.manual_seed(0)
    config = Qwen3NextConfig(**RECURRENT, vocab_size=len(tokenizer))
    backend = Qwen3NextForCausalLM(config)
    for parameter in backend.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    recurrent, ids, trace = TransformersModel(backend, tokenizer), prompt(0), Trace("test")
    expected = tokens(plain(recurrent, ids, GREEDY))
    got = speculated(recurrent, ids, GREEDY, Scripted(expected, 1.0), gamma=4, trace=trace)
    assert tokens(got) == expected
    told = trace.attributes["speculation"]
    assert isinstance(told, dict)
    assert told["num_draft_tokens"] == 0
    assert "one state for all" in told["drafter_error"]
    with pytest.raises(BackendError, match="one state for all"):
        speculated(recurrent, ids, GREEDY, model_drafter(recurrent), rule=Rule("augmented"))


def test_a_drafter_that_cannot_go_back_is_refused_before_it_drafts(
    model: TransformersModel,
) -> None:
    tokenizer = make_tokenizer()
    backend = Qwen3NextForCausalLM(Qwen3NextConfig(**RECURRENT, vocab_size=len(tokenizer)))
    recurrent, ids, trace = TransformersModel(backend, tokenizer), prompt(0), Trace("test")
    recurrent.prefill_step_tokens = 8
    drafter = model_drafter(recurrent, target=model)
    got = speculated(model, ids, GREEDY, drafter, gamma=4, trace=trace)
    assert tokens(got) == tokens(plain(model, ids, GREEDY))
    told = trace.attributes["speculation"]
    assert isinstance(told, dict)
    assert "drafter keeps one state for all" in told["drafter_error"]
    assert (told["num_draft_tokens"], drafter.reading.cache.length) == (0, 8)
    with pytest.raises(BackendError, match="drafter keeps one state for all"):
        drafter = model_drafter(recurrent, target=model)
        speculated(model, ids, GREEDY, drafter, rule=Rule("augmented"))


def test_rows_that_pad_the_vocabulary_are_no_difference(model: TransformersModel) -> None:
    wide = make_llama(seed=0)
    wide.resize_token_embeddings(model.vocabulary_size + 13, mean_resizing=False)
    with torch.no_grad():
        wide.lm_head.weight[-13:] = 5.0  # padding that would win, were it let
    padded = TransformersModel(wide, make_tokenizer())
    check_vocabularies(model, padded)
    ids = prompt(9)
    expected = tokens(plain(model, ids, GREEDY))
    drafter = ModelDrafter(padded, vocabulary_size=model.vocabulary_size)
    trace = Trace("test")
    assert tokens(speculated(model, ids, GREEDY, drafter, gamma=4, trace=trace)) == expected
    told = trace.attributes["speculation"]
    assert isinstance(told, dict)
    assert told["draft_acceptance_rate"] == 1.0
    with torch.no_grad():
        wide.lm_head.weight[-13:] = 0.0  # no model ever writes its padding
    narrow = ModelDrafter(model, vocabulary_size=padded.vocabulary_size)
    expected = tokens(plain(padded, ids, GREEDY))
    assert tokens(speculated(padded, ids, GREEDY, narrow, gamma=4)) == expected


def test_other_vocabularies_are_refused(model: TransformersModel) -> None:
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(["<new>"])
    stranger = TransformersModel(make_llama(), tokenizer)
    with pytest.raises(VocabularyMismatch, match="tokens of its own"):
        check_vocabularies(model, stranger)


LAWS = {
    "exact": Rule(),
    "augmented": Rule("augmented", eta=2.0),
    "ensemble": Rule("ensemble", weight=0.5),
}
DRAWN = SamplingParams(
    max_new_tokens=4,
    temperature=1.5,
    top_k=2,
    ignore_eos=True,
    frequency_penalty=-2.0,  # repeats are likely: a draft token counts for those behind it
    presence_penalty=-2.0,
)


def law_of(model: TransformersModel, ids: list[int], own: list[int], rule: Rule) -> Law:
    """Return the probability of each answer; the drafter is the target over ``own``."""

    def row(read: list[int], answer: tuple[int, ...]) -> Tensor:
        logits = model.forward(torch.tensor([[*read, *answer]]), model.new_cache())[:, -1]
        return distribution(logits, DRAWN, [torch.tensor([*ids, *answer])], [len(ids)])[0]

    law: Law = {(): 1.0}
    for _ in range(DRAWN.max_new_tokens):
        longer: Law = {}
        for answer, so_far in law.items():
            judge = rule.judged_by(row(ids, answer), row(own, answer))
            for token_id in judge.nonzero().flatten().tolist():
                longer[(*answer, token_id)] = so_far * float(judge[token_id])
        law = longer
    return law


@pytest.mark.parametrize("name", LAWS)
def test_drawn_tokens_have_the_law_of_their_rule(model: TransformersModel, name: str) -> None:
    """All of many answers, with one law and with no other; chi-square at 0.9999, seeds fixed."""
    ids = prompt(11)
    own, cache, tally = ids[-20:], model.new_cache(), Tally()
    model.forward(torch.tensor([ids[:-1]]), cache)
    drafter = ModelDrafter(model, own, vocabulary_size=model.vocabulary_size)
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(400):
        cache.crop(len(ids) - 1)
        pieces = decode.stream(
            model,
            ids,
            replace(DRAWN, seed=seed),
            drafter,
            rule=LAWS[name],
            pacer=FixedPacer(2),
            cache=cache,
            tally=tally,
        )
        counts[tuple(tokens(list(pieces)))] += 1
    assert 0 < tally.accepted.total() < tally.drafted.total()
    for other, rule in LAWS.items():
        is_own = chi_square(counts, law_of(model, ids, own, rule)) < 1
        assert is_own == (other == name), other


def test_the_governor_falls_back_to_plain_decoding(
    model: TransformersModel, other: TransformersModel
) -> None:
    """Drafts of a hopeless drafter that costs as much as the target become rare."""
    governor = Governor()
    params = replace(GREEDY, max_new_tokens=150)
    ids = prompt(8)
    for _ in range(2):
        trace = Trace("test")
        drafter = model_drafter(other)
        list(decode.stream(model, ids, params, drafter, pacer=governor, trace=trace))
    told = trace.attributes["speculation"]
    assert isinstance(told, dict)
    assert told["num_draft_tokens"] < 60


class Watching(FixedPacer):
    """Drafts two tokens, and notes what it is told of each round."""

    def __init__(self) -> None:
        super().__init__(2)
        self.rounds: list[Round] = []

    def saw(self, result: Round) -> None:
        self.rounds.append(result)


def test_the_steps_of_other_answers_are_none_of_its_costs(model: TransformersModel) -> None:
    """They are made while it asks whether it is cancelled."""
    trace, pacer, forward = ByHand(), Watching(), model.forward

    def others() -> bool:
        trace.time_s += 100.0
        return False

    def timed(*args: object, **kwargs: object) -> Tensor:
        trace.time_s += 1.0
        return forward(*args, **kwargs)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "forward", timed)
        pieces = decode.stream(
            model,
            prompt(5),
            replace(GREEDY, max_new_tokens=10),
            model_drafter(model),
            pacer=pacer,
            cancelled=others,
            trace=trace,
        )
        list(pieces)
    assert len(pacer.rounds) == 3
    for one in pacer.rounds:
        assert (one.draft_s, one.verify_s, one.total_s) == (2.0, 1.0, 3.0)
    assert (trace.total_s("draft"), trace.total_s("verify")) == (6.0, 3.0)
