from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as BackendTokenizer
from tokenizers import decoders, models
from transformers import PreTrainedTokenizerFast

from readahead.lm.textstream import TextStream
from readahead.lm.tokenizer import Tokenizer
from tests.conftest import make_tokenizer

TOKENIZER = Tokenizer(make_tokenizer())


def make_sentencepiece() -> Tokenizer:
    """Return one that writes a space into the word behind it, and strips that of the first."""
    vocabulary = {"<unk>": 0, "▁a": 1, "▁b": 2, "▁": 3, "c": 4}
    backend = BackendTokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    parts = [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    backend.decoder = decoders.Sequence(parts)
    return Tokenizer(
        PreTrainedTokenizerFast(
            tokenizer_object=backend, unk_token="<unk>", additional_special_tokens=["<s>"]
        )
    )


SENTENCEPIECE, SPECIAL = make_sentencepiece(), 5


@given(st.text())
def test_pieces_join_to_the_text(text: str) -> None:
    stream = TextStream(TOKENIZER)
    pieces = [stream.push(token_id) for token_id in TOKENIZER.encode(text)]
    assert "".join(pieces) + stream.finish() == text.encode("utf-8", "replace").decode()


@given(st.text())
def test_no_piece_splits_a_character(text: str) -> None:
    text = text.replace("\ufffd", "")
    stream = TextStream(TOKENIZER)
    for token_id in TOKENIZER.encode(text):
        assert "\ufffd" not in stream.push(token_id)


@given(st.lists(st.integers(0, 255)))
def test_broken_bytes_still_join_to_the_text(token_ids: list[int]) -> None:
    """A model may write bytes that are no character; nothing is lost and nothing is doubled."""
    stream = TextStream(TOKENIZER)
    pieces = [stream.push(token_id) for token_id in token_ids]
    assert "".join(pieces) + stream.finish() == TOKENIZER.decode(token_ids)


@given(
    st.text(alphabet="ab。", max_size=30),
    st.lists(st.text(alphabet="ab。", min_size=1, max_size=4), min_size=1, max_size=3),
)
def test_the_text_ends_before_the_first_stop_string(text: str, stops: list[str]) -> None:
    stream = TextStream(TOKENIZER, stops)
    said = ""
    for token_id in TOKENIZER.encode(text):
        said += stream.push(token_id)
        if stream.stopped:
            break
    said += stream.finish()
    # The first stop string to be complete wins; of those complete at once, the longest.
    ends = [end for end in range(len(text) + 1) if text[:end].endswith(tuple(stops))]
    expected = text
    if ends:
        before = text[: ends[0]]
        expected = before[: -max(len(stop) for stop in stops if before.endswith(stop))]
    assert stream.stopped == bool(ends)
    assert said == expected


def test_text_is_released_once_it_cannot_begin_a_stop_string() -> None:
    stream = TextStream(TOKENIZER, ["END"])
    assert [stream.push(i) for i in TOKENIZER.encode("aENb")] == ["a", "", "", "ENb"]


@given(st.lists(st.integers(1, SPECIAL), max_size=12))
def test_a_special_token_takes_no_space_with_it(token_ids: list[int]) -> None:
    stream = TextStream(SENTENCEPIECE)
    pieces = [stream.push(token_id) for token_id in token_ids]
    assert "".join(pieces) + stream.finish() == SENTENCEPIECE.decode(token_ids)


def test_words_around_a_special_token_stay_apart() -> None:
    stream = TextStream(SENTENCEPIECE)
    assert [stream.push(token_id) for token_id in (1, SPECIAL, SPECIAL, 2)] == ["a", "", "", " b"]
