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
        str, Meta(min_length=1, description="address to listen on; 127.0.0.1 is this machine only")
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="TCP port; 0 takes a free one")] = 4567
    state_dir: Annotated[
        str, Meta(description="folder for what OLP keeps; unset: the system's usual place")
    ] = ""
    tls_cert: Annotated[
        str,
        Meta(description="certificate in PEM for https; `olp cert` makes one; unset: http"),
    ] = ""
    tls_key: Annotated[str, Meta(description="its key in PEM; only with tls_cert")] = ""
    announce: Annotated[
        bool, Meta(description="tell the local network that OLP is here, for `olp discover`")
    ] = False
    allow_anonymous: Annotated[
        bool,
        Meta(description="listen beyond this machine although anybody there could then use it"),
    ] = False
    cors_origins: Annotated[
        tuple[str, ...],
        Meta(description="web pages that may call OLP, such as http://nas.lan:3000"),
    ] = ()
    allowed_hosts: Annotated[
        tuple[str, ...],
        Meta(description="further names of this machine that a client may put in its address"),
    ] = ()
    max_body_mb: Annotated[
        float, Meta(gt=0, le=1024, description="largest request body, in MiB")
    ] = 20.0
    body_timeout_s: Annotated[
        float, Meta(gt=0, description="time a client has to send its request")
    ] = 60.0
    max_messages: Annotated[int, Meta(ge=1, description="messages in one request")] = 4096
    max_requests: Annotated[
        int, Meta(ge=1, description="requests that one caller may have in flight")
    ] = 64
    keepalive_s: Annotated[
        Seconds,
        Meta(description="a comment on a silent stream every so often, once it began; 0 is off"),
    ] = 15.0
    drain_s: Annotated[
        Seconds, Meta(description="time that running answers get when the server stops")
    ] = 10.0


class RoutingConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How a request moves along its chain."""

    opening_s: Annotated[
        float,
        Meta(
            gt=0,
            description="from the start of a CLI until the vendor begins to answer; at most 60 "
            "where the CLI shows that without fail",
        ),
    ] = 240.0
    gate_s: Annotated[
        Seconds,
        Meta(description="how long a stream waits for its first content, from there"),
    ] = 30.0
    gate: Annotated[
        Literal["content", "reasoning"],
        Meta(description="what opens the gate; with reasoning, thinking is shown live"),
    ] = "content"
    gate_action: Annotated[
        Literal["commit", "advance"],
        Meta(description="at the gate's end: stay with the slow model, or move on"),
    ] = "commit"
    deadline_s: Annotated[
        float, Meta(gt=0, description="no further hop is started when this is nearly over")
    ] = 540.0
    on_auth_missing: Annotated[
        Literal["stop", "advance"],
        Meta(description="a hop that is not logged in: stop and say so, or move on"),
    ] = "stop"
    json: Annotated[
        Literal["stream", "checked"],
        Meta(
            description="a stream of JSON: as it comes, with an error where its end does not "
            "conform; or in one piece, once it is known to"
        ),
    ] = "stream"
    fallback_detail: Annotated[
        Literal["owner_only", "all", "none"],
        Meta(description="who sees the X-OLP-Fallback-Detail header"),
    ] = "owner_only"
    queue_s: Annotated[
        Seconds,
        Meta(description="how long a request waits, in turn, where every hop is full; 0: not"),
    ] = 10.0
    background: Annotated[
        str,
        Meta(description="chain for the jobs that chat programs send on their own; unset: none"),
    ] = ""


class BreakerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """When a hop that fails again and again is left alone."""

    window_s: Annotated[float, Meta(gt=0, description="failures older than this are forgotten")] = (
        300.0
    )
    threshold: Annotated[
        int, Meta(ge=1, description="failures within the window that open the circuit")
    ] = 3
    cooldown_s: Annotated[float, Meta(gt=0, description="how long the hop is then left alone")] = (
        60.0
    )
    all_open: Annotated[
        Literal["try", "fail"],
        Meta(description="when nothing else is left: try the first to be due, or answer 503"),
    ] = "try"


class CacheConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether complete answers are kept; off by default, so that asking again asks again."""

    ttl_s: Annotated[Seconds, Meta(description="how long an answer is kept; 0 is off")] = 0.0
    max_entries: Annotated[int, Meta(ge=1, description="answers kept at one time")] = 500
    max_bytes: Annotated[int, Meta(ge=1, description="bytes of all answers kept at one time")] = (
        64 * 1024 * 1024
    )


class ImagesConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Images and files in requests. Clients send them along; an image may also be named by its
    address, which this machine then fetches, and only from the open internet."""

    max_count: Annotated[int, Meta(ge=0, description="images and files in one request")] = 50
    fetch: Annotated[
        bool, Meta(description="fetch images that a request names by an http(s) address")
    ] = False
    max_mb: Annotated[
        float, Meta(gt=0, le=20, description="largest image that is fetched, MiB")
    ] = 10.0


class WorkersConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """CLIs that are started ahead of a request. They are speed alone: all works without them."""

    max_processes: Annotated[
        int, Meta(ge=0, description="processes that wait, of all CLIs together; 0 is off")
    ] = 10
    max_memory_mb: Annotated[
        int,
        Meta(ge=0, description="their memory, as measured; the least useful goes first"),
    ] = 2048
    conversations: Annotated[
        int, Meta(ge=0, description="conversations that are kept alive for a follow-up")
    ] = 4
    conversation_idle_s: Annotated[
        float, Meta(gt=0, description="how long each of them waits for one")
    ] = 300.0
    parked: Annotated[
        int, Meta(ge=0, description="processes that wait for the results of a client's tools")
    ] = 8
    parked_s: Annotated[
        float, Meta(gt=0, le=3000, description="how long each of them waits for the results")
    ] = 600.0
    max_age_s: Annotated[
        float, Meta(gt=0, description="a process that waits longer than this is replaced")
    ] = 3600.0


Percent = Annotated[float, Meta(gt=0, le=100)]


class Thresholds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At which values a provider is left alone before it is used up. Unset: never."""

    five_hour_window_percent_threshold: Annotated[
        Percent | None, Meta(description="skip at this percentage of the five-hour window")
    ] = None
    credit_pool_percent_threshold: Annotated[
        Percent | None, Meta(description="skip at this percentage of the plan's extra credits")
    ] = None
    daily_request_count_threshold: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="skip after so many requests on one day (local time)"),
    ] = None


class ChainConfig(Thresholds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One chain in its long form; what is not set here comes from [routing], and the thresholds
    from each hop's provider."""

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
    """One CLI. What is not set is found on PATH or is the provider's own default."""

    enabled: Annotated[
        bool | None, Meta(description="use it or not; unset: if it is found on PATH")
    ] = None
    command: Annotated[
        tuple[str, ...],
        Meta(description="program and first arguments, as a list; unset: its usual name on PATH"),
    ] = ()
    default_model: Annotated[str | None, Meta(description="the model that `auto` asks for")] = None
    models: Annotated[
        tuple[str, ...], Meta(description="further model ids that clients may ask for by name")
    ] = ()
    context: Annotated[
        dict[str, Annotated[int, Meta(ge=1)]],
        Meta(description="tokens that a model can read, by its id, where the CLI does not tell"),
    ] = field(default_factory=dict)
    login: Annotated[
        Literal["shared", "own"],
        Meta(description="the login of your own CLI, or one that OLP keeps apart"),
    ] = "shared"
    max_concurrent: Annotated[int, Meta(ge=1, description="processes at one time")] = 4
    opening_s: Annotated[
        Seconds | None, Meta(description="as in [routing], for this CLI, whatever it shows")
    ] = None
    gate_s: Annotated[Seconds | None, Meta(description="as in [routing], for this CLI")] = None
    max_spawn_s: Annotated[
        float, Meta(gt=0, description="the longest that one answer may take")
    ] = 600.0
    warm: Annotated[
        int, Meta(ge=0, description="processes that are started ahead of a request; 0 is off")
    ] = 1
    transport: Annotated[
        Literal["auto", "oneshot"],
        Meta(description="auto uses processes that wait where the CLI can; oneshot never does"),
    ] = "auto"
    env: Annotated[
        dict[str, str],
        Meta(description="environment of this CLI beyond the allow-list, such as a proxy"),
    ] = field(default_factory=dict)
    args: Annotated[
        tuple[str, ...], Meta(description="further arguments, appended as they are")
    ] = ()
    config: Annotated[
        dict[str, Any],
        Meta(description="vibe only: a table merged into the config.toml it is given"),
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
