"""Which options belong to which method of answering, and which go together; asks nothing."""

from __future__ import annotations

from readahead.config import Config
from readahead.errors import InputError

PLAIN, DRAFTS, RAPID = "plain", "drafts", "rapid"
_METHODS_OF = {
    "explain": (DRAFTS, RAPID),
    "drafter": (DRAFTS, RAPID),
    "inject": (PLAIN,),
    "preset": (DRAFTS,),
    "threshold": (DRAFTS,),
    "drafting": (RAPID,),
    "mode": (RAPID,),
    "eta": (RAPID,),
    "draft_tokens": (RAPID,),
}
OPTIONS = tuple(_METHODS_OF)
"""The options that not all methods have."""

_MODES_WITH_ETA = ("augmented", "paper")


def check_options(method: str, config: Config, **options: object) -> None:
    """Raise InputError if an option is of another method, or some do not go together.

    Args:
        method: That answers.
        config: With the options.
        options: By their names; None and False were not given.
    """
    given = {name for name, value in options.items() if value is not None and value is not False}
    for name, methods in _METHODS_OF.items():
        if name in given and method not in methods:
            raise InputError(
                f"--{name.replace('_', '-')} is of the method {' or '.join(methods)}, not of "
                f"{method!r}.",
                remedy=f"Add: --method {' or --method '.join(methods)}",
            )
    if method == RAPID:
        _check_rapid(config, given)


def _check_rapid(config: Config, given: set[str]) -> None:
    drafting, mode = config.tokens.drafter, config.tokens.mode
    if mode != "exact" and drafting != "rag":
        raise InputError(
            f"--mode {mode} needs a model's distributions, and --drafting is {drafting!r}.",
            remedy="Add: --drafting rag",
        )
    if "eta" in given and mode not in _MODES_WITH_ETA:
        raise InputError(
            f"--eta is of the modes {' and '.join(_MODES_WITH_ETA)}, not of {mode!r}.",
            remedy="Add: --mode augmented --drafting rag",
        )
    if "drafter" in given and drafting == "lookup":
        raise InputError(
            "--drafter names a model, and --drafting lookup uses none.",
            remedy="Leave one of them out, or say --drafting hybrid.",
        )
