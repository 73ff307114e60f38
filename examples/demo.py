"""Ask three questions of the sample documents: English, Chinese, and one they cannot answer.

The knowledge base stays in ``.demo``, so that you can go on asking it.
"""

import os
from pathlib import Path

from readahead import Answer, Citation, Engine, load_config, pull
from readahead.cli.output import DownloadBar, figures_line

DOCUMENTS = os.path.relpath(Path(__file__).parent / "documents")
QUESTIONS = (
    "How many visitors came to the observatory in 2025?",
    "中文导览什么时候开始？",
    "How much does it cost to hire the dome for a wedding?",
)


def main() -> None:
    """Index the samples, ask, and print what came of it."""
    config = load_config({"kb": ".demo"})
    with DownloadBar() as bar:
        for name in (config.models.target, config.models.embedder):
            pull(name, progress=bar)
    print("Loading the models and reading the sample documents …", flush=True)
    with Engine.open(config) as engine:
        report = engine.load().knowledge.add([DOCUMENTS])
        print(f"{report.added} files added, {report.unchanged} unchanged")
        for question in QUESTIONS:
            ask(engine, question)
    print("\nGo on:  .venv/bin/readahead --kb .demo ask 'Who founded the observatory?'")


def ask(engine: Engine, question: str) -> None:
    """Print the answer while it is written, then its sources and figures."""
    print(f"\n? {question}\n  ", end="", flush=True)
    for event in engine.stream(question):
        if isinstance(event, str):
            print(event, end="", flush=True)
        elif isinstance(event, Answer):
            print(*map(cited, event.citations), sep="")
            if event.abstained:
                print("  (abstained: the passages do not hold the answer)")
            print(f"  {figures_line(event)}")


def cited(citation: Citation) -> str:
    """Return the line that shows a citation."""
    page = f", page {citation.page}" if citation.page else ""
    words = " ".join(citation.text.split())
    return f"\n  [{citation.marker}] {citation.document}{page}: “{words}”"


if __name__ == "__main__":
    main()
