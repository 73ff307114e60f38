"""Ask three questions of the sample documents: English, Chinese, and one they cannot answer."""

import tempfile
from pathlib import Path

from readahead import Answer, Engine, load_config, pull
from readahead.cli.output import DownloadBar, citation_lines, figures_line, say

DOCUMENTS = Path(__file__).parent / "documents"
QUESTIONS = (
    "How many visitors came to the observatory in 2025?",
    "中文导览什么时候开始？",
    "How much does it cost to hire the dome for a wedding?",
)


def main() -> None:
    """Index the samples into a temporary knowledge base, ask, and print what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        config = load_config({"kb": Path(folder) / "kb"})
        with DownloadBar() as bar:
            for name in (config.models.target, config.models.embedder):
                pull(name, progress=bar)
        with Engine.open(config) as engine:
            report = engine.knowledge.add([DOCUMENTS])
            say(
                f"{report.added} files, {report.passages} passages, "
                f"indexed in {report.seconds:.1f} s\n"
            )
            for question in QUESTIONS:
                ask(engine, question)


def ask(engine: Engine, question: str) -> None:
    """Print the answer while it is written, then its sources and figures."""
    say(f"? {question}\n  ", end="")
    for event in engine.stream(question):
        if isinstance(event, str):
            say(event, end="")
        elif isinstance(event, Answer):
            say()
            for citation in event.citations:
                say(citation_lines(citation))
            if event.abstained:
                say("  (abstained: the passages do not hold the answer)")
            say(f"  {figures_line(event)}\n")


if __name__ == "__main__":
    main()
