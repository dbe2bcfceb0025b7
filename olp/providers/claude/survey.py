"""Query Claude Code without a request to the vendor's models.

Its control protocol answers `initialize` with the available models, and `get_usage` with the
remaining quota of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from olp.events import Done, ErrorCode, Event, Failed, Listed, Quota, Window
from olp.providers.base import CloseInput, Exit, Step, Write, json_line
from olp.providers.shared.wire import moment, number, parse_line, rows, table, text

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
        self._pending = {_INITIALIZE, _USAGE}

    def start(self) -> Sequence[Step]:
        return [
            control(_INITIALIZE, subtype="initialize"),
            control(_USAGE, subtype="get_usage", skip_behaviors=True),
        ]

    def receive(self, line: str) -> Sequence[Step]:
        message = parse_line(line)
        if message.get("type") != "control_response":
            return []
        response = table(message.get("response"))
        body = table(response.get("response"))
        request_id = text(response.get("request_id")) or ""
        self._pending.discard(request_id)
        events: list[Step] = []
        if request_id == _INITIALIZE and (models := _models(body)):
            events.append(Listed(models))
        if request_id == _USAGE and (windows := _windows(body)):
            events.append(Quota(windows))
        return events if self._pending else [*events, CloseInput(), Done()]

    def exited(self, exit: Exit) -> Sequence[Event]:
        return [Failed(ErrorCode.SPAWN_FAILED, exit.told("claude"))]


def _models(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Model names as `--model` takes them, without the alias `default`."""
    models = rows(body.get("models"))
    named = [text(model.get(key)) for key in ("value", "resolvedModel") for model in models]
    return tuple(dict.fromkeys(name for name in named if name and name != "default"))


def _windows(body: Mapping[str, Any]) -> tuple[Window, ...]:
    limits = table(body.get("rate_limits"))
    found = [
        _window("credits" if name == "extra_usage" else name, limit, limit.get("utilization"))
        for name, limit in limits.items()
        if isinstance(limit, dict)
    ]
    for limit in rows(limits.get("limits")):
        model = text(table(table(limit.get("scope")).get("model")).get("display_name"))
        if model:
            found.append(_window(str(limit.get("kind")), limit, limit.get("percent"), model))
    return tuple(window for window in found if window is not None)


def _window(
    name: str, limit: Mapping[str, Any], used: object, model: str | None = None
) -> Window | None:
    share = number(used)
    if share is None or share < 0:
        return None
    return Window(name, share, _epoch(limit.get("resets_at")), model)


def _epoch(value: object) -> float | None:
    try:
        return moment(datetime.fromisoformat(text(value) or "").timestamp())
    except (ValueError, OverflowError, OSError):
        return None
