from hypothesis import given
from hypothesis import strategies as st

from readahead.lm.textstream import TextStream
from readahead.lm.tokenizer import Tokenizer
from tests.conftest import make_tokenizer

TOKENIZER = Tokenizer(make_tokenizer())


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
