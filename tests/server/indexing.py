"""Jobs over a knowledge base without any model, and what tests ask of them.

Run as ``python -m tests.server.indexing FOLDER`` it takes on jobs without end, and prints the id of
each as soon as it is acknowledged, until it is killed.
"""

import sys
import time
from collections.abc import Mapping
from pathlib import Path

from readahead.engine import Engine
from readahead.knowledge import KnowledgeBase
from readahead.server.jobs import Jobs
from readahead.server.spool import Job
from tests.server.conftest import make_config


def open_jobs(folder: Path, **settings: object) -> Jobs:
    """Return the jobs of the knowledge base in ``folder``."""
    return Jobs(open_engine(folder, **settings))


def open_engine(folder: Path, **settings: object) -> Engine:
    return Engine(KnowledgeBase.open(make_config(folder, **settings)))


def put(jobs: Jobs, files: Mapping[str, bytes]) -> Job:
    """Upload files."""
    with jobs.receiving() as (id, folder):
        for number, content in enumerate(files.values()):
            (folder / str(number)).write_bytes(content)
        return jobs.submit(id, files)


def result(jobs: Jobs, job: Job, timeout_s: float = 60.0) -> Job:
    """Wait until a job is over."""
    deadline_s = time.monotonic() + timeout_s
    while not (now := jobs.get(job.id)).is_over:
        assert time.monotonic() < deadline_s, now
        time.sleep(0.01)
    return now


def main(folder: Path) -> None:
    jobs = open_jobs(folder)
    for number in range(1_000_000):
        files = {f"{number}-{file}.md": f"Unit {number} {file} hums.".encode() for file in "ab"}
        print(put(jobs, files).id, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
