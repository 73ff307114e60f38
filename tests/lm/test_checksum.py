import hashlib
from pathlib import Path

from readahead.lm.checksum import sha256_of
from tests.lm.recorder import Recorder


def test_files_are_summed_as_one_and_reported(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    first.write_bytes(b"a" * 5_000_000)
    second.write_bytes(b"b")
    progress = Recorder()
    expected = hashlib.sha256(b"a" * 5_000_000 + b"b").hexdigest()
    assert sha256_of([first, second], progress) == expected
    assert progress.done_bytes == {"Checking 1": 5_000_001}
