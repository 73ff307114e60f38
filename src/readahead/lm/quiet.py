"""What the libraries below say: kept off the terminal, and cut to a line; knows no model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from logging import ERROR


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, without a full stop; its kind if nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Silence huggingface_hub's bars, logs and warnings in the ``with`` body, then restore them."""
    from huggingface_hub.utils import logging
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verbosity, were_disabled = logging.get_verbosity(), are_progress_bars_disabled()
        logging.set_verbosity(ERROR)
        disable_progress_bars()
        try:
            yield
        finally:
            logging.set_verbosity(verbosity)
            if not were_disabled:
                enable_progress_bars()


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers and huggingface_hub in the ``with`` body, then restore them."""
    from transformers.utils import logging

    with quiet_hub():
        verbosity, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity(ERROR)
        logging.disable_progress_bar()
        try:
            yield
        finally:
            logging.set_verbosity(verbosity)
            if had_bars:
                logging.enable_progress_bar()
