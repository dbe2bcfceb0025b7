"""The messages of a request: their parts, tool calls and results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec
from msgspec import Struct

from olp.dialects.openai_chat.problems import problem_at
from olp.errors import RequestError
from olp.media import from_data_url, image, text_file
from olp.model import CANCELLED, Link, Media, Message, Part, Role, ToolCall

MAX_CALLS = 1024
"""The most tool calls in one message."""


class _Url(Struct):
    url: str


class _File(Struct):
    filename: str | None = None
    file_data: str | None = None


class ApiPart(Struct):
    """A part of a message's content, as in the API."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: _Url | str | None = None
    file: _File | None = None


class _Function(Struct):
    name: str
    arguments: str | dict[str, Any] | None = None


class _Call(Struct):
    function: _Function | None = None
    id: str | None = None


class ApiMessage(Struct):
    """A message, as in the API."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Any] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None
    tool_call_id: str | None = None


def conversation(messages: Sequence[ApiMessage]) -> tuple[Message, ...]:
    """Convert messages to OLP's model, with every call followed by its result.

    Raises RequestError (400) with the path of the invalid field.
    """
    out: list[Message] = []
    index = 0
    while index < len(messages):
        out.append(_message(index, messages[index]))
        index += 1
        if out[-1].calls:
            results = _results(messages, index)
            out += _paired(out[-1].calls, results)
            index += len(results)
    if not any(m.text.strip() or m.media or m.links or m.calls for m in out):
        raise RequestError("there is no text in any message", param="messages")
    return tuple(out)


def _message(index: int, message: ApiMessage) -> Message:
    path = f"messages[{index}]"
    if message.role in ("tool", "function"):
        raise RequestError(
            f"{path}: a result must follow the assistant's message that calls for it",
            param=f"{path}.role",
        )
    role = Role.SYSTEM if message.role == "developer" else Role(message.role)
    content = _content(path, message.content or message.refusal, role)
    if role is not Role.USER and not all(isinstance(part, str) for part in content):
        raise RequestError(
            f"{path}.content: only a user's message and a tool's result may hold images and files",
            param=f"{path}.content",
        )
    calls = _calls(path, message) if role is Role.ASSISTANT else ()
    return Message(role, _joined(content), calls)


def _calls(path: str, message: ApiMessage) -> tuple[ToolCall, ...]:
    if message.function_call is not None:
        return (_call(f"{path}.function_call", message.function_call, _own_id(path)),)
    calls: list[ToolCall] = []
    seen: set[str] = set()
    if len(message.tool_calls or ()) > MAX_CALLS:
        raise RequestError(
            f"{path}.tool_calls: at most {MAX_CALLS} calls in one message are accepted",
            param=f"{path}.tool_calls",
        )
    for index, call in enumerate(message.tool_calls or ()):
        where = f"{path}.tool_calls[{index}]"
        if call.function is None:
            raise RequestError(f"{where}: only functions can be called", param=where)
        if not call.id or call.id in seen:
            raise RequestError(f"{where}.id is missing or not unique", param=f"{where}.id")
        seen.add(call.id)
        calls.append(_call(f"{where}.function", call.function, call.id))
    return tuple(calls)


def _own_id(path: str) -> str:
    """An id for a call of the old `function_call` format, made from the message's index."""
    return f"call_{path[9:-1]}"


def _call(path: str, function: _Function, id: str) -> ToolCall:
    if not function.name:
        raise RequestError(f"{path}.name is empty", param=f"{path}.name")
    arguments = function.arguments
    if arguments is None or isinstance(arguments, str):
        return ToolCall(id, function.name, arguments or "{}")
    # A few clients send the parsed object.
    return ToolCall(id, function.name, json.dumps(arguments, ensure_ascii=False))


def _results(messages: Sequence[ApiMessage], start: int) -> list[tuple[str, Message]]:
    """The results that start at index `start`, each with the id of its call."""
    found: list[tuple[str, Message]] = []
    for index, message in enumerate(messages[start:], start):
        if message.role not in ("tool", "function"):
            break
        path = f"messages[{index}]"
        id = message.tool_call_id or ""
        if message.role == "function":
            id = _own_id(f"messages[{start - 1}]")
        if not id:
            raise RequestError(
                f"{path}.tool_call_id is missing: it says whose result this is",
                param=f"{path}.tool_call_id",
            )
        content = _joined(_content(path, message.content, Role.TOOL))
        found.append((id, Message(Role.TOOL, content, answers=id)))
    return found


def _paired(calls: Sequence[ToolCall], results: Sequence[tuple[str, Message]]) -> Iterator[Message]:
    """The results in the order of their calls; a missing one counts as cancelled by the client."""
    by_id, known = dict(results), {call.id for call in calls}
    unknown = next((id for id in by_id if id not in known), None)
    if unknown is not None:
        raise RequestError(
            f"tool_call_id {unknown[:64]!r} is no call of the assistant's message before it",
            param="messages",
        )
    for call in calls:
        cancelled = Message(Role.TOOL, CANCELLED, answers=call.id, cancelled=True)
        yield by_id.get(call.id, cancelled)


def _joined(parts: Sequence[Part]) -> str | tuple[Part, ...]:
    """Text-only content as one string."""
    texts = [part for part in parts if isinstance(part, str)]
    return "\n".join(texts) if len(texts) == len(parts) else tuple(parts)


def _content(path: str, content: str | list[Any] | None, role: Role) -> list[Part]:
    """The parts of a message. Non-text parts of earlier assistant messages (reasoning, generated
    images) are dropped: other models cannot take them, and they must not fail the request.
    """
    if content is None or isinstance(content, str):
        return [content or ""]
    return [
        _part(f"{path}.content[{index}]", part)
        for index, part in enumerate(content)
        if not (role is Role.ASSISTANT and is_left_out(part))
    ]


WORDS = ("text", "input_text", "output_text", "refusal")
"""Types of parts that are text."""


def is_left_out(part: object) -> bool:
    """Whether a part of an earlier assistant message is dropped because it is not text."""
    match part:
        case {"type": str(kind)}:
            return kind not in WORDS
    return False


def _part(path: str, given: object) -> Part:
    try:
        part = msgspec.convert(given, ApiPart)
    except msgspec.ValidationError as error:
        raise problem_at(path, error, ApiPart) from None
    match part.type:
        case kind if kind in WORDS:
            return part.text or part.refusal or ""
        case "image_url":
            url = part.image_url.url if isinstance(part.image_url, _Url) else part.image_url
            return _image(f"{path}.image_url.url", url or "")
        case "file":
            return _file(f"{path}.file", part.file or _File())
        case other:
            message = f"Unsupported value at {path}.type: content of type {other!r}."
            raise RequestError(message, code="unsupported_parameter", param=f"{path}.type")


def _image(path: str, url: str) -> Media | Link:
    if url[:8].lower().startswith(("http://", "https://")):
        return Link(url, path)
    return image(path, from_data_url(path, url))


def _file(path: str, file: _File) -> Part:
    if not file.file_data:
        raise RequestError(
            f"{path}.file_data is missing: files are sent along, as data URLs",
            param=f"{path}.file_data",
        )
    media = replace(from_data_url(f"{path}.file_data", file.file_data), name=file.filename or "")
    return text_file(f"{path}.file_data", media)
