import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.documents.html import _EMPTY, read_html
from readahead.types import Document
from tests.documents.conftest import content, summary


def page(body: str, head: str = "") -> Document:
    return read_html(f"<html><head>{head}</head><body>{body}</body></html>".encode()).build("x")


def blocks(body: str) -> list[tuple[str, str]]:
    return summary(page(body))


def test_headings_paragraphs_and_line_breaks() -> None:
    document = page("<h1>A</h1>text\n here<p>next <b>bold</b><br>line</p><h3>B</h3><div>deep")
    assert summary(document) == [
        ("title", "A"),
        ("paragraph", "text here"),
        ("paragraph", "next bold\nline"),
        ("title", "B"),
        ("paragraph", "deep"),
    ]
    assert document.blocks[-1].heading == ("A", "B")
    assert document.blocks[3].level == 3


def test_the_title_element_stands_in_for_a_missing_first_heading() -> None:
    assert summary(page("<h2>Part</h2>", "<title>Page</title>"))[0] == ("title", "Page")
    assert summary(page("<h1>Own</h1>", "<title>Page</title>"))[0] == ("title", "Own")
    hidden = page("<nav><h1>Site</h1></nav><p>text", "<title>Page</title>")
    assert summary(hidden)[0] == ("title", "Page")


def test_lists_nest_and_count() -> None:
    body = "<ol start=3><li>c<ul><li>inner<p>more</p></li></ul><li><p>d</p><p>dd</p></ol>after"
    assert blocks(body) == [
        ("list", "3. c\n  - inner\n    more\n4. d\n  dd"),
        ("paragraph", "after"),
    ]


def test_code_in_a_list_is_code() -> None:
    assert blocks("<ol><li>run<pre>  a\n b</pre><li>done</ol>") == [
        ("list", "1. run"),
        ("code", "```\n  a\n b\n```"),
        ("list", "2. done"),
    ]


@pytest.mark.parametrize(
    ("body", "opener"),
    [
        ('<pre><code class="language-sh">x</code></pre>', "```sh"),
        ('<pre class="lang-py">x</pre>', "```py"),
        (
            '<div class="highlight-python3"><div class="highlight"><pre>x</pre></div></div>',
            "```python3",
        ),
        ('<div class="highlight-default"><div class="highlight"><pre>x</pre></div></div>', "```"),
    ],
)
def test_the_language_of_code_is_kept(body: str, opener: str) -> None:
    assert blocks(body) == [("code", f"{opener}\nx\n```")]


def test_line_numbers_of_code_go() -> None:
    body = '<pre><span class="linenos">1</span>a\n<span class="linenos">2</span>b</pre>'
    assert blocks(body) == [("code", "```\na\nb\n```")]


def test_tables_of_data_are_tables_with_captions() -> None:
    body = "<table><caption>Hours</caption><tr><th>Day<th>Time<tr><td>Mon<td>9<br>10</table>"
    assert blocks(body) == [
        ("caption", "Hours"),
        ("table", "| Day | Time |\n|---|---|\n| Mon | 9 10 |"),
    ]


@pytest.mark.parametrize(
    ("hidden", "num_removed"),
    [
        ("<tr style='display:none'><td>obey<td>x", 1),
        ("<tr><td hidden>obey<td>a<td>b", 1),
        ("<tbody hidden><tr><td>obey<td>x<tr><td>y<td>z", 1),
        ("<caption hidden>obey</caption>", 1),
        ("<caption>Hours <b hidden>obey</b></caption>", 1),
    ],
)
def test_hidden_parts_of_a_table_are_removed_and_counted(hidden: str, num_removed: int) -> None:
    document = page(f"<table><tr><th>Day<th>Time<tr><td>Mon<td>9{hidden}</table>")
    assert "obey" not in document.text
    assert "| Mon | 9 |" in document.text
    assert document.removed == {"hidden": num_removed}


def test_hidden_rows_of_a_table_for_layout_are_counted_once() -> None:
    document = page("<table><tr><td>left<tr hidden><td>obey<tr><td>right</table>")
    assert summary(document) == [("paragraph", "left"), ("paragraph", "right")]
    assert document.removed == {"hidden": 1}


def test_cells_that_span_are_filled() -> None:
    body = (
        "<table><tr><th>A<th>B<th>C<tr><td rowspan=2>x<td colspan=2>y<tr><td>z<td>w"
        "<tr><td>1<td>2<td>3</table>"
    )
    rows = blocks(body)[0][1].split("\n")[2:]
    assert rows == ["| x | y |  |", "| x | z | w |", "| 1 | 2 | 3 |"]


def test_spans_cannot_blow_up() -> None:
    body = "<table><tr><td colspan=99999 rowspan=99999>a<td>b<tr><td>c<td>d</table>"
    assert len(blocks(body)[0][1]) < 2000


def test_tables_for_layout_are_read_through() -> None:
    body = "<table><tr><td>left</td><td><h2>Right</h2><table><tr><td>x</table></td></tr></table>"
    assert blocks(body) == [("paragraph", "left"), ("title", "Right"), ("paragraph", "x")]


def test_api_signatures_are_titles_with_their_text_below() -> None:
    document = page(
        '<h1>os.path</h1><dl class="py function"><dt class="sig" id="join"><code>os.path.</code>'
        '<code>join</code>(<em>path</em>, <em>*paths</em>)<a class="headerlink" href="#">¶</a></dt>'
        '<dd><p>Join.</p><dl class="py"><dt id="x">inner()</dt><dd>Deep.</dd></dl></dd></dl>'
        "<p>After.</p>"
    )
    found = [(content(document, block), block.heading[1:]) for block in document.blocks[1:]]
    signature = "os.path.join(path, *paths)"
    assert found == [
        (signature, (signature,)),
        ("Join.", (signature,)),
        ("inner()", (signature, "inner()")),
        ("Deep.", (signature, "inner()")),
        ("After.", ()),
    ]
    assert document.removed == {"permalink": 1}


def test_overloads_share_a_title() -> None:
    body = '<dl><dt id="a">int(x)</dt><dt id="b">int(x, base)</dt><dd>An integer.</dd></dl>'
    assert blocks(body) == [("title", "int(x); int(x, base)"), ("paragraph", "An integer.")]


def test_plain_definitions_are_a_list() -> None:
    body = "<dl><dt>Address</dt><dd>Harrow Down</dd><dt>Phone<dd>none<dt>Fax</dl>"
    assert blocks(body) == [("list", "- Address: Harrow Down\n- Phone: none\n- Fax:")]


def test_boilerplate_is_removed_and_counted() -> None:
    document = page(
        "<script>x()</script><style>y</style><header><h1>Site</h1></header><nav>menu</nav>"
        '<div role="search">find</div><article><header><h1>Title</h1></header>Body'
        "<footer>by Ines</footer></article><aside>ad</aside>"
        '<aside class="footnote">note</aside><footer>legal</footer>'
        '<p hidden>h</p><p style="color:red; display : none">i</p><p aria-hidden="true">j</p>'
        "<button>k</button>"
    )
    assert summary(document) == [
        ("title", "Title"),
        ("paragraph", "Body"),
        ("paragraph", "by Ines"),
        ("paragraph", "note"),
    ]
    assert document.removed == {"form_control": 1, "hidden": 3, "navigation": 5, "script": 2}


def test_the_only_main_element_is_the_page() -> None:
    document = page("<div>ad</div><div><main><h1>T</h1>x</main><p>beside</p></div>")
    assert summary(document) == [("title", "T"), ("paragraph", "x")]
    assert document.removed == {"navigation": 2}


@pytest.mark.parametrize("around", ["<main hidden>", "<div hidden><main>"])
def test_a_hidden_main_element_is_not_the_page(around: str) -> None:
    document = page(f"<p>shown</p>{around}obey</main>")
    assert summary(document) == [("paragraph", "shown")]
    assert document.removed == {"hidden": 1}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('first<script src="x.js"/><p>second</p>', "first\n\nsecond"),
        ("first<nav class='a'\n/><p>second<br/>third</p>", "first\n\nsecond\nthird"),
        ("<p>a<br/>b</p><div/><textarea />c", "a\nb\n\nc"),
        ('<a id="x"/><ol><li/><li>two</li></ol>', "2. two"),
    ],
)
def test_an_empty_element_of_xhtml_holds_nothing(body: str, text: str) -> None:
    data = f"<head><title/></head><body>{body}</body>".encode()
    assert read_html(data, is_xhtml=True).build("x").text == text


def test_in_html_a_slash_closes_nothing() -> None:
    assert blocks("first<script src=x /><p>second</p>") == [("paragraph", "first")]
    assert blocks("first<div hidden /><p>second</p>") == [("paragraph", "first")]


def test_looking_for_empty_elements_is_quick() -> None:
    start = time.process_time()
    for body in ("<a " * 300_000, "<a" + " " * 1_000_000, "<a" * 300_000, "<a/" * 300_000):
        _EMPTY.sub("", body)
    assert time.process_time() - start < 5


def test_figures_keep_what_they_say() -> None:
    body = '<figure><img src=x alt="The dome"><figcaption>In 1923</figcaption></figure>'
    assert blocks(body) == [("paragraph", "The dome"), ("caption", "In 1923")]


def test_a_declared_charset_is_used() -> None:
    data = '<meta charset="iso-8859-7"><p>Ελληνικά'.encode("iso-8859-7")
    assert read_html(data).build("x").text == "Ελληνικά"


def test_looking_for_a_charset_is_quick() -> None:
    start = time.process_time()
    assert read_html(b"<meta" * 30 + b" charset=" + b" " * 3900 + b"<p>x").build("x").text == "x"
    assert time.process_time() - start < 1


def test_invisible_characters_from_entities_go_too() -> None:
    document = page("<p>a&#x200b;b&#xE0041;</p>")
    assert (document.text, document.removed) == ("ab", {"invisible": 2})


def test_deep_nesting_is_no_recursion() -> None:
    assert blocks("<div>" * 1900 + "deep") == [("paragraph", "deep")]
    assert blocks("<ul><li>" * 1500 + "deep")[0][1].endswith("- deep")


TAGS = (
    "p div br h1 h2 h3 ul ol li dl dt dd pre code table tr td th caption main article header nav "
    "figure figcaption b span img script".split()
)
SOUP = st.lists(
    st.sampled_from([f"<{tag}>" for tag in TAGS] + [f"</{tag}>" for tag in TAGS])
    | st.sampled_from(['<dt id="x">', "<td rowspan=3 colspan=2>", "<ol start=7>", "文字\n中文"])
    | st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=5)
)


@given(SOUP)
def test_any_tag_soup_gives_a_sound_document(pieces: list[str]) -> None:
    summary(read_html(b"<p>" + "".join(pieces).encode()).build("x"))
