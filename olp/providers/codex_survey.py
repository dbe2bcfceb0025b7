"""What Codex tells of itself without a request to the vendor's models.

Its app-server answers `model/list` without a login, and `account/rateLimits/read` with one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from olp.events import Done, Event, Failed, Listed, Quota, Trouble, Window
from olp.providers.base import CloseInput, Exit, Step, Write, parse_line

_INITIALIZE, _MODELS, _LIMITS = 1, 2, 3

_BY_MINUTES = {300: "five_hour", 10080: "seven_day"}
"""Windows are told by their length, not by their slot: some plans have only the weekly one."""


def _line(**message: Any) -> Write:
    return Write(json.dumps(message).encode() + b"\n")


class SurveyDriver:
    """The protocol of one survey."""

    def __init__(self, version: str) -> None:
        self._version = version
        self._waiting = {_MODELS, _LIMITS}

    def start(self) -> Sequence[Step]:
        client = {"name": "olp", "title": "OLP", "version": self._version}
        capabilities = {"experimentalApi": True}
        params = {"clientInfo": client, "capabilities": capabilities}
        return [_line(id=_INITIALIZE, method="initialize", params=params)]

    def receive(self, line: str) -> Sequence[Step]:
        message = parse_line(line)
        number = message.get("id")
        if number == _INITIALIZE:
            return [
                _line(method="initialized"),
                _line(id=_MODELS, method="model/list", params={}),
                _line(id=_LIMITS, method="account/rateLimits/read"),
            ]
        if number not in self._waiting or "method" in message:
            return []
        self._waiting.discard(number)
        result = message.get("result") or {}
        events: list[Step] = []
        if number == _MODELS and (models := _models(result)):
            events.append(Listed(models))
        if number == _LIMITS and (windows := windows_of(result.get("rateLimits") or {})):
            events.append(Quota(windows))
        return events if self._waiting else [*events, CloseInput(), Done()]

    def exited(self, exit: Exit) -> Sequence[Event]:
        return [Failed(Trouble.SPAWN_FAILED, exit.told("codex"))]


def _models(result: Mapping[str, Any]) -> tuple[str, ...]:
    entries = [entry for entry in result.get("data") or () if isinstance(entry, dict)]
    entries.sort(key=lambda entry: not entry.get("isDefault"))
    names = [str(entry.get("id") or entry.get("model") or "") for entry in entries]
    return tuple(dict.fromkeys(name for name in names if name))


def windows_of(limits: Mapping[str, Any]) -> tuple[Window, ...]:
    """The windows of a rate limit snapshot, as `account/rateLimits/read` has it."""
    found = []
    for slot in ("primary", "secondary"):
        window = limits.get(slot) or {}
        if isinstance(window.get("usedPercent"), int | float):
            minutes = window.get("windowDurationMins")
            name = _BY_MINUTES.get(minutes or 0, f"{minutes}_minutes")
            found.append(Window(name, float(window["usedPercent"]), window.get("resetsAt")))
    own = limits.get("individualLimit") or {}
    if isinstance(own.get("remainingPercent"), int | float):
        found.append(Window("credits", 100.0 - own["remainingPercent"], own.get("resetsAt")))
    return tuple(found)
