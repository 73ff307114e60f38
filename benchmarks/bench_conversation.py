"""Measure what reading ahead does to a conversation, from its second turn on.

The claim: over conversations of five turns, the first token of a later turn comes in a fifth of the
plain time, for 0.6 of the tokens computed, what was guessed in vain included. Plain: retrieve for
each question, and read the instructions, the earlier questions and answers, the passages and the
question anew each time. Each turn is asked both ways, in turns, in one process.

With ``--suggestions`` the next questions are guessed while the last answer is read, for as long as
that may take. A question is *warm* if all its passages were shown before or read for a suggestion
when its first key is struck; these scripted questions never are the suggested ones themselves.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from ahead import NUM_ANSWER_TOKENS, Turn, ahead_options, figures, settings, show, tell
from readahead.engine import Engine
from readahead.evaluation.lossless import is_lossless
from readahead.evaluation.typing import type_out
from readahead.lm import generate
from readahead.lm.generate import Piece
from readahead.lm.prompt import Context, Part, build_prompt
from readahead.plain import sampling_params
from readahead.reply import Reply
from readahead.session import Session
from readahead.trace import Trace
from readahead.types import Answer, Passage
from report import finish

HERE = Path(__file__).parent
READING_S = 20.0  # of an answer, at most, before the next question is typed
CONVERSATIONS = HERE / "conversations.jsonl"
DOCUMENTS = HERE.parent / "examples" / "documents"


@dataclass(frozen=True)
class Asked:
    """A turn, and whether the passages shown hold the answer.

    Attributes:
        is_warm: Whether its passages were in context or read for a suggestion before it was typed.
        is_in_context: Whether they all were in context.
    """

    turn: Turn
    plain_has_it: bool
    ahead_has_it: bool
    is_warm: bool
    is_in_context: bool


class PlainChat:
    """A conversation without any reading ahead: nothing that was read is kept."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._history = Context()
        self.passages: tuple[Passage, ...] = ()

    def ask(self, question: str) -> Answer:
        """Return the answer to the next question."""
        engine, config, target = self._engine, self._engine.config, self._engine.target
        trace = Trace("ask", question=question)
        hits = engine.knowledge.search(question, config.retrieval.k, trace=trace)
        trace.count("retrievals")
        room = engine.max_prompt_tokens
        prompt = build_prompt(
            target.tokenizer,
            question,
            [hit.passage for hit in hits],
            max_tokens=room,
            context=self._history,
        )
        self.passages = prompt.passages
        trace.count("prompt_tokens", len(prompt.token_ids))
        token_ids: list[int] = []

        def pieces() -> Generator[Piece]:
            params = sampling_params(config.generation)
            for piece in generate.stream(target, prompt.token_ids, params, trace=trace):
                token_ids.extend(piece.token_ids)
                yield piece

        similarity = engine.knowledge.similarity
        reply = Reply(question, prompt.passages, trace, config, similarity=similarity)
        with engine.turns.answer():  # no guess of the other conversation may slow it
            *_, answer = reply.events(engine.turns.steps(pieces()))
        assert isinstance(answer, Answer)
        said = build_prompt(target.tokenizer, question, (), max_tokens=room, context=self._history)
        self._history = Context((*said.parts, Part(tuple(token_ids))))
        return answer


def main() -> None:
    """Hold each conversation both ways."""
    parser = ahead_options(__doc__)
    parser.add_argument("--n", type=int, help="only the first n conversations")
    given = parser.parse_args()
    file = given.questions or CONVERSATIONS
    lines = file.read_text(encoding="utf-8").splitlines()[: given.n]
    conversations = [json.loads(line)["turns"] for line in lines]
    with tempfile.TemporaryDirectory() as folder:
        config = settings(given, Path(folder))
        with Engine.open(config) as engine:
            engine.knowledge.add([given.passages or DOCUMENTS])
            engine.load().ask(conversations[0][0]["question"])  # a first pass is slow
            asked: list[Asked] = []
            for index, turns in enumerate(conversations):
                asked += held(engine, turns, index, given)[1:]
            device, dtype = str(engine.target.device), str(engine.target.dtype).split(".")[1]
    metrics = figures([a.turn for a in asked]) | {
        "answer_shown_share_plain": fmean(a.plain_has_it for a in asked),
        "answer_shown_share_ahead": fmean(a.ahead_has_it for a in asked),
        "in_context_share": fmean(a.is_in_context for a in asked),
        "warm_share": fmean(a.is_warm for a in asked),
    }
    show(metrics)
    finish(
        "conversation",
        metrics,
        models={"target": given.target, "embedder": config.models.embedder},
        workload=f"{file.name}, turns 2 and later, {NUM_ANSWER_TOKENS} tokens, "
        f"{given.words_per_s:g} words/s, {given.pause:g} s before Enter, {given.policy}, "
        f"{given.suggestions} suggestions",
        n=len(asked),
        out=given.out,
        device=device,
        dtype=dtype,
    )


def held(
    engine: Engine, turns: Sequence[dict[str, object]], index: int, given: argparse.Namespace
) -> list[Asked]:
    """Return the turns of one conversation; which way goes first changes each time."""
    chat, asked = PlainChat(engine), []
    with Session(engine) as session:
        for number, turn in enumerate(turns):
            question, golds = str(turn["question"]), turn["answers"]
            assert isinstance(golds, list)
            warm = suggested(session, engine) if number and given.suggestions else set()
            if (index + number) % 2:
                plain = chat.ask(question)
                ahead = typed(session, question, given)
            else:
                ahead = typed(session, question, given)
                plain = chat.ask(question)
            trace = engine.knowledge.store.trace(ahead.trace_id)
            last = session.turns[-1]
            both = Turn(plain, ahead, trace, is_lossless(engine, last))
            tell(question, both)
            has_it = any(gold in passage.text for gold in golds for passage in chat.passages)
            shown = any(gold in last.prompt.text for gold in golds)
            new = {passage.id for passage in last.prompt.passages}
            asked.append(Asked(both, has_it, shown, new <= warm, not new))
    return asked


def suggested(session: Session, engine: Engine) -> set[str]:
    """Wait for the suggestions, and return the ids of the passages that were read for them."""
    ends_s = time.monotonic() + READING_S
    while not session.suggestions() and time.monotonic() < ends_s:
        time.sleep(0.05)
    time.sleep(1.0)  # the likeliest one's first tokens are still decoded
    config = engine.config.retrieval
    found = [engine.knowledge.search(question, config.k) for question in session.suggestions()]
    return {hit.passage.id for hits in found for hit in hits}


def typed(session: Session, question: str, given: argparse.Namespace) -> Answer:
    """Type the question, submit it, and return the answer."""
    type_out(question, session.type, words_per_s=given.words_per_s, pause_s=given.pause)
    *_, answer = session.submit(question)
    assert isinstance(answer, Answer)
    return answer


if __name__ == "__main__":
    main()
