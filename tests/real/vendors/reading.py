"""What a request says, whichever of the three wire formats it is in.

The mock must know what it is asked before it can answer, and a test must be able to compare what
reached a vendor with what a client said, at three vendors alike. Both read the same turns here:
what a user, the model and its tools said, in order. System prompts are no turns, and neither is
what ``claude`` itself puts between them as system reminders.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Body = Mapping[str, Any]
Simple = tuple[Any, ...]
_TEXTS = ("text", "input_text", "output_text")


@dataclass(frozen=True)
class Media:
    """An image or a file, by what can be told of it."""

    kind: str
    mime: str
    size: int | None

    def __str__(self) -> str:
        return f"{self.kind} {self.mime} {'?' if self.size is None else self.size} bytes"


@dataclass(frozen=True)
class Turn:
    """One thing said. ``text`` is words alone; ``shown`` tells the images and files among them."""

    kind: str  # user | assistant | call | result
    text: str = ""
    shown: str = ""
    media: tuple[Media, ...] = ()
    id: str = ""
    name: str = ""
    args: Any = None

    @property
    def simple(self) -> Simple:
        if self.kind == "call":
            return ("call", self.id, self.name, self.args)
        return ("result", self.id, self.shown) if self.kind == "result" else (self.kind, self.shown)


@dataclass(frozen=True)
class Offered:
    """A tool as a request offers it; ``plain`` is its name without the namespace it stands in."""

    name: str
    schema: Any = None
    description: str | None = None
    strict: bool | None = None
    plain: str = ""
    namespace: str = ""
    custom: bool = False  # takes plain text


def turns_of(vendor: str, body: Body) -> list[Turn]:
    readers = {"anthropic": _anthropic_turns, "openai": _openai_turns, "mistral": _mistral_turns}
    return [turn for turn in readers[vendor](body) if turn.kind in ("call", "result") or turn.shown]


def tools_of(vendor: str, body: Body) -> list[Offered]:
    tools = list(body.get("tools") or [])
    if vendor == "openai" and isinstance(body.get("input"), list):
        # Newer models get theirs inside an input item.
        tools += [tool for item in body["input"] for tool in item.get("tools") or []]
    return [offered for tool in tools for offered in _offered(tool)]


def system_of(vendor: str, body: Body) -> str:
    """All that is said with a system's or developer's authority, joined by newlines."""
    said = [body.get("system") if vendor == "anthropic" else body.get("instructions")]
    items = body.get("input") if vendor == "openai" else body.get("messages")
    if isinstance(items, list):
        said += [i.get("content") for i in items if i.get("role") in ("system", "developer")]
    return "\n".join(text for content in said if (text := _said("system", content).text))


def full_name(namespace: str, name: str) -> str:
    """``codex`` may split ``mcp__client__f`` into a namespace and a name; at others it is one."""
    return f"{namespace.rstrip('_')}__{name}" if namespace else name


def _offered(tool: Body, namespace: str = "") -> Iterator[Offered]:
    if tool.get("type") == "namespace":
        for inner in tool.get("tools") or []:
            yield from _offered(inner, str(tool.get("name")))
        return
    function = tool.get("function")
    named = function if isinstance(function, Mapping) else tool
    plain = str(named.get("name") or tool.get("type"))
    yield Offered(
        name=full_name(namespace, plain),
        schema=named.get("input_schema", named.get("parameters")),
        description=named.get("description"),
        strict=named.get("strict"),
        plain=plain,
        namespace=namespace,
        custom=tool.get("type") == "custom",
    )


def _anthropic_turns(body: Body) -> Iterator[Turn]:
    for message in body.get("messages") or []:
        if message["role"] not in ("user", "assistant"):
            continue
        kept: list[Body] = []
        for block in _parts(message.get("content")):
            kind = block.get("type")
            if kind not in ("tool_use", "tool_result"):
                kept += [] if _reminds(block) else [block]
                continue
            yield _said(message["role"], kept)
            kept = []
            yield _called(block) if kind == "tool_use" else _returned(block)
        yield _said(message["role"], kept)


def _called(block: Body) -> Turn:
    return Turn("call", id=block["id"], name=block["name"], args=block.get("input"))


def _returned(block: Body) -> Turn:
    mark = "[error] " if block.get("is_error") else ""
    return _said("result", block.get("content"), block["tool_use_id"], mark)


def _reminds(block: Body) -> bool:
    text = str(block.get("text") or "").strip()
    return text.startswith("<system-reminder>") and text.endswith("</system-reminder>")


def _openai_turns(body: Body) -> Iterator[Turn]:
    items = body.get("input") or []
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else items:
        kind = str(item.get("type") or "message")
        if kind == "message" and item.get("role") in ("user", "assistant"):
            yield _said(item["role"], item.get("content"))
        elif kind.endswith("_call_output"):
            yield _said("result", item.get("output"), str(item.get("call_id")))
        elif kind in ("function_call", "custom_tool_call"):
            name = full_name(item.get("namespace") or "", item["name"])
            given = item.get("arguments", item.get("input"))
            args = {"input": given} if kind == "custom_tool_call" else _loaded(given)
            yield Turn("call", id=item["call_id"], name=name, args=args)


def _mistral_turns(body: Body) -> Iterator[Turn]:
    for message in body.get("messages") or []:
        role = message.get("role")
        if role in ("user", "assistant"):
            yield _said(role, message.get("content"))
        if role == "tool":
            yield _said("result", message.get("content"), str(message.get("tool_call_id")))
        for call in message.get("tool_calls") or []:
            function = call["function"]
            args = _loaded(function.get("arguments"))
            yield Turn("call", id=call["id"], name=function["name"], args=args)


def _loaded(arguments: Any) -> Any:
    """Arguments as JSON, or as they are when a model's text is none."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def _said(kind: str, content: Any, ident: str = "", mark: str = "") -> Turn:
    parts = [_part(part) for part in _parts(content)]
    return Turn(
        kind,
        text="\n".join(part for part in parts if isinstance(part, str) and part),
        shown=mark + "\n".join(p if isinstance(p, str) else f"[{p}]" for p in parts if p),
        media=tuple(part for part in parts if isinstance(part, Media)),
        id=ident,
    )


def _parts(content: Any) -> Iterable[Body]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, list):
        return [{"type": "text", "text": p} if isinstance(p, str) else p for p in content]
    return [] if content is None else [{"type": "text", "text": json.dumps(content)}]


def _part(part: Body) -> str | Media | None:
    """One part of a message: its words, or what it shows; None for a model's thoughts."""
    kind = str(part.get("type"))
    if kind in _TEXTS:
        return str(part.get("text") or "")
    if kind == "refusal":
        return str(part.get("refusal") or "")
    if kind in ("image", "document"):
        return _sourced("image" if kind == "image" else "file", part.get("source") or {})
    if kind in ("input_image", "image_url"):
        url = part.get("image_url")
        return _linked("image", str(url.get("url")) if isinstance(url, Mapping) else str(url))
    if kind in ("input_file", "file", "document_url"):
        held = part.get("file") if isinstance(part.get("file"), Mapping) else part
        data = (held or part).get("file_data") or part.get("file_url") or part.get("document_url")
        return _linked("file", str(data))
    return None if "thinking" in kind else str(part.get("text") or f"[{kind}]")


def _sourced(kind: str, source: Body) -> Media:
    if source.get("type") == "base64":
        return Media(kind, str(source.get("media_type")), _size(str(source.get("data"))))
    if source.get("type") == "text":
        size = len(str(source.get("data")).encode())
        return Media(kind, str(source.get("media_type")), size)
    return _linked(kind, str(source.get("url") or source.get("type")))


def _linked(kind: str, url: str) -> Media:
    head, comma, data = url.partition(",")
    if not (comma and head.startswith("data:")):
        return Media(kind, url, None)
    return Media(kind, head[5:].partition(";")[0], _size(data))


def _size(data: str) -> int | None:
    """Bytes in base64; None for what is not."""
    try:
        return len(base64.b64decode(data, validate=True))
    except binascii.Error:
        return None
