import subprocess
import sys
from pathlib import Path


def test_what_is_removed_is_gone_though_the_log_cannot_be_emptied(tmp_path: Path) -> None:
    """Its transaction is kept by then; an error would say that nothing was removed."""
    code = f"""
import resource, signal
from pathlib import Path
from readahead.retrieval.store import Store
from tests.retrieval.support import add_texts

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store.open({str(tmp_path)!r})
for number in range(8):
    add_texts(store, **{{f"d{{number}}": f"word{{number}} " * 4000}})
store._database.flush()
size = (store.folder / "knowledge.db").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, resource.RLIM_INFINITY))
assert store.remove(["d0"]) == ["d0"]
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
assert (store.folder / "knowledge.db-wal").stat().st_size > 0
assert store.remove(["d1"]) == ["d1"]
assert (store.folder / "knowledge.db-wal").stat().st_size == 0
assert [info.name for info in store.documents()] == [f"d{{number}}" for number in range(2, 8)]
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
