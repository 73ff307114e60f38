"""Tell whether a text declines to answer, in English or Chinese; knows no passages.

Only what speaks of the passages, or of the speaker, is a refusal: "The passages do not mention a
café" is one, "The museum does not contain a café" is a fact.
"""

from __future__ import annotations

import re

from readahead.text import fold, sentences

_CLAUSE = r"(?:^|[,;:] ?|\b(?:so|but|and|therefore|thus) )"
_SOURCE = r"(?:passages?|contexts?|sources?|excerpts?|texts?|snippets?|articles?)"
_MATTER = r"(?:documents?|information|materials?|content|data)"  # of the world as often as shown
_GIVEN = r"(?:provided|given|above|supplied|available)"
_THE = r"(?:the|these|this|any|all|your)(?: of the)?"
_THE_SOURCE = (
    rf"{_THE}(?:(?: [\w\-]+)? {_SOURCE}(?: (?:{_GIVEN}|itself|alone))?"
    rf"| {_GIVEN} {_MATTER}| {_MATTER} {_GIVEN})"
)
_NOT = r"(?:(?:do(?:es)?|did|is|are|was|were|has|have|can|could)(?: not|n['’]?t)|cannot)"
_IS_NOT = r"(?:cannot be|can['’]?t be|is not|isn['’]?t)"
_TELL = (
    r"(?:contain|mention|provide|include|specify|state|say|give|discuss|address|indicate|offer|"
    r"answer|describe|list|tell|explain|have|reveal|disclose|refer|cover)"
)
_SAY = r"(?:mention|specify|state|say|discuss|address|indicate|answer|describe|tell|explain)"
_TOLD = (
    r"(?:mentioned|provided|specified|stated|found|available|given|included|contained|present|"
    r"discussed|described|listed|answered|covered|in|known|clear|answerable|determined)"
)
_END = rf"(?=\W*$|[,;]| (?:in|by|within|from) {_THE_SOURCE}\b)"
_NO = rf"(?:{_CLAUSE}|\bthere (?:is|was|are) )no "
_KNOW = (
    r"(?:know|find|answer|determine|provide|tell|say|assist|help (?:you|with)|locate|"
    r"have (?:\w+ ){0,6}(?:information|access|answer|knowledge|data))"
)
_I_CANNOT = r"i (?:(?:do|can|could)(?: ?not|n?['’]?t)|am (?:unable|not able) to)"
_ENGLISH = (
    # The passages do not say.
    rf"{_THE_SOURCE},? (?:{_NOT}(?: \w+)? {_TELL}|lacks?|fails? to {_TELL})\b",
    rf"{_THE} {_MATTER},? {_NOT}(?: \w+)? (?:{_SAY}|(?:contain|include|provide|give|have)"
    r"(?: \w+){0,3} (?:information|answers?|mention|details))\b",
    rf"{_THE_SOURCE} (?:{_TELL}s?|makes?) no (?:mention|{_SOURCE}|{_MATTER})\b",
    rf"{_THE}(?: [\w\-]+)? (?:{_SOURCE}|{_MATTER})(?: {_GIVEN})? (?:is|are) (?:not|in) ?"
    rf"(?:sufficient\b|enough\b|clear\b|{_TOLD}{_END})",
    rf"\b(?:none|neither) of (?:{_THE_SOURCE}|{_THE} {_MATTER} {_SAY})\b",
    rf"\bnot (?:\w+ )?{_TOLD} (?:\w+ )?(?:in|by|within|from) {_THE_SOURCE}",
    rf"\b(?:answer|question)(?: \w+){{0,12}} {_IS_NOT} (?:\w+ )?{_TOLD}\b",
    rf"\binformation(?: \w+){{0,12}} {_IS_NOT} (?:\w+ )?{_TOLD}{_END}",
    # There is no information.
    rf"{_NO}(?:mention|(?:relevant|specific) (?:{_SOURCE}|{_MATTER}))\b",
    rf"{_NO}(?:{_SOURCE} {_TELL}|{_MATTER} {_SAY})s?\b",
    rf"{_NO}(?:{_SOURCE}|{_MATTER})(?: on\b|(?: (?:is|was|are|were))?(?: {_TOLD})?"
    rf"(?:(?= (?:about|regarding|concerning|that|to (?:answer|determine|say|tell))\b)|{_END}))",
    rf"\b(?:not|without) (?:enough|sufficient) (?:{_SOURCE}|{_MATTER})\b",
    rf"\binsufficient (?:{_SOURCE}|{_MATTER})\b",
    rf"^(?:unknown|n/a|unanswerable|no answer|not {_TOLD})\W*$",
    # I do not know.
    rf"{_CLAUSE}{_I_CANNOT}(?: \w+)? {_KNOW}\b",
    rf"{_CLAUSE}(?:i['’]m |i am )?(?:unable|not able) to {_KNOW}\b",
    rf"{_CLAUSE}(?:i['’]m|i am) not sure\b",
    rf"{_CLAUSE}it (?:is|was) (?:not possible|impossible) to {_KNOW}\b",
    r"^as an ai\b",
)
_CJK_MATTER = r"(?:信息|材料|内容|文件)"
_CJK_PASSAGES = r"(?:资料|文本|段落|文章|文档|文中|上下文|原文|文献|片段)"
_CJK_GIVEN = r"(?:提供|给出|给定|所给|上述|以上|现有|已有)的?"
_CJK_SOURCE = rf"(?:{_CJK_PASSAGES}{_CJK_MATTER}?|{_CJK_GIVEN}{_CJK_MATTER})"
_CJK_INSIDE = rf"{_CJK_SOURCE}(?:[中里内]|之中|当中)?[,并都均也\s]*"
_CJK_TELL = (
    r"(?:包含|提到|提及|提供|说明|给出|涉及|指出|介绍|记载|描述|回答|显示|找到|包括|讨论|列出|"
    r"相关|任何|关于|有关|答案|足够|具体)"
)
_CJK_FIND = r"(?:回答|解答|确定|得知|判断|得出|给出|找到|看到|获取)"
_CHINESE = (
    rf"{_CJK_INSIDE}(?:没有|没|未能|未曾|未|无|不)(?:明确|直接|具体)*{_CJK_TELL}",
    rf"{_CJK_SOURCE}(?:[中里内]|之中|当中)[,并都均也\s]*没有",
    rf"(?:没有|未能?|无法)(?:在|从)[^。]{{0,40}}{_CJK_SOURCE}[^。]{{0,40}}{_CJK_FIND}",
    rf"(?:没有|未|缺乏|缺少)(?:找到|足够|充足|相关|任何|提供)(?:的|相关|有关|任何|具体)*"
    rf"(?:{_CJK_PASSAGES}|{_CJK_MATTER}|答案)",
    rf"(?:^|[,:;]|我|因此|所以|故|从而|,则)\s*(?:无法|不能|难以)(?:准确|直接|确切)?{_CJK_FIND}",
    r"(?:无法|不能)提供(?:答案|准确|具体|相关|有关|该|这)",
    r"我(?:并)?(?:不知道|不清楚|不了解|不确定)|^不知道|^不清楚",
    r"^(?:未知|不详|未提及|未提到|没有提到|没有提及|未说明|没有答案|无相关)",
    r"问题.{0,6}(?:无法|不能)(?:被)?(?:回答|解答)",
)
_REFUSAL_RE = re.compile("|".join(f"(?:{pattern})" for pattern in (*_ENGLISH, *_CHINESE)))
_QUOTE_RE = re.compile(r"\"[^\"]*\"|“[^“”]*”|「[^「」]*」")
_TURN_RE = re.compile(r"[,;:]\s*(?:but|however|yet)\b|[,;]\s*(?:但|不过|然而)")
_APOLOGY_RE = re.compile(
    r"\W*(?:i['’]?m sorry|i am sorry|sorry|i apologize|(?:很|非常)?抱歉|对不起)\W*"
)


def is_refusal(text: str) -> bool:
    """Return whether ``text`` declines to answer: its first sentence does, an apology aside.

    A sentence that turns to an answer, "I don't know the day, but it was in May", is none.
    """
    said = _QUOTE_RE.sub("", text)
    for start, end in sentences(said):
        sentence = fold(said[start:end])
        if not _APOLOGY_RE.fullmatch(sentence):
            return _declines(sentence)
    return bool(said.strip())


def _declines(sentence: str) -> bool:
    turn = max((match.start() for match in _TURN_RE.finditer(sentence)), default=-1)
    return any(match.end() > turn for match in _REFUSAL_RE.finditer(sentence))
