"""Find sentences that are the same but for a "not", or for a word and its opposite.

The opposites are a short list of common pairs. A word that belongs to what a sentence is about, as
in "the largest room holds 30", has none: the smallest may hold 30, too. That is told from its
place, before anything else is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from readahead.evidence.reading import VALUE, Sentence
from readahead.evidence.scope import DETERMINERS, unmatched
from readahead.text import is_cjk

MIN_SAME_WORDS = 0.85  # of the longer of two sentences, for both to say the same

# One pair a line; all forms of a word are listed, for the irregular ones are the common ones.
_PAIRS = """
rise rises rose risen rising increase increases increased increasing grow grows grew grown growing \
climb climbs climbed climbing soar soared raise raises raised up | fall falls fell fallen falling \
decrease decreases decreased decreasing decline declines declined declining drop drops dropped \
dropping shrink shrank shrunk shrinking sink sank sunk lowered cut cuts reduce reduces reduced down
win wins won winning | lose loses lost losing
gain gains gained | lose loses lost
profit profits profitable | loss losses unprofitable
open opens opened | close closes closed shut
begin begins began begun start starts started | end ends ended finish finishes finished
approve approves approved accept accepts accepted | reject rejects rejected refuse refuses refused \
decline declined veto vetoed
support supports supported favour favoured favor favored | oppose opposes opposed
allow allows allowed permit permits permitted | prohibit prohibits prohibited forbid forbids \
forbade forbidden ban bans banned
enable enables enabled | disable disables disabled
include includes included including | exclude excludes excluded excluding
buy buys bought purchase purchased | sell sells sold
import imports imported | export exports exported
succeed succeeds succeeded | fail fails failed
strengthen strengthened | weaken weakened
legal | illegal
effective | ineffective
safe | unsafe dangerous
guilty | innocent
true | false
public | private
required mandatory compulsory | optional voluntary
before | after
above | below
more | less fewer
higher | lower
larger bigger | smaller
older | younger
longer | shorter
earlier | later
highest | lowest
largest biggest | smallest
oldest | youngest newest
longest | shortest
most | least fewest
maximum | minimum
majority | minority
north northern | south southern
east eastern | west western
上升 上涨 上调 增长 增加 提高 提升 | 下降 下跌 下滑 下调 减少 降低
盈利 | 亏损
赢得 赢了 获胜 | 输掉 输了 落败
同意 批准 通过 接受 | 拒绝 否决
支持 赞成 | 反对
允许 准许 | 禁止
开始 | 结束
进口 | 出口
成功 | 失败
启用 开启 打开 | 禁用 关闭
开放 开门 | 关闭 关门
买入 购买 | 卖出 出售
合法 | 非法 违法
增强 | 减弱
扩大 | 缩小
加快 | 放缓
高于 | 低于
大于 | 小于
多于 | 少于
早于 | 晚于
最高 | 最低
最大 | 最小
最多 | 最少
最早 | 最晚
最长 | 最短
之前 以前 | 之后 以后
以上 | 以下
以北 | 以南
以东 | 以西
"""
_PREPOSITIONS = frozenset("in on at for from by of to with since until".split())


def _read_pairs() -> dict[str, tuple[int, ...]]:
    """Return each word of the list with its sides: n and -n are the two of the nth pair."""
    sides: dict[str, tuple[int, ...]] = {}
    for number, line in enumerate(_PAIRS.strip().splitlines(), 1):
        for side, words in zip((number, -number), line.split(" | "), strict=True):
            for word in words.split():
                sides[word] = (*sides.get(word, ()), side)
    return sides


_SIDES = _read_pairs()
_WORD_RE = re.compile("[a-z]+|" + "|".join(word for word in _SIDES if is_cjk(word[0])), re.I)

Span = tuple[int, int]


class Opposition(NamedTuple):
    """In what a sentence denies a claim, and where in both."""

    kind: Literal["opposite", "negation"]
    found: Span
    claimed: Span


class _Word(NamedTuple):
    """A word with opposites: those with the negative of one of its sides."""

    span: Span
    sides: tuple[int, ...]

    def is_like(self, other: _Word) -> bool:
        return any(side in other.sides for side in self.sides)

    def is_opposite(self, other: _Word) -> bool:
        return any(-side in other.sides for side in self.sides)


@dataclass(frozen=True, slots=True)
class Stance:
    """On which side a sentence stands, apart from the rest that it says.

    Attributes:
        words: Those that have an opposite.
        rest: The stems of the other content words, in order.
    """

    sentence: Sentence
    words: tuple[_Word, ...]
    rest: tuple[str, ...]

    @classmethod
    def of(cls, sentence: Sentence) -> Stance:
        """Read a sentence."""
        start = _start_of_statement(sentence)
        words = tuple(
            _Word(match.span(), _SIDES[match[0].lower()])
            for match in _WORD_RE.finditer(sentence.text, start)
            if match[0].lower() in _SIDES
        )
        denied = sentence.denied
        spans = [word.span for word in words] + ([denied] if denied else [])
        rest = tuple(
            token.stem
            for token in sentence.tokens
            if token.is_content
            and not any(start < token.end and token.start < end for start, end in spans)
        )
        return cls(sentence, words, rest)

    def is_beside(self, other: Stance) -> bool:
        """Return whether the rest of both is the same, in the same order.

        One may say a little more; but then the other must not say something else instead.
        """
        mine, others = set(self.rest), set(other.rest)
        own = [stem for stem in self.rest if stem in others]
        shared = [stem for stem in other.rest if stem in mine]
        shorter, longer = sorted((len(self.rest), len(other.rest)))
        return (
            own == shared
            and len(own) == shorter > 0
            and shorter >= MIN_SAME_WORDS * longer
            and not all(unmatched(self.sentence.values, other.sentence.values))
        )

    def against(self, other: Stance) -> Opposition | None:
        """Return in what another stance denies this one, if in a single thing."""
        own, others, is_denied = self._differences(other)
        if is_denied and not own and not others:
            return Opposition("negation", other._denied(), self._denied())
        if not is_denied and len(own) == len(others) == 1 and own[0].is_opposite(others[0]):
            return Opposition("opposite", others[0].span, own[0].span)
        return None

    def agrees(self, other: Stance) -> bool:
        """Return whether both stand on the same side."""
        return not any(self._differences(other))

    def _differences(self, other: Stance) -> tuple[list[_Word], list[_Word], bool]:
        own, others = _unlike(self.words, other.words), _unlike(other.words, self.words)
        return own, others, bool(self.sentence.denied) != bool(other.sentence.denied)

    def _denied(self) -> Span:
        return self.sentence.denied or (0, len(self.sentence.text))


def find_oppositions(
    claim: Sentence, sentences: Sequence[Sentence]
) -> Iterator[tuple[Sentence, Opposition]]:
    """Yield the sentences that deny the claim; none, if another one agrees with it."""
    said = Stance.of(claim)
    near = (one for one in sentences if _may_be_beside(claim, one))
    same = [stance for stance in map(Stance.of, near) if said.is_beside(stance)]
    if not any(said.agrees(stance) for stance in same):
        for stance in same:
            if opposition := said.against(stance):
                yield stance.sentence, opposition


def _may_be_beside(one: Sentence, other: Sentence) -> bool:
    """Return False for most sentences that are not the same: cheaper than to read all of them."""
    own, others = one.terms.held, other.terms.held
    return 3 * len(own & others) >= max(len(own), len(others))


def _unlike(words: Sequence[_Word], others: Sequence[_Word]) -> list[_Word]:
    return [word for word in words if not any(word.is_like(other) for other in others)]


def _start_of_statement(sentence: Sentence) -> int:
    """Return where the first word ends that is no determiner, preposition or value."""
    for token in sentence.tokens:
        if token.stem != VALUE and token.stem not in DETERMINERS | _PREPOSITIONS:
            return token.end
    return len(sentence.text)
