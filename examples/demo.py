"""Ask the sample documents: English, Chinese, what they cannot answer, typed ahead, by drafts.

The knowledge base stays in ``.demo``, so that you can go on asking it.
"""

import os
from pathlib import Path

from readahead import Answer, Engine, Session, load_config, pull
from readahead.cli.output import DownloadBar, print_answer
from readahead.evaluation.typing import type_out

DOCUMENTS = os.path.relpath(Path(__file__).parent / "documents")
QUESTIONS = (
    "How many visitors came to the observatory in 2025?",
    "中文导览什么时候开始？",
    "How much does it cost to hire the dome for a wedding?",
)
DRAFTED = "Who founded the observatory?"
TYPED = ("How much did the refurbishment of the dome cost?", "And who did the work?")


def main() -> None:
    """Index the samples, ask, and print what came of it."""
    config = load_config({"kb": ".demo", "prefetch.num_suggestions": 0, "drafts.num_drafts": 4})
    with DownloadBar() as bar:
        for name in (config.models.target, config.models.embedder):
            pull(name, progress=bar)
    print("Loading the models and reading the sample documents …", flush=True)
    with Engine.open(config) as engine:
        report = engine.load().knowledge.add([DOCUMENTS])
        print(f"{report.added} files added, {report.unchanged} unchanged")
        for question in QUESTIONS:
            print(f"\n? {question}", flush=True)
            print_answer(engine.stream(question))
        type_ahead(engine)
        print(f"\n? {DRAFTED}   (drafts of single passages, chosen by evidence)", flush=True)
        print_answer(engine.stream(DRAFTED, method="drafts"))
    print("\nGo on:  .venv/bin/readahead --kb .demo ask 'Who founded the observatory?'")
    print("Or in a browser:  .venv/bin/readahead --kb .demo serve")
    print(f"  and open  http://{config.server.host}:{config.server.port}")


def type_ahead(engine: Engine) -> None:
    """Type a question and a follow-up in real time; asked plainly, each stands for itself."""
    print("\nTyped at three words a second; seconds from Enter to the first token:")
    print(f"  {'plainly':>8}  {'typed ahead':>11}")
    with Session(engine) as session:
        for question in TYPED:
            plain = engine.ask(question)
            type_out(question, session.type)
            *_, ahead = session.submit(question)
            assert isinstance(ahead, Answer)
            times = f"  {plain.timing.ttft_s:8.2f}  {ahead.timing.ttft_s:11.2f}"
            print(f"{times}  {question}\n{'':25}plainly: {plain.text}\n{'':25}typed: {ahead.text}")


if __name__ == "__main__":
    main()
