"""Time hybrid search over many passages, beside the two costs it cannot go below.

The claim: p50 under 40 ms over 20,000 passages on two cores once warm, encoding of the query
included. Each query is run three ways in turn, so that noise hits all alike: only encoded, only
looked up among the vectors, and searched for in full.

The passages are those of ``--passages`` (JSON Lines with ``text`` and maybe ``title``) or, without
it, made from a seeded vocabulary with Zipf's frequencies. If there are fewer than wanted, they are
repeated, each copy without one of its sentences. Their vectors are random: exact search takes the
same time whatever a vector holds, and encoding 20,000 passages would take minutes. Hits of the
words and of the vectors are then disjoint, so twice as many candidates are fused as usual.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from readahead.config import PassagesConfig, RetrievalConfig
from readahead.lm.quiet import quiet_transformers
from readahead.lm.weights import resolve
from readahead.retrieval.base import Vectors
from readahead.retrieval.chunk import chunk
from readahead.retrieval.dense import VectorIndex
from readahead.retrieval.embed import SentenceTransformerEmbedder
from readahead.retrieval.index import Indexer, Source
from readahead.retrieval.retriever import HybridRetriever
from readahead.retrieval.store import Store
from readahead.text import sentences
from readahead.types import Block, Document
from report import SEED, finish, options, timed

EMBEDDER = "all-minilm-l6-v2"
NUM_WARM_UP = 20
NUM_WORDS = 100
NUM_DISTINCT_WORDS = 30_000


class RandomPassages:
    """Encodes queries as the model does, and gives every passage a random vector."""

    def __init__(self, model: SentenceTransformerEmbedder) -> None:
        self.fingerprint = f"random, queries by {model.fingerprint}"
        self.dim = model.dim
        self.max_tokens = model.max_tokens
        self.count_tokens = model.count_tokens
        self.embed_query = model.embed_query
        self._random = np.random.default_rng(SEED)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return random unit rows."""
        vectors: Vectors = self._random.standard_normal((len(texts), self.dim), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors


def synthetic_texts(num: int) -> Iterator[tuple[str, str]]:
    """Return titles and texts of made-up words, with the frequencies of a natural language."""
    random = np.random.default_rng(SEED)
    syllables = np.array("ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu".split())
    lengths = random.integers(2, 5, NUM_DISTINCT_WORDS)
    vocabulary = np.array(["".join(random.choice(syllables, length)) for length in lengths])
    frequencies = 1 / (np.arange(NUM_DISTINCT_WORDS) + 2.7)
    drawn = random.choice(vocabulary, (num, NUM_WORDS), p=frequencies / frequencies.sum())
    for words in drawn.tolist():
        yield (
            " ".join(words[:2]).title(),
            ". ".join(" ".join(words[at : at + 10]) for at in range(0, NUM_WORDS, 10)),
        )


def read_texts(path: Path) -> Iterator[tuple[str, str]]:
    """Return titles and texts of a file of JSON Lines."""
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        yield record.get("title", ""), record["text"]


def documents(texts: list[tuple[str, str]], num: int) -> Iterator[Document]:
    """Return one document a text, then copies without one sentence, until there are ``num``."""
    for number in range(num):
        title, text = texts[number % len(texts)]
        if copy := number // len(texts):
            spans = sentences(text)
            without = (copy - 1) % len(spans)
            text = " ".join(text[a:b] for at, (a, b) in enumerate(spans) if at != without) or text
        whole = f"{title}\n\n{text}" if title else text
        heading = (title,) if title else ()
        start = len(whole) - len(text)
        blocks = [Block("paragraph", start, len(whole), heading)]
        if title:
            blocks.insert(0, Block("title", 0, len(title), heading, level=1))
        yield Document(f"passages#{number}", whole, tuple(blocks))


def queries(texts: list[tuple[str, str]], questions: Path | None, num: int) -> list[str]:
    """Return questions, or the eight longest words of random passages: no stop words."""
    random = np.random.default_rng(SEED)
    if questions is not None:
        lines = questions.read_text(encoding="utf-8").splitlines()
        return [json.loads(lines[at])["question"] for at in random.permutation(len(lines))[:num]]
    chosen = [set(texts[at][1].split()) for at in random.integers(0, len(texts), num)]
    return [" ".join(sorted(words, key=lambda word: (-len(word), word))[:8]) for words in chosen]


def measure(
    retriever: HybridRetriever, embedder: RandomPassages, store: Store, asked: list[str]
) -> dict[str, list[float]]:
    """Return the seconds of each query by what was run, in turn."""
    index, k = VectorIndex(store, embedder), RetrievalConfig().k
    num_candidates = RetrievalConfig().num_candidates
    times: dict[str, list[float]] = {"search": [], "encode": [], "faiss": [], "lexical": []}
    for number, query in enumerate(asked):
        vector = embedder.embed_query(query)
        actions: dict[str, Callable[[], object]] = {
            "search": partial(retriever.search, query, k),
            "encode": partial(embedder.embed_query, query),
            "faiss": partial(index.search, vector, num_candidates, None),
            "lexical": partial(store.search_text, query, num_candidates),
        }
        for name in np.roll(list(actions), number):
            seconds = timed(actions[name])
            if number >= NUM_WARM_UP:
                times[name].append(seconds)
    return times


def summary(times: dict[str, list[float]], num_passages: int) -> dict[str, float]:
    """Print a table, and return the benchmark's metrics."""
    print(f"{len(times['search'])} queries over {num_passages} passages")
    print(f"{'':10}{'p50':>10}{'p95':>10}")
    for name, seconds in times.items():
        p50, p95 = np.percentile(seconds, [50, 95]) * 1e3
        print(f"{name:10}{p50:7.1f} ms{p95:7.1f} ms")
    median = {name: float(np.median(seconds)) for name, seconds in times.items()}
    return {
        "p50_s": median["search"],
        "p95_s": float(np.percentile(times["search"], 95)),
        "encode_p50_s": median["encode"],
        "faiss_p50_s": median["faiss"],
        "lexical_p50_s": median["lexical"],
        "ratio_to_floor": median["search"] / (median["encode"] + median["faiss"]),
        "num_passages": num_passages,
    }


def main() -> None:
    """Build a knowledge base in a temporary folder and search it."""
    parser = options(__doc__)
    parser.add_argument("--passages", type=Path, help="JSON Lines with text and title")
    parser.add_argument("--questions", type=Path, help="JSON Lines with question")
    parser.add_argument("--n", type=int, default=200, help="queries to time")
    parser.add_argument("--num-passages", type=int, default=20_000)
    given = parser.parse_args()

    made = synthetic_texts(given.num_passages)
    texts = list(read_texts(given.passages) if given.passages else made)
    asked = queries(texts, given.questions, given.n + NUM_WARM_UP)
    with quiet_transformers():
        model = SentenceTransformerEmbedder(resolve(EMBEDDER).folder, device="cpu")
    embedder = RandomPassages(model)
    with tempfile.TemporaryDirectory() as folder, Store.open(folder) as store:
        print(f"storing {given.num_passages} passages from {len(texts)} distinct texts…")
        source = Source("passages", "0", lambda: list(documents(texts, given.num_passages)))
        Indexer(store, lambda text: chunk(text, PassagesConfig()), embedder=embedder).add([source])
        retriever = HybridRetriever(store, embedder)
        times = measure(retriever, embedder, store, asked)
        num_passages = len(store.live_ids())
    name = given.passages.name if given.passages else "synthetic"
    workload = f"{name}: {len(texts)} distinct texts, random passage vectors"
    finish(
        "search",
        summary(times, num_passages),
        models={"embedder": EMBEDDER},
        workload=workload,
        n=len(times["search"]),
        out=given.out,
    )


if __name__ == "__main__":
    main()
