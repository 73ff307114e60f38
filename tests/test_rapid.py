from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from readahead.config import load_config
from readahead.engine import Engine
from readahead.errors import (
    BackendError,
    ConfigError,
    ContextOverflow,
    InputError,
    VocabularyMismatch,
)
from readahead.knowledge import KnowledgeBase
from readahead.lm.dialogue import Exchange
from readahead.lm.generate import generate
from readahead.lm.model import TransformersModel
from readahead.lm.prompt import build_prompt
from readahead.lm.sample import SamplingParams
from readahead.reply import PACKED
from readahead.retrieval.base import Filter
from readahead.retrieval.store import Store
from readahead.types import Answer
from tests.conftest import make_llama, make_tokenizer
from tests.retrieval.support import HashingEmbedder

HEADINGS = ("Tides", "Moon", "Lamps", "Bread", "Rivers", "Salt")
GUIDE = "\n\n".join(
    f"# {name}\n\n{name} are told of here. " + f"What {name} do is of use to many people. " * 4
    for name in HEADINGS
)
TABLE = "# Lamps\n\nLamps burn.\n\n# Fuel\n\n| Lamp | Fuel |\n|---|---|\n| old | oil |\n"
QUESTION = "What do Lamps do?"
NEW_TOKENS = 40


def open_engine(
    folder: Path,
    model: TransformersModel,
    drafter: TransformersModel | None = None,
    **flags: object,
) -> Engine:
    """Return an engine over a long and a short document."""
    given = {name.replace("__", "."): value for name, value in flags.items()}
    named = {"models.drafter": "other"} if drafter else {}
    config = load_config(
        {
            "kb": folder / "kb",
            "generation.max_new_tokens": NEW_TOKENS,
            "passages.max_words": 40,
            **named,
            **given,
        }
    )
    knowledge = KnowledgeBase(Store.open(config.kb), config, HashingEmbedder())
    knowledge.add(["-"], stdin=GUIDE.encode(), stdin_name="guide.md")
    knowledge.add(["-"], stdin=b"Ink is made of soot.", stdin_name="ink.txt")
    engine = Engine(knowledge, model)
    if drafter:
        engine.loaded.drafter = drafter
    return engine


@pytest.fixture
def wide() -> TransformersModel:
    return TransformersModel(
        make_llama(max_position_embeddings=8192), make_tokenizer(), prefill_step_tokens=64
    )


@pytest.fixture
def other() -> TransformersModel:
    return TransformersModel(
        make_llama(seed=1, max_position_embeddings=8192), make_tokenizer(), prefill_step_tokens=64
    )


def by_hand(engine: Engine, model: TransformersModel, question: str) -> str:
    """Return what the target says, reading the whole guide, without any speculation."""
    store = engine.knowledge.store
    ids = store.live_ids(Filter(documents=("guide.md",)))
    passages = sorted(store.passages(ids), key=lambda passage: passage.start)
    prompt = build_prompt(model.tokenizer, question, passages, max_tokens=8000)
    params = SamplingParams(max_new_tokens=NEW_TOKENS)
    return generate(model, [prompt.token_ids], params)[0].text


def told(engine: Engine, answer: Answer) -> dict[str, object]:
    attributes = engine.knowledge.store.trace(answer.trace_id)["attributes"]
    assert isinstance(attributes, dict)
    speculation = attributes["speculation"]
    assert isinstance(speculation, dict)
    return speculation


@pytest.mark.parametrize("drafter", ["lookup", "rag", "hybrid", "auto"])
@pytest.mark.parametrize("num_draft_tokens", [0, 4])
def test_the_answer_is_that_of_plain_decoding(
    tmp_path: Path,
    wide: TransformersModel,
    other: TransformersModel,
    drafter: str,
    num_draft_tokens: int,
) -> None:
    with open_engine(
        tmp_path, wide, other, tokens__drafter=drafter, tokens__num_draft_tokens=num_draft_tokens
    ) as engine:
        answer = engine.ask(QUESTION, method="rapid")
        assert answer.method == "rapid"
        assert answer.text == by_hand(engine, wide, QUESTION)
        assert told(engine, answer)["num_rounds"]


def test_the_target_may_draft_for_itself(tmp_path: Path, wide: TransformersModel) -> None:
    with open_engine(tmp_path, wide, tokens__drafter="rag", tokens__num_draft_tokens=3) as engine:
        answer = engine.ask(QUESTION, method="rapid")
        assert answer.text == by_hand(engine, wide, QUESTION)
        assert engine.rapid.drafter is wide


def test_a_follow_up_is_about_the_document_that_it_refers_back_to(
    tmp_path: Path, wide: TransformersModel
) -> None:
    with open_engine(tmp_path, wide) as engine:
        for before, document in (("What is ink made of?", "ink.txt"), (QUESTION, "guide.md")):
            past = [Exchange(before, ())]
            answer = engine.ask("And of what use?", method="rapid", exchanges=past)
            trace = engine.knowledge.store.trace(answer.trace_id)
            assert trace["attributes"]["document"] == document  # type: ignore[index]


def test_a_second_question_reads_only_itself(tmp_path: Path, wide: TransformersModel) -> None:
    with open_engine(tmp_path, wide) as engine:
        guide = Filter(documents=("guide.md",))
        first = engine.ask(QUESTION, method="rapid", filter=guide)
        second = engine.ask("What does Bread do?", method="rapid", filter=guide)
        assert first.usage.reused_tokens == 0
        assert second.usage.reused_tokens > 0.9 * second.usage.prompt_tokens
        assert second.text == by_hand(engine, wide, "What does Bread do?")


def test_what_was_read_approximately_is_said(tmp_path: Path, wide: TransformersModel) -> None:
    with open_engine(tmp_path, wide, cache__storage="int8") as engine:
        guide = Filter(documents=("guide.md",))
        assert PACKED not in engine.ask(QUESTION, method="rapid", filter=guide).notes
        assert PACKED not in engine.ask(QUESTION, method="rapid", filter=guide).notes
        engine.reader.tree.shrink(1)
        assert engine.reader.tree.steps["packed"] == 1
        assert PACKED in engine.ask(QUESTION, method="rapid", filter=guide).notes


def test_the_trace_says_what_the_drafter_read(
    tmp_path: Path, wide: TransformersModel, other: TransformersModel
) -> None:
    with open_engine(tmp_path, wide, other, tokens__num_draft_tokens=2) as engine:
        answer = engine.ask(QUESTION, method="rapid")
        trace = engine.knowledge.store.trace(answer.trace_id)
        spans = {span["name"]: span for span in trace["spans"]}  # type: ignore[attr-defined]
        assert {"retrieve", "prefill", "drafter_prefill", "draft", "verify"} <= set(spans)
        retrieved = spans["retrieve"]["attributes"]
        assert retrieved["num_tokens"] > 0
        best = engine.knowledge.store.passage(retrieved["passages"][0])
        assert "Lamps" in best.text
        assert trace["attributes"]["document"] == "guide.md"  # type: ignore[index]


def test_without_vectors_words_choose(tmp_path: Path, wide: TransformersModel) -> None:
    with open_engine(tmp_path, wide, retrieval__mode="lexical") as engine:
        answer = engine.ask(QUESTION, method="rapid")
        trace = engine.knowledge.store.trace(answer.trace_id)
        spans = {span["name"]: span for span in trace["spans"]}  # type: ignore[attr-defined]
        best = engine.knowledge.store.passage(spans["retrieve"]["attributes"]["passages"][0])
        assert "Lamps" in best.text


def test_several_documents_are_refused(tmp_path: Path, wide: TransformersModel) -> None:
    with open_engine(tmp_path, wide) as engine:
        both = Filter(documents=("guide.md", "ink.txt"))
        with pytest.raises(InputError, match=r"2 documents are named; .*reads one"):
            engine.ask(QUESTION, method="rapid", filter=both)


def test_nothing_to_read_is_said(tmp_path: Path, wide: TransformersModel) -> None:
    config = load_config({"kb": tmp_path / "kb"})
    with Engine(KnowledgeBase(Store.open(config.kb), config, HashingEmbedder()), wide) as engine:
        answer = engine.ask(QUESTION, method="rapid")
        assert answer.abstained
        assert answer.method == "rapid"


@pytest.mark.parametrize(
    "filter",
    [
        Filter(documents=("gone.md",)),
        Filter(documents=("empty.txt",)),
        Filter(documents=("guide.md",), kinds=("table",)),
    ],
)
def test_nothing_is_answered_from_nothing(
    tmp_path: Path, wide: TransformersModel, filter: Filter
) -> None:
    with open_engine(tmp_path, wide) as engine:
        engine.knowledge.add(["-"], stdin=b" \n", stdin_name="empty.txt")
        assert engine.ask(QUESTION, method="rapid", filter=filter).abstained


def test_only_what_the_filter_allows_is_shown(tmp_path: Path, wide: TransformersModel) -> None:
    with open_engine(tmp_path, wide) as engine:
        knowledge = engine.knowledge
        knowledge.add(["-"], stdin=TABLE.encode(), stdin_name="lamps.md")
        ids = knowledge.store.live_ids(Filter(documents=("lamps.md",)))
        kinds = {passage.kind for passage in knowledge.store.passages(ids)}
        assert len(kinds) == 2
        tables = Filter(documents=("lamps.md",), kinds=("table",))
        answer = engine.ask(QUESTION, method="rapid", filter=tables)
        attributes = knowledge.store.trace(answer.trace_id)["attributes"]
        assert isinstance(attributes, dict)
        shown = [knowledge.store.passage(one["id"]) for one in attributes["passages"]]
        assert {passage.kind for passage in shown} == {"table"}


def test_a_drafter_without_room_for_the_question_changes_no_answer(
    tmp_path: Path, wide: TransformersModel
) -> None:
    small = TransformersModel(make_llama(seed=1, max_position_embeddings=256), make_tokenizer())
    with open_engine(tmp_path, wide, small, tokens__drafter="rag") as engine:
        answer = engine.ask(QUESTION, method="rapid")
        assert answer.text == by_hand(engine, wide, QUESTION)
    with (
        open_engine(
            tmp_path / "b", wide, small, tokens__drafter="rag", tokens__mode="ensemble"
        ) as engine,
        pytest.raises(ContextOverflow, match="drafter's context of 256 tokens has no room"),
    ):
        engine.ask(QUESTION, method="rapid")


def test_a_document_that_does_not_fit_is_cut_and_said(
    tmp_path: Path, other: TransformersModel
) -> None:
    small = TransformersModel(make_llama(max_position_embeddings=1200), make_tokenizer())
    with open_engine(tmp_path, small, other, tokens__num_draft_tokens=3) as engine:
        answer = engine.ask(QUESTION, method="rapid", filter=Filter(documents=("guide.md",)))
        assert any("did not fit" in note for note in answer.notes)
        # The drafter reads nothing that the target does not.
        trace = engine.knowledge.store.trace(answer.trace_id)
        attributes = trace["attributes"]
        assert isinstance(attributes, dict)
        shown = {one["id"] for one in attributes["passages"]}
        spans = {span["name"]: span for span in trace["spans"]}  # type: ignore[attr-defined]
        assert set(spans["retrieve"]["attributes"]["passages"]) <= shown


@pytest.mark.parametrize("num_good_steps", [0, 1, 5])
def test_a_drafter_that_fails_costs_time_and_no_answer(
    tmp_path: Path,
    wide: TransformersModel,
    other: TransformersModel,
    num_good_steps: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = 0
    forward = other.forward

    def failing(*args: Any, **more: Any) -> Tensor:
        nonlocal steps
        steps += 1
        if steps > num_good_steps:
            raise BackendError("cpu ran out of memory at 7 tokens.")
        return forward(*args, **more)

    monkeypatch.setattr(other, "forward", failing)
    flags = {"tokens__drafter": "rag", "tokens__num_draft_tokens": 3}
    with open_engine(tmp_path, wide, other, **flags) as engine:
        answer = engine.ask(QUESTION, method="rapid")
        assert answer.text == by_hand(engine, wide, QUESTION)
        assert "written without the drafter" in answer.notes[-1]
        assert "out of memory" in answer.notes[-1]
        monkeypatch.undo()
        again = engine.ask(QUESTION, method="rapid")
        assert (again.text, again.notes) == (answer.text, ())
    monkeypatch.setattr(other, "forward", failing)
    with (
        open_engine(tmp_path / "other", wide, other, tokens__mode="ensemble", **flags) as engine,
        pytest.raises(BackendError, match="out of memory"),
    ):
        engine.ask(QUESTION, method="rapid")


def test_a_cancelled_question_ends(tmp_path: Path, wide: TransformersModel) -> None:
    with open_engine(tmp_path, wide) as engine:
        answer = engine.ask(QUESTION, method="rapid", cancelled=lambda: True)
        assert answer.finish_reason == "cancelled"
        assert engine.ask(QUESTION, method="rapid").text == by_hand(engine, wide, QUESTION)


def test_other_laws_need_a_model_that_drafts(
    tmp_path: Path, wide: TransformersModel, other: TransformersModel
) -> None:
    with (
        open_engine(tmp_path, wide, other, tokens__mode="augmented") as engine,
        pytest.raises(ConfigError, match="'rag'"),
    ):
        engine.ask(QUESTION, method="rapid")


@pytest.mark.parametrize("mode", ["exact", "ensemble"])
def test_a_law_without_a_strength_cannot_be_dynamic(
    tmp_path: Path, wide: TransformersModel, other: TransformersModel, mode: str
) -> None:
    flags: dict[str, object] = {"tokens__mode": mode, "tokens__drafter": "rag"}
    with (
        open_engine(tmp_path, wide, other, **flags, tokens__dynamic=True) as engine,
        pytest.raises(ConfigError, match=rf"tokens.dynamic weakens .*{mode}.*augmented"),
    ):
        engine.ask(QUESTION, method="rapid")


@pytest.mark.parametrize("mode", ["augmented", "paper", "ensemble"])
def test_other_laws_answer(
    tmp_path: Path, wide: TransformersModel, other: TransformersModel, mode: str
) -> None:
    with open_engine(
        tmp_path,
        wide,
        other,
        tokens__mode=mode,
        tokens__drafter="rag",
        tokens__eta=5.0,
        tokens__num_draft_tokens=3,
    ) as engine:
        answer = engine.ask(QUESTION, method="rapid")
        assert answer.usage.completion_tokens > 0
        assert told(engine, answer)["mean_gap"] > 0  # type: ignore[operator]


def test_dynamic_transfer_is_weaker(
    tmp_path: Path, wide: TransformersModel, other: TransformersModel
) -> None:
    flags: dict[str, object] = {
        "tokens__mode": "augmented",
        "tokens__drafter": "rag",
        "tokens__num_draft_tokens": 3,
        "generation__temperature": 1.0,
    }
    gaps = []
    for name, more in (("full", {}), ("dynamic", {"tokens__dynamic": True})):
        with open_engine(tmp_path / name, wide, other, **flags, **more) as engine:
            gaps.append(told(engine, engine.ask(QUESTION, method="rapid"))["mean_gap"])
    assert 0 < gaps[1] < gaps[0]  # type: ignore[operator]
    # Where no passage resembles the question, nothing is transferred.
    flags["tokens__context_min_similarity"] = 1.0
    with open_engine(tmp_path / "none", wide, other, **flags, tokens__dynamic=True) as engine:
        assert told(engine, engine.ask(QUESTION, method="rapid"))["mean_gap"] < 1e-6  # type: ignore[operator]


def test_a_drafter_of_another_family_is_refused(tmp_path: Path, wide: TransformersModel) -> None:
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(["<new>"])
    stranger = TransformersModel(make_llama(), tokenizer)
    with (
        open_engine(tmp_path, wide, stranger) as engine,
        pytest.raises(VocabularyMismatch, match="same to both"),
    ):
        engine.ask(QUESTION, method="rapid")
