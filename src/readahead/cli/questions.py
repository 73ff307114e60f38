"""The commands that ask: search, ask, chat, and the trace of what was asked."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from readahead.cli.options import (
    Device,
    Documents,
    Json,
    Kb,
    Kinds,
    LexicalOnly,
    Metadata,
    Precision,
    Target,
    TopK,
    search_filter,
    settings,
)
from readahead.cli.output import (
    answer_json,
    citation_lines,
    figures_line,
    note,
    say,
    say_json,
)
from readahead.errors import InputError
from readahead.knowledge import STDIN, KnowledgeBase
from readahead.types import Answer

MaxNewTokens = Annotated[int | None, typer.Option(help="The answer's length limit, in tokens.")]
Temperature = Annotated[float | None, typer.Option(help="0 takes the most likely token.")]
Seed = Annotated[int | None, typer.Option(help="Seeds the sampling.")]
TIMELINE_COLUMNS = 48


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="Any text; - reads stdin.")],
    kb: Kb = None,
    k: TopK = None,
    documents: Documents = None,
    kinds: Kinds = None,
    metadata: Metadata = None,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Show the passages that fit a query best."""
    config = settings(context, kb, lexical_only=lexical_only, retrieval__k=k)
    with KnowledgeBase.open(config, create=False) as knowledge:
        hits = knowledge.search(
            _text(query), config.retrieval.k, filter=search_filter(documents, kinds, metadata)
        )
    if as_json:
        rows = [
            {
                "passage_id": hit.passage.id,
                "document": hit.passage.document,
                "heading": list(hit.passage.heading),
                "kind": hit.passage.kind,
                "page": hit.passage.page,
                "score": hit.score,
                "text": hit.passage.text,
                "start": hit.passage.start,
                "end": hit.passage.end,
            }
            for hit in hits
        ]
        say_json({"hits": rows})
        return
    if not hits:
        note("Nothing found.")
    for rank, hit in enumerate(hits, start=1):
        passage = hit.passage
        say(f"{rank}. {passage.document} · {' > '.join(passage.heading)}  ({passage.id})")
        say("   " + " ".join(passage.text.split())[:240])


def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(help="The question; - reads stdin.")],
    kb: Kb = None,
    method: Annotated[str, typer.Option(help="plain: retrieve, then answer.")] = "plain",
    k: TopK = None,
    target: Target = None,
    device: Device = None,
    dtype: Precision = None,
    max_new_tokens: MaxNewTokens = None,
    temperature: Temperature = None,
    seed: Seed = None,
    documents: Documents = None,
    kinds: Kinds = None,
    metadata: Metadata = None,
    lexical_only: LexicalOnly = False,
    as_json: Json = False,
) -> None:
    """Answer a question from the documents, with citations."""
    from readahead.engine import Engine

    config = settings(
        context,
        kb,
        lexical_only=lexical_only,
        retrieval__k=k,
        models__target=target,
        models__device=device,
        models__dtype=dtype,
        generation__max_new_tokens=max_new_tokens,
        generation__temperature=temperature,
        generation__seed=seed,
    )
    chosen = search_filter(documents, kinds, metadata)
    with KnowledgeBase.open(config, create=False) as knowledge:
        engine = Engine(knowledge)
        text = _text(question)
        if as_json:
            say_json(answer_json(engine.ask(text, method=method, filter=chosen)))
            return
        for event in engine.stream(text, method=method, filter=chosen):
            if isinstance(event, str):
                say(event, end="")
            elif isinstance(event, Answer):
                _finish(event)


def _finish(answer: Answer) -> None:
    """Print what follows an answer's text."""
    say()
    for citation in answer.citations:
        say(citation_lines(citation))
    if answer.abstained:
        say("  (abstained: the passages do not hold the answer)")
    for text in answer.notes:
        note(f"  note: {text}")
    note(f"  {figures_line(answer)}")


def chat(
    context: typer.Context,
    kb: Kb = None,
    k: TopK = None,
    target: Target = None,
    device: Device = None,
    dtype: Precision = None,
    lexical_only: LexicalOnly = False,
) -> None:
    """Answer one question a line, until the input ends; each stands for itself."""
    from readahead.engine import Engine

    config = settings(
        context,
        kb,
        lexical_only=lexical_only,
        retrieval__k=k,
        models__target=target,
        models__device=device,
        models__dtype=dtype,
    )
    with KnowledgeBase.open(config, create=False) as knowledge:
        engine = Engine(knowledge)
        note(f"Ask about {len(knowledge.store.documents())} documents; an empty line ends.")
        while question := _read_line():
            try:
                for event in engine.stream(question):
                    if isinstance(event, str):
                        say(event, end="")
                    elif isinstance(event, Answer):
                        _finish(event)
            except InputError as error:
                note(f"error: {error}")


def _read_line() -> str:
    if sys.stdin.isatty():
        sys.stderr.write("> ")
        sys.stderr.flush()
    return sys.stdin.readline().strip()


def trace(
    context: typer.Context,
    id: Annotated[
        str | None, typer.Argument(help="A trace's id; without it, the last ones.")
    ] = None,
    kb: Kb = None,
    as_json: Json = False,
) -> None:
    """Show the timeline of a request, or list the last requests."""
    with KnowledgeBase.open(settings(context, kb), create=False) as knowledge:
        found = [knowledge.store.trace(id)] if id else knowledge.store.traces()
    if as_json:
        say_json(found[0] if id else {"traces": found})
    elif id:
        _timeline(found[0])
    else:
        for item in found:
            attributes: Any = item["attributes"]
            say(f"{item['id']}  {attributes.get('e2e_s', 0):6.2f} s  {attributes.get('question')}")


def _timeline(trace: Mapping[str, Any]) -> None:
    """Print the spans of a trace as bars on one time axis."""
    spans = trace["spans"]
    end_s = max((span["end_s"] or 0.0 for span in spans), default=0.0) or 1.0
    say(f"{trace['kind']} {trace['id']}: {trace['attributes'].get('question', '')}")
    for span in spans:
        first = int(span["start_s"] / end_s * TIMELINE_COLUMNS)
        last = max(int((span["end_s"] or end_s) / end_s * TIMELINE_COLUMNS), first + 1)
        bar = " " * first + "█" * (last - first)
        times = f"×{span['count']}" if span["count"] != 1 else ""
        details = ", ".join(f"{key} {value}" for key, value in span["attributes"].items())
        say(
            f"  {span['name']:<9} {span['start_s']:7.3f} s {span['busy_s']:7.3f} s {times:>5} "
            f"│{bar:<{TIMELINE_COLUMNS}}│ {details}"
        )
    for name, value in sorted(trace["counters"].items()):
        say(f"  {name:<22} {value}")
    if answer := trace["attributes"].get("answer"):
        say(f"  {answer}")


def _text(argument: str) -> str:
    """Return the argument, or stdin's text for ``-``.

    Raises:
        InputError: There is no text.
    """
    text = sys.stdin.read() if argument == STDIN else argument
    if not text.strip():
        raise InputError("The query is blank.", remedy="Give some text, or - to read stdin.")
    return text.strip()
