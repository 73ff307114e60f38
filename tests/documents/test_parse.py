import time

import pytest
from docx.document import Document as WordDocument
from hypothesis import given
from hypothesis import strategies as st

from readahead.documents.parse import parse
from readahead.errors import DocumentError
from readahead.types import Document
from tests.documents.conftest import print_pages, save_docx, summary

LIMIT = 2**24


def parsed(data: bytes, name: str) -> list[Document]:
    return parse(data, name, max_unpacked_bytes=LIMIT)


def kinds(data: bytes, name: str) -> list[str]:
    return [kind for document in parsed(data, name) for kind, _ in summary(document)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.md", ["title"]),
        ("a.MARKDOWN", ["title"]),
        ("a.txt", ["paragraph"]),
        ("README", ["paragraph"]),
        ("a.py", ["paragraph"]),
        ("-", ["paragraph"]),
    ],
)
def test_the_extension_decides(name: str, expected: list[str]) -> None:
    assert kinds(b"# Title", name) == expected


@pytest.mark.parametrize("name", ["-", "file", "page.asp"])
def test_an_unknown_extension_leaves_it_to_the_content(name: str, word: WordDocument) -> None:
    word.add_heading("H", 1)
    assert kinds(b"\n<!DOCTYPE html><h1>H</h1>", name) == ["title"]
    assert kinds(b'<?xml version="1.0"?><html><h1>H</h1></html>', name) == ["title"]
    assert kinds(b'{"text": "a", "title": "T"}\n{"text": "b"}', name) == [
        "title",
        "paragraph",
        "paragraph",
    ]
    assert kinds(save_docx(word), name) == ["title"]
    assert "paragraph" in kinds(print_pages([["text"]]), name)


@pytest.mark.parametrize(
    ("start", "name", "num_blocks"),
    [
        (b"", "a.xhtml", 2),
        (b'<?xml version="1.0"?>', "-", 2),
        (b'<?xml version="1.0"?>', "a.html", 1),
    ],
)
def test_xhtml_is_read_by_its_own_rules(start: bytes, name: str, num_blocks: int) -> None:
    data = start + b'<html><body>one<script src="x"/><p>two</p></body></html>'
    assert len(kinds(data, name)) == num_blocks


def test_comments_do_not_slow_the_choice_of_a_reader() -> None:
    start = time.process_time()
    assert kinds(b"<!-- c -->\n" * 60 + b"<h1>H</h1>", "page.asp") == ["paragraph"]
    assert kinds(b"<!-- c ->-->\n<!---->" * 40 + b"<html><h1>H</h1>", "page.asp") == ["title"]
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("data", "name", "reason"),
    [
        (b"", "a.txt", "empty"),
        (b" \n\t", "a.pdf", "empty"),
        (b"\xef\xbb\xbf", "a.md", "no text"),
        ("\u200b\u200b".encode(), "a.txt", "no text"),
        (b"<script>x</script>", "a.html", "no text"),
        (bytes(range(256)) * 8, "a.txt", "not text: binary data"),
        (b"> " * 5000 + b"x", "a.md", "nested too deeply"),
        (b"{", "a.jsonl", "line 1: not JSON"),
        (b"hello", "a.pdf", "not readable as pdf"),
    ],
)
def test_what_cannot_be_read_has_a_reason(data: bytes, name: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason) as caught:
        parsed(data, name)
    assert "\n" not in caught.value.message


@given(st.binary(max_size=300), st.sampled_from(["md", "html", "txt", "jsonl", "docx", "pdf", "?"]))
def test_any_bytes_give_documents_or_a_reason(data: bytes, suffix: str) -> None:
    try:
        for document in parsed(data, f"x.{suffix}"):
            summary(document)
    except DocumentError as error:
        assert error.message
