"""The output protocol of Claude Code.

Its failures look like answers: an assistant message of the model `<synthetic>` and a result with
the subtype `success`. It also retries and continues by itself (after a token limit, after a broken
stream), which would spend quota twice; the driver ends the attempt at that point.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from olp.events import (
    CallArguments,
    CallStarted,
    Done,
    ErrorCode,
    Event,
    Failed,
    Finish,
    Quota,
    Reads,
    Reasoning,
    Started,
    Text,
    Usage,
    Window,
)
from olp.model import Field
from olp.providers.base import CloseInput, Exit, Halt, Step, Write, ended, login_hint, tried
from olp.providers.claude.bridge import SERVER
from olp.providers.claude.info import INFO, SCHEMA_TOOL, usage_of
from olp.providers.claude.notices import (
    CODES,
    KINDS,
    MODEL_LIMITS,
    PATTERNS,
    names_a_model,
    of_large_requests,
    words_of,
)
from olp.providers.shared.notices import (
    LOOKED_AT,
    by_status,
    classify,
    http_status,
    is_blocked,
    is_transport_fault,
    reset_time,
)
from olp.providers.shared.tool_names import Names
from olp.providers.shared.wire import count, is_json, moment, number, parse_line, rows, table, text

_HARMLESS_BLOCKS = ("text", "thinking", "redacted_thinking")
"""Content block types allowed in an answer besides calls of the client's tools."""

_ENDS = ("end_turn", "stop_sequence")

_MISMATCH = Failed(ErrorCode.FORMAT_MISMATCH, "the model did not keep to the schema")


class Driver:
    """The protocol of one `claude -p` run.

    `names` are those of the client's tools. `continued` means that the answer starts in the middle
    of the CLI's run, after the results of such tools.
    """

    def __init__(
        self,
        prompt: str,
        *,
        structured: bool,
        now: datetime,
        names: Names | None = None,
        continued: bool = False,
    ) -> None:
        # A prompt that begins with a slash is parsed as a command whatever the flags; after a
        # newline it is text.
        self._prompt = f"\n{prompt}" if prompt.lstrip().startswith("/") else prompt
        self._structured = structured
        self._now = now
        self._names = names or Names()
        self._continued = continued
        self._calls = 0
        self._call_json: list[str] = []
        self._invalid_arguments = False
        self._schema_call: str | None = None
        self._in_schema_call = False
        self._streamed: list[str] = []
        self._limit: Mapping[str, Any] = {}
        self._error_message: Mapping[str, Any] | None = None
        self._input_usage = self._usage = Usage()
        self._in_client_call = False
        self._vendor_started = False
        self._stop_reason: str | None = None
        self._schema_json: list[str] = []

    def start(self) -> Sequence[Step]:
        return [Write(self._prompt.encode("utf-8", "replace")), CloseInput()]

    def receive(self, line: str) -> Sequence[Step]:
        message = parse_line(line)
        if message.get("parent_tool_use_id"):
            return []
        if message.get("abandoned_blocks") and self._error_message is None:
            # The vendor's stream broke off, and the CLI is about to retry.
            return [Failed(ErrorCode.VENDOR_CUT, "the vendor's stream broke off"), Halt()]
        match message.get("type"):
            case "stream_event":
                return self._stream_event(table(message.get("event")))
            case "system":
                return self._system(message)
            case "rate_limit_event":
                return self._rate_limit(table(message.get("rate_limit_info")))
            case "assistant":
                return self._assistant(message)
            case "user":
                return self._tool_results(table(message.get("message")))
            case "result":
                return self._result(message)
            case _:
                return []

    def exited(self, exit: Exit) -> Sequence[Event]:
        if self._error_message is not None:
            return [self._failure(self._error_message)]
        reason = exit.told("claude")
        known = classify(reason, PATTERNS)
        return [
            self._failure({"result": reason}) if known else Failed(ErrorCode.SPAWN_FAILED, reason)
        ]

    # --- lines ---------------------------------------------------------------------------------

    def _system(self, message: Mapping[str, Any]) -> Sequence[Step]:
        match message.get("subtype"):
            case "init":
                return self._check_init(message)
            case "status" if message.get("status") == "requesting" and self._vendor_started:
                return self._unexpected_request()
            case "api_retry":
                kind, status = message.get("error"), message.get("error_status")
                text = f"claude would try again after {kind} (status {status})"
                failure = {**message, "api_error_status": status, "result": text}
                return [self._failure(failure), Halt()]
            case _:
                return []

    def _check_init(self, init: Mapping[str, Any]) -> Sequence[Step]:
        """Fail if the CLI announces tools other than the client's."""
        listed = init.get("tools")
        tools = [str(tool) for tool in listed] if isinstance(listed, list) else []
        extra = [tool for tool in tools if not self._is_offered(tool)]
        servers = (str(server.get("name")) for server in rows(init.get("mcp_servers")))
        extra += [name for name in servers if not self._names or name != SERVER]
        if extra:
            return [ended("claude", f"announced tools of its own: {', '.join(extra)}"), Halt()]
        return self._check_dropped(tools)

    def _stream_event(self, event: Mapping[str, Any]) -> Sequence[Step]:
        match event.get("type"):
            case "message_start":
                return self._message_start(table(event.get("message")))
            case "content_block_start":
                return self._block_start(table(event.get("content_block")))
            case "content_block_delta":
                return self._delta(table(event.get("delta")))
            case "content_block_stop":
                self._in_schema_call = False
                return self._call_end() if self._in_client_call else []
            case "message_delta":
                return self._message_delta(event)
            case _:
                return []

    def _message_start(self, message: Mapping[str, Any]) -> Sequence[Step]:
        """The vendor begins to answer."""
        if self._vendor_started:
            return self._unexpected_request()
        self._vendor_started = True
        self._input_usage = usage_of(table(message.get("usage")))
        return [Started(text(message.get("model"))), self._input_usage]

    def _unexpected_request(self) -> Sequence[Step]:
        """The CLI sends another request to its vendor, without results of the client's tools, for a
        reason that no other rule covers. It reports this some milliseconds before it does.
        """
        if self._stop_reason in _ENDS:
            return [self._usage, Done(Finish.STOP), Halt()]
        return [ended("claude", "asked its vendor a second time"), Halt()]

    def _check_dropped(self, tools: Sequence[str]) -> Sequence[Step]:
        """Fail for tools that the CLI silently dropped."""
        for name in self._names.missing(tools):
            what = f"claude does not take the tool {name!r} as it is described"
            return [Failed(ErrorCode.INCAPABLE, what, field=Field.TOOLS), Halt()]
        return []

    def _is_offered(self, tool: str) -> bool:
        return tool in self._names or (self._structured and tool == SCHEMA_TOOL)

    def _block_start(self, block: Mapping[str, Any]) -> Sequence[Step]:
        kind, shown = block.get("type"), str(block.get("name"))
        if kind in _HARMLESS_BLOCKS:
            return []
        if kind != "tool_use":
            return [tried("claude", shown if block.get("name") else str(kind)), Halt()]
        self._in_client_call = shown in self._names
        if not self._in_client_call:
            # The arguments of the schema tool are the answer; of two such calls the first
            # counts.
            self._in_schema_call = self._schema_call is None and self._is_offered(shown)
            if self._schema_call is None:
                self._schema_call = text(block.get("id")) or ""
            return [] if self._is_offered(shown) else [tried("claude", shown), Halt()]
        self._call_json = []
        self._calls += 1
        name = self._names.inward(shown) or shown
        return [CallStarted(self._calls - 1, str(block.get("id")), name)]

    def _arguments(self, piece: str) -> CallArguments:
        self._call_json.append(piece)
        return CallArguments(self._calls - 1, piece)

    def _call_end(self) -> Sequence[Step]:
        """Finish a call of a client's tool.

        Without arguments the CLI sends no delta at all. Arguments that are not valid JSON are
        passed on to the client; the CLI would answer the call itself and ask the vendor again.
        """
        arguments, self._call_json, self._in_client_call = "".join(self._call_json), [], False
        if not arguments:
            return [self._arguments("{}")]
        self._invalid_arguments = self._invalid_arguments or not is_json(arguments)
        return []

    def _delta(self, delta: Mapping[str, Any]) -> Sequence[Step]:
        match delta.get("type"):
            case "text_delta":
                piece = text(delta.get("text")) or ""
                self._streamed.append(piece)
                return [] if self._structured else [Text(piece)]
            case "input_json_delta":
                return self._json_delta(text(delta.get("partial_json")) or "")
            case "thinking_delta":
                return [Reasoning(text(delta.get("thinking")) or "")]
            case _:
                return []

    def _json_delta(self, piece: str) -> Sequence[Step]:
        """A piece of a call's arguments, or of the structured answer."""
        if not piece:
            return []
        if self._in_client_call:
            return [self._arguments(piece)]
        if self._in_schema_call:
            self._schema_json.append(piece)
            return [Text(piece)]
        return []

    def _message_delta(self, event: Mapping[str, Any]) -> Sequence[Step]:
        """Handle the stop reason of the vendor's answer.

        The CLI would retry by itself after a token limit, an empty answer, an answer that does not
        match the schema, and a `tool_use` stop without a call. When the model calls the client's
        tools, the answer is over until their results arrive.
        """
        reason = table(event.get("delta")).get("stop_reason")
        output = count(table(event.get("usage")).get("output_tokens"))
        before = self._input_usage
        usage = self._usage = Usage(before.input, output, before.cached, before.cache_written)
        self._stop_reason = reason if isinstance(reason, str) else None
        match reason:
            case "tool_use" if self._calls:
                return [
                    usage,
                    Done(Finish.TOOL_CALLS),
                    *([Halt()] if self._invalid_arguments else []),
                ]
            case "tool_use" if self._schema_call is None:
                return [ended("claude", "got a call that is none", by_model=True), Halt()]
            case "max_tokens" | "model_context_window_exceeded":
                return [*self._unstructured_text(), usage, Done(Finish.LENGTH), Halt()]
            case "refusal":
                return [*self._unstructured_text(), usage, Done(Finish.CONTENT_FILTER), Halt()]
            case "end_turn" | "stop_sequence" if self._would_retry:
                return [*self._unstructured_text(), usage, Done(Finish.STOP), Halt()]
        return []

    @property
    def _would_retry(self) -> bool:
        """Whether the CLI would retry although the vendor ended the answer."""
        if self._structured:
            return self._schema_call is None
        return not "".join(self._streamed).strip()

    def _unstructured_text(self) -> Sequence[Step]:
        """The plain text of an answer that should have come through the schema tool and did not: it
        may still be what the client wanted.
        """
        streamed = "".join(self._streamed)
        return [Text(streamed)] if self._structured and streamed and not self._schema_json else []

    def _rate_limit(self, info: Mapping[str, Any]) -> Sequence[Step]:
        self._limit = info
        windows = tuple(
            Window(str(name), used * 100, moment(table(window).get("resetsAt")))
            for name, window in table(info.get("unifiedWindows")).items()
            if (used := number(table(window).get("utilization"))) is not None and used >= 0
        )
        return [Quota(windows)] if windows else []

    def _assistant(self, message: Mapping[str, Any]) -> Sequence[Step]:
        """The complete message that was streamed before, or a failure that looks like one."""
        inner = table(message.get("message"))
        blocks = rows(inner.get("content"))
        if message.get("error") or inner.get("model") == "<synthetic>":
            content = "".join(text(b.get("text")) or "" for b in blocks if b.get("type") == "text")
            self._error_message = {**message, "result": content}
            return []
        for block in blocks:
            kind, name = block.get("type"), str(block.get("name"))
            if kind not in _HARMLESS_BLOCKS and not (kind == "tool_use" and self._is_offered(name)):
                return [tried("claude", name if block.get("name") else str(kind)), Halt()]
        return []

    def _tool_results(self, message: Mapping[str, Any]) -> Sequence[Step]:
        """Check the results of the model's calls. An answer that does not match the schema yields
        an error result, after which the CLI would retry.
        """
        for block in rows(message.get("content")) if self._schema_call is not None else ():
            if block.get("is_error") and block.get("tool_use_id") == self._schema_call:
                return [*self._schema_mismatch(), Halt()]
        return []

    def _schema_mismatch(self) -> Sequence[Step]:
        """End with the answer as it is, if there is one: the caller validates it."""
        return [self._usage, Done(Finish.STOP)] if self._schema_json else [_MISMATCH]

    def _result(self, result: Mapping[str, Any]) -> Sequence[Step]:
        subtype = result.get("subtype")
        if subtype == "error_max_structured_output_retries":
            return self._schema_mismatch()
        if subtype == "error_max_turns" and self._structured:
            return [*self._unstructured_text(), self._usage, Done(Finish.STOP)]
        if result.get("is_error") or self._error_message is not None:
            return [self._failure({**(self._error_message or {}), **result})]
        if subtype != "success":
            return [Failed(ErrorCode.SPAWN_FAILED, f"claude ended with {subtype}")]
        usage = usage_of(table(result.get("usage")), cost=number(result.get("total_cost_usd")))
        if self._continued:
            # The CLI counts its whole run, of which the earlier part was reported before.
            usage = replace(self._usage, cost=usage.cost)
        rest = self._unstreamed(result)
        failed = any(isinstance(step, Failed) for step in rest)
        return rest if failed else [*rest, *_context_window(result), usage, Done(Finish.STOP)]

    def _unstreamed(self, result: Mapping[str, Any]) -> Sequence[Step]:
        """The answer where it was not streamed: structured output, or an older CLI."""
        answer = text(result.get("result")) or ""
        if self._structured:
            value = result.get("structured_output")
            whole = answer if value is None else json.dumps(value)
            return [] if self._schema_json else [Text(whole)]
        if any(self._streamed):
            return self._missing_text("".join(self._streamed), answer)
        return [self._failure(result)] if classify(words_of(answer), PATTERNS) else [Text(answer)]

    def _missing_text(self, streamed: str, whole: str) -> Sequence[Step]:
        """The text missing from the deltas: an older CLI silently repeats a broken stream without
        streaming it.
        """
        if len(whole) <= len(streamed):
            return []
        if whole.startswith(streamed):
            return [Text(whole[len(streamed) :])]
        return [Failed(ErrorCode.VENDOR_CUT, "claude began its answer anew")]

    # --- failures ------------------------------------------------------------------------------

    def _failure(self, message: Mapping[str, Any]) -> Failed:
        """Classify a failure: by HTTP status, then error kind, then limit notice, then wording."""
        reason = text(message.get("result")) or text(message.get("error")) or "no reason given"
        reason = reason[:LOOKED_AT]
        words = words_of(reason)
        status = message.get("api_error_status")
        status = status if type(status) is int and 100 <= status < 600 else http_status(reason)
        error_code = self._error_code(message, status, words)
        limited = error_code in (ErrorCode.QUOTA_EXHAUSTED, ErrorCode.RATE_LIMITED)
        return Failed(
            error_code,
            login_hint(INFO) if error_code is ErrorCode.AUTH_MISSING else reason,
            status,
            self._resets_at(reason) if limited else None,
            model_limit=limited and self._is_model_limit(words),
            request_limit=limited and of_large_requests(words),
        )

    def _is_model_limit(self, words: str) -> bool:
        kind = self._limit.get("rateLimitType") if self._rejected() else None
        return kind in MODEL_LIMITS or names_a_model(words)

    def _error_code(self, message: Mapping[str, Any], status: int | None, words: str) -> ErrorCode:
        code = CODES.get(str(message.get("api_error")))
        by_text = code or classify(words, PATTERNS)
        kind = code or KINDS.get(str(message.get("error")))
        if status == 403 and (is_blocked(words) or by_text is ErrorCode.SPAWN_FAILED):
            return ErrorCode.SPAWN_FAILED
        if status == 429 or kind is ErrorCode.RATE_LIMITED:
            used_up = self._limit.get("resetsAt") and self._rejected()
            exhausted = by_text is ErrorCode.QUOTA_EXHAUSTED or used_up
            busy = (
                ErrorCode.OVERLOADED if by_text is ErrorCode.OVERLOADED else ErrorCode.RATE_LIMITED
            )
            return ErrorCode.QUOTA_EXHAUSTED if exhausted else busy
        if kind is ErrorCode.QUOTA_EXHAUSTED or by_text is ErrorCode.QUOTA_EXHAUSTED:
            return ErrorCode.QUOTA_EXHAUSTED
        if (
            message.get("terminal_reason") == "prompt_too_long"
            or by_text is ErrorCode.CONTEXT_TOO_LONG
        ):
            return ErrorCode.CONTEXT_TOO_LONG
        known = by_status(status) or kind or by_text
        if known is None and is_transport_fault(words):
            known = ErrorCode.SPAWN_FAILED
        # The CLI is alive and reports a failure after text: the answer so far is incomplete.
        vague = known is ErrorCode.OVERLOADED and by_text is not known and status is None
        cut = self._vendor_started and (vague or known in (None, ErrorCode.SPAWN_FAILED))
        return ErrorCode.VENDOR_CUT if cut else known or ErrorCode.UNKNOWN

    def _rejected(self) -> bool:
        return self._limit.get("status") == "rejected"

    def _resets_at(self, reason: str) -> float | None:
        resets = moment(self._limit.get("resetsAt")) if self._rejected() else None
        return resets or reset_time(reason, self._now)


def _context_window(result: Mapping[str, Any]) -> list[Reads]:
    """The context window of the model that answered, unless other models were used as well."""
    used = result.get("modelUsage")
    models = list(used.values()) if isinstance(used, dict) else []
    tokens = (
        models[0].get("contextWindow") if len(models) == 1 and isinstance(models[0], dict) else None
    )
    return [Reads(tokens)] if type(tokens) is int and tokens > 0 else []
