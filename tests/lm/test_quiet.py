import warnings

import pytest
from huggingface_hub.utils import logging as hub_logging
from huggingface_hub.utils.tqdm import are_progress_bars_disabled
from transformers.utils import logging

from readahead.lm.quiet import first_line, quiet_transformers


@pytest.mark.parametrize(
    ("said", "expected"), [("No.", "No"), ("\nOne.\nTwo.", "One"), (" \n", "ValueError")]
)
def test_an_error_is_told_in_one_line(said: str, expected: str) -> None:
    assert first_line(ValueError(said)) == expected


def state() -> tuple[int, bool, int, bool]:
    return (
        logging.get_verbosity(),
        logging.is_progress_bar_enabled(),
        hub_logging.get_verbosity(),
        are_progress_bars_disabled(),
    )


def test_nothing_is_printed_inside(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_transformers():
        logging.get_logger("transformers.models").warning("a warning")
        for _ in logging.tqdm(range(3)):
            pass
        warnings.warn("another warning", stacklevel=1)
    assert capfd.readouterr() == ("", "")


def test_everything_is_as_before_afterwards() -> None:
    before = state()
    with pytest.raises(ValueError, match="broken"), quiet_transformers():
        assert state() != before
        raise ValueError("broken")
    assert state() == before
    with pytest.warns(UserWarning, match="heard"):
        warnings.warn("heard", stacklevel=1)
