"""Query Codex without a request to the vendor's models.

It prints its built-in model list, from which the list for later launches is made, without the tools
that some models require. Its app-server reports the remaining quota of the plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from olp.events import Done, ErrorCode, Event, Failed, Keep, Listed, Quota, Window
from olp.providers.base import CloseInput, Exit, Step, json_line
from olp.providers.shared.wire import count, moment, number, parse_line, rows, table, text

_INITIALIZE, _LIMITS = 1, 2

CATALOGUE = "models.json"

_TOOLLESS: Mapping[str, Any] = {
    "tool_mode": None,
    "multi_agent_version": None,
    "experimental_supported_tools": [],
    "apply_patch_tool_type": None,
    "shell_type": "disabled",
    "supports_search_tool": False,
}
"""Fields of a model's entry that disable all its tools."""

_WHOLE: Mapping[str, Any] = {"context_window": 100_000_000, "max_context_window": 100_000_000}
"""With the models' real sizes the CLI would silently compact a long conversation, at the cost of a
request. Whether a conversation is too long is left to the vendor.
"""

_BY_MINUTES = {300: "five_hour", 10080: "seven_day"}
"""Windows are identified by length, not by slot: some plans only have the weekly one."""


class CatalogueDriver:
    """The protocol of `codex debug models --bundled`: one JSON document, then the exit."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def start(self) -> Sequence[Step]:
        return [CloseInput()]

    def receive(self, line: str) -> Sequence[Step]:
        self._lines.append(line)
        return []

    def exited(self, exit: Exit) -> Sequence[Event]:
        listed = parse_line("\n".join(self._lines)).get("models")
        if exit.code != 0 or not isinstance(listed, list):
            return [Failed(ErrorCode.SPAWN_FAILED, exit.told("codex"))]
        models = rows(listed)
        toolless = [{**model, **_TOOLLESS, **_WHOLE} for model in models]
        shown = [model for model in models if model.get("visibility") == "list"]
        shown.sort(key=lambda model: number(model.get("priority")) or 0.0)
        names = tuple(filter(None, (text(model.get("slug")) for model in shown)))
        try:
            data = json.dumps({"models": toolless}, allow_nan=False).encode()
        except ValueError:
            return [
                Failed(ErrorCode.SPAWN_FAILED, "codex's catalogue has numbers that are not JSON")
            ]
        return [Listed(names, _contexts(models)), Keep(CATALOGUE, data), Done()]


def _contexts(models: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, int], ...]:
    """The context window of each listed model, in tokens, as the vendor allows it; the size to
    which the CLI would compact is often smaller.
    """
    reads = (
        (text(m.get("slug")), count(m.get("max_context_window")) or count(m.get("context_window")))
        for m in models
    )
    return tuple((name, tokens) for name, tokens in reads if name and tokens)


class LimitsDriver:
    """The protocol of querying the app-server for the remaining quota."""

    def __init__(self, version: str) -> None:
        self._version = version

    def start(self) -> Sequence[Step]:
        client = {"name": "olp", "title": "OLP", "version": self._version}
        capabilities = {"experimentalApi": True}
        params = {"clientInfo": client, "capabilities": capabilities}
        return [json_line({"id": _INITIALIZE, "method": "initialize", "params": params})]

    def receive(self, line: str) -> Sequence[Step]:
        message = parse_line(line)
        match message.get("id"):
            case 1 if "method" not in message:
                return [
                    json_line({"method": "initialized"}),
                    json_line({"id": _LIMITS, "method": "account/rateLimits/read"}),
                ]
            case 2 if "method" not in message:
                # Without a ChatGPT login there are no limits to report; that is not a failure.
                windows = windows_of(table(table(message.get("result")).get("rateLimits")))
                return [*([Quota(windows)] if windows else []), CloseInput(), Done()]
            case _:
                return []

    def exited(self, exit: Exit) -> Sequence[Event]:
        return [Failed(ErrorCode.SPAWN_FAILED, exit.told("codex"))]


def windows_of(limits: Mapping[str, Any]) -> tuple[Window, ...]:
    """The windows of a rate limit snapshot, as in `account/rateLimits/read`."""
    found = []
    for slot in ("primary", "secondary"):
        window = table(limits.get(slot))
        used, minutes = number(window.get("usedPercent")), count(window.get("windowDurationMins"))
        if used is not None and used >= 0:
            name = _BY_MINUTES.get(minutes, f"{minutes}_minutes")
            found.append(Window(name, used, moment(window.get("resetsAt"))))
    own = table(limits.get("individualLimit"))
    left = number(own.get("remainingPercent"))
    if left is not None and left <= 100:
        found.append(Window("credits", 100.0 - left, moment(own.get("resetsAt"))))
    return tuple(found)
