"""Settings: one section per component; see ``settings`` for where they come from."""

from readahead.config.answers import EvidenceConfig, GenerationConfig, TracesConfig
from readahead.config.knowledge import DocumentsConfig, PassagesConfig, RetrievalConfig
from readahead.config.models import CacheConfig, Dtype, ModelsConfig
from readahead.config.server import ServerConfig
from readahead.config.settings import Config, cache_home, load_config
from readahead.config.speculation import (
    ETA_PRESETS,
    DraftsConfig,
    InjectConfig,
    PrefetchConfig,
    TokensConfig,
)

__all__ = [
    "ETA_PRESETS",
    "CacheConfig",
    "Config",
    "DocumentsConfig",
    "DraftsConfig",
    "Dtype",
    "EvidenceConfig",
    "GenerationConfig",
    "InjectConfig",
    "ModelsConfig",
    "PassagesConfig",
    "PrefetchConfig",
    "RetrievalConfig",
    "ServerConfig",
    "TokensConfig",
    "TracesConfig",
    "cache_home",
    "load_config",
]
