"""Brings repositories from a model hub; knows nothing about what is done with the files."""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from readahead.errors import DownloadError, NotFound, ReadaheadError
from readahead.lm.progress import Progress, growth_reported
from readahead.lm.quiet import first_line, quiet_hub

if TYPE_CHECKING:
    from huggingface_hub import HfApi

T = TypeVar("T")

PROBE_S = 5.0

# What Transformers and sentence-transformers load; code and pickles are never fetched.
MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.jinja")
NOT_MODEL_FILES = ("onnx/*", "openvino/*", "original/*")


@dataclass(frozen=True, slots=True)
class HubModel:
    """What the hub says about a repository.

    Attributes:
        num_bytes: Of the files asked about.
        is_loadable: Whether Transformers can load it without running code or pickles from it.
    """

    licence: str
    num_bytes: int
    is_loadable: bool


def describe(repo: str, patterns: tuple[str, ...] = MODEL_FILES) -> HubModel:
    """Ask the hub about ``repo``; ``patterns`` select the files that count.

    Raises:
        DownloadError: The hub cannot be reached, within five seconds.
        NotFound: The hub has no such repository, or this user may not read it.
    """
    from huggingface_hub.utils._paths import filter_repo_objects

    with quiet_hub(), _hub_errors(repo):
        info = _within_probe_time(lambda: _api().model_info(repo, files_metadata=True))
    files = list(
        filter_repo_objects(
            info.siblings or [],
            allow_patterns=list(patterns),
            ignore_patterns=list(NOT_MODEL_FILES),
            key=lambda sibling: sibling.rfilename,
        )
    )
    names = [file.rfilename for file in files]
    return HubModel(
        licence=str((info.card_data and info.card_data.get("license")) or "unknown"),
        num_bytes=sum(file.size or 0 for file in files),
        is_loadable="config.json" in names
        and any(name.endswith(".safetensors") and "/" not in name for name in names),
    )


def download(
    repo: str, folder: Path, progress: Progress, patterns: tuple[str, ...] = MODEL_FILES
) -> None:
    """Put the files of ``repo`` that match ``patterns`` into ``folder``.

    Raises:
        DownloadError: The hub failed or holds no such file.
        NotFound: The hub has no such repository, or this user may not read it.
    """
    with quiet_hub(), _hub_errors(repo), growth_reported(folder, progress):
        _api().snapshot_download(
            repo,
            local_dir=folder,
            allow_patterns=list(patterns),
            ignore_patterns=list(NOT_MODEL_FILES),
        )
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the hub client's own notes
    if not any(folder.iterdir()):
        raise DownloadError(f"The hub's {repo} holds no file like {' or '.join(patterns)}.")


def _api() -> HfApi:
    from huggingface_hub import HfApi, is_offline_mode

    if is_offline_mode():
        raise DownloadError("The model hub is switched off.", remedy="Unset HF_HUB_OFFLINE.")
    return HfApi()


def _within_probe_time(ask: Callable[[], T]) -> T:
    """Return what ``ask`` returns, unless it takes longer than ``PROBE_S``.

    In a thread of its own, because looking up a name ignores every timeout of the hub client.
    """
    answers: list[T] = []
    failures: list[Exception] = []

    def run() -> None:
        try:
            answers.append(ask())
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="hub-probe", daemon=True)
    thread.start()
    thread.join(PROBE_S)
    if failures:
        raise failures[0]
    if not answers:
        raise DownloadError(f"The model hub did not answer within {PROBE_S:.0f} seconds.")
    return answers[0]


@contextmanager
def _hub_errors(repo: str) -> Iterator[None]:
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    try:
        yield
    except GatedRepoError:
        raise NotFound(
            f"The model {repo!r} is gated.",
            remedy=f"Accept its terms at {_page(repo)}, then run: hf auth login",
        ) from None
    except (RepositoryNotFoundError, HFValidationError):
        raise NotFound(
            f"The model hub has no model {repo!r} that this user may read.",
            remedy="Check the name; for a private model run: hf auth login",
        ) from None
    except ReadaheadError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        raise DownloadError(
            f"The model hub failed: {first_line(error)}.", remedy="Check the network, try again."
        ) from None


def _page(repo: str) -> str:
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{repo}"
