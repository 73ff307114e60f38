"""The commands that ask: search, ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from readahead.cli.explain import evidence, tables
from readahead.cli.filters import Documents, Kinds, Metadata, search_filter
from readahead.cli.methods import DRAFTS, RAPID, check_options
from readahead.cli.options import (
    Device,
    Drafter,
    Drafting,
    DraftTokens,
    Eta,
    Json,
    Kb,
    LexicalOnly,
    Mode,
    Precision,
    Preset,
    Target,
    TopK,
    note_words_only,
    one_of,
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
    waiting,
    working,
)
from readahead.cli.speculated import table
from readahead.knowledge import KnowledgeBase
from readahead.types import Answer, Citation

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
    typer.Option(
        "--explain",
        help="Show all drafts, why one was chosen, and its evidence; of rapid, what draft tokens "
        "came to.",
    ),
]
WAITED_FOR = {DRAFTS: "Drafting", RAPID: "Reading the document"}
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
            "evidence; rapid: read a whole document, that of --document or of the best passage, "
            "and draft tokens from its best part.",
        ),
    ] = "plain",
    k: TopK = None,
    target: Target = None,
    drafter: Drafter = None,
    preset: Preset = None,
    threshold: Threshold = None,
    drafting: Drafting = None,
    mode: Mode = None,
    eta: Eta = None,
    draft_tokens: DraftTokens = None,
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
        tokens__drafter=one_of("--drafting", drafting, "drafter"),
        tokens__mode=one_of("--mode", mode, "mode"),
        tokens__eta=eta,
        tokens__num_draft_tokens=draft_tokens,
    )
    check_options(
        method,
        config,
        explain=explain,
        drafter=drafter,
        inject=inject,
        preset=preset,
        threshold=threshold,
        drafting=drafting,
        mode=mode,
        eta=eta,
        draft_tokens=draft_tokens,
    )
    text = text_of(question)
    with KnowledgeBase.open(config, create=False) as knowledge:
        note_words_only(knowledge)
        chosen = search_filter(knowledge.store, documents, kinds, metadata)
        engine = _engine(knowledge, method)
        if as_json:
            with waiting(WAITED_FOR.get(method, "Answering")):
                answer = engine.ask(text, method=method, filter=chosen)
            say_json(answer_json(answer))
            return
        events = engine.stream(text, method=method, filter=chosen)
        answer = print_answer(awaited(events, WAITED_FOR.get(method, "Answering")))
        if explain:
            _explain(answer, knowledge)


def awaited(
    events: Iterator[str | Citation | Answer], description: str
) -> Iterator[str | Citation | Answer]:
    """Yield ``events``, telling who waits for the first of them what takes so long."""
    with waiting(description):
        first = next(events)
    yield first
    yield from events


def _explain(answer: Answer, knowledge: KnowledgeBase) -> None:
    """Print all that was drafted, if this is what was answered."""
    if answer.speculation:
        say()
        for row in table(answer.speculation):
            say(row)
    if not answer.audit:
        if not answer.speculation:
            note("There is nothing to explain: nothing was drafted.")
        return
    say()
    for row in tables(answer.audit):
        say(row)
    if answer.audit["candidates"]:
        say()
    for line in evidence(answer.audit, knowledge.store.passage, is_coloured=is_coloured()):
        say_styled(line)


def _engine(knowledge: KnowledgeBase, method: str) -> Engine:
    with working("Loading the models"):
        from readahead.engine import Engine  # takes seconds: after what may be wrong

        return Engine(knowledge).load(method)
