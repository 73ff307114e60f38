"""Do something to copies of a knowledge base, and die at its first, second, … write step.

Run as ``python -m tests.retrieval.killed FOLDER ACTION``. ``FOLDER/base`` holds the knowledge
base; copy number n is ``FOLDER/n`` and is left as the kill left it, with ``FOLDER/n.acknowledged``
if the action had returned by then. A step is an SQL statement, a write, sync or truncation by
SQLite, or a file opened, renamed or removed by Python in the knowledge base. The last copy is the
one where nothing was left to kill.
"""

import os
import shutil
import signal
import sys
from pathlib import Path

import apsw

from readahead.retrieval.store import Store
from tests.retrieval.support import HashingEmbedder, add, document, found, source

FILE_EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree"}
EMBEDDER = HashingEmbedder()
BASE_VFS = apsw.vfs_names()[0]


class Killer:
    """Counts write steps and ends the process, without any clean-up, at one of them."""

    def __init__(self, folder: Path, at: int) -> None:
        self.folder = str(folder)
        self.left = at

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        def statement(*_: object) -> bool:
            self.step()
            return True

        def watch(connection: apsw.Connection) -> None:
            connection.exec_trace = statement

        def audit(event: str, arguments: tuple[object, ...]) -> None:
            if event in FILE_EVENTS and any(str(a).startswith(self.folder) for a in arguments):
                self.step()

        apsw.connection_hooks.append(watch)
        sys.addaudithook(audit)
        self.vfs = Vfs(self)


class Vfs(apsw.VFS):
    """The operating system's files, with steps counted."""

    def __init__(self, killer: Killer) -> None:
        self.killer = killer
        super().__init__("killed", BASE_VFS, makedefault=True)

    def xOpen(self, name: object, flags: list[int]) -> "File":
        return File(self.killer, name, flags)


class File(apsw.VFSFile):
    """A file whose writes, syncs and truncations are steps."""

    def __init__(self, killer: Killer, name: object, flags: list[int]) -> None:
        self.killer = killer
        super().__init__(BASE_VFS, name, flags)  # type: ignore[arg-type]

    def xWrite(self, data: bytes, offset: int) -> None:
        # The kill falls within the write.
        super().xWrite(data[: len(data) // 2], offset)
        self.killer.step()
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self.killer.step()
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:
        self.killer.step()
        super().xTruncate(size)


def act(store: Store, action: str) -> None:
    if action == "add":
        changed = source(
            "records",
            document("records#1", "The observatory opens at nine."),
            document("records#2", "Snow closes the northern road."),
            document("records#4", "天文台周一闭馆。"),
        )
        add(store, changed, source("new", document("new", "Comets return.")), embedder=EMBEDDER)
    else:
        store.remove(["records#2", "other"])


def act_and_search(folder: Path, action: str) -> None:
    with Store.open(folder) as store:
        act(store, action)
        folder.with_suffix(".acknowledged").touch()
        found(store, "observatory", EMBEDDER)


def main(folder: Path, action: str) -> None:
    at = 0
    status = -1
    while status != 0:
        at += 1
        copy = folder / str(at)
        shutil.copytree(folder / "base", copy)
        child = os.fork()
        if child == 0:
            Killer(copy, at).install()
            act_and_search(copy, action)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if status not in (0, signal.SIGKILL):
            raise SystemExit(f"step {at} ended with status {status}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
