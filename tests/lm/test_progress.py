import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from readahead.lm.progress import POLL_S, Silent, folder_bytes, growth_reported, task
from tests.lm.recorder import Recorder


def test_a_task_ends_also_when_it_fails() -> None:
    progress = Recorder()
    with pytest.raises(ValueError, match="broken"), task(progress, "Working", 3):
        assert progress.num_running == 1
        raise ValueError("broken")
    assert progress.num_running == 0
    assert progress.tasks == ["Working"]


def test_growth_is_reported_while_it_happens_and_counted_once(tmp_path: Path) -> None:
    progress = Recorder()
    (tmp_path / "before").write_bytes(bytes(1000))
    with task(progress, "Growing", 500), growth_reported(tmp_path, progress):
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "part").write_bytes(bytes(300))
        deadline = time.monotonic() + 50 * POLL_S
        while not progress.done_bytes and time.monotonic() < deadline:
            time.sleep(POLL_S / 10)
        assert progress.done_bytes == {"Growing": 300}
        (tmp_path / "folder" / "part").rename(tmp_path / "whole")
        (tmp_path / "more").write_bytes(bytes(200))
    assert progress.done_bytes == {"Growing": 500}


def test_folder_bytes_counts_files_at_every_depth_and_links_to_them(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(bytes(7))
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b" / "file")
    (tmp_path / "nowhere").symlink_to(tmp_path / "none")
    assert folder_bytes(tmp_path) == 14


def test_folders_that_vanish_while_they_are_looked_at_do_no_harm(tmp_path: Path) -> None:
    is_over = threading.Event()

    def make_and_remove() -> None:
        while not is_over.is_set():
            (tmp_path / "a" / "b").mkdir(parents=True)
            (tmp_path / "a" / "b" / "part").write_bytes(b"x")
            shutil.rmtree(tmp_path / "a")

    with ThreadPoolExecutor(1) as pool:
        making = pool.submit(make_and_remove)
        try:
            assert {folder_bytes(tmp_path) for _ in range(2000)} <= {0, 1}
        finally:
            is_over.set()
        making.result()


def test_silence_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    progress = Silent()
    progress.notice("licence")
    with task(progress, "Working"):
        progress.advance(1)
    assert capfd.readouterr() == ("", "")
