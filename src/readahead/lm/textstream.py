"""Token ids to text, released as soon as it is certain; knows no model."""

from __future__ import annotations

from collections.abc import Sequence

from readahead.lm.tokenizer import Tokenizer

_INCOMPLETE = "\ufffd"


class TextStream:
    """Turns tokens into text piece by piece.

    Half a character waits for its other half, and what may be the beginning of a stop string
    waits until it is not. The pieces joined equal the text decoded at once, cut at the stop string.
    """

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = ()) -> None:
        self.stopped = False
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._ids: list[int] = []
        # Tokens before `_decoded` are text already; those from `_context` on are decoded again
        # each time, because what a token reads as may depend on the one before it.
        self._context = 0
        self._decoded = 0
        self._held = ""

    def push(self, token_id: int) -> str:
        """Return the text that became certain with this token; it may be empty."""
        self._ids.append(token_id)
        text = self._new_text()
        if not text or text.endswith(_INCOMPLETE):  # a special token has no text
            return ""
        self._context, self._decoded = self._decoded, len(self._ids)
        return self._release(text)

    def finish(self) -> str:
        """Return what was still held back; nothing after a stop string."""
        if self.stopped:
            return ""
        text = self._release(self._new_text()) + self._held
        self._decoded = len(self._ids)
        self._held = ""
        return text

    def _new_text(self) -> str:
        known = self._tokenizer.decode(self._ids[self._context : self._decoded])
        return self._tokenizer.decode(self._ids[self._context :])[len(known) :]

    def _release(self, text: str) -> str:
        text = self._held + text
        found = [at for stop in self._stop if (at := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            self._held = ""
            return text[: min(found)]
        num_held = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._held = text[len(text) - num_held :]
        return text[: len(text) - num_held]


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of ``text`` that begins ``stop``."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
