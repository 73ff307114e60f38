from readahead.documents.blocks import TextBuilder
from readahead.documents.layout import Table, add_print
from readahead.documents.printed import Line
from tests.documents.conftest import summary


def printed(*pages: list[Line], tables: list[Table] | None = None) -> list[tuple[str, str]]:
    builder = TextBuilder()
    add_print(builder, pages, tables or [])
    return summary(builder.build("x"))


def body(*texts: str, top: float = 700, page: int = 1, x: float = 50) -> list[Line]:
    """Lines 12 points apart."""
    return [Line(text, page, 10, x, top - 12 * row) for row, text in enumerate(texts)]


def test_a_gap_separates_paragraphs() -> None:
    assert printed([*body("one", "two"), *body("three", top=660)]) == [
        ("paragraph", "one two"),
        ("paragraph", "three"),
    ]


def test_an_indent_separates_paragraphs() -> None:
    lines = [*body("one", "two"), *body("three", top=676, x=62), *body("four", top=664)]
    assert printed(lines) == [("paragraph", "one two"), ("paragraph", "three four")]


def test_size_makes_titles_with_levels() -> None:
    large = Line("Part one", 1, 18, 50, 760)
    lower = [Line("A long", 1, 14, 50, 735), Line("chapter", 1, 14, 50, 718)]
    number = Line("42 %", 1, 24, 50, 780)
    assert printed([number, large, *lower, *body("text " * 20)])[1:] == [
        ("title", "Part one"),
        ("title", "A long chapter"),
        ("paragraph", ("text " * 20).strip()),
    ]


def test_a_sentence_goes_on_across_pages_and_columns() -> None:
    first = body("It goes", "on", top=100)
    assert printed(first, body("and ends.", "Here", page=2), body("New.", page=3)) == [
        ("paragraph", "It goes on and ends. Here"),
        ("paragraph", "New."),
    ]
    column = body("in the next column", top=700, x=300)
    assert printed([*first, *column]) == [("paragraph", "It goes on in the next column")]


def test_bullets_make_one_list() -> None:
    lines = [*body("Bring:", "• warm clothes"), *body("for the night", top=676, x=60)]
    assert printed([*lines, *body("• a torch", top=664), *body("After", top=630)]) == [
        ("paragraph", "Bring:"),
        ("list", "• warm clothes for the night\n• a torch"),
        ("paragraph", "After"),
    ]


def test_captions_are_told_by_their_words() -> None:
    assert printed(body("Table 3: Visitors"))[0][0] == "caption"
    assert printed(body("图 2 圆顶"))[0][0] == "caption"
    assert printed(body("Tables are useful"))[0][0] == "paragraph"


def test_a_table_takes_the_place_of_its_lines() -> None:
    lines = body("before", "Day Time", "Mon 9", "after")
    table = Table([["Day", "Time"], ["Mon", "9"]], 1, 40, 670, 200, 695)
    assert printed(lines, tables=[table]) == [
        ("paragraph", "before"),
        ("table", "| Day | Time |\n|---|---|\n| Mon | 9 |"),
        ("paragraph", "after"),
    ]


def test_a_table_of_which_no_line_is_found_is_left_out() -> None:
    table = Table([["Day", "Time"], ["Mon", "9"]], 2, 0, 0, 1000, 1000)
    assert printed(body("text"), tables=[table]) == [("paragraph", "text")]
