"""The commands that ask: search, ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from readahead.cli.explain import evidence, tables
from readahead.cli.filters import Documents, Kinds, Metadata, search_filter
from readahead.cli.methods import DRAFTS, OPTIONS, PLAIN, RAPID, check_options
from readahead.cli.options import (
    Device,
    Drafter,
    Drafting,
    DraftTokens,
    Eta,
    Explain,
    Inject,
    Json,
    Kb,
    LexicalOnly,
    MaxNewTokens,
    Method,
    Mode,
    Precision,
    Preset,
    Question,
    Seed,
    Target,
    Temperature,
    Threshold,
    TopK,
    given,
    note_words_only,
    of_tokens,
    settings,
    text_of,
    threshold_of,
)
from readahead.cli.output import (
    answer_json,
    is_coloured,
    note,
    one_line,
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
        say_json({"hits": [{**hit.passage.to_json(), "score": hit.score} for hit in hits]})
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
    question: Question,
    kb: Kb = None,
    method: Method = PLAIN,
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
        **of_tokens(drafting, mode, eta, draft_tokens),
    )
    check_options(method, config, **given(context, OPTIONS))
    text = text_of(question)
    with KnowledgeBase.open(config, create=False) as knowledge:
        note_words_only(knowledge)
        chosen = search_filter(knowledge.store, documents, kinds, metadata)
        events = _engine(knowledge, method).stream(text, method=method, filter=chosen)
        if as_json:
            _say_json(events, method)
            return
        answer = print_answer(awaited(events, WAITED_FOR.get(method, "Answering")))
        if explain:
            _explain(answer, knowledge)


def _say_json(events: Iterator[str | Citation | Answer], method: str) -> None:
    with waiting(WAITED_FOR.get(method, "Answering")):
        *_, answer = events
    assert isinstance(answer, Answer)
    say_json(answer_json(answer))


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
    drafted = "num_rounds" in answer.speculation
    if drafted:
        say()
        for row in table(answer.speculation):
            say(row)
    if not answer.audit:
        if not drafted:
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
