"""The configuration files for Vibe, which keep it from doing anything on its own.

It runs in a private VIBE_HOME, and in a private HOME, because it looks for skills there too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import tomli_w

from olp.model import Effort, Request, Tool
from olp.providers.shared.transcript import system_of
from olp.providers.vibe.info import OWN_TOOLS

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
    "disabled_skills": ["*"],
    "default_agent": "olp",
}

_ASKING = ("bash", "read_file", "write_file", "edit")
"""Its own tools that can be configured to ask for approval before each use."""

NEVER: Mapping[str, Any] = {name: {"permission": "never"} for name in OWN_TOOLS}
"""Its own tools, forbidden one by one."""

ASK_FIRST: Mapping[str, Any] = {
    name: {"permission": "ask", "allowlist": [], "denylist": []} for name in _ASKING
} | {"bash": {"permission": "ask", "allowlist": [], "denylist": [], "denylist_standalone": []}}
"""Permissions for conversations with tools of the client's: each call of a tool of the CLI's own
waits for OLP's decision (see `tools`), whatever the CLI thinks of the call.
"""

_SHUT_OUT = ("vibe", "olp")
"""Plugins that replace the CLI's built-in one, `vibe`, and then exclude each other because they
share a namespace. Otherwise the vendor is sent the path of the built-in one on this machine,
which differs in each process, and four skills that are of no use.
"""

BUILT_IN_NAMES = {"mistral-medium-3.5": "mistral-vibe-cli-latest"}
"""The vendor's names of the models that the CLI knows by an alias."""

_THINKING = {
    Effort.NONE: "off",
    Effort.MINIMAL: "off",
    Effort.LOW: "low",
    Effort.MEDIUM: "medium",
    Effort.HIGH: "high",
    Effort.XHIGH: "max",
}

NO_SYSTEM = "You are a helpful assistant."

PROMPT_FILE = "home/prompts/olp.md"
"""Path of the system prompt, which is read when a session starts."""


def home(config: Mapping[str, Any], system: str, own_tools: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a private VIBE_HOME, HOME and TMPDIR, by path in the run folder.

    Every request runs as an agent named `olp`: only an agent can set the system prompt, and its
    rules for the CLI's `own_tools` are final, while those in the configuration are merged.
    """
    agent = {"description": "Answers in words.", "system_prompt_id": "olp", "tools": own_tools}
    return {
        "home/config.toml": tomli_w.dumps(config).encode(),
        "home/agents/olp.toml": tomli_w.dumps(agent).encode(),
        PROMPT_FILE: system.encode("utf-8", "replace"),
        "user/.keep": b"",
        "tmp/.keep": b"",
        **{f"home/plugins/{name}/plugin.json": _plugin(name) for name in _SHUT_OUT},
    }


def _plugin(name: str) -> bytes:
    manifest = {
        "$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json",
        "name": name,
        "version": "1.0.0",
        "description": "Nothing.",
        "extensions": {"ai.mistral.vibe": {"schemaVersion": 1, "toolNamespace": "olp"}},
    }
    return json.dumps(manifest).encode()


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parameters that a session is created for."""

    model: str
    effort: Effort | None = None
    max_tokens: int | None = None
    system: str = ""
    tools: tuple[Tool, ...] = ()
    parallel: bool = True

    @classmethod
    def by(cls, request: Request, model: str) -> Wanted:
        """The parameters that `request` needs, for `model`."""
        return cls(
            model,
            request.effort,
            request.max_tokens,
            system_of(request, describe_format=True),
            request.tools,
            request.parallel_calls or not request.tools,
        )

    @property
    def plain(self) -> Wanted:
        """The same without a system prompt, which then goes in front of the conversation."""
        return replace(self, system="")


def configuration(wanted: Wanted, owner: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of one session, with the owner's changes merged in."""
    without = {"disabled_tools": ["*"], "tools": NEVER}
    hands = {"enabled_tools": list(_ASKING)} if wanted.tools else without
    config = _merged({**_LEAN, **hands}, owner)
    model = config["active_model"] = wanted.model
    limits: dict[str, Any] = {}
    if wanted.max_tokens is not None:
        limits["max_output_tokens"] = wanted.max_tokens
    if wanted.effort is not None:
        limits["thinking"] = _THINKING[wanted.effort]
    models = [dict(entry) for entry in config.get("models") or ()]
    entry = next((m for m in models if m.get("alias", m.get("name")) == model), None)
    if entry is None and (limits or model not in BUILT_IN_NAMES):
        entry = {"name": BUILT_IN_NAMES.get(model, model), "provider": "mistral", "alias": model}
        models.append(entry)
    if entry is not None:
        # Without this setting an image is silently replaced by a placeholder.
        entry.setdefault("supports_images", True)
        entry.update(limits)
    return config | ({"models": models} if models else {})


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in over.items():
        inner = out.get(key)
        nested = isinstance(inner, Mapping) and isinstance(value, Mapping)
        out[key] = _merged(inner, value) if nested else value  # type: ignore[arg-type]
    return out
