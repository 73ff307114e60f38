"""Indexes what was uploaded, one job at a time, in a thread; knows no HTTP."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from readahead.config import Config, DocumentsConfig
from readahead.documents.read import Reader
from readahead.engine import Engine
from readahead.errors import DocumentError, NotFound, StoreError
from readahead.retrieval.index import AddReport, Failure
from readahead.server.problems import Problem, problem_of
from readahead.server.spool import UPLOADS, Job, Spool, fault, new_id
from readahead.types import Document

NUM_KEPT = 100  # records of jobs that are over
MAX_STARTS = 3  # of one file: what ends the process each time is not tried for ever
NOTHING = "None of the files could be read."
CLOSE_S = 10.0  # of waiting for a step; the process may end in the midst of it
RETRY_S = 10.0  # between two attempts while nothing can be stored
_log = logging.getLogger("readahead.server")


class Jobs:
    """One tenant's uploads. May be used from several threads.

    What was acknowledged is indexed, after a crash by the next process: files that were stored
    before it are unchanged then, and cost nothing. While nothing can be read or stored, it waits:
    the disk is full, another process has the database, or the embedder is not its own.

    Args:
        engine: Has the knowledge base, and what was read of it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._limits = engine.config.server
        self._spool = Spool(engine.config.kb / UPLOADS)
        self._jobs = {job.id: job for job in self._spool.load()}
        self._lock = threading.Lock()
        self._num_receiving = 0
        self._reader: Reader | None = None  # of the thread that runs
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._go_on()

    def close(self) -> None:
        """Stop within the current step; what is not over goes on when it is opened again."""
        with self._lock:
            self._closing.set()
            thread = self._thread
        deadline_s = time.monotonic() + CLOSE_S
        while thread is not None and thread.is_alive() and time.monotonic() < deadline_s:
            if self._reader is not None:
                self._reader.interrupt()
            thread.join(timeout=0.1)

    @property
    def _is_closed(self) -> bool:
        return self._closing.is_set()

    def __iter__(self) -> Iterator[Job]:
        """Yield all jobs that are remembered, the newest first."""
        with self._lock:
            return reversed(list(self._jobs.values()))

    def get(self, id: str) -> Job:
        """Return a job as it stands.

        Raises:
            NotFound: There is none, or it was over too long ago.
        """
        job = self._jobs.get(id)  # no lock: an event loop asks, and who has it may wait for a disk
        if job is None:
            raise NotFound(f"There is no job {id[:100]!r}.", remedy="See GET /v1/jobs.")
        return job

    @contextmanager
    def receiving(self) -> Iterator[tuple[str, Path]]:
        """Give the id of a new job and a folder for its files, which go if it is not submitted.

        Raises:
            Problem: 429, too many jobs wait.
            StoreError: The files cannot be written.
        """
        with self._lock:
            waiting = [job for job in self._jobs.values() if not job.is_over]
            if len(waiting) + self._num_receiving >= self._limits.max_jobs:
                raise Problem(
                    429,
                    f"{self._limits.max_jobs} uploads wait to be indexed, the most there may be. "
                    f"Try again when some are done.",
                    code="jobs_full",
                    headers={"Retry-After": f"{RETRY_S:.0f}"},
                )
            self._num_receiving += 1
        try:
            id = new_id()
            with self._spool.receiving(id) as folder:
                yield id, folder
        finally:
            with self._lock:
                self._num_receiving -= 1

    def submit(self, id: str, files: Iterable[str]) -> Job:
        """Take on what was received, for good, and return the job.

        Raises:
            Problem: 429, the tenant would have too many documents.
        """
        job = Job(id, tuple(files), time.time())
        with self._lock:
            self._check_room(job)
            self._spool.keep(job)
            self._jobs[id] = job
        self._go_on()
        return job

    def _check_room(self, job: Job) -> None:
        waiting = [other.files for other in self._jobs.values() if not other.is_over]
        names = {name for files in (*waiting, job.files) for name in files}
        num_others = self._engine.knowledge.store.num_documents(but_sources=names)
        if num_others + len(names) > self._limits.max_documents:
            raise Problem(
                429,
                f"With this upload there would be {num_others + len(names)} documents, more than "
                f"{self._limits.max_documents}. Delete some first.",
                code="documents_full",
            )

    def _go_on(self) -> None:
        """Start the thread, if there is something to do and none runs."""
        with self._lock:
            if self._thread is None and self._next() is not None:
                self._thread = threading.Thread(target=self._work, name="index", daemon=True)
                self._thread.start()

    def _next(self) -> Job | None:
        waiting = (job for job in self._jobs.values() if not job.is_over)
        return None if self._is_closed else next(waiting, None)

    def _work(self) -> None:
        with Reader(_reading(self._engine.config)) as reader:
            while True:
                with self._lock:
                    job = self._next()
                    if job is None:
                        self._thread = None
                        return
                self._reader = reader
                self._run(job, reader)

    def _run(self, job: Job, reader: Reader) -> None:
        """Index the files of a job that are left, or as many as there is time and room for."""
        job = replace(job, error="")
        try:
            while job.num_done < len(job.files) and not self._is_closed:
                job = self._index(job, reader)
        except Exception as error:
            if self._is_closed:  # by now the knowledge base may be, too
                return
            if isinstance(error, StoreError | OSError):
                self._wait(job, error)  # the file is tried again, and counted then
                return
            job = replace(self._jobs[job.id], error=problem_of(error).message)
        if job.num_done < len(job.files) and not job.error:
            return
        if len(job.failed) == len(job.files):
            job = replace(job, error=NOTHING)
        self._finish(replace(job, status="failed" if job.error else "done"))

    def _wait(self, job: Job, error: StoreError | OSError) -> None:
        """Let a job wait for what this machine refuses by now."""
        if isinstance(error, OSError):
            error = fault(error, f"Job {job.id} cannot go on")
        self._note(replace(job, status="queued", error=problem_of(error).message))
        self._closing.wait(RETRY_S)

    def _index(self, job: Job, reader: Reader) -> Job:
        """Index the next file of a job, and return what the job has come to.

        Raises:
            _Closed: There is no time for it.
        """
        name, before = job.files[job.num_done], job
        if reason := self._reason(job):
            job = replace(job, failed=(*job.failed, Failure(name, reason)))
        else:
            before = replace(job, status="running", num_starts=job.num_starts + 1)
            self._note(before)
            job = self._add(before, name, reader)
        job = replace(job, num_done=before.num_done + 1, num_starts=0)
        self._note(job)
        return job

    def _reason(self, job: Job) -> str:
        """Return why the next file of a job cannot be indexed at all, "" if it may be."""
        if job.num_starts >= MAX_STARTS:
            return f"the server ended {MAX_STARTS} times while it was indexed"
        is_there = self._spool.file(job, job.num_done).exists()
        return "" if is_there else "what was uploaded is not on the disk any more"

    def _add(self, job: Job, name: str, reader: Reader) -> Job:
        def progress(report: AddReport) -> None:
            self._check_open(job)
            self._jobs[job.id] = _sum(job, report)

        report = self._engine.knowledge.add_file(
            self._spool.file(job, job.num_done),
            name,
            reader,
            progress=progress,
            on_document=_Counter(self._engine, name, self._limits.max_documents).count,
        )
        if report.failed:  # perhaps by the interrupt
            self._check_open(job)
        if report.replaced:
            self._engine.forget_stale()
        return _sum(job, report)

    def _check_open(self, job: Job) -> None:
        if self._is_closed:
            self._note(replace(job, num_starts=0))
            raise _Closed

    def _note(self, job: Job) -> None:
        self._jobs[job.id] = job
        self._save(job)

    def _save(self, job: Job) -> None:
        try:
            self._spool.save(job)
        except OSError as error:
            # It runs again in the next process then, and finds its files unchanged.
            _log.error("the record of job %s cannot be written: %s", job.id, error)

    def _finish(self, job: Job) -> None:
        """Note that a job is over, and delete its files and the oldest records.

        It is not before its record says so: it would run again in the next process, and bring back
        what was deleted meanwhile.
        """
        try:
            self._spool.save(job)  # first: without its files it could not run again
        except OSError as error:
            self._wait(replace(job, num_starts=0), error)
            return
        self._spool.clear(job)
        with self._lock:
            self._jobs[job.id] = job
            over = [other for other in self._jobs.values() if other.is_over]
            for old in over[:-NUM_KEPT]:
                del self._jobs[old.id]
                self._spool.forget(old)


class _Closed(Exception):
    """The server ends."""


class _Counter:
    """Refuses a file of more documents than there is room for."""

    def __init__(self, engine: Engine, name: str, max_documents: int) -> None:
        self._room = max_documents - engine.knowledge.store.num_documents(but_sources=[name])
        self._max_documents = max_documents

    def count(self, document: Document) -> None:
        """Count one more.

        Raises:
            DocumentError: There is no room for it.
        """
        self._room -= 1
        if self._room < 0:
            raise DocumentError(
                f"with it, there would be more than {self._max_documents} documents"
            )


def _sum(job: Job, report: AddReport) -> Job:
    return replace(
        job,
        added=job.added + report.added,
        unchanged=job.unchanged + report.unchanged,
        replaced=job.replaced + report.replaced,
        failed=(*job.failed, *report.failed),
        passages=job.passages + report.passages,
        to_encode=job.to_encode + report.to_encode,
        encoded=job.encoded + report.encoded,
        too_long=job.too_long + report.too_long,
        seconds=job.seconds + report.seconds,
    )


def _reading(config: Config) -> DocumentsConfig:
    """Return how uploads are read: as other documents, and no more pages than the server allows."""
    max_pages = min(config.documents.max_pages, config.server.max_pages)
    return config.documents.model_copy(update={"max_pages": max_pages})
