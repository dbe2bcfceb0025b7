"""What Claude Code tells of itself without a request to the vendor's models.

Its control protocol answers `initialize` with the models it can ask for, and `get_usage` with what
is left of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from olp.events import Done, Event, Failed, Listed, Quota, Trouble, Window
from olp.providers.base import CloseInput, Exit, Step, Write, json_line
from olp.providers.wire import parse_line

FLAGS = (
    *("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
    *("--tools", "", "--setting-sources=", "--strict-mcp-config", "--disable-slash-commands"),
    *("--no-session-persistence", "--permission-mode", "dontAsk"),
)

_INITIALIZE, _USAGE = "olp-initialize", "olp-usage"


def control(request_id: str, **request: Any) -> Write:
    """One control request."""
    return json_line({"type": "control_request", "request_id": request_id, "request": request})


class SurveyDriver:
    """The protocol of one survey."""

    def __init__(self) -> None:
        self._waiting = {_INITIALIZE, _USAGE}

    def start(self) -> Sequence[Step]:
        return [
            control(_INITIALIZE, subtype="initialize"),
            control(_USAGE, subtype="get_usage", skip_behaviors=True),
        ]

    def receive(self, line: str) -> Sequence[Step]:
        message = parse_line(line)
        if message.get("type") != "control_response":
            return []
        response = message.get("response") or {}
        told = response.get("response") or {}
        request_id = response.get("request_id")
        self._waiting.discard(request_id)
        events: list[Step] = []
        if request_id == _INITIALIZE and (models := _models(told)):
            events.append(Listed(models))
        if request_id == _USAGE and (windows := _windows(told)):
            events.append(Quota(windows))
        return events if self._waiting else [*events, CloseInput(), Done()]

    def exited(self, exit: Exit) -> Sequence[Event]:
        return [Failed(Trouble.SPAWN_FAILED, exit.told("claude"))]


def _models(told: Mapping[str, Any]) -> tuple[str, ...]:
    """Names as `--model` takes them; the one called `default` is whichever the login may use."""
    names = [str(model.get("value") or "") for model in told.get("models") or ()]
    resolved = [str(model.get("resolvedModel") or "") for model in told.get("models") or ()]
    known = [name for name in (*names, *resolved) if name and name != "default"]
    return tuple(dict.fromkeys(known))


def _windows(told: Mapping[str, Any]) -> tuple[Window, ...]:
    limits = told.get("rate_limits") or {}
    found = [
        Window(name, float(window["utilization"]), _epoch(window.get("resets_at")))
        for name, window in limits.items()
        if name != "extra_usage" and isinstance(window, dict) and _number(window, "utilization")
    ]
    extra = limits.get("extra_usage") or {}
    if _number(extra, "utilization"):
        found.append(Window("credits", float(extra["utilization"]), None))
    for limit in limits.get("limits") or ():
        model = ((limit.get("scope") or {}).get("model") or {}).get("display_name")
        if model and _number(limit, "percent"):
            resets = _epoch(limit.get("resets_at"))
            found.append(Window(str(limit.get("kind")), float(limit["percent"]), resets, model))
    return tuple(found)


def _number(table: Mapping[str, Any], key: str) -> bool:
    return isinstance(table.get(key), int | float)


def _epoch(text: object) -> float | None:
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
