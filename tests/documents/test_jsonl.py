import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.documents.jsonl import read_jsonl
from readahead.errors import DocumentError
from tests.documents.conftest import summary


def lines(*records: object) -> bytes:
    return "\n".join(json.dumps(record) for record in records).encode()


def test_every_line_is_a_document() -> None:
    data = lines({"text": "One.\n\nTwo.", "title": "T", "id": 7, "metadata": {"year": 2025}})
    first, second = read_jsonl(data + b"\n\n" + lines({"text": "Three."}), "log.jsonl")
    assert (first.name, second.name) == ("log.jsonl#id=7", "log.jsonl#3")
    assert summary(first) == [("title", "T"), ("paragraph", "One."), ("paragraph", "Two.")]
    assert first.metadata == {"id": 7, "year": 2025}
    assert second.metadata == {}


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        (["A-1", 1, "a b\u200b\n c"], ["id=A-1", "id=1", "id=a b c"]),
        ([1, "1", 2], ["1", "2", "id=2"]),  # which one is meant?
        ([None, "", " ", 1.5, True, [1], "x" * 201], ["1", "2", "3", "4", "5", "6", "7"]),
    ],
)
def test_a_document_has_the_name_of_its_record(ids: list[object], names: list[str]) -> None:
    documents = read_jsonl(lines(*({"text": "a", "id": id} for id in ids)), "x")
    assert [document.name for document in documents] == [f"x#{name}" for name in names]


def test_line_separators_inside_a_string_do_not_end_the_line() -> None:
    (document,) = read_jsonl('{"text": "a\u2028b"}'.encode(), "x")
    assert document.text == "a\nb"


def test_lone_surrogates_are_replaced_everywhere() -> None:
    data = rb'{"text": "a\ud800b", "title": "\udfff", "metadata": {"k\ud800": ["\ud800"]}}'
    (document,) = read_jsonl(data, "x")
    assert document.text == "\ufffd\n\na\ufffdb"
    assert document.metadata == {"k\ufffd": ["\ufffd"]}
    assert document.removed["surrogate"] == 4
    document.text.encode()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", r"line 2: not JSON \(Expecting"),
        ("[1]", "line 2: not a JSON object"),
        ("{}", 'line 2: "text" is missing or empty'),
        ('{"text": " "}', 'line 2: "text" is missing or empty'),
        ('{"text": 3}', 'line 2: "text" is missing or empty'),
        ('{"text": "\u200b"}', 'line 2: "text" holds nothing visible'),
        ('{"text": "a", "title": 1}', 'line 2: "title" is not a string'),
        ('{"text": "a", "metadata": []}', 'line 2: "metadata" is not an object'),
        ('{"text": "a", "metadata": {"x": NaN}}', "line 2: NaN is not a JSON value"),
        ('{"text": "a", "metadata": {"x": [-1e999]}}', "line 2: -1e999 is too large a number"),
        ('{"text": "a", "metadata": {"x": ' + "[" * 40 + "]" * 40 + "}}", "more than 32 deep"),
        ('{"x": ' + "[" * 10**5, "line 2: nested too deeply"),
        ('{"text": "a", "id": ' + "1" * 5000 + "}", "line 2: .*digits"),
    ],
)
def test_one_bad_line_fails_the_file_by_its_number(line: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        read_jsonl(lines({"text": "good"}) + b"\n" + line.encode(), "x")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.text(min_size=1).filter(str.strip), st.dictionaries(st.text(), JSON))
def test_any_json_gives_documents_or_a_reason(text: str, metadata: Mapping[str, object]) -> None:
    try:
        (document,) = read_jsonl(lines({"text": text, "metadata": metadata}), "x")
    except DocumentError as error:
        assert error.message.startswith("line 1: ")
    else:
        summary(document)
