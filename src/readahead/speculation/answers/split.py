"""Split a question into simpler ones: by rule where it compares two things, else by the target.

Only what looks as if it took several steps is split at all: a comparison, or one description inside
another ("the mother of the man who …"). That test is cheap, and lets plain questions alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from readahead.evidence.terms import read_terms
from readahead.lm.base import Cancelled, TextModel, never
from readahead.lm.prompt import CHINESE, Part, Prompt, joined, wording
from readahead.lm.sample import SamplingParams
from readahead.text import fold
from readahead.trace import Trace

MIN_SUB_QUESTIONS, MAX_SUB_QUESTIONS = 2, 3
MAX_SUB_QUESTION_CHARS = 200
MAX_QUESTION_CHARS = 500  # a longer one is no question but a text
MAX_SPLIT_TOKENS = 120

ENGLISH_SPLIT = (
    "You are a helpful assistant. Split the question into two or three simpler questions. Write "
    "one a line, and nothing else. Where a question needs the answer of the first one, write #1 in "
    "its place. For example, “Who is married to the director of Jaws?” becomes\n"
    "Who is the director of Jaws?\nWho is married to #1?"
)
CHINESE_SPLIT = (
    "你是一个乐于助人的助手。把问题拆成两三个更简单的问题，每行一个，不要写别的。"
    "如果一个问题需要第一个问题的答案，就在那里写#1。例如，“《大白鲨》的导演的妻子是谁？”拆成\n"
    "《大白鲨》的导演是谁？\n#1的妻子是谁？"
)


def _pair(between: str) -> str:
    """Return the pattern of two things with one such word between them, and none within either."""
    thing = rf"(?:(?! (?:{between}) )[^,，?？]){{1,80}}?"
    return rf"(?P<a>{thing}),? (?:{between}) (?P<b>{thing})"


_A_AND_B = _pair(r"and|with|to|versus|vs\.?")
_A_OR_B = _pair("or")
_ZH_PAIR = r"(?P<a>[^，,。？?的和与跟]{1,30}?)[和与跟](?P<b>[^，,。？?的和与跟]{1,30}?)"
# What compares two things, and what to ask about either of them.
_RULES = tuple(
    (re.compile(rf"\W*{pattern}\s*[.。?？!！]*\s*", re.IGNORECASE), asked)
    for pattern, asked in (
        (
            rf"(?:please )?compare (?:the )?(?P<what>[^,?]{{1,60}}?) (?:of|between) {_A_AND_B}",
            "What is the {what} of {x}?",
        ),
        (rf"(?:please )?compare {_A_AND_B}", "What is {x}?"),
        (
            r"what(?:['’]?s| is| are) the (?:main )?differences? (?:between|of) "
            rf"{_A_AND_B}",
            "What is {x}?",
        ),
        (
            r"(?:who|which)(?: \w+){0,2} (?P<was>was|were) (?P<done>\w+) "
            rf"(?:first|earlier|later|last)[,:]? {_A_OR_B}",
            "When {was} {x} {done}?",
        ),
        (
            r"(?:who|which|what)(?: \w+){0,2} (?P<was>is|was|are|were) (?:the )?(?P<more>\w+)[,:] "
            rf"{_A_OR_B}",
            "How {much} {was} {x}?",
        ),
        (
            rf"(?:请)?比较(?:一下)?{_ZH_PAIR}(?:的(?P<what>[^，,。？?]{{1,20}}?))?",
            "{x}的{what}是什么？",
        ),
        (
            rf"{_ZH_PAIR}(?:之间)?(?:有什么|有何|的)(?:区别|不同|差别|差异)(?:是什么)?",
            "{x}是什么？",
        ),
        (
            rf"{_ZH_PAIR}(?:相比)?[，,]?(?:哪[个座条部家]?|谁|哪一[个座条部家])更(?P<more>\w)",
            "{x}有多{much}？",
        ),
    )
)
_MUCH = {
    **dict.fromkeys(("older", "oldest", "younger", "youngest"), "old"),
    **dict.fromkeys(("taller", "tallest", "shorter", "shortest"), "tall"),
    **dict.fromkeys(("higher", "highest", "lower", "lowest"), "high"),
    **dict.fromkeys(("larger", "largest", "bigger", "biggest", "smaller", "smallest"), "large"),
    **dict.fromkeys(("heavier", "heaviest", "lighter", "lightest"), "heavy"),
    **dict.fromkeys(("faster", "fastest", "slower", "slowest"), "fast"),
    **dict.fromkeys(("longer", "longest"), "long"),
    **dict.fromkeys(("deeper", "deepest"), "deep"),
    **dict.fromkeys(("wider", "widest"), "wide"),
    **dict(zip("高矮低大小长短重轻快慢深", "高高高大大长长重重快快深", strict=True)),
}
_COMPARISON_RE = re.compile(
    r"^\W*(?:who|which|what)\b.{0,80}(?:er|more|less|first|last|best|most)\b.{0,40}[,:] .{1,80} or "
    r"|^\W*(?:are|were|is|was|do|does|did|have|has)\b.{1,160}\band\b.{1,160}\bsame\b"
    rf"|{_ZH_PAIR}.{{0,20}}(?:哪|谁).{{0,6}}更",
    re.IGNORECASE,
)
# "The name of the player who …" is the player: one step, not two.
_NO_STEP = (
    r"(?:(?:nick)?names?|titles?|positions?|locations?|numbers?|types?|terms?|most|all|one|some)"
)
_NESTED_RE = re.compile(
    r"^\W*(?:(?:in|on|at|from|to|by|for|with) )?(?:who|whose|whom|what|which|when|where|how)\b"
    rf".{{0,120}}?\b(?!{_NO_STEP} of\b)[\w'’\-]+ of the (?:[\w'’\-]+ ){{1,4}}?"
    r"(?:of|who|that|which|whose) "
    r"|[^，。？的]{1,16}的[^，。？的]{1,8}的[^，。？的]{1,6}(?<!名称)(?<!名字)(?<!位置)"
    r"(?:是谁|在哪|叫什么|是哪)",
    re.IGNORECASE,
)
_BULLET_RE = re.compile(
    r"^[\s\-*•·–—\"“「]*(?:\d+\s*[.)、:：]|(?:sub-?)?q(?:uestion)?\s*\d*\s*[:：]|问题\s*\d*\s*[:：])?[\s\"“「*]*",
    re.IGNORECASE,
)
_REFERENCE_RE = re.compile(r"#(\d+)")


def is_compound(question: str) -> bool:
    """Return whether a question looks as if it took several steps; runs no model."""
    if len(question) > MAX_QUESTION_CHARS or _REFERENCE_RE.search(question):
        return False  # "the #1 song": such a number would be taken for another answer
    nested = _NESTED_RE.search(question) or _COMPARISON_RE.search(question)
    return bool(compared(question) or nested)


def compared(question: str) -> tuple[str, ...]:
    """Return what to ask about either of two things that are compared, nothing if none are."""
    for pattern, asked in _RULES if len(question) <= MAX_QUESTION_CHARS else ():
        if found := pattern.fullmatch(question):
            parts = found.groupdict(default="")
            parts["much"] = _MUCH.get(parts.get("more", "").lower(), "")
            if "{much}" in asked and not parts["much"]:
                continue
            what = parts.get("what", "").lower()
            if what and f"{what} of " in parts["b"].lower():
                continue  # "the lamp of Skerry and the lamp of Orrin": each names its own
            if not what:
                asked = asked.replace("的{what}", "")
            things = (parts["a"].strip(), parts["b"].strip())
            return tuple(asked.format(x=thing, **parts) for thing in things)
    return ()


def read_sub_questions(text: str, question: str) -> tuple[str, ...]:
    """Return the sub-questions in what the target wrote, nothing if they are of no use.

    Of use are two or three, each shorter than 200 characters, none of them the question again,
    each about something in it or about the answer of an earlier one.
    """
    lines = [_BULLET_RE.sub("", line, count=1).rstrip(' "”」*') for line in text.splitlines()]
    asked = tuple(line for line in lines if line.endswith(("?", "？")))
    is_split = MIN_SUB_QUESTIONS <= len(asked) <= MAX_SUB_QUESTIONS
    bare = {_bare(line) for line in (*asked, question)}
    if not is_split or len(bare) <= len(asked):
        return ()
    content = read_terms(question).content
    is_useful = all(_is_useful(one, number, content) for number, one in enumerate(asked, start=1))
    return asked if is_useful else ()


def _is_useful(asked: str, number: int, content: frozenset[str]) -> bool:
    """Return whether the ``number``-th sub-question, from 1, is about the question."""
    references = [int(one) for one in _REFERENCE_RE.findall(asked)]
    if len(asked) >= MAX_SUB_QUESTION_CHARS or not all(0 < one < number for one in references):
        return False
    return bool(references) or bool(read_terms(asked).content & content)


def filled(asked: str, answers: Sequence[str]) -> str:
    """Return a sub-question with the answers of earlier ones in place of "#1", "#2"."""
    return _REFERENCE_RE.sub(lambda found: answers[int(found[1]) - 1], asked)


@dataclass(frozen=True, slots=True)
class Splitter:
    """Splits what is compound.

    Attributes:
        model: Writes sub-questions where no rule gives them; None: then only rules split.
    """

    model: TextModel | None = None

    def __call__(
        self, question: str, *, cancelled: Cancelled = never, trace: Trace | None = None
    ) -> tuple[str, ...]:
        """Return two or three sub-questions, none if the question is better asked as it is."""
        if not is_compound(question):
            return ()
        if by_rule := compared(question):
            return by_rule
        if self.model is None:
            return ()
        prompt = split_prompt(self.model, question)
        if len(prompt.token_ids) + MAX_SPLIT_TOKENS > self.model.max_context_tokens:
            return ()
        trace = trace or Trace("split")
        with trace.span("split"):
            params = SamplingParams(max_new_tokens=MAX_SPLIT_TOKENS)
            (written,) = self.model.generate([prompt], params, cancelled=cancelled, trace=trace)
        is_whole = written.finish_reason == "stop"
        return read_sub_questions(written.text, question) if is_whole else ()


def split_prompt(model: TextModel, question: str) -> Prompt:
    """Return the prompt that asks for sub-questions, in the question's language."""
    words, tokenizer = wording(question), model.tokenizer
    head, tail = tokenizer.frame(CHINESE_SPLIT if words is CHINESE else ENGLISH_SPLIT)
    asked = f"{words.question}{question}"
    parts = (
        Part(tuple(tokenizer.encode_control(head))),
        Part(tuple(tokenizer.encode(asked))),
        Part(tuple(tokenizer.encode_control(tail))),
    )
    return Prompt(head + asked + tail, joined(parts), parts)


def _bare(question: str) -> str:
    return "".join(char for char in fold(question) if char.isalnum() or char == "#")
