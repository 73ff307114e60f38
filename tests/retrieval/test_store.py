import json
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import numpy as np
import pytest

from readahead.errors import BackendError, EmbedderMismatch, InputError, NotFound, StoreError
from readahead.retrieval.base import Filter
from readahead.retrieval.content import content_hash
from readahead.retrieval.records import NewDocument, NewSource
from readahead.retrieval.store import FILE_NAME, Store
from readahead.types import Document, Passage
from tests.retrieval.support import HashingEmbedder, add, add_texts, cut, document, found, source


def whole_folder(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def passage_ids(store: Store) -> list[str]:
    return [passage.id for passage in store.passages(store.live_ids())]


def test_a_document_comes_back_as_it_was_added(store: Store) -> None:
    original = Document(
        "手册.md",
        "标题😀\n\nOpens at nine.",
        document("x", "Opens at nine.", title="标题😀").blocks,
        removed={"bom": 1},
        metadata={"year": 2024, "tags": ["a", None], "": 1.5},
    )
    add(store, source("手册.md", original))
    assert store.document("手册.md") == original
    assert store.document("1") == original
    (info,) = store.documents()
    assert (info.name, info.version, info.num_chars) == ("手册.md", 1, len(original.text))
    assert info.removed == {"bom": 1}


def test_documents_come_page_by_page_the_newest_first(store: Store) -> None:
    add_texts(store, None, **{"Élan.md": "a", "b.md": "b", "B2.md": "b", "c.md": "c"})
    pages = [store.document_page(3), store.document_page(3, after=2)]
    assert [[info.id for info in page] for page in pages] == [[4, 3, 2], [1]]
    store.remove(["3"])
    assert [info.name for info in store.document_page(9, after=3)] == ["b.md", "Élan.md"]
    assert [info.name for info in store.document_page(9, query="ÉLAN")] == ["Élan.md"]
    assert [info.name for info in store.document_page(1, query="B", after=4)] == ["b.md"]
    assert store.document_page(9, query="\ud800") == []
    assert store.num_documents() == 3
    assert store.num_documents(but_sources=["b.md", "none"]) == 2


def test_an_id_can_be_told_from_a_name(store: Store) -> None:
    add_texts(store, None, **{"2": "Named two.", "b": "Second."})
    assert store.document("2").text == "Named two."
    assert store.document("2", by_id=True).text == "Second."
    with pytest.raises(NotFound):
        store.document("b", by_id=True)
    assert store.remove(["2"], by_id=True) == ["b"]
    with pytest.raises(NotFound):
        store.remove(["2"], by_id=True)


def test_passage_text_is_cut_by_code_points(store: Store) -> None:
    text = "😀𠀀 one\0two é\n\nthree"
    passage = Passage("d", text[3:9], 3, 9)
    store.replace([NewSource("d", "1", [NewDocument(Document("d", text), [passage])])])
    assert store.passage("1.1.0").text == text[3:9] == "one\0tw"


def test_lone_surrogates_are_replaced_and_offsets_hold(store: Store) -> None:
    add(store, source("d\ud800", document("d\ud800", "a \udfff b", key="\ud800")))
    stored = store.document("d\ud800")
    assert (stored.name, stored.text) == ("d\ufffd", "a \ufffd b")
    assert stored.metadata == {"key": "\ufffd"}
    assert store.is_unchanged("d\ud800", source("", document("d\ud800", "")).sha256) is False


def test_adding_the_same_twice_changes_nothing(store: Store) -> None:
    add_texts(store, a="One text.")
    before, ids = store.generation(), passage_ids(store)
    report = add_texts(store, a="One text.")
    assert (report.added, report.unchanged, report.passages) == (0, 1, 0)
    assert (store.generation(), passage_ids(store)) == (before, ids)


def test_a_changed_source_replaces_its_passages_at_once(
    store: Store, embedder: HashingEmbedder
) -> None:
    add(store, source("r", document("r#1", "Alpha kept."), document("r#2", "Beta goes.")))
    add(store, source("r", document("r#1", "Alpha kept."), document("r#3", "Gamma comes.")))
    assert [info.name for info in store.documents()] == ["r#1", "r#3"]
    assert passage_ids(store) == ["1.1.0", "3.1.0"]
    assert found(store, "alpha beta gamma") == ["r#1", "r#3"]


def test_passages_of_an_earlier_version_still_resolve(store: Store) -> None:
    add_texts(store, a="The old wording.")
    add_texts(store, a="The new wording.")
    assert store.passage("1.1.0").text == "The old wording."
    assert store.passage("1.2.0").text == "The new wording."
    assert found(store, "old") == []
    assert store.documents()[0].version == 2


def test_live_versions_are_those_that_passages_found_have(store: Store) -> None:
    add_texts(store, a="The old wording.", b="Other.")
    add_texts(store, a="The new wording.")
    assert store.live_versions() == {"1.2", "2.1"}
    assert {id.rpartition(".")[0] for id in passage_ids(store)} == store.live_versions()
    store.remove(["b"])
    assert store.live_versions() == {"1.2"}


def test_a_name_added_again_after_removal_gets_new_ids(store: Store) -> None:
    add_texts(store, a="First.", b="Other.")
    store.remove(["b"])
    add_texts(store, b="Other.")
    assert passage_ids(store) == ["1.1.0", "3.1.0"]
    with pytest.raises(NotFound, match="2.1.0"):
        store.passage("2.1.0")


def test_removed_text_is_gone_from_every_file(store: Store, embedder: HashingEmbedder) -> None:
    add_texts(store, embedder, a="The xylophonist zigzagged.", b="Another text.")
    add_texts(store, embedder, a="The yodeller came instead.")
    found(store, "yodeller", embedder)
    (vector,) = embedder.embed_passages(["The yodeller came instead."])
    assert vector.tobytes() in whole_folder(store.folder)
    assert store.remove(["a"]) == ["a"]
    rest = whole_folder(store.folder)
    for secret in (b"xylophonist", b"zigzag", b"yodeller", vector.tobytes()):
        assert secret not in rest
    assert b"Another text." in rest
    assert store.check() == []


def test_the_text_of_a_dropped_record_is_gone_from_every_file(
    store: Store, embedder: HashingEmbedder
) -> None:
    kept = document("r#1", "Another text.")
    dropped = document("r#2", "The xylophonist zigzagged.")
    add(store, source("r", kept, dropped), embedder=embedder)
    found(store, "xylophonist", embedder)
    (vector,) = embedder.embed_passages(["The xylophonist zigzagged."])
    assert vector.tobytes() in whole_folder(store.folder)
    add(store, source("r", kept), embedder=embedder)
    rest = whole_folder(store.folder)
    for secret in (b"xylophonist", b"zigzag", vector.tobytes()):
        assert secret not in rest
    assert store.check() == []


def test_a_record_that_a_file_no_longer_holds_is_gone_wherever_it_stood(store: Store) -> None:
    secret = document("r#1", "The xylophonist zigzagged.")
    add(store, source("r", secret, document("r#2", "Opens at nine."), document("r#3", "Fog.")))
    store.add_trace({"id": "t", "attributes": {"passages": [{"id": "1.1.0"}]}}, keep=9)
    store.add_trace({"id": "u", "attributes": {"passages": [{"id": "3.1.0"}]}}, keep=9)
    report = add(store, source("r", document("r#1", "Opens at ten."), document("r#2", "Fog.")))
    assert (report.replaced, report.passages) == (1, 1)
    assert [(info.name, info.id, info.version) for info in store.documents()] == [
        ("r#1", 4, 1),
        ("r#2", 3, 1),
    ]
    assert [trace["id"] for trace in store.traces()] == ["u"]
    assert b"xylophonist" not in whole_folder(store.folder)
    assert store.check() == []


def test_records_keep_their_ids_when_one_is_inserted_above(store: Store) -> None:
    texts = ["Opens at nine.", "Fog closes the road.", "Dogs wait outside."]
    add(store, source("r", *(document(f"r#{at}", text) for at, text in enumerate(texts, 1))))
    texts.insert(0, "Read this first.")
    new = source("r", *(document(f"r#{at}", text) for at, text in enumerate(texts, 1)))
    assert add(store, new).passages == 1
    assert [(info.id, info.name) for info in store.documents()] == [
        (4, "r#1"),
        (1, "r#2"),
        (2, "r#3"),
        (3, "r#4"),
    ]
    assert found(store, "fog") == ["r#3"]
    assert store.check() == []


def test_a_record_may_change_in_its_place(store: Store) -> None:
    add(store, source("r", document("r#1", "Opens at nine."), document("r#2", "Fog.")))
    add(store, source("r", document("r#1", "Opens at ten."), document("r#2", "Fog.")))
    assert store.passage("1.1.0").text == "Opens at nine."
    assert store.documents()[0].version == 2


def test_remove_takes_names_of_sources_and_ids(store: Store) -> None:
    add(store, source("r", document("r#1", "One."), document("r#2", "Two.")))
    add_texts(store, a="Three.")
    assert store.remove(["3"]) == ["a"]
    assert store.remove(["r"]) == ["r#1", "r#2"]
    assert store.documents() == []


def test_removing_an_unknown_name_removes_nothing(store: Store) -> None:
    add_texts(store, a="One.")
    with pytest.raises(NotFound, match="'b'"):
        store.remove(["a", "b"])
    assert [info.name for info in store.documents()] == ["a"]


def test_a_record_removed_by_hand_comes_back_with_its_source(store: Store) -> None:
    records = source("r", document("r#1", "One."), document("r#2", "Two."))
    add(store, records)
    store.remove(["r#1"])
    assert add(store, records).replaced == 1
    assert [info.name for info in store.documents()] == ["r#1", "r#2"]


def test_a_name_belongs_to_one_source(store: Store) -> None:
    add(store, source("a", document("x", "One.")))
    two = NewSource("b", "1", [NewDocument(document("x", "Two."), cut(document("x", "Two.")))])
    with pytest.raises(InputError, match="'x' was already added from 'a'"):
        store.replace([two])
    assert [info.source for info in store.documents()] == ["a"]


def test_a_source_of_several_documents_is_no_document(store: Store) -> None:
    add(store, source("r", document("r#1", "One."), document("r#2", "Two.")))
    with pytest.raises(NotFound, match="holds 2 documents"):
        store.document("r")


@pytest.mark.parametrize("id", ["", "1", "1.1", "1.1.9", "x.y.z", "1.1.0.0", "9" * 99, "\ud800"])
def test_an_unknown_passage_is_not_found(store: Store, id: str) -> None:
    add_texts(store, a="One.")
    with pytest.raises(NotFound):
        store.passage(id)


# Embedders


def test_another_embedder_is_refused(store: Store, embedder: HashingEmbedder) -> None:
    add_texts(store, embedder, a="One.")
    for other in (HashingEmbedder("other"), HashingEmbedder(dim=16)):
        with pytest.raises(EmbedderMismatch, match=r"hashing@1 .*32.* not with .*reembed"):
            add_texts(store, other, b="Two.")
    assert [info.name for info in store.documents()] == ["a"]


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 0.0])
def test_vectors_that_cannot_be_searched_are_refused(
    store: Store, embedder: HashingEmbedder, wrong: float
) -> None:
    text = document("d", "One.")
    (passage,) = cut(text)
    vector = np.full(embedder.dim, wrong, dtype=np.float32)
    new = NewSource("d", "1", [NewDocument(text, [passage])])
    with pytest.raises(BackendError, match="finite and not zero"):
        store.replace([new], embedder, {content_hash(passage): vector})
    assert store.documents() == []


def test_vectors_of_a_wrong_size_are_refused(store: Store, embedder: HashingEmbedder) -> None:
    text = document("d", "One.")
    (passage,) = cut(text)
    new = NewSource("d", "1", [NewDocument(text, [passage])])
    with pytest.raises(BackendError, match=r"of shape \(32,\)"):
        store.replace([new], embedder, {content_hash(passage): np.ones(31, dtype=np.float32)})


# Filters


def test_filters_hold_for_the_live_passages(store: Store) -> None:
    add(store, source("a", document("a", "One.", year=1, tag="x")))
    add(store, source("b", document("b", "Two.", year="1", tag="x")))
    add(store, source("c", document("c", "Three.", year=True)))

    def names(filter: Filter) -> list[str]:
        return [passage.document for passage in store.passages(store.live_ids(filter))]

    assert names(Filter()) == ["a", "b", "c"]
    assert names(Filter(documents=("a", "c", "\ud800"))) == ["a", "c"]
    assert names(Filter(kinds=("code",))) == []
    assert names(Filter(metadata={"year": 1})) == ["a"]
    assert names(Filter(metadata={"year": True})) == ["c"]
    assert names(Filter(metadata={"tag": "x", "year": "1"})) == ["b"]
    assert names(Filter(metadata={"\ud800": 1})) == []


# Traces


def test_only_the_last_traces_are_kept(store: Store) -> None:
    for number in range(5):
        store.add_trace({"id": f"t{number}", "text": "\ud800"}, keep=3)
    assert [trace["id"] for trace in store.traces()] == ["t4", "t3", "t2"]
    assert store.trace("t3")["text"] == "\ufffd"
    with pytest.raises(NotFound, match="'t1'"):
        store.trace("t1")


# Opening and health


def test_no_knowledge_base_is_made_when_not_asked_for(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no knowledge base"):
        Store.open(tmp_path / "kb", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be made"):
        Store.open(tmp_path / "file" / "kb")


def test_another_schema_is_refused(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    apsw.Connection(str(tmp_path / FILE_NAME)).pragma("user_version", 99)
    with pytest.raises(StoreError, match="schema version 99"):
        Store.open(tmp_path)


@pytest.mark.parametrize("version", [0, 1])
def test_a_foreign_database_is_refused_and_left_alone(tmp_path: Path, version: int) -> None:
    file = tmp_path / FILE_NAME
    with apsw.Connection(str(file)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.pragma("user_version", version)
    connection.close()
    before = file.read_bytes()
    with pytest.raises(StoreError, match="database of another program"):
        Store.open(tmp_path)
    assert file.read_bytes() == before


def test_a_damaged_file_is_one_clear_error(store: Store) -> None:
    add_texts(store, a="One.")
    store.close()
    file = store.folder / FILE_NAME
    file.write_bytes(b"not a database, but long enough to be read as one" * 100)
    with pytest.raises(StoreError, match="is damaged"):
        Store.open(store.folder)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE documents SET name = CAST(x'61ff' AS TEXT)",
        "UPDATE versions SET text = CAST(x'ff6e652074657874' AS TEXT)",
        "UPDATE versions SET blocks = '[{'",
        "UPDATE versions SET blocks = '[{}]'",
        "UPDATE passages SET heading = 'x'",
        "UPDATE passages SET heading = '1'",
        "UPDATE vectors SET vector = x'00'",
        "UPDATE meta SET value = 'x' WHERE key = 'generation'",
    ],
)
def test_garbled_content_is_one_clear_error(
    store: Store, embedder: HashingEmbedder, damage: str
) -> None:
    add_texts(store, embedder, a="One text.")
    with apsw.Connection(str(store.folder / FILE_NAME)) as connection:
        connection.execute(damage)
    uses: list[Callable[[], object]] = [
        store.documents,
        lambda: store.document("1"),
        lambda: found(store, "text", embedder),
        lambda: add_texts(store, embedder, a="Another text."),
        lambda: store.remove(["1"]),
    ]
    failures: list[StoreError] = []
    for use in uses:
        try:
            use()
        except StoreError as error:
            failures.append(error)
    assert failures
    assert all("is damaged" in failure.message for failure in failures)


def test_check_sees_what_does_not_agree(store: Store, embedder: HashingEmbedder) -> None:
    add_texts(store, embedder, a="One text.", b="Two texts.")
    assert store.check() == []
    with apsw.Connection(str(store.folder / FILE_NAME)) as connection:
        connection.execute("DELETE FROM passages_fts_docsize WHERE id = 1")
        connection.execute("UPDATE vectors SET vector = x'00' WHERE passage = 2")
        connection.execute("INSERT INTO vectors VALUES (77, zeroblob(128))")
    text = json.dumps(store.check())
    assert "1 passages are missing from the full-text index" in text
    assert "1 vectors do not have the embedder's dimension" in text
    assert "vectors of 1 passages that are gone" in text
    assert "Some rows point at rows that are gone" in text


def test_a_copied_folder_is_a_knowledge_base(store: Store, embedder: HashingEmbedder) -> None:
    add_texts(store, embedder, a="One text.")
    store.close()
    copy = store.folder.with_name("copy")
    shutil.copytree(store.folder, copy)
    with Store.open(copy, create=False) as opened:
        assert found(opened, "text", embedder) == ["a"]


def test_rarity_follows_what_is_stored(store: Store) -> None:
    add_texts(store, None, **{f"d{n}": "comets" if n < 4 else "dome" for n in range(16)})
    assert store.rarity("comets") == pytest.approx(0.5)
    store.remove([f"d{n}" for n in range(2, 16)])
    assert store.rarity("comets") == pytest.approx(0.0)
    assert store.rarity("dome") == 1.0
