"""Type a question in real time, and see what is ready when Enter is struck.

``python examples/typed_ahead.py FOLDER "QUESTION" ["NEXT QUESTION" …]``
"""

import sys

from readahead import Answer, Engine, Session, load_config, pull
from readahead.evaluation.typing import type_out

config = load_config({"kb": "my-knowledge"})
for model in (config.models.target, config.models.embedder):
    pull(model)

with Engine.open(config) as engine, Session(engine) as session:
    engine.knowledge.add([sys.argv[1]])
    for question in sys.argv[2:]:
        plain = engine.ask(question)

        type_out(question, session.type)  # calls session.type at each stroke
        ready = session.status
        print(f"? {question}\n  read ahead: {ready.num_tokens} tokens of {ready.passages}")

        for event in session.submit(question):
            if isinstance(event, str):
                print(event, end="", flush=True)
            elif isinstance(event, Answer):
                print(
                    f"\n  first token after {event.timing.ttft_s:.2f} s, "
                    f"plainly after {plain.timing.ttft_s:.2f} s"
                )
