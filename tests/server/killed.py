"""Upload to copies of a knowledge base, and die at the first, second, … write step.

Those of the indexing are tested on their own, so only some of them are tried here.

Run as ``python -m tests.server.killed FOLDER``; see ``tests.retrieval.killed``.
"""

import os
import shutil
import sys
from pathlib import Path

from tests.retrieval.killed import Killer
from tests.server.indexing import open_jobs, put, result

STRIDE = 9  # from step to step once the upload is acknowledged
FILES = {"new.md": b"Comets return.", "old.md": b"The road is closed."}


def upload(folder: Path) -> None:
    jobs = open_jobs(folder)
    job = put(jobs, FILES)
    folder.with_suffix(".acknowledged").write_text(job.id)
    result(jobs, job)
    jobs.close()


def main(folder: Path) -> None:
    at, step = 1, 1
    status = -1
    while status != 0:
        copy = folder / str(at)
        shutil.copytree(folder / "base", copy)
        child = os.fork()
        if child == 0:
            Killer(copy, at).install()
            upload(copy)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if copy.with_suffix(".acknowledged").exists():
            step = STRIDE
        at += step


if __name__ == "__main__":
    main(Path(sys.argv[1]))
