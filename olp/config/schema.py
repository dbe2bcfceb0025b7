"""The schema of the configuration.

Each option has its bounds and its help text here and nowhere else: `olp.toml`, docs/config.md and
the error messages are generated from them. msgspec checks types and bounds and reports the path of
an error, which is why these are its structs and not dataclasses.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from olp.config.background import BackgroundConfig
from olp.config.telling import MetricsConfig, RecordConfig

Seconds = Annotated[float, Meta(ge=0)]
"""Durations are in seconds; fractions are allowed."""


class ServerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Where OLP listens and what it accepts."""

    host: Annotated[
        str, Meta(min_length=1, description="address to listen on; 127.0.0.1: this machine only")
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="TCP port; 0 picks a free one")] = 4567
    state_dir: Annotated[str, Meta(description="state folder; unset: the platform's default")] = ""
    tls_cert: Annotated[
        str,
        Meta(description="TLS certificate (PEM); `olp cert` creates one; unset: http"),
    ] = ""
    tls_key: Annotated[str, Meta(description="its private key (PEM); requires tls_cert")] = ""
    announce: Annotated[
        bool, Meta(description="announce OLP on the local network, for `olp discover`")
    ] = False
    allow_anonymous: Annotated[
        bool,
        Meta(description="allow listening beyond this machine without keys"),
    ] = False
    cors_origins: Annotated[
        tuple[str, ...],
        Meta(description="origins of web pages that may call OLP, such as http://nas.lan:3000"),
    ] = ()
    allowed_hosts: Annotated[
        tuple[str, ...],
        Meta(description="additional host names of this machine that clients may use"),
    ] = ()
    max_body_mb: Annotated[
        float, Meta(gt=0, le=1024, description="largest request body, in MiB")
    ] = 20.0
    body_timeout_s: Annotated[
        float, Meta(gt=0, description="time limit for a client to send its request")
    ] = 60.0
    max_messages: Annotated[int, Meta(ge=1, description="maximum messages per request")] = 4096
    max_requests: Annotated[
        int, Meta(ge=1, description="maximum requests in flight per caller")
    ] = 64
    keepalive_s: Annotated[
        Seconds,
        Meta(description="interval of keep-alive comments once a stream has started; 0: off"),
    ] = 15.0
    drain_s: Annotated[
        Seconds, Meta(description="time limit for requests in flight at shutdown")
    ] = 10.0


class RoutingConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Routing of a request along its chain."""

    opening_s: Annotated[
        float,
        Meta(
            gt=0,
            description="timeout from the start of a CLI until the vendor begins to answer; "
            "at most 60 where the CLI reports this reliably",
        ),
    ] = 240.0
    gate_s: Annotated[
        Seconds,
        Meta(description="timeout from there until a stream's first content"),
    ] = 30.0
    gate: Annotated[
        Literal["content", "reasoning"],
        Meta(description="what opens the gate; with reasoning, thinking is streamed live"),
    ] = "content"
    gate_action: Annotated[
        Literal["commit", "advance"],
        Meta(description="when the gate times out: stay with the slow model, or fall back"),
    ] = "commit"
    deadline_s: Annotated[
        float,
        Meta(
            gt=0, description="time limit of a request; no further hop is started shortly before it"
        ),
    ] = 540.0
    on_auth_missing: Annotated[
        Literal["stop", "advance"],
        Meta(description="a hop that is not logged in: stop with an error, or fall back"),
    ] = "stop"
    json: Annotated[
        Literal["stream", "checked"],
        Meta(
            description="streamed JSON: as it comes, with an error if the result does not "
            "conform; or in one piece, after it was checked"
        ),
    ] = "stream"
    fallback_detail: Annotated[
        Literal["owner_only", "all", "none"],
        Meta(description="who sees the X-OLP-Fallback-Detail header"),
    ] = "owner_only"
    queue_s: Annotated[
        Seconds,
        Meta(description="how long a request queues when every hop is at capacity; 0: not at all"),
    ] = 10.0
    background: Annotated[
        str,
        Meta(description="chain for background requests of chat programs; unset: not rerouted"),
    ] = ""


class BreakerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The circuit breaker, which skips a hop that fails repeatedly."""

    window_s: Annotated[float, Meta(gt=0, description="failures older than this are ignored")] = (
        300.0
    )
    threshold: Annotated[
        int, Meta(ge=1, description="failures within the window that open the circuit")
    ] = 3
    cooldown_s: Annotated[float, Meta(gt=0, description="how long the hop is then skipped")] = 60.0
    all_open: Annotated[
        Literal["try", "fail"],
        Meta(description="when no other hop is left: try the one due first, or return 503"),
    ] = "try"


class CacheConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The cache of complete answers; off by default, so that a repeated request runs again."""

    ttl_s: Annotated[Seconds, Meta(description="how long an answer is cached; 0: off")] = 0.0
    max_entries: Annotated[int, Meta(ge=1, description="maximum cached answers")] = 500
    max_bytes: Annotated[int, Meta(ge=1, description="size of all cached answers, in bytes")] = (
        64 * 1024 * 1024
    )


class ImagesConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Images and files in requests. Clients send them inline; an image may also be a URL, which
    this machine then fetches, and only from the public internet."""

    max_count: Annotated[int, Meta(ge=0, description="maximum images and files per request")] = 50
    fetch: Annotated[bool, Meta(description="fetch images given as http(s) URLs")] = False
    max_mb: Annotated[float, Meta(gt=0, le=20, description="largest image to fetch, in MiB")] = 10.0


class WorkersConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Warm processes: CLIs started ahead of a request. They only reduce latency."""

    max_processes: Annotated[
        int, Meta(ge=0, description="maximum warm processes over all CLIs; 0: off")
    ] = 10
    max_memory_mb: Annotated[
        int,
        Meta(ge=0, description="limit of their measured memory; the least useful is evicted first"),
    ] = 2048
    conversations: Annotated[
        int, Meta(ge=0, description="maximum conversations kept alive for a follow-up")
    ] = 4
    conversation_idle_s: Annotated[float, Meta(gt=0, description="how long each is kept")] = 300.0
    parked: Annotated[
        int, Meta(ge=0, description="maximum parked processes, which wait for client tool results")
    ] = 8
    parked_s: Annotated[
        float, Meta(gt=0, le=3000, description="how long each waits for the results")
    ] = 600.0
    max_age_s: Annotated[
        float, Meta(gt=0, description="warm processes that wait longer than this are replaced")
    ] = 3600.0


Percent = Annotated[float, Meta(gt=0, le=100)]


class Thresholds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Values at which a provider is skipped before its quota is exhausted. Unset: never."""

    five_hour_window_percent_threshold: Annotated[
        Percent | None, Meta(description="skip at this usage of the five-hour window, in percent")
    ] = None
    credit_pool_percent_threshold: Annotated[
        Percent | None,
        Meta(description="skip at this usage of the plan's extra credits, in percent"),
    ] = None
    daily_request_count_threshold: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="skip after this many requests per day (local time)"),
    ] = None


class ChainConfig(Thresholds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One chain in its long form. Unset keys default to [routing], thresholds to each hop's
    provider."""

    hops: Annotated[tuple[str, ...], Meta(description="PROVIDER/MODEL, in order, at most 3")]
    gate: Annotated[Literal["content", "reasoning"] | None, Meta(description="as in [routing]")] = (
        None
    )
    gate_action: Annotated[
        Literal["commit", "advance"] | None, Meta(description="as in [routing]")
    ] = None
    on_auth_missing: Annotated[
        Literal["stop", "advance"] | None, Meta(description="as in [routing]")
    ] = None


class ProviderConfig(Thresholds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One CLI. Unset keys are taken from PATH or the provider's defaults."""

    enabled: Annotated[
        bool | None, Meta(description="whether to use it; unset: if found on PATH")
    ] = None
    command: Annotated[
        tuple[str, ...],
        Meta(description="program and first arguments, as a list; unset: its usual name on PATH"),
    ] = ()
    default_model: Annotated[str | None, Meta(description="the model that `auto` uses")] = None
    models: Annotated[
        tuple[str, ...], Meta(description="additional model ids that clients may request")
    ] = ()
    context: Annotated[
        dict[str, Annotated[int, Meta(ge=1)]],
        Meta(description="context window in tokens by model id, where the CLI does not report it"),
    ] = field(default_factory=dict)
    login: Annotated[
        Literal["shared", "own"],
        Meta(description="your own CLI's login, or a separate one kept by OLP"),
    ] = "shared"
    max_concurrent: Annotated[int, Meta(ge=1, description="maximum concurrent processes")] = 4
    opening_s: Annotated[
        Seconds | None, Meta(description="as in [routing], for this CLI; not capped at 60")
    ] = None
    gate_s: Annotated[Seconds | None, Meta(description="as in [routing], for this CLI")] = None
    max_spawn_s: Annotated[float, Meta(gt=0, description="maximum duration of one answer")] = 600.0
    warm: Annotated[int, Meta(ge=0, description="number of warm processes; 0: off")] = 1
    transport: Annotated[
        Literal["auto", "oneshot"],
        Meta(description="auto: warm processes where the CLI supports them; oneshot: never"),
    ] = "auto"
    env: Annotated[
        dict[str, str],
        Meta(description="environment variables beyond the allowlist, such as a proxy"),
    ] = field(default_factory=dict)
    args: Annotated[
        tuple[str, ...], Meta(description="additional arguments, appended unchanged")
    ] = ()
    config: Annotated[
        dict[str, Any],
        Meta(description="vibe only: a table merged into its generated config.toml"),
    ] = field(default_factory=dict)


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything, with its defaults."""

    server: ServerConfig = field(default_factory=ServerConfig)
    chains: dict[str, tuple[str, ...] | ChainConfig] = field(default_factory=dict)
    routing: RoutingConfig = field(default_factory=RoutingConfig)
    background: BackgroundConfig = field(default_factory=BackgroundConfig)
    breaker: BreakerConfig = field(default_factory=BreakerConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    images: ImagesConfig = field(default_factory=ImagesConfig)
    workers: WorkersConfig = field(default_factory=WorkersConfig)
    record: RecordConfig = field(default_factory=RecordConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    providers: dict[str, ProviderConfig] = field(default_factory=dict)

    def provider(self, name: str) -> ProviderConfig:
        """The options of one provider; defaults if it is not configured."""
        return self.providers.get(name, ProviderConfig())
