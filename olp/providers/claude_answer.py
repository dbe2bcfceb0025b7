"""What Claude Code says, from its first line to its last.

Its failures look like answers: an assistant message of the model `<synthetic>` and a result that
says `success`. And it retries and continues by itself (after a limit of tokens, after a broken
stream), which would spend the quota twice, so such a moment ends the attempt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from olp.events import (
    CallArguments,
    CallStarted,
    Done,
    Event,
    Failed,
    Finish,
    Quota,
    Reads,
    Reasoning,
    Started,
    Text,
    Trouble,
    Usage,
    Window,
)
from olp.providers.base import CloseInput, Exit, Halt, Step, Write, ended, login_hint, tried
from olp.providers.claude_bridge import SERVER
from olp.providers.claude_facts import (
    FACTS,
    KINDS,
    MODEL_LIMITS,
    PATTERNS,
    SCHEMA_TOOL,
    usage_of,
)
from olp.providers.notices import by_status, classify, http_status, reset_time
from olp.providers.toolnames import Names
from olp.providers.wire import is_json, parse_line

_MISMATCH = Failed(Trouble.FORMAT_MISMATCH, "the model did not keep to the schema")


class Driver:
    """The protocol of one `claude -p` run. `names` are those of the client's tools; `continued`
    says that it begins in the middle of the CLI's own run, with the results of such tools."""

    def __init__(
        self,
        prompt: str,
        *,
        structured: bool,
        now: datetime,
        names: Names | None = None,
        continued: bool = False,
    ) -> None:
        # A prompt that begins with a slash is taken for a command, whatever the flags say; after
        # a newline it is text.
        self._prompt = f"\n{prompt}" if prompt.lstrip().startswith("/") else prompt
        self._structured = structured
        self._now = now
        self._names = names or Names()
        self._continued = continued
        self._calls = 0
        self._said: list[str] = []
        self._broken = False
        self._schema_call: str | None = None
        self._streamed: list[str] = []
        self._limit: Mapping[str, Any] = {}
        self._complaint: Mapping[str, Any] | None = None
        self._input_usage = self._spent = Usage()
        self._calling = False

    def start(self) -> Sequence[Step]:
        return [Write(self._prompt.encode("utf-8", "replace")), CloseInput()]

    def receive(self, line: str) -> Sequence[Step]:
        message = parse_line(line)
        if message.get("parent_tool_use_id"):
            return []
        if message.get("abandoned_blocks") and self._complaint is None:
            # The vendor's stream broke off, and the CLI is about to ask again by itself.
            return [Failed(Trouble.SPAWN_FAILED, "the vendor's stream broke off"), Halt()]
        match message.get("type"):
            case "stream_event":
                return self._stream_event(message.get("event") or {})
            case "system":
                return self._system(message)
            case "rate_limit_event":
                return self._rate_limit(message.get("rate_limit_info") or {})
            case "assistant":
                return self._assistant(message)
            case "user":
                return self._given(message.get("message") or {})
            case "result":
                return self._result(message)
            case _:
                return []

    def exited(self, exit: Exit) -> Sequence[Event]:
        if self._complaint is not None:
            return [self._failure(self._complaint)]
        told = exit.told("claude")
        known = classify(told, PATTERNS)
        return [self._failure({"result": told}) if known else Failed(Trouble.SPAWN_FAILED, told)]

    # --- lines ---------------------------------------------------------------------------------

    def _system(self, message: Mapping[str, Any]) -> Sequence[Step]:
        match message.get("subtype"):
            case "init":
                tools = message.get("tools") or ()
                extra = [tool for tool in tools if not self._known(tool)]
                servers = (str(s.get("name")) for s in message.get("mcp_servers") or ())
                extra += [name for name in servers if not self._names or name != SERVER]
                if extra:
                    return [
                        ended("claude", f"announced tools of its own: {', '.join(extra)}"),
                        Halt(),
                    ]
                return self._all_offered(tools)
            case "api_retry":
                kind, status = message.get("error"), message.get("error_status")
                text = f"claude would try again after {kind} (status {status})"
                told = {**message, "api_error_status": status, "result": text}
                return [self._failure(told), Halt()]
            case _:
                return []

    def _stream_event(self, event: Mapping[str, Any]) -> Sequence[Step]:
        match event.get("type"):
            case "message_start":
                message = event.get("message") or {}
                self._input_usage = usage_of(message.get("usage") or {})
                return [Started(message.get("model")), self._input_usage]
            case "content_block_start":
                return self._block(event.get("content_block") or {})
            case "content_block_delta":
                return self._delta(event.get("delta") or {})
            case "content_block_stop" if self._calling:
                return self._call_over()
            case "message_delta":
                return self._message_delta(event)
            case _:
                return []

    def _all_offered(self, tools: Sequence[str]) -> Sequence[Step]:
        """The CLI leaves out, without a word, a tool that it does not like."""
        for name in self._names.missing(tools):
            what = f"claude does not take the tool {name!r} as it is described"
            return [Failed(Trouble.INCAPABLE, what, param="tools"), Halt()]
        return []

    def _known(self, tool: str) -> bool:
        return tool in self._names or (self._structured and tool == SCHEMA_TOOL)

    def _block(self, block: Mapping[str, Any]) -> Sequence[Step]:
        if block.get("type") != "tool_use":
            return []
        shown = str(block.get("name"))
        self._calling = shown in self._names
        if not self._calling:
            self._schema_call = block.get("id")
            return [] if self._known(shown) else [tried("claude", shown), Halt()]
        self._said = []
        self._calls += 1
        name = self._names.inward(shown) or shown
        return [CallStarted(self._calls - 1, str(block.get("id")), name)]

    def _arguments(self, piece: str) -> CallArguments:
        self._said.append(piece)
        return CallArguments(self._calls - 1, piece)

    def _call_over(self) -> Sequence[Step]:
        """A call without arguments comes without a word of them. One whose arguments are no JSON is
        for the client to see; the CLI would answer it by itself, and ask again."""
        said, self._said, self._calling = "".join(self._said), [], False
        if not said:
            return [self._arguments("{}")]
        self._broken = self._broken or not is_json(said)
        return []

    def _delta(self, delta: Mapping[str, Any]) -> Sequence[Step]:
        match delta.get("type"):
            case "text_delta" if not self._structured:
                self._streamed.append(str(delta.get("text") or ""))
                return [Text(self._streamed[-1])]
            case "input_json_delta" if self._calling and delta.get("partial_json"):
                return [self._arguments(str(delta["partial_json"]))]
            case "thinking_delta":
                return [Reasoning(delta.get("thinking") or "")]
            case _:
                return []

    def _message_delta(self, event: Mapping[str, Any]) -> Sequence[Step]:
        """At its token limit the CLI would ask for more by itself: a second request. When the model
        calls the client's tools, the answer is over until their results are here."""
        reason = (event.get("delta") or {}).get("stop_reason")
        output = (event.get("usage") or {}).get("output_tokens") or 0
        before = self._input_usage
        usage = self._spent = Usage(before.input, output, before.cached, before.cache_written)
        if reason == "tool_use" and self._calls:
            return [usage, Done(Finish.TOOL_CALLS), *([Halt()] if self._broken else [])]
        if reason not in ("max_tokens", "refusal", "model_context_window_exceeded"):
            return []
        finish = Finish.CONTENT_FILTER if reason == "refusal" else Finish.LENGTH
        return [usage, Done(finish), Halt()]

    def _rate_limit(self, info: Mapping[str, Any]) -> Sequence[Step]:
        self._limit = info
        windows = tuple(
            Window(name, float(window["utilization"]) * 100, window.get("resetsAt"))
            for name, window in (info.get("unifiedWindows") or {}).items()
            if isinstance(window, dict) and isinstance(window.get("utilization"), int | float)
        )
        return [Quota(windows)] if windows else []

    def _assistant(self, message: Mapping[str, Any]) -> Sequence[Step]:
        inner = message.get("message") or {}
        if message.get("error") or inner.get("model") == "<synthetic>":
            text = "".join(
                block.get("text") or ""
                for block in inner.get("content") or ()
                if isinstance(block, dict) and block.get("type") == "text"
            )
            self._complaint = {**message, "result": text}
        return []

    def _given(self, message: Mapping[str, Any]) -> Sequence[Step]:
        """What the model's calls gave. An answer that is not to the schema gives an error, with
        which the CLI would ask again."""
        content = message.get("content")
        for block in content if self._schema_call and isinstance(content, list) else ():
            if block.get("is_error") and block.get("tool_use_id") == self._schema_call:
                return [_MISMATCH, Halt()]
        return []

    def _result(self, result: Mapping[str, Any]) -> Sequence[Step]:
        subtype = result.get("subtype")
        if subtype == "error_max_structured_output_retries":
            return [_MISMATCH]
        if result.get("is_error") or self._complaint is not None:
            return [self._failure({**(self._complaint or {}), **result})]
        if subtype != "success":
            return [Failed(Trouble.SPAWN_FAILED, f"claude ended with {subtype}")]
        usage = usage_of(result.get("usage") or {}, cost=result.get("total_cost_usd"))
        if self._continued:
            # The CLI counts all of its run, of which the part before was told already.
            usage = replace(self._spent, cost=usage.cost)
        rest = self._unstreamed(result)
        failed = any(isinstance(step, Failed) for step in rest)
        return rest if failed else [*rest, *_reads(result), usage, Done(Finish.STOP)]

    def _unstreamed(self, result: Mapping[str, Any]) -> Sequence[Step]:
        """The answer where it did not come as deltas: structured, or from an older CLI."""
        if self._structured:
            value = result.get("structured_output")
            text = result.get("result") or "" if value is None else json.dumps(value)
            return [Text(text)]
        text = str(result.get("result") or "")
        if self._streamed:
            return self._missing("".join(self._streamed), text)
        notice = classify(text, PATTERNS)
        return [self._failure(result)] if notice else [Text(text)]

    def _missing(self, streamed: str, whole: str) -> Sequence[Step]:
        """What the deltas lack: an older CLI repeats a broken stream without streaming, and without
        a word about it."""
        if len(whole) <= len(streamed):
            return []
        if whole.startswith(streamed):
            return [Text(whole[len(streamed) :])]
        return [Failed(Trouble.SPAWN_FAILED, "claude began its answer anew")]

    # --- failures ------------------------------------------------------------------------------

    def _failure(self, told: Mapping[str, Any]) -> Failed:
        """Decided by the HTTP status, then the kind of error, then the limit notice, then words."""
        text = str(told.get("result") or told.get("error") or "no reason given")
        status = told.get("api_error_status")
        trouble = self._trouble(told, status, text)
        limited = trouble in (Trouble.QUOTA_EXHAUSTED, Trouble.RATE_LIMITED)
        return Failed(
            trouble,
            login_hint(FACTS) if trouble is Trouble.AUTH_MISSING else text,
            status if isinstance(status, int) else http_status(text),
            self._resets_at(text) if limited else None,
            model_limit=limited and self._of_one_model(text),
        )

    def _of_one_model(self, text: str) -> bool:
        if self._limit.get("rateLimitType") in MODEL_LIMITS:
            return True
        return re.search(r"\byour (opus|sonnet|haiku|fable)\b[\w. ]* limit", text, re.I) is not None

    def _trouble(self, told: Mapping[str, Any], status: object, text: str) -> Trouble:
        said = classify(text, PATTERNS)
        kind = KINDS.get(str(told.get("error")))
        if status == 429 or kind is Trouble.RATE_LIMITED:
            used_up = told.get("api_error") == "usage_limit_reached" or self._limit.get("resetsAt")
            exhausted = said is Trouble.QUOTA_EXHAUSTED or (used_up and self._rejected())
            return Trouble.QUOTA_EXHAUSTED if exhausted else Trouble.RATE_LIMITED
        if kind is Trouble.QUOTA_EXHAUSTED or said is Trouble.QUOTA_EXHAUSTED:
            return Trouble.QUOTA_EXHAUSTED
        if told.get("terminal_reason") == "prompt_too_long" or said is Trouble.CONTEXT_TOO_LONG:
            return Trouble.CONTEXT_TOO_LONG
        known = by_status(status) if isinstance(status, int) else None
        return known or kind or said or Trouble.UNKNOWN

    def _rejected(self) -> bool:
        return self._limit.get("status") == "rejected"

    def _resets_at(self, text: str) -> float | None:
        resets = self._limit.get("resetsAt") if self._rejected() else None
        return float(resets) if resets else reset_time(text, self._now)


def _reads(result: Mapping[str, Any]) -> list[Reads]:
    """How much the model that answered can read, where no other one was asked beside it."""
    used = result.get("modelUsage")
    told = list(used.values()) if isinstance(used, dict) else []
    tokens = told[0].get("contextWindow") if len(told) == 1 and isinstance(told[0], dict) else None
    return [Reads(tokens)] if type(tokens) is int and tokens > 0 else []
