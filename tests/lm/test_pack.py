"""What packing loses is bounded, marked, and only what was asked for."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from readahead.lm.kv import KVSegment
from readahead.lm.model import TransformersModel
from readahead.lm.pack import PackedSegment, Storage, pack
from tests.conftest import make_llama, make_tokenizer

MODEL = TransformersModel(make_llama(), make_tokenizer())
IDS = torch.arange(40).remainder(256)[None]


def segment(dtype: torch.dtype = torch.float32, *, scale: float = 1.0) -> KVSegment:
    generator = torch.Generator().manual_seed(0)

    def tensors() -> tuple[torch.Tensor, ...]:
        shape = (1, 3, 5, 16)
        return tuple((scale * torch.randn(shape, generator=generator)).to(dtype) for _ in range(2))

    return KVSegment(tensors(), tensors())


def packed(given: KVSegment, storage: Storage) -> PackedSegment:
    result = pack(given, storage)
    assert result is not None
    return result


def numbers(given: KVSegment) -> torch.Tensor:
    return torch.stack([*given.keys, *given.values])


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.floats(-1e6, 1e6, width=32), min_size=8, max_size=8), min_size=1, max_size=5
    )
)
def test_int8_is_off_by_half_a_step_at_most(rows: list[list[float]]) -> None:
    before = torch.tensor(rows)[None, None]
    after = packed(KVSegment((before,), (before,)), "int8").unpack()
    step = before.abs().amax(dim=-1, keepdim=True) / 127
    # The step itself is rounded to float16: to 11 bits, or to 2⁻²⁴ where it is tiny.
    slack = 127 * (step * 2**-11 + 2**-24)
    assert (after.keys[0] - before).abs().le(step / 2 + slack).all()
    torch.testing.assert_close(after.keys[0], after.values[0])


def test_bfloat16_keeps_eight_bits() -> None:
    before = segment()
    after = packed(before, "bfloat16").unpack()
    torch.testing.assert_close(numbers(after), numbers(before), rtol=2**-8, atol=0)


@pytest.mark.parametrize("storage", ["bfloat16", "int8"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_comes_back_in_its_dtype_and_is_marked(storage: Storage, dtype: torch.dtype) -> None:
    before = segment(dtype)
    small = packed(before, storage)
    after = small.unpack()
    assert after.keys[0].dtype == after.values[1].dtype == dtype
    assert (before.is_exact, small.is_exact, after.is_exact) == (True, False, False)
    assert after.unpack() is after


def test_bytes_are_what_they_should_be() -> None:
    before = segment()
    num_numbers, num_rows = 4 * 3 * 5 * 16, 4 * 3 * 5
    assert before.num_bytes == 4 * num_numbers
    assert packed(before, "bfloat16").num_bytes == 2 * num_numbers
    assert packed(before, "int8").num_bytes == num_numbers + 2 * num_rows


@pytest.mark.parametrize("storage", ["bfloat16", "int8"])
@given(num_tokens=st.integers(1, 5))
def test_the_head_of_the_packed_is_the_packed_head(storage: Storage, num_tokens: int) -> None:
    before = segment()
    head = packed(before, storage).head(num_tokens)
    assert head.num_tokens == num_tokens
    expected = packed(before.head(num_tokens), storage)
    torch.testing.assert_close(numbers(head.unpack()), numbers(expected.unpack()), atol=0, rtol=0)
    assert head.num_bytes == expected.num_bytes


def test_what_would_save_nothing_stays() -> None:
    assert pack(segment(), "same") is None
    assert pack(segment(torch.bfloat16), "bfloat16") is None
    assert pack(segment(torch.float16), "bfloat16") is None
    assert pack(packed(segment(), "int8"), "int8") is None
    assert packed(segment(torch.bfloat16), "int8").unpack().keys[0].dtype == torch.bfloat16


def test_float16_is_not_exceeded_on_the_way() -> None:
    before = segment(torch.float16, scale=12_000)
    after = packed(before, "int8").unpack()
    assert numbers(after).isfinite().all()


def test_zeros_stay_zeros() -> None:
    zeros = torch.zeros(1, 2, 3, 8)
    after = packed(KVSegment((zeros,), (zeros,)), "int8").unpack()
    assert after.keys[0].eq(0).all()


def test_the_smallest_steps_do_not_wrap_around() -> None:
    """A step of 1.4 · 2⁻²⁴ is rounded to 2⁻²⁴, in which the number would take 178 of them."""
    tiny = torch.full((1, 1, 1, 4), 1.4 * 127 * 2**-24)
    after = packed(KVSegment((tiny,), (tiny,)), "int8").unpack()
    assert after.keys[0].eq(127 * 2**-24).all()


@pytest.mark.parametrize("strange", [torch.inf, -torch.inf, torch.nan, 3e38])
def test_numbers_that_have_no_step_are_not_packed(strange: float) -> None:
    keys = torch.ones(1, 1, 2, 4)
    keys[0, 0, 1, 2] = strange
    assert pack(KVSegment((keys,), (keys,)), "int8") is None


# The mark travels with the numbers, through caches.


def filled(*segments: KVSegment) -> tuple[bool, ...]:
    """Return for each segment, and a token read behind them, whether it is exact."""
    cache = MODEL.new_cache()
    cache.extend(segments)
    MODEL.forward(IDS[:, :1], cache)
    stops = [0]
    for one in segments:
        stops.append(stops[-1] + one.num_tokens)
    stops.append(stops[-1] + 1)
    pairs = zip(stops, stops[1:], strict=False)
    return tuple(cache.cut(start, stop).is_exact for start, stop in pairs)


def test_nothing_behind_what_is_not_exact_is_exact() -> None:
    cache = MODEL.new_cache()
    MODEL.forward(IDS, cache)
    one, two = cache.cut(0, 10), cache.cut(10, 40)
    assert filled(one, two) == (True, True, True)
    assert filled(one, packed(two, "int8").unpack()) == (True, False, False)
    assert filled(packed(one, "int8").unpack(), two) == (False, False, False)


def test_cropping_takes_the_mark_away_with_its_reason() -> None:
    cache = MODEL.new_cache()
    MODEL.forward(IDS, cache)
    one, two = cache.cut(0, 10), cache.cut(10, 40)
    cache.crop(0)
    cache.extend([one, packed(two, "bfloat16").unpack()])
    twin = cache.fork()
    cache.crop(11)
    assert (cache.is_exact, twin.is_exact) == (False, False)
    cache.crop(10)
    MODEL.forward(IDS[:, 10:], cache)
    assert cache.is_exact
    assert cache.cut(0, 40).is_exact
    assert not twin.is_exact
