"""Answers in the shapes of OpenAI's completions, of chats above all; decides nothing."""

from __future__ import annotations

import dataclasses
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from readahead.types import Answer, Citation, FinishReason, Usage

_CHUNK = ".chunk"
_MARKER = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Envelope:
    """What all parts of one completion carry.

    Attributes:
        kind: What a whole one is called.
        is_counted: Whether each part of a stream has the field ``usage``, null but in the last.
    """

    model: str
    kind: str
    id: str
    is_counted: bool = False
    created: int = field(default_factory=lambda: int(time.time()))

    @classmethod
    def of_chat(cls, model: str, *, is_counted: bool = False) -> Self:
        """Return that of a new chat completion."""
        return cls(model, "chat.completion", f"chatcmpl-{secrets.token_hex(12)}", is_counted)

    @classmethod
    def of_text(cls, model: str, *, is_counted: bool = False) -> Self:
        """Return that of a new text completion."""
        return cls(model, "text_completion", f"cmpl-{secrets.token_hex(12)}", is_counted)

    def around(
        self,
        choices: Sequence[Mapping[str, object]],
        usage: Mapping[str, object] | None = None,
        *,
        suffix: str = "",
    ) -> dict[str, object]:
        """Return a completion or, of texts, a part of one; ``suffix`` goes behind its kind."""
        return {
            "id": self.id,
            "object": self.kind + suffix,
            "created": self.created,
            "model": self.model,
            "choices": list(choices),
            **({"usage": usage} if usage is not None or self.is_counted else {}),
        }

    def chunk(
        self,
        delta: Mapping[str, object],
        index: int = 0,
        *,
        finish_reason: str | None = None,
        logprobs: Mapping[str, object] | None = None,
    ) -> dict[str, object]:
        """Return a part of a chat completion."""
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        return self.around([choice], suffix=_CHUNK)

    def last(self, usage: Mapping[str, object]) -> dict[str, object]:
        """Return the part that tells the usage of all."""
        return self.around([], usage, suffix=_CHUNK)


def usage_json(usages: Sequence[Usage]) -> dict[str, object]:
    """Return what the choices of one request used: they have the prompt in common."""
    prompt_tokens = usages[0].prompt_tokens if usages else 0
    completion_tokens = sum(usage.completion_tokens for usage in usages)
    cached_tokens = min(usages[0].reused_tokens, prompt_tokens) if usages else 0
    details: dict[str, object] = {"prompt_tokens_details": {"cached_tokens": cached_tokens}}
    return tokens_json(prompt_tokens, completion_tokens) | details


def tokens_json(num_prompt_tokens: int, num_new_tokens: int) -> dict[str, object]:
    """Return how many tokens were read and written."""
    return {
        "prompt_tokens": num_prompt_tokens,
        "completion_tokens": num_new_tokens,
        "total_tokens": num_prompt_tokens + num_new_tokens,
    }


def told_reason(reason: FinishReason) -> str:
    """Return why an answer ended, in OpenAI's words, which have none for what was cancelled."""
    return "length" if reason == "length" else "stop"


def citation_json(citation: Citation) -> dict[str, object]:
    """Return a citation, with the id of its document."""
    return {
        **dataclasses.asdict(citation),
        "document_id": citation.passage_id.partition(".")[0],
    }


def answer_json(answer: Answer, session: str | None = None) -> dict[str, object]:
    """Return all that OpenAI's fields have no place for."""
    fields = dataclasses.asdict(answer)
    del fields["text"]
    fields["citations"] = [citation_json(citation) for citation in answer.citations]
    return fields if session is None else fields | {"session": session}


def message_json(answer: Answer) -> dict[str, object]:
    """Return the message of an answer; each marker in it is annotated with what it cites."""
    return {
        "role": "assistant",
        "content": answer.text,
        "refusal": None,
        "annotations": annotations_json(answer),
    }


def annotations_json(answer: Answer) -> list[dict[str, object]]:
    """Return what each marker of an answer cites, in OpenAI's shape."""
    cited = {citation.marker: citation for citation in answer.citations}
    return [
        _annotation(match, cited[int(match[1])])
        for match in _MARKER.finditer(answer.text)
        if int(match[1]) in cited
    ]


def _annotation(match: re.Match[str], citation: Citation) -> dict[str, object]:
    document_id = citation.passage_id.partition(".")[0]
    return {
        "type": "url_citation",
        "url_citation": {
            "start_index": match.start(),
            "end_index": match.end(),
            "title": " > ".join(citation.heading) or citation.document,
            "url": f"/v1/documents/{document_id}#{citation.start}-{citation.end}",
        },
    }
