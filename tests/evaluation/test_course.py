import pytest

from readahead.config import TokensConfig
from readahead.errors import ContextOverflow, InputError
from readahead.evaluation.course import PLAIN, STEP_TOKENS, Course, Task, make_task
from readahead.lm.model import TransformersModel
from readahead.speculation.tokens.governor import FixedPacer
from tests.conftest import make_llama, make_tokenizer

NUM_TOKENS, NEW_TOKENS = 1200, 24


@pytest.fixture(scope="module")
def target() -> TransformersModel:
    return TransformersModel(make_llama(max_position_embeddings=4096), make_tokenizer())


@pytest.fixture(scope="module")
def drafter() -> TransformersModel:
    return TransformersModel(make_llama(seed=1, max_position_embeddings=2048), make_tokenizer())


def task_of(target: TransformersModel, drafter: TransformersModel, num_tokens: int) -> Task:
    return make_task(
        target,
        drafter,
        TokensConfig(),
        num_tokens=num_tokens,
        max_new_tokens=NEW_TOKENS,
        seed=0,
    )


def test_the_drafter_reads_the_part_that_is_asked_about(
    target: TransformersModel, drafter: TransformersModel
) -> None:
    task = task_of(target, drafter, NUM_TOKENS)
    decode = target.tokenizer.decode
    whole, part = decode(task.prompt_ids), decode(task.drafter_ids)
    assert NUM_TOKENS < len(task.prompt_ids) < 2 * NUM_TOKENS
    assert len(task.drafter_ids) < len(task.prompt_ids)
    asked = whole.split("access codes of the ")[1].split("?")[0]
    assert f"The access code of the {asked} is " in part
    assert asked in decode(task.texts[0])
    assert task == task_of(target, drafter, NUM_TOKENS)


def test_a_document_that_cannot_be_is_told(
    target: TransformersModel, drafter: TransformersModel
) -> None:
    with pytest.raises(ContextOverflow, match=r"A context of 9000 tokens .* smaller --context"):
        task_of(target, drafter, 9000)
    with pytest.raises(InputError, match="do not hold the needles"):
        task_of(target, drafter, 20)


def test_steps_are_timed_and_taken_back(
    target: TransformersModel, drafter: TransformersModel
) -> None:
    course = Course(target, drafter, task_of(target, drafter, NUM_TOKENS), NEW_TOKENS)
    costs = course.costs()
    assert tuple(costs.verify_s) == STEP_TOKENS
    assert min(*costs.verify_s.values(), costs.draft_s) > 0
    pacer = FixedPacer(3)
    runs = {way: course.run(way, pacer) for way in (PLAIN, "lookup", "rag", "hybrid")}
    fresh = Course(target, drafter, task_of(target, drafter, NUM_TOKENS), NEW_TOKENS)
    assert runs[PLAIN].token_ids == fresh.run(PLAIN, pacer).token_ids
    for run in runs.values():
        assert run.token_ids == runs[PLAIN].token_ids
        assert run.token_s > 0
    assert not runs[PLAIN].tally.rounds
    assert runs["rag"].tally.drafted["model"] > 0
    assert runs["lookup"].tally.drafted["model"] == 0
