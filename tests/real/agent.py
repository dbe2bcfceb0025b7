"""A client that has tools, for the tests of them: it keeps the conversation and runs nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .house import Answer, House
from .test_answers import MODELS, VENDOR
from .vendors.client import Vendors, tools, turns
from .vendors.reading import Offered, Simple
from .vendors.scenario import Recorded

TOOL_CLIS = ("claude", "codex")
PREFIX = {"claude": "mcp__client__", "codex": ""}
"""What stands before the client's names where the vendor sees them."""

CITY: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def function(
    name: str, schema: Mapping[str, Any] | None = CITY, description: str = ""
) -> dict[str, Any]:
    """A tool as a client offers it; without a schema it has no parameters."""
    more = {"description": description} if description else {}
    given = {"parameters": dict(schema)} if schema is not None else {}
    return {"type": "function", "function": {"name": name, **more, **given}}


WEATHER = function("weather", description="The weather in a city.")
STEP = function("step", {"type": "object", "properties": {"step": {"type": "integer"}}})


class Call(NamedTuple):
    """A call as the client got it; `arguments` is JSON as it was written."""

    id: str
    name: str
    arguments: str


def message_of(answer: Answer) -> dict[str, Any]:
    """The assistant's message, put together from the deltas if it was streamed, as clients do."""
    assert answer.status == 200, answer.body[:500]
    if not answer.events:
        return dict(answer.json["choices"][0]["message"])
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    made: dict[int, dict[str, Any]] = {}
    for delta in (c["delta"] for e in answer.events for c in e.get("choices", ())):
        for piece in delta.get("tool_calls", ()):
            if piece["index"] not in made:
                assert piece["type"] == "function" and piece["id"], piece
                assert piece["index"] == len(made), "calls come in their order"
                function = dict(piece["function"])
                made[piece["index"]] = {"id": piece["id"], "type": "function"}
                made[piece["index"]]["function"] = function
            else:
                assert "id" not in piece and "name" not in piece["function"], "told once"
                function = made[piece["index"]]["function"]
                function["arguments"] += piece["function"]["arguments"]
    return message | ({"tool_calls": list(made.values())} if made else {})


def calls_of(answer: Answer) -> list[Call]:
    """What the model wants called."""
    called = message_of(answer).get("tool_calls") or []
    return [Call(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in called]


def usage_of(answer: Answer) -> tuple[int, int]:
    """Tokens in and out, as the answer tells them."""
    told = answer.events[-1]["usage"] if answer.events else answer.json["usage"]
    return told["prompt_tokens"], told["completion_tokens"]


def conversation(answer: Answer) -> str:
    """Whether the process had the conversation: `live`, `replayed` or `new`."""
    return answer.headers["X-OLP-Conversation"]


def call_marker(name: str, arguments: Mapping[str, Any]) -> str:
    """The order to call one tool."""
    return f"[[CALL:{name}:{json.dumps(arguments)}]]"


def calls_marker(*calls: Mapping[str, Any]) -> str:
    """The order to call several: each with `name`, and `args` and `id` if it is to have such."""
    return f"[[CALLS:{json.dumps(calls)}]]"


@dataclass
class Agent:
    """One conversation with a house. `more` are parameters of every request of it."""

    house: House
    cli: str
    tools: Sequence[Mapping[str, Any]] = (WEATHER,)
    more: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    key: Mapping[str, str] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)

    def say(self, content: Any, **more: Any) -> Answer:
        """The user says something."""
        return self.ask({"role": "user", "content": content}, **more)

    def give(self, *results: Any, **more: Any) -> Answer:
        """The results of the last calls, in their order."""
        called = self.messages[-1]["tool_calls"]
        given = zip([call["id"] for call in called], results, strict=True)
        return self.give_to(dict(given), **more)

    def give_to(self, results: Mapping[str, Any], **more: Any) -> Answer:
        """Results by the ids of their calls, in the order in which they stand here."""
        given = [{"role": "tool", "tool_call_id": i, "content": r} for i, r in results.items()]
        return self.ask(*given, **more)

    def ask(self, *messages: Mapping[str, Any], **more: Any) -> Answer:
        """The conversation with `messages` at its end; what is answered becomes part of it."""
        self.messages += map(dict, messages)
        body = {"model": self.model or MODELS[self.cli], "messages": self.messages, **self.more}
        if self.tools:
            body["tools"] = list(self.tools)
        body |= more
        if body.get("stream"):
            body["stream_options"] = {"include_usage": True}
        answer = self.house.post(body, headers=self.key)
        if answer.status == 200:
            self.messages.append(message_of(answer))
        return answer


# --- what the vendor got -----------------------------------------------------------------------


def asked(vendors: Vendors, cli: str) -> list[Recorded]:
    """The requests for an answer that the vendor of `cli` got."""
    return [r for r in vendors.requests(VENDOR[cli]) if r.method == "POST"]


def last_turns(vendors: Vendors, cli: str) -> list[Simple]:
    """The conversation as the vendor got it last."""
    return turns(asked(vendors, cli)[-1])


def results_in(told: Sequence[Simple]) -> dict[str, str]:
    """Results by the id of their call; each call has one."""
    found = [(turn[1], turn[2]) for turn in told if turn[0] == "result"]
    assert len(dict(found)) == len(found), "a result came twice"
    return dict(found)


def offered(request: Recorded, cli: str) -> dict[str, Offered]:
    """The client's tools as the vendor got them, by the name without the CLI's own prefix; that
    there are no others is checked."""
    found = {tool.name: tool for tool in tools(request)}
    assert all(name.startswith(PREFIX[cli]) for name in found), list(found)
    return {name.removeprefix(PREFIX[cli]): tool for name, tool in found.items()}


def reaches(tool: Offered, schema: Mapping[str, Any]) -> bool:
    """Whether the model is told all of `schema`: as such, or in the tool's description. An object
    of which nothing is named may get an empty list of names."""
    described = (tool.description or "").rpartition(" in full: ")[2]
    return _evened(schema) in (_evened(tool.schema), _evened(_loaded(described)))


def _evened(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_evened(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {k: _evened(v) for k, v in schema.items() if (k, v) != ("properties", {})}


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def beginning(request: Recorded) -> tuple[str, list[str]]:
    """What a vendor's prompt cache compares: what stands before the conversation, and its messages,
    each as JSON. Claude Code moves its own marks of what is to be cached along to the newest
    message, and writes a marked text as a block; nothing else is evened out."""
    body = json.loads(request.body)
    items = body.get("messages") or body["input"]
    before = [body.get(name) for name in ("model", "instructions", "system", "tools")]
    return json.dumps(_unmarked(before)), [json.dumps(_unmarked(item)) for item in items]


def _unmarked(node: Any) -> Any:
    if isinstance(node, list):
        return [_unmarked(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    content = node.get("content")
    if isinstance(content, list) and [set(c) for c in content] == [{"type", "text", _MARK}]:
        return {**node, "content": content[0]["text"]}
    return {name: _unmarked(inner) for name, inner in node.items() if name != _MARK}


_MARK = "cache_control"


# --- its processes -----------------------------------------------------------------------------


def workers(house: House, cli: str) -> list[int]:
    """The processes of one CLI right below the server."""
    base = Path(f"/proc/{house.process.pid}/task/{house.process.pid}")
    found = []
    for pid in map(int, (base / "children").read_text().split()):
        # The program, or the script that a Node.js runs.
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:2]
        if any(word.endswith(b"/" + cli.encode()) for word in command):
            found.append(pid)
    return found


def settle(house: House, others: int) -> None:
    """Until no more are parked than `others`."""
    end = time.monotonic() + 5
    while parked(house) > others:
        assert time.monotonic() < end, "one is left that waits for results"
        time.sleep(0.02)


def parked(house: House) -> int:
    """Processes that wait for results, of all CLIs."""
    return sum(one["waiting"]["parked"] for one in house.health()["providers"].values())
