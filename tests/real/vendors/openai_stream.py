"""One answer of OpenAI's Responses API, as the events it comes in.

The real API tells everything twice, in deltas and whole when an item is done, and numbers every
event. A reader may rely on either, so both are here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import ids
from .plan import REFUSAL, Answer, Call
from .scenario import Scenario, State
from .stream import Sse, hang_if, linger, paced

CONTEXT_MESSAGE = (
    "Your input exceeds the context window of this model. Please adjust your input and try again."
)

POLICY_MESSAGE = (
    "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try "
    "again with a different prompt."
)


class Writer:
    """One response as a stream of events, in answer to so many turns."""

    def __init__(self, sse: Sse, body: Mapping[str, Any], state: State, length: int) -> None:
        self._sse = sse
        self._body = body
        self._state = state
        self._length = length
        self._events = 0
        self._id = state.new_id("mock")
        self._output: list[dict[str, Any]] = []

    async def _send(self, kind: str, **fields: Any) -> None:
        numbered = {"type": kind, "sequence_number": self._events, **fields}
        self._events += 1
        await self._sse.send(numbered, kind)

    async def _begin(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Announce an item; returns where its deltas belong."""
        where = {"output_index": len(self._output)}
        await self._send("response.output_item.added", **where, item=dict(item))
        return where | {"item_id": item["id"]}

    async def _end_item(self, item: Mapping[str, Any]) -> None:
        await self._send(
            "response.output_item.done", output_index=len(self._output), item=dict(item)
        )
        self._output.append(dict(item))

    def _response(self, status: str, **fields: Any) -> dict[str, Any]:
        return {
            "id": f"resp_{self._id}",
            "object": "response",
            "created_at": 1,
            "status": status,
            "model": self._body.get("model"),
            "error": None,
            "incomplete_details": None,
            "output": list(self._output),
            "usage": None,
            **fields,
        }

    async def failed(self, code: str | None, message: str | None) -> None:
        error = {"code": code, "message": message}
        await self._send("response.failed", response=self._response("failed", error=error))

    async def run(self, scenario: Scenario, answer: Answer) -> None:
        await self._send("response.created", response=self._response("in_progress"))
        await hang_if(scenario)
        await self._send("response.in_progress", response=self._response("in_progress"))
        if failed := _failed(scenario):
            await self.failed(**failed)
            return
        if answer.thinking:
            await self._reasoning(answer.thinking)
        if answer.finish == "refusal":
            await self._refusal(answer.text or REFUSAL)
        elif answer.pieces:
            await self._message(scenario, answer)
        for number, call in enumerate(answer.calls):
            await self._call(call, number)
        await linger(scenario)
        if scenario.name not in ("NODONE", "ENDS"):
            await self._end(scenario, answer)

    async def _reasoning(self, pieces: tuple[str, ...]) -> None:
        head = {"type": "reasoning", "id": f"rs_{self._id}", "summary": []}
        where = await self._begin(head) | {"summary_index": 0}
        part = {"type": "summary_text", "text": ""}
        await self._send("response.reasoning_summary_part.added", **where, part=part)
        for piece in pieces:
            await self._send("response.reasoning_summary_text.delta", **where, delta=piece)
        part = {"type": "summary_text", "text": "".join(pieces)}
        await self._send("response.reasoning_summary_text.done", **where, text=part["text"])
        await self._send("response.reasoning_summary_part.done", **where, part=part)
        await self._end_item(head | {"summary": [part]})

    async def _message(self, scenario: Scenario, answer: Answer) -> None:
        where, part = await self._open_message({"type": "output_text", "text": ""})
        event = "response.output_text.delta"
        async for piece in paced(self._sse, scenario, answer.pieces, event):
            await self._send(event, **where, delta=piece)
        await self._send("response.output_text.done", **where, text=answer.text)
        await self._close_message(where, part | {"text": answer.text})

    async def _refusal(self, text: str) -> None:
        where, part = await self._open_message({"type": "refusal", "refusal": ""})
        for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
            await self._send("response.refusal.delta", **where, delta=piece)
        await self._send("response.refusal.done", **where, refusal=text)
        await self._close_message(where, part | {"refusal": text})

    async def _open_message(self, part: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        if part["type"] == "output_text":
            part = part | {"annotations": []}
        where = await self._begin(self._said("in_progress", [])) | {"content_index": 0}
        await self._send("response.content_part.added", **where, part=part)
        return where, part

    async def _close_message(self, where: Mapping[str, Any], part: dict[str, Any]) -> None:
        await self._send("response.content_part.done", **where, part=part)
        await self._end_item(self._said("completed", [part]))

    async def _call(self, call: Call, number: int) -> None:
        """A function's arguments come as deltas; so does the plain text of a custom tool."""
        kind, field, event = ("function_call", "arguments", "function_call_arguments")
        given = call.arguments
        if call.custom:
            kind, field, event = ("custom_tool_call", "input", "custom_tool_call_input")
            given = str(call.args.get("input") or given)
        item: dict[str, Any] = {
            "type": kind,
            "id": ids.openai_item(self._length, number),
            "call_id": call.id or ids.openai(self._length, number),
            "name": call.name,
            "status": "in_progress",
            field: "",
        }
        if call.namespace:
            item["namespace"] = call.namespace
        where = await self._begin(item)
        for piece in call.fragments() if given is call.arguments else [given]:
            await self._send(f"response.{event}.delta", **where, delta=piece)
        await self._send(f"response.{event}.done", **where, **{field: given})
        await self._end_item(item | {"status": "completed", field: given})

    async def _end(self, scenario: Scenario, answer: Answer) -> None:
        usage = self._state.usage
        counts = {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }
        if answer.finish == "length" or scenario.name == "INCOMPLETE":
            told = scenario.arg if scenario.name == "INCOMPLETE" else "max_output_tokens"
            cut = {"reason": told}
            response = self._response("incomplete", usage=counts, incomplete_details=cut)
            await self._send("response.incomplete", response=response)
        else:
            response = self._response("completed", usage=counts)
            await self._send("response.completed", response=response)

    def _said(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        head = {"type": "message", "id": f"msg_{self._id}", "role": "assistant", "status": status}
        return head | {"content": content}


def _failed(scenario: Scenario) -> dict[str, Any] | None:
    """The error of a response that fails."""
    match scenario.name:
        case "CONTEXT":
            return {"code": "context_length_exceeded", "message": CONTEXT_MESSAGE}
        case "POLICY":
            return {"code": scenario.arg or "invalid_prompt", "message": POLICY_MESSAGE}
        case "FAILED":
            told: dict[str, Any] = json.loads(scenario.arg or "{}")
            return told
        case _:
            return None
