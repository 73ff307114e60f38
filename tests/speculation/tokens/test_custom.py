from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    DynamicCache,
    LlamaForCausalLM,
    LogitsProcessor,
    LogitsProcessorList,
    MistralConfig,
    MistralForCausalLM,
    StaticCache,
    StoppingCriteria,
    StoppingCriteriaList,
    StopStringCriteria,
    TextIteratorStreamer,
)
from transformers.generation.streamers import BaseStreamer

from readahead.errors import ConfigError, ContextOverflow, InputError, VocabularyMismatch
from readahead.lm.model import TransformersModel
from readahead.speculation.tokens.acceptance import Rule
from readahead.speculation.tokens.custom import RapidDecoder
from tests.conftest import make_llama, make_tokenizer

from .support import chi_square, prompt

TOKENIZER = make_tokenizer()
EOS = TOKENIZER.eos_token_id
OTHER = make_llama(seed=1)


def ids_of(seed: int) -> Tensor:
    """Return a prompt (1, 24) that ends as it begins, so that something can be copied."""
    ids = prompt(seed)
    return torch.tensor([[*ids[:16], *ids[:8]]])


def generate(
    model: LlamaForCausalLM | MistralForCausalLM,
    ids: Tensor,
    decoder: RapidDecoder | None = None,
    **options: Any,
) -> Any:
    defaults = {"max_new_tokens": 32, "do_sample": False, "attention_mask": torch.ones_like(ids)}
    return model.generate(ids, custom_generate=decoder, **{**defaults, **options})


Make = Callable[[LlamaForCausalLM], RapidDecoder]
DECODERS: dict[str, Make] = {
    "lookup": lambda llama: RapidDecoder(TOKENIZER, num_draft_tokens=4),
    "lookup, governed": lambda llama: RapidDecoder(TOKENIZER, sources=["Some text.", [1, 2, 3]]),
    "other": lambda llama: RapidDecoder(TOKENIZER, OTHER, num_draft_tokens=3),
    "self": lambda llama: RapidDecoder(TOKENIZER, llama, num_draft_tokens=4),
    "self, short": lambda llama: RapidDecoder(
        TOKENIZER, llama, context=prompt(0)[-9:], num_draft_tokens=4
    ),
    "hybrid": lambda llama: RapidDecoder(
        TOKENIZER, TransformersModel(OTHER, TOKENIZER), sources=(), context="Read this."
    ),
}


class EvenThenOdd(LogitsProcessor):
    """Allow even token ids at even places and odd ones at odd places; write into the scores."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        scores[:, (input_ids.shape[1] + 1) % 2 :: 2] = -torch.inf
        return scores


class StopAtByte(StoppingCriteria):
    """Stop behind the first token of the answer below a bound."""

    def __init__(self, bound: int, num_prompt_tokens: int) -> None:
        self.bound = bound
        self.num_prompt_tokens = num_prompt_tokens

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        return (input_ids[:, self.num_prompt_tokens :] < self.bound).any(dim=1)


OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "repetition_penalty": {"repetition_penalty": 1.4},
    "min_new_tokens": {"min_new_tokens": 20, "eos_token_id": [EOS, *range(0, 200, 3)]},
    "several ends": {"eos_token_id": [EOS, *range(0, 250, 10)]},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 2},
    "bad_words": {"bad_words_ids": [[one] for one in range(0, 256, 2)] + [[3, 5]]},
    "processor": {"logits_processor": LogitsProcessorList([EvenThenOdd()])},
    "criterion": {"stopping_criteria": StoppingCriteriaList([StopAtByte(12, 24)])},
    "all": {
        "repetition_penalty": 1.3,
        "no_repeat_ngram_size": 3,
        "logits_processor": LogitsProcessorList([EvenThenOdd()]),
        "stopping_criteria": StoppingCriteriaList([StopAtByte(6, 24)]),
        "eos_token_id": [EOS, 7],
    },
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("make", DECODERS.values(), ids=DECODERS)
def test_greedy_tokens_are_those_of_plain_generate(
    llama: LlamaForCausalLM, make: Make, options: dict[str, Any]
) -> None:
    decoder = make(llama)
    for seed in range(2):
        ids = ids_of(seed)
        expected = generate(llama, ids, **options)
        got = generate(llama, ids, decoder, **options)
        assert got.tolist() == expected.tolist()
        assert decoder.tally.num_new_tokens == expected.shape[1] - ids.shape[1]


def test_the_ends_are_reached_within_a_run(llama: LlamaForCausalLM) -> None:
    """What is compared above would mean little if all answers ran to their limit."""
    for name in ("several ends", "criterion"):
        lengths = {generate(llama, ids_of(seed), **OPTIONS[name]).shape[1] for seed in range(3)}
        assert min(lengths) < 24 + 32, name


def test_a_model_that_drafts_for_itself_is_always_right(llama: LlamaForCausalLM) -> None:
    """Processors hold on both sides, or drafts would be rejected."""
    decoder = RapidDecoder(TOKENIZER, llama, num_draft_tokens=4)
    generate(llama, ids_of(1), decoder, **OPTIONS["processor"])
    assert decoder.tally.acceptance_rate == 1.0
    assert decoder.tally.num_rounds == 1 + 7  # one token, then runs of five, of 32
    assert decoder.tally.accept_counts[4] == 6


def test_a_stop_string_ends_it(llama: LlamaForCausalLM) -> None:
    ids = ids_of(2)
    said = str(TOKENIZER.decode(generate(llama, ids)[0, 24:]))
    stop = next(said[at : at + 2] for at in range(10, 30) if said[at : at + 2].isascii())
    criteria = StoppingCriteriaList([StopStringCriteria(TOKENIZER, [stop])])
    expected = generate(llama, ids, stopping_criteria=criteria)
    assert expected.shape[1] < 24 + 32
    decoder = RapidDecoder(TOKENIZER, llama, num_draft_tokens=6)
    got = generate(llama, ids, decoder, stopping_criteria=criteria)
    assert got.tolist() == expected.tolist()


def test_no_configuration_is_changed(llama: LlamaForCausalLM) -> None:
    drafter = make_llama(seed=1)
    configs = [x for m in (llama, drafter) for x in (m.config, m.generation_config)]
    given = deepcopy(llama.generation_config)
    before = [deepcopy(x.to_dict()) for x in (*configs, given)]
    decoder = RapidDecoder(TOKENIZER, drafter, num_draft_tokens=3)
    generate(llama, ids_of(0), decoder, generation_config=given, do_sample=True, top_k=5)
    assert [x.to_dict() for x in (*configs, given)] == before
    assert not llama.training


def test_the_model_output_is_that_of_plain_generate(llama: LlamaForCausalLM) -> None:
    ids = ids_of(4)
    asked = {
        "return_dict_in_generate": True,
        "output_scores": True,
        "output_logits": True,
        **OPTIONS["several ends"],
        "repetition_penalty": 1.2,
    }
    expected = generate(llama, ids, **asked)
    got = generate(llama, ids, RapidDecoder(TOKENIZER, llama, num_draft_tokens=4), **asked)
    assert type(got) is type(expected)
    assert got.sequences.tolist() == expected.sequences.tolist()
    assert len(got.scores) == len(got.logits) == got.sequences.shape[1] - 24
    for name in ("scores", "logits"):
        told, known = (torch.cat(one[name]) for one in (got, expected))
        assert torch.allclose(told, known, atol=1e-4)
    assert not torch.allclose(torch.cat(got.scores), torch.cat(got.logits))
    assert got.cache.get_seq_length() == expected.cache.get_seq_length()
    bare = generate(llama, ids, RapidDecoder(TOKENIZER), return_dict_in_generate=True)
    assert bare.scores is None
    assert bare.logits is None


def test_the_cache_ends_where_the_answer_does(llama: LlamaForCausalLM) -> None:
    """An end within a run leaves draft tokens in the cache, which must go."""
    decoder = RapidDecoder(TOKENIZER, llama, num_draft_tokens=8)
    num_surplus = []
    for seed in range(6):
        cache = DynamicCache(config=llama.config)
        got = generate(llama, ids_of(seed), decoder, cache=cache, **OPTIONS["several ends"])
        assert cache.get_seq_length() == got.shape[1] - 1
        num_surplus.append(decoder.tally.accepted.total() + decoder.tally.num_rounds)
        num_surplus[-1] -= decoder.tally.num_new_tokens
    assert max(num_surplus) > 0


def test_a_window_is_as_plain_generate_leaves_it() -> None:
    """An end within a run takes more back, and a window can go back once a step."""
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=len(TOKENIZER),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=16,
        bos_token_id=None,
        eos_token_id=None,
    )
    windowed = MistralForCausalLM(config).eval()
    for parameter in windowed.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    held = DynamicCache(config=config)
    generate(windowed, ids_of(0), RapidDecoder(TOKENIZER, num_draft_tokens=4), cache=held)
    windowed(torch.arange(40)[None], cache=held)  # as any code of one's own goes on
    assert held.layers[0].keys.shape[-2] == 15  # type: ignore[union-attr]
    answer = generate(windowed, ids_of(0), max_new_tokens=12)[0, 24:].tolist()
    for end in answer[3:]:
        decoder = RapidDecoder(TOKENIZER, windowed, num_draft_tokens=6)
        caches = DynamicCache(config=config), DynamicCache(config=config)
        got = generate(windowed, ids_of(0), decoder, cache=caches[0], eos_token_id=[end])
        assert (
            got.tolist()
            == generate(windowed, ids_of(0), cache=caches[1], eos_token_id=[end]).tolist()
        )
        on = torch.cat([got, ids_of(1)[:, :3]], dim=1)
        first, second = (generate(windowed, on, cache=cache).tolist() for cache in caches)
        assert first == second


def test_a_criterion_sees_the_scores(llama: LlamaForCausalLM) -> None:
    class Unsure(StoppingCriteria):
        def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
            assert len(scores) == input_ids.shape[1] - 24
            return scores[-1].softmax(dim=-1).amax(dim=-1) < 0.1

    asked: dict[str, Any] = {
        "stopping_criteria": StoppingCriteriaList([Unsure()]),
        "return_dict_in_generate": True,
        "output_scores": True,
    }
    for seed in range(3):
        expected = generate(llama, ids_of(seed), **asked).sequences
        decoder = RapidDecoder(TOKENIZER, llama, num_draft_tokens=5)
        got = generate(llama, ids_of(seed), decoder, **asked).sequences
        assert got.tolist() == expected.tolist()


@pytest.mark.parametrize("num_known", [1, 10, 23])
def test_a_prefilled_cache_goes_on(llama: LlamaForCausalLM, num_known: int) -> None:
    ids = ids_of(5)
    expected = generate(llama, ids)
    cache = DynamicCache(config=llama.config)
    with torch.no_grad():
        llama(ids[:, :num_known], cache=cache)
    decoder = RapidDecoder(TOKENIZER, OTHER, num_draft_tokens=3)
    assert generate(llama, ids, decoder, cache=cache).tolist() == expected.tolist()
    assert cache.get_seq_length() == expected.shape[1] - 1
    # The next turn goes on in it.
    longer = torch.cat([expected, ids[:, :5]], dim=1)
    got = generate(llama, longer, decoder, cache=cache)
    assert got.tolist() == generate(llama, longer).tolist()


def test_a_cache_by_its_old_name_is_the_same(llama: LlamaForCausalLM) -> None:
    ids = ids_of(6)
    decoder = RapidDecoder(TOKENIZER)
    cache = DynamicCache(config=llama.config)

    def renamed(
        model: Any, input_ids: Any, logits_processor: Any, stopping_criteria: Any, **inputs: Any
    ) -> Any:
        inputs["past_key_values"] = inputs.pop("cache")
        return decoder(
            model,
            input_ids,
            logits_processor=logits_processor,
            stopping_criteria=stopping_criteria,
            **inputs,
        )

    got = generate(llama, ids, renamed, cache=cache)  # type: ignore[arg-type]
    assert got.tolist() == generate(llama, ids).tolist()
    assert cache.get_seq_length() == got.shape[1] - 1


def test_no_cache_is_no_difference(llama: LlamaForCausalLM) -> None:
    ids = ids_of(7)
    got = generate(llama, ids, RapidDecoder(TOKENIZER), use_cache=False)
    assert got.tolist() == generate(llama, ids).tolist()


class Recorded(BaseStreamer):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.puts: list[list[int]] = []
        self.num_ends = 0

    def put(self, value: Tensor) -> None:
        self.puts.append(value.flatten().tolist())

    def end(self) -> None:
        self.num_ends += 1


def test_a_streamer_gets_prompt_and_runs_and_its_end(llama: LlamaForCausalLM) -> None:
    streamer = Recorded()
    decoder = RapidDecoder(TOKENIZER, llama, num_draft_tokens=4, streamer=streamer)
    got = generate(llama, ids_of(1), decoder, **OPTIONS["several ends"])
    first, *runs = streamer.puts
    assert first == ids_of(1)[0].tolist()
    assert [one for run in runs for one in run] == got[0, 24:].tolist()
    assert max(map(len, runs)) > 1
    assert streamer.num_ends == 1


@pytest.mark.parametrize("skip_prompt", [False, True])
@pytest.mark.parametrize("is_given_twice", [False, True])
def test_text_that_is_streamed_is_that_of_plain_generate(
    llama: LlamaForCausalLM, skip_prompt: bool, is_given_twice: bool
) -> None:
    def streamer() -> TextIteratorStreamer:
        return TextIteratorStreamer(TOKENIZER, skip_prompt=skip_prompt, timeout=5)

    ids = ids_of(3)
    expected, own = streamer(), streamer()
    generate(llama, ids, streamer=expected)
    decoder = RapidDecoder(TOKENIZER, llama, num_draft_tokens=4, streamer=own)
    for _ in range(2):
        generate(llama, ids, decoder, streamer=own if is_given_twice else None)
    told = "".join(expected)
    assert "".join(own) == told
    assert "".join(own) == told


def test_a_streamer_ends_when_something_fails(llama: LlamaForCausalLM) -> None:
    class Broken(StoppingCriteria):
        def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
            raise RuntimeError("broken")

    streamer = TextIteratorStreamer(TOKENIZER, skip_prompt=True, timeout=5)
    decoder = RapidDecoder(TOKENIZER, streamer=streamer)
    with pytest.raises(RuntimeError, match="broken"):
        generate(llama, ids_of(0), decoder, stopping_criteria=StoppingCriteriaList([Broken()]))
    assert "".join(streamer) == ""
    with pytest.raises(InputError, match="2 sequences"):
        generate(llama, ids_of(0).repeat(2, 1), decoder)
    assert "".join(streamer) == ""


def law(llama: LlamaForCausalLM, ids: Tensor, num_tokens: int, **options: Any) -> dict[Any, float]:
    """Return the probability of each answer, from plain generate's own scores."""
    laws: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(num_tokens):
        longer: dict[tuple[int, ...], float] = {}
        for answer, so_far in laws.items():
            told = generate(
                llama,
                torch.cat([ids, torch.tensor([answer], dtype=torch.long)], dim=1),
                max_new_tokens=1,
                do_sample=True,
                return_dict_in_generate=True,
                output_scores=True,
                **options,
            )
            probs = told.scores[0][0].softmax(dim=-1)
            for token_id in probs.nonzero().flatten().tolist():
                longer[(*answer, token_id)] = so_far * float(probs[token_id])
        laws = longer
    return laws


@pytest.mark.parametrize("drafter", ["model", "lookup"])
def test_drawn_tokens_have_the_law_of_plain_generate(llama: LlamaForCausalLM, drafter: str) -> None:
    """Three tokens of 600 answers; chi-square, false alarms in 1 of 10,000 runs."""
    ids, options = ids_of(8), {"top_k": 3, "temperature": 1.5, "top_p": 0.95}
    expected = law(llama, ids, 3, **options)
    assert sum(expected.values()) == pytest.approx(1.0, abs=1e-4)
    likely = max(expected, key=lambda answer: expected[answer])
    copied = [[*ids[0, -3:].tolist(), *likely]]
    decoder = {
        "model": RapidDecoder(TOKENIZER, llama, context=ids[0, -20:].tolist(), num_draft_tokens=2),
        "lookup": RapidDecoder(TOKENIZER, sources=copied, num_draft_tokens=2),
    }[drafter]
    torch.manual_seed(0)
    counts = dict.fromkeys(expected, 0)
    drafted = accepted = 0
    for _ in range(600):
        got = generate(llama, ids, decoder, do_sample=True, max_new_tokens=3, **options)
        counts[tuple(got[0, 24:].tolist())] += 1
        drafted += decoder.tally.drafted.total()
        accepted += decoder.tally.accepted.total()
    assert 0 < accepted < drafted
    assert chi_square(counts, expected) < 1


def test_the_seed_is_torchs_own_unless_one_is_given(llama: LlamaForCausalLM) -> None:
    def drawn(decoder: RapidDecoder) -> list[int]:
        answer: list[int] = generate(llama, ids_of(9), decoder, do_sample=True)[0].tolist()
        return answer

    free = RapidDecoder(TOKENIZER, num_draft_tokens=3)
    fixed = RapidDecoder(TOKENIZER, num_draft_tokens=3, seed=5)
    torch.manual_seed(3)
    first, second = drawn(free), drawn(free)
    assert first != second
    torch.manual_seed(3)
    assert drawn(free) == first
    assert drawn(fixed) == drawn(fixed)


def test_the_law_of_the_rule_is_reported(llama: LlamaForCausalLM) -> None:
    decoder = RapidDecoder(TOKENIZER, OTHER, rule=Rule("augmented"), num_draft_tokens=3)
    generate(llama, ids_of(0), decoder, do_sample=True)
    assert decoder.tally.gap > 0
    for wrong in ({}, {"drafter": OTHER, "sources": ()}):
        with pytest.raises(ConfigError, match="no distribution"):
            RapidDecoder(TOKENIZER, rule=Rule("augmented"), **wrong)  # type: ignore[arg-type]


def static_cache(llama: LlamaForCausalLM) -> StaticCache:
    return StaticCache(config=llama.config, max_cache_len=80)


def full_cache(llama: LlamaForCausalLM) -> DynamicCache:
    cache = DynamicCache(config=llama.config)
    with torch.no_grad():
        llama(ids_of(0), cache=cache)
    return cache


REFUSED: dict[str, tuple[str, Callable[[LlamaForCausalLM], dict[str, Any]]]] = {
    "beams": ("beam_search", lambda llama: {"num_beams": 2}),
    "contrastive": ("contrastive", lambda llama: {"penalty_alpha": 0.5, "top_k": 4}),
    "lookup of its own": ("assisted", lambda llama: {"prompt_lookup_num_tokens": 3}),
    "several": ("2 seq", lambda llama: {"num_return_sequences": 2, "do_sample": True}),
    "guidance": ("guidance_scale", lambda llama: {"guidance_scale": 1.5}),
    "attentions": (
        "output_attentions",
        lambda llama: {"return_dict_in_generate": True, "output_attentions": True},
    ),
    "positions": ("positions", lambda llama: {"position_ids": torch.arange(24)[None] + 3}),
    "static": ("StaticCache", lambda llama: {"cache": static_cache(llama)}),
    "static by name": ("StaticCache", lambda llama: {"cache_implementation": "static"}),
    "full": ("holds 24 tokens", lambda llama: {"cache": full_cache(llama)}),
}


@pytest.mark.parametrize(("message", "options"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_served_is_refused_in_one_line(
    llama: LlamaForCausalLM, message: str, options: Callable[[LlamaForCausalLM], dict[str, Any]]
) -> None:
    with pytest.raises(InputError, match=message) as told:
        generate(llama, ids_of(0), RapidDecoder(TOKENIZER), **options(llama))
    assert told.value.remedy
    assert "\n" not in str(told.value)


def test_padding_is_refused(llama: LlamaForCausalLM) -> None:
    ids = ids_of(0)
    mask = torch.ones_like(ids)
    mask[:, :3] = 0
    with pytest.raises(InputError, match="padded"):
        generate(llama, ids, RapidDecoder(TOKENIZER), attention_mask=mask)


def test_new_tokens_alone_behind_a_cache_are_refused(llama: LlamaForCausalLM) -> None:
    asked = {"attention_mask": torch.ones(1, 30, dtype=torch.long), "cache": full_cache(llama)}
    with pytest.raises(InputError, match="whole sequence"):
        generate(llama, ids_of(1)[:, :6], RapidDecoder(TOKENIZER), **asked)


def test_a_model_in_training_is_refused() -> None:
    model = make_llama().train()
    with pytest.raises(InputError, match="training"):
        generate(model, ids_of(0), RapidDecoder(TOKENIZER))


def test_other_vocabularies_are_refused(llama: LlamaForCausalLM) -> None:
    wide = make_llama(seed=1)
    wide.resize_token_embeddings(300, mean_resizing=False)
    with pytest.raises(VocabularyMismatch, match="300 logits"):
        generate(llama, ids_of(0), RapidDecoder(TOKENIZER, wide))
    # Padding is no difference where the tokenizers tell.
    decoder = RapidDecoder(TOKENIZER, TransformersModel(wide, TOKENIZER), num_draft_tokens=3)
    assert generate(llama, ids_of(0), decoder).tolist() == generate(llama, ids_of(0)).tolist()
    strange = make_tokenizer()
    strange.add_tokens(["<new>"])
    with pytest.raises(VocabularyMismatch, match="tokens of its own"):
        decoder = RapidDecoder(TOKENIZER, TransformersModel(OTHER, strange))
        generate(llama, ids_of(0), decoder)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"drafter": "oracle"}, ConfigError),
        ({"num_draft_tokens": 0}, InputError),
        ({"context": ""}, InputError),
        ({"context": ids_of(0)}, InputError),
        ({"sources": ids_of(0)[None]}, InputError),
    ],
)
def test_what_is_no_decoder_is_said_at_once(options: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        RapidDecoder(TOKENIZER, **options)


def test_ids_may_be_tensors(llama: LlamaForCausalLM) -> None:
    answer = generate(llama, ids_of(0))[0]
    decoder = RapidDecoder(TOKENIZER, sources=[answer], num_draft_tokens=4)
    assert generate(llama, ids_of(0), decoder)[0].tolist() == answer.tolist()
    assert decoder.tally.acceptance_rate > 0.8


def test_the_context_may_be_filled_and_no_more() -> None:
    small = make_llama(max_position_embeddings=40)
    decoder = RapidDecoder(TOKENIZER, small, num_draft_tokens=6)
    got = generate(small, ids_of(0), decoder, max_new_tokens=16)
    assert got.tolist() == generate(small, ids_of(0), max_new_tokens=16).tolist()
    assert generate(small, ids_of(0), decoder, max_new_tokens=99).tolist() == got.tolist()
    full = torch.tensor([prompt(0, 40)])
    with pytest.raises(ContextOverflow):
        generate(small, full, decoder)


def test_one_decoder_serves_several_models(llama: LlamaForCausalLM) -> None:
    decoder = RapidDecoder(TOKENIZER, OTHER)
    models: Sequence[LlamaForCausalLM] = (llama, make_llama(seed=2))
    for model, seed in product(models, range(2)):
        got = generate(model, ids_of(seed), decoder)
        assert got.tolist() == generate(model, ids_of(seed)).tolist()
