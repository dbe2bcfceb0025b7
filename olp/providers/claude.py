"""Claude Code: `claude -p` with stream-json output.

Three things about this CLI shape the file. It is an agent with a shell, so every launch takes away
its tools, settings and project files, and the driver checks the tool list that it announces. It
retries and continues by itself (after a limit of tokens, after a broken stream), which would spend
the quota twice, so such a moment ends the attempt. And its failures look like answers: an
assistant message of the model `<synthetic>` and a result that says `success`.
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
    Reasoning,
    Started,
    Text,
    Trouble,
    Usage,
    Window,
)
from olp.model import PRIVATE_DIR, Ability, Effort, Launch, Request
from olp.providers import claude_survey
from olp.providers.base import (
    CloseInput,
    Exit,
    Facts,
    Halt,
    Setting,
    Step,
    Write,
    adapted,
    child_environment,
    login_hint,
    parse_line,
)
from olp.providers.claude_bridge import SERVER
from olp.providers.claude_session import EFFORTS, ClaudeSession
from olp.providers.claude_survey import SurveyDriver
from olp.providers.notices import Patterns, by_status, classify, http_status, reset_time
from olp.providers.toolnames import Names
from olp.providers.transcript import prompt_of, system_of

FACTS = Facts(
    name="claude",
    rank=1,
    title="Claude Code",
    program="claude",
    install="npm install -g @anthropic-ai/claude-code@latest",
    login="claude auth login",
    tested=("2.1.300", "2.1.332"),
    models=("sonnet", "opus", "haiku"),
    aliases=("sonnet", "opus", "haiku"),
    keeps_max_tokens=True,
    user_login=(".claude/.credentials.json",),
    passes=("CLAUDE_CODE_OAUTH_TOKEN",),
    windows=("five_hour", "seven_day", "credits"),
    can=tuple(Ability),
)

_FLAGS = (
    *("-p", "--output-format", "stream-json", "--include-partial-messages", "--verbose"),
    *("--tools", "", "--setting-sources=", "--strict-mcp-config", "--disable-slash-commands"),
    *("--no-session-persistence", "--permission-mode", "dontAsk"),
)

_QUIET = {
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_RETRY": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_MODEL_ACCESS_FALLBACK": "1",
    "CLAUDE_CODE_NO_MODEL_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_DISABLE_TERMINAL_TITLE": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "ENABLE_CLAUDEAI_MCP_SERVERS": "false",
    "DISABLE_AUTO_COMPACT": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}

_DAY_MS = "86400000"

_BRIDGE = {
    "ENABLE_TOOL_SEARCH": "false",
    "ENABLE_MCP_LARGE_OUTPUT_FILES": "false",
    "MAX_MCP_OUTPUT_TOKENS": "10000000",
    "CLAUDE_CODE_MAX_MCP_DESCRIPTION_LENGTH": "1000000",
    "CLAUDE_CODE_DISABLE_MCP_TASKS": "1",
    "CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS": "0",
    "CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT": _DAY_MS,
    "CLAUDE_CODE_SDK_MCP_TOOL_IDLE_TIMEOUT": _DAY_MS,
    "MCP_TOOL_TIMEOUT": _DAY_MS,
}
"""The client's tools as they are: neither their texts nor their results are cut or put into files,
and a call waits for as long as OLP does."""

MAX_SCHEMA_ARG = 32_000
"""Bytes of a JSON Schema that may stand in argv, well under Linux's 128 KiB for one argument."""

_SCHEMA_TOOL = "StructuredOutput"

_PATTERNS: Patterns = (
    (r"not your usage limit|temporarily limiting requests", Trouble.RATE_LIMITED),
    (r"^you've (hit|reached) your\b.*\blimit", Trouble.QUOTA_EXHAUSTED),
    (r"^you're out of (extra )?usage|^your org is out of usage", Trouble.QUOTA_EXHAUSTED),
    (r"^claude ai usage limit reached|^\d+-hour limit reached", Trouble.QUOTA_EXHAUSTED),
    (r"credit balance is too low|usage credits required", Trouble.QUOTA_EXHAUSTED),
    (r"requires usage credits|spend(ing)? limit", Trouble.QUOTA_EXHAUSTED),
    (r"your seat type doesn't include|usage allocation has been disabled", Trouble.QUOTA_EXHAUSTED),
    (r"your group's usage limit is set to", Trouble.QUOTA_EXHAUSTED),
    (r"please run /login|not logged in|invalid api key|oauth token", Trouble.AUTH_MISSING),
    (r"failed to authenticate|could not resolve authentication", Trouble.AUTH_MISSING),
    (r"disabled claude subscription access|disabled organization", Trouble.AUTH_MISSING),
    (r"prompt is too long|request too large", Trouble.CONTEXT_TOO_LONG),
    (r"^(image was|pdf) too large|^api error: .* can't help with this", Trouble.BAD_REQUEST),
    (r"issue with the selected model|is not available with the claude", Trouble.MODEL_NOT_FOUND),
    (r"unrecognized_model", Trouble.MODEL_NOT_FOUND),
    (r"request rejected \(429\)", Trouble.RATE_LIMITED),
    (r"overloaded|api error: 5\d\d", Trouble.OVERLOADED),
    (r"request timed out|may be incomplete|connection error", Trouble.SPAWN_FAILED),
    (r"isn't available in this environment", Trouble.SPAWN_FAILED),
)

_KINDS = {
    "rate_limit": Trouble.RATE_LIMITED,
    "billing_error": Trouble.QUOTA_EXHAUSTED,
    "authentication_failed": Trouble.AUTH_MISSING,
    "oauth_org_not_allowed": Trouble.AUTH_MISSING,
    "account_on_hold": Trouble.AUTH_MISSING,
    "model_not_found": Trouble.MODEL_NOT_FOUND,
    "overloaded": Trouble.OVERLOADED,
    "server_error": Trouble.OVERLOADED,
    "invalid_request": Trouble.BAD_REQUEST,
}

_MODEL_LIMITS = ("seven_day_opus", "seven_day_sonnet")


class Claude:
    """The provider: how to start the CLI."""

    facts = FACTS

    def launch(
        self, request: Request, model: str, setting: Setting, now: datetime
    ) -> tuple[Launch, Driver]:
        schema = _schema_argument(request)
        own: dict[str, str] = dict(_QUIET)
        if setting.config.login == "own":
            own["CLAUDE_CONFIG_DIR"] = setting.own_home
        if request.max_tokens is not None:
            own["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(request.max_tokens)
        if request.effort is Effort.NONE:
            own["MAX_THINKING_TOKENS"] = "0"
        effort = EFFORTS.get(request.effort) if request.effort else None
        argv = (
            *setting.command,
            *_FLAGS,
            *("--model", model, "--system-prompt-file", f"{PRIVATE_DIR}/system.md"),
            *(("--json-schema", schema) if schema else ()),
            *(("--effort", effort) if effort else ()),
            *setting.config.args,
        )
        system = system_of(request, describe_format=schema is None)
        launch = Launch(
            argv,
            child_environment(setting, FACTS, own),
            files={"system.md": system.encode("utf-8", "replace")},
        )
        return launch, Driver(prompt_of(request), structured=schema is not None, now=now)

    def session(self, setting: Setting) -> tuple[Launch, ClaudeSession]:
        own = {"CLAUDE_CONFIG_DIR": setting.own_home} if setting.config.login == "own" else {}
        argv = (
            *setting.command,
            *claude_survey.FLAGS,
            "--include-partial-messages",
            f"--allowedTools=mcp__{SERVER}",
            *setting.config.args,
        )
        launch = Launch(argv, child_environment(setting, FACTS, _QUIET | _BRIDGE | own))
        return launch, ClaudeSession(_parser)

    def survey(self, setting: Setting) -> Sequence[tuple[Launch, SurveyDriver]]:
        own = {"CLAUDE_CONFIG_DIR": setting.own_home} if setting.config.login == "own" else {}
        argv = (*setting.command, *claude_survey.FLAGS, *setting.config.args)
        launch = Launch(argv, child_environment(setting, FACTS, _QUIET | own))
        return [(launch, SurveyDriver())]

    def probes(self, setting: Setting) -> Mapping[str, Launch]:
        own = {"CLAUDE_CONFIG_DIR": setting.own_home} if setting.config.login == "own" else {}
        env = child_environment(setting, FACTS, _QUIET | own)
        return {
            "version": Launch((*setting.command, "--version"), env),
            "login": Launch((*setting.command, "auth", "status", "--json"), env),
        }

    def mocked(self, setting: Setting, url: str) -> Setting:
        login = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-dummy"}
        return adapted(setting, env={"ANTHROPIC_BASE_URL": url, **login})


def _schema_argument(request: Request) -> str | None:
    if request.format is None or request.format.schema is None:
        return None
    schema = json.dumps(request.format.schema, separators=(",", ":"))
    return schema if len(schema) <= MAX_SCHEMA_ARG else None


def _parser(structured: bool, now: datetime, names: Names, continued: bool) -> Driver:
    return Driver("", structured=structured, now=now, names=names, continued=continued)


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
        self._unfinished = False
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
            case "result":
                return self._result(message)
            case _:
                return []

    def exited(self, exit: Exit) -> Sequence[Event]:
        if self._complaint is not None:
            return [self._failure(self._complaint)]
        told = exit.told("claude")
        known = classify(told, _PATTERNS)
        return [self._failure({"result": told}) if known else Failed(Trouble.SPAWN_FAILED, told)]

    # --- lines ---------------------------------------------------------------------------------

    def _system(self, message: Mapping[str, Any]) -> Sequence[Step]:
        match message.get("subtype"):
            case "init":
                extra = [t for t in message.get("tools") or () if not self._known(t)]
                servers = (str(s.get("name")) for s in message.get("mcp_servers") or ())
                extra += [name for name in servers if not self._names or name != SERVER]
                return [_unsafe(f"announced tools of its own: {', '.join(extra)}")] if extra else []
            case "api_retry":
                kind, status = message.get("error"), message.get("error_status")
                text = f"claude would try again after {kind} (status {status})"
                return [
                    self._failure({**message, "api_error_status": status, "result": text}),
                    Halt(),
                ]
            case _:
                return []

    def _stream_event(self, event: Mapping[str, Any]) -> Sequence[Step]:
        match event.get("type"):
            case "message_start":
                message = event.get("message") or {}
                self._input_usage = _usage(message.get("usage") or {})
                return [Started(message.get("model")), self._input_usage]
            case "content_block_start":
                return self._block(event.get("content_block") or {})
            case "content_block_delta":
                return self._delta(event.get("delta") or {})
            case "content_block_stop" if self._unfinished:
                # A call without arguments comes without a word of them.
                self._unfinished = False
                return [CallArguments(self._calls - 1, "{}")]
            case "message_delta":
                return self._message_delta(event)
            case _:
                return []

    def _known(self, tool: str) -> bool:
        return tool in self._names or (self._structured and tool == _SCHEMA_TOOL)

    def _block(self, block: Mapping[str, Any]) -> Sequence[Step]:
        if block.get("type") != "tool_use":
            return []
        shown = str(block.get("name"))
        self._calling = shown in self._names
        if not self._calling:
            return [] if self._known(shown) else [_unsafe(f"tried its own tool {shown}")]
        self._unfinished = True
        self._calls += 1
        name = self._names.inward(shown) or shown
        return [CallStarted(self._calls - 1, str(block.get("id")), name)]

    def _delta(self, delta: Mapping[str, Any]) -> Sequence[Step]:
        match delta.get("type"):
            case "text_delta" if not self._structured:
                self._streamed.append(str(delta.get("text") or ""))
                return [Text(self._streamed[-1])]
            case "input_json_delta" if self._calling and delta.get("partial_json"):
                self._unfinished = False
                return [CallArguments(self._calls - 1, str(delta["partial_json"]))]
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
            return [usage, Done(Finish.TOOL_CALLS)]
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

    def _result(self, result: Mapping[str, Any]) -> Sequence[Step]:
        if result.get("is_error") or self._complaint is not None:
            return [self._failure({**(self._complaint or {}), **result})]
        subtype = result.get("subtype")
        if subtype == "error_max_structured_output_retries":
            return [Failed(Trouble.FORMAT_MISMATCH, "the model did not keep to the schema")]
        if subtype != "success":
            return [Failed(Trouble.SPAWN_FAILED, f"claude ended with {subtype}")]
        usage = _usage(result.get("usage") or {}, cost=result.get("total_cost_usd"))
        if self._continued:
            # The CLI counts all of its run, of which the part before was told already.
            usage = replace(self._spent, cost=usage.cost)
        rest = self._unstreamed(result)
        failed = any(isinstance(step, Failed) for step in rest)
        return rest if failed else [*rest, usage, Done(Finish.STOP)]

    def _unstreamed(self, result: Mapping[str, Any]) -> Sequence[Step]:
        """The answer where it did not come as deltas: structured, or from an older CLI."""
        if self._structured:
            value = result.get("structured_output")
            text = result.get("result") or "" if value is None else json.dumps(value)
            return [Text(text)]
        text = str(result.get("result") or "")
        if self._streamed:
            return self._missing("".join(self._streamed), text)
        notice = classify(text, _PATTERNS)
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
        if self._limit.get("rateLimitType") in _MODEL_LIMITS:
            return True
        return re.search(r"\byour (opus|sonnet|haiku|fable)\b[\w. ]* limit", text, re.I) is not None

    def _trouble(self, told: Mapping[str, Any], status: object, text: str) -> Trouble:
        said = classify(text, _PATTERNS)
        kind = _KINDS.get(str(told.get("error")))
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


def _unsafe(what: str) -> Failed:
    return Failed(Trouble.SPAWN_FAILED, f"claude {what}; OLP ended it")


def _usage(usage: Mapping[str, Any], cost: float | None = None) -> Usage:
    cached = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    details = usage.get("output_tokens_details") or {}
    return Usage(
        input=(usage.get("input_tokens") or 0) + cached + written,
        output=usage.get("output_tokens") or 0,
        cached=cached,
        cache_written=written,
        reasoning=details.get("thinking_tokens") or 0,
        cost=cost,
    )


PROVIDER = Claude()
