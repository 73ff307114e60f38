"""The answer so far: its tokens, its text, the sentence being written; knows no model.

What has been released to the reader cannot be taken back; what is held can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from readahead.evidence import is_refusal
from readahead.evidence.terms import read_terms
from readahead.lm.generate import Piece
from readahead.lm.textstream import TextStream
from readahead.lm.tokenizer import Tokenizer
from readahead.speculation.retrieval.signals import TokenSignals
from readahead.text import fold, is_cjk, sentences, words
from readahead.types import FinishReason

MAX_HELD_TOKENS = 12  # of a sentence that may yet become a refusal
CERTAIN_NATS = 1.0  # words over this do not go into a query

# A sentence of nothing but these may be about to decline; any other word settles that it is not.
_REFUSAL_WORDS = frozenset(
    "a about above again all am an and answer any are as article articles available based be but "
    "by can cannot could contain contained content context contexts did do document documents does "
    "don doesn enough explicitly find following for from give given have has however i i'm in "
    "include included information is isn it know mention mentioned n't don't doesn't isn't can't "
    "no none not of on or passage passages provide provided question regarding relevant say "
    "so sorry source sources specific specifically state stated supplied sure t tell text texts "
    "that the there these they this to unable unfortunately unknown was were what which with you "
    "your i’m don’t doesn’t isn’t can’t".split()
)
_REFUSAL_CHARS = frozenset(
    "根据提供的段落文章资料信息上下内容中里内没有未能提到及说明包含给出涉关于任何答案问题我无法"
    "不能知道清楚回答确定很抱歉对不起因此所以从这些以"
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token of the answer.

    Attributes:
        end: The length of the text once it was written.
    """

    id: int
    logprob: float
    signals: TokenSignals
    end: int


class Written:
    """An answer while it is being written."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = ()) -> None:
        self.tokens: list[Token] = []
        self.text = ""
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._stream = TextStream(tokenizer, self._stop)
        self._num_released = self._released_end = 0  # tokens, characters

    def push(self, token_id: int, logprob: float, signals: TokenSignals) -> None:
        """Add a token."""
        self.text += self._stream.push(token_id)
        self.tokens.append(Token(token_id, logprob, signals, len(self.text)))

    def finish(self) -> None:
        """Add what was held back of the text, at the end of the answer."""
        self.text += self._stream.finish()

    def release(self, num_tokens: int, finish_reason: FinishReason | None = None) -> Piece:
        """Return what of the first ``num_tokens`` is not released yet; at the end the rest of all.

        What was released stays released, also where that is more than ``num_tokens``.
        """
        if finish_reason:
            self.finish()
        count = max(num_tokens, self._num_released)
        tokens = self.tokens[self._num_released : count]
        end = self.tokens[count - 1].end if count else 0
        if count == len(self.tokens):
            end = len(self.text)
        text = self.text[self._released_end : end]
        self._num_released, self._released_end = count, max(end, self._released_end)
        return Piece(
            text,
            tuple(token.id for token in tokens),
            tuple(token.logprob for token in tokens),
            finish_reason,
        )

    def cut(self, num_tokens: int) -> None:
        """Keep the first ``num_tokens``, and what was released in any case."""
        kept = self.tokens[: max(num_tokens, self._num_released)]
        self.tokens, self.text = [], ""
        self._stream = TextStream(self._tokenizer, self._stop)
        for token in kept:
            self.push(token.id, token.logprob, token.signals)

    def sentence_start(self) -> int:
        """Return how many tokens stand before the sentence being written."""
        spans = sentences(self.text)
        ends = [0, *(token.end for token in self.tokens)]
        # A token that ends no character yet adds no text; it belongs to the character's sentence.
        before = max(end for end in ends if end <= (spans[-1][0] if spans else 0))
        return ends.index(before)

    def sentence(self) -> str:
        """Return the sentence being written."""
        spans = sentences(self.text)
        return self.text[spans[-1][0] :] if spans else ""

    def certain_words(self) -> str:
        """Return the sentence being written without the words that the model was not sure of.

        The last word, which the last token begins, is left out in any case.
        """
        spans = sentences(self.text)
        start = spans[-1][0] if spans else 0
        stop = self.tokens[-2].end if len(self.tokens) > 1 else 0
        sure = [
            self.text[begin:end]
            for begin, end in words(self.text)
            if begin >= start and end <= stop and self._doubt(begin, end) < CERTAIN_NATS
        ]
        return " ".join(sure)

    def _doubt(self, begin: int, end: int) -> float:
        """Return the largest entropy of the tokens of the word at ``[begin, end)``."""
        doubt, reached = 0.0, 0
        for token in self.tokens:
            if token.end > begin and reached < end:
                doubt = max(doubt, token.signals.entropy)
            reached = token.end
        return doubt

    def begins_content_word(self) -> bool:
        """Return whether the last token is the beginning of a word that says something."""
        before = self.tokens[-2].end if len(self.tokens) > 1 else 0
        piece = self.text[before:]
        inside = bool(self.text[:before]) and self.text[before - 1].isalnum()
        if inside and piece[:1].isalnum() and not is_cjk(piece[0]):
            return False
        return bool(read_terms(piece).content)

    def jump(self) -> float:
        """Return by how many nats the last token's entropy is above the mean of those before."""
        if len(self.tokens) < 2:
            return 0.0
        before = [token.signals.entropy for token in self.tokens[:-1]]
        return self.tokens[-1].signals.entropy - sum(before) / len(before)

    def may_decline(self) -> bool:
        """Return whether the sentence being written is a refusal, or may yet become one."""
        sentence = self.sentence()
        if len(self.tokens) - self.sentence_start() > MAX_HELD_TOKENS:
            return False
        folded = fold(sentence)
        said = [folded[start:end] for start, end in words(folded)]
        if said and not is_cjk(said[-1]) and folded.endswith(said[-1]):
            said.pop()  # it may not be finished
        return is_refusal(sentence) or all(
            word in (_REFUSAL_CHARS if is_cjk(word) else _REFUSAL_WORDS) for word in said
        )
