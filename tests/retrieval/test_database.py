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


def test_a_record_that_a_file_no_longer_holds_is_gone_wherever_it_stood(store: Store) -> None:
    secret = document("r#1", "The xylophonist zigzagged.")
    add(store, source("r", secret, document("r#2", "Opens at nine."), document("r#3", "Fog.")))
    store.add_trace({"id": "t", "attributes": {"passages": [{"id": "1.1.0"}]}}, keep=9)
    store.add_trace({"id": "u", "attributes": {"passages": [{"id": "3.1.0"}]}}, keep=9)
    report = add(store, source("r", document("r#1", "Opens at ten."), document("r#2", "Fog.")))
    assert (report.replaced, report.passages) == (1, 1)
    assert [(info.name, info.id, info.version) for info in store.documents()] == [
        ("r#1", 4, 1),
        ("r#2", 3, 1),
    ]
    assert [trace["id"] for trace in store.traces()] == ["u"]
    assert b"xylophonist" not in whole_folder(store.folder)
    assert store.check() == []


def test_records_keep_their_ids_when_one_is_inserted_above(store: Store) -> None:
    texts = ["Opens at nine.", "Fog closes the road.", "Dogs wait outside."]
    add(store, source("r", *(document(f"r#{at}", text) for at, text in enumerate(texts, 1))))
    texts.insert(0, "Read this first.")
    new = source("r", *(document(f"r#{at}", text) for at, text in enumerate(texts, 1)))
    assert add(store, new).passages == 1
    assert [(info.id, info.name) for info in store.documents()] == [
        (4, "r#1"),
        (1, "r#2"),
        (2, "r#3"),
        (3, "r#4"),
    ]
    assert found(store, "fog") == ["r#3"]
    assert store.check() == []


def test_a_record_may_change_in_its_place(store: Store) -> None:
    add(store, source("r", document("r#1", "Opens at nine."), document("r#2", "Fog.")))
    add(store, source("r", document("r#1", "Opens at ten."), document("r#2", "Fog.")))
    assert store.passage("1.1.0").text == "Opens at nine."
    assert store.documents()[0].version == 2
