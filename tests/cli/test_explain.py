from typing import Any

import pytest
from rich.cells import cell_len

from readahead.cli.explain import evidence, tables
from readahead.cli.output import COLUMNS
from readahead.errors import NotFound
from readahead.types import Passage

TEXT = "Skerry is far out.\nIts lamp was first lit in 1846. It burned\x1b[31m oil."
SENTENCE = "Its lamp was first lit in 1846."
START = 40  # of the passage in its document


def find(id: str) -> Passage:
    return Passage("lamp.md", TEXT, START, START + len(TEXT), id=id)


def draft(answer: str, candidate: int | None, fault: str = "", **more: Any) -> dict[str, Any]:
    return {
        "answer": answer,
        "rationale": "",
        "passages": ["1.1.0"],
        "num_prompt_tokens": 312,
        "num_tokens": 5,
        "seconds": 0.81,
        "logprob": -0.25,
        "candidate": candidate,
        "fault": fault,
        "author": "drafter",
        **more,
    }


def answered(answer: str, reason: str = "", **more: Any) -> dict[str, Any]:
    start = START + TEXT.index(SENTENCE)
    return {
        "answer": answer,
        "probability": 0.83,
        "wrong": 0.07,
        "consistency": -0.21,
        "support": 0.9,
        "signals": {},
        "selected": not reason,
        "reason": reason,
        "evidence": [
            {
                "passage_id": "1.1.0",
                "document": "lamp.md",
                "start": start,
                "end": start + len(SENTENCE),
                "text": SENTENCE,
            }
        ],
        **more,
    }


def audit(*answers: dict[str, Any], drafts: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {
        "threshold": 0.3,
        "also": 0.6,
        "selection_perplexity": 1.43,
        "num_saved_drafts": 3,
        "drafts": list(drafts or (draft("1846", 0), draft("", None, "empty", logprob=None))),
        "candidates": list(answers),
    }


def test_the_tables_tell_of_every_draft_and_answer() -> None:
    found = audit(
        answered("1846"),
        answered(
            "1852", "probability 0.32, below 0.60", wrong=None, consistency=None, support=None
        ),
    )
    lines = list(tables(found))
    assert " ".join(" ".join(lines[:2]).split()) == (
        "2 drafts, 3 not needed · an answer is given from probability 0.30 on, one beside a better "
        "answer from 0.60 on · selection perplexity 1.43"
    )
    lines = lines[1:]
    assert lines[2].split() == "1 1.1.0 312 5 0.81 -0.25 drafter answer 1 1846".split()
    assert lines[3].split() == "2 1.1.0 312 5 0.81 drafter empty".split()
    assert lines[6].split() == "1 0.83 0.07 -0.21 0.90 1.1.0 1846".split()
    assert lines[7].strip() == "selected"
    assert lines[8].split() == "2 0.83 1.1.0 1852".split()
    assert lines[9].strip() == "not selected: probability 0.32, below 0.60"


def test_what_was_drafted_before_plain_rag_stepped_in_is_told() -> None:
    found = audit(drafts=(draft("1846", None), draft("18", None, "cut")))
    reason = "drafting took longer than 60 s"
    lines = list(tables({**found, "fell_back": reason, "lacking": 0.31}))
    assert lines[0] == f"  answered plainly: {reason}; written until then:"
    assert lines[1] == "  2 drafts, 3 not needed · lacking 0.31"
    assert lines[3].split()[-3:] == ["not", "judged", "1846"]
    assert lines[4].split()[-2:] == ["cut", "18"]
    assert len(lines) == 5


def test_what_the_passages_say_about_an_answer_is_told() -> None:
    conflict = {"passage_id": "2.1.0", "start": 3, "end": 9, "what": "year"}
    claim = {"verdict": "contradicted", "score": 0.1, "supporting": [], "conflicting": [conflict]}
    text = "\n".join(tables(audit(answered("1846", claim=claim))))
    assert (
        "selected · contradicted by the passages, in conflict with 2.1.0 [3:9] (year)"
    ) in " ".join(text.split())


def test_the_steps_of_a_question_are_told_behind_it() -> None:
    step = {"question": "Who kept it?", **audit(answered("Anna Moll", evidence=[]))}
    found = {**audit(answered("1846")), "steps": [step]}
    lines = list(tables(found))
    at = lines.index("  step: Who kept it?")
    assert len(lines) == 2 * at
    assert any("Anna Moll" in line for line in lines[at:])
    shown = [line.plain for line in evidence(found, find)]
    assert shown[-3:] == [
        "  step: Who kept it?",
        "  1. Anna Moll",
        "       no single sentence says it",
    ]


def test_the_answer_is_set_off_in_its_passage() -> None:
    lines = [line.plain for line in evidence(audit(answered("1846")), find)]
    assert lines == [
        "  1. 1846",
        f"       lamp.md 1.1.0 [{START + 19}:{START + 50}]",
        "       Skerry is far out. Its lamp was first lit in »1846«. It burned\ufffd[31m oil.",
    ]


def test_with_colours_there_are_no_marks() -> None:
    *_, line = evidence(audit(answered("1846")), find, is_coloured=True)
    assert "first lit in 1846. It" in line.plain
    (span,) = [span for span in line.spans if "yellow" in str(span.style)]
    assert line.plain[span.start : span.end] == "1846"


def test_an_answer_in_other_words_sets_off_the_sentence() -> None:
    *_, line = evidence(audit(answered("in the year of 1846")), find)
    assert f"»{SENTENCE}«" in line.plain


def test_a_passage_that_is_gone_leaves_the_sentence() -> None:
    def gone(id: str) -> Passage:
        raise NotFound("It was removed.")

    *_, line = evidence(audit(answered("1846")), gone)
    assert line.plain.strip() == "Its lamp was first lit in »1846«."


def test_an_answer_that_no_passage_holds_says_so() -> None:
    *_, line = evidence(audit(answered("1846", evidence=[])), find)
    assert line.plain.strip() == "no single sentence says it"


@pytest.mark.parametrize("text", ["潮汐" * 90, "x\x1b[2J\n\t\u202e" * 40, "a b " * 90, ""])
def test_no_line_is_wider_than_the_page(text: str) -> None:
    many = [f"{i}.1.{i}" for i in range(12)]
    one = answered("1846")["evidence"][0]
    found = audit(
        answered(text, text, evidence=[{**one, "passage_id": id, "text": text} for id in many]),
        drafts=(draft(text, 0, passages=many), draft(text, None, "refusal", passages=[])),
    )
    lines = [*tables(found), *(line.plain for line in evidence(found, find))]
    assert max(map(cell_len, lines)) <= COLUMNS
    assert not {"\n", "\t", "\x1b", "\u202e"} & set("".join(lines))
