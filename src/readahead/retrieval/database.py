"""One SQLite file with its connections, transactions and errors; knows nothing of the content."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from readahead.errors import DiskFull, StoreError
from readahead.retrieval.schema import APPLICATION_ID, SCHEMA_VERSION

BUSY_TIMEOUT_S = 60

_RESTORE = "Restore the folder from a backup, or delete it and add the documents again."
_GARBLED = (ValueError, KeyError, TypeError)
_FAULTS: tuple[tuple[tuple[type[apsw.Error], ...], type[StoreError], str, str], ...] = (
    (
        (apsw.BusyError, apsw.LockedError),
        StoreError,
        f"stayed locked for {BUSY_TIMEOUT_S} s",
        "Another process is writing to it; try again when that is done.",
    ),
    (
        (apsw.CorruptError, apsw.NotADBError),
        StoreError,
        "is damaged",
        _RESTORE,
    ),
    (
        (apsw.FullError,),
        DiskFull,
        "cannot grow",
        "Free some disk space and run the command again.",
    ),
    (
        (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, apsw.IOError),
        StoreError,
        "cannot be opened or written",
        "Check that the folder exists and that you may write to it.",
    ),
)


class Database:
    """Connections to one file, one a thread; many readers beside one writer.

    A change is kept once its transaction returns: the write-ahead log is synced at every commit.
    Deleted content is overwritten.
    """

    def __init__(self, path: Path, schema: str) -> None:
        self.path = path
        self._local = threading.local()
        self._connections: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()
        self._writer = threading.Lock()
        with self._explained():
            self._prepare(schema)

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """Give a connection on which every statement of the ``with`` body sees one state.

        Within another ``read`` or ``write`` of the same thread, that one's state is seen.
        """
        with self._explained():
            connection = self._connection()
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN")
            with _ended(connection):
                yield connection

    @contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """Give a connection whose changes are all kept when the ``with`` body ends, or none."""
        with self._explained(), self._writer:
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            with _ended(connection):
                yield connection

    def flush(self) -> None:
        """Move the log into the file and empty it.

        Not while a reader needs it or the disk refuses: what it holds is kept, and moved later.
        """
        with self._explained(), suppress(apsw.BusyError, apsw.FullError, apsw.IOError):
            connection = self._connection()
            connection.set_busy_timeout(0)
            try:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            finally:
                connection.set_busy_timeout(BUSY_TIMEOUT_S * 1000)

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in list(self._connections):
            connection.close()

    def _connection(self) -> apsw.Connection:
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        # A connection must not cross a fork: both processes would think they hold its locks.
        if connection is None or self._local.process != os.getpid():
            connection = apsw.Connection(str(self.path))
            connection.set_busy_timeout(BUSY_TIMEOUT_S * 1000)
            for pragma in ("synchronous = FULL", "secure_delete = ON", "foreign_keys = ON"):
                connection.execute(f"PRAGMA {pragma}")
            self._local.connection = connection
            self._local.process = os.getpid()
            self._connections.add(connection)
        return connection

    def _prepare(self, schema: str) -> None:
        # The check comes first: another program's file stays as it is.
        if not self._is_current():
            self._create(schema)
        connection = self._connection()
        if connection.pragma("journal_mode") != "wal":
            # Busy: another process, which opened it at the same moment, is switching.
            with suppress(apsw.BusyError):
                connection.pragma("journal_mode", "wal")

    def _create(self, schema: str) -> None:
        with self.write() as connection:
            # Another process may have made it meanwhile.
            if self._is_current():
                return
            connection.execute(schema)
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", SCHEMA_VERSION)

    def _is_current(self) -> bool:
        """Return whether the tables are there; False only if the file is empty.

        Raises:
            StoreError: The file is another program's, or has another schema.
        """
        with self.read() as connection:
            version = connection.pragma("user_version")
            is_ours = connection.pragma("application_id") == APPLICATION_ID
            is_empty = not connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
        if is_ours and version == SCHEMA_VERSION:
            return True
        if is_ours:
            raise StoreError(
                f"{self.path} has schema version {version}; "
                f"this readahead reads version {SCHEMA_VERSION}.",
                remedy="Use the readahead that made it, or another folder.",
            )
        if version or not is_empty:
            raise StoreError(
                f"{self.path} is a database of another program.", remedy="Choose another folder."
            )
        return False

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            for kinds, fault, what, remedy in _FAULTS:
                if isinstance(error, kinds):
                    message = f"The knowledge base {self.path} {what} ({error})."
                    raise fault(message, remedy=remedy) from error
            message = f"The knowledge base {self.path} failed: {error}."
            raise StoreError(message, remedy="Run: readahead doctor") from error
        except _GARBLED as error:
            # Bytes that SQLite does not check: no UTF-8, no JSON, or not what it should hold.
            what = f"{type(error).__name__}: {error}"
            message = f"The knowledge base {self.path} is damaged ({what})."
            raise StoreError(message, remedy=_RESTORE) from error


@contextmanager
def _ended(connection: apsw.Connection) -> Iterator[None]:
    """Commit when the body ends, roll back when it or the commit fails."""
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
