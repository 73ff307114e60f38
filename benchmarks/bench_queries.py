"""Compare what to search for when an answer lacks a passage: five ways to form the query.

The claim: the question with the certain words of the sentence so far finds the missing passage at
least as well as the other ways, and costs no model step. Each question is answered without its
passage up to the first refusal, the first content word of high entropy, or the end; then each query
looks for the passage among ``--pool`` of them, those shown left out.

    question    the question alone
    certain     … with the sentence so far, its uncertain words left out: what ``inject`` uses
    attended    the words of question and answer that the last token attends to most   [Su24]
    rewritten   a query that the model itself writes: path A of the method's source
    pooled      the mean of the last layer's hidden states, against those of the passages: path B
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from readahead.config import InjectConfig, load_config
from readahead.evaluation.datasets import Question, read_questions
from readahead.evaluation.metrics import ranking
from readahead.evidence import is_refusal
from readahead.evidence.terms import read_terms
from readahead.knowledge import KnowledgeBase
from readahead.lm.generate import generate, stream
from readahead.lm.model import TransformersModel
from readahead.lm.prompt import Prompt, build_prompt
from readahead.lm.sample import SamplingParams
from readahead.lm.watch import WatchedModel, num_layers
from readahead.lm.weights import pull
from readahead.speculation.retrieval.signals import SignalReader
from readahead.speculation.retrieval.written import Written
from readahead.types import Hit
from report import finish, options

K = 3
NUM_ATTENDED = 10
WAYS = ("question", "certain", "attended", "rewritten", "pooled")


class Stopped:
    """An answer without its passage, stopped where the gate would be asked."""

    def __init__(self, model: TransformersModel, question: str, shown: Sequence[Hit]) -> None:
        self.layer = num_layers(model) // 2
        self.model = WatchedModel(model, [self.layer])
        self.question = question
        self.prompt: Prompt = build_prompt(
            model.tokenizer, question, [hit.passage for hit in shown], max_tokens=4000
        )
        self.written = Written(model.tokenizer)
        reader = SignalReader(self.model, self.layer)
        jump = InjectConfig().jump
        for piece in stream(self.model, self.prompt.token_ids, SamplingParams(max_new_tokens=30)):
            signals = reader.read()
            for token_id, logprob in zip(piece.token_ids, piece.logprobs, strict=True):
                self.written.push(token_id, logprob, signals)
            unsure = self.written.jump() >= jump and self.written.begins_content_word()
            if unsure or is_refusal(self.written.sentence()):
                break

    def certain(self) -> str:
        """Return the question and what the model was sure of."""
        said = "" if is_refusal(self.written.sentence()) else self.written.certain_words()
        return f"{self.question} {said}".strip()

    def attended(self) -> str:
        """Return the most attended content words of question and answer, in their order."""
        weights: Tensor = self.model.attention[self.layer].weights()[0].mean(dim=0)  # (S,)
        tokenizer = self.model.tokenizer
        ids = [*self.prompt.token_ids, *(token.id for token in self.written.tokens)]
        begin = self.prompt.spans[-1][1]
        places = range(begin, min(len(ids), len(weights)))
        said = {place: tokenizer.decode([ids[place]]) for place in places}
        content = [place for place in places if read_terms(said[place]).content]
        best = sorted(content, key=lambda place: -float(weights[place]))[:NUM_ATTENDED]
        return "".join(said[place] for place in sorted(best)).strip()

    def rewritten(self) -> str:
        """Return the query that the model writes."""
        tokenizer = self.model.tokenizer
        head, tail = tokenizer.frame("Write one short search query that would find the answer.")
        said = f"Question: {self.question}\nAnswer so far: {self.written.text}"
        ids = [*tokenizer.encode_control(head), *tokenizer.encode(said)]
        ids += tokenizer.encode_control(tail)
        return generate(self.model, [ids], SamplingParams(max_new_tokens=16))[0].text


@torch.no_grad()
def pooled(model: TransformersModel, ids: Sequence[int]) -> Tensor:
    """Return the mean of the last layer's hidden states, of unit length, (hidden,)."""
    output = model.backend(torch.tensor([list(ids)]), output_hidden_states=True)
    mean: Tensor = output.hidden_states[-1][0].float().mean(dim=0)
    unit: Tensor = mean / mean.norm()
    return unit


def main() -> None:
    """Form every query for every question and look where the passage stands."""
    parser = options(__doc__)
    parser.add_argument("--passages", type=Path, required=True, help="JSON Lines: id, title, text")
    parser.add_argument("--questions", type=Path, required=True, help="JSON Lines")
    parser.add_argument("--target", default="qwen2.5-coder-0.5b")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--n", type=int, default=40, help="the last n questions of the file")
    parser.add_argument("--pool", type=int, default=300, help="passages to search")
    given = parser.parse_args()
    model = TransformersModel.load(
        pull(given.target).folder, device="cpu", dtype=given.dtype, name=given.target
    )
    questions = read_questions(given.questions)[-given.n :]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pool.jsonl"
        pool = chosen(given.passages, {question.passage for question in questions}, given.pool)
        file.write_text("\n".join(map(json.dumps, pool)), encoding="utf-8")
        with KnowledgeBase.open(load_config({"kb": Path(folder) / "kb"})) as knowledge:
            knowledge.add([file])
            vectors = {
                str(row["id"]): pooled(
                    model, model.tokenizer.encode(f"{row['title']}\n{row['text']}")
                )
                for row in pool
            }
            ranks, seconds = race(model, knowledge, questions, vectors)
    metrics: dict[str, float] = {}
    for way in WAYS:
        found = ranking(ranks[way], (1, 3))
        metrics |= {f"{name}.{way}": value for name, value in found.items()}
        metrics[f"seconds.{way}"] = sum(seconds[way]) / len(seconds[way])
        print(f"{way:<10}", *(f"{name} {value:.3f}" for name, value in found.items()), end="")
        print(f"  {1000 * metrics[f'seconds.{way}']:.0f} ms")
    finish(
        "queries",
        metrics,
        models={"target": given.target, "embedder": load_config().models.embedder},
        workload=f"last questions of {given.questions.name}, {len(pool)} passages",
        n=len(ranks["question"]),
        dtype=given.dtype,
        out=given.out,
    )


def chosen(passages: Path, wanted: set[str], size: int) -> list[dict[str, object]]:
    """Return the wanted passages and the first of the others."""
    rows = [json.loads(line) for line in passages.read_text(encoding="utf-8").splitlines()]
    first = [row for row in rows if str(row["id"]) in wanted]
    return first + [row for row in rows if str(row["id"]) not in wanted][: size - len(first)]


def race(
    model: TransformersModel,
    knowledge: KnowledgeBase,
    questions: Sequence[Question],
    vectors: dict[str, Tensor],
) -> tuple[dict[str, list[int | None]], dict[str, list[float]]]:
    """Return for each way the ranks of the right passages, and what forming the query took."""
    ranks: dict[str, list[int | None]] = {way: [] for way in WAYS}
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for number, question in enumerate(questions):
        hits = knowledge.search(question.text, K + 1)
        shown = [hit for hit in hits if id_of(hit) != question.passage][:K]
        stopped = Stopped(model, question.text, shown)
        hidden = {id_of(hit) for hit in shown}
        for way in WAYS:
            begun = time.perf_counter()
            if way == "pooled":
                state = pooled(
                    model,
                    [
                        *model.tokenizer.encode(question.text),
                        *(t.id for t in stopped.written.tokens),
                    ],
                )
                order = sorted(vectors, key=lambda i: -float(vectors[i] @ state))
                seconds[way].append(time.perf_counter() - begun)
            else:
                query = question.text if way == "question" else str(getattr(stopped, way)())
                seconds[way].append(time.perf_counter() - begun)
                order = [id_of(hit) for hit in knowledge.search(query, 50)]
            left = [one for one in order if one not in hidden]
            place = left.index(question.passage) + 1 if question.passage in left else None
            ranks[way].append(place)
        print(f"{number + 1} of {len(questions)}", flush=True)
    return ranks, seconds


def id_of(hit: Hit) -> str:
    """Return the id that the file of passages gives."""
    return str(hit.passage.metadata["id"])


if __name__ == "__main__":
    main()
