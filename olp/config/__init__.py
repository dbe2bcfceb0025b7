"""The whole configuration: its shape, its strict reading, and where each value came from.

Nothing here opens a file. `schema` is the shape, `load` turns text into it or says precisely what
is wrong and in which line, `render` prints it back and writes the commented template.
"""

from olp.config.background import BackgroundConfig, BackgroundShape
from olp.config.load import Loaded, load
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
    "ImagesConfig",
    "Loaded",
    "MetricsConfig",
    "ProviderConfig",
    "RecordConfig",
    "RoutingConfig",
    "ServerConfig",
    "Thresholds",
    "WorkersConfig",
    "load",
]
