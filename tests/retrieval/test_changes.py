import hashlib
import tracemalloc
from dataclasses import asdict

from readahead.retrieval.changes import _digest
from readahead.retrieval.records import NewDocument
from readahead.retrieval.schema import json_text
from readahead.retrieval.store import Store
from readahead.types import Block, Document
from tests.retrieval.support import add, cut, source


def headed(num_blocks: int) -> Document:
    """Return a document whose heading paths are far longer than its text."""
    heading = tuple(f"é{number}" * 150 for number in range(6))
    blocks = (Block("paragraph", 3 * at, 3 * at + 1, heading) for at in range(num_blocks))
    return Document("d", "a\n\n" * num_blocks, tuple(blocks), metadata={"k": ["é", 1]})


def test_the_digest_is_that_of_knowledge_bases_that_exist() -> None:
    document = headed(3)
    passages = cut(document)
    whole = [
        document.text,
        [asdict(block) for block in document.blocks],
        dict(document.metadata),
        [(p.start, p.end, p.kind, p.heading, p.page, p.context) for p in passages],
    ]
    expected = hashlib.sha256(json_text(whole).encode()).hexdigest()
    assert _digest(NewDocument(document, passages)) == expected


def test_storing_takes_no_multiple_of_what_is_stored(store: Store) -> None:
    document = headed(2000)
    num_heading_chars = sum(map(len, document.blocks[0].heading)) * len(document.blocks)
    tracemalloc.start()
    add(store, source("s", document))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 5 * num_heading_chars
