"""Decodes a request: bytes to an `Order`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from olp.dialects.openai_chat.messages import ApiMessage, conversation
from olp.dialects.openai_chat.params import HONOURED, WHOLE_NUMBERS, ignored, refuse_unsupported
from olp.dialects.openai_chat.problems import problem_at
from olp.dialects.openai_chat.tools import ApiFunction, ApiTool, Toolbox, toolbox
from olp.dialects.schemas import schema_problem
from olp.errors import RequestError
from olp.media import check_total
from olp.model import Effort, JsonFormat, Message, Request

# Larger numbers are not accepted in a CLI's configuration.
_Tokens = Annotated[int, Meta(ge=1, le=2**31 - 1)]


MAX_TOOLS = 512
"""The most tools in one request. IDE agents send some dozens."""


MAX_TOOL_BYTES = 1024 * 1024
"""The most bytes of all tools in a request. IDE agents send some dozens of kilobytes."""


class _StreamOptions(Struct):
    include_usage: bool | None = None


class _Schema(Struct):
    name: str | None = None
    schema: dict[str, Any] | None = None


class _Format(Struct):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _Schema | None = None


class _Body(Struct):
    model: Annotated[str, Meta(min_length=1, max_length=256)]
    messages: Annotated[list[ApiMessage], Meta(min_length=1)]
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
    tools: Annotated[list[ApiTool], Meta(max_length=MAX_TOOLS)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    functions: Annotated[list[ApiFunction], Meta(max_length=MAX_TOOLS)] | None = None
    function_call: str | dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """A decoded request, and what is specific to this API.

    `include_usage`: the stream ends with a usage chunk. `functions`: the client uses the old
    `functions` parameters.
    """

    request: Request
    include_usage: bool = False
    functions: bool = False


SMALL = 1024
"""Size in bytes below which a parameter without effect is decoded anyway."""


def decode(
    body: bytes, *, max_messages: int = 4096, max_media: int = 50, links: bool = False
) -> Order:
    """Decode a request. Raises RequestError (400) with the path of the invalid field.

    `max_messages` and `max_media` limit the numbers of messages and of images and files; `links`
    allows images given by URL.
    """
    raw = _object(body)
    refuse_unsupported(raw)
    try:
        typed = msgspec.convert(raw, _Body)
    except msgspec.ValidationError as error:
        raise problem_at("", error, _Body) from None
    if len(typed.messages) > max_messages:
        raise RequestError(f"at most {max_messages} messages are accepted", param="messages")
    messages = conversation(typed.messages)
    _check_media(messages, max_media, links=links)
    box = _toolbox(typed)
    request = Request(
        model=typed.model,
        messages=messages,
        stream=bool(typed.stream),
        stop=_stops(typed.stop),
        max_tokens=typed.max_completion_tokens or typed.max_tokens,
        effort=_effort(typed.reasoning_effort),
        format=_format(typed.response_format),
        tools=box.tools,
        must_call=box.must_call,
        parallel_calls=typed.parallel_tool_calls is not False and not typed.functions,
        nameless_calls=bool(typed.functions),
        ignored=ignored(raw),
    )
    options = typed.stream_options
    return Order(
        request,
        include_usage=bool(options and options.include_usage),
        functions=bool(typed.functions),
    )


def _check_media(messages: tuple[Message, ...], most: int, *, links: bool) -> None:
    linked = [link for message in messages for link in message.links]
    if linked and not links:
        raise RequestError(
            f"{linked[0].path}: images are sent along, as data URLs; this server's owner has not "
            "switched on the fetching of addresses ([images] fetch)",
            code="unsupported_parameter",
            param=linked[0].path,
        )
    if len(linked) + sum(len(message.media) for message in messages) > most:
        raise RequestError(f"at most {most} images and files are accepted", param="messages")
    check_total(messages)


def _toolbox(body: _Body) -> Toolbox:
    for name, other in (("tool_choice", "function_call"), ("tools", "functions")):
        if getattr(body, name) and getattr(body, other):
            raise RequestError(f"give either {name} or {other}, not both", param=other)
    path = "tool_choice" if body.tool_choice is not None else "function_call"
    choice = getattr(body, path)
    if not body.functions:
        return toolbox(body.tools or (), choice, "tools", path)
    named = [ApiTool("function", function) for function in body.functions]
    return toolbox(named, choice, "functions", path)


_Decoded = TypeVar("_Decoded")


class _Named(Struct):
    model: str = ""


def model_in(body: bytes) -> str:
    """The model that `body` asks for, or "" if unknown; the request may be invalid."""
    try:
        return _read(body, lambda data: msgspec.json.decode(data, type=_Named)).model
    except (msgspec.DecodeError, RecursionError):
        return ""


def _object(body: bytes) -> dict[str, Any]:
    """The parameters in `body`. Raises RequestError (400) if it is not a JSON object."""
    try:
        return _read(body, _parameters)
    except (msgspec.DecodeError, RecursionError) as error:
        message = _not_an_object(body) or f"the body is not valid JSON: {error}"
        raise RequestError(message, code="invalid_json") from None


def _read(body: bytes, decode: Callable[[bytes], _Decoded]) -> _Decoded:
    """Decode `body`, on failure again after `_clean`."""
    body = body.removeprefix(BOM)
    try:
        return decode(body)
    except msgspec.DecodeError:
        clean = _clean(body)
        if clean == body:
            raise
        return decode(clean)


def _parameters(body: bytes) -> dict[str, Any]:
    """Decode the top level. Parameters that are only listed in a header are not decoded, because a
    small body can expand to a large object.
    """
    raw = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return {name: _decode_parameter(name, value) for name, value in raw.items()}


BOM = b"\xef\xbb\xbf"
"""The UTF-8 byte order mark, which some editors and programs put in front of a file."""

_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)


def _clean(body: bytes) -> bytes:
    """`body` with lone surrogates replaced by U+FFFD, raw or escaped: programs that truncate text
    leave them.
    """
    try:
        text = body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return body
    body = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    return _ESCAPES.sub(lambda found: b"\\ufffd" if found["half"] else found[0], body)


def _not_an_object(body: bytes) -> str | None:
    """An error message if `body` is JSON but not an object, else None."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(found, dict):
        return None
    kind = {list: "an array", str: "a string", type(None): "null", bool: "a boolean"}
    return f"the body must be a JSON object, not {kind.get(type(found), 'a number')}"


def _decode_parameter(name: str, value: msgspec.Raw) -> Any:
    if name in ("tools", "functions") and len(memoryview(value)) > MAX_TOOL_BYTES:
        message = f"{name}: at most {MAX_TOOL_BYTES >> 20} MiB of tools are accepted"
        raise RequestError(message, param=name)
    if name in HONOURED or len(memoryview(value)) < SMALL:
        given = msgspec.json.decode(value)
        whole = name in WHOLE_NUMBERS and isinstance(given, float) and given.is_integer()
        return int(given) if whole else given
    return True


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
    return JsonFormat(schema, wanted.json_schema.name or "answer")
