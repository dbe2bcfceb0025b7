"""A line of many MB is read as fast as it can be parsed: nothing searches all of it."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

import pytest

from olp.config import ProviderConfig
from olp.events import Failed
from olp.model import Message, Request, Role
from olp.providers import all_providers
from olp.providers.base import Exit, ProviderContext

BIG = "x " * 5_000_000
SYNTHETIC = {"model": "<synthetic>", "content": [{"type": "text", "text": BIG}]}

LINES: list[tuple[str, dict[str, Any]]] = [
    ("claude", {"type": "result", "is_error": True, "api_error_status": 400, "result": BIG}),
    ("claude", {"type": "result", "is_error": True, "result": f"API Error: 400 {BIG}"}),
    ("claude", {"type": "result", "is_error": False, "result": BIG}),
    ("claude", {"type": "assistant", "message": SYNTHETIC, "error": "unknown"}),
    ("codex", {"type": "turn.failed", "error": {"message": f"unexpected status 403 {BIG}"}}),
    ("codex", {"type": "error", "message": BIG}),
]


@pytest.mark.parametrize(("provider", "line"), LINES)
def test_M5_a_line_of_ten_megabytes_holds_nobody_up(provider: str, line: dict[str, Any]) -> None:
    cli = all_providers()[provider]
    context = ProviderContext(
        (provider,), ProviderConfig(), {}, "/home/anna", "/home/anna/own", work="/w"
    )
    request = Request("auto", (Message(Role.USER, "hi"),))
    now = datetime(2026, 11, 30, 21, 2).astimezone()
    _, driver = cli.launch(request, cli.info.models[0], context, now)
    driver.start()
    text = json.dumps(line)
    began = time.process_time()
    events = [*driver.receive(text), *driver.exited(Exit(1, "", {}))]
    assert time.process_time() - began < 0.5
    assert any(isinstance(event, Failed) for event in events) or line.get("is_error") is False
