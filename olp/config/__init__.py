"""The configuration: its schema, strict parsing, and the source of each value.

Nothing here opens a file. `schema` defines the options, `load` parses text and reports all problems
with their lines, `render` writes the commented template.
"""

from olp.config.background import BackgroundConfig, BackgroundShape
from olp.config.load import Loaded, load, look
from olp.config.paths import Here
from olp.config.problem import Problem
from olp.config.schema import (
    BreakerConfig,
    CacheConfig,
    ChainConfig,
    Config,
    ImagesConfig,
    ProviderConfig,
    RoutingConfig,
    ServerConfig,
    Thresholds,
    WorkersConfig,
)
from olp.config.telling import MetricsConfig, RecordConfig

__all__ = [
    "BackgroundConfig",
    "BackgroundShape",
    "BreakerConfig",
    "CacheConfig",
    "ChainConfig",
    "Config",
    "Here",
    "ImagesConfig",
    "Loaded",
    "MetricsConfig",
    "Problem",
    "ProviderConfig",
    "RecordConfig",
    "RoutingConfig",
    "ServerConfig",
    "Thresholds",
    "WorkersConfig",
    "load",
    "look",
]
