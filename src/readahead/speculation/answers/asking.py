"""What drafter and verifier are asked, in the question's language, and how their replies are read.

The question comes last: asked before the passages, or both before and behind them, a small model
answers worse. So the drafts share the instructions only. Everything that people wrote is encoded as
text: nothing in it becomes a control token.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from readahead.errors import ContextOverflow
from readahead.evidence import Markers
from readahead.lm.prompt import CHINESE, Part, Prompt, joined, num_tokens, passage_text, wording
from readahead.lm.shorten import fit_passages
from readahead.lm.tokenizer import Tokenizer
from readahead.types import Passage


@dataclass(frozen=True, slots=True)
class DraftWording:
    """What the program says to the drafter and the verifier, in one language."""

    short: str
    reasoned: str
    closed: str
    question: str
    answer: str
    rationale: str
    supported: str
    yes: str
    no: str


ENGLISH_DRAFT = DraftWording(
    short="You are a helpful assistant. Answer the question from the passage in as few words as "
    "possible: a name, a number or a date, not a sentence. If the passage does not hold the "
    "answer, write: unknown",
    reasoned="You are a helpful assistant. Answer the question from the passages. Write two lines: "
    "first “Rationale:” and one sentence from the passages that shows the answer, then “Answer:” "
    "and the answer in as few words as possible. If the passages do not hold it, the answer is: "
    "unknown",
    closed="You are a helpful assistant. Answer the question in as few words as possible.",
    question="Question: ",
    answer="Answer: ",
    rationale="Rationale: ",
    supported="Does the rationale support the answer? (Yes or No)",
    yes="Yes",
    no="No",
)
CHINESE_DRAFT = DraftWording(
    short="你是一个乐于助人的助手。根据段落回答问题，用尽可能少的字：一个名称、数字或日期，不要写句子。"
    "如果段落中没有答案，就写：未知",
    reasoned="你是一个乐于助人的助手。根据段落回答问题。写两行：先写“理由：”和段落中能说明答案的一句话，"
    "再写“答案：”和尽可能短的答案。如果段落中没有，答案写：未知",
    closed="你是一个乐于助人的助手。用尽可能少的字回答问题。",
    question="问题：",
    answer="答案：",
    rationale="理由：",
    supported="理由是否支持答案？（是或否）",
    yes="是",
    no="否",
)
_LABEL_RE = re.compile(
    r"^(?:[ \t>*#_`\-]|\d[.)])*+"
    r"(?P<label>(?:final |short )?answer|response|rationale|reason(?:ing)?|evidence|explanation|"
    r"(?:最终)?答案|回答|答|理由|依据|原因|解释)"
    r"[ \t*_`]*+[:：][\s*_`]*+",
    re.IGNORECASE | re.MULTILINE,
)
_PREFACE_RE = re.compile(
    r"the (?:final |correct )?answer (?:is|would be)\b:?|答案(?:是|为)[:：]?",
    re.IGNORECASE,
)
_RATIONALES = frozenset(
    ["rationale", "reasoning", "reason", "evidence", "explanation", "理由", "依据", "原因", "解释"]
)
_SPACES = "".join(filter(str.isspace, map(chr, range(0x3001))))
_WRAPPING = f"*_`\"'“”「」{_SPACES}"


def draft_wording(question: str) -> DraftWording:
    """Return the wording in the language of ``question``."""
    return CHINESE_DRAFT if wording(question) is CHINESE else ENGLISH_DRAFT


def draft_prompt(
    tokenizer: Tokenizer,
    question: str,
    passages: Sequence[Passage],
    *,
    max_tokens: int,
    with_rationale: bool = False,
    feedback: str = "",
    numbers: Sequence[int] = (),
) -> Prompt:
    """Return the prompt of one draft, its passages shortened and dropped as need be.

    Args:
        tokenizer: The drafter's.
        question: As the user asked it.
        passages: Best first.
        max_tokens: The model's context less the draft.
        with_rationale: Whether the draft is to quote what shows its answer.
        feedback: A line about earlier drafts, behind the question.
        numbers: By which ``feedback`` speaks of the passages; they are counted from 1 otherwise.

    Raises:
        ContextOverflow: The question does not fit, or not even a sentence of the passages with it.
    """
    words = draft_wording(question)
    head, tail = tokenizer.frame(words.reasoned if with_rationale else words.short)
    asked = f"{words.question}{question}" + (f"\n{feedback}" if feedback else "")
    numbers = numbers or range(1, len(passages) + 1)
    before = Part(tuple(tokenizer.encode_control(head)))
    behind = (Part(tuple(tokenizer.encode(asked))), Part(tuple(tokenizer.encode_control(tail))))

    def parts(shown: Sequence[Passage]) -> tuple[Part, ...]:
        texts = (passage_text(*pair) for pair in zip(numbers, shown, strict=False))
        return (before, *(Part(tuple(tokenizer.encode(text))) for text in texts), *behind)

    if num_tokens(parts(())) > max_tokens:
        raise ContextOverflow(
            f"The question takes {num_tokens(behind)} tokens; the drafter has room for "
            f"{max(0, max_tokens - num_tokens([before]))}.",
            remedy="Ask a shorter question, or lower drafts.max_new_tokens.",
        )
    shown = fit_passages(passages, lambda some: num_tokens(parts(some)) <= max_tokens)
    if passages and not shown:
        raise ContextOverflow(
            f"No sentence of the passages fits beside the question into the {max_tokens} tokens "
            "that the drafter has for both.",
            remedy="Ask a shorter question, or lower drafts.max_new_tokens.",
        )
    texts = [passage_text(*pair) for pair in zip(numbers, shown, strict=False)]
    all_parts = parts(shown)
    return Prompt(
        text=head + "".join(texts) + asked + tail,
        token_ids=joined(all_parts),
        parts=all_parts,
        passages=shown,
        dropped=tuple(passages[len(shown) :]),
    )


def read_draft(text: str) -> tuple[str, str]:
    """Return the answer and the rationale of what a drafter wrote, "" for what is missing.

    Labels are found in either language and order, with or without markup. Without labels the
    first line is the answer and the rest the rationale.
    """
    labels = list(_LABEL_RE.finditer(text))
    if not labels:
        first, _, rest = text.strip().partition("\n")
        return _bare(first), rest.strip()
    answer = rationale = ""
    ends = [*(label.start() for label in labels[1:]), len(text)]
    for label, end in zip(labels, ends, strict=True):
        said = text[label.end() : end].strip()
        if label["label"].casefold() in _RATIONALES:
            rationale = rationale or said
        else:
            answer = answer or _bare(said.partition("\n")[0])
    # "Paris.\nRationale: …": what stands in front of the labels is the answer.
    return answer or _bare(text[: labels[0].start()].strip().partition("\n")[0]), rationale


def _bare(said: str) -> str:
    """Return an answer without its markers, and without quotes, markup and full stop around it."""
    bare = Markers.read(said).text.strip(_WRAPPING)
    if preface := _PREFACE_RE.match(bare):
        bare = bare[preface.end() :].strip(_WRAPPING)
    is_abbreviation = re.search(r"(?:^|[\s.])\w\.$", bare)  # "Washington D.C." keeps its own
    return bare if is_abbreviation else bare.rstrip(".。").rstrip(_WRAPPING)
