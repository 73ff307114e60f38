import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.lm.tokenizer import Tokenizer
from readahead.speculation.retrieval.signals import TokenSignals
from readahead.speculation.retrieval.written import MAX_HELD_TOKENS, Written
from tests.conftest import make_tokenizer

TOKENIZER = Tokenizer(make_tokenizer())


def signals(entropy: float = 0.0) -> TokenSignals:
    return TokenSignals(entropy, 1.0, 0.0, 0.0, 0.0, 0.0)


def write(text: str, doubts: dict[str, float] | None = None) -> Written:
    """Return an answer of one token per byte; the words of ``doubts`` have their entropies."""
    written = Written(TOKENIZER)
    entropies = [0.0] * len(text.encode())
    for word, entropy in (doubts or {}).items():
        start = len(text[: text.index(word)].encode())
        entropies[start : start + len(word.encode())] = [entropy] * len(word.encode())
    for token_id, entropy in zip(TOKENIZER.encode(text), entropies, strict=True):
        written.push(token_id, -0.5, signals(entropy))
    return written


@given(st.text(max_size=30), st.integers(0, 60))
def test_cutting_is_never_having_written(text: str, num_tokens: int) -> None:
    written = write(text.encode("utf-8", "replace").decode())
    ids = [token.id for token in written.tokens[:num_tokens]]
    written.cut(num_tokens)
    fresh = Written(TOKENIZER)
    for token_id in ids:
        fresh.push(token_id, -0.5, signals())
    assert written.text == fresh.text
    assert [token.id for token in written.tokens] == ids
    written.finish()
    assert written.text == TOKENIZER.decode(ids)


@given(st.text(max_size=30), st.lists(st.integers(0, 60), max_size=5), st.integers(0, 60))
def test_what_was_released_stays_and_comes_once(text: str, nums: list[int], kept: int) -> None:
    written = write(text.encode("utf-8", "replace").decode())
    num = len(written.tokens)
    pieces = [written.release(min(each, num)) for each in nums]
    released = [token_id for piece in pieces for token_id in piece.token_ids]
    assert len(released) == min(max(nums, default=0), num)
    written.cut(kept)
    ids = [token.id for token in written.tokens]
    assert ids[: len(released)] == released
    pieces.append(written.release(len(ids), "stop"))
    assert [token_id for piece in pieces for token_id in piece.token_ids] == ids
    assert "".join(piece.text for piece in pieces) == written.text == TOKENIZER.decode(ids)


@pytest.mark.parametrize(
    ("text", "start"),
    [("", 0), ("The tide", 0), ("It turns. The moon", 10), ("It turns.", 0), ("一。二", 6)],
)
def test_the_sentence_being_written(text: str, start: int) -> None:
    assert write(text).sentence_start() == start


def test_uncertain_words_are_left_out_of_the_query() -> None:
    written = write("It turns. The tide of Venice turns t", {"Venice": 2.0})
    assert written.certain_words() == "The tide of turns"


def test_content_words_begin_at_their_first_token() -> None:
    begun = []
    written = Written(TOKENIZER)
    for token_id in TOKENIZER.encode("the tide, 12"):
        written.push(token_id, 0.0, signals())
        begun.append(written.begins_content_word())
    # Single letters say something; that "t" will be "the" is not known at its first byte.
    assert [place for place, begins in enumerate(begun) if begins] == [0, 4, 10]


def test_jump_is_against_what_came_before() -> None:
    written = Written(TOKENIZER)
    for entropy in (1.0, 2.0, 4.0):
        written.push(65, 0.0, signals(entropy))
    assert written.jump() == pytest.approx(2.5)
    assert write("A").jump() == 0.0


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("", True),
        ("The pass", True),
        ("The passages", True),
        ("I'm sor", True),
        ("没有提", True),
        ("Marie", True),  # the first word is not finished
        ("Marie Curie", False),
        ("The tide ", False),
        ("It turns. The pass", True),
        ("The passages do not contain the answer", False),  # longer than what is held
        ("潮水", False),
    ],
)
def test_what_may_become_a_refusal(text: str, may: bool) -> None:
    written = Written(TOKENIZER)
    # A word a token, as real vocabularies have it.
    pieces = text.split(" ")
    for place, piece in enumerate(pieces):
        written.text += piece if place == 0 else f" {piece}"
        written.tokens.append(write("x").tokens[0].__class__(0, 0.0, signals(), len(written.text)))
    if len(text) > 30:
        written.tokens += [written.tokens[-1]] * MAX_HELD_TOKENS
    assert written.may_decline() == may
