"""How each CLI is started: what stands in its arguments and environment, and what never does."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.config import ProviderConfig
from olp.model import PRIVATE_DIR, Effort, JsonFormat, Launch, Message, Request, Role
from olp.providers import all_providers
from olp.providers.base import CloseInput, Driver, Provider, ProviderContext, Write
from olp.providers.codex.vendor import asked_once
from olp.providers.shared.environment import ALLOWED

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
PROVIDERS = all_providers()
REAL = ("claude", "codex", "vibe")

SECRETS = {
    "ANTHROPIC_API_KEY": "canary-anthropic",
    "ANTHROPIC_AUTH_TOKEN": "canary-anthropic-token",
    "ANTHROPIC_BASE_URL": "canary-base-url",
    "OPENAI_API_KEY": "canary-openai",
    "CODEX_API_KEY": "canary-codex",
    "CODEX_ACCESS_TOKEN": "canary-codex-token",
    "OLP_KEY": "canary-olp",
    "OLP_SERVER_PORT": "canary-port",
    "AWS_SECRET_ACCESS_KEY": "canary-aws",
    "GITHUB_TOKEN": "canary-github",
    "SSH_AUTH_SOCK": "canary-ssh",
    "HTTPS_PROXY": "canary-proxy",
    "LD_PRELOAD": "canary-preload",
    "NODE_OPTIONS": "canary-node",
    "PYTHONPATH": "canary-python",
    "CLAUDE_CODE_USE_BEDROCK": "canary-bedrock",
}
LOGINS = {
    "claude": {"CLAUDE_CODE_OAUTH_TOKEN": "login-of-claude"},
    "codex": {},
    "vibe": {"MISTRAL_API_KEY": "login-of-vibe"},
    "demo": {},
}
HARMLESS = {"PATH": "/bin", "HOME": "/home/u", "LANG": "C.UTF-8", "LC_ALL": "C", "TZ": "UTC"}
ENVIRON = {
    **HARMLESS,
    **SECRETS,
    **{name: value for login in LOGINS.values() for name, value in login.items()},
}

CANARIES = ("CANARY-SYSTEM", "CANARY-USER", "CANARY-ASSISTANT", "CANARY-LAST", "CANARY-STOP")
CLOSED = {"type": "object", "additionalProperties": False}
SCHEMA = JsonFormat(
    CLOSED | {"properties": {"CANARY-SCHEMA": {}}, "required": ["CANARY-SCHEMA"]}, "CANARY-NAME"
)


def context(provider: str = "", **options: Any) -> ProviderContext:
    return ProviderContext(
        command=("/opt/cli", "lead"),
        config=ProviderConfig(**options),
        environ=ENVIRON,
        home="/home/u",
        own_home="/state/logins/x",
    )


def asked(**resume: Any) -> Request:
    messages = (
        Message(Role.SYSTEM, "CANARY-SYSTEM"),
        Message(Role.USER, "CANARY-USER"),
        Message(Role.ASSISTANT, "CANARY-ASSISTANT"),
        Message(Role.USER, "CANARY-LAST"),
    )
    return Request("m", messages, **resume)


def launched(name: str, request: Request | None = None, **options: Any) -> tuple[Launch, Driver]:
    return PROVIDERS[name].launch(request or asked(), "model-1", context(**options), NOW)


def files(launch: Launch) -> str:
    return b"\n".join(launch.files.values()).decode()


every = pytest.mark.parametrize("name", sorted(PROVIDERS))
every_real = pytest.mark.parametrize("name", REAL)


# --- arguments -----------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("effort", [None, *Effort])
@pytest.mark.parametrize("wanted", [None, JsonFormat(), SCHEMA], ids=["text", "json", "schema"])
def test_M1_no_word_of_the_client_stands_in_arguments_or_environment(
    name: str, effort: Effort | None, wanted: JsonFormat | None
) -> None:
    request = asked(effort=effort, format=wanted, max_tokens=77, stop=("CANARY-STOP",))
    launch, _ = launched(name, request)
    words = [*launch.argv, *launch.env, *launch.env.values(), *launch.links, *launch.files]
    for canary in CANARIES:
        assert not any(canary in word for word in words), canary


@every_real
def test_M1_the_schema_stands_in_the_arguments_only_where_the_cli_takes_it_nowhere_else(
    name: str,
) -> None:
    launch, _ = launched(name, asked(format=SCHEMA))
    inline = [word for word in launch.argv if "CANARY-SCHEMA" in word]
    if name == "claude":
        assert [json.loads(word) for word in inline] == [SCHEMA.schema]
        assert launch.argv[launch.argv.index(inline[0]) - 1] == "--json-schema"
    else:
        assert inline == []
        assert "CANARY-SCHEMA" in files(launch)


def test_M1_a_long_schema_is_described_instead() -> None:
    long = JsonFormat({"type": "object", "description": "x" * 40_000})
    launch, _ = launched("claude", asked(format=long))
    assert "--json-schema" not in launch.argv
    assert "x" * 40_000 in files(launch)
    assert max(map(len, launch.argv)) < 128 * 1024


@every
def test_M1_no_text_of_a_client_can_stand_for_the_private_folder(name: str) -> None:
    evil = PRIVATE_DIR + "/x"
    schema = JsonFormat(CLOSED | {"description": evil})
    request = Request("m", (Message(Role.USER, evil),), format=schema)
    launch, _ = PROVIDERS[name].launch(request, "model-1", context(), NOW)
    plain, _ = PROVIDERS[name].launch(
        Request("m", (Message(Role.USER, "x"),), format=JsonFormat(CLOSED)),
        "model-1",
        context(),
        NOW,
    )
    marks = sum(word.count("\0") for word in launch.argv)
    assert marks == sum(word.count("\0") for word in plain.argv)
    assert not any("\0" in word.replace(PRIVATE_DIR, "") for word in launch.argv)


@every
def test_M1_messages_go_to_standard_input_and_the_system_prompt_to_a_private_file(
    name: str,
) -> None:
    launch, driver = launched(name)
    first, second = driver.start()
    assert isinstance(first, Write) and isinstance(second, CloseInput)
    told = first.data.decode()
    for canary in ("CANARY-USER", "CANARY-ASSISTANT", "CANARY-LAST"):
        assert canary in told
        assert canary not in files(launch)
    assert "CANARY-SYSTEM" in files(launch)
    assert "CANARY-SYSTEM" not in told


@every_real
@given(text=st.text(st.characters(), max_size=30))
def test_M1_whatever_the_prompt_the_arguments_are_the_same(name: str, text: str) -> None:
    def started(said: str) -> Launch:
        messages = (Message(Role.SYSTEM, said), Message(Role.USER, said + "."))
        return PROVIDERS[name].launch(Request("m", messages), "model-1", context(), NOW)[0]

    assert started(text).argv == started("other").argv
    assert started(text).env == started("other").env


@every
def test_M1_the_command_comes_first_and_the_model_behind_its_flag(name: str) -> None:
    launch, _ = launched(name)
    assert launch.argv[:2] == ("/opt/cli", "lead")
    if name == "vibe":
        assert "model-1" not in launch.argv
        assert tomllib.loads(launch.files["home/config.toml"].decode())["active_model"] == "model-1"
    else:
        at = launch.argv.index("model-1")
        assert launch.argv[at - 1] in ("-m", "--model")


@every_real
def test_M1_the_owners_arguments_are_appended_as_they_are(name: str) -> None:
    launch, _ = launched(name, args=("--debug", "a b"))
    ours = (*asked_once(("--debug", "a b")), "-") if name == "codex" else ()
    assert launch.argv[-2 - len(ours) :] == ("--debug", "a b", *ours)


@pytest.mark.parametrize("name", ["claude", "demo"])
@pytest.mark.parametrize("prompt", ["/cost", "/clear x", " /model"])
def test_M1_a_slash_at_the_beginning_is_text_for_claude(name: str, prompt: str) -> None:
    request = Request("m", (Message(Role.USER, prompt),))
    _, driver = PROVIDERS[name].launch(request, "model-1", context(), NOW)
    assert driver.start()[0] == Write(b"\n" + prompt.encode())


# --- isolation -----------------------------------------------------------------------------------


def test_M1_claude_has_no_tools_no_settings_and_no_memory() -> None:
    launch, _ = launched("claude")
    argv = launch.argv
    at = argv.index("--tools")
    assert argv[at + 1] == "" and argv[at + 2].startswith("--")
    for flag in (
        "--setting-sources=",
        "--strict-mcp-config",
        "--disable-slash-commands",
        "--no-session-persistence",
    ):
        assert flag in argv
    assert argv[argv.index("--permission-mode") + 1] == "dontAsk"
    assert argv[argv.index("--system-prompt-file") + 1] == f"{PRIVATE_DIR}/system.md"
    for name in ("ATTACHMENTS", "CLAUDE_MDS", "NONSTREAMING_FALLBACK", "AUTO_MEMORY"):
        assert launch.env[f"CLAUDE_CODE_DISABLE_{name}"] == "1"


def test_J4_claude_is_not_told_to_fall_back_by_itself() -> None:
    assert "--fallback-model" not in launched("claude")[0].argv


def test_A9_the_clis_own_retries_are_off() -> None:
    claude = launched("claude")[0].env
    assert claude["CLAUDE_CODE_MAX_RETRIES"] == "0"
    assert claude["CLAUDE_CODE_MAX_TURNS"] == claude["MAX_STRUCTURED_OUTPUT_RETRIES"] == "1"
    config = tomllib.loads(launched("vibe")[0].files["home/config.toml"].decode())
    assert config["api_retry_max_elapsed_time"] <= 1
    assert config["output_limit_retries"] == 0


def test_M1_codex_has_its_hands_tied() -> None:
    launch, _ = launched("codex")
    argv = launch.argv
    off = {argv[i + 1] for i, word in enumerate(argv) if word == "--disable"}
    assert off >= {"shell_tool", "unified_exec", "plugins", "apps", "hooks", "multi_agent"}
    settings = {argv[i + 1] for i, word in enumerate(argv) if word == "-c"}
    assert settings >= {'web_search="disabled"', "project_doc_max_bytes=0"}
    for flag in ("--ephemeral", "--ignore-user-config", "--ignore-rules", "--skip-git-repo-check"):
        assert flag in argv
    assert argv[argv.index("-s") + 1] == "read-only"
    assert argv[-1] == "-", "the prompt is on standard input"
    assert launch.env["CODEX_EXEC_SERVER_URL"] == "none"
    assert launch.env["CODEX_HOME"] == f"{PRIVATE_DIR}/home"
    assert "AGENTS.md" not in {path.rpartition("/")[2] for path in launch.files}


def test_M1_vibe_has_every_tool_forbidden_and_a_home_of_its_own() -> None:
    launch, _ = launched("vibe")
    config = tomllib.loads(launch.files["home/config.toml"].decode())
    tools = ("bash", "write_file", "edit", "read_file", "run_typescript", "skill")
    for tool in tools:
        assert config["tools"][tool] == {"permission": "never"}
    for name in ("enable_mcp", "enable_connectors", "enable_subagents", "include_project_context"):
        assert config[name] is False
    assert "--trust" not in launch.argv
    assert "--prompt" not in launch.argv
    assert launch.argv[launch.argv.index("-p") + 1].startswith("--"), "no prompt behind -p"
    for name in ("VIBE_HOME", "HOME"):
        assert launch.env[name].startswith(PRIVATE_DIR)


@every
def test_M1_every_private_file_stays_in_the_private_folder(name: str) -> None:
    launch, _ = launched(name, asked(format=SCHEMA))
    for path in [*launch.files, *launch.links, *launch.collect]:
        assert not path.startswith("/") and ".." not in path.split("/")


# --- the environment -----------------------------------------------------------------------------


def launches(provider: Provider, with_setting: ProviderContext) -> Mapping[str, Launch]:
    return {
        "launch": provider.launch(asked(), "model-1", with_setting, NOW)[0],
        **provider.probes(with_setting),
    }


@every
def test_M3_nothing_of_the_servers_environment_passes_but_the_allow_list_and_the_own_login(
    name: str,
) -> None:
    for what, launch in launches(PROVIDERS[name], context()).items():
        inherited = {key for key, value in launch.env.items() if ENVIRON.get(key) == value}
        allowed = set(HARMLESS) | set(LOGINS[name])
        assert inherited <= allowed, what
        assert not set(SECRETS.values()) & set(launch.env.values())
        assert not any("canary" in word for word in launch.argv)


@every
def test_M3_each_cli_gets_its_own_login_and_no_others(name: str) -> None:
    for launch in launches(PROVIDERS[name], context()).values():
        for other, login in LOGINS.items():
            for key, value in login.items():
                if other == name:
                    assert launch.env[key] == value
                else:
                    assert key not in launch.env and value not in launch.env.values()


@every
def test_M3_names_of_the_server_never_pass(name: str) -> None:
    environ = {f"OLP_{word}": "x" for word in ("KEY", "CONFIG", "RUN", "SERVER_HOST")}
    where = ProviderContext(("/opt/cli",), ProviderConfig(), environ, "/home/u", "/own")
    for launch in launches(PROVIDERS[name], where).values():
        assert not any(key.startswith("OLP_") for key in launch.env)


@every
@given(st.dictionaries(st.text("ABC_", min_size=1, max_size=6), st.text(max_size=3)))
def test_M1_the_environment_is_an_allow_list(name: str, environ: dict[str, str]) -> None:
    where = ProviderContext(("/opt/cli",), ProviderConfig(), environ, "/home/u", "/own")
    bare = ProviderContext(("/opt/cli",), ProviderConfig(), {}, "/home/u", "/own")
    made, plain = launches(PROVIDERS[name], where), launches(PROVIDERS[name], bare)
    for what, launch in made.items():
        extra = set(launch.env) - set(plain[what].env)
        assert all(key in ALLOWED or key.startswith("LC_") for key in extra)


@every
def test_M1_path_and_home_are_always_there(name: str) -> None:
    bare = ProviderContext(("/opt/cli",), ProviderConfig(), {}, "/home/u", "/own")
    for launch in launches(PROVIDERS[name], bare).values():
        assert launch.env["PATH"]
        assert launch.env["HOME"] in ("/home/u", f"{PRIVATE_DIR}/user")


@every
def test_O_the_owners_environment_is_added_and_wins(name: str) -> None:
    env = {"ANTHROPIC_API_KEY": "the-owners-choice", "HTTPS_PROXY": "http://p", "TZ": "Asia/Tokyo"}
    for launch in launches(PROVIDERS[name], context(env=env)).values():
        assert {key: launch.env[key] for key in env} == env


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("claude", "CLAUDE_CODE_MAX_RETRIES"),
        ("codex", "CODEX_EXEC_SERVER_URL"),
        ("vibe", "TMPDIR"),
    ],
)
def test_O_the_owners_environment_wins_over_what_olp_sets_itself(name: str, key: str) -> None:
    assert launched(name)[0].env[key] != "mine"
    assert launched(name, env={key: "mine"})[0].env[key] == "mine"


def test_O_a_login_of_olps_own_is_kept_apart() -> None:
    claude, _ = launched("claude", login="own")
    assert claude.env["CLAUDE_CONFIG_DIR"] == "/state/logins/x"
    assert "CLAUDE_CONFIG_DIR" not in launched("claude")[0].env
    codex, _ = launched("codex", login="own")
    assert codex.links == {"home/auth.json": "/state/logins/x/auth.json"}
    assert launched("codex")[0].links == {"home/auth.json": "/home/u/.codex/auth.json"}
    vibe, _ = launched("vibe", login="own")
    assert vibe.links == {"home/.env": "/state/logins/x/.env"}
    assert launched("vibe")[0].links == {"home/.env": "/home/u/.vibe/.env"}


# --- what a request asks for ---------------------------------------------------------------------


def test_N1_the_token_limit_reaches_the_clis_that_keep_it() -> None:
    limited = asked(max_tokens=77)
    assert launched("claude", limited)[0].env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "77"
    assert "CLAUDE_CODE_MAX_OUTPUT_TOKENS" not in launched("claude")[0].env
    config = tomllib.loads(launched("vibe", limited)[0].files["home/config.toml"].decode())
    assert [model["max_output_tokens"] for model in config["models"]] == [77]
    keeps = {name: provider.info.keeps_max_tokens for name, provider in PROVIDERS.items()}
    assert keeps == {"claude": True, "codex": False, "vibe": True, "demo": True}


@pytest.mark.parametrize(
    ("effort", "claude", "codex", "vibe"),
    [
        (Effort.NONE, None, "none", "off"),
        (Effort.MINIMAL, "low", "minimal", "off"),
        (Effort.LOW, "low", "low", "low"),
        (Effort.MEDIUM, "medium", "medium", "medium"),
        (Effort.HIGH, "high", "high", "high"),
        (Effort.XHIGH, "xhigh", "xhigh", "max"),
    ],
)
def test_N1_the_effort_in_each_clis_words(
    effort: Effort, claude: str | None, codex: str, vibe: str
) -> None:
    request = asked(effort=effort)
    launch, _ = launched("claude", request)
    if claude is None:
        assert "--effort" not in launch.argv
        assert launch.env["MAX_THINKING_TOKENS"] == "0"
    else:
        assert launch.argv[launch.argv.index("--effort") + 1] == claude
    assert f'model_reasoning_effort="{codex}"' in launched("codex", request)[0].argv
    config = tomllib.loads(launched("vibe", request)[0].files["home/config.toml"].decode())
    assert config["models"][0]["thinking"] == vibe


def test_N1_a_schema_is_handed_to_codex_as_a_file() -> None:
    launch, _ = launched("codex", asked(format=SCHEMA))
    assert launch.argv[launch.argv.index("--output-schema") + 1] == f"{PRIVATE_DIR}/schema.json"
    assert json.loads(launch.files["schema.json"]) == SCHEMA.schema
    assert "--output-schema" not in launched("codex", asked(format=JsonFormat()))[0].argv


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string"}}},
        CLOSED | {"properties": {"a": {"type": "string"}}},
        CLOSED | {"properties": {"a": {"type": "object"}}, "required": ["a"]},
        {"type": "array", "items": {"type": "string"}},
    ],
)
def test_N1_a_schema_that_the_vendor_would_refuse_is_told_to_codex_in_words(
    schema: dict[str, Any],
) -> None:
    launch, _ = launched("codex", asked(format=JsonFormat(schema)))
    assert "--output-schema" not in launch.argv
    assert json.dumps(schema, separators=(",", ":")) in launch.files["system.md"].decode()


def test_O_the_owners_vibe_table_is_merged_and_what_ties_the_hands_stays() -> None:
    mine = {
        "enable_mcp": True,
        "tools": {"bash": {"x": 1}},
        "models": [{"name": "n", "alias": "a"}],
    }
    launch, _ = launched("vibe", config=mine)
    config = tomllib.loads(launch.files["home/config.toml"].decode())
    assert config["enable_mcp"] is True
    assert config["tools"]["bash"] == {"permission": "never", "x": 1}
    assert {"name": "n", "alias": "a"} in config["models"]


@pytest.mark.parametrize("system", ["", "be brief"])
@pytest.mark.parametrize("name", ["codex", "vibe"])
def test_M1_a_missing_system_prompt_does_not_bring_the_clis_own_back(
    name: str, system: str
) -> None:
    leading = (Message(Role.SYSTEM, system),) if system else ()
    request = Request("m", (*leading, Message(Role.USER, "x")))
    launch, _ = PROVIDERS[name].launch(request, "model-1", context(), NOW)
    path = "system.md" if name == "codex" else "home/prompts/olp.md"
    assert launch.files[path].decode() == (system or "You are a helpful assistant.")


# --- the list of providers -----------------------------------------------------------------------


def test_J1_the_providers_in_their_order() -> None:
    assert [name for name in PROVIDERS if PROVIDERS[name].info.rank] == list(REAL)
    assert PROVIDERS["demo"].info.rank == 0


@every
def test_A8_each_provider_knows_its_commands(name: str) -> None:
    info = PROVIDERS[name].info
    assert info.install and info.login and info.models
    assert info.name == name
    assert "version" in PROVIDERS[name].probes(context())


@pytest.mark.parametrize(("env", "off"), [({}, None), ({"ANTHROPIC_BASE_URL": "http://x"}, "1")])
def test_A9_claude_leaves_its_betas_out_where_it_would_ask_again_without_them(
    env: dict[str, str], off: str | None
) -> None:
    claude = PROVIDERS["claude"]
    session = claude.session(context(env=env))
    assert session is not None
    for launch in (launched("claude", env=env)[0], session[0]):
        assert launch.env.get("CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS") == off
