"""The tree drawn in the docstring is the tree of the classes."""

import inspect
import re

import pytest

from readahead import errors
from readahead.errors import ConfigError, InputError, ReadaheadError, missing_extra

ROW_RE = re.compile(
    r"^    (?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+) +(?P<exit>\d+|exit status) +(\d+|HTTP)"
)


def drawn() -> dict[str, tuple[str, str, str]]:
    """Return name to (parent, exit status, HTTP status) as the docstring draws them."""
    rows: dict[str, tuple[str, str, str]] = {}
    above = {0: "Exception"}
    for line in (errors.__doc__ or "").splitlines():
        if match := ROW_RE.match(line):
            depth = len(match["branch"]) // 4 + 1
            rows[match["name"]] = (above[depth - 1], match["exit"], match[4])
            above[depth] = match["name"]
    return rows


def classes() -> dict[str, type[ReadaheadError]]:
    members = inspect.getmembers(errors, inspect.isclass)
    return {name: cls for name, cls in members if issubclass(cls, ReadaheadError)}


def test_the_drawing_is_the_tree() -> None:
    assert set(drawn()) == set(classes())
    for name, cls in classes().items():
        parent, exit_status, http_status = drawn()[name]
        assert cls.__bases__[0].__name__ == parent
        if cls is not ReadaheadError:
            assert (str(cls.exit_status), str(cls.http_status)) == (exit_status, http_status)


@pytest.mark.parametrize("cls", classes().values())
def test_statuses_are_within_the_contract(cls: type[ReadaheadError]) -> None:
    assert cls.exit_status in (1, 2, 3)
    assert 400 <= cls.http_status < 600
    assert cls.__doc__


def test_a_message_ends_in_its_remedy() -> None:
    error = InputError("The file 'x' is 3 MB, over the limit of 2 MB.", remedy="Raise the limit.")
    assert str(error) == "The file 'x' is 3 MB, over the limit of 2 MB. Raise the limit."
    assert (error.message, error.remedy) == (error.args[0], "Raise the limit.")
    assert str(InputError("No remedy.")) == "No remedy."


def test_missing_extra_says_how_to_install_it() -> None:
    error = missing_extra("pypdf", "pdf")
    assert isinstance(error, ConfigError)
    assert "'pypdf'" in error.message
    assert "pip install 'readahead[pdf]'" in error.remedy
