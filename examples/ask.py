"""Ask your own documents: ``python examples/ask.py FOLDER "QUESTION"``."""

import sys

from readahead import Engine, load_config, pull

config = load_config({"kb": "my-knowledge"})
for model in (config.models.target, config.models.embedder):
    pull(model)

with Engine.open(config) as engine:
    engine.knowledge.add([sys.argv[1]])
    answer = engine.ask(sys.argv[2])

print(answer.text)
for citation in answer.citations:
    print(f"[{citation.marker}] {citation.document}: “{citation.text}”")
