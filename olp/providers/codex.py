"""OpenAI Codex: `codex exec --json`.

This CLI streams no text: the answer comes as one item, and of several the last is the answer; what
stood before it is commentary, which a client gets as reasoning. The answer is final at
`turn.completed`, although the process may stay for seconds. Even its read-only sandbox runs
commands, so every feature with hands is switched off one by one, and any item of a kind that is
not text ends the process. It runs in a private CODEX_HOME: an AGENTS.md of the user's own would
otherwise go to the vendor with every request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from olp import __version__
from olp.events import Done, Event, Failed, Finish, Reasoning, Started, Text, Trouble, Usage
from olp.model import PRIVATE_DIR, Ability, Effort, Launch, Request
from olp.providers.base import (
    CloseInput,
    Exit,
    Facts,
    Setting,
    Step,
    Write,
    adapted,
    child_environment,
    login_hint,
    parse_line,
)
from olp.providers.base import Driver as BaseDriver
from olp.providers.codex_items import strict_schema
from olp.providers.codex_session import CodexSession
from olp.providers.codex_survey import CATALOGUE, CatalogueDriver, LimitsDriver
from olp.providers.notices import Patterns, by_status, classify, http_status, plain, reset_time
from olp.providers.transcript import prompt_of, system_of

FACTS = Facts(
    name="codex",
    rank=2,
    title="OpenAI Codex",
    program="codex",
    install="npm install -g @openai/codex@latest",
    login="codex login",
    tested=("0.160.0", "0.171.0"),
    models=("gpt-5.5", "gpt-5.4"),
    native=(
        "../../codex-*/vendor/*/bin/codex",
        "../node_modules/@openai/codex-*/vendor/*/bin/codex",
        "../vendor/*/bin/codex",
    ),
    user_login=(".codex/auth.json",),
    windows=("five_hour", "seven_day", "credits"),
    inert_tools=("request_user_input", "apply_patch"),
    can=(Ability.TOOLS, Ability.IMAGES, Ability.SCHEMA, Ability.EFFORT),
)

_OFF = (
    *("shell_tool", "unified_exec", "plugins", "apps", "hooks", "memories", "multi_agent"),
    *("multi_agent_v2", "goals", "skill_search", "view_image", "image_generation"),
    *("tool_suggest", "code_mode_host", "browser_use", "computer_use", "in_app_browser"),
    "shell_snapshot",
)

_CONFIG = (
    'web_search="disabled"',
    "project_doc_max_bytes=0",
    "skills.include_instructions=false",
    "include_permissions_instructions=false",
    "include_environment_context=false",
    "include_apps_instructions=false",
    "include_collaboration_mode_instructions=false",
    "agents.enabled=false",
    "tool_output_token_limit=10000000",
    "analytics.enabled=false",
    "check_for_update_on_startup=false",
    'cli_auth_credentials_store="file"',
    'model_verbosity="medium"',
)

_FLAGS = (
    *("exec", "--json", "--skip-git-repo-check", "--ephemeral", "--ignore-user-config"),
    *("--ignore-rules", "-s", "read-only", "--color", "never"),
    *(word for feature in _OFF for word in ("--disable", feature)),
    *(word for setting in _CONFIG for word in ("-c", setting)),
    *("-c", f'model_instructions_file="{PRIVATE_DIR}/system.md"'),
)

_EFFORTS = {
    Effort.NONE: "none",
    Effort.MINIMAL: "minimal",
    Effort.LOW: "low",
    Effort.MEDIUM: "medium",
    Effort.HIGH: "high",
    Effort.XHIGH: "xhigh",
}

NO_SYSTEM = "You are a helpful assistant."
"""Stands in for a missing system prompt: without one the CLI would send its own of 20 kB."""

_PATTERNS: Patterns = (
    (r"you've (hit|reached) your usage limit", Trouble.QUOTA_EXHAUSTED),
    (r"out of credits|hit your spend cap|quota exceeded", Trouble.QUOTA_EXHAUSTED),
    (r"to use codex with your chatgpt plan", Trouble.QUOTA_EXHAUSTED),
    (r"ran out of room in the model's context window|context_length", Trouble.CONTEXT_TOO_LONG),
    (r"does not exist or you do not have access|model_not_found", Trouble.MODEL_NOT_FOUND),
    (r"model is not supported when using codex", Trouble.MODEL_NOT_FOUND),
    (r"\b401 unauthorized|\b403 forbidden|missing environment variable", Trouble.AUTH_MISSING),
    (r"access token could not be refreshed|not logged in|log out and sign", Trouble.AUTH_MISSING),
    (r"last status: 429|too many requests|rate limit", Trouble.RATE_LIMITED),
    (r"at capacity|experiencing high demand|last status: 5\d\d", Trouble.OVERLOADED),
    (r"stream disconnected before completion|connection", Trouble.SPAWN_FAILED),
)

_LASTING = (Trouble.AUTH_MISSING, Trouble.QUOTA_EXHAUSTED, Trouble.RATE_LIMITED)

_HARMLESS_ITEMS = ("agent_message", "reasoning", "error", "todo_list")


class Codex:
    """The provider: how to start the CLI."""

    facts = FACTS

    def launch(
        self, request: Request, model: str, setting: Setting, now: datetime
    ) -> tuple[Launch, Driver]:
        effort = _EFFORTS[request.effort] if request.effort else None
        schema = strict_schema(request)
        system = system_of(request, describe_format=schema is None) or NO_SYSTEM
        files = {"system.md": system.encode("utf-8", "replace")}
        if schema is not None:
            files["schema.json"] = json.dumps(schema).encode()
        argv = (
            *setting.command,
            *_FLAGS,
            *_catalogue(setting),
            *(("-c", f'model_reasoning_effort="{effort}"') if effort else ()),
            *(("--output-schema", f"{PRIVATE_DIR}/schema.json") if schema is not None else ()),
            *("-m", model),
            *setting.config.args,
            "-",
        )
        launch = Launch(argv, _environment(setting), files=files, links=_links(setting))
        return launch, Driver(prompt_of(request), now=now)

    def session(self, setting: Setting) -> tuple[Launch, CodexSession]:
        argv = (
            *setting.command,
            "app-server",
            *(word for feature in _OFF for word in ("--disable", feature)),
            *(word for option in _CONFIG for word in ("-c", option)),
            *_catalogue(setting),
            *setting.config.args,
        )
        launch = Launch(argv, _environment(setting), links=_links(setting))
        return launch, CodexSession(__version__, NO_SYSTEM, setting.work, _explain)

    def survey(self, setting: Setting) -> Sequence[tuple[Launch, BaseDriver]]:
        env, links = _environment(setting), _links(setting)
        catalogue = (*setting.command, "debug", "models", "--bundled")
        off = (word for feature in _OFF for word in ("--disable", feature))
        quiet = ("-c", "analytics.enabled=false", "-c", 'cli_auth_credentials_store="file"')
        server = (*setting.command, "app-server", *off, *quiet)
        return [
            (Launch(catalogue, env, links=links), CatalogueDriver()),
            (Launch(server, env, links=links), LimitsDriver(__version__)),
        ]

    def probes(self, setting: Setting) -> Mapping[str, Launch]:
        env, links = _environment(setting), _links(setting)
        return {
            "version": Launch((*setting.command, "--version"), env, links=links),
            "login": Launch((*setting.command, "login", "status"), env, links=links),
        }

    def mocked(self, setting: Setting, url: str) -> Setting:
        mock = f'{{name="mock",base_url="{url}/v1",env_key="MOCK_KEY",wire_api="responses",'
        mock += "request_max_retries=0,stream_max_retries=0}"
        args = ("-c", "model_provider=mock", "-c", f"model_providers.mock={mock}")
        return adapted(setting, env={"MOCK_KEY": "dummy"}, args=args)


def _environment(setting: Setting) -> dict[str, str]:
    return child_environment(
        setting, FACTS, {"CODEX_HOME": f"{PRIVATE_DIR}/home", "CODEX_EXEC_SERVER_URL": "none"}
    )


def _catalogue(setting: Setting) -> tuple[str, ...]:
    """The argument that gives the CLI its own list of models without their tools. Some models
    insist on a harness of tools otherwise, at 20 kB a request."""
    path = setting.kept.get(CATALOGUE)
    return ("-c", f"model_catalog_json={json.dumps(path)}") if path else ()


def _links(setting: Setting) -> dict[str, str]:
    own = setting.config.login == "own"
    theirs = setting.environ.get("CODEX_HOME") or f"{setting.home}/.codex"
    return {"home/auth.json": f"{setting.own_home if own else theirs}/auth.json"}


class Driver:
    """The protocol of one `codex exec` run."""

    def __init__(self, prompt: str, *, now: datetime) -> None:
        self._prompt = prompt
        self._now = now
        self._started = False
        self._answer: str | None = None

    def start(self) -> Sequence[Step]:
        return [Write(self._prompt.encode("utf-8", "replace")), CloseInput()]

    def receive(self, line: str) -> Sequence[Step]:
        message = parse_line(line)
        if not message:
            return []
        first: list[Step] = [] if self._started else [Started()]
        self._started = True
        return [*first, *self._message(message)]

    def exited(self, exit: Exit) -> Sequence[Event]:
        told = exit.told("codex")
        known = classify(told, _PATTERNS)
        failed = self._failure(told) if known else Failed(Trouble.SPAWN_FAILED, told)
        return [*self._take_answer(), failed]

    def _message(self, message: Mapping[str, Any]) -> Sequence[Step]:
        match message.get("type"):
            case "item.started" | "item.updated" | "item.completed":
                return self._item(message["type"], message.get("item") or {})
            case "turn.completed":
                return [*self._take_answer(), _usage(message.get("usage") or {}), Done()]
            case "turn.failed":
                return self._failed(str((message.get("error") or {}).get("message") or ""))
            case "error":
                return self._notice(str(message.get("message") or ""))
            case _:
                return []

    def _item(self, moment: str, item: Mapping[str, Any]) -> Sequence[Step]:
        kind = item.get("type")
        if kind not in _HARMLESS_ITEMS:
            return [Failed(Trouble.SPAWN_FAILED, f"codex tried its own tool {kind}; OLP ended it")]
        if moment != "item.completed":
            return []
        if kind == "reasoning":
            return [Reasoning(item.get("text") or "")]
        if kind == "agent_message":
            commentary, self._answer = self._answer, str(item.get("text") or "")
            return [Reasoning(commentary)] if commentary else []
        return []

    def _take_answer(self) -> list[Event]:
        answer, self._answer = self._answer, None
        return [Text(answer)] if answer else []

    def _notice(self, text: str) -> Sequence[Step]:
        """A reconnect is transient, unless its reason cannot go away by itself; anything else is
        told again by `turn.failed`."""
        if not text.startswith("Reconnecting"):
            return []
        failed = self._failure(text)
        return [failed] if failed.trouble in _LASTING else []

    def _failed(self, text: str) -> Sequence[Step]:
        if "max_output_tokens" in text:
            return [*self._take_answer(), Done(Finish.LENGTH)]
        if "content_filter" in text:
            return [*self._take_answer(), Done(Finish.CONTENT_FILTER)]
        failed = self._failure(text)
        partial = self._take_answer() if failed.trouble is Trouble.SPAWN_FAILED else []
        return [*partial, failed]

    def _failure(self, text: str) -> Failed:
        """Only words tell: `exec` reports no code and no status of its own."""
        return _explain(text, None, http_status(text), self._now)


def _explain(text: str, known: Trouble | None, status: int | None, now: datetime) -> Failed:
    """The failure that `text` tells of, as far as nothing better is `known`."""
    said = known or classify(text, _PATTERNS) or _by_body(text) or by_status(status)
    trouble = said or Trouble.UNKNOWN
    limited = trouble in (Trouble.QUOTA_EXHAUSTED, Trouble.RATE_LIMITED)
    auth = trouble is Trouble.AUTH_MISSING
    return Failed(
        trouble,
        login_hint(FACTS) if auth else plain(text) or "codex gave no reason",
        status,
        reset_time(text, now) if limited else None,
        model_limit="usage limit for " in text and "another model" in text,
    )


def _by_body(text: str) -> Trouble | None:
    """A refused request is told as the upstream's JSON body, without its status."""
    body = parse_line(text)
    error = body.get("error")
    kind = str(error.get("type") or error.get("code") or "") if isinstance(error, dict) else ""
    if kind == "context_length_exceeded":
        return Trouble.CONTEXT_TOO_LONG
    return Trouble.BAD_REQUEST if "invalid" in kind or "detail" in body else None


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        input=usage.get("input_tokens") or 0,
        output=usage.get("output_tokens") or 0,
        cached=usage.get("cached_input_tokens") or 0,
        cache_written=usage.get("cache_write_input_tokens") or 0,
        reasoning=usage.get("reasoning_output_tokens") or 0,
    )


PROVIDER = Codex()
