"""OpenAI's chat completions: the request in, the answer out, streaming or whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from olp.dialects.openai_params import HONOURED, ignored, refuse_unsupported
from olp.dialects.schemas import schema_problem
from olp.errors import RequestError
from olp.events import (
    Answering,
    Done,
    Failed,
    Finish,
    Output,
    Reasoning,
    Refused,
    Text,
    Trouble,
    Usage,
)
from olp.model import Effort, JsonFormat, Message, Request, Role

# --- the request -------------------------------------------------------------------------------


# The number goes into a CLI's configuration, where a larger one would break the start.
_Tokens = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class _Part(Struct):
    type: str
    text: str | None = None


class _Message(Struct):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: list[Any] | None = None
    function_call: dict[str, Any] | None = None


class _StreamOptions(Struct):
    include_usage: bool | None = None


class _Schema(Struct):
    name: str = "answer"
    schema: dict[str, Any] | None = None


class _Format(Struct):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _Schema | None = None


class _Body(Struct):
    model: Annotated[str, Meta(min_length=1, max_length=256)]
    messages: Annotated[list[_Message], Meta(min_length=1)]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    stop: (
        Annotated[str, Meta(max_length=4096)]
        | Annotated[list[Annotated[str, Meta(max_length=4096)]], Meta(max_length=16)]
        | None
    ) = None
    max_tokens: _Tokens | None = None
    max_completion_tokens: _Tokens | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        None
    )
    response_format: _Format | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """A decoded request, and what only this API knows: whether the stream ends with the usage."""

    request: Request
    include_usage: bool = False


SMALL = 1024
"""Bytes of a parameter without effect that are unpacked all the same."""


def decode(body: bytes, *, max_messages: int = 4096) -> Order:
    """The request in `body`; RequestError 400 with the path of what is wrong."""
    raw = _object(body)
    refuse_unsupported(raw)
    try:
        typed = msgspec.convert(raw, _Body)
    except msgspec.ValidationError as error:
        message, _, at = str(error).partition(" - at `$")
        param = at.removesuffix("`").lstrip(".") or None
        raise RequestError(f"{param or 'body'}: {message}", param=param) from None
    if len(typed.messages) > max_messages:
        raise RequestError(f"at most {max_messages} messages are accepted", param="messages")
    messages = tuple(_message(index, message) for index, message in enumerate(typed.messages))
    if not any(message.text.strip() for message in messages):
        raise RequestError("there is no text in any message", param="messages")
    request = Request(
        model=typed.model,
        messages=messages,
        stream=bool(typed.stream),
        stop=_stops(typed.stop),
        max_tokens=typed.max_completion_tokens or typed.max_tokens,
        effort=_effort(typed.reasoning_effort),
        format=_format(typed.response_format),
        ignored=ignored(raw),
    )
    options = typed.stream_options
    return Order(request, include_usage=bool(options and options.include_usage))


class _Named(Struct):
    model: str = ""


def model_in(body: bytes) -> str:
    """The model that `body` asks for, as far as that can be told; for a request that may turn out
    to be a bad one."""
    try:
        return msgspec.json.decode(body, type=_Named).model
    except (msgspec.DecodeError, RecursionError):
        return ""


def _object(body: bytes) -> dict[str, Any]:
    """The parameters of `body`. Those that are only to be named in a header are not unpacked: a
    small body can hold a large heap of nothing."""
    try:
        raw = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        return {name: _unpacked(name, value) for name, value in raw.items()}
    except (msgspec.DecodeError, RecursionError) as error:
        told = _no_object(body) or f"the body is not valid JSON: {error}"
        raise RequestError(told, code="invalid_json") from None


def _no_object(body: bytes) -> str | None:
    """What `body` is, if it is JSON but no object."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(found, dict):
        return None
    kind = {list: "an array", str: "a string", type(None): "null", bool: "a boolean"}
    return f"the body must be a JSON object, not {kind.get(type(found), 'a number')}"


def _unpacked(name: str, value: msgspec.Raw) -> Any:
    if name in HONOURED or len(memoryview(value)) < SMALL:
        return msgspec.json.decode(value)
    return True


def _message(index: int, message: _Message) -> Message:
    path = f"messages[{index}]"
    if message.role in ("tool", "function"):
        raise _unsupported(f"{path}.role", f"the role {message.role!r} needs tools")
    if message.tool_calls:
        raise _unsupported(f"{path}.tool_calls", "tool calls need tools")
    if message.function_call:
        raise _unsupported(f"{path}.function_call", "function calls need tools")
    role = Role.SYSTEM if message.role == "developer" else Role(message.role)
    return Message(role, _text(path, message.content))


def _text(path: str, content: str | list[_Part] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for index, part in enumerate(content):
        if part.type not in ("text", "input_text", "output_text", "refusal"):
            raise _unsupported(
                f"{path}.content[{index}].type", f"content of type {part.type!r} is not supported"
            )
        texts.append(part.text or "")
    return "\n".join(texts) if len(texts) > 1 else "".join(texts)


def _unsupported(param: str, reason: str) -> RequestError:
    message = f"Unsupported value at {param}: {reason} in this version."
    return RequestError(message, code="unsupported_parameter", param=param)


def _stops(stop: str | list[str] | None) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    return tuple(text for text in stops if text)


def _effort(word: str | None) -> Effort | None:
    if word is None:
        return None
    return Effort.XHIGH if word == "max" else Effort(word)


def _format(wanted: _Format | None) -> JsonFormat | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return JsonFormat()
    path = "response_format.json_schema"
    if wanted.json_schema is None or wanted.json_schema.schema is None:
        raise RequestError(f"{path}.schema is missing", param=f"{path}.schema")
    schema = wanted.json_schema.schema
    if problem := schema_problem(schema):
        raise RequestError(f"not a valid JSON Schema: {problem}", param=f"{path}.schema")
    return JsonFormat(schema, wanted.json_schema.name)


# --- the answer --------------------------------------------------------------------------------


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


class StreamEncoder:
    """One streamed answer, as server-sent events. `created` is in epoch seconds."""

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

    def event(self, output: Output) -> bytes:
        """The bytes for one output; nothing for what this API does not show."""
        match output:
            case Answering(model=model):
                self._base["model"] = model
                return self._chunk({"role": "assistant", "content": ""})
            case Text(text):
                return self._chunk({"content": text})
            case Reasoning(text):
                return self._chunk({"reasoning_content": text})
            case Usage():
                self._usage = output
                return b""
            case Done(finish):
                return self._end(finish)
            case Failed():
                return _frame(error_body(output))
            case _:
                return b""

    def error(self, error: RequestError) -> bytes:
        """The bytes that end a stream which OLP itself had to break off."""
        return b"data: " + request_error_body(error) + b"\n\n"

    def _chunk(self, delta: dict[str, Any], finish: Finish | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        more = {"usage": None} if self._order.include_usage else {}
        return _frame({**self._base, "choices": [choice], **more})

    def _end(self, finish: Finish) -> bytes:
        out = self._chunk({}, finish)
        if self._order.include_usage:
            out += _frame({**self._base, "choices": [], "usage": _usage(self._usage)})
        return out + b"data: [DONE]\n\n"


def _frame(data: Any) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


def whole(order: Order, outputs: Sequence[Output], *, id: str, created: int) -> bytes:
    """One complete answer as a JSON body. `outputs` begins with an Answering and ends with Done."""
    texts = [output.text for output in outputs if isinstance(output, Text)]
    thoughts = [output.text for output in outputs if isinstance(output, Reasoning)]
    model = next((o.model for o in outputs if isinstance(o, Answering)), order.request.model)
    finish = next((o.finish for o in outputs if isinstance(o, Done)), Finish.STOP)
    usage = next((o for o in reversed(outputs) if isinstance(o, Usage)), Usage())
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts), "refusal": None}
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    body = {
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": _usage(usage),
    }
    return msgspec.json.encode(body)


# --- errors ------------------------------------------------------------------------------------

_TYPES = {
    Trouble.AUTH_MISSING: ("provider_auth_missing", "provider_auth_missing"),
    Trouble.BAD_REQUEST: ("invalid_request_error", "bad_request"),
    Trouble.CONTEXT_TOO_LONG: ("invalid_request_error", "context_length_exceeded"),
    Trouble.MODEL_NOT_FOUND: ("invalid_request_error", "model_not_found"),
    Trouble.QUOTA_EXHAUSTED: ("insufficient_quota", "insufficient_quota"),
    Trouble.QUOTA_HOLD: ("insufficient_quota", "insufficient_quota"),
    Trouble.SOFT_TRIGGER: ("insufficient_quota", "insufficient_quota"),
    Trouble.RATE_LIMITED: ("rate_limit_error", "rate_limit_exceeded"),
    Trouble.CONCURRENCY_LIMIT: ("rate_limit_error", "concurrency_limit"),
    Trouble.FORMAT_MISMATCH: ("server_error", "format_mismatch"),
}


def error_body(failed: Failed, advice: str = "") -> dict[str, Any]:
    """The error object for a failure of a provider."""
    kind, code = _TYPES.get(failed.trouble, ("server_error", failed.trouble.lower()))
    message = f"{failed.trouble}: {failed.detail}"
    if advice:
        message = f"{message.rstrip('.')}. What to do: {advice}."
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def refused_body(refused: Refused) -> bytes:
    """The body of an answer that no hop gave."""
    return json.dumps(error_body(refused.failed, refused.advice)).encode()


def request_error_body(error: RequestError) -> bytes:
    """The body of a request that was refused before any provider was asked."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    if error.code == "insufficient_quota":
        kind = error.code
    return json.dumps(
        {
            "error": {
                "message": error.message,
                "type": kind,
                "param": error.param,
                "code": error.code,
            }
        }
    ).encode()
