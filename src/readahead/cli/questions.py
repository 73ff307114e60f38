"""The commands that ask: search, ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from readahead.cli.explain import evidence, tables
from readahead.cli.filters import Documents, Kinds, Metadata, search_filter
from readahead.cli.options import (
    Device,
    Drafter,
    Json,
    Kb,
    LexicalOnly,
    Precision,
    Preset,
    Target,
    TopK,
    note_words_only,
    settings,
    text_of,
    threshold_of,
)
from readahead.cli.output import (
    answer_json,
    is_coloured,
    note,
    one_line,
    passage_json,
    place_line,
    print_answer,
    say,
    say_json,
    say_styled,
    working,
)
from readahead.errors import InputError
from readahead.knowledge import KnowledgeBase
from readahead.types import Answer

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
Threshold = Annotated[
    str | None,
    typer.Option(
        metavar="P",
        help="Of drafts: strict, lenient, or the probability of being right from which on to "
        "answer.",
    ),
]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="Show all drafts, why one was chosen, and its evidence."),
]
DRAFTS = "drafts"
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
        str,
        typer.Option(
            metavar="METHOD",
            help="plain: retrieve, then answer; drafts: draft several answers small, and choose by "
            "evidence.",
        ),
    ] = "plain",
    k: TopK = None,
    target: Target = None,
    drafter: Drafter = None,
    preset: Preset = None,
    threshold: Threshold = None,
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
    explain: Explain = False,
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
        models__drafter=drafter,
        drafts__preset=preset,
        drafts__threshold=threshold_of(threshold),
    )
    _check_drafts(method, explain=explain, drafter=drafter, preset=preset, threshold=threshold)
    text = text_of(question)
    with KnowledgeBase.open(config, create=False) as knowledge:
        note_words_only(knowledge)
        chosen = search_filter(knowledge.store, documents, kinds, metadata)
        engine = _engine(knowledge, method)
        if as_json:
            say_json(answer_json(engine.ask(text, method=method, filter=chosen)))
            return
        answer = print_answer(engine.stream(text, method=method, filter=chosen))
        if explain:
            _explain(answer, knowledge)


def _check_drafts(method: str, **options: object) -> None:
    """Raise InputError if an option is of drafts, and the method is not."""
    given = [f"--{name}" for name, value in options.items() if value]
    if given and method != DRAFTS:
        raise InputError(
            f"{given[0]} is of drafts; the method {method!r} has none.",
            remedy="Add: --method drafts",
        )


def _explain(answer: Answer, knowledge: KnowledgeBase) -> None:
    """Print all that was drafted, if this is what was answered."""
    if not answer.audit:
        note("There is nothing to explain: the answer is not one of drafts.")
        return
    say()
    for row in tables(answer.audit):
        say(row)
    say()
    for line in evidence(answer.audit, knowledge.store.passage, is_coloured=is_coloured()):
        say_styled(line)


def _engine(knowledge: KnowledgeBase, method: str) -> Engine:
    with working("Loading the models"):
        from readahead.engine import Engine  # takes seconds: after what may be wrong

        return Engine(knowledge).load(method)
