import json
import stat
from pathlib import Path

import pytest

from readahead.server.guard.files import write_json


def test_a_file_is_replaced_as_a_whole_and_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    path.chmod(0o644)
    write_json(path, {"a": [1, None]})
    assert json.loads(path.read_text()) == {"a": [1, None]}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, 1)
    with pytest.raises(TypeError):
        write_json(path, object())
    assert path.read_text() == "1"
    assert list(tmp_path.iterdir()) == [path]
