"""`olp connect`: what it prints can be read by the client it is for, and so can what it writes."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from olp.connect import all_clients, jsonc
from olp.connect.base import Snippet, Target
from tests.cli.conftest import Olp, Ran
from tests.cli.inside import inside
from tests.support import Served

TOKEN = "olp_" + "k" * 43
CLIENTS = sorted(all_clients())
TARGET = Target("https://[fd00::1]:4567/v1", TOKEN, "house.everyday")


@pytest.fixture
def olp(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Olp:
    """The command line, in this process."""
    return inside(home, tmp_path / "bin", monkeypatch)


def read_values(text: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in text.splitlines())


def read_env(text: str) -> dict[str, str]:
    """As `docker run --env-file` reads it: no quotes, no expansion."""
    assert '"' not in text and "'" not in text
    return dict(line.split("=", 1) for line in text.splitlines())


def read(snippet: Snippet) -> Any:
    match snippet.format:
        case "json":
            return json.loads(snippet.text)
        case "yaml":
            return yaml.safe_load(snippet.text)
        case "env":
            return read_env(snippet.text)
        case "values":
            return read_values(snippet.text)
        case "sh":
            return shlex.split(snippet.text.replace("\\\n", " "))
        case "python":
            return ast.unparse(ast.parse(snippet.text))
        case "javascript":
            return snippet.text


@pytest.mark.parametrize("name", CLIENTS)
def test_every_snippet_is_in_its_own_format(name: str) -> None:
    client = all_clients()[name]
    told = [read(snippet) for snippet in client.snippets(TARGET)]
    if client.cannot:
        assert not told
        return
    shown = json.dumps(told)
    assert TARGET.base in shown
    assert "house.everyday" in shown or name in ("open-webui",)
    assert TOKEN in shown or name == "llm", "the key is nowhere"


def told(name: str, number: int = 0) -> Any:
    return read(all_clients()[name].snippets(TARGET)[number])


def test_what_each_client_wants_to_read() -> None:
    zed = told("zed")["language_models"]["openai_compatible"]["olp"]
    assert zed["api_url"] == TARGET.base
    model = zed["available_models"][0]
    assert (model["name"], type(model["max_tokens"])) == ("house.everyday", int)
    assert model["capabilities"] == {"tools": True, "images": True}
    opencode = told("opencode")["provider"]["olp"]
    assert opencode["npm"] == "@ai-sdk/openai-compatible"
    assert opencode["options"] == {"baseURL": TARGET.base, "apiKey": TOKEN}
    assert list(opencode["models"]) == ["house.everyday"]
    cont = told("continue")
    assert {"name", "version", "schema"} <= set(cont) and cont["schema"] == "v1"
    assert cont["models"][0]["provider"] == "openai"
    assert cont["models"][0]["apiBase"] == TARGET.base
    assert told("aider") == {
        "openai-api-base": TARGET.base,
        "openai-api-key": TOKEN,
        "model": "openai/house.everyday",
    }
    assert told("llm") == [
        {
            "model_id": "olp",
            "model_name": "house.everyday",
            "api_base": TARGET.base,
            "api_key_name": "olp",
        }
    ]
    assert told("open-webui") == {"OPENAI_API_BASE_URL": TARGET.base, "OPENAI_API_KEY": TOKEN}
    assert told("cline")["API Provider"] == "OpenAI Compatible"
    assert told("home-assistant")["Server URL"] == TARGET.base
    curl = told("curl")
    assert curl[:3] == ["curl", "-N", TARGET.base + "/chat/completions"]
    assert json.loads(curl[-1])["model"] == "house.everyday"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_javascript_is_javascript(tmp_path: Path) -> None:
    file = tmp_path / "hello.mjs"
    file.write_text(all_clients()["openai-js"].snippets(TARGET)[0].text)
    done = subprocess.run(["node", "--check", file], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr


def test_cursor_says_why_it_cannot(olp: Olp) -> None:
    ran = olp("connect", "cursor")
    assert ran.code == 0
    assert "public HTTPS address" in ran.out and "olp connect cline" in ran.out
    assert olp("connect", "cursor", "--write").code == 2


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_what_can_be_run_here_gets_an_answer(tmp_path: Path) -> None:
    """The snippets for curl and for the openai package, as a person would paste them."""
    env = {**os.environ, "OLP_SERVER_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path)}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        with Served(tmp_path, ["--demo", "--port", "0"]) as served:
            target = Target(f"{served.url()}/v1", "olp")
            curl = all_clients()["curl"].snippets(target)[0].text
            hello = all_clients()["openai-python"].snippets(target)[0].text
            (tmp_path / "hello.py").write_text(hello)
            for command in (["sh", "-c", curl], [sys.executable, str(tmp_path / "hello.py")]):
                done = subprocess.run(command, capture_output=True, text=True, timeout=60)
                assert done.returncode == 0, done.stderr
                assert "demo" in done.stdout


# --- the address -------------------------------------------------------------------------------


def test_the_list(olp: Olp) -> None:
    ran = olp("connect")
    assert ran.code == 0
    assert ran.out.startswith("Base URL  http://127.0.0.1:4567/v1\nModel     auto\n")
    assert all(f"olp connect {name}" in ran.out for name in CLIENTS)
    assert "only on this machine" in ran.err
    names = olp("connect", "--json").json["clients"]
    assert [client["name"] for client in names] == CLIENTS


def test_the_address_is_the_one_that_others_reach(olp: Olp, tmp_path: Path) -> None:
    file = tmp_path / "olp.toml"
    file.write_text('[server]\nhost = "192.168.1.9"\nport = 4600\n')
    base = olp("connect", "curl", "--json", "--config", str(file)).json
    assert (base["base_url"], base["warnings"]) == ("http://192.168.1.9:4600/v1", [])
    file.write_text('[server]\nhost = "0.0.0.0"\nport = 4600\nallow_anonymous = true\n')
    found = olp("connect", "--json", "--config", str(file)).json["base_url"]
    assert re.fullmatch(r"http://(?!0\.0\.0\.0).+:4600/v1", found)
    for given, shown in {
        "nas.local": "nas.local:4600",
        "nas.local:8443": "nas.local:8443",
        "fd00::1": "[fd00::1]:4600",
        "[fd00::1]:1": "[fd00::1]:1",
    }.items():
        ran = olp("connect", "--json", "--host", given, "--config", str(file))
        assert ran.json["base_url"] == f"http://{shown}/v1"
    file.write_text("[server]\nport = 0\n")
    ran = olp("connect", "--config", str(file))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "olp: the port is not known (port = 0); say it with --host HOST:PORT\n"


def test_an_unknown_client(olp: Olp) -> None:
    ran = olp("connect", "emacs")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("olp: there is no client 'emacs'; known: aider, cline, ")


def test_qr_codes(olp: Olp) -> None:
    ran = olp("connect", "curl", "--qr", "--key", TOKEN)
    assert ran.code == 0 and "█" in ran.out
    assert ran.out.rstrip().endswith("http://127.0.0.1:4567/v1")
    assert olp("connect", "curl", "--qr-key", "--key", TOKEN).out.rstrip().endswith(TOKEN)


# --- keys --------------------------------------------------------------------------------------


def test_a_key_by_name_is_no_token(olp: Olp) -> None:
    assert '"apiKey": "olp"' in olp("connect", "opencode").out, "no key is needed yet"
    assert olp("keys", "add", "anna").code == 0
    ran = olp("connect", "opencode", "--key", "anna")
    assert '"apiKey": "YOUR_KEY"' in ran.out and "YOUR_KEY" in ran.err
    assert olp("connect", "opencode", "--key", "bert").err == (
        "olp: there is no key 'bert'; `olp keys list` names them\n"
    )
    ran = olp("connect", "opencode", "--key", "anna", "--write")
    assert ran.code == 2 and "olp keys rotate anna" in ran.err
    assert "--key - on standard input" in ran.err


# --- writing -----------------------------------------------------------------------------------

FILES = {
    "zed": (".config/zed/settings.json", '{\n  // mine\n  "theme": "One",\n}\n'),
    "opencode": (".config/opencode/opencode.json", '{\n  "theme": "x" // mine\n}\n'),
    "continue": (".continue/config.yaml", "name: Mine  # mine\nversion: 1.0.0\nschema: v1\n"),
    "aider": (".aider.conf.yml", "# mine\ndark-mode: true\n"),
    "llm": (
        ".config/io.datasette.llm/extra-openai-models.yaml",
        "# mine\n- model_id: other\n  model_name: x\n",
    ),
}


def parsed(path: Path) -> Any:
    text = path.read_text("utf-8")
    return jsonc.parse(text) if path.suffix == ".json" else yaml.safe_load(text)


def written(olp: Olp, name: str, *more: str) -> Ran:
    ran = olp("connect", name, "--write", "--key", TOKEN, "--host", "nas.local", *more)
    assert ran.code == 0, ran.err
    return ran


@pytest.mark.parametrize("name", FILES)
def test_a_new_file_is_its_owners_alone(olp: Olp, home: Path, name: str) -> None:
    path = home / FILES[name][0]
    ran = written(olp, name)
    assert f"Written: {path}" in ran.out
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "http://nas.local:4567/v1" in json.dumps(parsed(path))
    assert written(olp, name).out == f"{path} is as it should be.\n"
    assert len(list(path.parent.glob(f"{path.name}*"))) == 1


@pytest.mark.parametrize("name", FILES)
def test_an_old_file_keeps_everything_else(olp: Olp, home: Path, name: str) -> None:
    path = home / FILES[name][0]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FILES[name][1])
    path.chmod(0o640)
    old = parsed(path)
    ran = written(olp, name)
    (kept,) = path.parent.glob(f"{path.name}.olp-*")
    assert kept.read_text() == FILES[name][1]
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert "mine" in path.read_text(), "the comment is gone"
    new = parsed(path)
    assert all(item in new for item in old) if name == "llm" else old.items() <= new.items()
    added = [line for line in ran.out.splitlines() if line.startswith("+ ") or line[:1] == "+"]
    assert any("nas.local" in line for line in added)
    assert TOKEN not in ran.out, "what stands on a screen ends up in pictures of it"
    assert (TOKEN in path.read_text()) == (name not in ("llm", "zed"))


def test_a_file_that_cannot_be_changed_safely_is_not_touched(olp: Olp, home: Path) -> None:
    path = home / FILES["continue"][0]
    path.parent.mkdir(parents=True)
    path.write_text("models: [{name: a}]\n")
    ran = olp("connect", "continue", "--write")
    assert ran.code == 2
    assert f"{path} was not touched, since the list 'models' is not" in ran.err
    assert 'apiBase: "http://127.0.0.1:4567/v1"' in ran.out, "it is printed instead"
    assert path.read_text() == "models: [{name: a}]\n"
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_link_stays_a_link(olp: Olp, home: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "settings.json"
    real.parent.mkdir()
    real.write_text("{}\n")
    path = home / FILES["zed"][0]
    path.parent.mkdir(parents=True)
    path.symlink_to(real)
    written(olp, "zed")
    assert path.is_symlink() and "language_models" in parsed(real)


def test_another_file_and_the_second_candidate(olp: Olp, home: Path, tmp_path: Path) -> None:
    other = tmp_path / "project" / ".aider.conf.yml"
    written(olp, "aider", "--file", str(other))
    assert parsed(other)["model"] == "openai/auto"
    second = home / ".config" / "opencode" / "opencode.jsonc"
    second.parent.mkdir(parents=True)
    second.write_text("{}\n")
    written(olp, "opencode")
    assert "provider" in jsonc.parse(second.read_text())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(olp: Olp, home: Path) -> None:
    home.chmod(0o500)
    ran = olp("connect", "aider", "--write")
    home.chmod(0o700)
    assert ran.code == 2 and "cannot be written: Permission denied" in ran.err


def test_a_client_without_a_file(olp: Olp) -> None:
    ran = olp("connect", "cline", "--write")
    assert ran.code == 2 and "has no file that could be written" in ran.err
