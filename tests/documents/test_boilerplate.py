from collections import Counter

import pytest
from selectolax.lexbor import LexborHTMLParser

from readahead.documents.boilerplate import boilerplate, count_beside, is_shown


@pytest.mark.parametrize(
    ("markup", "kind"),
    [
        ("<p>", None),
        ("<script>", "script"),
        ("<nav>", "navigation"),
        ('<div class="sphinxsidebar">', "navigation"),
        ('<div class="x related y">', "navigation"),
        ('<div class="relatedness">', None),
        ('<div role="contentinfo">', "navigation"),
        ('<div role="main">', None),
        ('<aside class="topic">', None),
        ("<aside>", "navigation"),
        ('<a class="headerlink">', "permalink"),
        ('<p style="visibility:hidden">', "hidden"),
        ('<p style="visibility : Collapse">', "hidden"),
        ('<p style="display:/**/none">', "hidden"),
        ('<p style="display:/* ; */ none /* open">', "hidden"),
        ('<p style="color:red;font-size:0">', "hidden"),
        ('<p style="font-size: 0.0px !important">', "hidden"),
        ('<p style="opacity:.0">', "hidden"),
        ('<p style="display:block">', None),
        ('<p style="/* display:none */">', None),
        ('<p style="font-size:0.8em; opacity:0.05">', None),
        ('<p style="fill-opacity:0">', None),
        ('<p aria-hidden="false">', None),
        ("<button>", "form_control"),
    ],
)
def test_elements_are_judged_by_tag_role_class_and_style(markup: str, kind: str | None) -> None:
    body = LexborHTMLParser(f"<body>{markup}").body
    assert body is not None
    node = next(body.iter())
    assert boilerplate(node, node.tag or "") == kind


def test_an_element_inside_boilerplate_is_not_shown() -> None:
    tree = LexborHTMLParser("<nav><p id=in></nav><p id=out>")
    inside, outside = tree.css_first("#in"), tree.css_first("#out")
    assert inside and outside
    assert not is_shown(inside)
    assert is_shown(outside)


def test_what_stands_beside_main_is_counted_at_every_depth() -> None:
    tree = LexborHTMLParser("<nav></nav><div><script></script><main></main><p></p></div>")
    main = tree.css_first("main")
    removed: Counter[str] = Counter()
    assert main
    count_beside(main, removed)
    assert removed == {"navigation": 2, "script": 1}
