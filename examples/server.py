"""Serve documents and ask them with OpenAI's client: a stream, its citations, a question typed.

``python examples/server.py FOLDER "QUESTION"``
"""

import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from openai import OpenAI

from readahead import load_config, pull
from readahead.evaluation.typing import type_out
from readahead.server.app import create_app
from readahead.server.state import Service


@contextmanager
def served(folder: str) -> Iterator[str]:
    """Do in a thread what ``readahead add`` and ``readahead serve`` do."""
    config = load_config({"kb": "my-knowledge"})
    for model in (config.models.target, config.models.embedder):
        pull(model)
    service = Service(config)
    service.tenant().engine.load().knowledge.add([folder])
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(service), log_level="error"))
    thread = threading.Thread(target=server.run, args=[[listener]], daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    server.should_exit = True
    thread.join()


def ask(client: OpenAI, question: str, **readahead: str) -> None:
    """Print an answer as it is written, then what it cites."""
    chunks: Any = client.chat.completions.create(
        model="readahead",
        messages=[{"role": "user", "content": question}],
        stream=True,
        extra_body={"readahead": readahead},
    )
    for chunk in chunks:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
    print(f"\n  first token after {chunk.readahead['timing']['ttft_s']:.2f} s")
    for citation in chunk.readahead["citations"]:
        print(f"  [{citation['marker']}] {citation['document']}: “{citation['text']}”")


with served(sys.argv[1]) as url, OpenAI(base_url=url, api_key="none") as client:
    ask(client, sys.argv[2], method="plain")
    session: Any = client.post("/sessions", cast_to=object, body={})
    path = f"/sessions/{session['id']}/typing"
    type_out(sys.argv[2], lambda text: client.post(path, cast_to=object, body={"text": text}))
    ask(client, sys.argv[2], session=session["id"])
