"""Read-Ahead Generation: speculative retrieval-augmented generation that checks its guesses."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from readahead.config import Config, load_config
    from readahead.engine import Engine
    from readahead.errors import ReadaheadError
    from readahead.knowledge import KnowledgeBase
    from readahead.lm.weights import pull
    from readahead.retrieval.base import Filter
    from readahead.session import DocumentChat, Session
    from readahead.types import Answer, Citation, Document, Hit, Passage

__version__ = "0.1.0"

_HOMES = {
    "Answer": "readahead.types",
    "Citation": "readahead.types",
    "Config": "readahead.config",
    "Document": "readahead.types",
    "DocumentChat": "readahead.session",
    "Engine": "readahead.engine",
    "Filter": "readahead.retrieval.base",
    "Hit": "readahead.types",
    "KnowledgeBase": "readahead.knowledge",
    "Passage": "readahead.types",
    "ReadaheadError": "readahead.errors",
    "Session": "readahead.session",
    "load_config": "readahead.config",
    "pull": "readahead.lm.weights",
}

logging.getLogger("readahead").addHandler(logging.NullHandler())  # who wants it logged says so

__all__ = [
    "Answer",
    "Citation",
    "Config",
    "Document",
    "DocumentChat",
    "Engine",
    "Filter",
    "Hit",
    "KnowledgeBase",
    "Passage",
    "ReadaheadError",
    "Session",
    "__version__",
    "load_config",
    "pull",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: the command line must not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'readahead' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
