"""The three CLIs started by hand, with the lean and locked flags, against the mock vendors.

Tests of the bench itself use this, and so does anybody who wants to look at a CLI without the
server in between. It is kept apart from the product's drivers on purpose: it shows what the CLIs
do, and a mistake in a driver must not be able to hide in it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .install import Found
from .vendors.client import Vendors

SYSTEM = "You are a helpful assistant."
CODEX_OFF = (
    "shell_tool",
    "unified_exec",
    "plugins",
    "apps",
    "hooks",
    "memories",
    "multi_agent",
    "multi_agent_v2",
    "goals",
    "skill_search",
    "view_image",
    "image_generation",
    "tool_suggest",
    "code_mode_host",
    "browser_use",
    "computer_use",
    "in_app_browser",
    "shell_snapshot",
)
CODEX_CONFIG = (
    'web_search="disabled"',
    "project_doc_max_bytes=0",
    "skills.include_instructions=false",
    "include_permissions_instructions=false",
    "include_environment_context=false",
    "include_collaboration_mode_instructions=false",
    "agents.enabled=false",
    "analytics.enabled=false",
    "model_provider=mock",
)
VIBE_TOOLS = ("bash", "write_file", "edit", "read_file", "run_typescript", "skill")
VIBE_CONFIG = """\
active_model = "mockm"
system_prompt_id = "olp"
api_retry_max_elapsed_time = 1.0
output_limit_retries = 0
enable_telemetry = false
enable_auto_update = false
enable_update_checks = false
include_project_context = false
include_prompt_detail = false
include_model_info = false
include_commit_signature = false
enable_connectors = false
enable_mcp = false
enable_subagents = false
enable_background_processes = false

[session_logging]
enabled = false
generate_titles = false

[experiments]
enable = false

[[providers]]
name = "mock"
api_base = "%s"
api_key_env_var = "MISTRAL_API_KEY"
backend = "mistral"

[[models]]
name = "mistral-medium-3.5"
provider = "mock"
alias = "mockm"
"""


@dataclass
class Ran:
    """What a CLI left behind."""

    exit: int
    stdout: str
    stderr: str
    export: dict[str, Any] | None = None
    events: list[dict[str, Any]] = field(default_factory=list)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event.get("type") == kind]


def run(cli: Found, vendors: Vendors, home: Path, prompt: str, login: bool = True) -> Ran:
    """One prompt through one CLI, to its end."""
    start = {"claude": _claude, "codex": _codex, "vibe": _vibe}[cli.name]
    work = home / "work"
    work.mkdir(exist_ok=True)
    arguments, env = start(vendors, home, login)
    base = {"PATH": f"{cli.path.parent}:{os.environ['PATH']}", "HOME": str(home), "LANG": "C.UTF-8"}
    process = subprocess.Popen(
        [str(cli.path), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=work,
        env=base | env,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(prompt.encode(), timeout=90)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
    ran = Ran(process.returncode, out.decode(), err.decode())
    ran.events = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    export = home / "out" / "export.json"
    if export.exists():
        ran.export = json.loads(export.read_text(encoding="utf-8"))
    return ran


def answer(cli: str, ran: Ran) -> str:
    """The text the CLI answered."""
    if cli == "claude":
        deltas = [event["event"].get("delta", {}) for event in ran.of("stream_event")]
        return "".join(d["text"] for d in deltas if d.get("type") == "text_delta")
    if cli == "codex":
        items = [event["item"] for event in ran.of("item.completed")]
        return str([i["text"] for i in items if i["type"] == "agent_message"][-1])
    said = [e for e in ran.of("message") if e["role"] == "assistant"]
    kept = [e for e in said if (e.get("outcome") or {}).get("type") == "committed"]
    return "".join(part["text"] for event in kept for part in event["content"])


def _claude(vendors: Vendors, home: Path, login: bool) -> tuple[list[str], dict[str, str]]:
    system = home / "system.md"
    system.write_text(SYSTEM, encoding="utf-8")
    arguments = ["-p", "--output-format", "stream-json", "--include-partial-messages", "--verbose"]
    arguments += ["--tools", "", "--setting-sources=", "--strict-mcp-config"]
    arguments += ["--disable-slash-commands", "--no-session-persistence"]
    arguments += ["--permission-mode", "dontAsk", "--model", "sonnet"]
    arguments += ["--system-prompt-file", str(system)]
    env = {
        "ANTHROPIC_BASE_URL": vendors.base_url,
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
        "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
        "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }
    return arguments, env | ({"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-dummy"} if login else {})


def _codex(vendors: Vendors, home: Path, login: bool) -> tuple[list[str], dict[str, str]]:
    system = home / "system.md"
    system.write_text(SYSTEM, encoding="utf-8")
    codex_home = home / "codex"
    codex_home.mkdir(exist_ok=True)
    provider = (
        f'{{name="mock",base_url="{vendors.v1_url}",env_key="MOCK_KEY",wire_api="responses",'
        "request_max_retries=0,stream_max_retries=0}"
    )
    arguments = ["exec", "--json", "--skip-git-repo-check", "--ephemeral", "--ignore-user-config"]
    arguments += ["--ignore-rules", "-s", "read-only", "--color", "never"]
    for feature in CODEX_OFF:
        arguments += ["--disable", feature]
    for context in (*CODEX_CONFIG, f"model_providers.mock={provider}"):
        arguments += ["-c", context]
    arguments += ["-c", f'model_instructions_file="{system}"', "-m", "gpt-5.5", "-"]
    env = {"CODEX_HOME": str(codex_home), "CODEX_EXEC_SERVER_URL": "none"}
    return arguments, env | ({"MOCK_KEY": "dummy"} if login else {})


def _vibe(vendors: Vendors, home: Path, login: bool) -> tuple[list[str], dict[str, str]]:
    vibe_home = home / "vibe"
    (vibe_home / "prompts").mkdir(parents=True, exist_ok=True)
    never = "".join(f'\n[tools.{tool}]\npermission = "never"\n' for tool in VIBE_TOOLS)
    config = VIBE_CONFIG % vendors.v1_url + never
    (vibe_home / "config.toml").write_text(config, encoding="utf-8")
    (vibe_home / "prompts" / "olp.md").write_text(SYSTEM, encoding="utf-8")
    out = home / "out"
    arguments = ["-p", "--output", "streaming", "--agent", "ask", "--output-dir", str(out)]
    env = {"VIBE_HOME": str(vibe_home)}
    return arguments, env | ({"MISTRAL_API_KEY": "dummy"} if login else {})
