"""Claude Code: `claude -p` with stream-json output.

It is an agent with a shell, so every launch disables its tools, settings and project files, and the
tools it announces are checked as it answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from olp.model import PRIVATE_DIR, Effort, Launch, Request
from olp.providers.base import ProviderContext, adapted
from olp.providers.claude import survey as claude_survey
from olp.providers.claude.answer import Driver
from olp.providers.claude.bridge import SERVER
from olp.providers.claude.info import (
    BRIDGE,
    ELSEWHERE,
    FLAGS,
    INFO,
    MAX_SCHEMA_ARG,
    PLACES,
    QUIET,
)
from olp.providers.claude.session import EFFORTS, ClaudeSession
from olp.providers.claude.survey import SurveyDriver
from olp.providers.shared.environment import child_environment
from olp.providers.shared.tool_names import Names
from olp.providers.shared.transcript import prompt_of, system_of


class Claude:
    """The provider: how to start the CLI."""

    info = INFO

    def launch(
        self, request: Request, model: str, context: ProviderContext, now: datetime
    ) -> tuple[Launch, Driver]:
        schema = _schema_argument(request)
        own = {**_own(context), "CLAUDE_CODE_MAX_TURNS": "1"}
        if request.max_tokens is not None:
            own["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(request.max_tokens)
        if request.effort is Effort.NONE:
            own["MAX_THINKING_TOKENS"] = "0"
        effort = EFFORTS.get(request.effort) if request.effort else None
        argv = (
            *context.command,
            *FLAGS,
            *("--model", model, "--system-prompt-file", f"{PRIVATE_DIR}/system.md"),
            *(("--json-schema", schema) if schema else ()),
            *(("--effort", effort) if effort else ()),
            *context.config.args,
        )
        system = system_of(request, describe_format=schema is None)
        launch = Launch(
            argv,
            child_environment(context, INFO, own | PLACES),
            files={"system.md": system.encode("utf-8", "replace")},
            leaves=_leaves(context),
        )
        return launch, Driver(prompt_of(request), structured=schema is not None, now=now)

    def session(
        self, context: ProviderContext, request: Request | None = None, model: str = ""
    ) -> tuple[Launch, ClaudeSession]:
        argv = (
            *context.command,
            *claude_survey.FLAGS,
            "--include-partial-messages",
            f"--allowedTools=mcp__{SERVER}",
            *context.config.args,
        )
        env = child_environment(context, INFO, _own(context) | BRIDGE | PLACES)
        return Launch(argv, env, leaves=_leaves(context)), ClaudeSession(_parser)

    def survey(self, context: ProviderContext) -> Sequence[tuple[Launch, SurveyDriver]]:
        argv = (*context.command, *claude_survey.FLAGS, *context.config.args)
        env = child_environment(context, INFO, _own(context) | PLACES)
        return [(Launch(argv, env, leaves=_leaves(context)), SurveyDriver())]

    def probes(self, context: ProviderContext) -> Mapping[str, Launch]:
        env = child_environment(context, INFO, _own(context))
        return {
            "version": Launch((*context.command, "--version"), env),
            "login": Launch((*context.command, "auth", "status", "--json"), env),
        }

    def mocked(self, context: ProviderContext, url: str) -> ProviderContext:
        login = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-dummy"}
        return adapted(context, env={"ANTHROPIC_BASE_URL": url, **login})


def _own(context: ProviderContext) -> dict[str, str]:
    """Variables that every process of this CLI gets."""
    own = dict(QUIET)
    if context.config.login == "own":
        own["CLAUDE_CONFIG_DIR"] = context.own_home
    return own | (ELSEWHERE if "ANTHROPIC_BASE_URL" in context.config.env else {})


def _leaves(context: ProviderContext) -> tuple[str, ...]:
    """Files that a killed process leaves behind: its entry in the CLI's list of running sessions,
    which the next one would have to clean up.
    """
    home = context.own_home if context.config.login == "own" else f"{context.home}/.claude"
    home = context.config.env.get("CLAUDE_CONFIG_DIR", home)
    return (f"{home}/sessions/{{pid}}.*", "/tmp/cc-socks-{uid}/{pid}.sock")


def _schema_argument(request: Request) -> str | None:
    if request.format is None or request.format.schema is None:
        return None
    schema = json.dumps(request.format.schema, separators=(",", ":"))
    return schema if len(schema) <= MAX_SCHEMA_ARG else None


def _parser(structured: bool, now: datetime, names: Names, continued: bool) -> Driver:
    return Driver("", structured=structured, now=now, names=names, continued=continued)


PROVIDER = Claude()
