"""What is retrieved for the drafter while an answer is being written."""

from pathlib import Path
from typing import Any

import pytest

from readahead.lm.model import TransformersModel
from readahead.speculation.tokens import refresh
from readahead.types import Answer
from tests.conftest import make_llama, make_tokenizer
from tests.test_rapid import QUESTION, by_hand, open_engine


@pytest.fixture(scope="module")
def wide() -> TransformersModel:
    return TransformersModel(
        make_llama(max_position_embeddings=8192), make_tokenizer(), prefill_step_tokens=64
    )


@pytest.fixture(scope="module")
def other() -> TransformersModel:
    return TransformersModel(
        make_llama(seed=1, max_position_embeddings=8192), make_tokenizer(), prefill_step_tokens=64
    )


@pytest.mark.parametrize("drafter", ["lookup", "rag", "hybrid"])
@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_passages_of_the_sentence_are_drafted_from(
    tmp_path: Path,
    wide: TransformersModel,
    other: TransformersModel,
    monkeypatch: pytest.MonkeyPatch,
    drafter: str,
    mode: str,
) -> None:
    """The tiny model writes no sentences, so it is said to have written one."""
    monkeypatch.setattr(
        refresh, "last_sentence", lambda text, num_early_chars: "Bread and what Bread do."
    )
    with open_engine(
        tmp_path,
        wide,
        other,
        tokens__drafter=drafter,
        tokens__num_draft_tokens=3,
        tokens__refresh_tokens=8,
        tokens__context_share=0.2,
        retrieval__mode=mode,
    ) as engine:
        answer = engine.ask(QUESTION, method="rapid")
        assert isinstance(answer, Answer)
        assert answer.text == by_hand(engine, wide, QUESTION)
        trace: dict[str, Any] = dict(engine.knowledge.store.trace(answer.trace_id))
        read = [s["attributes"]["passages"] for s in trace["spans"] if s["name"] == "retrieve"]
        changes = [s["attributes"]["changed"] for s in trace["spans"] if s["name"] == "refresh"]
        assert len(read) == len(changes) + 1 >= 3
        assert changes == [True] + [False] * (len(changes) - 1)
        texts = [[engine.knowledge.store.passage(one).text for one in ids] for ids in read[:2]]
        assert not any("Bread" in text for text in texts[0])
        assert any("Bread" in text for text in texts[1])
        prefills = [s for s in trace["spans"] if s["name"] == "drafter_prefill"]
        assert len(prefills) == (0 if drafter == "lookup" else 2)


def test_nothing_is_retrieved_again_unless_it_is_asked_for(
    tmp_path: Path, wide: TransformersModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        refresh, "last_sentence", lambda text, num_early_chars: "Bread and what Bread do."
    )
    with open_engine(tmp_path, wide) as engine:
        answer = engine.ask(QUESTION, method="rapid")
        assert answer.usage.retrievals == 2  # which document, and what of it
