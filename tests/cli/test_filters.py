from pathlib import Path

import pytest

from readahead.cli.filters import document_names, search_filter
from readahead.errors import InputError, NotFound
from readahead.retrieval.base import Filter
from readahead.retrieval.store import Store
from tests.retrieval.support import add, document, source

NAMES = ["3", "docs/a.md", "docs/deep/b.md", "docs.md", "rows.jsonl#1", "rows.jsonl#2"]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "kb")
    for name in ("docs/a.md", "docs/deep/b.md", "docs.md", "3"):
        add(store, source(name, document(name, f"Text of {name}.")))
    rows = [document(f"rows.jsonl#{n}", f"Row {n}.") for n in (1, 2)]
    add(store, source("rows.jsonl", *rows))
    return store


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("docs/a.md", ["docs/a.md"]),
        ("./docs//a.md", ["docs/a.md"]),
        ("rows.jsonl", ["rows.jsonl#1", "rows.jsonl#2"]),
        ("rows.jsonl#2", ["rows.jsonl#2"]),
        ("docs", ["docs/a.md", "docs/deep/b.md"]),
        ("./docs/", ["docs/a.md", "docs/deep/b.md"]),
        ("docs/deep", ["docs/deep/b.md"]),
        ("1", ["docs/a.md"]),
        ("3", ["3"]),  # a name comes before an id
    ],
)
def test_documents_are_meant_by_name_file_folder_or_id(
    store: Store, given: str, names: list[str]
) -> None:
    assert document_names(store, [given]) == names


def test_an_id_that_is_a_folder_too_is_asked_about(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "kb")
    for name in ("a.md", "1/b.md", "1/c.md"):
        add(store, source(name, document(name, f"Text of {name}.")))
    with pytest.raises(InputError, match=r"'1' is the id of 'a\.md', and a folder of 2 documents"):
        document_names(store, ["1"])
    assert document_names(store, ["1/"]) == document_names(store, ["./1"]) == ["1/b.md", "1/c.md"]
    assert document_names(store, ["2"]) == ["1/b.md"]


def test_a_name_without_its_folder_is_guessed_at(store: Store) -> None:
    with pytest.raises(NotFound, match=r"no document 'b\.md'\. Did you mean 'docs/deep/b\.md'\?"):
        document_names(store, ["b.md"])


def test_the_current_folder_means_what_was_added_from_it(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "kb")
    for name in ("a.md", "docs/a.md", "../b.md", "/c.md", "-"):
        add(store, source(name, document(name, f"Text of {name}.")))
    assert document_names(store, ["."]) == document_names(store, ["./"]) == ["a.md", "docs/a.md"]
    assert document_names(store, [".."]) == ["../b.md"]


def test_each_document_is_named_once(store: Store) -> None:
    names = document_names(store, ["rows.jsonl#2", "rows.jsonl", "docs", "1", "3", "docs.md"])
    assert sorted(names) == sorted(NAMES)


@pytest.mark.parametrize("given", ["", "..", "/", "doc", "a.md", "99", "rows", "\udcff"])
def test_what_means_no_document_is_an_error(store: Store, given: str) -> None:
    with pytest.raises(NotFound, match="There is no document"):
        document_names(store, ["3", given])


def test_options_become_a_filter(store: Store) -> None:
    assert search_filter(store, None, None, []) is None
    chosen = search_filter(
        store, ["rows.jsonl"], ["table", "code"], ["year=2024", "draft=true", "by=a=b", "n=x"]
    )
    assert chosen == Filter(
        documents=("rows.jsonl#1", "rows.jsonl#2"),
        kinds=("table", "code"),
        metadata={"year": 2024, "draft": True, "by": "a=b", "n": "x"},
    )


def test_a_condition_of_any_depth_is_a_value(store: Store) -> None:
    deep = "[" * 100_000
    assert search_filter(store, None, None, [f"a={deep}"]) == Filter(metadata={"a": deep})


@pytest.mark.parametrize("condition", ["year", "=2024", ""])
def test_a_condition_has_a_key_and_a_value(store: Store, condition: str) -> None:
    with pytest.raises(InputError, match="is not KEY=VALUE"):
        search_filter(store, None, None, [condition])
