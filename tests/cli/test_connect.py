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
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from olp.connect import all_clients, jsonc
from olp.connect.base import Snippet, Target
from olp.connect.known import with_told
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


class Teller:
    """A server that answers with what it is given, by path; `with` gives its port."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = answers.get(self.path)
                body = json.dumps(found or {"error": {"message": "no such model"}}).encode()
                self.send_response(200 if found else 404)
                self.end_headers()
                self.wfile.write(body)

            def version_string(self) -> str:
                return "olp"

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> int:
        self._thread.start()
        return int(self._server.server_address[1])

    def __exit__(self, *told: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


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
    assert opencode["options"] == {"baseURL": TARGET.base, "apiKey": TOKEN, "timeout": 600_000}
    assert opencode["models"]["house.everyday"] == {
        "name": "OLP house.everyday",
        "tool_call": True,
        "attachment": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "limit": {"context": 200_000, "output": 32_000},
    }
    pi = told("pi")["providers"]["olp"]
    assert (pi["baseUrl"], pi["api"], pi["apiKey"]) == (TARGET.base, "openai-completions", TOKEN)
    assert pi["models"][0]["input"] == ["text", "image"]
    assert pi["models"][0]["contextWindow"] == 200_000
    qwen = told("qwen-code")
    assert qwen["env"] == {"OLP_API_KEY": TOKEN} and qwen["providerProtocol"] == {"olp": "openai"}
    [chosen] = qwen["modelProviders"]["olp"]
    assert (chosen["id"], chosen["envKey"]) == (qwen["model"]["name"], "OLP_API_KEY")
    assert chosen["generationConfig"]["contextWindowSize"] == 200_000
    cont = told("continue")
    assert {"name", "version", "schema"} <= set(cont) and cont["schema"] == "v1"
    assert cont["models"][0]["provider"] == "openai"
    assert cont["models"][0]["apiBase"] == TARGET.base
    limits = cont["models"][0]["defaultCompletionOptions"]
    assert limits == {"contextLength": 200_000, "maxTokens": 32_000}
    assert told("aider") == {
        "openai-api-base": TARGET.base,
        "openai-api-key": TOKEN,
        "model": "openai/house.everyday",
        "edit-format": "diff",
    }
    assert told("aider", 1)["openai/house.everyday"]["supports_vision"] is True
    assert told("llm") == [
        {
            "model_id": "olp",
            "model_name": "house.everyday",
            "api_base": TARGET.base,
            "api_key_name": "olp",
            "supports_tools": True,
            "supports_schema": True,
            "vision": True,
        }
    ]
    assert told("open-webui") == {"OPENAI_API_BASE_URL": TARGET.base, "OPENAI_API_KEY": TOKEN}
    assert told("cline")["API Provider"] == "OpenAI Compatible"
    assert told("cline", 1)["lastUsedProvider"] == "openai-compatible"
    assert told("cline", 1)["providers"]["openai-compatible"]["settings"]["apiKey"] == TOKEN
    assert told("home-assistant")["Server URL"] == TARGET.base
    curl = told("curl")
    assert curl[:3] == ["curl", "-N", TARGET.base + "/chat/completions"]
    assert json.loads(curl[-1])["model"] == "house.everyday"


def test_what_a_model_takes_is_what_a_client_is_told() -> None:
    """A small context, and no images: every client that has a place for such is told."""
    small = Target(TARGET.base, TOKEN, "small", context=8_000, sees=False)
    texts = {
        name: "".join(snippet.text for snippet in client.snippets(small))
        for name, client in all_clients().items()
    }
    for name in ("aider", "cline", "continue", "opencode", "pi", "qwen-code", "zed"):
        assert "8000" in texts[name] and "200000" not in texts[name], name
    for name in ("aider", "continue", "opencode", "pi", "zed"):
        assert "2000" in texts[name] and "32000" not in texts[name], name
    assert "image" not in texts["opencode"] + texts["pi"] + texts["continue"]
    assert '"attachment": false' in texts["opencode"]
    assert '"supports_vision": false' in texts["aider"]
    assert "vision: false" in texts["llm"]
    assert '"image": false' in texts["qwen-code"] and '"images": false' in texts["zed"]
    assert "Supports Images: no" in texts["cline"]


@pytest.mark.parametrize(
    ("entry", "context", "sees"),
    [
        ({"context_length": 1000, "capabilities": ["tools", "vision"]}, 1000, True),
        ({"context_length": 1000, "capabilities": {"tools": True, "images": False}}, 1000, False),
        ({"capabilities": []}, 200_000, False),
        ({"context_length": None, "capabilities": None}, 200_000, True),
        ({"context_length": True, "capabilities": "vision"}, 200_000, True),
        ({"context_length": -1}, 200_000, True),
        (["something else"], 200_000, True),
    ],
)
def test_what_the_server_tells_of_a_model(entry: Any, context: int, sees: bool) -> None:
    known = with_told(TARGET, entry)
    assert (known.context, known.sees) == (context, sees)
    assert (known.base, known.key, known.model) == (TARGET.base, TARGET.key, TARGET.model)


def test_the_running_server_is_asked_about_the_model(olp: Olp, tmp_path: Path) -> None:
    file, state = tmp_path / "olp.toml", tmp_path / "state"
    state.mkdir()
    with Teller({"/v1/models/small": {"context_length": 8000, "capabilities": ["tools"]}}) as port:
        file.write_text(f'[server]\nport = {port}\nstate_dir = "{state}"\n')
        unasked = olp("connect", "pi", "--json", "--model", "small", "--config", str(file)).json
        assert unasked["context_length"] == 200_000, "no server of ours is known to run there"
        ours = {"token": "token", "url": f"http://127.0.0.1:{port}", "cert": ""}
        (state / f"local-{port}.token").write_text(json.dumps(ours))
        told = olp("connect", "pi", "--json", "--model", "small", "--config", str(file)).json
        assert (told["context_length"], told["images"]) == (8000, False)
        shown = json.loads(told["snippets"][0]["text"])["providers"]["olp"]["models"][0]
        assert (shown["contextWindow"], shown["input"]) == (8000, ["text"])
        other = olp("connect", "pi", "--json", "--model", "a/b c", "--config", str(file)).json
    assert other["context_length"] == 200_000
    assert "does not describe the model a/b c" in other["warnings"][0]
    gone = olp("connect", "pi", "--json", "--model", "small", "--config", str(file)).json
    assert gone["context_length"] == 200_000 and len(gone["warnings"]) == 1


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
    assert ran.err == "", "nothing to warn of where nothing can be done"


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
    assert ran.err == "olp: the port is not known (port = 0); set it with --host HOST:PORT\n"


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
    assert '"apiKey": "YOUR_KEY"' in ran.out
    assert "replace YOUR_KEY with anna's" in ran.err
    assert "`olp keys rotate anna` creates a new one" in ran.err
    assert "YOUR_KEY" not in olp("connect").err + olp("connect", "cursor").err
    assert olp("connect", "opencode", "--key", "bert").err == (
        "olp: there is no key 'bert'; `olp keys list` lists them\n"
    )
    ran = olp("connect", "opencode", "--key", "anna", "--write")
    assert ran.code == 2 and "olp keys rotate anna" in ran.err
    assert "--key - on standard input" in ran.err


# --- writing -----------------------------------------------------------------------------------

FILES = {
    "zed": (".config/zed/settings.json", '{\n  // mine\n  "theme": "One",\n}\n'),
    "opencode": (".config/opencode/opencode.json", '{\n  "theme": "x" // mine\n}\n'),
    "continue": (".continue/config.yaml", "name: Mine  # mine\nversion: 1.0.0\nschema: v1\n"),
    "aider": (".aider.conf.yml", "# mine\ndark-mode: true\nedit-format: whole  # as I like\n"),
    "cline": (
        ".cline/data/settings/providers.json",
        '{"version": 1, "lastUsedProvider": "mine", "providers": {"mine": {}}}\n',
    ),
    "pi": (".pi/agent/models.json", '{\n  // mine\n  "providers": {"x": {}}\n}\n'),
    "qwen-code": (
        ".qwen/settings.json",
        '{"model": {"name": "mine"}, "modelProviders": {"openai": []}, "env": {"A": "b"}}\n',
    ),
    "llm": (
        ".config/io.datasette.llm/extra-openai-models.yaml",
        "# mine\n- model_id: other\n  model_name: x\n",
    ),
}


def parsed(path: Path) -> Any:
    text = path.read_text("utf-8")
    return jsonc.parse(text) if path.suffix == ".json" else yaml.safe_load(text)


def contains(new: Any, old: Any) -> bool:
    """Whether all of `old` is still in `new`."""
    if isinstance(old, dict):
        return all(name in new and contains(new[name], value) for name, value in old.items())
    if isinstance(old, list):
        return all(item in new for item in old)
    return bool(new == old)


def written(olp: Olp, name: str, *more: str) -> Ran:
    ran = olp("connect", name, "--write", "--yes", "--key", TOKEN, "--host", "nas.local", *more)
    assert ran.code == 0, ran.err
    return ran


@pytest.mark.parametrize("name", FILES)
def test_a_new_file_is_its_owners_alone(olp: Olp, home: Path, name: str) -> None:
    path = home / FILES[name][0]
    ran = written(olp, name)
    assert f"Written: {path}" in ran.out
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "http://nas.local:4567/v1" in json.dumps(parsed(path))
    again = written(olp, name).out.splitlines()
    assert again[0] == f"{path} is up to date."
    assert all(line.endswith(" is up to date.") for line in again)
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
    assert contains(new, old)
    added = [line for line in ran.out.splitlines() if line.startswith("+ ") or line[:1] == "+"]
    assert any("nas.local" in line for line in added)
    assert TOKEN not in ran.out, "what stands on a screen ends up in pictures of it"
    assert (TOKEN in path.read_text()) == (name not in ("llm", "zed"))


def test_a_file_that_cannot_be_changed_safely_is_not_touched(olp: Olp, home: Path) -> None:
    path = home / FILES["continue"][0]
    path.parent.mkdir(parents=True)
    path.write_text("models: [{name: a}]\n")
    ran = olp("connect", "continue", "--write", "--yes")
    assert ran.code == 2
    assert f"{path} was not changed: the list 'models' is not" in ran.err
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
    ran = olp("connect", "aider", "--write", "--yes")
    home.chmod(0o700)
    assert ran.code == 2 and "cannot be written: Permission denied" in ran.err


def test_a_client_without_a_file(olp: Olp) -> None:
    ran = olp("connect", "open-webui", "--write")
    assert ran.code == 2 and "has no configuration file to write" in ran.err


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
def test_nothing_is_written_where_nobody_can_be_asked(
    olp: Olp, home: Path, more: tuple[str, ...]
) -> None:
    ran = olp("connect", "pi", "--write", *more)
    assert ran.code == 2 and not (home / FILES["pi"][0]).exists()
    assert f"not interactive; use --yes to write {home / FILES['pi'][0]}" in ran.err
    assert ("+{" in ran.out) == (not more), "the change is shown"


def test_what_was_written_as_json(olp: Olp, home: Path) -> None:
    path = home / FILES["pi"][0]
    assert olp("connect", "pi", "--json").json["written"] is None
    first = olp("connect", "pi", "--write", "--yes", "--json").json
    assert (first["files"], first["written"]) == ([str(path)], {str(path): None})
    second = olp("connect", "pi", "--write", "--yes", "--json", "--model", "other").json
    [kept] = path.parent.glob("models.json.olp-*")
    assert second["written"] == {str(path): str(kept)}
    again = olp("connect", "pi", "--write", "--yes", "--json", "--model", "other").json
    assert again["written"] == {}


def test_two_files_are_written_both_or_not_at_all(olp: Olp, home: Path) -> None:
    keys = home / ".config" / "io.datasette.llm" / "keys.json"
    written(olp, "llm")
    assert json.loads(keys.read_text())["olp"] == TOKEN
    assert "// Note" in json.loads(keys.read_text()), "as llm itself begins it"
    models = keys.with_name("extra-openai-models.yaml")
    before, told = models.read_text(), '{"olp": "a", "olp": "b"}'
    keys.write_text(told)
    ran = olp("connect", "llm", "--write", "--yes", "--key", TOKEN, "--model", "other")
    assert ran.code == 2 and f"{keys} was not changed" in ran.err
    assert (models.read_text(), keys.read_text()) == (before, told)


def test_a_file_that_fails_takes_back_the_one_before(
    olp: Olp, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = home / FILES["llm"][0]
    models.parent.mkdir(parents=True)
    models.write_text(FILES["llm"][1])
    (models.with_name("keys.json")).symlink_to(home / "nowhere" / "keys.json")
    (home / "nowhere").write_text("a file, and no folder\n")
    ran = olp("connect", "llm", "--write", "--yes", "--key", TOKEN)
    assert ran.code == 2 and "keys.json cannot be" in ran.err
    assert models.read_text() == FILES["llm"][1]


@pytest.mark.parametrize(
    ("name", "variable", "file"),
    [
        ("opencode", "XDG_CONFIG_HOME", "opencode/opencode.json"),
        ("zed", "XDG_CONFIG_HOME", "zed/settings.json"),
        ("llm", "XDG_CONFIG_HOME", "io.datasette.llm/extra-openai-models.yaml"),
        ("llm", "LLM_USER_PATH", "extra-openai-models.yaml"),
        ("pi", "PI_CODING_AGENT_DIR", "models.json"),
        ("qwen-code", "QWEN_HOME", "settings.json"),
        ("continue", "CONTINUE_GLOBAL_DIR", "config.yaml"),
        ("cline", "CLINE_DIR", "data/settings/providers.json"),
        ("cline", "CLINE_DATA_DIR", "settings/providers.json"),
    ],
)
def test_a_client_that_keeps_its_files_elsewhere(
    olp: Olp, home: Path, tmp_path: Path, name: str, variable: str, file: str
) -> None:
    """What lies at the usual place does not count then."""
    usual = home / FILES[name][0]
    usual.parent.mkdir(parents=True)
    usual.write_text(FILES[name][1])
    other = tmp_path / "elsewhere"
    ran = olp("connect", name, "--write", "--yes", "--key", TOKEN, **{variable: str(other)})
    assert ran.code == 0, ran.err
    assert (other / file).exists() and usual.read_text() == FILES[name][1]


def test_what_somebody_has_chosen_to_start_with_stays(olp: Olp, home: Path) -> None:
    qwen, cline = home / FILES["qwen-code"][0], home / FILES["cline"][0]
    for name, path in (("qwen-code", qwen), ("cline", cline)):
        path.parent.mkdir(parents=True)
        path.write_text(FILES[name][1])
        written(olp, name)
    assert parsed(qwen)["model"] == {"name": "mine"} and "security" not in parsed(qwen)
    assert parsed(cline)["lastUsedProvider"] == "mine"
    qwen.unlink()
    written(olp, "qwen-code")
    written(olp, "qwen-code", "--model", "other")
    assert parsed(qwen)["model"] == {"name": "other"}, "it was one of ours"
    assert "edit-format: whole" in _again(olp, home)


def _again(olp: Olp, home: Path) -> str:
    path = home / FILES["aider"][0]
    path.write_text(FILES["aider"][1])
    written(olp, "aider")
    return path.read_text()


@pytest.mark.parametrize(("name", "title"), [("cn", "Continue"), ("qwen", "Qwen Code")])
def test_another_name_for_a_client(olp: Olp, name: str, title: str) -> None:
    assert olp("connect", name).out.startswith(title)
