"""A conversation with a mock vendor through that vendor's own SDK.

It reads the mock's streams with code that was written for the real thing. Mistral's stream is read
by OpenAI's SDK, whose format it shares. The client's tools are offered under the names that the
CLIs give them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from .scenario import Recorded, State

STEP = {"type": "object", "properties": {"step": {"type": "integer"}}}
NAMES = {"anthropic": "mcp__client__{}", "openai": "{}", "mistral": "client_{}"}


@dataclass
class Answer:
    """What an SDK made of an answer."""

    text: str
    finish: str | None
    calls: list[tuple[str, str, Any]] = field(default_factory=list)  # id, name, arguments


class Talk:
    """A conversation with one mock vendor, in the SDK's own words."""

    def __init__(self, vendor: str, base_url: str, state: State) -> None:
        self.vendor = vendor
        self.state = state
        self.names: tuple[str, ...] = ("a", "b", "f")
        self.url = base_url
        self.items: list[Any] = []

    def offered(self, name: str) -> str:
        return NAMES[self.vendor].format(name)

    async def say(self, content: Any, **more: Any) -> Answer:
        self.items.append({"role": "user", "content": content})
        return await self._ask(more)

    async def give(self, answer: Answer, *results: Any, **more: Any) -> Answer:
        """Answer the calls of an answer, which must be the last one."""
        pairs = list(zip([ident for ident, _, _ in answer.calls], results, strict=True))
        if self.vendor == "anthropic":
            blocks = [
                {"type": "tool_result", "tool_use_id": i, **(r if isinstance(r, dict) else _as(r))}
                for i, r in pairs
            ]
            self.items.append({"role": "user", "content": blocks})
        elif self.vendor == "openai":
            kind = "function_call_output"
            self.items += [{"type": kind, "call_id": i, "output": r} for i, r in pairs]
        else:
            self.items += [{"role": "tool", "tool_call_id": i, "content": r} for i, r in pairs]
        return await self._ask(more)

    async def _ask(self, more: dict[str, Any]) -> Answer:
        ask = {"anthropic": self._anthropic, "openai": self._openai, "mistral": self._mistral}
        return await ask[self.vendor](more)

    async def _anthropic(self, more: dict[str, Any]) -> Answer:
        tools: Any = [{"name": self.offered(n), "input_schema": STEP} for n in self.names]
        tools += more.pop("tools", [])
        sdk = AsyncAnthropic(base_url=self.url, api_key="k", max_retries=0)
        asked = {"model": "m", "max_tokens": 99, "messages": self.items, "tools": tools, **more}
        async with sdk, sdk.messages.stream(**asked) as stream:
            message = await stream.get_final_message()
        self.items.append({"role": "assistant", "content": _blocks(message.content)})
        used = [b for b in message.content if b.type == "tool_use"]
        return Answer(
            "".join(b.text for b in message.content if b.type == "text"),
            message.stop_reason,
            [(b.id, b.name, b.input) for b in used],
        )

    async def _openai(self, more: dict[str, Any]) -> Answer:
        tools: list[Any] = [
            {"type": "function", "name": self.offered(n), "parameters": STEP, "strict": False}
            for n in self.names
        ]
        tools += more.pop("tools", [])
        sdk = AsyncOpenAI(base_url=f"{self.url}/v1", api_key="k", max_retries=0)
        asked: dict[str, Any] = {"model": "m", "input": self.items, "tools": tools, **more}
        told: dict[str, str] = {}
        async with sdk, sdk.responses.stream(**asked) as stream:
            async for event in stream:
                if event.type == "response.function_call_arguments.delta":
                    told[event.item_id] = told.get(event.item_id, "") + event.delta
            response = await stream.get_final_response()
        output: list[Any] = [item.to_dict() for item in response.output]
        self.items += output
        used = [i for i in output if i["type"] == "function_call"]
        assert [told[i["id"]] for i in used] == [i["arguments"] for i in used]
        parts = [part for item in output for part in item.get("content") or ()]
        refused = "refusal" if any(p["type"] == "refusal" for p in parts) else response.status
        return Answer(
            "".join(p.get("text") or p.get("refusal") or "" for p in parts),
            refused,
            [(i["call_id"], _full(i), json.loads(i["arguments"])) for i in used],
        )

    async def _mistral(self, more: dict[str, Any]) -> Answer:
        tools: list[Any] = [
            {"type": "function", "function": {"name": self.offered(n), "parameters": STEP}}
            for n in self.names
        ]
        tools += more.pop("tools", [])
        sdk = AsyncOpenAI(base_url=f"{self.url}/v1", api_key="k", max_retries=0)
        asked: dict[str, Any] = {"model": "m", "messages": self.items, "tools": tools, **more}
        async with sdk, sdk.chat.completions.stream(**asked) as stream:
            choice = (await stream.get_final_completion()).choices[0]
        message = choice.message
        self.items.append(message.to_dict())
        used: list[Any] = list(message.tool_calls or [])
        calls = [(c.id, c.function.name, json.loads(c.function.arguments)) for c in used]
        return Answer(message.content or "", choice.finish_reason, calls)

    def recorded(self) -> Recorded:
        return self.state.requests[-1]


def _as(result: Any) -> dict[str, Any]:
    return {"content": result}


def _blocks(content: Any) -> list[Any]:
    """The SDK marks what it has parsed; a request must not."""
    dropped = {"parsed_output"}
    return [{k: v for k, v in b.to_dict().items() if k not in dropped} for b in content]


def _full(item: Any) -> str:
    return f"{item['namespace']}/{item['name']}" if item.get("namespace") else str(item["name"])
