"""Draft several answers, choose by evidence, and see why: documents that contradict each other.

``python examples/drafted.py ["QUESTION"]``
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from readahead import Engine, load_config, pull

DOCUMENTS = {
    "keeper.txt": "The lamp of Skerry was first lit in 1846, wrote Anna Moll, its keeper.",
    "register.txt": "The register says that the lamp of Skerry was first lit in 1846.",
    "guide.txt": "The lamp of Skerry was first lit in 1852, as an old travel guide has it.",
    "oil.txt": "The lamp of Skerry burned whale oil until 1901, and paraffin from then on.",
}
QUESTION = "When was the lamp of Skerry first lit?"


def main() -> None:
    """Ask by drafts, and print the answer with its audit."""
    question = sys.argv[1] if len(sys.argv) > 1 else QUESTION
    with tempfile.TemporaryDirectory() as folder:
        settings = {"kb": f"{folder}/knowledge", "drafts.adaptive": False}
        config = load_config(settings)
        for model in (config.models.target, config.models.embedder):
            pull(model)
        with Engine.open(config) as engine:
            for name, text in DOCUMENTS.items():
                Path(folder, name).write_text(text, encoding="utf-8")
            engine.knowledge.add([Path(folder, name) for name in DOCUMENTS])
            answer = engine.ask(question, method="drafts")

    audit: Any = answer.audit
    print(f"? {question}\n{answer.text}\n")
    for note in answer.notes:
        print(f"  note: {note}")
    for draft in audit.get("drafts", ()):  # none where a plain answer stepped in
        print(f"  draft from {', '.join(draft['passages'])}: {draft['answer']} {draft['fault']}")
    for candidate in audit.get("candidates", ()):
        verdict = candidate["reason"] or "selected"
        print(f"  {candidate['probability']:.2f}  {candidate['answer']}  ({verdict})")
        for one in candidate["evidence"]:
            print(f"        {Path(one['document']).name}: “{one['text']}”")


if __name__ == "__main__":
    main()
