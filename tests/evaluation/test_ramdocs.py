"""Questions bring their documents or have them retrieved, and replies are scored by answers."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readahead.config import Config, load_config
from readahead.errors import InputError, NotFound
from readahead.evaluation.datasets import Question
from readahead.evaluation.ramdocs import Case, find_passages, read_cases, score
from readahead.knowledge import KnowledgeBase

ROW = {
    "question": "How many live in Bow?",
    "documents": [
        {"text": "Bow has 3,559 people.", "type": "correct", "answer": "3,559"},
        {"text": "Bow has 17 people.", "type": "misinfo", "answer": "17"},
    ],
    "gold_answers": ["3,559", "1,647"],
    "wrong_answers": ["17", "3559"],
}
CASE = Case("How many?", (("3,559",), ("1,647", "sixteen")), ("17",))
WORDS = st.sampled_from(["3559", "1647", "17", "1", "the", "sixteen", "people,", "; ", "[1]"])
REPLIES = st.lists(WORDS, max_size=8).map(" ".join)


def write(folder: Path, *rows: object) -> Path:
    path = folder / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def lexical(folder: Path) -> Config:
    return load_config({"kb": folder / "kb", "retrieval.mode": "lexical", "drafts.num_passages": 1})


def test_documents_are_hits_in_their_order(tmp_path: Path) -> None:
    first, second = read_cases(write(tmp_path, ROW, ROW))
    assert [hit.passage.text for hit in first.hits] == [
        "Bow has 3,559 people.",
        "Bow has 17 people.",
    ]
    assert first.hits[0].score > first.hits[1].score
    ids = [hit.passage.id for case in (first, second) for hit in case.hits]
    assert len(set(ids)) == 4
    for hit in first.hits:
        passage = hit.passage
        assert (passage.start, passage.end) == (0, len(passage.text))


def test_a_wrong_answer_that_is_right_is_dropped(tmp_path: Path) -> None:
    (case,) = read_cases(write(tmp_path, ROW))
    assert case.golds == (("3,559",), ("1,647",))
    assert case.wrongs == ("17",)


def test_questions_of_the_other_form_have_one_answer_in_many_spellings(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        {"question": "Who?", "answers": ["Ann", "Anne"], "passage": 7},
        {"question": 'Where are "documents"?', "answers": []},
    )
    assert read_cases(path) == [
        Case("Who?", (("Ann", "Anne"),)),
        Case('Where are "documents"?', ()),
    ]
    assert Case.of(Question("Who?", ("Ann",))) == Case("Who?", (("Ann",),))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"question": " "}, '"question" is missing or empty'),
        ({"documents": []}, '"documents" is empty'),
        ({"documents": ["text"]}, '"documents" is not a list of objects'),
        ({"documents": [{"answer": "17"}]}, '"text" is missing or empty'),
        ({"gold_answers": [" "]}, '"gold_answers" names no answer'),
        ({"gold_answers": "17"}, '"gold_answers" is not a list of texts'),
        ({"wrong_answers": None}, '"wrong_answers" is not a list of texts'),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    with pytest.raises(InputError) as caught:
        read_cases(write(tmp_path, ROW, ROW | change))
    assert f"line 2: {reason}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_passages_come_from_a_file_or_a_knowledge_base(tmp_path: Path) -> None:
    cases = [Case("Who lit the lamp?", (("Ann",),)), *read_cases(write(tmp_path, ROW))]
    lines = [{"id": 1, "text": "Ann lit the lamp."}, {"id": 2, "text": "It rains on the lamp."}]
    file = tmp_path / "passages.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    config = lexical(tmp_path)
    asked, brought = find_passages(cases, config, file)
    assert [hit.passage.text for hit in asked.hits] == ["Ann lit the lamp."]
    assert brought == cases[1]
    assert not config.kb.exists()
    with KnowledgeBase.open(config) as knowledge:
        knowledge.add([file])
    assert find_passages(cases[:1], config)[0].hits[0].passage.text == "Ann lit the lamp."


def test_what_cannot_be_searched_is_said(tmp_path: Path) -> None:
    cases, config = [Case("Who?", ())], lexical(tmp_path)
    with pytest.raises(NotFound):
        find_passages(cases, config)
    with pytest.raises(InputError, match=r"no\.jsonl cannot be read"):
        find_passages(cases, config, tmp_path / "no.jsonl")


@pytest.mark.parametrize(
    ("reply", "strict", "clean", "contains_gold", "names_wrong"),
    [
        ("It was 3,559; later 1,647.", True, True, True, False),
        ("It was 3,559.", False, True, True, False),
        ("Sixteen, or 3559", True, True, True, False),
        ("3,559 and 1,647, not 17", False, False, True, True),
        ("17", False, False, False, True),
        ("In 1977, 170 people", False, False, False, False),
        ("3,559 [17].", False, True, True, False),
        ("", False, False, False, False),
    ],
)
def test_scores(
    reply: str, strict: bool, clean: bool, contains_gold: bool, names_wrong: bool
) -> None:
    found = score(CASE, reply)
    assert (found.strict, found.clean) == (strict, clean)
    assert (found.contains_gold, found.names_wrong) == (contains_gold, names_wrong)
    assert not found.abstained


def test_an_abstention_is_right_where_there_is_no_answer() -> None:
    open_question = Case("Who?", (), ("Ann",))
    assert score(open_question, "", abstained=True).strict
    assert not score(open_question, "Bob").clean
    assert score(open_question, "Ann").names_wrong
    declined = score(CASE, "The passages do not mention 3,559.", abstained=True)
    assert (declined.clean, declined.contains_gold, declined.abstained) == (False, False, True)


@given(REPLIES)
def test_the_measures_agree(reply: str) -> None:
    found = score(CASE, reply)
    assert found.clean == (found.contains_gold and not found.names_wrong)
    assert found.clean or not found.strict


@given(REPLIES, REPLIES)
def test_more_words_take_no_answer_away(reply: str, more: str) -> None:
    less, all_of_it = score(CASE, reply), score(CASE, f"{reply} ; {more}")
    assert all_of_it.contains_gold or not less.contains_gold
    assert all_of_it.names_wrong or not less.names_wrong
