"""Where models lie on this machine: their folders, their manifests, the change from none to one.

It knows nothing about where a model comes from. A model's folder under ``cache_home()/models``
appears at once and complete, or not at all; its manifest says what it holds.
"""

from __future__ import annotations

import errno
import fcntl
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from readahead.config import cache_home
from readahead.errors import DownloadError, InputError
from readahead.lm.catalog import ModelKind
from readahead.lm.checksum import sha256_of
from readahead.lm.progress import Progress, Silent, folder_bytes

MANIFEST = "readahead.json"
SCHEMA = 1
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model that is on this machine, ready to load.

    Attributes:
        folder: In the format of Transformers, or of sentence-transformers for an embedder.
        num_bytes: On disk.
        origin: The source it was brought from, or the path of the user's own file or folder.
        sha256: Of the weights in ``folder``; empty for a folder that is used in place.
        source_sha256: Of the weights as they were brought, before any conversion.
        dtype: Of the converted weights; empty where nothing was converted.
    """

    name: str
    folder: Path
    kind: ModelKind
    num_bytes: int = 0
    licence: str = UNKNOWN
    origin: str = UNKNOWN
    sha256: str = ""
    source_sha256: str = ""
    dtype: str = ""


def models_home() -> Path:
    """Return the folder that holds one folder per model."""
    return cache_home() / "models"


def folder_of(name: str) -> Path:
    """Return the folder of the model ``name``; a hub id's slash becomes two dashes."""
    return models_home() / name.replace("/", "--")


def read(folder: Path) -> LocalModel | None:
    """Return the model that the manifest in ``folder`` describes; None where there is none."""
    try:
        values = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if values.pop("schema") != SCHEMA:
            return None
        return LocalModel(folder=folder, **values)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # whatever is not a whole manifest of ours will be pulled again


def in_place(folder: Path) -> LocalModel:
    """Return the user's own model folder as a model; it is neither copied nor registered.

    Raises:
        InputError: The folder holds no model, or no weights in safetensors.
    """
    if not (folder / "config.json").is_file():
        raise InputError(
            f"The folder {folder} holds no config.json.",
            remedy="Give the folder of a Transformers or sentence-transformers model.",
        )
    if not weight_files(folder):
        raise InputError(
            f"The folder {folder} holds no weights in safetensors.",
            remedy="Save the model with save_pretrained of a recent Transformers version.",
        )
    path = folder.resolve()
    return LocalModel(str(path), path, kind_of(folder), folder_bytes(path), origin=str(path))


def kind_of(folder: Path) -> ModelKind:
    """Return what the model in ``folder`` is for: ``modules.json`` marks an embedder."""
    return "embedder" if (folder / "modules.json").is_file() else "target"


def weight_files(folder: Path) -> list[Path]:
    """Return the files of the model's weights, in order of their shards."""
    return sorted(folder.glob("*.safetensors"))


def list_local() -> list[LocalModel]:
    """Return the models that were pulled, by name."""
    found = [read(folder) for folder in sorted(models_home().glob("[!.]*"))]
    return [model for model in found if model is not None]


def verify(model: LocalModel, progress: Progress | None = None) -> None:
    """Compare the weights on disk with the manifest.

    Raises:
        DownloadError: They have changed since the model was pulled.
    """
    files = weight_files(model.folder)
    if not files or sha256_of(files, progress or Silent()) != model.sha256:
        raise DownloadError(
            f"The weights of {model.name} in {model.folder} are not what was pulled.",
            remedy=f"Remove that folder, then run: readahead pull {model.name}",
        )


def require_space(folder: Path, num_bytes: int) -> None:
    """Check that ``num_bytes`` more fit on the disk of ``folder``.

    Raises:
        DownloadError: They do not.
    """
    free = shutil.disk_usage(folder).free
    if free < num_bytes:
        raise _no_space(f"{num_bytes / 1e9:.1f} GB are needed and {free / 1e9:.1f} GB are free")


@contextmanager
def locked(name: str, progress: Progress) -> Iterator[None]:
    """Let no other process change the model ``name`` while the ``with`` body runs."""
    home = models_home()
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = (home / f".{folder_of(name).name}.lock").open("w")
    except OSError as error:
        raise _not_writable(error) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.notice(f"Another process is pulling {name}; waiting for it.")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def staging(name: str) -> Iterator[Path]:
    """Give an empty folder to work in, and remove it at the end, whatever happens.

    The caller holds the lock of ``name``: what a killed process left there is removed first.
    """
    prefix = f".{folder_of(name).name}~"
    for leftover in models_home().glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        # A new name each time: a killed process may have left a child that still writes to the old.
        with tempfile.TemporaryDirectory(prefix=prefix, dir=models_home()) as folder:
            yield Path(folder)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_space(error.strerror or "the disk is full") from None
        raise _not_writable(error) from None


def install(model: LocalModel, progress: Progress) -> LocalModel:
    """Move the finished ``model.folder`` to the place of ``model.name``, manifest included."""
    finished = replace(
        model,
        sha256=sha256_of(weight_files(model.folder), progress),
        num_bytes=folder_bytes(model.folder),
    )
    values = {"schema": SCHEMA, **asdict(finished)}
    del values["folder"]
    text = json.dumps(values, indent=2) + "\n"
    (model.folder / MANIFEST).write_text(text, encoding="utf-8")
    place = folder_of(model.name)
    if place.exists():
        place.rename(model.folder.parent / "replaced")  # goes with the staging folder
    model.folder.rename(place)
    return replace(finished, folder=place)


def _no_space(detail: str) -> DownloadError:
    return DownloadError(
        f"There is not enough room in {models_home()}: {detail}.",
        remedy="Free some space, or point READAHEAD_HOME at a larger disk.",
    )


def _not_writable(error: OSError) -> DownloadError:
    return DownloadError(
        f"{error.filename or models_home()} cannot be read or written: {error.strerror or error}.",
        remedy="Mend its permissions, or set READAHEAD_HOME to another folder.",
    )
