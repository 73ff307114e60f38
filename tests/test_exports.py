import subprocess
import sys

import pytest

import readahead


@pytest.mark.parametrize("name", readahead.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(readahead, name) is not None


def test_the_list_is_sorted_and_complete() -> None:
    assert readahead.__all__ == sorted(readahead.__all__)
    assert {*readahead._HOMES, "__version__"} == set(readahead.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = readahead.nothing


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import readahead, sys; print({'torch', 'transformers', 'faiss'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
