"""The commands that ask: search, ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from readahead.cli.filters import Documents, Kinds, Metadata, search_filter
from readahead.cli.options import (
    Device,
    Json,
    Kb,
    LexicalOnly,
    Precision,
    Target,
    TopK,
    note_words_only,
    settings,
    text_of,
)
from readahead.cli.output import (
    answer_json,
    note,
    one_line,
    passage_json,
    place_line,
    print_answer,
    say,
    say_json,
    working,
)
from readahead.knowledge import KnowledgeBase

if TYPE_CHECKING:
    from readahead.engine import Engine

MaxNewTokens = Annotated[
    int | None, typer.Option(metavar="N", help="The answer's length limit, in tokens.")
]
Temperature = Annotated[
    float | None, typer.Option(metavar="T", help="0 takes the most likely token.")
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Seeds the sampling.")]
Inject = Annotated[
    bool | None,
    typer.Option(
        "--inject",
        help="Retrieve again while the answer is written, if its passages seem to lack it.",
    ),
]
SHOWN_CELLS = 240


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Any text; - reads stdin.")],
    kb: Kb = None,
    k: TopK = None,
    documents: Documents = None,
    kinds: Kinds = None,
    metadata: Metadata = None,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Show the passages that fit a query best."""
    config = settings(context, kb, lexical_only=lexical_only, k=k)
    text = text_of(query)
    with KnowledgeBase.open(config, create=False) as knowledge:
        note_words_only(knowledge)
        chosen = search_filter(knowledge.store, documents, kinds, metadata)
        hits = knowledge.search(text, config.retrieval.k, filter=chosen)
    if as_json:
        say_json({"hits": [{**passage_json(hit.passage), "score": hit.score} for hit in hits]})
        return
    if not hits:
        note("Nothing found.")
    for rank, hit in enumerate(hits, start=1):
        passage = hit.passage
        place = place_line(passage.document, passage.heading, passage.page)
        say(f"{rank}. {place} ({passage.id})")
        say("   " + one_line(" ".join(passage.text.split()), SHOWN_CELLS))


def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Any text; - reads stdin.")],
    kb: Kb = None,
    method: Annotated[
        str, typer.Option(metavar="METHOD", help="plain: retrieve, then answer.")
    ] = "plain",
    k: TopK = None,
    target: Target = None,
    device: Device = None,
    dtype: Precision = None,
    max_new_tokens: MaxNewTokens = None,
    temperature: Temperature = None,
    seed: Seed = None,
    inject: Inject = None,
    documents: Documents = None,
    kinds: Kinds = None,
    metadata: Metadata = None,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Answer a question from the documents, with citations."""
    config = settings(
        context,
        kb,
        lexical_only=lexical_only,
        k=k,
        target=target,
        device=device,
        dtype=dtype,
        generation__max_new_tokens=max_new_tokens,
        generation__temperature=temperature,
        generation__seed=seed,
        inject__enabled=inject,
    )
    text = text_of(question)
    with KnowledgeBase.open(config, create=False) as knowledge:
        note_words_only(knowledge)
        chosen = search_filter(knowledge.store, documents, kinds, metadata)
        engine = _engine(knowledge)
        if as_json:
            say_json(answer_json(engine.ask(text, method=method, filter=chosen)))
        else:
            print_answer(engine.stream(text, method=method, filter=chosen))


def _engine(knowledge: KnowledgeBase) -> Engine:
    with working("Loading the models"):
        from readahead.engine import Engine  # takes seconds: after what may be wrong

        return Engine(knowledge).load()
