"""API keys: which one was sent, and what it may; knows no HTTP.

Only the SHA-256 of a key is kept. Slow hashes protect passwords, for people choose those and others
guess them; a key is 256 random bits, so a stolen file is of no use however fast the hash is.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from readahead.errors import ConfigError, InputError, NotFound, StoreError
from readahead.server.guard.files import write_json

FILE_NAME = "keys.json"
VARIABLE = "READAHEAD_API_KEY"
OF_ENVIRONMENT = "environment"  # the name of the key that the variable holds
MIN_CHARS = 16  # of a key that somebody made up
_LOCK = ".keys.lock"
_PREFIX = "ra-"  # by it, scanners for secrets find keys that were published by mistake
_NUM_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")  # it names a folder, on any file system
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH

Limit = Annotated[int | None, Field(gt=0)]


@dataclass(frozen=True, slots=True)
class Key:
    """What is known of a key.

    Attributes:
        name: What people call it.
        sha256: Of the key.
        tenant: Whose documents it opens, "" for those of the server itself.
        tokens_per_day: None: as the settings say.
        requests_per_minute: None: as the settings say.
        created_at: In UTC.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=f"^(?:{_NAME.pattern})$")]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] = field(repr=False)
    tenant: Annotated[str, Field(pattern=f"^(?:{_TENANT.pattern})?$")] = ""
    tokens_per_day: Limit = None
    requests_per_minute: Limit = None
    created_at: str = ""


_KEYS = TypeAdapter(list[Key])
_Signature = tuple[int, int, int]


class Keys:
    """The keys of a knowledge base: those of its file, and one from the environment.

    The file is read again when it changes, so a key that was removed is worthless at once.

    Args:
        folder: Of the knowledge base.
        secret: One more key; only its hash is kept.

    Raises:
        ConfigError: The secret is too short.
    """

    def __init__(self, folder: Path, secret: str = "") -> None:
        self._folder = folder
        self._path = folder / FILE_NAME
        self._of_environment = [_made_up(secret)] if secret else []
        self._signature: _Signature | None = None
        self._of_file: list[Key] = []
        self._was_needed = False

    @classmethod
    def of(cls, folder: Path, environment: Mapping[str, str] = os.environ) -> Self:
        """Return the keys of a knowledge base and of the environment."""
        return cls(folder, environment.get(VARIABLE, ""))

    def all(self) -> list[Key]:
        """Return all keys.

        Raises:
            StoreError: The file is damaged, or others may change it.
        """
        signature = self._sign()
        if signature != self._signature:
            self._of_file = self._read()
            self._signature = signature
        return [*self._of_environment, *self._of_file]

    def are_needed(self) -> bool:
        """Return whether requests need a key: whether there is one, or was since the start."""
        # Who removes the last key means to shut somebody out, not to let everybody in.
        self._was_needed = self._was_needed or bool(self.all())
        return self._was_needed

    def find(self, secret: str) -> Key | None:
        """Return the key that ``secret`` is; how long that takes tells nothing of any key."""
        digest, found = _sha256(secret), None
        for key in self.all():
            if hmac.compare_digest(key.sha256, digest):
                found = key  # and on: when a loop ends says which one it was
        return found

    def add(
        self,
        name: str,
        *,
        tenant: str = "",
        tokens_per_day: int | None = None,
        requests_per_minute: int | None = None,
    ) -> str:
        """Make a key and return it; it cannot be shown again.

        Raises:
            InputError: The name or the tenant is not usable, or a limit is below one.
        """
        _check_name(name)
        _check_tenant(tenant)
        for limit in (tokens_per_day, requests_per_minute):
            if limit is not None and limit < 1:
                raise InputError(f"{limit} is no limit.", remedy="Give 1 or more, or leave it out.")
        secret = _PREFIX + secrets.token_urlsafe(_NUM_BYTES)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        key = Key(name, _sha256(secret), tenant, tokens_per_day, requests_per_minute, now)
        with self._changing() as keys:
            if any(other.name == name for other in keys):
                raise InputError(
                    f"There is a key {name!r} already.",
                    remedy=f"Choose another name, or first: readahead keys rm {name}",
                )
            keys.append(key)
        return secret

    def remove(self, name: str) -> None:
        """Remove a key; a running server refuses it from then on.

        Raises:
            NotFound: There is no such key.
        """
        with self._changing() as keys:
            left = [key for key in keys if key.name != name]
            if len(left) == len(keys):
                raise NotFound(f"There is no key {name!r}.", remedy="List them: readahead keys ls")
            keys[:] = left

    @contextmanager
    def _changing(self) -> Iterator[list[Key]]:
        """Give the keys of the file to change; nobody else changes them meanwhile."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            keys = self._read()
            yield keys
            write_json(self._path, [asdict(key) for key in keys])

    def _sign(self) -> _Signature | None:
        """Return what changes when the file does; it is always replaced, never written into."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> list[Key]:
        try:
            with self._path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                keys = _KEYS.validate_json(file.read())
        except FileNotFoundError:
            return []
        except ValidationError as error:
            raise StoreError(
                f"{self._path} is damaged: {error.errors()[0]['msg']}.",
                remedy="Remove it and make the keys anew: readahead keys add NAME",
            ) from None
        except OSError as error:
            raise StoreError(f"{self._path} cannot be read: {error.strerror}.") from None
        if mode & _WRITABLE_BY_OTHERS:
            raise StoreError(
                f"Others may write to {self._path}, and so give themselves a key.",
                remedy=f"Look at it, then: chmod 600 {self._path}",
            )
        return keys


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _made_up(secret: str) -> Key:
    """Return the key that somebody chose."""
    if len(secret) < MIN_CHARS or not (secret.isascii() and secret.isprintable()):
        raise ConfigError(
            f"{VARIABLE} is no key: it needs {MIN_CHARS} or more characters, all of them ASCII.",
            remedy="Make one: openssl rand -hex 32",
        )
    return Key(OF_ENVIRONMENT, _sha256(secret))


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name == OF_ENVIRONMENT:
        raise InputError(
            f"A key cannot be called {name!r}.",
            remedy="Use up to 64 letters, digits, dots, dashes and underscores, a letter or digit "
            f"first, and not {OF_ENVIRONMENT}.",
        )


def _check_tenant(tenant: str) -> None:
    if tenant and not _TENANT.fullmatch(tenant):
        raise InputError(
            f"A tenant cannot be called {tenant!r}.",
            remedy="Use up to 63 small letters, digits and dashes, not a dash first.",
        )
