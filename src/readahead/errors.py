"""The exceptions that users meet.

    ReadaheadError                 exit status   HTTP
    ├── InputError                     2          400   a question, option or file is not usable
    │   ├── ContextOverflow            2          400   the prompt cannot fit the model's context
    │   └── NotFound                   2          404   no such model, document or trace
    ├── ConfigError                    2          400   a setting is wrong, or an extra is missing
    │   └── VocabularyMismatch         2          400   drafter and target have other tokens
    ├── DocumentError                  1          422   one file cannot be read; the batch goes on
    ├── StoreError                     3          500   the knowledge base is damaged or locked
    │   ├── DiskFull                   3          507   nothing more can be written
    │   └── EmbedderMismatch           2          409   it was embedded with another model
    ├── DownloadError                  3          502   weights could not be brought or verified
    └── BackendError                   3          500   the model or the device failed

A message says what happened, with the value and the limit; ``remedy`` says what to do about it.
A wrong guess is a result, never an exception.
"""

from __future__ import annotations

from typing import ClassVar


class ReadaheadError(Exception):
    """Base of all errors that readahead raises on purpose."""

    exit_status: ClassVar[int] = 3
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


def outline(error: Exception) -> str:
    """Return what went wrong as whoever asks may know it: with no folder and no text of a fault.

    The rest is for the log.
    """
    if isinstance(error, StoreError):
        return "the documents cannot be read or written"
    return error.message if isinstance(error, ReadaheadError) else type(error).__name__


class InputError(ReadaheadError):
    """A question, an option or a file that the user gave is not usable."""

    exit_status = 2
    http_status = 400


class ContextOverflow(InputError):
    """The prompt does not fit the model's context, even with every passage dropped."""


class NotFound(InputError):
    """No model, document or trace has this name."""

    http_status = 404


class ConfigError(ReadaheadError):
    """A setting is wrong, or the extra that a feature needs is not installed."""

    exit_status = 2
    http_status = 400


class VocabularyMismatch(ConfigError):
    """The drafter's token ids do not mean what the target's do."""


class DocumentError(ReadaheadError):
    """One file cannot be read; its message is the reason that the summary lists."""

    exit_status = 1
    http_status = 422


class StoreError(ReadaheadError):
    """The knowledge base is damaged, locked or not writable."""


class DiskFull(StoreError):
    """There is no room for what is to be written; what was stored before stays."""

    http_status = 507


class EmbedderMismatch(StoreError):
    """The knowledge base was embedded with another model than the one that opens it."""

    exit_status = 2
    http_status = 409


class DownloadError(ReadaheadError):
    """Weights could not be brought from any source, or are not what was promised."""

    http_status = 502


class BackendError(ReadaheadError):
    """The model or the device failed."""


def missing_extra(package: str, extra: str) -> ConfigError:
    """Return the error for an optional package that is not installed."""
    return ConfigError(
        f"The package {package!r} is not installed.",
        remedy=f"Install it with: pip install 'readahead[{extra}]'",
    )
