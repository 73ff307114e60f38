"""All settings together; flags > environment > ``readahead.toml`` > defaults.

An environment variable is spelled ``READAHEAD_SECTION__FIELD``, for instance
``READAHEAD_RETRIEVAL__K=8``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from readahead.config.answers import EvidenceConfig, GenerationConfig, TracesConfig
from readahead.config.knowledge import DocumentsConfig, PassagesConfig, RetrievalConfig
from readahead.config.models import CacheConfig, ModelsConfig
from readahead.config.server import ServerConfig
from readahead.config.speculation import DraftsConfig, InjectConfig, PrefetchConfig, TokensConfig
from readahead.errors import ConfigError


class Config(BaseSettings):
    """All settings, validated and frozen."""

    model_config = SettingsConfigDict(
        env_prefix="READAHEAD_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
        toml_file="readahead.toml",
        extra="forbid",
        frozen=True,
    )

    kb: Path = Path(".readahead")
    documents: DocumentsConfig = DocumentsConfig()
    passages: PassagesConfig = PassagesConfig()
    retrieval: RetrievalConfig = RetrievalConfig()
    models: ModelsConfig = ModelsConfig()
    cache: CacheConfig = CacheConfig()
    prefetch: PrefetchConfig = PrefetchConfig()
    inject: InjectConfig = InjectConfig()
    drafts: DraftsConfig = DraftsConfig()
    tokens: TokensConfig = TokensConfig()
    generation: GenerationConfig = GenerationConfig()
    evidence: EvidenceConfig = EvidenceConfig()
    traces: TracesConfig = TracesConfig()
    server: ServerConfig = ServerConfig()

    @field_validator("kb", mode="before")
    @classmethod
    def _kb_is_named(cls, value: object) -> object:
        if value == "":  # as a path, the current folder
            raise ValueError("Name a folder")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put flags before the environment, and the environment before the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load_config(flags: Mapping[str, object] | None = None) -> Config:
    """Return the settings of the current folder and environment, overridden by ``flags``.

    Args:
        flags: Dotted names to values, for instance ``{"retrieval.k": 8}``; None means not given.

    Raises:
        ConfigError: A setting is unknown or out of its range, or the file cannot be read.
    """
    nested: dict[str, object] = {}
    for name, value in (flags or {}).items():
        if value is None:
            continue
        section, dot, field = name.partition(".")
        if not dot:
            nested[name] = value
            continue
        group = nested.setdefault(section, {})
        assert isinstance(group, dict)
        group[field] = value
    try:
        config = Config()  # on its own: a flag would hide that a section is not a table
        return Config(**nested) if nested else config  # type: ignore[arg-type]
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f"The setting {where!r} is not usable: {first['msg']} (got {first.get('input')!r}).",
            remedy="See the list of settings in docs/configuration.md.",
        ) from None
    except SettingsError as error:
        raise ConfigError(
            f"An environment variable is not usable: {error}.",
            remedy="Lists and tables are written as JSON there.",
        ) from None
    except RecursionError:
        raise ConfigError(
            "A setting in the environment or in readahead.toml is nested too deeply.",
            remedy="See the list of settings in docs/configuration.md.",
        ) from None
    except (ValueError, OSError) as error:
        raise ConfigError(f"readahead.toml cannot be read: {error}.", remedy="Mend it.") from None


def cache_home() -> Path:
    """Return the folder for downloaded and converted models.

    ``READAHEAD_HOME``, else ``readahead`` under ``XDG_CACHE_HOME``, else ``~/.cache/readahead``.
    """
    if home := os.environ.get("READAHEAD_HOME"):
        return Path(home).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "readahead"
