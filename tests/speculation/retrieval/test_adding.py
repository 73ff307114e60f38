from collections.abc import Sequence
from dataclasses import replace

import pytest

from readahead.config import InjectConfig
from readahead.lm.prompt import Context
from readahead.speculation.retrieval.adding import Adding
from readahead.types import Hit
from tests.speculation.retrieval.test_inject import (
    ALWAYS,
    NEW,
    QUESTION,
    SHOWN,
    Script,
    hit,
    prompt_of,
    searching,
)

MODEL = Script()
ROOM = 1500


def adding(
    found: Sequence[Hit] = NEW, config: InjectConfig = ALWAYS, shown: Sequence[Hit] = SHOWN
) -> Adding:
    return Adding(
        MODEL.tokenizer,
        QUESTION,
        prompt_of(MODEL, shown),
        shown,
        searching(found),
        config,
        query=QUESTION,
        context=Context(),
        context_hits=(),
    )


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.passage.id for hit in hits]


def test_hits_follow_the_prompt_in_order_and_length() -> None:
    long = hit(1, "The lamp burns oil. It is lit at dusk and put out at dawn.")
    short = replace(long.passage, text="The lamp burns oil.", end=19)
    shown = [SHOWN[1], replace(long, passage=short)]
    prompt = prompt_of(MODEL, shown)
    found = Adding(
        MODEL.tokenizer,
        QUESTION,
        prompt,
        [long, SHOWN[1]],
        searching([]),
        ALWAYS,
        query=QUESTION,
        context=Context(),
        context_hits=(),
    )
    assert found.hits == shown


def test_what_is_far_from_the_question_is_not_found() -> None:
    config = ALWAYS.model_copy(update={"min_similarity": 0.6})
    far = [hit(3, "Ada keeps the lamp.", 0.59), hit(4, "Bo paints boats.", 0.6)]
    assert ids(adding(far, config).find("", ROOM, {})) == ["4.1.1"]
    unknown = [hit(3, "Ada keeps the lamp.", None)]
    assert ids(adding(unknown, config).find("", ROOM, {})) == ["3.1.1"]


def test_what_is_shown_is_not_found_again() -> None:
    one = adding([*SHOWN, *NEW])
    record: dict[str, object] = {}
    found = one.find("Ada", ROOM, record)
    assert ids(found) == ids(NEW)
    assert record["query"] == f"{QUESTION} Ada"
    one.add_note(found, 0)
    assert one.find("", ROOM, {}) == []


def test_what_is_found_fits_where_it_is_put() -> None:
    for room in range(adding().num_tokens, adding().num_tokens + 250, 25):
        one = adding()
        if found := one.find("", room, {}):
            one.add_note(found, 0)
            assert one.num_tokens <= room
    assert found


@pytest.mark.parametrize("in_front", [True, False])
def test_what_joins_the_prompt_is_that_of_one_prompt_with_all(in_front: bool) -> None:
    one = adding()
    before = one.num_tokens
    num_tokens = one.add_to_prompt(NEW[:1], ROOM, in_front=in_front)
    hits = [*NEW[:1], *SHOWN] if in_front else [*SHOWN, *NEW[:1]]
    assert one.hits == hits
    assert one.prompt == prompt_of(MODEL, hits)
    assert tuple(one.layout.ids([])) == one.prompt.token_ids
    assert num_tokens == one.num_tokens - before


def test_a_note_leaves_the_prompt_and_stands_in_the_answer() -> None:
    one = adding()
    answer = MODEL.tokenizer.encode("It is. Ada")
    num_tokens = one.add_note(NEW[:1], 6)
    read = MODEL.tokenizer.decode(one.layout.ids(answer)[len(one.prompt.token_ids) :])
    assert read.startswith("It is.")
    assert read.endswith(" Ada")
    assert f"[{len(SHOWN) + 1}] " in read
    assert num_tokens == one.num_tokens - len(one.prompt.token_ids)
    assert one.prompt == adding().prompt


@pytest.mark.parametrize("limit", [{"max_injections": 1}, {"max_tokens": 20}])
def test_once_a_limit_is_reached_nothing_may_be_added(limit: dict[str, int]) -> None:
    one = adding(config=ALWAYS.model_copy(update=limit))
    assert one.may_add
    one.add_note(NEW[:1], 0)
    assert not one.may_add
