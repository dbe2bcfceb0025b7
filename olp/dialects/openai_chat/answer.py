"""Encodes answers, streamed or whole, and errors in this API's format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from olp.dialects.openai_chat.request import Order
from olp.errors import RequestError
from olp.events import (
    Answering,
    CallArguments,
    CallStarted,
    Done,
    ErrorCode,
    Failed,
    Finish,
    Output,
    Reasoning,
    Refused,
    Text,
    Usage,
)
from olp.model import Field


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


class StreamEncoder:
    """Encodes one streamed answer as server-sent events. `created` is in epoch seconds."""

    media_type = "text/event-stream"
    keep_alive = b": keep-alive\n\n"

    def __init__(self, order: Order, *, id: str, created: int) -> None:
        self._order = order
        self._base: dict[str, Any] = {
            "id": id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": order.request.model,
        }
        self._usage = Usage()
        self._texts: list[str] = []

    def event(self, output: Output) -> bytes:
        """The bytes for one output; empty for events that this API does not show."""
        match output:
            case Answering(model=model):
                self._base["model"] = model
                return self._chunk({"role": "assistant", "content": ""})
            case Text(text):
                self._texts.append(text)
                return self._chunk({"content": text})
            case CallStarted(index) | CallArguments(index) if index and self._order.functions:
                return b""  # `function_call` allows one call per answer
            case CallStarted(index, id, name):
                function = {"name": name, "arguments": ""}
                call = {"index": index, "id": id, "type": "function", "function": function}
                return self._call(call, function)
            case CallArguments(index, text):
                function = {"arguments": text}
                return self._call({"index": index, "function": function}, function)
            case Reasoning(text):
                return self._chunk({"reasoning_content": text})
            case Usage():
                self._usage = output
                return b""
            case Done(finish, mismatch=mismatch):
                return _mismatch_comment(mismatch) + self._end(finish)
            case Failed():
                return _frame(error_body(output))
            case _:
                return b""

    def error(self, error: RequestError) -> bytes:
        """The bytes that end a stream which OLP itself aborted."""
        return b"data: " + request_error_body(error) + b"\n\n"

    def _call(self, call: dict[str, Any], function: dict[str, Any]) -> bytes:
        if self._order.functions:
            return self._chunk({"function_call": function})
        return self._chunk({"tool_calls": [call]})

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        more = {"usage": None} if self._order.include_usage else {}
        return _frame({**self._base, "choices": [choice], **more})

    def _end(self, finish: Finish) -> bytes:
        refused = finish is Finish.CONTENT_FILTER
        delta = {"refusal": "".join(self._texts) or REFUSAL} if refused else {}
        out = self._chunk(delta, _reason(self._order, finish))
        if self._order.include_usage:
            out += _frame({**self._base, "choices": [], "usage": _usage(self._usage)})
        return out + b"data: [DONE]\n\n"


REFUSAL = "The vendor's safety rules ended this answer."


def _reason(order: Order, finish: Finish) -> str:
    return "function_call" if order.functions and finish is Finish.TOOL_CALLS else finish.value


def _calls(outputs: Sequence[Output]) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    arguments: list[list[str]] = []
    for output in outputs:
        match output:
            case CallStarted(_, id, name):
                calls.append({"id": id, "type": "function", "function": {"name": name}})
                arguments.append([])
            case CallArguments(index, text):
                arguments[index].append(text)
    for call, pieces in zip(calls, arguments, strict=True):
        call["function"]["arguments"] = "".join(pieces)
    return calls


def _mismatch_comment(mismatch: str | None) -> bytes:
    """An SSE comment, which clients ignore: it is too late for a header."""
    if mismatch is None:
        return b""
    message = mismatch.encode("ascii", "replace").decode().translate(_ONE_LINE)
    return f": the arguments of the call do not fit: {message}\n\n".encode()


_ONE_LINE = dict.fromkeys((*range(32), 127), "?")


def _frame(data: Any) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


def whole(order: Order, outputs: Sequence[Output], *, id: str, created: int) -> bytes:
    """A complete answer as a JSON body. `outputs` begins with an Answering and ends with a Done.
    `created` is in epoch seconds.
    """
    texts = [output.text for output in outputs if isinstance(output, Text)]
    thoughts = [output.text for output in outputs if isinstance(output, Reasoning)]
    model = next((o.model for o in outputs if isinstance(o, Answering)), order.request.model)
    finish = next((o.finish for o in outputs if isinstance(o, Done)), Finish.STOP)
    reason = _reason(order, finish)
    usage = next((o for o in reversed(outputs) if isinstance(o, Usage)), Usage())
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts), "refusal": None}
    if calls := _calls(outputs):
        message["content"] = message["content"] or None
        if order.functions:
            message["function_call"] = calls[0]["function"]
        else:
            message["tool_calls"] = calls
    if finish is Finish.CONTENT_FILTER:
        message["refusal"] = message["content"] or REFUSAL
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    body = {
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": _usage(usage),
    }
    return msgspec.json.encode(body)


# --- errors ------------------------------------------------------------------------------------

_TYPES = {
    ErrorCode.AUTH_MISSING: ("provider_auth_missing", "provider_auth_missing"),
    ErrorCode.BAD_REQUEST: ("invalid_request_error", "bad_request"),
    ErrorCode.CONTEXT_TOO_LONG: ("invalid_request_error", "context_length_exceeded"),
    ErrorCode.MODEL_NOT_FOUND: ("invalid_request_error", "model_not_found"),
    ErrorCode.QUOTA_EXHAUSTED: ("insufficient_quota", "insufficient_quota"),
    ErrorCode.QUOTA_HOLD: ("insufficient_quota", "insufficient_quota"),
    ErrorCode.SOFT_TRIGGER: ("insufficient_quota", "insufficient_quota"),
    ErrorCode.RATE_LIMITED: ("rate_limit_error", "rate_limit_exceeded"),
    ErrorCode.CONCURRENCY_LIMIT: ("rate_limit_error", "concurrency_limit"),
    ErrorCode.FORMAT_MISMATCH: ("server_error", "format_mismatch"),
    ErrorCode.INCAPABLE: ("invalid_request_error", "unsupported_parameter"),
}


_PARAMS = {Field.FORCED_CALL: "tool_choice", Field.SCHEMA: "response_format"}
"""What this API calls the parts of a request, where it has another name."""


def _param(field: str | None) -> str | None:
    return _PARAMS.get(field, str(field)) if isinstance(field, Field) else field


def error_body(failed: Failed, advice: str = "") -> dict[str, Any]:
    """The error object for a failure of a provider."""
    kind, code = _TYPES.get(failed.code, ("server_error", failed.code.lower()))
    message = f"{failed.code}: {failed.detail}"
    if advice:
        message = f"{message.rstrip('.')}. What to do: {advice}."
    return {
        "error": {"message": message, "type": kind, "param": _param(failed.field), "code": code}
    }


def refused_body(refused: Refused) -> bytes:
    """The body of a response when no hop could answer."""
    return json.dumps(error_body(refused.failed, refused.advice)).encode()


def request_error_body(error: RequestError) -> bytes:
    """The body for a request that was rejected before any provider was asked."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    if error.code == "insufficient_quota":
        kind = error.code
    return json.dumps(
        {
            "error": {
                "message": error.message,
                "type": kind,
                "param": _param(error.param),
                "code": error.code,
            }
        }
    ).encode()
