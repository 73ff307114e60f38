"""Finds models by name, file, folder or hub id; brings those that are not on this machine yet.

It knows nothing about running them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from readahead.errors import InputError, NotFound
from readahead.lm import catalog, gguf, hub, local
from readahead.lm.catalog import BuiltIn, ModelKind
from readahead.lm.checksum import sha256_of
from readahead.lm.download import bring
from readahead.lm.local import LocalModel, list_local, verify
from readahead.lm.progress import Progress, Silent, task

__all__ = ["LocalModel", "list_local", "pull", "resolve", "verify"]

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def pull(name_or_path: str, *, progress: Progress | None = None) -> LocalModel:
    """Bring a model to this machine, in a form that loads in seconds; return where it is.

    A model that is there already is returned at once, without any network. A folder is used where
    it lies; a GGUF file is converted, and stays as it is.

    Args:
        name_or_path: A built-in name, a ``.gguf`` file, a model's folder, or a hub id.
        progress: Told the licence before a download, and every step that takes long.

    Raises:
        NotFound: No model has this name, or there is no such file.
        InputError: The file or folder holds no usable model.
        DownloadError: No source could bring it, or it does not fit on the disk.
        ConfigError: The extra ``gguf`` is needed and not installed.
    """
    progress = progress or Silent()
    path = _file(name_or_path)
    if path is not None:
        return _pull_file(path, progress)
    if found := _find(name_or_path):
        return found
    if built_in := catalog.find(name_or_path):
        return _pull_built_in(built_in, progress)
    if _is_hub_id(name_or_path):
        return _pull_from_hub(name_or_path, progress)
    raise _unknown(name_or_path)


def resolve(name_or_path: str, kind: ModelKind | None = None) -> LocalModel:
    """Return a model that is on this machine already; never uses the network.

    Args:
        name_or_path: As a user gave it.
        kind: What it is wanted for: models of that kind are suggested for a name that none has.

    Raises:
        NotFound: It is not here; the remedy is the command that brings it.
        InputError: The file or folder holds no usable model.
    """
    path = _file(name_or_path)
    if path is not None:
        source_sha256 = _sum_of_gguf(path, Silent())
        found = next((m for m in list_local() if m.source_sha256 == source_sha256), None)
    else:
        found = _find(name_or_path)
    if found is not None:
        return found
    if path is None and not catalog.find(name_or_path) and not _is_hub_id(name_or_path):
        raise _unknown(name_or_path, kind)
    raise NotFound(
        f"The model {name_or_path} is not on this machine.",
        remedy=f"Bring it with: readahead pull {name_or_path}",
    )


def _file(name_or_path: str) -> Path | None:
    path = os.path.expanduser(name_or_path)
    return Path(path) if os.path.isfile(path) and not catalog.find(name_or_path) else None


def _find(name_or_path: str) -> LocalModel | None:
    if built_in := catalog.find(name_or_path):
        found = local.read(local.folder_of(built_in.name))
        return found if found and found.source_sha256 == built_in.sha256 else None
    path = os.path.expanduser(name_or_path)
    if os.path.isdir(path):
        return local.in_place(Path(path))
    return local.read(local.folder_of(name_or_path))


def _pull_built_in(built_in: BuiltIn, progress: Progress) -> LocalModel:
    def build(work: Path) -> LocalModel:
        _announce(built_in.name, built_in.licence, built_in.num_bytes, progress)
        local.require_space(work, built_in.disk_bytes)
        source = work / "source"
        model = LocalModel(
            built_in.name,
            source,
            built_in.kind,
            licence=built_in.licence,
            origin=bring(built_in, source, progress),
            source_sha256=built_in.sha256,
        )
        if built_in.weights == "model.gguf":
            return _converted(model, source / built_in.weights, progress)
        return model

    return _build_once(built_in.name, build, progress)


def _pull_file(path: Path, progress: Progress) -> LocalModel:
    source_sha256 = _sum_of_gguf(path, progress)
    built_in = catalog.find_by_sum(source_sha256)
    stem = re.sub(r"[^\w.-]+", "-", path.stem).strip(".-").lower() or "model"
    # The sum keeps apart two files of one name, and finds a file again that was moved.
    name = built_in.name if built_in else f"{stem}-{source_sha256[:8]}"

    def build(work: Path) -> LocalModel:
        source = work / "source"
        source.mkdir()
        link = source / "model.gguf"
        link.symlink_to(path.resolve())
        licence = built_in.licence if built_in else local.UNKNOWN
        model = LocalModel(
            name,
            source,
            "target",
            licence=licence,
            origin=str(path.resolve()),
            source_sha256=source_sha256,
        )
        return _converted(model, link, progress)

    return _build_once(name, build, progress)


def _pull_from_hub(repo: str, progress: Progress) -> LocalModel:
    def build(work: Path) -> LocalModel:
        info = hub.describe(repo)
        if not info.is_loadable:
            raise InputError(
                f"The hub's {repo} holds no Transformers model with weights in safetensors.",
                remedy="If it holds a .gguf file, download that and pull it by its path.",
            )
        _announce(repo, info.licence, info.num_bytes, progress)
        local.require_space(work, info.num_bytes)
        folder = work / "model"
        with task(progress, f"Downloading {repo} from the model hub", info.num_bytes):
            hub.download(repo, folder, progress)
        kind = local.kind_of(folder)
        return LocalModel(repo, folder, kind, licence=info.licence, origin=f"hub {repo}")

    return _build_once(repo, build, progress)


def _build_once(name: str, build: Callable[[Path], LocalModel], progress: Progress) -> LocalModel:
    """Install what ``build`` makes in an empty folder, unless another process has just done so."""
    with local.locked(name, progress):
        if found := _find(name):
            return found
        with local.staging(name) as work:
            return local.install(build(work), progress)


def _converted(model: LocalModel, weights: Path, progress: Progress) -> LocalModel:
    header = gguf.read_header(weights.resolve())
    folder = weights.parent.parent / "model"
    local.require_space(weights.parent, header.converted_bytes)
    gguf.convert(weights, header, folder, progress)
    licence = header.licence if model.licence == local.UNKNOWN else model.licence
    return replace(model, folder=folder, licence=licence, dtype=header.dtype)


def _sum_of_gguf(path: Path, progress: Progress) -> str:
    try:
        with path.open("rb") as file:
            is_gguf = file.read(4) == b"GGUF"
        if is_gguf:
            return sha256_of([path], progress)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    raise InputError(f"{path} is not a GGUF file.", remedy="Give a .gguf file or a folder.")


def _announce(name: str, licence: str, num_bytes: int, progress: Progress) -> None:
    progress.notice(f"{name}: licence {licence}, {num_bytes / 1e6:.0f} MB to download.")


def _is_hub_id(name: str) -> bool:
    return _HUB_ID.fullmatch(name) is not None and not name.endswith(".gguf")


def _unknown(name: str, kind: ModelKind | None = None) -> NotFound:
    if "/" in name or name.endswith(".gguf"):
        return NotFound(f"There is no file or folder {name}.", remedy="Check the path.")
    names = catalog.similar(name, kind) or catalog.names(kind)
    return NotFound(
        f"No model is called {name!r}.",
        remedy=f"Try {' or '.join(names)}, a .gguf file, a folder, or a hub id such as ORG/MODEL.",
    )
