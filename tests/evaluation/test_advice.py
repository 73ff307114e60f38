import pytest

from readahead.config import load_config
from readahead.errors import InputError, VocabularyMismatch
from readahead.evaluation.advice import TRIED_GAMMA, WAYS, advise_with
from readahead.lm.model import TransformersModel
from tests.conftest import make_llama, make_tokenizer

LENGTHS = (900, 600)


def tiny(seed: int = 0) -> TransformersModel:
    return TransformersModel(
        make_llama(seed, max_position_embeddings=4096), make_tokenizer(), name=f"tiny-{seed}"
    )


def test_advice_holds_costs_predictions_and_what_came_of_them() -> None:
    told: list[tuple[int, int]] = []
    advice = advise_with(
        tiny(),
        tiny(1),
        load_config(),
        lengths=LENGTHS,
        max_new_tokens=12,
        progress=lambda done, total, label: told.append((done, total)),
    )
    assert (advice.target, advice.drafter) == ("tiny-0", "tiny-1")
    shorter, longer = advice.lengths
    assert shorter.num_context_tokens < longer.num_context_tokens
    assert [trial.way for trial in shorter.trials] == list(WAYS)
    for trial in (*shorter.trials, *longer.trials):
        assert trial.is_identical
        assert 0 <= trial.acceptance <= 1
        assert 0 <= trial.share <= 1
        assert min(trial.speed_up, trial.predicted_speed_up) > 0
    rag = longer.trial("rag")
    assert rag.share > 0.8  # but the last round, which has no room
    assert rag.num_draft_tokens >= 3 * TRIED_GAMMA
    assert len(advice.sentences) >= 4
    assert told == [(done, len(told)) for done in range(len(told))]


def test_a_target_that_drafts_for_itself_is_one_model() -> None:
    model = tiny()
    advice = advise_with(model, model, load_config(), lengths=[600], max_new_tokens=4)
    assert advice.target == advice.drafter == "tiny-0"


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(InputError, match="no context"):
        advise_with(tiny(), tiny(1), load_config(), lengths=[])
    tokenizer = make_tokenizer()
    tokenizer.add_tokens(["<new>"])
    stranger = TransformersModel(make_llama(), tokenizer)
    with pytest.raises(VocabularyMismatch):
        advise_with(tiny(), stranger, load_config(), lengths=[600])
