"""Mistral Vibe: `vibe -p` with streaming output, and `vibe-acp`.

Its tools cannot be taken away, only forbidden one by one, so an entry that shows one ends the
process. It runs in a private VIBE_HOME with a configuration made for this one request, and in a
private HOME, because it also looks for skills there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import tomli_w

from olp.model import PRIVATE_DIR, Effort, Launch, Request
from olp.providers.base import Driver as BaseDriver
from olp.providers.base import Setting, adapted
from olp.providers.environment import child_environment
from olp.providers.transcript import prompt_of, system_of
from olp.providers.vibe_answer import Driver
from olp.providers.vibe_facts import FACTS
from olp.providers.vibe_session import VibeSession
from olp.providers.vibe_tools import SOCKET, VibeToolSession

_FLAGS = ("-p", "--output", "streaming", "--agent", "olp", "--output-dir", f"{PRIVATE_DIR}/out")

ONE_TURN = ("--max-turns", "1")
"""Without tools of the client's the model has nothing to come back for."""

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

GRACE_S = 0.3
"""How long it may take to end when it is asked to: it would wait for the end of the answer under
way, and keeps nothing that an abrupt end could spoil."""


class Vibe:
    """The provider: how to start the CLI."""

    facts = FACTS

    def launch(
        self, request: Request, model: str, setting: Setting, now: datetime
    ) -> tuple[Launch, Driver]:
        system = system_of(request, describe_format=True) or NO_SYSTEM
        config = _configuration(request, model, setting.config.config)
        launch = Launch(
            (*setting.command, *_FLAGS, *(() if request.tools else ONE_TURN), *setting.config.args),
            _environment(setting),
            files=_home(config, system),
            links=_links(setting),
            collect=("out/export.json",),
            grace_s=GRACE_S,
        )
        return launch, Driver(prompt_of(request), model, now=now)

    def session(
        self, setting: Setting, request: Request | None = None, model: str = ""
    ) -> tuple[Launch, VibeSession | VibeToolSession]:
        model = model or setting.config.default_model or FACTS.models[0]
        request = request or Request(model, ())
        if request.tools:
            return self._with_tools(setting, request, model)
        config = _configuration(request, model, setting.config.config)
        files = _home(config | {"default_agent": "olp"}, NO_SYSTEM)
        argv = (_beside(setting.command[0], "vibe-acp"), *setting.command[1:])
        launch = Launch(
            argv, _environment(setting), files=files, links=_links(setting), grace_s=GRACE_S
        )
        return launch, VibeSession(model, request, setting.work)

    def _with_tools(
        self, setting: Setting, request: Request, model: str
    ) -> tuple[Launch, VibeToolSession]:
        launch, _ = self.launch(request, model, setting, datetime.min)  # which looks at no time
        argv = (*launch.argv, "--agent-socket", f"{PRIVATE_DIR}/{SOCKET}")
        session = VibeToolSession(request.tools, parallel=request.parallel_calls)
        return replace(launch, argv=argv, socket=SOCKET), session

    def survey(self, setting: Setting) -> Sequence[tuple[Launch, BaseDriver]]:
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
        # Without this word an image becomes a word, and nothing tells.
        entry.setdefault("supports_images", True)
        entry.update(wanted)
    return config | ({"models": models} if models else {})


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in over.items():
        inner = out.get(key)
        nested = isinstance(inner, Mapping) and isinstance(value, Mapping)
        out[key] = _merged(inner, value) if nested else value  # type: ignore[arg-type]
    return out


PROVIDER = Vibe()
