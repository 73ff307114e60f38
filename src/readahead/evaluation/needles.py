"""Make long documents that hold a fact to be found, of any length; reads no files.

A needle is a sentence that gives a place an access code, at a random depth of a haystack of
passages or of made-up sentences. Three kinds, named as RULER names them [Hsieh24]:

    single  one needle, one question
    keyed   several needles for different places; one is asked for, the others distract
    valued  several needles for one place; all of its codes are asked for
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Literal

from readahead.errors import InputError
from readahead.evaluation.longcases import LongCase, Turn
from readahead.lm.tokenizer import Tokenizer
from readahead.text import sentences

NeedleKind = Literal["single", "keyed", "valued"]
Language = Literal["en", "zh"]

_TOLERANCE_TOKENS = 2
_SENTENCES_PER_PARAGRAPH = 6


@dataclass(frozen=True, slots=True)
class _Words:
    """What documents of a language are made of."""

    needle: str
    ask_one: str
    ask_all: str
    space: str
    place: str
    towns: tuple[str, ...]
    buildings: tuple[str, ...]
    sentence: str
    slots: dict[str, tuple[str, ...]]


_EN = _Words(
    needle="The access code of the {place} is {value}.",
    ask_one="What is the access code of the {place}? Reply with the code.",
    ask_all="What are all the access codes of the {place}? Reply with the codes.",
    space=" ",
    place="{building} in {town}",
    towns=tuple(
        "Arles Bergen Cork Delft Evora Faro Ghent Hanoi Izmir Jaipur Kobe Lima Malmo Nara Oslo "
        "Porto".split()
    ),
    buildings=tuple("archive harbour library museum observatory station".split()),
    sentence="{when}, the {adjective} {noun} {verb} the {other} {thing} {where}.",
    slots={
        "when": ("In spring", "Last year", "At noon", "After the rain", "On most days", "By night"),
        "adjective": tuple("old quiet young careful famous tired local northern".split()),
        "noun": tuple("baker pilot gardener teacher sailor painter farmer clerk".split()),
        "verb": tuple("repaired described carried painted sold admired measured found".split()),
        "other": tuple("wooden heavy blue broken little foreign round dusty".split()),
        "thing": tuple("boat lamp clock basket chair map bell ladder".split()),
        "where": ("near the river", "behind the mill", "at the market", "under the bridge"),
    },
)
_ZH = _Words(
    needle="{place}的门禁密码是{value}。",
    ask_one="{place}的门禁密码是多少？请只回答密码。",
    ask_all="{place}的所有门禁密码是什么？请只回答密码。",
    space="",
    place="{town}{building}",
    towns=tuple(
        "北京 成都 大连 福州 广州 杭州 济南 昆明 兰州 南京 青岛 上海 苏州 武汉 西安 长沙".split()
    ),
    buildings=tuple("档案馆 港口 图书馆 博物馆 天文台 车站".split()),
    sentence="{when}，{adjective}的{noun}在{where}{verb}了{other}的{thing}。",
    slots={
        "when": tuple("春天 去年 中午 雨后 平日里 夜里".split()),
        "adjective": tuple("年老 安静 年轻 细心 有名 疲惫 本地 勤劳".split()),
        "noun": tuple("面包师 飞行员 园丁 教师 水手 画家 农民 职员".split()),
        "verb": tuple("修好 描述 搬走 粉刷 卖掉 称赞 测量 找到".split()),
        "other": tuple("木制 沉重 蓝色 破损 小巧 外国 圆形 陈旧".split()),
        "thing": tuple("船 灯 钟 篮子 椅子 地图 铃铛 梯子".split()),
        "where": tuple("河边 磨坊后面 市场上 桥下".split()),
    },
)
_LANGUAGES: dict[Language, _Words] = {"en": _EN, "zh": _ZH}


def make_needles(
    num_tokens: int,
    tokenizer: Tokenizer,
    seed: int,
    *,
    kind: NeedleKind = "single",
    language: Language = "en",
    num_needles: int = 4,
    depth: float | None = None,
    passages: Sequence[str] = (),
) -> LongCase:
    """Return a document of about ``num_tokens`` tokens with needles, and what to ask.

    The same arguments give the same case. The document is never longer than asked, and at most two
    tokens shorter, unless no cut between characters comes so near.

    Args:
        num_tokens: Of the document alone, without the question and what frames a prompt.
        tokenizer: Counts them.
        seed: Of codes, places, depths and haystack.
        kind: What is hidden and asked for, as above.
        language: Of needles, questions and made-up sentences.
        num_needles: Of the kinds with several.
        depth: Where the needle that is asked for stands, from 0, the beginning, to 1, the end, to
            the nearest sentence before; None: anywhere. Of several asked for, the first.
        passages: What the haystack is made of, in random order and again from the start once all
            are used; none: made-up sentences.

    Raises:
        InputError: The needles alone are longer than the document may be, there are too many, or
            the depth is not in [0, 1].
    """
    words = _LANGUAGES[language]
    _check(words, num_needles, depth)
    random = Random(f"needles {seed}")
    places, values = _draw(words, 1 if kind == "single" else num_needles, random)
    if kind == "valued":
        places = places[:1] * len(values)
    needles = [
        words.needle.format(place=place, value=value)
        for place, value in zip(places, values, strict=True)
    ]
    depths = [random.random() for _ in needles]
    if depth is not None:
        depths[0] = depth
    haystack = _Haystack(words, passages, Random(f"haystack {seed}"))
    document = _longest(
        lambda num_chars: haystack.around(needles, depths, num_chars),
        lambda text: len(tokenizer.encode(text)),
        num_tokens,
    )
    return LongCase(
        id=f"needles-{language}-{kind}-{num_tokens}-{seed}",
        document=document,
        turns=(_turn(words, kind, places[0], values),),
        metric="recall" if kind == "valued" else "contains",
        groups=(kind,),
    )


def _check(words: _Words, num_needles: int, depth: float | None) -> None:
    most = len(words.towns) * len(words.buildings)
    if not 1 <= num_needles <= most:
        raise InputError(f"There can be 1 to {most} needles, not {num_needles}.")
    if depth is not None and not 0 <= depth <= 1:
        raise InputError(f"The depth {depth} is not between 0, the beginning, and 1, the end.")


def _draw(words: _Words, num_needles: int, random: Random) -> tuple[list[str], list[str]]:
    """Return places and codes, none of them twice."""
    places = [
        words.place.format(town=town, building=building)
        for town in words.towns
        for building in words.buildings
    ]
    values = random.sample(range(1_000_000, 10_000_000), num_needles)
    return random.sample(places, num_needles), [str(value) for value in values]


def _turn(words: _Words, kind: NeedleKind, place: str, values: Sequence[str]) -> Turn:
    if kind == "valued":
        return Turn(words.ask_all.format(place=place), tuple(values))
    return Turn(words.ask_one.format(place=place), (values[0],), wrongs=tuple(values[1:]))


class _Haystack:
    """Filler as long as it has to be; what was made stays, so longer ones begin with shorter."""

    def __init__(self, words: _Words, passages: Sequence[str], random: Random) -> None:
        self._space = words.space
        usable = [passage for passage in passages if passage.strip()]
        self._source = _shuffled(usable, random) if usable else _made_up(words, random)
        self._pieces: list[str] = []
        self._num_chars = 0

    def around(self, needles: Sequence[str], depths: Sequence[float], num_chars: int) -> str:
        """Return the first ``num_chars`` characters, with the needles between sentences."""
        while self._num_chars < num_chars:
            piece = next(self._source)
            self._pieces.append(piece)
            self._num_chars += len(piece)
        text = "".join(self._pieces)[:num_chars]
        ends = [0, *accumulate(map(len, self._pieces))]
        for depth, needle in sorted(zip(depths, needles, strict=True), reverse=True):
            place = ends[bisect_right(ends, depth * num_chars) - 1]
            text = f"{text[:place]}{needle}{self._space}{text[place:]}"
        return text.rstrip()


def _made_up(words: _Words, random: Random) -> Iterator[str]:
    while True:
        for _ in range(_SENTENCES_PER_PARAGRAPH - 1):
            yield _sentence(words, random) + words.space
        yield _sentence(words, random) + "\n\n"


def _sentence(words: _Words, random: Random) -> str:
    return words.sentence.format(
        **{slot: random.choice(options) for slot, options in words.slots.items()}
    )


def _shuffled(passages: Sequence[str], random: Random) -> Iterator[str]:
    while True:
        for passage in random.sample(passages, len(passages)):
            starts = [start for start, _ in sentences(passage)]
            text = f"{passage.rstrip()}\n\n"
            for start, stop in zip(starts, [*starts[1:], len(text)], strict=True):
                yield text[start:stop]


def _longest(make: Callable[[int], str], count: Callable[[str], int], num_tokens: int) -> str:
    """Return the longest text found that has no more than ``num_tokens`` tokens.

    How many characters a token has is learnt from the last try, so even a very long text has to be
    encoded a few times only; where that leads out of what is left to search, its middle is tried.
    """
    best = make(0)
    best_tokens = count(best)
    if best_tokens > num_tokens:
        raise InputError(
            f"{num_tokens} tokens do not hold the needles, which take {best_tokens}.",
            remedy="Ask for a longer document, or for fewer needles.",
        )
    fits, num_chars = 0, 4 * (num_tokens - best_tokens)
    too_long: int | None = None
    while num_tokens - best_tokens > _TOLERANCE_TOKENS and (too_long is None or num_chars > fits):
        text = make(num_chars)
        tokens = count(text)
        if tokens <= num_tokens:
            fits, best, best_tokens = num_chars, text, tokens
        else:
            too_long = num_chars
        num_chars += int((num_tokens - tokens) * len(text) / tokens) or 1
        if too_long is not None and not fits < num_chars < too_long:
            num_chars = (fits + too_long) // 2
    return best
