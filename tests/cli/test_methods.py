from collections.abc import Mapping

import pytest

from readahead.cli.methods import check_options
from readahead.config import load_config
from readahead.errors import InputError

Options = Mapping[str, object]
NONE: Mapping[str, str] = {}


def check(method: str, tokens: Mapping[str, str] = NONE, options: Options = NONE) -> None:
    flags = {f"tokens.{name}": value for name, value in tokens.items()}
    check_options(method, load_config(flags), **options)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("plain", {"explain": False, "drafter": None}),
        ("drafts", {"explain": True, "drafter": "small", "preset": "fast", "threshold": "strict"}),
        ("rapid", {"explain": True, "drafter": "small", "drafting": "rag", "draft_tokens": 0}),
    ],
)
def test_options_of_the_method_pass(method: str, options: dict[str, object]) -> None:
    check(method, options=options)


@pytest.mark.parametrize("name", ["preset", "threshold"])
def test_options_of_drafts_are_refused_by_rapid(name: str) -> None:
    with pytest.raises(InputError, match=rf"^--{name} is of the method drafts, not of 'rapid'"):
        check("rapid", options={name: "strict"})


def test_zero_is_given() -> None:
    with pytest.raises(InputError, match=r"--draft-tokens is of .* Add: --method rapid"):
        check("plain", options={"draft_tokens": 0})


def test_rapid_takes_only_what_goes_together() -> None:
    check("rapid", {"mode": "paper", "drafter": "rag"}, {"eta": 3.0})
    check("rapid", {"mode": "ensemble", "drafter": "rag"})
    with pytest.raises(InputError, match="--eta is of the modes augmented and paper"):
        check("rapid", {"mode": "ensemble", "drafter": "rag"}, {"eta": 3.0})
    with pytest.raises(InputError, match="--mode augmented needs .* Add: --drafting rag"):
        check("rapid", {"mode": "augmented", "drafter": "hybrid"})
    check("plain", {"mode": "augmented", "drafter": "hybrid"})
    with pytest.raises(InputError, match="--drafting lookup uses none"):
        check("rapid", {"drafter": "lookup"}, {"drafter": "small"})
