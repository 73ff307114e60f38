import time
from collections import Counter

import pytest

from readahead.documents.printed import Line, compounds, join_lines, without_running_lines


def paper(*pages: list[str]) -> list[list[Line]]:
    return [
        [Line(text, number, y=700.0 - 20 * row) for row, text in enumerate(texts)]
        for number, texts in enumerate(pages, start=1)
    ]


def kept(pages: list[list[Line]]) -> tuple[list[list[str]], dict[str, int]]:
    removed: Counter[str] = Counter()
    result = without_running_lines(pages, removed)
    return [[line.text for line in page] for page in result], dict(removed)


def body(page: int) -> list[str]:
    return [f"{word} of {chr(96 + page) * 3}" for word in ("first", "second", "third", "fourth")]


def test_lines_repeated_at_an_edge_go() -> None:
    texts, removed = kept(paper(*(["Report", *body(n), "© Trust"] for n in (1, 2, 3))))
    assert texts == [body(1), body(2), body(3)]
    assert removed == {"running_header": 3, "running_footer": 3}


@pytest.mark.parametrize("form", ["Report 2025 | {}", "{} Report 2025", "Report, page {}"])
def test_a_header_may_hold_the_page_number(form: str) -> None:
    texts, removed = kept(paper(*([form.format(n + 7), *body(n)] for n in (1, 2, 3))))
    assert removed == {"running_header": 3}
    assert texts == [body(1), body(2), body(3)]


def test_headers_that_change_with_the_chapter_are_told_by_the_page_number() -> None:
    pages = paper(*([f"Chapter {n // 3}: Domes {n + 2}", *body(n)] for n in range(1, 7)))
    texts, removed = kept(pages)
    assert removed == {"running_header": 6}
    assert texts == [body(n) for n in range(1, 7)]


def test_headers_of_odd_and_even_pages_go() -> None:
    pages = paper(*(["Left" if n % 2 else "Right", *body(n)] for n in range(1, 7)))
    assert kept(pages)[1] == {"running_header": 6}


def test_what_is_repeated_in_the_middle_or_on_two_pages_stays() -> None:
    middle = paper(*([*body(n)[:2], "same", *body(n)[2:]] for n in (1, 2, 3)))
    assert kept(middle)[1] == {}
    assert kept(paper(["same", *body(1)], ["same", *body(2)]))[1] == {}


def test_numbers_of_the_text_make_no_running_line() -> None:
    assert kept(paper(*([f"Total: {n * n}", *body(n)] for n in (1, 2, 3, 4))))[1] == {}
    chapters = [[Line(f"Chapter {n}", n, 18, 0, 800), *paper(body(n))[0]] for n in (1, 2, 3)]
    assert kept(chapters)[1] == {}


def test_a_sentence_that_holds_the_number_of_its_page_stays() -> None:
    pages = [[f"in {n} cases or", *body(n), f"Report {n}"] for n in (1, 2, 3)]
    texts, removed = kept(paper(*pages))
    assert removed == {"running_footer": 3}
    assert texts[1][0] == "in 2 cases or"


@pytest.mark.parametrize("form", ["{}", "- {} -", "Page {}", "page {} of 9", "{}/9", "第 {} 页"])
def test_numbers_that_grow_with_the_pages_go(form: str) -> None:
    texts, removed = kept(paper(*([*body(n), form.format(n + 4)] for n in (1, 2, 3))))
    assert removed == {"page_number": 3}
    assert texts == [body(1), body(2), body(3)]


def test_numbers_that_do_not_grow_stay() -> None:
    years = paper([*body(1), "1920"], [*body(2), "1850"], [*body(3), "2001"])
    assert kept(years)[1] == {}


@pytest.mark.parametrize(
    ("lines", "joined", "num_mended"),
    [
        (["the obser-", "vatory"], "the observatory", 1),
        (["the obser\u00ad", "Vatory"], "the obserVatory", 1),
        (["a well-", "known sight"], "a well-known sight", 0),
        (["Wexcombe-", "Harrow line"], "Wexcombe- Harrow line", 0),
        (["minus -", "five"], "minus - five", 0),
        (["天文", "台 open", "now"], "天文台 open now", 0),
    ],
)
def test_words_broken_at_line_ends_are_mended(
    lines: list[str], joined: str, num_mended: int
) -> None:
    removed: Counter[str] = Counter()
    hyphenated = compounds(["It is Well-Known, one-to-one."])
    assert join_lines(lines, hyphenated, removed) == joined
    assert removed["hyphenation"] == num_mended


def test_many_lines_are_joined_in_linear_time() -> None:
    text = join_lines(["word-", "word"] * 50_000, frozenset(), Counter())
    assert len(text) > 400_000


def test_long_lines_take_no_longer_than_short_ones() -> None:
    start = time.process_time()
    assert compounds(["a" * 500_000]) == frozenset()
    lines = [f"-{' ' * 500_000}x", f"1{' ' * 500_000}x"]
    assert kept(paper(lines))[0] == [lines]
    assert time.process_time() - start < 10
