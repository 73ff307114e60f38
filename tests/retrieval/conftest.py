from collections.abc import Iterator
from pathlib import Path

import pytest

from readahead.retrieval.store import Store
from tests.retrieval.support import HashingEmbedder


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "kb") as store:
        yield store


@pytest.fixture
def embedder() -> HashingEmbedder:
    return HashingEmbedder()
