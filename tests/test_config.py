"""Flags come before the environment, the environment before the file, the file before defaults."""

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from readahead.config import Config, GenerationConfig, cache_home, load_config
from readahead.errors import ConfigError, InputError
from readahead.lm.sample import SamplingParams


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in an empty folder, without settings of the machine."""
    monkeypatch.chdir(tmp_path)
    for name in ("READAHEAD_KB", "READAHEAD_HOME", "READAHEAD_RETRIEVAL__K", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_defaults() -> None:
    config = load_config()
    assert config.retrieval.k == 3
    assert config.passages.max_words == 300
    assert config.kb == Path(".readahead")


def test_precedence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "readahead.toml").write_text("[retrieval]\nk = 5\nrrf_k = 50\nnum_candidates = 9\n")
    assert load_config().retrieval.k == 5
    monkeypatch.setenv("READAHEAD_RETRIEVAL__K", "6")
    assert load_config().retrieval.k == 6
    monkeypatch.setenv("READAHEAD_RETRIEVAL__RRF_K", "40")
    retrieval = load_config({"retrieval.k": 7}).retrieval
    assert (retrieval.k, retrieval.rrf_k, retrieval.num_candidates) == (7, 40, 9)


def test_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READAHEAD_KB", "from-environment")
    assert load_config({"kb": None}).kb == Path("from-environment")
    config = load_config({"kb": "mine", "models.dtype": "bfloat16", "models.device": "cpu"})
    assert config.kb == Path("mine")
    assert (config.models.dtype, config.models.device) == ("bfloat16", "cpu")


@pytest.mark.parametrize(
    ("flags", "where", "value"),
    [
        ({"retrieval.k": 0}, "retrieval.k", "0"),
        ({"retrieval.mode": "psychic"}, "retrieval.mode", "psychic"),
        ({"generation.top_p": 1.5}, "generation.top_p", "1.5"),
        ({"evidence.threshold": "high"}, "evidence.threshold", "high"),
        ({"retrieval.depth": 3}, "retrieval.depth", "3"),
        ({"nonsense": 1}, "nonsense", "1"),
        ({"kb": ""}, "kb", "''"),
        ({"documents.timeout_s": float("inf")}, "documents.timeout_s", "inf"),
        ({"documents.timeout_s": float("nan")}, "documents.timeout_s", "nan"),
        ({"documents.memory_bytes": 10**30}, "documents.memory_bytes", "1000000"),
        ({"documents.max_file_bytes": 10**30}, "documents.max_file_bytes", "1000000"),
        ({"retrieval.kind_weights": {"title": -1}}, "retrieval.kind_weights.title", "-1"),
        ({"retrieval.kind_weights": {"code": float("inf")}}, "retrieval.kind_weights.code", "inf"),
        ({"retrieval.kind_weights": {"code": float("nan")}}, "retrieval.kind_weights.code", "nan"),
    ],
)
def test_a_bad_setting_is_named(flags: dict[str, object], where: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(flags)
    assert repr(where) in caught.value.message
    assert value in caught.value.message
    assert caught.value.remedy


def test_a_bad_file_is_named(folder: Path) -> None:
    (folder / "readahead.toml").write_text("[retrieval\n")
    with pytest.raises(ConfigError, match=r"readahead\.toml cannot be read"):
        load_config()
    (folder / "readahead.toml").write_text("[retrieval]\nkk = 3\n")
    with pytest.raises(ConfigError, match=r"retrieval\.kk"):
        load_config()


def test_settings_are_frozen() -> None:
    config = Config()
    with pytest.raises(ValidationError):
        config.kb = Path("other")  # type: ignore[misc]
    with pytest.raises(ValidationError):
        config.retrieval.k = 3  # type: ignore[misc]


def test_cache_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert cache_home() == folder / ".cache" / "readahead"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "xdg"))
    assert cache_home() == folder / "xdg" / "readahead"
    monkeypatch.setenv("READAHEAD_HOME", "~/models")
    assert cache_home() == folder / "models"


def test_a_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READAHEAD_RETRIEVAL__KIND_WEIGHTS", "title=3")
    with pytest.raises(ConfigError, match="environment variable.*retrieval.*JSON"):
        load_config()
    monkeypatch.setenv("READAHEAD_RETRIEVAL__KIND_WEIGHTS", '{"title": 3}')
    assert load_config().retrieval.kind_weights == {"title": 3.0}


@pytest.mark.parametrize("flags", [{}, {"retrieval.k": 2}])
def test_a_variable_for_a_section_is_an_object(
    monkeypatch: pytest.MonkeyPatch, flags: dict[str, object]
) -> None:
    monkeypatch.setenv("READAHEAD_RETRIEVAL", "5")
    with pytest.raises(ConfigError, match=r"'retrieval' is not usable.*got 5"):
        load_config(flags)
    monkeypatch.setenv("READAHEAD_RETRIEVAL", '{"rrf_k": 7}')
    assert load_config(flags).retrieval.rrf_k == 7


def test_a_variable_that_is_nested_too_deeply_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READAHEAD_RETRIEVAL__KIND_WEIGHTS", "[" * 50_000)
    with pytest.raises(ConfigError, match="nested too deeply"):
        load_config()


def test_an_empty_variable_is_not_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READAHEAD_KB", "")
    assert load_config().kb == Path(".readahead")


def test_a_file_that_cannot_be_opened_is_named(folder: Path) -> None:
    (folder / "readahead.toml").write_bytes(b"kb = '\xff'")
    with pytest.raises(ConfigError, match=r"readahead\.toml cannot be read"):
        load_config()


def is_allowed(
    kind: type[GenerationConfig] | type[SamplingParams], name: str, value: object
) -> bool:
    """Return whether the settings of ``generation``, or SamplingParams, take a value."""
    try:
        kind(**{name: value})  # type: ignore[arg-type]
    except (ValidationError, InputError):
        return False
    return True


BOUNDS = (-2, -1, 0, 0.01, 1, 2, 20, 100, 2**63 - 1)
NUMBERS = [near for n in BOUNDS for near in (math.nextafter(n, -9), n, math.nextafter(n, 2**70))]
VALUES: dict[str, list[Any]] = {
    "int": [n for bound in BOUNDS for n in (math.floor(bound) - 1, math.ceil(bound))],
    "float": [*map(float, NUMBERS), 1e300, math.inf, -math.inf, math.nan],
    "tuple": [(), ("a",), ("",), ("a", "")],
}
SAMPLED = sorted(
    {*GenerationConfig.model_fields} & {field.name for field in fields(SamplingParams)}
)


@pytest.mark.parametrize("name", SAMPLED)
def test_answers_can_be_decoded_as_the_settings_allow_and_no_other_way(name: str) -> None:
    values = VALUES[type(getattr(GenerationConfig(), name)).__name__]
    if name == "max_new_tokens":  # the settings bound it, so that a server is there for others, too
        values = [value for value in values if value < 1_000_000]
    allowed, decoded = (
        [value for value in values if is_allowed(kind, name, value)]
        for kind in (GenerationConfig, SamplingParams)
    )
    assert allowed == decoded
    assert 0 < len(allowed) < len(values)
