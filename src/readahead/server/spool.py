"""Uploads on the disk until they are indexed, and what became of them; knows no knowledge base.

    uploads/
      job-…part/     while it is received; goes at the next start
      job-…/         once it is acknowledged
        job.json     the record
        0, 1, …      the files that are to be indexed; they go once all are

Each change of a name follows the bytes that it stands for, and is synced: a job that was
acknowledged is there after any crash, as a whole.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from readahead.errors import DiskFull, StoreError
from readahead.retrieval.index import Failure

UPLOADS = "uploads"  # the folder, in that of a knowledge base
JobStatus = Literal["queued", "running", "done", "failed"]
_RECORD = "job.json"
_PART = ".part"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_log = logging.getLogger("readahead.server")


@dataclass(frozen=True, slots=True)
class Job:
    """Files that are to be indexed, and what became of those that were.

    Attributes:
        files: What they are called.
        created_at: In seconds since the epoch.
        added: How many of them; as ``unchanged`` and ``replaced``. A file that was stored in the
            instant of a crash counts as unchanged.
        failed: Those that could not be read, with the reasons.
        passages: How many were written.
        num_done: How many files are dealt with.
        to_encode: How many passages are to be embedded, of the files read so far.
        encoded: How many of these were, also of the file at work.
        too_long: How many of those are longer than the embedder reads.
        seconds: Spent on it so far.
        num_starts: How often its current file was begun; more than once after crashes.
        error: Why all of it failed or, while it is queued, what it waits for; "" if nothing did.
    """

    id: str
    files: tuple[str, ...]
    created_at: float
    status: JobStatus = "queued"
    added: int = 0
    unchanged: int = 0
    replaced: int = 0
    failed: tuple[Failure, ...] = ()
    passages: int = 0
    num_done: int = 0
    to_encode: int = 0
    encoded: int = 0
    too_long: int = 0
    seconds: float = 0.0
    num_starts: int = 0
    error: str = ""

    @property
    def is_over(self) -> bool:
        """Return whether nothing more will become of it."""
        return self.status in ("done", "failed")


def new_id() -> str:
    """Return an id that no other job has and nobody can guess."""
    return f"job-{secrets.token_hex(12)}"


class Spool:
    """The folder of one tenant's uploads; used by one process.

    Args:
        folder: Made at the first upload.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self) -> list[Job]:
        """Return all jobs, the oldest first; what was only half received goes.

        Those that are not over are queued again.
        """
        jobs = []
        for path in sorted(self._folder.iterdir()) if self._folder.is_dir() else ():
            if path.suffix == _PART:
                shutil.rmtree(path, ignore_errors=True)
            elif (job := _read(path)) is not None:
                jobs.append(job if job.is_over else replace(job, status="queued"))
                if job.is_over:
                    self.clear(job)
        return sorted(jobs, key=lambda job: (job.created_at, job.id))

    @property
    def is_waiting(self) -> bool:
        """Return whether a job is not over."""
        folders = self._folder.iterdir() if self._folder.is_dir() else ()
        jobs = (_read(path) for path in folders if path.suffix != _PART)
        return any(job is not None and not job.is_over for job in jobs)

    @contextmanager
    def receiving(self, id: str) -> Iterator[Path]:
        """Give a folder for the files of a job; it is gone after the body, unless it was kept.

        Raises:
            DiskFull: There is no room for it.
            StoreError: It cannot be made or written.
        """
        part = self._folder / (id + _PART)
        try:
            part.mkdir(mode=0o700, parents=True)
            yield part
        except OSError as error:
            raise fault(error, f"The upload cannot be written to {self._folder}") from None
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def keep(self, job: Job) -> None:
        """Keep what was received for a job, whatever happens from now on."""
        part = self._folder / (job.id + _PART)
        _write(part, job)
        part.rename(self._folder / job.id)
        _sync(self._folder)
        _sync(self._folder.parent)  # it may be new

    def save(self, job: Job) -> None:
        """Replace the record of a job, unless somebody took its whole folder away."""
        if (folder := self._folder / job.id).is_dir():
            _write(folder, job)

    def file(self, job: Job, number: int) -> Path:
        """Return where a file of a job lies."""
        return self._folder / job.id / str(number)

    def clear(self, job: Job) -> None:
        """Delete the files of a job, as far as they can be, and keep its record."""
        try:
            for number in range(len(job.files)):
                self.file(job, number).unlink(missing_ok=True)
        except OSError as error:  # it is over all the same
            _log.warning("the files of job %s cannot be deleted: %s", job.id, error.strerror)

    def forget(self, job: Job) -> None:
        """Delete all of a job."""
        shutil.rmtree(self._folder / job.id, ignore_errors=True)


def fault(error: OSError, what: str) -> StoreError:
    """Return what to raise where the system refused ``what``."""
    kind = DiskFull if error.errno in _FULL else StoreError
    return kind(
        f"{what}: {error.strerror or error}.",
        remedy="Free some disk space, or check that the folder may be written to.",
    )


def _write(folder: Path, job: Job) -> None:
    new = folder / f"{_RECORD}.new"
    with new.open("w", encoding="utf-8") as file:
        json.dump(asdict(job), file, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / _RECORD)
    _sync(folder)


def _read(folder: Path) -> Job | None:
    """Return the job in a folder, None if there is none that can be read."""
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        failed = tuple(Failure(**failure) for failure in record.pop("failed"))
        return Job(**{**record, "files": tuple(record["files"]), "failed": failed})
    except (OSError, ValueError, TypeError, KeyError) as error:
        _log.warning("no job can be read in %s: %s", folder, error)
        return None


def _sync(folder: Path) -> None:
    """Make the names in a folder as durable as the bytes they stand for."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
