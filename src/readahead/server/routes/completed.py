"""Completions in the shape of OpenAI's older API, log-probabilities included; decides nothing."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from readahead.lm.batch import Alternatives
from readahead.lm.spelling import spelled
from readahead.lm.tokenizer import Tokenizer
from readahead.server.schemas.replies import told_reason
from readahead.types import FinishReason

Part = dict[str, object]
"""One entry of ``choices``: of a stream, what is new of it."""
LISTS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


class Choice:
    """One choice while it is written.

    Args:
        index: Its place among the choices.
        tokenizer: The target's.
        with_logprobs: Whether they are told.
    """

    def __init__(self, index: int, tokenizer: Tokenizer, *, with_logprobs: bool) -> None:
        self._index = index
        self._tokenizer = tokenizer
        self._with_logprobs = with_logprobs
        # A token may be half a character; the next one begins where that character does.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._offset = 0

    def part(
        self,
        text: str,
        token_ids: Sequence[int],
        logprobs: Sequence[float | None],
        top: Sequence[Alternatives],
        finish_reason: FinishReason | None = None,
    ) -> Part:
        """Return what is new of it.

        Args:
            text: What was added.
            token_ids: Likewise; may be of text that comes later, or is cut off at a stop string.
            logprobs: One a token, None where there is none.
            top: One a token, empty where the token itself is all that is told.
            finish_reason: Why it ends here.
        """
        return {
            "index": self._index,
            "text": text,
            "logprobs": self._told(token_ids, logprobs, top) if self._with_logprobs else None,
            # OpenAI has no word for what was cancelled.
            "finish_reason": finish_reason and told_reason(finish_reason),
        }

    def _told(
        self,
        token_ids: Sequence[int],
        logprobs: Sequence[float | None],
        top: Sequence[Alternatives],
    ) -> dict[str, list[object]]:
        told: dict[str, list[object]] = {name: [] for name in LISTS}
        for token_id, logprob, likely in zip(
            token_ids, logprobs, top or [()] * len(token_ids), strict=True
        ):
            all_told = {self._spelled(i): value for i, value in likely}
            told["tokens"].append(self._spelled(token_id))
            told["token_logprobs"].append(logprob)
            told["top_logprobs"].append(
                None if logprob is None else {self._spelled(token_id): logprob} | all_told
            )
            told["text_offset"].append(self._offset)
            self._advance(token_id)
        return told

    def _spelled(self, token_id: int) -> str:
        return spelled(self._tokenizer.token_bytes(token_id))

    def _advance(self, token_id: int) -> None:
        if not self._tokenizer.is_special(token_id):
            self._offset += len(self._decoder.decode(self._tokenizer.token_bytes(token_id)))


def joined(parts: Sequence[Part]) -> list[Part]:
    """Return whole choices, of the parts of all of them."""
    choices: dict[object, Part] = {}
    for part in parts:
        before = choices.setdefault(part["index"], part)
        if before is not part:
            choices[part["index"]] = {
                **part,
                "text": f"{before['text']}{part['text']}",
                "logprobs": _joined_logprobs(before["logprobs"], part["logprobs"]),
            }
    return list(choices.values())


def _joined_logprobs(before: object, behind: object) -> object:
    if not isinstance(before, dict) or not isinstance(behind, dict):
        return None
    return {name: before[name] + behind[name] for name in LISTS}
