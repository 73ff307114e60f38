import pytest

from readahead.lm.prompt import build_prompt
from readahead.speculation.retrieval.check import num_kept_passages
from tests.speculation.retrieval.test_prefetch import MODEL, PASSAGES, QUESTION


@pytest.mark.parametrize(
    ("guessed", "right", "num_kept"),
    [
        (None, [0, 1], 0),
        ([], [0, 1], 0),
        ([0, 1], [], 0),
        ([0, 1], [0, 1], 2),
        ([0], [0, 1], 1),
        ([0, 1], [0], 1),
        ([0, 1], [0, 2], 1),
        ([1, 0], [0, 1], 0),  # each is there, but read behind something else
    ],
)
def test_passages_are_kept_up_to_the_first_that_differs(
    guessed: list[int] | None, right: list[int], num_kept: int
) -> None:
    prompts = [
        build_prompt(MODEL.tokenizer, QUESTION, [PASSAGES[n] for n in places], max_tokens=1500)
        for places in (guessed or [], right)
    ]
    assert num_kept_passages(None if guessed is None else prompts[0], prompts[1]) == num_kept
