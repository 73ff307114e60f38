"""Record what is retrieved for questions, and the signals of the answers; decides nothing.

Two files of JSON Lines in one folder, so that fitting and plotting need no model:

    retrieved.jsonl     {"question", "answers", "gold", "hits": [{"text", "heading", "similarity"}]}
    answers.TARGET.jsonl    {"question", "present", "text", "contains", "tokens": [{…}]}

``gold`` is the rank of the right passage, null where it was not found. Each question is answered
twice, with the right passage among those shown and with it taken out (``present``). What is there
already is not done again, so a run can be stopped and taken up.

    python scripts/record_answers.py FOLDER --questions F --passages F [--target NAME] [--n N]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from readahead.config import load_config
from readahead.evaluation.datasets import Question, read_questions
from readahead.evaluation.metrics import contains
from readahead.knowledge import KnowledgeBase
from readahead.lm.generate import stream
from readahead.lm.model import TransformersModel
from readahead.lm.prompt import build_prompt
from readahead.lm.sample import SamplingParams
from readahead.lm.watch import WatchedModel, num_layers
from readahead.lm.weights import pull
from readahead.speculation.retrieval.signals import (
    SignalReader,
    TokenSignals,
    source_head_ratio,
    source_key_entropy,
    source_key_shift,
)
from readahead.types import Hit, Passage

K = 3  # passages shown
NUM_HITS = 10
MAX_NEW_TOKENS = 40
SOURCE = ("source_key_entropy", "source_head_ratio", "source_key_shift")


@dataclass(frozen=True, slots=True)
class Retrieved:
    """A question with its hits, and which of them is right."""

    question: Question
    gold: int | None
    hits: tuple[Hit, ...]

    def shown(self, present: bool) -> list[Hit]:
        """Return the K best hits, with the right one or without it."""
        if present:
            return list(self.hits[:K])
        return [hit for rank, hit in enumerate(self.hits) if rank != self.gold][:K]


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer with the signals of its tokens, by layer.

    Attributes:
        pieces: The text of each token.
        source: The three signals of the method's source for each token, by name.
    """

    question: str
    present: bool
    text: str
    contains: bool
    pieces: tuple[str, ...]
    tokens: dict[int, tuple[TokenSignals, ...]]
    source: dict[str, tuple[float, ...]]


def main() -> None:
    """Record the retrieval of all questions, and answers to the first ``--n`` that can be used."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--questions", type=Path, required=True, help="JSON Lines")
    parser.add_argument("--passages", type=Path, required=True, help="JSON Lines: id, title, text")
    parser.add_argument("--target", help="whose answers; none: only what is retrieved")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--n", type=int, default=75, help="questions to answer, each twice")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if not (given.folder / "retrieved.jsonl").exists():
        record_retrieval(given.folder, given.questions, given.passages)
    if given.target:
        usable = [found for found in read_retrieved(given.folder) if is_usable(found)]
        record_answers(given.folder, given.target, given.dtype, usable[: given.n])


def is_usable(found: Retrieved) -> bool:
    """Return whether the right passage is shown, and its answer is in no other passage."""
    if found.gold is None or found.gold >= K:
        return False
    answers = found.question.answers
    return not any(contains(hit.passage.text, answers) for hit in found.shown(present=False))


def record_retrieval(folder: Path, questions: Path, passages: Path) -> None:
    """Search for every question in a knowledge base of the passages, kept in the folder."""
    rows = []
    with KnowledgeBase.open(load_config({"kb": folder / "kb"})) as knowledge:
        knowledge.add([passages])
        for question in read_questions(questions):
            hits = knowledge.search(question.text, NUM_HITS)
            ids = [str(hit.passage.metadata["id"]) for hit in hits]
            rows.append(
                {
                    "question": question.text,
                    "answers": question.answers,
                    "gold": ids.index(question.passage) if question.passage in ids else None,
                    "hits": [
                        {
                            "text": hit.passage.text,
                            "heading": hit.passage.heading,
                            "similarity": hit.similarity,
                        }
                        for hit in hits
                    ],
                }
            )
    write_lines(folder / "retrieved.jsonl", rows)


def record_answers(folder: Path, target: str, dtype: Any, found: Sequence[Retrieved]) -> None:
    """Answer each question with and without the right passage."""
    file = folder / f"answers.{target}.jsonl"
    done = {(row["question"], row["present"]) for row in lines_of(file)}
    model = TransformersModel.load(pull(target).folder, device="cpu", dtype=dtype, name=target)
    depth = num_layers(model)
    layers = sorted({depth // 4, depth // 2, 3 * depth // 4, depth - 1})
    for number, one in enumerate(found):
        for present in (True, False):
            if (one.question.text, present) not in done:
                write_lines(file, [answer(model, layers, one, present)])
        print(f"{number + 1} of {len(found)}", flush=True)


def answer(
    model: TransformersModel, layers: Sequence[int], found: Retrieved, present: bool
) -> dict[str, object]:
    """Return one row: the answer and the signals of its tokens."""
    passages = [hit.passage for hit in found.shown(present)]
    prompt = build_prompt(model.tokenizer, found.question.text, passages, max_tokens=4000)
    watched = WatchedModel(model, layers)
    readers = {layer: SignalReader(watched, layer) for layer in layers}
    tokens: list[dict[str, object]] = []
    text = ""
    keys: Tensor | None = None
    params = SamplingParams(max_new_tokens=MAX_NEW_TOKENS)
    for piece in stream(watched, prompt.token_ids, params):
        text += piece.text
        last = watched.attention[layers[-1]]
        token: dict[str, object] = {"piece": model.tokenizer.decode(piece.token_ids)}
        for layer, reader in readers.items():
            token[str(layer)] = reader.read().to_json()
        token["source_key_entropy"] = source_key_entropy(last.keys[0])
        token["source_head_ratio"] = source_head_ratio(last.values[0])
        token["source_key_shift"] = source_key_shift(
            last.keys[0], last.keys[0] if keys is None else keys
        )
        keys = last.keys[0]
        tokens.append(token)
    right = contains(text, found.question.answers)
    return {
        "question": found.question.text,
        "present": present,
        "text": text,
        "contains": bool(right),
        "tokens": tokens,
    }


def read_retrieved(folder: Path) -> list[Retrieved]:
    """Return what was retrieved."""
    return [
        Retrieved(
            Question(row["question"], tuple(row["answers"])),
            row["gold"],
            tuple(_hit(hit) for hit in row["hits"]),
        )
        for row in lines_of(folder / "retrieved.jsonl")
    ]


def _hit(row: dict[str, Any]) -> Hit:
    text = row["text"]
    passage = Passage("", text, 0, len(text), heading=tuple(row["heading"]))
    return Hit(passage, 0.0, row["similarity"])


def read_answers(folder: Path, target: str) -> list[Answered]:
    """Return the answers of a target."""
    return [
        Answered(
            row["question"],
            row["present"],
            row["text"],
            row["contains"],
            tuple(token["piece"] for token in row["tokens"]),
            {
                int(name): tuple(_signals(token[name]) for token in row["tokens"])
                for name in row["tokens"][0]
                if name.isdigit()
            },
            {name: tuple(token[name] for token in row["tokens"]) for name in SOURCE},
        )
        for row in lines_of(folder / f"answers.{target}.jsonl")
    ]


def _signals(row: dict[str, float | None]) -> TokenSignals:
    return TokenSignals(**{name: math.nan if v is None else v for name, v in row.items()})


def lines_of(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, none if there is no such file."""
    if file.exists():
        for line in file.read_text(encoding="utf-8").split("\n"):
            if line.strip():
                yield json.loads(line)


def write_lines(file: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Put rows at the end of a file."""
    with file.open("a", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
