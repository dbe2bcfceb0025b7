"""What a fake CLI of tests/doctor/fakes.py does with a prompt: run there, not imported.

It is pointed at a vendor in its CLI's own way, asks it in that vendor's API, and carries out what
the model wants as far as its mood says. NAME and MOOD are set by the program that runs it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

NAME: str = globals().get("NAME", "claude")
MOOD: str = globals().get("MOOD", "good")
SYSTEM = ""
"""The system prompt that a process started ahead was told."""

PATHS = {"claude": "/v1/messages", "codex": "/v1/responses", "vibe": "/v1/chat/completions"}


def flag(name: str) -> str:
    """The word after a flag."""
    return sys.argv[sys.argv.index(name) + 1]


def address() -> str:
    """Where the vendor is, by the CLI's own configuration."""
    if NAME == "claude":
        return os.environ["ANTHROPIC_BASE_URL"]
    if NAME == "vibe":
        return str(vibe_file("config.toml")["providers"][0]["api_base"]).removesuffix("/v1")
    told = re.search(r'base_url="([^"]*)/v1"', " ".join(sys.argv))
    assert told is not None
    return told[1]


def vibe_file(name: str) -> dict[str, Any]:
    """A file of the private VIBE_HOME."""
    return tomllib.loads(Path(os.environ["VIBE_HOME"], name).read_text("utf-8"))


def system() -> str:
    """The system prompt."""
    if SYSTEM:
        return SYSTEM
    if NAME == "claude":
        return Path(flag("--system-prompt-file")).read_text("utf-8")
    if NAME == "vibe":
        home = Path(os.environ["VIBE_HOME"])
        return "".join(file.read_text("utf-8") for file in home.glob("*/olp.*"))
    told = re.search(r'model_instructions_file="([^"]*)"', " ".join(sys.argv))
    assert told is not None
    return Path(told[1]).read_text("utf-8")


def ask(prompt: str, results: list[str]) -> list[dict[str, Any]]:
    """The events of the vendor's answer."""
    tool = {"name": "Bash", "type": "function", "function": {"name": "Bash"}}
    body = {
        "model": "m",
        "system": "" if MOOD == "deaf" else system(),
        "tools": [tool] if MOOD == "armed" else [],
        "messages": [prompt, *results],
    }
    request = urllib.request.Request(address() + PATHS[NAME], json.dumps(body).encode())
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
        lines = response.read().decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def wanted(events: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """The tool calls in an answer."""
    found: list[tuple[str, dict[str, Any]]] = []
    for index, event in enumerate(events):
        block = event.get("content_block") or {}
        if block.get("type") == "tool_use":
            found.append((block["name"], json.loads(events[index + 1]["delta"]["partial_json"])))
        item = event.get("item") or {}
        if item.get("type") == "function_call":
            found.append((item["name"], json.loads(item["arguments"])))
        for choice in event.get("choices") or ():
            for call in choice["delta"].get("tool_calls") or ():
                inner = call["function"]
                found.append((inner["name"], json.loads(inner["arguments"])))
    return found


def text_of(events: list[dict[str, Any]]) -> str:
    """The text of an answer."""
    texts = []
    for event in events:
        delta = event.get("delta")
        texts.append(delta.get("text") or "" if isinstance(delta, dict) else "")
        texts += [part["text"] for part in (event.get("item") or {}).get("content") or ()]
        texts += [c["delta"].get("content") or "" for c in event.get("choices") or ()]
    return "".join(texts)


def carry_out(name: str, arguments: dict[str, Any]) -> str:
    """What a tool gives back; a good CLI has none."""
    command = arguments.get("command") or arguments.get("cmd")
    if MOOD == "runs" and command:
        words = command if isinstance(command, list) else ["sh", "-c", command]
        subprocess.run(words, check=False, capture_output=True)
    if MOOD == "writes" and "content" in arguments:
        Path(str(arguments.get("file_path") or arguments.get("path"))).write_text("done")
    if MOOD == "reads" and name in ("Read", "read_file"):
        return Path(str(arguments.get("file_path") or arguments.get("path"))).read_text("utf-8")
    return "No such tool"


def tell(text: str) -> None:
    """The answer, in the CLI's own form."""
    said = [{"type": "text", "text": text}]
    lines: dict[str, list[dict[str, Any]]] = {
        "claude": [
            {"type": "stream_event", "event": {"type": "message_start", "message": {"model": "m"}}},
            {"type": "result", "subtype": "success", "result": text, "usage": {}},
        ],
        "codex": [
            {"type": "item.completed", "item": {"type": "agent_message", "text": text}},
            {"type": "turn.completed", "usage": {}},
        ],
        "vibe": [
            {
                "type": "message",
                "role": "assistant",
                "content": said,
                "outcome": {"type": "committed"},
            }
        ],
    }
    for line in lines[NAME]:
        print(json.dumps(line), flush=True)


def reply(prompt: str) -> None:
    """What is done with one prompt."""
    named = re.search(r"@(\S+)", prompt)
    if MOOD == "swallows" and prompt.strip().startswith("/"):
        tell("/clear isn't available in this environment.")
        return
    if MOOD == "expands" and named:
        prompt += Path(named[1]).read_text("utf-8")
    if MOOD == "notes":
        prompt += Path(os.environ["HOME"], "CLAUDE.md").read_text("utf-8")
    if MOOD == "twice":
        ask(prompt, [])
    events = ask(prompt, [])
    if calls := wanted(events):
        if NAME == "claude":
            block = {"type": "tool_use", "name": calls[0][0]}
            event = {"type": "content_block_start", "content_block": block}
            print(json.dumps({"type": "stream_event", "event": event}), flush=True)
            time.sleep(0.3)  # longer than it takes to be ended for it
        events = ask(prompt, [carry_out(*call) for call in calls])
    tell("something else" if MOOD == "lies" else text_of(events))


def serve() -> None:
    """Started ahead: claude's control protocol, as far as it is needed."""
    global SYSTEM
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "user":
            reply(message["message"]["content"])
            continue
        SYSTEM = message["request"].get("systemPrompt", SYSTEM)
        response = {"subtype": "success", "request_id": message["request_id"]}
        print(json.dumps({"type": "control_response", "response": response}), flush=True)


def main() -> None:
    """One run. A mood that begins with `ahead-` is had only when started ahead."""
    global MOOD
    ahead = "--input-format" in sys.argv or "app-server" in sys.argv
    if MOOD == "hangs":
        time.sleep(60)
    if not ahead:
        MOOD = "good" if MOOD.startswith("ahead-") else MOOD
        reply(sys.stdin.read())
    elif MOOD.startswith("ahead-"):
        MOOD = MOOD.removeprefix("ahead-")
        serve()
    else:
        sys.exit("error: unknown option")


if __name__ == "__main__":
    main()
