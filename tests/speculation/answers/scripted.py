"""A text model that says what it is told to, for tests where the wording matters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from readahead.lm.base import Cancelled, Generation, Scored, never
from readahead.lm.prompt import Prompt
from readahead.lm.sample import SamplingParams
from readahead.lm.tokenizer import Tokenizer
from readahead.trace import Trace
from readahead.types import FinishReason, Hit, Passage
from tests.conftest import make_tokenizer

TOKENIZER = Tokenizer(make_tokenizer())


@dataclass
class Scripted:
    """Writes ``reply(prompt text)``; one token a byte, each of the same probability.

    Attributes:
        prompts: The texts of all prompts that it was given to write for.
        read: The token ids of all prompts that it was given to write for.
        scored: The texts of all prompts and continuations that it was given to score.
    """

    reply: Callable[[str], str]
    logprob: float = -0.5
    finish_reason: FinishReason = "stop"
    prompts: list[str] = field(default_factory=list)
    scored: list[tuple[str, str]] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    max_context_tokens: int = 4096
    tokenizer: Tokenizer = TOKENIZER

    def generate(
        self,
        prompts: Sequence[Prompt],
        params: SamplingParams,
        *,
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> list[Generation]:
        self.prompts += [prompt.text for prompt in prompts]
        reason: FinishReason = "cancelled" if cancelled() else self.finish_reason
        written = []
        for prompt in prompts:
            self.read += prompt.token_ids
            said = tuple(self.tokenizer.encode(self.reply(prompt.text)))
            ids = said[: params.max_new_tokens]
            text, logprobs = self.tokenizer.decode(ids), (self.logprob,) * len(ids)
            ended: FinishReason = "length" if len(ids) < len(said) else reason
            written.append(Generation(text, ids, logprobs, ended, len(prompt.token_ids)))
        return written

    def score(
        self,
        prompts: Sequence[Prompt],
        continuations: Sequence[Sequence[int]],
        *,
        options: Sequence[int] = (),
        cancelled: Cancelled = never,
        trace: Trace | None = None,
    ) -> list[Scored]:
        if cancelled():
            return []
        pairs = list(zip(prompts, continuations, strict=True))
        self.scored += [(prompt.text, self.tokenizer.decode(ids)) for prompt, ids in pairs]
        level = (-1.0,) * len(options)
        return [Scored((self.logprob,) * len(ids), level) for _, ids in pairs]


def silent(prompt: str) -> str:
    """Write nothing."""
    return ""


def passage(text: str, place: int = 0) -> Passage:
    return Passage(f"{place}.md", text, 0, len(text), id=f"{place + 1}.1.0")


def hits(*texts: str) -> list[Hit]:
    return [Hit(passage(text, place), 1.0 / (1 + place)) for place, text in enumerate(texts)]
