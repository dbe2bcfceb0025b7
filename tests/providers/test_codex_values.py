"""No value that Codex may print, of whatever type and size, is trusted: what comes out is well
typed and finite, or does not come out."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from olp.events import (
    CallArguments,
    CallStarted,
    ErrorCode,
    Event,
    Failed,
    Keep,
    Listed,
    Quota,
    Usage,
)
from olp.model import JsonFormat, Request, Tool
from olp.providers.base import Exit, Halt, Ready, Step
from olp.providers.codex.answer import Driver
from olp.providers.codex.items import strict_schema, tools_of
from olp.providers.codex.survey import CatalogueDriver, LimitsDriver
from olp.providers.shared.tool_names import Names
from olp.providers.shared.tool_schemas import ANYTHING
from tests.providers.replay import NOW, Recording, names

from .test_sessions import codex_turn, new_codex, request, written

BAD = (
    *("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "9" * 400, "-5", "0.5", '"7"', '"soon"'),
    *("true", "null", "[]", "{}", "[[[]]]", '{"a": {"b": 5}}', "1e300", '"\\ud83d"', '""'),
)
"""Values, as JSON."""


def sound(value: Any) -> bool:
    """Whether an event is of the types that its class names, with numbers that exist."""
    if isinstance(value, bool) or value is None or isinstance(value, str | bytes):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < 10**15
    if isinstance(value, tuple):
        return all(map(sound, value))
    assert is_dataclass(value), value
    return all(sound(getattr(value, field.name)) for field in fields(value))


def typed(steps: Sequence[Step]) -> bool:
    events = [step for step in steps if isinstance(step, Event)]
    counts = [e for e in events if isinstance(e, Usage)]
    whole = all(
        type(n) is int and n >= 0
        for e in counts
        for n in (e.input, e.output, e.cached, e.reasoning)
    )
    windows = [window for e in events if isinstance(e, Quota) for window in e.windows]
    used = all(type(window.used) is float and window.used >= 0 for window in windows)
    texts = all(isinstance(e.text, str) for e in events if hasattr(e, "text"))
    return whole and used and texts and all(map(sound, events))


def spoilt(line: str) -> list[str]:
    """The line with each of its fields, at any depth, once of each bad value."""
    found = json.loads(line)
    mark = "\x00spoilt\x00"

    def marked(value: Any) -> list[Any]:
        out: list[Any] = [mark]
        if isinstance(value, dict):
            out += [value | {key: one} for key, inner in value.items() for one in marked(inner)]
        if isinstance(value, list):
            out += [[one, *value[1:]] for inner in value[:1] for one in marked(inner)]
        return out

    quoted = json.dumps(mark)
    return [json.dumps(one).replace(quoted, bad) for one in marked(found)[1:] for bad in BAD]


@pytest.mark.parametrize("name", names("codex"))
def test_S10_exec_of_any_value(name: str) -> None:
    recording = Recording.load("codex", name)
    for number, line in enumerate(recording.lines):
        for bad in spoilt(line):
            driver = Driver("hi", now=NOW)
            steps = [*driver.start()]
            for before in recording.lines[:number]:
                steps += driver.receive(before)
            steps += driver.receive(bad)
            steps += driver.exited(recording.exit)
            assert typed(steps), bad


def _line(method: str, **params: Any) -> str:
    return json.dumps({"method": method, "params": {"threadId": "T", "turnId": "U", **params}})


_WINDOW = {"usedPercent": 42, "windowDurationMins": 300, "resetsAt": 1796078358}
_LIMITS = {
    "primary": _WINDOW,
    "secondary": _WINDOW | {"windowDurationMins": 10080},
    "individualLimit": {"remainingPercent": 40, "resetsAt": 1796078358},
}
_COUNTS = {
    "inputTokens": 5,
    "outputTokens": 3,
    "cachedInputTokens": 1,
    "cacheWriteInputTokens": 1,
    "reasoningOutputTokens": 1,
}
_CALL = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
_ERROR = {"message": "m", "codexErrorInfo": {"httpConnectionFailed": {"httpStatusCode": 500}}}
_TURN = {"id": "U", "status": "failed", "error": _ERROR}
_MESSAGE = {"type": "agentMessage", "id": "i", "phase": "commentary", "text": "x"}

LINES = (
    _line("item/started", item=_MESSAGE),
    _line("item/completed", item=_MESSAGE),
    _line("item/agentMessage/delta", itemId="i", delta="x"),
    _line("item/reasoning/summaryTextDelta", itemId="i", delta="x"),
    _line("turn/started", turn={"id": "U"}),
    _line("rawResponseItem/completed", item=_CALL),
    _line("rawResponse/completed", usage=_COUNTS),
    _line("thread/tokenUsage/updated", tokenUsage={"last": _COUNTS}),
    _line("account/rateLimits/updated", rateLimits=_LIMITS),
    _line("model/rerouted", toModel="m"),
    _line("warning", message="Falling back from WebSockets"),
    _line("error", error=_ERROR | {"additionalDetails": "x"}, willRetry=True),
    _line("turn/completed", turn=_TURN),
    json.dumps({"id": 7, "method": "item/tool/call", "params": {"callId": "c", "tool": "t"}}),
    json.dumps({"id": 3, "result": {"turn": {"id": "U"}}}),
    json.dumps({"id": 3, "error": {"code": -32600, "message": "m"}}),
)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[:45])
def test_S10_the_app_server_of_any_value(line: str) -> None:
    for bad in (line, *spoilt(line)):
        session = new_codex()
        codex_turn(session, request("hi"))
        steps = [*session.receive(bad), *session.receive(LINES[2]), *session.receive(LINES[-4])]
        assert typed(steps), bad
        assert all(isinstance(step, Event | Halt | Ready) or step for step in steps)


def test_S10_the_app_server_before_it_is_asked_anything() -> None:
    for line in LINES:
        session = new_codex()
        assert typed([*session.receive(line)]), line


def test_E2_the_limits_of_any_value() -> None:
    good = json.dumps({"id": 2, "result": {"rateLimits": _LIMITS}})
    (quota, *_) = LimitsDriver("1").receive(good)
    assert isinstance(quota, Quota)
    assert [(w.name, w.used) for w in quota.windows] == [
        ("five_hour", 42.0),
        ("seven_day", 42.0),
        ("credits", 60.0),
    ]
    for bad in spoilt(good):
        assert typed(LimitsDriver("1").receive(bad)), bad


MODELS = {
    "models": [
        {"slug": "b", "visibility": "list", "priority": 2, "context_window": 5},
        {"slug": "a", "visibility": "list", "priority": 1, "max_context_window": 9},
    ]
}


def _listed(text: str) -> list[Event]:
    driver = CatalogueDriver()
    for line in text.splitlines():
        driver.receive(line)
    return list(driver.exited(Exit(0)))


def test_N3_the_catalogue_of_any_value() -> None:
    (listed, *_) = _listed(json.dumps(MODELS))
    assert listed == Listed(("a", "b"), (("b", 5), ("a", 9)))
    for bad in spoilt(json.dumps(MODELS)):
        try:
            events = _listed(bad)
        except ValueError:
            continue  # a number that is none: the worker makes a failure of it
        kept = [event for event in events if isinstance(event, Keep)]
        assert all(json.loads(one.data, parse_constant=pytest.fail) for one in kept)
        assert typed([e for e in events if not isinstance(e, Keep)]), bad


# --- what a client or a model writes -------------------------------------------------------------


def test_I7_half_a_surrogate_pair_is_told_as_what_cannot_be_read() -> None:
    """The CLI passes over a line that has one."""
    session = new_codex()
    lines = codex_turn(session, request("a\ud83db", system="\udc00"))
    assert lines[0]["params"]["baseInstructions"] == "\ufffd"
    assert lines[-1]["params"]["input"][0]["text"] == "a\ufffdb"
    again = codex_turn(session, request("whole \U0001f44b and \\ud83d as text"))
    assert again[-1]["params"]["input"][0]["text"] == "whole \U0001f44b and \\ud83d as text"


@pytest.mark.parametrize(
    ("code", "words", "trouble"),
    [
        (-32600, "Invalid request: invalid type: integer", ErrorCode.INCAPABLE),
        (-32602, "invalid params", ErrorCode.INCAPABLE),
        (-32603, "internal", ErrorCode.SPAWN_FAILED),
        (-32001, "Server overloaded; retry later.", ErrorCode.OVERLOADED),
        ("x", "no", ErrorCode.SPAWN_FAILED),
    ],
)
def test_N4_what_the_cli_cannot_read_of_a_request_is_for_another_hop(
    code: object, words: str, trouble: ErrorCode
) -> None:
    session = new_codex()
    (start,) = written(session.ask(request("hi"), "gpt-5.5", NOW))
    error = {"code": code, "message": words}
    (failed,) = session.receive(json.dumps({"id": start["id"], "error": error}))
    assert isinstance(failed, Failed) and failed.code is trouble


def test_N2_a_schema_that_the_cli_cannot_read_is_told_in_words() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(2000):
        deep = {"type": "object", "properties": {"x": deep}}
    huge = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 10**30}}}
    (told,) = tools_of((Tool("f", "d", huge),), Names())["dynamicTools"]
    assert told["inputSchema"] == ANYTHING and str(10**30) in told["description"]
    asked = Request("m", (), format=JsonFormat(huge | {"additionalProperties": False}))
    assert strict_schema(asked) is None
    assert strict_schema(Request("m", (), format=JsonFormat(deep))) is None


@pytest.mark.parametrize(
    ("arguments", "fine"),
    [
        ('{"a": 1}', True),
        ("[1]", True),
        ('{"a": 1e400}', False),
        ('{"a":' * 90 + "1" + "}" * 90, True),
        ('{"a":' * 130 + "1" + "}" * 130, False),
        ('{"a":' * 5000 + "1" + "}" * 5000, False),
        ('{"a": NaN}', False),
        ('{"a": "\\ud83d"}', False),
        (f'{{"a": {10**30}}}', False),
        ("{not json", False),
    ],
    ids=lambda value: str(value)[:30],
)
def test_Q6_a_call_that_the_cli_cannot_read_is_told_and_the_process_ended(
    arguments: str, fine: bool
) -> None:
    """It would answer the model itself, and ask the vendor again."""
    session = new_codex()
    asked = replace(request("go"), tools=(Tool("look", "Looks.", {"type": "object"}),))
    codex_turn(session, asked)
    item = {"type": "function_call", "call_id": "c", "name": "look", "arguments": arguments}
    steps = session.receive(_line("rawResponseItem/completed", item=item))
    assert steps[:2] == [CallStarted(0, "c", "look"), CallArguments(0, arguments)]
    assert (Halt() in steps) is not fine
