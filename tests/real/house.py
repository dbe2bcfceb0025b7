"""OLP itself over the real CLIs: a server process whose configuration points them at the mocks."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from .install import Found
from .vendors.client import Vendors

CHAINS = {
    "house": ["claude/sonnet", "codex/gpt-5.5", "vibe/mockm"],
    "short": ["claude/sonnet", "codex/gpt-5.5"],
    "pictures": ["vibe/mockm", "claude/sonnet"],
}
VIBE_MODEL = "mistral-medium-3.5"


def configuration(found: Mapping[str, Found], vendors: Vendors, **more: Any) -> dict[str, Any]:
    """An olp.toml, as a table, in which each given CLI speaks to the mock vendors."""
    options: dict[str, dict[str, Any]] = {
        "claude": {
            "env": {
                "ANTHROPIC_BASE_URL": vendors.base_url,
                "CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-dummy",
            }
        },
        "codex": {"env": {"MOCK_KEY": "dummy"}, "args": codex_args(vendors)},
        "vibe": {
            "env": {"MISTRAL_API_KEY": "dummy"},
            "config": vibe_config(vendors),
            "default_model": "mockm",
        },
    }
    providers: dict[str, dict[str, Any]] = {
        name: {"command": [str(found[name].path)], **options[name]} if name in found else {}
        for name in options
    }
    for name, options_of in providers.items():
        options_of["enabled"] = name in found
    chains = {
        name: kept
        for name, hops in CHAINS.items()
        if (kept := [hop for hop in hops if hop.partition("/")[0] in found])
    }
    return {"chains": chains, "providers": providers, **more}


def codex_args(vendors: Vendors) -> list[str]:
    """Arguments that give codex the mock as its model provider, as an owner would write them."""
    provider = (
        f'{{name="mock",base_url="{vendors.v1_url}",env_key="MOCK_KEY",wire_api="responses"}}'
    )
    return ["-c", "model_provider=mock", "-c", f"model_providers.mock={provider}"]


def vibe_config(vendors: Vendors) -> dict[str, Any]:
    """A piece of config.toml that gives vibe the mock as its provider."""
    mock = {
        "name": "mock",
        "api_base": vendors.v1_url,
        "api_key_env_var": "MISTRAL_API_KEY",
        "backend": "mistral",
    }
    return {
        "providers": [mock],
        "models": [{"name": VIBE_MODEL, "provider": "mock", "alias": "mockm"}],
        "vibe_base_url": vendors.base_url,
        "console_base_url": vendors.base_url,
    }


@dataclass
class Answer:
    """One HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    events: list[Any] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The answer's text, streamed or whole."""
        if self.events:
            deltas = [c["delta"] for e in self.events for c in e.get("choices", ())]
            return "".join(delta.get("content") or "" for delta in deltas)
        return str(self.json["choices"][0]["message"]["content"])

    @property
    def finish(self) -> str | None:
        if self.events:
            found = [c["finish_reason"] for e in self.events for c in e.get("choices", ())]
            return next((f for f in reversed(found) if f), None)
        return str(self.json["choices"][0]["finish_reason"])

    @property
    def detail(self) -> list[dict[str, Any]]:
        return list(json.loads(self.headers.get("X-OLP-Fallback-Detail", "[]")))


@dataclass
class House:
    """A running OLP."""

    url: str
    process: subprocess.Popen[bytes]
    home: Path
    state: Path
    log_file: Path

    def chat(self, prompt: str | list[dict[str, Any]], model: str = "house", **more: Any) -> Answer:
        """One chat completion; `more` are further parameters."""
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        return self.post({"model": model, "messages": messages, **more})

    def post(
        self,
        body: Mapping[str, Any],
        timeout: float = 60,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        data = json.dumps(body).encode()
        address = f"{self.url}/v1/chat/completions"
        request = urllib.request.Request(address, data, dict(headers or {}))
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                answer = Answer(response.status, dict(response.headers), response.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, dict(error.headers), error.read())
        if body.get("stream"):
            lines = re.findall(r"^data: (.*)$", answer.body.decode(), re.MULTILINE)
            answer.events = [json.loads(line) for line in lines if line != "[DONE]"]
        return answer

    def health(self) -> Any:
        """What the server says of itself."""
        with urllib.request.urlopen(f"{self.url}/health", timeout=30) as response:
            return json.load(response)

    def wait_until_ready(self, names: Sequence[str], seconds: float = 60) -> None:
        """Until a process of each of these CLIs waits for a request."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            providers = self.health()["providers"]
            if all(providers[name]["waiting"]["ready"] for name in names):
                return
            time.sleep(0.05)
        raise AssertionError(f"not ready after {seconds} s: {providers}")

    def command(self, path: str) -> Any:
        """One of the owner's commands."""
        request = urllib.request.Request(f"{self.url}{path}", b"", method="POST")
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    @property
    def log(self) -> list[dict[str, Any]]:
        lines = self.log_file.read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


@contextmanager
def serving(config: Mapping[str, Any], folder: Path) -> Iterator[House]:
    """`olp serve` with `config`, in a scratch home, until the block is left. Unless there is a
    state already, it has a short path: the path of a socket in it may have 107 bytes, and pytest's
    folders are long."""
    home, state = folder / "home", folder / "state"
    home.mkdir(exist_ok=True)
    if not state.exists():
        state = Path(tempfile.mkdtemp(prefix="olp-state-"))
    server = {"port": 0, "state_dir": str(state), "drain_s": 1, **config.get("server", {})}
    file = folder / "olp.toml"
    file.write_text(tomli_w.dumps({**config, "server": server}), encoding="utf-8")
    log_file = folder / "olp.log"
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "olp", "serve", "--config", str(file)],
            stdout=subprocess.PIPE,
            stderr=log,
            env=env,
        )
    try:
        assert process.stdout is not None
        first = process.stdout.readline().decode()
        found = re.search(r"(http://\S+)/v1", first)
        assert found, f"no address in {first!r}: {log_file.read_text('utf-8')}"
        yield House(found[1], process, home, state, log_file)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(state, ignore_errors=True)
