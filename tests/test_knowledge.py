from pathlib import Path

import pytest

from readahead.config import load_config
from readahead.documents.read import Reader
from readahead.errors import DocumentError, EmbedderMismatch, NotFound
from readahead.knowledge import KnowledgeBase
from readahead.retrieval.store import Store
from readahead.trace import Trace
from readahead.types import Document
from tests.retrieval.support import HashingEmbedder

TIDES = "# Tides\n\nThe tide turns twice a day.\n\n## Moon\n\nThe moon pulls the water.\n"


@pytest.fixture
def knowledge(tmp_path: Path) -> KnowledgeBase:
    config = load_config({"kb": tmp_path / "kb"})
    return KnowledgeBase(Store.open(config.kb), config, HashingEmbedder())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "tides.md").write_text(TIDES, encoding="utf-8")
    (folder / "lamps.txt").write_text("A lamp burns oil.", encoding="utf-8")
    return folder


def test_what_was_added_is_found(knowledge: KnowledgeBase, folder: Path) -> None:
    report = knowledge.add([folder])
    assert (report.added, report.failed) == (2, [])
    trace = Trace("search")
    hit = knowledge.search("what pulls the water", 1, trace=trace)[0]
    assert hit.passage.document == str(folder / "tides.md")
    assert [span.name for span in trace.spans] == ["encode", "search"]
    stored = knowledge.document(hit.passage.document)
    assert stored.text[hit.passage.start : hit.passage.end] == hit.passage.text


def test_unchanged_files_cost_nothing_and_changed_ones_are_replaced(
    knowledge: KnowledgeBase, folder: Path
) -> None:
    knowledge.add([folder])
    (folder / "lamps.txt").write_text("A lamp burns gas.", encoding="utf-8")
    report = knowledge.add([folder])
    assert (report.added, report.unchanged, report.replaced) == (0, 1, 1)
    assert knowledge.search("oil", 5)[0].passage.text != "A lamp burns oil."


def test_a_file_may_be_stored_under_another_name(knowledge: KnowledgeBase, folder: Path) -> None:
    seen: list[Document] = []
    with Reader() as reader:
        for name in ("a.md", "a.md", "b.txt"):
            report = knowledge.add_file(folder / "tides.md", name, reader, on_document=seen.append)
        assert (report.added, report.failed) == (1, [])
        assert [document.name for document in seen] == ["a.md", "b.txt"]  # unchanged: not read

        def refuse(document: Document) -> None:
            raise DocumentError("too many")

        report = knowledge.add_file(folder / "lamps.txt", "a.md", reader, on_document=refuse)
    assert [(failure.path, failure.reason) for failure in report.failed] == [("a.md", "too many")]
    assert knowledge.document("a.md").blocks[0].kind == "title"
    assert knowledge.document("b.txt").blocks[0].kind == "paragraph"


def test_what_cannot_be_read_is_listed_and_stops_nothing(
    knowledge: KnowledgeBase, folder: Path
) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    (folder / "junk.bin").write_bytes(bytes(range(256)) * 40)
    report = knowledge.add([folder, folder / "missing.md"])
    assert report.added == 2
    assert {Path(failure.path).name for failure in report.failed} == {
        "broken.pdf",
        "junk.bin",
        "missing.md",
    }
    assert all(failure.reason for failure in report.failed)


def test_the_knowledge_base_does_not_read_itself(knowledge: KnowledgeBase, folder: Path) -> None:
    report = knowledge.add([folder.parent])
    assert (report.added, report.failed) == (2, [])


def test_standard_input_is_a_document_of_its_own(knowledge: KnowledgeBase) -> None:
    seen: list[Document] = []
    report = knowledge.add(
        ["-"], stdin=TIDES.encode(), stdin_name="notes.md", on_document=seen.append
    )
    assert report.added == 1
    assert knowledge.document("notes.md").blocks[0].kind == "title"
    assert seen == [knowledge.document("notes.md")]


def test_what_was_removed_is_gone(knowledge: KnowledgeBase, folder: Path) -> None:
    knowledge.add([folder])
    assert knowledge.remove([str(folder / "tides.md")]) == [str(folder / "tides.md")]
    assert all("moon" not in hit.passage.text for hit in knowledge.search("moon", 10))
    with pytest.raises(NotFound):
        knowledge.document(str(folder / "tides.md"))


def test_without_vectors_only_words_are_matched(tmp_path: Path, folder: Path) -> None:
    words_only = load_config({"kb": tmp_path / "words", "retrieval.mode": "lexical"})
    with KnowledgeBase.open(words_only) as knowledge:
        assert knowledge.embedder is None
        assert knowledge.similarity is None
        knowledge.add([folder])
    # Opened later without the flag, it stays what it is instead of asking for a model.
    with KnowledgeBase.open(load_config({"kb": tmp_path / "words"})) as knowledge:
        assert knowledge.is_lexical
        assert knowledge.search("moon", 1)[0].passage.text.endswith("The moon pulls the water.")


def test_another_embedder_is_refused(knowledge: KnowledgeBase, folder: Path) -> None:
    knowledge.add([folder])
    other = KnowledgeBase(knowledge.store, knowledge.config, HashingEmbedder("other"))
    with pytest.raises(EmbedderMismatch, match="reembed"):
        other.search("moon", 1)
    with pytest.raises(EmbedderMismatch):
        other.add([folder])


def test_similarity_is_that_of_the_embedder(knowledge: KnowledgeBase) -> None:
    assert knowledge.similarity is not None
    same, other = knowledge.similarity("the tide turns", ["the tide turns", "a lamp burns"])
    assert same == pytest.approx(1.0, abs=1e-5)
    assert other < same


def test_only_the_last_traces_are_kept(tmp_path: Path) -> None:
    config = load_config({"kb": tmp_path, "traces.keep": 2})
    with KnowledgeBase.open(config) as knowledge:
        traces = [Trace("ask", question=str(n)) for n in range(3)]
        for trace in traces:
            knowledge.keep_trace(trace)
        assert [trace["id"] for trace in knowledge.store.traces()] == [traces[2].id, traces[1].id]
