from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from readahead.lm.prompt import build_prompt
from readahead.lm.shorten import fit_passages
from readahead.lm.tokenizer import Tokenizer
from readahead.types import Passage
from tests.conftest import make_tokenizer

TOKENIZER = Tokenizer(make_tokenizer())
STORED = "Before it. One is short. Two is a little longer. Three ends it."
START = STORED.index("One")


def passage(number: int = 1, text: str = STORED[START:]) -> Passage:
    return Passage("notes.md", text, START, START + len(text), id=f"{number}.1.1")


def at_most(num_chars: int, passages: Sequence[Passage]) -> bool:
    return sum(len(one.text) for one in passages) <= num_chars


def fitted(passages: Sequence[Passage], num_chars: int) -> tuple[Passage, ...]:
    return fit_passages(passages, lambda shown: at_most(num_chars, shown))


def test_what_fits_stays_as_it_is() -> None:
    given = [passage(1), passage(2)]
    assert fitted(given, 1000) == tuple(given)
    assert fitted([], 0) == ()


def test_the_first_that_does_not_fit_ends_at_a_sentence() -> None:
    one, two, three = passage(1), passage(2), passage(3, "x")
    whole, cut = fitted([one, two, three], len(one.text) + 40)
    assert whole == one
    assert cut.text == "One is short. Two is a little longer."
    assert STORED[cut.start : cut.end] == cut.text
    assert (cut.id, cut.start) == (two.id, two.start)


def test_the_first_alone_is_shortened_rather_than_nothing_shown() -> None:
    (cut,) = fitted([passage(1)], 15)
    assert cut.text == "One is short."
    assert fitted([passage(1)], 5) == ()


@given(texts=st.lists(st.text("ab. ", max_size=40), max_size=4), max_tokens=st.integers(250, 450))
def test_a_prompt_of_what_fits_drops_nothing_and_wastes_no_sentence(
    texts: list[str], max_tokens: int
) -> None:
    passages = [passage(number, text) for number, text in enumerate(texts)]

    def fits(shown: Sequence[Passage]) -> bool:
        prompt = build_prompt(TOKENIZER, "why?", shown, max_tokens=max_tokens)
        return not prompt.dropped and not prompt.is_shortened

    shown = fit_passages(passages, fits)
    assert fits(shown)
    # The prompt does just that by itself.
    assert build_prompt(TOKENIZER, "why?", passages, max_tokens=max_tokens).passages == shown
    for short, long in zip(shown, passages, strict=False):
        assert long.text.startswith(short.text)
        assert short.end - short.start == len(short.text)
