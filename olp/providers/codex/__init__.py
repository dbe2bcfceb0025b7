"""OpenAI Codex: `codex exec --json`, and `codex app-server`.

Even its read-only sandbox runs commands, so every feature that can act is disabled by name, and any
item other than text ends the process. It runs in a private CODEX_HOME: the user's own AGENTS.md
would otherwise be sent to the vendor with every request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from olp import __version__
from olp.model import PRIVATE_DIR, Effort, Launch, Request
from olp.providers.base import Driver as BaseDriver
from olp.providers.base import ProviderContext, adapted
from olp.providers.codex.answer import Driver
from olp.providers.codex.info import INFO, NO_SYSTEM
from olp.providers.codex.items import strict_schema
from olp.providers.codex.session import CodexSession
from olp.providers.codex.survey import CATALOGUE, CatalogueDriver, LimitsDriver
from olp.providers.codex.vendor import asked_once
from olp.providers.shared.environment import child_environment, login_link
from olp.providers.shared.transcript import prompt_of, system_of

_OFF = (
    *("shell_tool", "unified_exec", "plugins", "apps", "hooks", "memories", "multi_agent"),
    *("multi_agent_v2", "goals", "skill_search", "view_image", "image_generation"),
    *("tool_suggest", "code_mode_host", "browser_use", "computer_use", "in_app_browser"),
    "shell_snapshot",
)

_CONFIG = (
    'web_search="disabled"',
    "project_doc_max_bytes=0",
    "skills.include_instructions=false",
    "include_permissions_instructions=false",
    "include_environment_context=false",
    "include_apps_instructions=false",
    "include_collaboration_mode_instructions=false",
    "agents.enabled=false",
    "tools.experimental_request_user_input.enabled=false",
    "tool_output_token_limit=10000000",
    "analytics.enabled=false",
    "check_for_update_on_startup=false",
    'cli_auth_credentials_store="file"',
    'model_verbosity="medium"',
)

_FLAGS = (
    *("exec", "--json", "--skip-git-repo-check", "--ephemeral", "--ignore-user-config"),
    *("--ignore-rules", "-s", "read-only", "--color", "never"),
    *(word for feature in _OFF for word in ("--disable", feature)),
    *(word for context in _CONFIG for word in ("-c", context)),
    *("-c", f'model_instructions_file="{PRIVATE_DIR}/system.md"'),
)

_EFFORTS = {
    Effort.NONE: "none",
    Effort.MINIMAL: "minimal",
    Effort.LOW: "low",
    Effort.MEDIUM: "medium",
    Effort.HIGH: "high",
    Effort.XHIGH: "xhigh",
}


class Codex:
    """The provider: how to start the CLI."""

    info = INFO

    def launch(
        self, request: Request, model: str, context: ProviderContext, now: datetime
    ) -> tuple[Launch, Driver]:
        effort = _EFFORTS[request.effort] if request.effort else None
        schema = strict_schema(request)
        system = system_of(request, describe_format=schema is None) or NO_SYSTEM
        files = {"system.md": system.encode("utf-8", "replace")}
        if schema is not None:
            files["schema.json"] = json.dumps(schema).encode()
        argv = (
            *context.command,
            *_FLAGS,
            *_catalogue(context),
            *(("-c", f'model_reasoning_effort="{effort}"') if effort else ()),
            *(("--output-schema", f"{PRIVATE_DIR}/schema.json") if schema is not None else ()),
            *("-m", model),
            *context.config.args,
            *asked_once(context.config.args),
            "-",
        )
        launch = Launch(argv, _environment(context), files=files, links=_links(context))
        return launch, Driver(prompt_of(request), now=now)

    def session(
        self, context: ProviderContext, request: Request | None = None, model: str = ""
    ) -> tuple[Launch, CodexSession]:
        argv = (
            *context.command,
            "app-server",
            *(word for feature in _OFF for word in ("--disable", feature)),
            *(word for option in _CONFIG for word in ("-c", option)),
            *_catalogue(context),
            *context.config.args,
            *asked_once(context.config.args),
        )
        launch = Launch(argv, _environment(context), links=_links(context))
        return launch, CodexSession(__version__, context.work)

    def survey(self, context: ProviderContext) -> Sequence[tuple[Launch, BaseDriver]]:
        env, links = _environment(context), _links(context)
        catalogue = (*context.command, "debug", "models", "--bundled")
        off = (word for feature in _OFF for word in ("--disable", feature))
        quiet = ("-c", "analytics.enabled=false", "-c", 'cli_auth_credentials_store="file"')
        server = (*context.command, "app-server", *off, *quiet)
        return [
            (Launch(catalogue, env, links=links), CatalogueDriver()),
            (Launch(server, env, links=links), LimitsDriver(__version__)),
        ]

    def probes(self, context: ProviderContext) -> Mapping[str, Launch]:
        env, links = _environment(context), _links(context)
        return {
            "version": Launch((*context.command, "--version"), env, links=links),
            "login": Launch((*context.command, "login", "status"), env, links=links),
        }

    def mocked(self, context: ProviderContext, url: str) -> ProviderContext:
        mock = f'{{name="mock",base_url="{url}/v1",env_key="MOCK_KEY",wire_api="responses"}}'
        args = ("-c", "model_provider=mock", "-c", f"model_providers.mock={mock}")
        return adapted(context, env={"MOCK_KEY": "dummy"}, args=args)


def _environment(context: ProviderContext) -> dict[str, str]:
    return child_environment(
        context, INFO, {"CODEX_HOME": f"{PRIVATE_DIR}/home", "CODEX_EXEC_SERVER_URL": "none"}
    )


def _catalogue(context: ProviderContext) -> tuple[str, ...]:
    """The argument that gives the CLI its own model list with the built-in tools removed. Some
    models otherwise require a set of tools that adds 20 kB to each request.
    """
    path = context.kept.get(CATALOGUE)
    return ("-c", f"model_catalog_json={json.dumps(path)}") if path else ()


def _links(context: ProviderContext) -> dict[str, str]:
    return login_link(context, "CODEX_HOME", ".codex", "auth.json")


PROVIDER = Codex()
