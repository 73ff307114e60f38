"""A conversation: what is typed, what is read ahead for it, and its answers."""

from readahead.session.document_chat import DocumentChat
from readahead.session.said import Turn
from readahead.session.session import Session
from readahead.session.status import Status

__all__ = ["DocumentChat", "Session", "Status", "Turn"]
