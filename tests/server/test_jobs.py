import errno
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from readahead.documents import read
from readahead.engine import Engine
from readahead.errors import NotFound, StoreError
from readahead.knowledge import KnowledgeBase
from readahead.retrieval import database
from readahead.retrieval.store import FILE_NAME, Store
from readahead.server import jobs as module
from readahead.server.jobs import MAX_STARTS, NOTHING, Jobs
from readahead.server.problems import UNREADABLE, Problem
from readahead.server.spool import UPLOADS, Job, Spool, new_id
from tests.documents.conftest import SLOW_PAGE, print_pages
from tests.retrieval.support import HashingEmbedder
from tests.server.clients import wait_until
from tests.server.conftest import Full, make_config
from tests.server.indexing import open_engine, open_jobs, put, result
from tests.server.killed import FILES


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    jobs = open_jobs(tmp_path)
    yield jobs
    jobs.close()


def names(jobs: Jobs) -> list[str]:
    return [info.name for info in jobs._engine.knowledge.store.documents()]


def text(jobs: Jobs, name: str) -> str:
    return jobs._engine.knowledge.document(name).text


def spooled(folder: Path) -> list[str]:
    uploads = folder / "kb" / UPLOADS
    return sorted(path.name for path in uploads.rglob("*") if path.is_file())


def test_what_is_uploaded_is_indexed_and_accounted_for(jobs: Jobs, tmp_path: Path) -> None:
    first = result(jobs, put(jobs, {"a.md": b"One.", "b.txt": b"Two."}))
    assert (first.status, first.added, first.num_done, first.passages) == ("done", 2, 2, 2)
    assert first.error == "" and first.seconds > 0
    broken = {"a.md": b"One anew.", "b.txt": b"Two.", "c.pdf": b"%PDF-1.4 junk", "d.md": b"Four."}
    second = result(jobs, put(jobs, broken))
    assert (second.added, second.unchanged, second.replaced) == (1, 1, 1)
    assert [failure.path for failure in second.failed] == ["c.pdf"]
    assert "not readable as pdf" in second.failed[0].reason
    assert (second.status, second.num_done, second.error) == ("done", 4, "")
    assert names(jobs) == ["a.md", "b.txt", "d.md"]
    assert text(jobs, "a.md") == "One anew."
    assert spooled(tmp_path) == ["job.json", "job.json"]
    assert [job.id for job in jobs] == [second.id, first.id]


def test_a_job_of_which_nothing_can_be_read_has_failed(jobs: Jobs) -> None:
    job = result(jobs, put(jobs, {"a.pdf": b"%PDF-1.4 junk", "b.md": b" "}))
    assert (job.status, job.error, len(job.failed)) == ("failed", NOTHING, 2)


def test_a_job_tells_how_many_passages_are_not_embedded_to_their_end(tmp_path: Path) -> None:
    config = make_config(tmp_path, retrieval__mode="hybrid")
    store = Store.open(config.kb)
    jobs = Jobs(Engine(KnowledgeBase(store, config, HashingEmbedder())))
    long = b"A word of many. " * 15
    job = result(jobs, put(jobs, {"a.md": b"One.", "b.md": long, "c.md": b"And " + long}))
    assert (job.status, job.encoded, job.too_long) == ("done", 3, 2)
    jobs.close()


def test_a_job_keeps_the_reason_for_which_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("READAHEAD_HOME", str(tmp_path / "nothing-pulled"))
    jobs = open_jobs(tmp_path, retrieval__mode="hybrid")
    job = result(jobs, put(jobs, {"a.md": b"One."}))
    assert job.status == "failed" and "is not on this machine" in job.error
    assert "readahead pull" in caplog.text and "readahead pull" not in job.error
    jobs.close()
    (known,) = open_jobs(tmp_path)
    assert known == job
    assert spooled(tmp_path) == ["job.json"]


def test_a_fault_of_ours_fails_one_job_only(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    knowledge = jobs._engine.knowledge
    with monkeypatch.context() as broken:
        broken.setattr(knowledge, "add_file", lambda *_, **__: 1 / 0)
        job = result(jobs, put(jobs, {"a.md": b"One."}))
    assert (job.status, job.error) == ("failed", "The server failed; its log says where.")
    assert "ZeroDivisionError" in caplog.text
    assert result(jobs, put(jobs, {"a.md": b"One."})).status == "done"


def test_a_file_that_cannot_be_deleted_holds_up_nothing(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unlink(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as broken:
        broken.setattr(Path, "unlink", unlink)
        assert result(jobs, put(jobs, {"a.md": b"One."}), 20).status == "done"
    assert "cannot be deleted: Permission denied" in caplog.text
    assert result(jobs, put(jobs, {"b.md": b"Two."}), 20).status == "done"


def test_who_follows_a_job_waits_for_nobody(jobs: Jobs) -> None:
    job = result(jobs, put(jobs, {"a.md": b"One."}))
    with ThreadPoolExecutor(1) as pool, jobs._lock:  # as while an upload is brought to the disk
        assert pool.submit(jobs.get, job.id).result(10) == job


def test_documents_of_too_many_pages_are_refused(tmp_path: Path) -> None:
    jobs = open_jobs(tmp_path, server__max_pages=2)
    pages = [["One."], ["Two."], ["Three."]]
    files = {"short.pdf": print_pages(pages[:2]), "long.pdf": print_pages(pages)}
    job = result(jobs, put(jobs, files))
    assert [failure.reason for failure in job.failed] == ["3 pages, more than 2"]
    assert names(jobs) == ["short.pdf"]
    jobs.close()


def test_too_many_jobs_wait(tmp_path: Path) -> None:
    jobs = open_jobs(tmp_path, server__max_jobs=2)
    too_many = pytest.raises(Problem, match="2 uploads wait")
    with jobs.receiving(), jobs.receiving(), too_many as caught:
        put(jobs, {"a.md": b"One."})
    assert caught.value.status == 429
    assert int(caught.value.headers["Retry-After"]) > 0
    assert result(jobs, put(jobs, {"a.md": b"One."})).status == "done"
    assert spooled(tmp_path) == ["job.json"]
    jobs.close()


def test_a_tenant_has_a_bounded_number_of_documents(tmp_path: Path) -> None:
    jobs = open_jobs(tmp_path, server__max_documents=2)
    put(jobs, {"a.md": b"One.", "b.md": b"Two."})  # it may be waiting still
    with pytest.raises(Problem, match="3 documents, more than 2") as caught:
        put(jobs, {"c.md": b"Three."})
    assert caught.value.status == 429
    assert result(jobs, put(jobs, {"a.md": b"Another."})).replaced == 1
    lines = b'{"text": "One."}\n{"text": "Two."}\n{"text": "Three."}\n'
    jobs._engine.knowledge.remove(["a.md"])
    job = result(jobs, put(jobs, {"many.jsonl": lines}))
    assert "more than 2 documents" in job.failed[0].reason
    assert names(jobs) == ["b.md"]
    jobs.close()


def test_an_upload_that_is_not_finished_leaves_nothing(jobs: Jobs, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), jobs.receiving() as (_, folder):
        (folder / "0").write_bytes(b"half")
        raise RuntimeError("the client has left")
    assert list((tmp_path / "kb" / UPLOADS).iterdir()) == []
    assert list(jobs) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    jobs = open_jobs(tmp_path)
    (tmp_path / "kb" / UPLOADS).write_text("not a folder")
    with pytest.raises(StoreError, match="cannot be written"), jobs.receiving():
        pass


def test_while_the_disk_is_full_what_was_acknowledged_waits(
    tmp_path: Path,
    full: Full,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    jobs = open_jobs(tmp_path)
    long = b"\n\n".join(b"Unit %d hums." % number for number in range(300))
    with full():
        job = put(jobs, {"a.md": b"One.", "long.md": long})
        # More often than a file is begun that ends the server.
        wait_until(lambda: caplog.text.count("cannot grow") > MAX_STARTS, timeout_s=60)
        seen: list[Job] = []

        def is_told() -> bool:
            seen.append(jobs.get(job.id))
            return bool(seen[-1].error)

        wait_until(is_told)
        now = seen[-1]
        assert (now.status, now.num_done, now.failed) == ("queued", 1, ())
        assert "disk is full" in now.error and str(tmp_path) not in now.error
        jobs.close()
        jobs = open_jobs(tmp_path)
    now = result(jobs, job)
    assert (now.status, now.added + now.unchanged, now.error) == ("done", 2, "")
    assert names(jobs) == ["a.md", "long.md"]
    jobs.close()


def test_while_the_database_is_locked_what_was_acknowledged_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0)
    monkeypatch.setattr(module, "RETRY_S", 0.05)
    jobs = open_jobs(tmp_path)
    other = apsw.Connection(str(tmp_path / "kb" / FILE_NAME))
    other.execute("BEGIN IMMEDIATE")
    job = put(jobs, {"a.md": b"One."})

    def waits() -> bool:
        now = jobs.get(job.id)
        assert not now.is_over, now
        return (now.status, now.num_starts) == ("queued", 0) and "cannot be read" in now.error

    wait_until(waits)
    other.execute("ROLLBACK")
    now = result(jobs, job)
    assert (now.status, now.added, now.error) == ("done", 1, "")
    assert names(jobs) == ["a.md"]
    other.close()
    jobs.close()


def test_while_the_system_refuses_what_was_acknowledged_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The parser cannot start on a disk so full that it holds no temporary file."""
    monkeypatch.setattr(module, "RETRY_S", 0.01)

    def start(*_: object) -> None:
        raise FileNotFoundError(errno.ENOENT, f"No usable temporary directory in {tmp_path}")

    jobs = open_jobs(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(read, "_Child", start)
        job = put(jobs, {"a.md": b"One."})
        wait_until(lambda: caplog.text.count("No usable temporary") > MAX_STARTS)
        wait_until(lambda: jobs.get(job.id).error == UNREADABLE)
        assert jobs.get(job.id).failed == ()
    now = result(jobs, job)
    assert (now.status, now.added, now.failed, now.error) == ("done", 1, (), "")
    jobs.close()


@pytest.mark.parametrize("only_at_the_end", [False, True])
def test_a_job_is_over_once_its_record_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, only_at_the_end: bool
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    save = Spool.save

    def full(spool: Spool, job: Job) -> None:
        if job.is_over or not only_at_the_end:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(spool, job)

    jobs = open_jobs(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(Spool, "save", full)
        job = put(jobs, {"a.md": b"One.", "b.md": b"Two."})
        wait_until(lambda: "disk is full" in jobs.get(job.id).error)
        assert jobs.get(job.id).status == "queued"
        jobs.close()
    assert spooled(tmp_path) == ["0", "1", "job.json"]
    again = open_jobs(tmp_path)
    now = result(again, job)
    assert (now.status, now.added + now.unchanged, now.failed) == ("done", 2, ())
    assert spooled(tmp_path) == ["job.json"]
    again.close()


def test_a_spooled_file_that_somebody_took_away_holds_up_nothing(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "kb" / UPLOADS)
    job = Job(new_id(), ("gone.md", "there.md"), time.time())
    with spool.receiving(job.id) as folder:
        (folder / "1").write_bytes(b"Some text.")
        spool.keep(job)
    jobs = open_jobs(tmp_path)
    now = result(jobs, job)
    assert [failure.path for failure in now.failed] == ["gone.md"]
    assert "is not on the disk any more" in now.failed[0].reason
    assert (now.status, now.added) == ("done", 1)
    jobs.close()


def test_unknown_jobs_are_not_found(jobs: Jobs) -> None:
    with pytest.raises(NotFound, match=r"no job '\.\./x'"):
        jobs.get("../x")


def test_a_job_that_is_interrupted_goes_on_when_it_is_opened_again(tmp_path: Path) -> None:
    jobs = open_jobs(tmp_path)
    job = put(jobs, {"a.md": b"One.", "slow.html": SLOW_PAGE, "c.md": b"Three."})
    while jobs.get(job.id).num_done < 1:
        time.sleep(0.01)
    time.sleep(0.2)
    begun_s = time.monotonic()
    jobs.close()
    assert time.monotonic() - begun_s < 2
    jobs = open_jobs(tmp_path)
    now = jobs.get(job.id)
    assert (now.num_done, now.added, now.failed) == (1, 1, ())
    assert result(jobs, job).num_done == 3
    assert names(jobs) == ["a.md", "c.md"]  # the slow one holds no text
    jobs.close()


def test_an_error_while_it_closes_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = open_jobs(tmp_path)
    is_running = threading.Event()

    def add_file(*_: object, **__: object) -> None:
        is_running.set()
        while not jobs._is_closed:
            time.sleep(0.01)
        raise StoreError("The knowledge base is closed.")

    monkeypatch.setattr(jobs._engine.knowledge, "add_file", add_file)
    job = put(jobs, {"a.md": b"One."})
    assert is_running.wait(10)
    jobs.close()
    jobs = open_jobs(tmp_path)
    assert (result(jobs, job).status, names(jobs)) == ("done", ["a.md"])
    jobs.close()


def test_a_file_that_ends_the_server_again_and_again_is_left_out(tmp_path: Path) -> None:
    jobs = open_jobs(tmp_path)
    job = Job(new_id(), ("bad.md", "good.md"), time.time())
    spool = Spool(tmp_path / "kb" / UPLOADS)
    with spool.receiving(job.id) as folder:
        for number in range(2):
            (folder / str(number)).write_bytes(b"Some text.")
        spool.keep(replace(job, status="running", num_starts=MAX_STARTS))
    jobs.close()
    jobs = open_jobs(tmp_path)
    now = result(jobs, job)
    assert [failure.path for failure in now.failed] == ["bad.md"]
    assert "ended 3 times" in now.failed[0].reason
    assert (now.status, now.added) == ("done", 1)
    jobs.close()


def test_only_the_last_records_are_kept(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NUM_KEPT", 2)
    made = [result(jobs, put(jobs, {"a.md": b"One."})) for _ in range(4)]
    while len(list(jobs)) > 2:
        time.sleep(0.01)
    assert [job.id for job in jobs] == [made[3].id, made[2].id]
    assert len(list((tmp_path / "kb" / UPLOADS).iterdir())) == 2


@pytest.mark.parametrize("record", ["", "[]", "{}", '{"id": "x", "failed": 3, "files": []}'])
def test_a_damaged_record_is_left_alone(
    tmp_path: Path, record: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "kb" / UPLOADS / "job-x"
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(record)
    jobs = open_jobs(tmp_path)
    assert list(jobs) == []
    assert "no job can be read" in caplog.text
    assert result(jobs, put(jobs, {"a.md": b"One."})).status == "done"
    jobs.close()


def test_parallel_uploads_searches_and_deletes(jobs: Jobs) -> None:
    knowledge = jobs._engine.knowledge
    is_over = threading.Event()
    num_searches = 0

    def search() -> None:
        nonlocal num_searches
        while not is_over.is_set():
            for hit in knowledge.search("the unit hums", 5):
                assert "hums" in hit.passage.text
            num_searches += 1

    def upload(number: int) -> Job:
        same = f"Version {number} hums.".encode()
        return put(jobs, {f"{number}.md": f"Unit {number} hums.".encode(), "same.md": same})

    def delete() -> None:
        while not is_over.is_set():
            for info in knowledge.store.document_page(1, query="same"):
                with suppress(NotFound):  # by now it may be another one
                    knowledge.remove([str(info.id)], by_id=True)

    with ThreadPoolExecutor(24) as threads:
        others = [threads.submit(search), threads.submit(search), threads.submit(delete)]
        results = [result(jobs, job) for job in threads.map(upload, range(20))]
        is_over.set()
        for other in others:
            other.result()
    assert {job.status for job in results} == {"done"}
    assert sum(job.added + job.replaced for job in results) == 40
    assert set(names(jobs)) - {"same.md"} == {f"{number}.md" for number in range(20)}
    assert num_searches > 0
    assert knowledge.store.check() == []


def test_the_later_of_two_uploads_of_one_name_is_what_stays(jobs: Jobs) -> None:
    with jobs.receiving() as (second, second_folder), jobs.receiving() as (first, first_folder):
        (first_folder / "0").write_bytes(b"First.")
        (second_folder / "0").write_bytes(b"Second.")
        jobs.submit(first, ["a.md"])
        last = jobs.submit(second, ["a.md"])
    result(jobs, last)
    assert text(jobs, "a.md") == "Second."


def test_an_upload_survives_a_kill_at_any_step(tmp_path: Path) -> None:
    base = open_jobs(tmp_path / "base")
    result(base, put(base, {"old.md": b"The road is open."}))
    base.close()
    base._engine.close()
    subprocess.run([sys.executable, "-m", "tests.server.killed", str(tmp_path)], check=True)
    copies = [path for path in tmp_path.iterdir() if path.name.isdigit()]
    assert len(copies) > 20
    for copy in copies:
        check_killed(copy)


def check_killed(copy: Path) -> None:
    acknowledged = copy.with_suffix(".acknowledged")
    jobs = open_jobs(copy)
    for job in jobs:
        assert result(jobs, job).failed == ()
    texts = {name: text(jobs, name) for name in names(jobs)}
    is_new = texts == {name: content.decode() for name, content in FILES.items()}
    assert is_new or texts == {"old.md": "The road is open."}
    if acknowledged.exists() and acknowledged.read_text():
        assert is_new, copy
        job = jobs.get(acknowledged.read_text())
        assert job.added + job.replaced + job.unchanged == job.num_done == 2
    jobs.close()
    jobs._engine.close()
    assert set(spooled(copy)) <= {"job.json", "job.json.new"}


@pytest.mark.parametrize("seed", range(2))
def test_what_was_acknowledged_survives_kill_9(tmp_path: Path, seed: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.server.indexing", str(tmp_path)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    ids = [process.stdout.readline().decode().strip()]
    time.sleep(random.Random(seed).uniform(0.0, 0.5))
    process.send_signal(signal.SIGKILL)
    ids += process.stdout.read().decode().split()
    process.wait()
    process.stdout.close()
    jobs = open_jobs(tmp_path)
    done = [result(jobs, jobs.get(id)) for id in ids[-100:]]
    assert {job.status for job in done} == {"done"}
    assert {name for job in done for name in job.files} <= set(names(jobs))
    assert jobs._engine.knowledge.store.check() == []
    # One more may have been stored whose id was not told any more; it is indexed, too.
    wait_until(lambda: set(spooled(tmp_path)) == {"job.json"})
    jobs.close()


def test_a_record_says_all_that_is_known(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    jobs = Jobs(engine)
    job = result(jobs, put(jobs, {"水.md": b"One."}))
    jobs.close()
    (record,) = (tmp_path / "kb" / UPLOADS).glob("*/job.json")
    assert json.loads(record.read_text(encoding="utf-8"))["files"] == ["水.md"]
    assert list(Jobs(engine)) == [job]
