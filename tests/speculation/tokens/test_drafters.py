from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from readahead.lm.model import TransformersModel
from readahead.lm.sample import SamplingParams
from readahead.speculation.tokens import drafters
from readahead.speculation.tokens.drafters import HybridDrafter, ModelDrafter, make_drafter
from readahead.speculation.tokens.governor import FixedPacer
from readahead.speculation.tokens.lookup import LookupDrafter, Sources
from readahead.trace import Trace
from tests.conftest import make_llama, make_tokenizer

from .support import prompt

PARAMS = SamplingParams(temperature=0.8)


def drafter(model: TransformersModel, seed: int = 0) -> ModelDrafter:
    made = ModelDrafter(model, prompt(1), vocabulary_size=model.vocabulary_size)
    made.begin(prompt(2), SamplingParams(temperature=0.8, seed=seed), trace=Trace("test"))
    return made


def test_after_a_rejection_q_is_what_a_fresh_drafter_says(model: TransformersModel) -> None:
    used = drafter(model)
    first = used.propose([5, 6], FixedPacer(4), 4)
    assert len(first.token_ids) == 4
    answers = (
        [5, 6, *first.token_ids[:2], 77],  # two accepted
        [5, 6, *first.token_ids[:2], 77, 8, 9],  # nothing of the second proposal
        [5, 6, *first.token_ids[:2], 77, 8, 9, 10],
    )
    for answer in answers:
        got = used.draw(answer, FixedPacer(4))
        expected = drafter(model).draw(answer, FixedPacer(4))
        assert torch.allclose(got.q, expected.q, atol=1e-5)


def test_q_is_what_each_token_was_drawn_from(model: TransformersModel) -> None:
    for seed in range(5):
        got = drafter(model, seed).propose([3], FixedPacer(6), 6, with_soft=True)
        assert got.soft is not None
        assert got.soft.shape == (7, model.vocabulary_size)
        for token_id, q, soft in zip(got.token_ids, got.q, got.soft, strict=False):
            assert q is not None
            assert torch.equal(q, soft)
            assert q[token_id] > 0
            assert float(q.sum()) == 1.0 or abs(float(q.sum()) - 1) < 1e-5


def test_only_what_is_new_is_read(model: TransformersModel) -> None:
    used = drafter(model)
    assert used.num_unread([]) == 1
    got = used.propose([], FixedPacer(3), 3)
    assert used.num_unread([*got.token_ids, 4]) == 2  # its own last draft, and the bonus token
    assert used.num_unread([got.token_ids[0], 250, 4]) == 2
    assert used.num_unread([(got.token_ids[0] + 1) % 256]) == 1


def test_a_prompt_longer_than_the_context_is_not_read() -> None:
    small = TransformersModel(make_llama(max_position_embeddings=16), make_tokenizer())
    trace = Trace("test")
    made = ModelDrafter(small, prompt(1, 40), vocabulary_size=small.vocabulary_size)
    made.begin(prompt(2), PARAMS, trace=trace)
    assert made.propose([], FixedPacer(4), 4).token_ids == ()
    assert trace.counters.get("drafter_tokens", 0) == 0


@pytest.mark.parametrize("penalty", ["repetition", "frequency", "presence"])
def test_penalties_are_computed_where_the_logits_are(
    model: TransformersModel, monkeypatch: pytest.MonkeyPatch, penalty: str
) -> None:
    """Logits and ids must be on one device; the meta device tells of none that is not there."""
    seen: list[tuple[str, str]] = []

    def spied(
        logits: Tensor, params: SamplingParams, seen_ids: list[Tensor], **more: Any
    ) -> Tensor:
        seen.append((logits.device.type, seen_ids[0].device.type))
        return torch.full(logits.shape, 1 / logits.shape[-1])

    forward = model.forward
    monkeypatch.setattr(model, "forward", lambda *args: forward(*args).to("meta"))
    monkeypatch.setattr(drafters, "distribution", spied)
    made = ModelDrafter(model, prompt(1), vocabulary_size=model.vocabulary_size)
    value = 1.3 if penalty == "repetition" else 0.5
    params = replace(SamplingParams(), **{f"{penalty}_penalty": value})  # type: ignore[arg-type]
    made.begin(prompt(2), params, trace=Trace("test"))
    made.draw([5, 6], FixedPacer(1))
    assert set(seen) == {("meta", "meta")}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_penalties_are_computed_on_cuda() -> None:
    model = TransformersModel(make_llama().to("cuda"), make_tokenizer())  # type: ignore[arg-type]
    made = ModelDrafter(model, prompt(1), vocabulary_size=model.vocabulary_size)
    params = SamplingParams(frequency_penalty=0.5, presence_penalty=0.5, repetition_penalty=1.3)
    made.begin(prompt(2), params, trace=Trace("test"))
    assert len(made.propose([5, 6], FixedPacer(4), 4).token_ids) == 4


def test_another_seed_draws_other_tokens(model: TransformersModel) -> None:
    drawn = {drafter(model, seed).propose([], FixedPacer(6), 6).token_ids for seed in range(8)}
    assert len(drawn) > 1
    again = drafter(model, 3).propose([], FixedPacer(6), 6)
    assert again.token_ids == drafter(model, 3).propose([], FixedPacer(6), 6).token_ids


def test_a_hybrid_copies_where_it_can_and_asks_elsewhere(model: TransformersModel) -> None:
    source = [10, 11, 12, 13, 14]
    made = HybridDrafter(
        LookupDrafter(Sources([source])),
        ModelDrafter(model, prompt(1), vocabulary_size=model.vocabulary_size),
    )
    made.begin(prompt(2), SamplingParams(), trace=Trace("test"))
    got = made.propose([200, 10, 11], FixedPacer(5), 5)
    assert got.token_ids[:3] == (12, 13, 14)
    assert [kind.source for kind in got.kinds[:3]] == ["lookup"] * 3
    got = made.propose([200, 10, 11, 12, 13, 14, 201], FixedPacer(5), 5)
    assert "model" in {kind.source for kind in got.kinds}
    # A copied token has no q, a drawn one has.
    for kind, q in zip(got.kinds, got.q, strict=True):
        assert (q is None) == (kind.source == "lookup")


def test_a_processor_is_asked_behind_nothing_that_it_rules_out(model: TransformersModel) -> None:
    """A grammar may fail there; a copied token may be one that it rules out."""
    copied, seen = 12, []

    def grammar(ids: Tensor, logits: Tensor) -> Tensor:
        assert copied not in ids
        seen.append(len(ids))
        return logits.index_fill(0, torch.tensor([copied]), -torch.inf)

    made = HybridDrafter(
        LookupDrafter(Sources([[10, 11, copied]])),
        ModelDrafter(model, prompt(1), vocabulary_size=model.vocabulary_size),
    )
    made.begin([10, 9], SamplingParams(processors=(grammar,)), trace=Trace("test"))
    assert made.propose([200, 10, 11], FixedPacer(4), 4).token_ids == (copied,)
    got = made.propose([200, 10, 11, 77, 78], FixedPacer(4), 4)
    assert got.kinds[0].source == "model"
    assert seen


def test_a_drafter_is_made_of_what_there_is(model: TransformersModel) -> None:
    lookup, own = LookupDrafter(), drafter(model)
    assert make_drafter("lookup", lookup, own) is lookup
    assert make_drafter("rag", lookup, own) is own
    assert isinstance(make_drafter("hybrid", lookup, own), HybridDrafter)
    assert make_drafter("hybrid", lookup, None) is lookup
