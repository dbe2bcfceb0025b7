"""The strict reading of the configuration: what is wrong, where, and what was meant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.config import ChainConfig, Config, Loaded, load
from olp.config.lines import line_of
from olp.errors import ConfigError

PROVIDERS = ("claude", "codex", "vibe")


def read(
    text: str = "",
    environ: dict[str, str] | None = None,
    flags: dict[tuple[str, ...], Any] | None = None,
) -> Loaded:
    return load(text, file="olp.toml", providers=PROVIDERS, environ=environ, flags=flags)


def wrong(text: str, **more: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- what is right -------------------------------------------------------------------------------


def test_O_an_absent_file_is_all_defaults() -> None:
    loaded = read("")
    assert loaded.config == Config()
    assert loaded.sources == {}


def test_O_the_defaults_are_those_of_the_specification() -> None:
    config = Config()
    assert (config.server.host, config.server.port) == ("127.0.0.1", 4567)
    assert config.server.max_body_mb == 20
    assert config.server.keepalive_s == 15
    routing = config.routing
    assert (routing.opening_s, routing.gate_s, routing.deadline_s) == (240, 30, 540)
    assert (routing.gate, routing.gate_action) == ("content", "commit")
    assert (routing.on_auth_missing, routing.fallback_detail) == ("stop", "owner_only")
    provider = config.provider("claude")
    assert (provider.max_concurrent, provider.max_spawn_s) == (4, 600)
    assert provider.enabled is None and provider.login == "shared"
    assert not config.server.allow_anonymous


def test_F1_the_breakers_defaults() -> None:
    breaker = Config().breaker
    assert (breaker.threshold, breaker.window_s, breaker.cooldown_s) == (3, 300, 60)
    assert breaker.all_open == "try"


def test_H2_the_cache_is_off_by_default() -> None:
    assert Config().cache.ttl_s == 0


def test_O_a_whole_file() -> None:
    config = read(
        """
        [server]
        port = 0
        cors_origins = ["http://nas.lan"]
        [chains]
        house = ["claude/sonnet", "codex/gpt-5.5", "vibe/mistral-medium-3.5"]
        [chains.long]
        hops = ["claude/sonnet"]
        gate_action = "advance"
        five_hour_window_percent_threshold = 90
        [routing]
        opening_s = 30
        gate_s = 2.5
        [providers.claude]
        enabled = true
        command = ["claude", "--debug"]
        env = { HTTPS_PROXY = "http://proxy:3128" }
        daily_request_count_threshold = 200
        [providers.vibe.config]
        enable_mcp = true
        [providers.vibe.config.deep]
        x = [1, 2]
        """
    ).config
    assert config.server.port == 0
    assert config.server.cors_origins == ("http://nas.lan",)
    assert config.chains["house"] == ("claude/sonnet", "codex/gpt-5.5", "vibe/mistral-medium-3.5")
    long = config.chains["long"]
    assert isinstance(long, ChainConfig)
    assert (long.hops, long.gate_action, long.gate) == (("claude/sonnet",), "advance", None)
    assert long.five_hour_window_percent_threshold == 90
    assert (config.routing.opening_s, config.routing.gate_s) == (30, 2.5)
    assert config.provider("claude").env == {"HTTPS_PROXY": "http://proxy:3128"}
    assert config.provider("vibe").config == {"enable_mcp": True, "deep": {"x": [1, 2]}}
    assert config.provider("codex") == Config().provider("codex")


# --- what is wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[sever]\nport = 1", 1, ("'sever'", "did you mean server?")),
        ("[server]\nprot = 1", 2, ("'prot'", "[server]", "did you mean port?")),
        ("\n\nhost = 'x'", 3, ("'host'", "the top level")),
        ("[routing]\n\ngate_ms = 3", 3, ("'gate_ms'", "did you mean gate_s?")),
        ("[breaker]\ntreshold = 3", 2, ("did you mean threshold?",)),
        ("[cache]\nttl = 3", 2, ("did you mean ttl_s?",)),
        ("[providers.cloude]\nenabled = true", 1, ("'cloude'", "did you mean claude?")),
        ("[providers.claude]\nmax_concurrency = 3", 2, ("did you mean max_concurrent?",)),
        ("[providers]\nclaude.max_spawn = 3", 2, ("did you mean max_spawn_s?",)),
        ("[chains.x]\nhops = ['claude/a']\ngates = 'content'", 3, ("did you mean gate?",)),
        ("[server]\nzzzzzzzzzzzzz = 1", 2, ("known: allow_anonymous, allowed_hosts",)),
    ],
)
def test_O_an_unknown_key_is_named_with_line_and_nearest_key(
    text: str, line: int, words: tuple[str, ...]
) -> None:
    message = wrong(text)
    assert message.startswith(f"olp.toml:{line}: unknown key")
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("text", "line", "path"),
    [
        ("[server]\nport = '80'", 2, "server.port"),
        ("[server]\n# port\nport = 1.5", 3, "server.port"),
        ("[server]\nport = true", 2, "server.port"),
        ("[server]\nport = 65536", 2, "server.port"),
        ("[server]\nport = -1", 2, "server.port"),
        ("[server]\nhost = ''", 2, "server.host"),
        ("[server]\nhost = 5", 2, "server.host"),
        ("[server]\ncors_origins = 'x'", 2, "server.cors_origins"),
        ("[server]\ncors_origins = ['x', 5]", 2, "server.cors_origins"),
        ("[server]\nallow_anonymous = 1", 2, "server.allow_anonymous"),
        ("[server]\nmax_body_mb = 0", 2, "server.max_body_mb"),
        ("server = 5", 1, "server"),
        ("[[server]]\nport = 1", 1, "server"),
        ("[routing]\nopening_s = 0", 2, "routing.opening_s"),
        ("[routing]\nopening_s = -1", 2, "routing.opening_s"),
        ("[routing]\ngate_s = -0.1", 2, "routing.gate_s"),
        ("[routing]\ndeadline_s = '5'", 2, "routing.deadline_s"),
        ("[routing]\ngate_s = nan", 2, "routing.gate_s"),
        ("[routing]\ngate = 'never'", 2, "routing.gate"),
        ("[routing]\ngate_action = 'Commit'", 2, "routing.gate_action"),
        ("[routing]\non_auth_missing = false", 2, "routing.on_auth_missing"),
        ("[routing]\nfallback_detail = 'some'", 2, "routing.fallback_detail"),
        ("[breaker]\nthreshold = 0", 2, "breaker.threshold"),
        ("[breaker]\nall_open = 'maybe'", 2, "breaker.all_open"),
        ("[cache]\nttl_s = -1", 2, "cache.ttl_s"),
        ("[providers.claude]\nmax_concurrent = 0", 2, "providers.claude.max_concurrent"),
        ("[providers.claude]\nmax_spawn_s = -5", 2, "providers.claude.max_spawn_s"),
        ("[providers.claude]\nopening_s = -5", 2, "providers.claude.opening_s"),
        ("[providers.claude]\ncommand = 'claude'", 2, "providers.claude.command"),
        ("[providers.claude]\nenv = { A = 1 }", 2, "providers.claude.env"),
        ("[providers.claude]\nenabled = 'yes'", 2, "providers.claude.enabled"),
        ("[providers.claude]\nlogin = 'mine'", 2, "providers.claude.login"),
        ("[providers.vibe]\nconfig = 5", 2, "providers.vibe.config"),
        ("[providers]\nclaude = 5", 2, "providers.claude"),
        ("providers = 5", 1, "providers"),
        (
            "[providers.codex]\nfive_hour_window_percent_threshold = 101",
            2,
            "providers.codex.five_hour_window_percent_threshold",
        ),
        ("chains = ['claude/a']", 1, "chains"),
        ("[chains]\nx = 'claude/a'", 2, "chains.x"),
        ("[chains]\nx = ['claude/a', 5]", 2, "chains.x"),
        ("[chains.x]\nhops = 5", 2, "chains.x.hops"),
        ("[chains.x]\nhops = ['claude/a']\ngate = 5", 3, "chains.x.gate"),
        ("[chains.x]\ngate = 'content'", 1, "chains.x"),
    ],
)
def test_O_a_wrong_type_or_value_is_named_with_path_and_line(
    text: str, line: int, path: str
) -> None:
    message = wrong(text)
    assert message.startswith(f"olp.toml:{line}: {path}"), message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[server\nport = 1", 1),
        ("[server]\nport = ", 2),
        ("[server]\nport = 1\nhost = 'x", 3),
        ("[server]\nport = 1\nport = 2", 3),
    ],
)
def test_O_what_is_no_toml_is_told_with_its_line(text: str, line: int) -> None:
    assert wrong(text).startswith(f"olp.toml:{line}: ")


@pytest.mark.parametrize(
    ("hops", "words"),
    [
        (["claude/a", "codex/b", "vibe/c", "claude/d"], "chain 'house': 4 hops, at most 3"),
        ([], "chain 'house': it has no hop"),
        (["claude"], "'claude' is not of the form PROVIDER/MODEL"),
        (["claude/"], "'claude/' is not of the form PROVIDER/MODEL"),
        (["/a"], "'/a' is not of the form PROVIDER/MODEL"),
        (["claude/-x"], "'claude/-x' is not of the form PROVIDER/MODEL"),
        (["claude/a b"], "'claude/a b' is not of the form PROVIDER/MODEL"),
        (["cladue/a"], "no provider 'cladue'; did you mean claude?"),
        (["claude/a", "claude/a"], "claude/a stands in it twice"),
    ],
)
@pytest.mark.parametrize("form", ["[chains]\n\nhouse = {}", "[chains.house]\n\nhops = {}"])
def test_A1_a_bad_chain_is_named_with_its_line(hops: list[str], words: str, form: str) -> None:
    message = wrong(form.format(hops))
    assert message.startswith("olp.toml:3: chain 'house': ")
    assert words in message


def test_A1_three_hops_are_allowed_the_same_provider_twice_too() -> None:
    hops = ("claude/opus", "claude/sonnet", "codex/x")
    assert read(f"[chains]\nhouse = {list(hops)}").config.chains["house"] == hops


@pytest.mark.parametrize("name", ['""', '"a b"', '"a/b"', '"-x"', '"é"', '"' + "x" * 65 + '"'])
def test_A1_a_chain_has_a_plain_name(name: str) -> None:
    assert "a name is letters" in wrong(f"[chains]\n{name} = ['claude/a']")


@pytest.mark.parametrize(
    ("key", "value"), [("models", "['-x']"), ("models", "['ok', 'a b']"), ("default_model", "'-p'")]
)
def test_M1_a_model_id_of_the_configuration_cannot_look_like_a_flag(key: str, value: str) -> None:
    message = wrong(f"[providers.claude]\n\n{key} = {value}")
    assert message.startswith(f"olp.toml:3: providers.claude.{key}: ")
    assert "cannot be a model id" in message


# --- layers --------------------------------------------------------------------------------------


def test_O_a_flag_goes_before_the_environment_and_that_before_the_file() -> None:
    text = "[server]\nhost = 'file'\nport = 1\nkeepalive_s = 1"
    environ = {"OLP_SERVER_HOST": "env", "OLP_SERVER_PORT": "2", "OTHER": "x"}
    loaded = read(text, environ, {("server", "port"): 3})
    server = loaded.config.server
    assert (server.host, server.port, server.keepalive_s) == ("env", 3, 1)
    assert server.drain_s == Config().server.drain_s
    assert loaded.sources == {
        ("server", "host"): "OLP_SERVER_HOST",
        ("server", "port"): "--port",
        ("server", "keepalive_s"): "olp.toml:4",
    }


def test_O_every_value_tells_where_it_came_from() -> None:
    text = "[chains]\nx = ['claude/a']\n[providers.claude]\nenv.A = 'b'\nargs = []"
    assert read(text).sources == {
        ("chains", "x"): "olp.toml:2",
        ("providers", "claude", "env", "A"): "olp.toml:4",
        ("providers", "claude", "args"): "olp.toml:5",
    }


@pytest.mark.parametrize(
    ("name", "value", "path", "expected"),
    [
        ("OLP_SERVER_PORT", "0", ("server", "port"), 0),
        ("OLP_SERVER_ALLOW_ANONYMOUS", "true", ("server", "allow_anonymous"), True),
        ("OLP_SERVER_STATE_DIR", "/srv/olp", ("server", "state_dir"), "/srv/olp"),
        ("OLP_SERVER_CORS_ORIGINS", '["http://a"]', ("server", "cors_origins"), ("http://a",)),
        ("OLP_ROUTING_GATE_S", "2.5", ("routing", "gate_s"), 2.5),
        ("OLP_ROUTING_GATE_ACTION", "advance", ("routing", "gate_action"), "advance"),
        ("OLP_CACHE_TTL_S", "60", ("cache", "ttl_s"), 60),
    ],
)
def test_O_a_variable_is_read_like_a_value_of_the_file(
    name: str, value: str, path: tuple[str, str], expected: object
) -> None:
    config = read("", {name: value}).config
    assert getattr(getattr(config, path[0]), path[1]) == expected


def test_O_a_wrong_variable_is_named() -> None:
    assert wrong("", environ={"OLP_SERVER_PORT": "many"}).startswith("OLP_SERVER_PORT: server.port")
    message = wrong("", environ={"OLP_SERVER_PROT": "1"})
    assert message == "OLP_SERVER_PROT: no such setting; did you mean OLP_SERVER_PORT?"


def test_O_a_wrong_flag_is_named() -> None:
    message = wrong("", flags={("server", "port"): 99999})
    assert message.startswith("--port: server.port")


def test_O_variables_of_other_programs_are_left_alone() -> None:
    assert read("", {"OLP": "x", "OLP_CONFIG": "y", "OLPX_SERVER_PORT": "z"}).config == Config()


# --- the line of a value -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("a",), 1),
        (("t", "k"), 3),
        (("t", "missing"), 2),
        (("t", "sub", "k"), 6),
        (("t", "d", "e"), 4),
        (("t", "d", "e", "deeper"), 4),
        (("q r", "x"), 9),
        (("nowhere",), None),
    ],
)
def test_O_the_line_of_a_path(path: tuple[str, ...], line: int | None) -> None:
    text = "a = 1\n[t]\nk = 2\nd.e = 3\n[t.sub] # note\nk = 4\n# x = 1\n['q r']\n\"x\" = 5\n"
    assert line_of(text, path) == line


_toml = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(
            [
                "[server]",
                "[chains]",
                "[providers.claude]",
                "port = 1",
                "x = ['claude/a']",
                "a.b = 1",
                "server = 1",
                "models = ['x']",
                "[[chains]]",
                "env = {}",
                "hops = []",
                "[chains.x]",
            ]
        )
    ).map("\n".join),
)


@given(_toml)
def test_O_no_text_makes_the_reading_fail_otherwise(text: str) -> None:
    try:
        read(text)
    except ConfigError as error:
        assert error.where.startswith("olp.toml")
