"""Mistral Vibe: `vibe -p` with streaming output.

Its output is whole entries: the prompt is echoed, and a message is the answer only when its
outcome is `committed`. Usage and error codes stand in a report, export.json, written as it exits.
Its tools cannot be taken away, only forbidden one by one, so an entry that shows one ends the
process. It runs in a private VIBE_HOME with a configuration made for this one request, and in a
private HOME, because it also looks for skills there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import tomli_w

from olp.events import Done, Event, Failed, Finish, Reasoning, Started, Text, Trouble, Usage
from olp.model import PRIVATE_DIR, Effort, Launch, Request
from olp.providers.base import (
    CloseInput,
    Exit,
    Facts,
    Setting,
    Settle,
    Step,
    Write,
    adapted,
    child_environment,
    login_hint,
    parse_line,
)
from olp.providers.notices import Patterns, by_status, classify, http_status, plain, reset_time
from olp.providers.transcript import prompt_of, system_of
from olp.providers.vibe_session import VibeSession

FACTS = Facts(
    name="vibe",
    rank=3,
    title="Mistral Vibe",
    program="vibe",
    install="pip install mistral-vibe",
    login="vibe --setup",
    tested=("2.26.0", "3.0.2"),
    models=("mistral-medium-3.5",),
    keeps_max_tokens=True,
    user_login=(".vibe/.env",),
    passes=("MISTRAL_API_KEY",),
    inert_tools=(
        *("bash", "write_file", "edit", "read_file", "run_typescript", "skill"),
        "search_tool_functions",
    ),
)

_FLAGS = ("-p", "--output", "streaming", "--agent", "olp", "--output-dir", f"{PRIVATE_DIR}/out")

_TOOLS = ("bash", "write_file", "edit", "read_file", "run_typescript", "skill")

_LEAN: Mapping[str, Any] = {
    "api_retry_max_elapsed_time": 0.0,
    "output_limit_retries": 0,
    "auto_compact_threshold": 0,
    "enable_telemetry": False,
    "enable_auto_update": False,
    "enable_update_checks": False,
    "enable_notifications": False,
    "enable_connectors": False,
    "enable_mcp": False,
    "enable_subagents": False,
    "enable_background_processes": False,
    "enable_otel": False,
    "include_project_context": False,
    "include_prompt_detail": False,
    "include_model_info": False,
    "include_commit_signature": False,
    "session_logging": {"enabled": False, "generate_titles": False},
    "experiments": {"enable": False},
    "disabled_tools": ["*"],
    "tools": {name: {"permission": "never"} for name in _TOOLS},
}


_AGENT: Mapping[str, Any] = {
    "description": "Answers in words.",
    "system_prompt_id": "olp",
    "tools": _LEAN["tools"],
}
"""The agent that every request runs as. Only an agent of one's own may name the system prompt; the
setting of the same name does not replace the CLI's long one."""

_BUILT_IN_NAMES = {"mistral-medium-3.5": "mistral-vibe-cli-latest"}
"""What the vendor calls the models that the CLI knows by an alias."""

_THINKING = {
    Effort.NONE: "off",
    Effort.MINIMAL: "off",
    Effort.LOW: "low",
    Effort.MEDIUM: "medium",
    Effort.HIGH: "high",
    Effort.XHIGH: "max",
}

NO_SYSTEM = "You are a helpful assistant."

REPORT_S = 3.0
"""How long the CLI may take to write its report when the answer is there."""

GRACE_S = 0.3
"""How long it may take to end when it is asked to: it would wait for the end of the answer under
way, and keeps nothing that an abrupt end could spoil."""

_CODES = {
    "rate_limit": Trouble.RATE_LIMITED,
    "context_too_long": Trouble.CONTEXT_TOO_LONG,
    "invalid_api_key": Trouble.AUTH_MISSING,
    "invalid_model": Trouble.MODEL_NOT_FOUND,
    "incomplete_stream": Trouble.SPAWN_FAILED,
}

_PATTERNS: Patterns = (
    (r"missing \S+ environment variable|invalid api key|unauthorized", Trouble.AUTH_MISSING),
    (r"spending limit|payment_required|quota|out of credits", Trouble.QUOTA_EXHAUSTED),
    (r"monthly (usage )?limit|usage limit", Trouble.QUOTA_EXHAUSTED),
    (r"too large for model with|maximum context length", Trouble.CONTEXT_TOO_LONG),
    (r"invalid_model|invalid model|not found in configuration", Trouble.MODEL_NOT_FOUND),
    (r"rate limit", Trouble.RATE_LIMITED),
    (r"peer closed connection|incomplete chunked read|connection", Trouble.SPAWN_FAILED),
    (r"validation errors? for unmarshaller", Trouble.SPAWN_FAILED),
)


class Vibe:
    """The provider: how to start the CLI."""

    facts = FACTS

    def launch(
        self, request: Request, model: str, setting: Setting, now: datetime
    ) -> tuple[Launch, Driver]:
        system = system_of(request, describe_format=True) or NO_SYSTEM
        config = _configuration(request, model, setting.config.config)
        launch = Launch(
            (*setting.command, *_FLAGS, *setting.config.args),
            _environment(setting),
            files=_home(config, system),
            links=_links(setting),
            collect=("out/export.json",),
            grace_s=GRACE_S,
        )
        return launch, Driver(prompt_of(request), model, now=now)

    def session(self, setting: Setting) -> tuple[Launch, VibeSession]:
        model = setting.config.default_model or FACTS.models[0]
        nothing_asked = Request(model, ())
        config = _configuration(nothing_asked, model, setting.config.config)
        files = _home(config | {"default_agent": "olp"}, NO_SYSTEM)
        argv = (_beside(setting.command[0], "vibe-acp"), *setting.command[1:])
        launch = Launch(
            argv, _environment(setting), files=files, links=_links(setting), grace_s=GRACE_S
        )
        return launch, VibeSession(model, setting.work, _explain)

    def survey(self, setting: Setting) -> Sequence[tuple[Launch, Driver]]:
        return ()  # it tells neither its models nor what is left of the plan

    def probes(self, setting: Setting) -> Mapping[str, Launch]:
        env = _environment(setting)
        return {
            "version": Launch(
                (*setting.command, "--version"), env, {"user/.keep": b"", "tmp/.keep": b""}
            )
        }

    def mocked(self, setting: Setting, url: str) -> Setting:
        server = {"name": "mock", "api_base": f"{url}/v1", "backend": "mistral"}
        models = [{"name": name, "provider": "mock", "alias": name} for name in FACTS.models]
        config = {
            "providers": [server | {"api_key_env_var": "MISTRAL_API_KEY"}],
            "models": models,
            "vibe_base_url": url,
            "console_base_url": url,
        }
        return adapted(setting, env={"MISTRAL_API_KEY": "dummy"}, config=config)


def _home(config: Mapping[str, Any], system: str) -> dict[str, bytes]:
    """The files of a private VIBE_HOME, and of the private HOME and TMPDIR beside it."""
    return {
        "home/config.toml": tomli_w.dumps(config).encode(),
        "home/agents/olp.toml": tomli_w.dumps(_AGENT).encode(),
        "home/prompts/olp.md": system.encode("utf-8", "replace"),
        "user/.keep": b"",
        "tmp/.keep": b"",
    }


def _beside(program: str, name: str) -> str:
    """The program `name` in the folder of `program`."""
    folder, slash, _ = program.rpartition("/")
    return f"{folder}{slash}{name}"


def _environment(setting: Setting) -> dict[str, str]:
    own = {
        "VIBE_HOME": f"{PRIVATE_DIR}/home",
        "HOME": f"{PRIVATE_DIR}/user",
        "TMPDIR": f"{PRIVATE_DIR}/tmp",
    }
    return child_environment(setting, FACTS, own)


def _links(setting: Setting) -> dict[str, str]:
    own = setting.config.login == "own"
    theirs = setting.environ.get("VIBE_HOME") or f"{setting.home}/.vibe"
    return {"home/.env": f"{setting.own_home if own else theirs}/.env"}


def _configuration(request: Request, model: str, owner: Mapping[str, Any]) -> dict[str, Any]:
    config = _merged(_LEAN, owner)
    config["active_model"] = model
    wanted: dict[str, Any] = {}
    if request.max_tokens is not None:
        wanted["max_output_tokens"] = request.max_tokens
    if request.effort is not None:
        wanted["thinking"] = _THINKING[request.effort]
    models = [dict(entry) for entry in config.get("models") or ()]
    entry = next((m for m in models if m.get("alias", m.get("name")) == model), None)
    if entry is None and (wanted or model not in _BUILT_IN_NAMES):
        name = _BUILT_IN_NAMES.get(model, model)
        entry = {"name": name, "provider": "mistral", "alias": model}
        models.append(entry)
    if entry is not None:
        entry.update(wanted)
    return config | ({"models": models} if models else {})


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in over.items():
        inner = out.get(key)
        nested = isinstance(inner, Mapping) and isinstance(value, Mapping)
        out[key] = _merged(inner, value) if nested else value  # type: ignore[arg-type]
    return out


class Driver:
    """The protocol of one `vibe -p` run."""

    def __init__(self, prompt: str, model: str, *, now: datetime) -> None:
        self._prompt = prompt
        self._model = model
        self._now = now
        self._started = False
        self._answered = False
        self._partial = ""

    def start(self) -> Sequence[Step]:
        return [Write(self._prompt.encode("utf-8", "replace")), CloseInput()]

    def receive(self, line: str) -> Sequence[Step]:
        entry = parse_line(line)
        if not entry:
            return []
        first: list[Step] = [] if self._started else [Started()]
        self._started = True
        return [*first, *self._entry(entry)]

    def _entry(self, entry: Mapping[str, Any]) -> Sequence[Step]:
        match entry.get("type"):
            case "effect" | "callback":
                what = entry.get("title") or entry.get("type")
                return [
                    Failed(Trouble.SPAWN_FAILED, f"vibe tried its own tool {what}; OLP ended it")
                ]
            case "reasoning":
                return [Reasoning(str(entry.get("text") or ""))]
            case "message" if entry.get("role") == "assistant":
                return self._message(entry)
            case _:
                return []

    def _message(self, entry: Mapping[str, Any]) -> Sequence[Step]:
        text = "".join(
            str(part.get("text") or "")
            for part in entry.get("content") or ()
            if isinstance(part, dict) and part.get("type") == "text"
        )
        outcome = entry.get("outcome") or {}
        if outcome.get("type") == "committed":
            self._answered = True
            return [Text(text), Settle(REPORT_S)]
        if outcome.get("cause") == "retry":
            # The CLI would ask again by itself, which is a second request for the same answer.
            return [Text(text), Failed(Trouble.SPAWN_FAILED, "vibe gave up a part of its answer")]
        self._partial = text
        return []

    def exited(self, exit: Exit) -> Sequence[Event]:
        report = parse_line(exit.files.get("out/export.json", b"").decode("utf-8", "replace"))
        usage = _usage(report)
        outcome = report.get("outcome")
        if self._answered and exit.code in (0, None) and outcome in ("finished", None):
            return [*usage, Done()]
        if self._answered and outcome == "length":
            return [*usage, Done(Finish.LENGTH)]
        failed = self._failure(report, exit)
        salvage = self._partial and failed.trouble is Trouble.SPAWN_FAILED
        return [Text(self._partial), failed] if salvage else [failed]

    def _failure(self, report: Mapping[str, Any], exit: Exit) -> Failed:
        error = report.get("error") or {}
        text = str(error.get("message") or exit.told("vibe"))
        status = http_status(text)
        code = str(error.get("code") or "")
        if code == "refusal" or report.get("outcome") == "refusal":
            return Failed(Trouble.BAD_REQUEST, plain(text), status)
        trouble = _CODES.get(code)
        if trouble is None and not report and classify(text, _PATTERNS) is None:
            trouble = by_status(status) or Trouble.SPAWN_FAILED
        return _explain(text, trouble, self._now)


def _explain(text: str, known: Trouble | None, now: datetime) -> Failed:
    """The failure that `text` tells of, as far as nothing better is `known`. The vendor's 429 is
    the same for a plan that is used up, unless its words say so."""
    status = http_status(text)
    said = classify(text, _PATTERNS)
    if known in (None, Trouble.RATE_LIMITED) and said is Trouble.QUOTA_EXHAUSTED:
        known = said
    trouble = known or said or by_status(status) or Trouble.UNKNOWN
    if trouble is Trouble.AUTH_MISSING:
        return Failed(trouble, login_hint(FACTS), status)
    limited = trouble in (Trouble.QUOTA_EXHAUSTED, Trouble.RATE_LIMITED)
    return Failed(trouble, plain(text), status, reset_time(text, now) if limited else None)


def _usage(report: Mapping[str, Any]) -> list[Event]:
    usage = report.get("usage")
    if not isinstance(usage, dict):
        return []
    return [
        Usage(
            input=usage.get("input_tokens") or 0,
            output=usage.get("output_tokens") or 0,
            cached=usage.get("cached_input_tokens") or 0,
            cost=report.get("cost_usd"),
        )
    ]


PROVIDER = Vibe()
