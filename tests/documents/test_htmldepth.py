import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser, LexborNode

from readahead.documents.html import read_html
from readahead.documents.htmldepth import MAX_DEPTH, check_depth
from readahead.errors import DocumentError

NAMES = (
    "a abbr address article b big blockquote body button caption center code dd details div dl dt "
    "em fieldset figure font footer form frameset g h1 h2 head header hgroup html i iframe label "
    "legend li main map marquee math menu nav nobr noscript object ol optgroup option p path pre q "
    "rp rt ruby s section select small span strike strong sub summary svg table tbody td template "
    "textarea th thead title tr tt u ul video x-y xmp"
).split()
PATH = "<path d='M0 0'/>"


def tree_depth(source: str) -> int:
    """Return how deep the elements of a page really nest."""
    root = LexborHTMLParser(source).root
    assert root is not None
    stack: list[Iterator[LexborNode]] = [root.iter()]
    deepest = 0
    while stack:
        deepest = max(deepest, len(stack))
        node = next(stack[-1], None)
        if node is None:
            stack.pop()
        else:
            stack.append(node.iter())
    return deepest


def is_taken(source: str) -> bool:
    with suppress(DocumentError):
        check_depth(source)
        return True
    return False


def test_the_bound_is_told() -> None:
    check_depth("<div>" * MAX_DEPTH + "</div>" * MAX_DEPTH + "<div>" * MAX_DEPTH)
    for source in ("<div>" * (MAX_DEPTH + 1), "<DIV\nclass='<div>'><b>" * MAX_DEPTH):
        with pytest.raises(DocumentError, match="nested more than 2,000 deep"):
            read_html(source.encode())


@pytest.mark.parametrize(
    "unit",
    [
        "<p>one<br>two",
        "<ul><li>one<li>two</ul>",
        "<dl><dt>a<dd>b</dl>",
        "<table><tr><td>a<td>b<tr><td>c</table>",
        "<a name=x>here",
        "<select><option>a<option>b</select>",
        "<ruby>水<rt>みず</ruby>",
        f"<svg><g>{PATH * 3}</g></svg>",
        "<b><i>misnested</b></i>",
        "<div><p><span>text</span></div>",
        "<script>for(;i<n;)a<b.c&&f('<p>')</script>",
        "1 < 2, a <b",
    ],
)
def test_a_long_page_is_not_a_deep_one(unit: str) -> None:
    check_depth(unit * (MAX_DEPTH + 1) if unit != "1 < 2, a <b" else unit)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_nests_is_counted(name: str) -> None:
    for unit in (f"<{name}>", f"<{name} class=x>text</p>", f"<{name}></br>"):
        source = unit * 4 * MAX_DEPTH
        assert not is_taken(source) or tree_depth(source) < MAX_DEPTH + 10


TAGS = st.sampled_from([tag for name in NAMES for tag in (f"<{name}>", f"<{name}>", f"</{name}>")])


@settings(max_examples=10, deadline=None)
@example(["<span>", "<div>", "</span>"])
@example(["<b>", "<b>", "<div>", "</b>", "</b>"])
@given(st.lists(TAGS, min_size=1, max_size=6))
def test_no_page_that_is_taken_is_much_deeper(unit: list[str]) -> None:
    source = "".join(unit * (12 * MAX_DEPTH // len(unit)))
    assert not is_taken(source) or tree_depth(source) < 6 * MAX_DEPTH


def test_the_time_grows_with_the_length_not_with_its_square() -> None:
    def seconds(source: bytes) -> float:
        begun_s = time.process_time()
        with suppress(DocumentError):
            read_html(source)
        return time.process_time() - begun_s

    deep = b"<div>" * (MAX_DEPTH - 1) + b"x" + b"</div>" * (MAX_DEPTH - 1)
    for once, twice in ((deep * 8, deep * 16), (b"<div>" * 50_000, b"<div>" * 100_000)):
        assert min(seconds(twice) for _ in range(3)) < 3 * max(
            min(seconds(once) for _ in range(3)), 0.02
        )
