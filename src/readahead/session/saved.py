"""A conversation in a file; knows no model and no cache."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from readahead.engine import Engine
from readahead.errors import InputError, NotFound, StoreError
from readahead.lm.prompt import build_prompt
from readahead.session.conversation import REMOVED, Conversation
from readahead.session.said import Shown, Turn
from readahead.speculation.retrieval.guess import Found
from readahead.types import Hit, Passage

FORMAT = 2
_READABLE = (1, FORMAT)  # in the first, every passage stands in the prompt, from its beginning on


def save(conversation: Conversation, target: str, file: Path) -> None:
    """Write the turns of ``conversation`` to ``file``, by the ids of their passages.

    Args:
        conversation: Its texts of documents are not written: they stay in the knowledge base.
        target: The name of the model whose token ids the answers are.
        file: Replaced as a whole.

    Raises:
        StoreError: The file cannot be written.
    """
    turns = [
        {
            "question": turn.question,
            "follows": bool(found.context.parts),
            "passages": [shown._asdict() for shown in turn.shown],
            "hits": [{"id": hit.passage.id, "score": hit.score} for hit in found.hits],
            "text": turn.text,
            "token_ids": list(turn.token_ids),
        }
        for turn, found in zip(conversation.turns, conversation.found, strict=True)
    ]
    try:
        if file.is_dir():
            raise IsADirectoryError("it is a folder")
        temporary = file.with_name(f"{file.name}.part")
        temporary.write_text(
            json.dumps({"format": FORMAT, "target": target, "turns": turns}), encoding="utf-8"
        )
        temporary.replace(file)
    except (OSError, ValueError) as error:
        raise StoreError(
            f"The session cannot be saved to {file}: {error}.", remedy="Choose another file."
        ) from error


def restore(conversation: Conversation, engine: Engine, file: Path) -> None:
    """Append the turns of ``file`` to ``conversation``, which has none.

    A turn that shows what is no longer in the knowledge base is told, but not followed.

    Raises:
        InputError: The file is not a saved session, or one of another target.
    """
    saved = _read(file, engine.target.tokenizer.num_tokens)
    if saved["target"] != engine.target.name:
        raise InputError(
            f"The session {file} was held with {saved['target']}, not {engine.target.name}.",
            remedy="Open it with that model.",
        )
    has_gone = engine.knowledge.store.stale_test()
    for turn in saved["turns"]:
        shown = tuple(Shown(**{"start": 0, **passage}) for passage in turn["passages"])
        is_stale = any(has_gone(one.id) for one in shown)
        context = conversation.context if turn["follows"] else conversation.opening
        # Without the turn that it followed, it cannot be followed either.
        is_orphan = turn["follows"] and not context.parts
        prompt = build_prompt(
            engine.target.tokenizer,
            turn["question"],
            [p for one in shown if not one.in_answer for p in _passages(engine, *one[:3])],
            max_tokens=engine.target.max_context_tokens,
            context=context,
        )
        hits = tuple(
            Hit(passage, hit["score"])
            for hit in turn["hits"]
            for passage in _passages(engine, hit["id"])
        )
        injected = tuple(p for one in shown if one.in_answer for p in _passages(engine, *one[:3]))
        said = Turn(
            turn["question"], prompt, tuple(turn["token_ids"]), turn["text"], shown, injected
        )
        conversation.append(said, Found(hits, context))
        if is_stale or is_orphan:
            conversation.forget(REMOVED)


def _passages(engine: Engine, id: str, start: int = 0, end: int | None = None) -> list[Passage]:
    """Return what lies of the passage in ``[start, end)``, if it is still there."""
    try:
        passage = engine.knowledge.store.passage(id)
    except NotFound:
        return []
    start = min(max(start, passage.start), passage.end)
    end = passage.end if end is None else max(start, min(end, passage.end))
    text = passage.text[start - passage.start : end - passage.start]
    return [replace(passage, text=text, start=start, end=end)]


def _read(file: Path, num_tokens: int) -> dict[str, Any]:
    try:
        saved = json.loads(file.read_bytes())
        if saved["format"] not in _READABLE:
            raise ValueError(f"format {saved['format']} is not known")
        for turn in saved["turns"]:
            _check(turn, num_tokens)
        str(saved["target"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{file} is not a saved session: {error}.", remedy="Save one with Session.save."
        ) from None
    assert isinstance(saved, dict)
    return saved


def _check(turn: dict[str, Any], num_tokens: int) -> None:
    """Raise ValueError, KeyError or TypeError unless ``turn`` is what ``save`` writes."""
    records = [*turn["passages"], *turn["hits"]]
    texts = [turn["question"], turn["text"], *(record["id"] for record in records)]
    numbers = [*(hit["score"] for hit in turn["hits"]), turn["follows"]]
    for passage in turn["passages"]:
        shown = Shown(**{"start": 0, **passage})
        if type(shown.start) is not int or type(shown.end) is not int:
            raise ValueError("the place of a passage is missing")
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text is missing")
    if not all(isinstance(number, int | float) for number in numbers):
        raise ValueError("a number is missing")
    if not all(type(id) is int and 0 <= id < num_tokens for id in turn["token_ids"]):
        raise ValueError("a token id is none of the target's")
