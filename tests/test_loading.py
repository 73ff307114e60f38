import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

import pytest

from readahead.config import ModelsConfig, load_config
from readahead.lm.model import TransformersModel
from readahead.loading import Loaded
from readahead.retrieval.base import Embedder
from tests.conftest import make_llama, make_tokenizer
from tests.retrieval.support import HashingEmbedder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    make_llama().save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def test_a_model_that_several_want_at_once_is_loaded_once(folder: Path) -> None:
    """From Python 3.12 on, a cached property may be computed by several threads at once."""
    loaded = Loaded(load_config({"models.target": str(folder), "models.device": "cpu"}))
    target = vars(Loaded)["target"]
    assert isinstance(target, cached_property)
    together = threading.Barrier(4)

    def load() -> TransformersModel:
        together.wait()
        found = target.func(loaded)
        assert isinstance(found, TransformersModel)
        return found

    with ThreadPoolExecutor(4) as pool:
        first, *others = [future.result() for future in [pool.submit(load) for _ in range(4)]]
    assert all(other is first for other in others)
    assert loaded.target is first
    loaded.turns.close()


def test_it_tells_whether_the_target_is_loaded(folder: Path, model: TransformersModel) -> None:
    loaded = Loaded(load_config({"models.target": str(folder)}))
    assert not loaded.has_target
    _ = loaded.target
    assert loaded.has_target
    assert Loaded(load_config(), model).has_target
    loaded.turns.close()


def test_target_and_drafter_of_one_name_are_one(folder: Path) -> None:
    names = {"models.target": str(folder), "models.drafter": str(folder)}
    loaded = Loaded(load_config(names))
    assert loaded.drafter is loaded.target
    loaded.turns.close()


def test_the_embedder_is_loaded_once_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def load_slowly(models: ModelsConfig) -> Embedder:
        asked.append(models.embedder)
        time.sleep(0.05)  # for the others to come
        return HashingEmbedder(models.embedder)

    monkeypatch.setattr("readahead.loading.load_embedder", load_slowly)
    loaded = Loaded(load_config({"models.embedder": "mine"}))
    embedder = vars(Loaded)["embedder"]
    assert isinstance(embedder, cached_property)
    together = threading.Barrier(4)

    def load() -> object:
        together.wait()
        return embedder.func(loaded)

    with ThreadPoolExecutor(4) as pool:
        found = [future.result() for future in [pool.submit(load) for _ in range(4)]]
    assert all(one is loaded.embedder for one in found)
    assert asked == ["mine"]
    loaded.turns.close()
