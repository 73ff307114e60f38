import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as BackendTokenizer
from tokenizers import decoders, models
from transformers import PreTrainedTokenizerFast

from readahead.lm.model import TransformersModel
from readahead.lm.spelling import bytes_of, spelled
from readahead.lm.tokenizer import Tokenizer
from tests.conftest import make_tokenizer


def test_a_vocabulary_by_bytes() -> None:
    tokenizer = Tokenizer(make_tokenizer())
    assert sorted(tokenizer.token_bytes(i) for i in range(256)) == [bytes([i]) for i in range(256)]
    assert tokenizer.token_bytes(256) == b"<|im_end|>"
    assert tokenizer.token_bytes(100_000) == b""
    assert [tokenizer.is_special(i) for i in (65, 256, 100_000)] == [False, True, False]


@given(st.text(st.characters(codec="utf-8")))
def test_the_bytes_of_a_text_are_those_of_its_tokens(text: str) -> None:
    tokenizer = Tokenizer(make_tokenizer())
    assert b"".join(map(tokenizer.token_bytes, tokenizer.encode(text))) == text.encode()


@pytest.mark.parametrize(
    ("written", "expected"),
    [("▁the", b" the"), ("水", "水".encode()), ("<0xE6>", b"\xe6"), ("<0xZZ>", b"<0xZZ>")],
)
def test_a_vocabulary_by_pieces(written: str, expected: bytes) -> None:
    backend = BackendTokenizer(models.BPE({written: 0}, []))
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = Tokenizer(PreTrainedTokenizerFast(tokenizer_object=backend))
    assert tokenizer.token_bytes(0) == expected
    assert bytes_of(written, by_byte=False) == expected


def test_half_a_character_is_spelled_by_its_bytes() -> None:
    assert spelled("水 the".encode()) == "水 the"
    assert spelled("水".encode()[:2]) == "bytes:\\xe6\\xb0"


@pytest.mark.real
def test_the_bytes_of_the_real_vocabulary(smollm: TransformersModel) -> None:
    tokenizer = smollm.tokenizer
    text = "The 水 boils at 100 °C.\n\tif x: 🦊 naïve"
    assert b"".join(map(tokenizer.token_bytes, tokenizer.encode(text))) == text.encode()
    assert tokenizer.opening_ids == ()
