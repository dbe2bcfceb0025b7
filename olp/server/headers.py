"""The X-OLP headers: provider, hops and latency. On every response, errors included."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from olp.events import Answering, Done, Output, Refused
from olp.server.detail import detail_value

PROVIDER = "X-OLP-Provider-Used"
MODEL = "X-OLP-Model-Used"
HOPS = "X-OLP-Fallback-Hops"
DETAIL = "X-OLP-Fallback-Detail"
EXHAUSTED = "X-OLP-Fallback-Exhausted"
CACHE = "X-OLP-Cache"
LATENCY = "X-OLP-Latency-Ms"
REQUEST_ID = "X-OLP-Request-Id"
VENDORS_REQUEST_ID = "x-request-id"
"""The request id again, under the name that client libraries show."""
IGNORED = "X-OLP-Ignored-Params"
CONVERSATION = "X-OLP-Conversation"
EMPTY = "X-OLP-Empty-Answer"
MISMATCH = "X-OLP-Call-Mismatch"

ALL = (
    *(PROVIDER, MODEL, HOPS, DETAIL, EXHAUSTED, CACHE, LATENCY, REQUEST_ID, VENDORS_REQUEST_ID),
    *(IGNORED, CONVERSATION, EMPTY, MISMATCH),
)

_UNSAFE = re.compile(r"[^\x20-\x7e]+")
_KEY = re.compile(r"olp_[A-Za-z0-9_-]{20,}")


def safe(text: str, limit: int = 128) -> str:
    """`text` as a header value: one line of printable ASCII, at most `limit` characters, without
    keys.
    """
    return _KEY.sub("[key]", _UNSAFE.sub("?", text))[:limit].strip()


def early(model: str) -> dict[str, str]:
    """The headers of a response for which no provider was asked."""
    used = safe(model) or "unknown"
    return {PROVIDER: "none", MODEL: used, HOPS: "0", CACHE: "bypass"}


def answered(head: Answering, *, show_detail: bool) -> dict[str, str]:
    """The headers of an answer."""
    headers = {
        PROVIDER: head.provider,
        MODEL: safe(head.model),
        HOPS: str(head.hops),
        CACHE: head.cache,
    }
    if head.conversation is not None:
        headers[CONVERSATION] = head.conversation
    if head.empty:
        headers[EMPTY] = "true"
    if head.records and show_detail:
        headers[DETAIL] = detail_value(head.records)
    return headers


def refused(end: Refused, *, show_detail: bool) -> dict[str, str]:
    """The headers of a request that no hop could answer."""
    headers = {
        PROVIDER: end.provider,
        MODEL: safe(end.model),
        HOPS: str(end.hops),
        CACHE: "miss",
    }
    if end.records and show_detail:
        headers[DETAIL] = detail_value(end.records)
    if end.exhausted:
        headers[EXHAUSTED] = ",".join(end.exhausted)
    if end.retry_after is not None:
        headers["Retry-After"] = str(end.retry_after)
    if not end.retry:
        headers["x-should-retry"] = "false"
    return headers


def mismatch(outputs: Sequence[Output]) -> Mapping[str, str]:
    """The header that reports how a call violates its schema, if `outputs` end with such a call."""
    reason = next((o.mismatch for o in outputs if isinstance(o, Done) and o.mismatch), None)
    return {MISMATCH: safe(reason, limit=200)} if reason else {}


def ignored(names: tuple[str, ...]) -> Mapping[str, str]:
    """The header that lists parameters without effect, if there are any."""
    return {IGNORED: safe(",".join(names), limit=1024)} if names else {}
