"""The client's tools in the protocols of the waiting CLIs, as dialogues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from olp.events import CallArguments, CallStarted, Done, Failed, Finish, Text, Usage
from olp.model import Media, Message, Request, Role, Tool, ToolCall
from olp.providers.base import Halt, Step
from olp.providers.claude.session import ClaudeSession
from olp.providers.codex.session import CodexSession

from .test_sessions import NOW, asked_claude, new_claude, result, tell, written

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOLS = (Tool("look", "Looks.", SCHEMA), Tool("Bash", "Runs.", SCHEMA))
USER = Message(Role.USER, "go")
CALLS = (ToolCall("t1", "look", '{"a": 1}'), ToolCall("t2", "Bash", "{}"))
SPOKE = Message(Role.ASSISTANT, "", CALLS)


def asking(*turns: Message, **resume: Any) -> Request:
    return Request("m", (USER, *turns), tools=TOOLS, **resume)


def results(*ids: str, text: str = "r") -> tuple[Message, ...]:
    return tuple(Message(Role.TOOL, f"{text} {id}", answers=id) for id in ids)


def events(steps: Sequence[Step]) -> list[Step]:
    """What happened, and whether the process is to be ended."""
    kinds = (CallStarted, CallArguments, Done, Failed, Text, Usage, Halt)
    return [step for step in steps if isinstance(step, kinds)]


# --- claude --------------------------------------------------------------------------------------


def stream(**event: Any) -> dict[str, Any]:
    return {"type": "stream_event", "event": event}


def tool_use(session: ClaudeSession, id: str, name: str, *pieces: str) -> list[Step]:
    block = {"type": "tool_use", "id": id, "name": name, "input": {}}
    out = [*tell(session, **stream(type="content_block_start", content_block=block))]
    for piece in pieces:
        delta = {"type": "input_json_delta", "partial_json": piece}
        out += tell(session, **stream(type="content_block_delta", delta=delta))
    return events([*out, *tell(session, **stream(type="content_block_stop"))])


def stopped(session: ClaudeSession, reason: str = "tool_use") -> Sequence[Step]:
    delta = {"stop_reason": reason}
    return tell(session, **stream(type="message_delta", delta=delta, usage={"output_tokens": 7}))


def mcp(session: ClaudeSession, number: int, method: str, **params: Any) -> list[Any]:
    """What is answered to one MCP request."""
    inner = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    request = {"subtype": "mcp_message", "server_name": "client", "message": inner}
    steps = tell(session, type="control_request", request_id=f"c{number}", request=request)
    return [line["response"]["response"]["mcp_response"]["result"] for line in written(steps)]


def mcp_call(session: ClaudeSession, number: int, name: str, id: str) -> list[Any]:
    meta = {"claudecode/toolUseId": id}
    return mcp(session, number, "tools/call", name=name, arguments={}, _meta=meta)


def test_claude_is_offered_the_tools_as_they_are() -> None:
    session = new_claude()
    (initialize, *_) = written(session.ask(asking(), "sonnet", NOW))
    assert initialize["request"]["sdkMcpServers"] == ["client"]
    (told,) = mcp(session, 1, "initialize", protocolVersion="2025-11-25")
    assert told["protocolVersion"] == "2025-11-25" and told["capabilities"] == {"tools": {}}
    assert mcp(session, 2, "notifications/initialized") == [{}]
    (listed,) = mcp(session, 3, "tools/list")
    found = [(t["name"], t["description"], t["inputSchema"]) for t in listed["tools"]]
    assert found == [("look", "Looks.", SCHEMA), ("Bash", "Runs.", SCHEMA)]


def test_claude_calls_and_goes_on_with_the_results() -> None:
    session = new_claude()
    session.ask(asking(), "sonnet", NOW)
    init = {"tools": ["mcp__client__look", "mcp__client__Bash"]}
    servers = [{"name": "client", "status": "connected"}]
    assert tell(session, type="system", subtype="init", mcp_servers=servers, **init) == []
    assert tool_use(session, "t1", "mcp__client__look", '{"a":', " 1}") == [
        CallStarted(0, "t1", "look"),
        CallArguments(0, '{"a":'),
        CallArguments(0, " 1}"),
    ]
    assert tool_use(session, "t2", "mcp__client__Bash") == [
        CallStarted(1, "t2", "Bash"),
        CallArguments(1, "{}"),
    ]
    assert not session.parked
    assert list(stopped(session))[-1] == Done(Finish.TOOL_CALLS)
    assert session.parked
    assert mcp_call(session, 5, "look", "t1") == [], "held until there is a result"

    given = asking(SPOKE, *results("t1", "t2"))
    assert session.can_resume(given)
    (answered,) = written(session.resume(given, NOW))
    inner = answered["response"]["response"]["mcp_response"]
    assert inner == {"jsonrpc": "2.0", "id": 5, "result": {"content": [_text("r t1")]}}
    assert not session.parked
    assert mcp_call(session, 6, "Bash", "t2") == [{"content": [_text("r t2")]}], "came late"
    usage = {"input_tokens": 40, "output_tokens": 1}
    tell(session, **stream(type="message_start", message={"model": "s", "usage": usage}))
    tell(session, **stream(type="message_delta", delta={}, usage={"output_tokens": 9}))
    end = events(tell(session, **result(turns=2, result="done")))
    assert end[-1] == Done() and end[-2] == Usage(40, 9), "the second leg's own tokens"


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def test_claude_is_told_of_a_call_that_got_no_result() -> None:
    session = new_claude()
    session.ask(asking(parallel_calls=False), "sonnet", NOW)
    assert len(tool_use(session, "t1", "mcp__client__look", "{}")) == 2
    assert tool_use(session, "t2", "mcp__client__Bash", "{}") == [], "one at a time"
    stopped(session)
    mcp_call(session, 5, "look", "t1")
    mcp_call(session, 6, "Bash", "t2")
    lines = written(session.resume(asking(SPOKE, *results("t1")), NOW))
    told = [line["response"]["response"]["mcp_response"]["result"] for line in lines]
    assert [one.get("isError") for one in told] == [None, True]


@pytest.mark.parametrize(
    "latest",
    [
        (*results("t1", "t2"), Message(Role.USER, "and")),
        (Message(Role.USER, "never mind"),),
        results("t1", text="x" * 500_000),
        (Message(Role.TOOL, ("see", Media("image/png", "AA")), answers="t1"),),
    ],
    ids=["more than results", "no results", "too long", "an image"],
)
def test_claude_begins_anew_with_what_cannot_be_handed_over(latest: tuple[Message, ...]) -> None:
    session = new_claude()
    session.ask(asking(), "sonnet", NOW)
    tool_use(session, "t1", "mcp__client__look", "{}")
    stopped(session)
    assert not session.can_resume(asking(SPOKE, *latest))


@pytest.mark.parametrize(
    "line",
    [
        stream(type="message_start", message={}),
        {"type": "result", "subtype": "success"},
        {"type": "system", "subtype": "api_retry", "error": "overloaded"},
    ],
    ids=["asks again", "ends", "retries"],
)
def test_claude_may_not_go_on_by_itself(line: dict[str, Any]) -> None:
    session = new_claude()
    session.ask(asking(), "sonnet", NOW)
    tool_use(session, "t1", "mcp__client__look", "{}")
    stopped(session)
    assert tell(session, **stream(type="message_stop")) == []
    assert isinstance(tell(session, **line)[0], Failed)


def test_A9_claude_may_not_answer_a_call_by_itself_and_ask_again() -> None:
    session = new_claude()
    session.ask(asking(), "sonnet", NOW)
    told = tool_use(session, "t1", "mcp__client__look", '{"a": ]')
    assert told[-1] == CallArguments(0, '{"a": ]')
    assert list(stopped(session))[-2:] == [Done(Finish.TOOL_CALLS), Halt()]


def test_claude_may_not_call_what_the_client_did_not_offer() -> None:
    session = new_claude()
    session.ask(asking(), "sonnet", NOW)
    failed, halt = tool_use(session, "t1", "Bash", "{}")
    assert isinstance(failed, Failed) and "Bash" in failed.detail
    assert failed.by_model and halt == Halt()


@pytest.mark.parametrize("tools", [["Bash"], ["mcp__other__look"], ["mcp__client__other"]])
def test_claude_may_not_have_other_tools(tools: list[str]) -> None:
    session = new_claude()
    session.ask(asking(), "sonnet", NOW)
    (failed, *_) = tell(session, type="system", subtype="init", tools=tools, mcp_servers=[])
    assert isinstance(failed, Failed)


def test_claude_hears_of_earlier_calls_as_true_turns() -> None:
    session = new_claude()
    spoke = Message(Role.ASSISTANT, "Looking.", CALLS[:1])
    image = Message(Role.TOOL, ("see", Media("image/png", "AA")), answers="t1")
    lines = written(asked_claude(session, asking(spoke, image), "sonnet"))
    first = lines[-1]
    assert first["shouldQuery"] is False
    (assistant, last) = written(tell(session, **result(turns=0)))
    assert assistant["message"]["content"] == [
        _text("Looking."),
        {"type": "tool_use", "id": "t1", "name": "mcp__client__look", "input": {"a": 1}},
    ]
    (answer,) = last["message"]["content"]
    assert (answer["type"], answer["tool_use_id"]) == ("tool_result", "t1")
    source = {"type": "base64", "media_type": "image/png", "data": "AA"}
    assert answer["content"] == [_text("see"), {"type": "image", "source": source}]
    assert "shouldQuery" not in last


# --- codex ---------------------------------------------------------------------------------------


def new_codex(*turns: Message, **resume: Any) -> tuple[CodexSession, list[dict[str, Any]]]:
    """A session whose thread was begun; and what was written since."""
    session = CodexSession("1", "/empty")
    session.start()
    tell(session, id=1, result={})
    (start,) = written(session.ask(asking(*turns, **resume), "gpt", NOW))
    lines = written(tell(session, id=start["id"], result={"thread": {"id": "T"}}))
    assert raw(session, "old", "look", "{}", turn="auto-compact-0") == [], "a call of before"
    tell(session, method="turn/started", params={"threadId": "T", "turn": {"id": "U"}})
    return session, [start, *lines]


def raw(session: CodexSession, id: str, name: str, arguments: str, turn: str = "U") -> list[Step]:
    item = {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}
    params = {"threadId": "T", "turnId": turn, "item": item}
    return events(tell(session, method="rawResponseItem/completed", params=params))


def spoken(session: CodexSession) -> list[Step]:
    usage = {"inputTokens": 20, "outputTokens": 4}
    params = {"threadId": "T", "usage": usage}
    return events(tell(session, method="rawResponse/completed", params=params))


def codex_asks(session: CodexSession, number: int, id: str, tool: str) -> Sequence[Step]:
    params = {"threadId": "T", "callId": id, "tool": tool, "arguments": {}}
    return tell(session, id=number, method="item/tool/call", params=params)


def test_codex_is_offered_the_tools() -> None:
    _, (start, turn) = new_codex()
    tools = start["params"]["dynamicTools"]
    assert [(t["name"], t["inputSchema"]) for t in tools] == [("look", SCHEMA), ("Bash", SCHEMA)]
    assert turn["method"] == "turn/start"


@pytest.mark.parametrize("asks_first", [True, False])
def test_codex_calls_and_goes_on_with_the_results(asks_first: bool) -> None:
    session, _ = new_codex()
    assert raw(session, "t1", "look", '{"a":1}') == [
        CallStarted(0, "t1", "look"),
        CallArguments(0, '{"a":1}'),
    ]
    assert raw(session, "t2", "Bash", "{}")[0] == CallStarted(1, "t2", "Bash")
    if asks_first:
        assert not codex_asks(session, 0, "t1", "look")
    assert spoken(session) == [Usage(20, 4), Done(Finish.TOOL_CALLS)]
    assert session.parked
    given = asking(SPOKE, *results("t1", "t2"))
    assert session.can_resume(given)
    lines = written(session.resume(given, NOW))
    if not asks_first:
        lines += written(codex_asks(session, 0, "t1", "look"))
    (answer,) = lines
    items = [{"type": "inputText", "text": "r t1"}]
    assert answer == {"id": 0, "result": {"contentItems": items, "success": True}}
    (late,) = written(codex_asks(session, 1, "t2", "Bash"))
    assert late["id"] == 1 and not session.parked


def test_A9_codex_may_not_answer_a_call_by_itself_and_ask_again() -> None:
    session, _ = new_codex()
    failed, halt = raw(session, "t1", "nosuch", "{}")
    assert isinstance(failed, Failed) and failed.by_model and halt == Halt()
    session, _ = new_codex()
    told = raw(session, "t2", "look", "{broken")
    assert told[1:] == [CallArguments(0, "{broken"), Done(Finish.TOOL_CALLS), Halt()]
    session, _ = new_codex()
    assert raw(session, "t3", "look", '{"a": "lon')[1:] == [CallArguments(0, '{"a": "lon')]
    assert spoken(session)[-2:] == [Done(Finish.TOOL_CALLS), Halt()]


def test_a_call_that_the_vendors_limit_cut_is_told_as_cut() -> None:
    claude = new_claude()
    claude.ask(asking(), "sonnet", NOW)
    assert tool_use(claude, "t1", "mcp__client__look", '{"a": "lon')[-1] == CallArguments(
        0, '{"a": "lon'
    )
    assert list(stopped(claude, "max_tokens"))[-2:] == [Done(Finish.LENGTH), Halt()]
    codex, _ = new_codex()
    raw(codex, "t1", "look", '{"a": "lon')
    error = {"message": "Incomplete response returned, reason: max_output_tokens"}
    turn = {"id": "U", "status": "failed", "error": error}
    params = {"threadId": "T", "turn": turn}
    assert tell(codex, method="turn/completed", params=params) == [Done(Finish.LENGTH)]


def test_codex_keeps_to_one_call_at_a_time_in_every_turn() -> None:
    session, _ = new_codex(parallel_calls=False)
    done = {"threadId": "T", "turn": {"id": "U", "status": "completed"}}
    assert Done() in tell(session, method="turn/completed", params=done)
    session.resume(asking(Message(Role.ASSISTANT, "ok"), USER, parallel_calls=False), NOW)
    tell(session, method="turn/started", params={"threadId": "T", "turn": {"id": "V"}})
    assert len(raw(session, "t1", "look", "{}", turn="V")) == 2
    assert raw(session, "t2", "Bash", "{}", turn="V") == []


def test_codex_that_does_not_count_is_not_said_to_have_counted_nothing() -> None:
    session, _ = new_codex()
    raw(session, "t1", "look", "{}")
    params = {"threadId": "T", "usage": None}
    assert events(tell(session, method="rawResponse/completed", params=params)) == [
        Done(Finish.TOOL_CALLS)
    ]


def test_codex_without_raw_events_tells_of_one_call() -> None:
    session, _ = new_codex()
    out = events(codex_asks(session, 0, "t1", "look"))
    assert [type(event) for event in out] == [CallStarted, CallArguments, Done]
    assert session.parked


def test_codex_hears_of_earlier_calls_as_items_and_is_asked_nothing_more() -> None:
    _, (_, inject, turn) = new_codex(SPOKE, *results("t1", "t2"))
    kinds = [item["type"] for item in inject["params"]["items"]]
    assert kinds == ["message", *["function_call"] * 2, *["function_call_output"] * 2]
    assert inject["params"]["items"][1]["arguments"] == '{"a": 1}'
    assert turn["params"]["input"] == []


def test_codex_gets_images_and_what_is_too_long_to_start_with() -> None:
    session = CodexSession("1", "/empty")
    session.start()
    seen = Request("m", (Message(Role.USER, ("look", Media("image/png", "AA"))),))
    (start,) = written(session.ask(seen, "gpt", NOW))
    (turn,) = written(tell(session, id=start["id"], result={"thread": {"id": "T"}}))
    assert turn["params"]["input"][1] == {"type": "image", "url": "data:image/png;base64,AA"}
    long = Request("m", (Message(Role.USER, "x" * 1_100_000),))
    (_, start) = written(session.ask(long, "gpt", NOW))
    inject, turn = written(tell(session, id=start["id"], result={"thread": {"id": "U"}}))
    assert len(inject["params"]["items"][0]["content"][0]["text"]) == 1_100_000
    assert turn["params"]["input"] == []


def test_codex_may_not_shorten_a_conversation_by_itself() -> None:
    session, _ = new_codex()
    params = {"threadId": "T", "item": {"type": "contextCompaction"}}
    (failed,) = events(tell(session, method="item/started", params=params))
    assert isinstance(failed, Failed) and failed.code == "CONTEXT_TOO_LONG"
