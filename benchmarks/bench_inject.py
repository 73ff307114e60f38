"""Measure what retrieving during the answer brings where the first retrieval misses on purpose.

The claims: of questions whose passage is dropped from what is first shown, the right answer is in
at least 1.3 times as many answers as without injecting; where the passage was shown from the start
there are at most 0.3 injections an answer; reading the signals costs at most 5 % of a step.

Each question is answered four times: passage dropped or present, with and without injecting. With
``--within``, also with the gate kept silent before the first token, once for each way of placing
passages. With ``--behind``, where the passage is dropped, also with what is found before the first
token behind the passages shown, as in conversations, and not in front. Answers go to ``--rows`` and
are not made again, so a run can be stopped and taken up.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median

from readahead.config import Config, InjectConfig, load_config
from readahead.evaluation.datasets import Question, read_questions
from readahead.evaluation.metrics import contains
from readahead.knowledge import KnowledgeBase
from readahead.lm.generate import Piece, stream
from readahead.lm.model import TransformersModel
from readahead.lm.prompt import Prompt, build_prompt
from readahead.lm.sample import SamplingParams
from readahead.lm.weights import pull
from readahead.speculation.retrieval.inject import Injected, Injecting
from readahead.trace import Trace
from readahead.types import Hit
from report import finish, options

MAX_NEW_TOKENS = 40
BEHIND = "behind"
WITHIN = ("within.note", "within.turn", "within.prompt")


@dataclass(frozen=True, slots=True)
class Row:
    """One answer.

    Attributes:
        variant: ``plain``, ``inject``, ``behind``, or ``within.PLACEMENT``.
        gold_injected: The right passage was among those injected.
        signals_share: What reading signals and asking the gate took of the decode steps' time.
    """

    question: str
    dropped: bool
    variant: str
    text: str
    contains: float
    num_injections: int = 0
    gold_injected: bool = False
    ttft_s: float = 0.0
    e2e_s: float = 0.0
    signals_share: float = 0.0


class Contest:
    """Answers one question in every way."""

    def __init__(self, knowledge: KnowledgeBase, model: TransformersModel, config: Config) -> None:
        self._knowledge = knowledge
        self._model = model
        self._k = config.retrieval.k
        self._inject = config.inject
        self._params = SamplingParams(max_new_tokens=MAX_NEW_TOKENS)

    def shown(self, question: Question, dropped: bool) -> list[Hit] | None:
        """Return what is first shown; None where the right passage would not be."""
        hits = self._knowledge.search(question.text, self._k + 1)
        right = [is_right(hit, question) for hit in hits]
        if not any(right[: self._k]):
            return None
        kept = [hit for hit, gold in zip(hits, right, strict=True) if not (gold and dropped)]
        return kept[: self._k]

    def answer(self, question: Question, hits: Sequence[Hit], dropped: bool, variant: str) -> Row:
        """Return the answer of one variant."""
        prompt = build_prompt(
            self._model.tokenizer,
            question.text,
            [hit.passage for hit in hits],
            max_tokens=self._model.max_context_tokens - MAX_NEW_TOKENS,
        )
        trace = Trace("bench")
        events = self._events(question, prompt, hits, variant, trace)
        pieces: list[Piece] = []
        injected: list[Injected] = []
        ttft_s = 0.0
        for event in events:
            if isinstance(event, Injected):
                injected.append(event)
            else:
                pieces.append(event)
                ttft_s = ttft_s or (trace.now_s() if event.text else 0.0)
        text = "".join(piece.text for piece in pieces)
        passages = [passage for event in injected for passage in event.passages]
        return Row(
            question.text,
            dropped,
            variant,
            text,
            contains(text, question.answers),
            len(injected),
            any(str(p.metadata["id"]) == question.passage for p in passages),
            ttft_s,
            trace.now_s(),
            trace.total_s("signals") / max(trace.total_s("decode"), 1e-9),
        )

    def _events(
        self, question: Question, prompt: Prompt, hits: Sequence[Hit], variant: str, trace: Trace
    ) -> Iterator[Piece | Injected]:
        if variant == "plain":
            return stream(self._model, prompt.token_ids, self._params, trace=trace)
        injecting = Injecting(
            self._model,
            question.text,
            prompt,
            hits,
            self._knowledge.search,
            config=self._config(variant),
            keeps_prefix=variant == BEHIND,
        )
        if variant in WITHIN:
            injecting.skip_start()
        return injecting.stream(self._params, trace=trace)

    def _config(self, variant: str) -> InjectConfig:
        _, _, placement = variant.partition(".")
        update = {"placement": placement} if placement else {}
        return self._inject.model_copy(update=update)


def is_right(hit: Hit, question: Question) -> bool:
    """Return whether a hit is the passage that holds the answer."""
    return str(hit.passage.metadata["id"]) == question.passage


def main() -> None:
    """Answer every question in every way, and compare."""
    parser = options(__doc__)
    parser.add_argument("--passages", type=Path, required=True, help="JSON Lines: id, title, text")
    parser.add_argument("--questions", type=Path, required=True, help="JSON Lines")
    parser.add_argument("--target", default="qwen2.5-coder-0.5b")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--n", type=int, default=80, help="the last n questions of the file")
    parser.add_argument("--within", action="store_true", help="compare the placements, too")
    parser.add_argument("--behind", action="store_true", help="compare the order, too")
    parser.add_argument("--kb", type=Path, help="a knowledge base of the passages, to save time")
    parser.add_argument("--rows", type=Path, help="a file for the answers, to go on later")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = collect(given, given.kb or Path(folder), given.rows or Path(folder) / "rows.jsonl")
    metrics = compare(rows)
    finish(
        "inject",
        metrics,
        models={"target": given.target, "embedder": load_config().models.embedder},
        workload=f"last questions of {given.questions.name}, right passage dropped or present",
        n=len({row.question for row in rows}),
        dtype=given.dtype,
        out=given.out,
    )


def collect(given: argparse.Namespace, kb: Path, file: Path) -> list[Row]:
    """Return all answers; those in ``file`` are taken from there."""
    rows = read_rows(file)
    done = {(row.question, row.dropped, row.variant) for row in rows}
    variants = ["plain", "inject"]
    further = [*(WITHIN if given.within else ()), *([BEHIND] if given.behind else ())]
    config = load_config({"kb": kb})
    model = TransformersModel.load(
        pull(given.target).folder, device="cpu", dtype=given.dtype, name=given.target
    )
    with KnowledgeBase.open(config) as knowledge, file.open("a", encoding="utf-8") as out:
        knowledge.add([given.passages])
        contest = Contest(knowledge, model, config)
        for number, question in enumerate(read_questions(given.questions)[-given.n :]):
            for dropped in (True, False):
                more = further if dropped else []
                hits = contest.shown(question, dropped)
                order = sorted([*variants, *more], reverse=number % 2 == 0)
                for variant in order if hits else ():
                    if (question.text, dropped, variant) not in done:
                        assert hits is not None
                        rows.append(contest.answer(question, hits, dropped, variant))
                        out.write(json.dumps(asdict(rows[-1])) + "\n")
                        out.flush()
            print(f"{number + 1} of {given.n}", flush=True)
    return rows


def read_rows(file: Path) -> list[Row]:
    """Return the answers of a file, none if there is no such file."""
    if not file.exists():
        return []
    lines = file.read_text(encoding="utf-8").split("\n")
    return [Row(**json.loads(line)) for line in lines if line.strip()]


def compare(rows: Sequence[Row]) -> dict[str, float]:
    """Print one line for each way of answering; return what the claims are about."""
    metrics: dict[str, float] = {}
    columns = ("contains", "injections", "gold_injected", "ttft_s", "e2e_s")
    print(f"\n{'':<22}", *(f"{column:>13}" for column in columns))
    for dropped in (True, False):
        for variant in dict.fromkeys(row.variant for row in rows):
            own = [row for row in rows if (row.dropped, row.variant) == (dropped, variant)]
            if not own:
                continue
            name = f"{'dropped' if dropped else 'present'}.{variant}"
            values = (
                fmean(row.contains for row in own),
                fmean(row.num_injections for row in own),
                fmean(row.gold_injected for row in own),
                median(row.ttft_s for row in own),
                median(row.e2e_s for row in own),
            )
            print(f"{name:<22}", *(f"{value:13.3f}" for value in values))
            metrics |= {f"{c}.{name}": v for c, v in zip(columns, values, strict=True)}
    for state in ("dropped", "present"):
        plain = metrics[f"contains.{state}.plain"]
        metrics[f"ratio.{state}"] = metrics[f"contains.{state}.inject"] / max(plain, 1e-9)
    metrics["signals_share"] = fmean(row.signals_share for row in rows if row.variant == "inject")
    print(
        f"right answers, dropped: {metrics['ratio.dropped']:.2f} times as many with injecting; "
        f"injections an answer, present: {metrics['injections.present.inject']:.2f}; "
        f"signals take {metrics['signals_share']:.1%} of a step"
    )
    return metrics


if __name__ == "__main__":
    main()
