"""What runs inside a fake CLI: finds its turn in the plan, records what it sees, and plays it.

This file is loaded by a bare interpreter, for every request of every test, and so it imports
little. The plan's format is told in `plan.py`, which writes it.
"""

# pathlib takes 10 ms to load, in every fake.
# ruff: noqa: PTH103, PTH105, PTH109, PTH110, PTH114, PTH115, PTH116, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

POLL_S = 0.005
FOREVER_S = 3600.0


class Stage:
    """The process: its output, its record, and its turn of the plan."""

    def __init__(self, name: str, plan: str) -> None:
        self.name = name
        self._record = plan + ".record"
        with open(plan, encoding="utf-8") as file:
            self._plan: dict[str, Any] = json.load(file)
        self._turns: list[dict[str, Any]] = self._plan.get(name) or []
        self._file = plan
        self.call = -1
        self.stdin = b""
        self.left: int | None = None

    def take_number(self) -> None:
        """This call's number, from 0: the first name that nobody else has made."""
        while True:
            self.call += 1
            try:
                os.close(os.open(f"{self._file}.{self.name}.{self.call}", os.O_CREAT | os.O_EXCL))
                return
            except FileExistsError:
                continue

    def survey(self) -> dict[str, Any]:
        """What this CLI tells of itself: `models` and `limits`."""
        told: dict[str, Any] = self._plan.get("surveys", {}).get(self.name, {})
        return told

    def turn(self) -> dict[str, Any]:
        """A turn for this prompt if there is one, else the one for this call, else the last."""
        seen = self.stdin.decode("utf-8", "replace") + "\n" + " ".join(sys.argv)
        for turn in self._turns:
            if turn.get("when") and turn["when"] in seen:
                return turn
        plain = [turn for turn in self._turns if not turn.get("when")]
        return plain[min(self.call, len(plain) - 1)] if plain else {}

    def note(self, **fields: Any) -> None:
        """One line of the record."""
        fields = {"provider": self.name, "call": self.call, "at": time.monotonic(), **fields}
        line = json.dumps(fields, default=repr).encode() + b"\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        file = os.open(self._record, flags, 0o600)
        os.write(file, line)
        os.close(file)

    def note_start(self) -> None:
        """What this process can see of its surroundings, earlier calls still there included."""
        self.note(
            what="started",
            pid=os.getpid(),
            pgid=os.getpgid(0),
            sid=os.getsid(0),
            ppid=os.getppid(),
            argv=sys.argv,
            env=dict(os.environ),
            cwd=os.getcwd(),
            listing=os.listdir("."),
            private=_private(),
            alive=self._alive(),
        )

    def _alive(self) -> list[int]:
        try:
            with open(self._record, encoding="utf-8") as file:
                whole = file.read().split("\n")[:-1]  # another process may be writing the last
                lines = [json.loads(line) for line in whole]
        except FileNotFoundError:
            return []
        pids = [line["pid"] for line in lines if line["what"] == "started"]
        return [pid for pid in pids if _exists(pid)]

    def read(self) -> None:
        """All of standard input."""
        parts = []
        while part := os.read(0, 1 << 20):
            parts.append(part)
        self.stdin = b"".join(parts)
        import hashlib

        digest = hashlib.sha256(self.stdin).hexdigest()
        self.note(what="read", size=len(self.stdin), sha256=digest)

    def write(self, data: bytes) -> None:
        """Standard output, at once; it ends with exit code 0 where a limit cuts it."""
        if self.left is not None and len(data) > self.left:
            _write_all(1, data[: self.left])
            os._exit(0)
        if self.left is not None:
            self.left -= len(data)
        _write_all(1, data)

    def line(self, value: Any) -> None:
        """One event."""
        self.write(json.dumps(value, ensure_ascii=False).encode() + b"\n")


def _exists(pid: int) -> bool:
    """Whether the process is there: one that has ended and was not waited for still is."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _private() -> dict[str, Any]:
    """The private folder as this CLI was told of it: modes by name, links with their target."""
    env = os.environ
    known = [os.path.dirname(env[n]) for n in ("CODEX_HOME", "VIBE_HOME") if n in env]
    if "--system-prompt-file" in sys.argv:
        file = sys.argv[sys.argv.index("--system-prompt-file") + 1]
        known.append(os.path.dirname(file))
    if not known:
        return {}
    top = known[0]
    entries = {}
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            link = os.readlink(path) if os.path.islink(path) else None
            mode = link or oct(os.lstat(path).st_mode & 0o777)
            entries[os.path.relpath(path, top)] = mode
    return {"path": top, "mode": oct(os.stat(top).st_mode & 0o777), "entries": entries}


# --- the three tongues -------------------------------------------------------------------------


class Tongue:
    """One CLI's way of saying things. `code` is the exit code after its last words."""

    model = "model"

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.text: list[str] = []
        self.code = 0

    def init(self) -> None:
        """The start-up notices."""

    def start(self, model: str | None = None) -> None:
        """The vendor begins to answer."""

    def think(self, text: str) -> None:
        """A piece of thinking."""

    def say(self, text: str) -> None:
        """A piece of the answer."""
        self.text.append(text)

    def end(self, finish: str = "stop", usage: dict[str, int] | None = None) -> None:
        """The final event."""

    def fail(self, kind: str, more: dict[str, Any] | None = None) -> None:
        """A failure, as this CLI tells it."""

    def tool(self, name: str) -> None:
        """The model uses one of the CLI's own tools."""


CLAUDE_FAILURES: dict[str, dict[str, Any]] = {
    "quota": {
        "text": "You've hit your session limit \u00b7 resets in 1 hour",
        "error": "rate_limit",
        "status": 429,
        "api_error": "usage_limit_reached",
        "limit": True,
    },
    "rate": {
        "text": "API Error: Request rejected (429) \u00b7 try again shortly",
        "error": "rate_limit",
        "status": 429,
    },
    "overloaded": {"text": "API Error: 529 Overloaded", "error": "server_error", "status": 529},
    "server": {"text": "API Error: 500 Oops", "error": "server_error", "status": 500},
    "unavailable": {"text": "API Error: 503 Down", "error": "server_error", "status": 503},
    "login": {
        "text": "Not logged in \u00b7 Please run /login",
        "error": "authentication_failed",
        "status": None,
    },
    "expired": {
        "text": "Failed to authenticate. API Error: 401 OAuth token has expired",
        "error": "authentication_failed",
        "status": 401,
    },
    "context": {"text": "Prompt is too long", "error": "invalid_request", "status": None},
    "model": {
        "text": "There's an issue with the selected model",
        "error": "model_not_found",
        "status": 404,
    },
    "bad": {"text": "API Error: 400 bad schema", "error": "invalid_request", "status": 400},
    "credit": {"text": "Credit balance is too low", "error": "billing_error", "status": 400},
    "unknown": {"text": "Something odd happened", "error": None, "status": None},
}


class Claude(Tongue):
    """`claude -p --output-format stream-json --include-partial-messages`."""

    model = "claude-sonnet-4-5-20250929"

    def init(self) -> None:
        self.stage.line(
            {"type": "system", "subtype": "init", "tools": [], "mcp_servers": [], "model": "x"}
        )

    def _event(self, event: dict[str, Any]) -> None:
        self.stage.line({"type": "stream_event", "event": event, "parent_tool_use_id": None})

    def start(self, model: str | None = None) -> None:
        usage = {"input_tokens": 11, "output_tokens": 1}
        self._event(
            {"type": "message_start", "message": {"model": model or self.model, "usage": usage}}
        )

    def _delta(self, delta: dict[str, Any]) -> None:
        self._event({"type": "content_block_delta", "index": 0, "delta": delta})

    def think(self, text: str) -> None:
        self._delta({"type": "thinking_delta", "thinking": text})

    def say(self, text: str) -> None:
        super().say(text)
        self._delta({"type": "text_delta", "text": text})

    def end(self, finish: str = "stop", usage: dict[str, int] | None = None) -> None:
        told = {"stop": "end_turn", "length": "max_tokens"}.get(finish, finish)
        usage = usage or {"input_tokens": 11, "output_tokens": 7}
        self._event({"type": "message_delta", "delta": {"stop_reason": told}, "usage": usage})
        self._event({"type": "message_stop"})
        self._result("".join(self.text), usage)

    def _result(self, text: str, usage: dict[str, int], **more: Any) -> None:
        told = {"type": "result", "subtype": "success", "is_error": False, "result": text}
        self.stage.line({**told, "usage": usage, "total_cost_usd": 0.001, **more})

    def _synthetic(self, text: str, error: str | None) -> None:
        message = {"model": "<synthetic>", "content": [{"type": "text", "text": text}]}
        told = {"type": "assistant", "message": message, "parent_tool_use_id": None}
        self.stage.line({**told, "error": error, "is_api_error_message": True})

    def fail(self, kind: str, more: dict[str, Any] | None = None) -> None:
        if kind == "prose":
            text = "You've hit your 5-hour limit \u00b7 resets 5:26am (UTC)"
            self._synthetic((more or {}).get("text", text), None)
            self._result((more or {}).get("text", text), {})
            return
        if kind == "retry":
            told = {"attempt": 1, "max_retries": 10, "error_status": 529, "error": "overloaded"}
            self.stage.line({"type": "system", "subtype": "api_retry", **told, **(more or {})})
            return
        how = {**CLAUDE_FAILURES[kind], **(more or {})}
        if how.get("limit"):
            resets = how.get("resets_at", int(time.time()) + 3600)
            info = {"status": "rejected", "resetsAt": resets, "rateLimitType": "five_hour"}
            self.stage.line({"type": "rate_limit_event", "rate_limit_info": info})
        self._synthetic(how["text"], how["error"])
        told = {"is_error": True, "api_error_status": how["status"]}
        if "api_error" in how:
            told["api_error"] = how["api_error"]
        self._result(how["text"], {}, **told)
        self.code = 1

    def tool(self, name: str) -> None:
        block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
        self._event({"type": "content_block_start", "index": 0, "content_block": block})


CODEX_FAILURES = {
    "quota": "You've hit your usage limit. Upgrade to Pro or try again in 3 days 6 hours.",
    "rate": "exceeded retry limit, last status: 429 Too Many Requests",
    "overloaded": "unexpected status 503 Service Unavailable: overloaded",
    "server": "unexpected status 500 Internal Server Error: oops",
    "unavailable": "unexpected status 503 Service Unavailable: down",
    "login": "unexpected status 401 Unauthorized: no login, url: http://vendor.example/responses",
    "expired": "Your access token could not be refreshed. Please log out and sign in again.",
    "context": "Codex ran out of room in the model's context window. Start a new thread.",
    "model": "The model `x` does not exist or you do not have access to it.",
    "bad": '{"error":{"message":"bad schema","type":"invalid_request_error","code":null}}',
    "credit": "Quota exceeded. Check your plan and billing details.",
    "unknown": "Something odd happened",
    "cut": "stream disconnected before completion: error decoding response body",
    "refusal": "Incomplete response returned, reason: content_filter",
}


class Codex(Tongue):
    """`codex exec --json`: no deltas, one item at the end."""

    model = "gpt-5.5"

    def init(self) -> None:
        self.stage.line({"type": "thread.started", "thread_id": "t-1"})

    def start(self, model: str | None = None) -> None:
        self.stage.line({"type": "turn.started"})

    def _item(self, kind: str, text: str) -> None:
        item = {"id": "item_0", "type": kind, "text": text}
        self.stage.line({"type": "item.completed", "item": item})

    def think(self, text: str) -> None:
        self._item("reasoning", text)

    def end(self, finish: str = "stop", usage: dict[str, int] | None = None) -> None:
        if self.text:
            self._item("agent_message", "".join(self.text))
        reasons = {"length": "max_output_tokens", "refusal": "content_filter"}
        if finish in reasons:
            text = f"Incomplete response returned, reason: {reasons[finish]}"
            self.stage.line({"type": "turn.failed", "error": {"message": text}})
            self.code = 1
            return
        told = usage or {"input_tokens": 21, "cached_input_tokens": 5, "output_tokens": 9}
        self.stage.line({"type": "turn.completed", "usage": told})

    def fail(self, kind: str, more: dict[str, Any] | None = None) -> None:
        if kind == "retry":
            why = (more or {}).get("text", CODEX_FAILURES["quota"])
            self.stage.line({"type": "error", "message": f"Reconnecting... 1/5 ({why})"})
            return
        text = (more or {}).get("text") or CODEX_FAILURES["quota" if kind == "prose" else kind]
        self.stage.line({"type": "error", "message": text})
        self.stage.line({"type": "turn.failed", "error": {"message": text}})
        self.code = 1

    def tool(self, name: str) -> None:
        item = {"id": "item_1", "type": "command_execution", "command": name}
        self.stage.line({"type": "item.started", "item": item})


VIBE_FAILURES: dict[str, tuple[str, int, str | None]] = {
    "quota": ("You have reached your monthly usage limit", 2, "rate_limit"),
    "rate": ("API error occurred: Status 429 Too Many Requests Body: slow down", 2, "rate_limit"),
    "overloaded": ("API error occurred: Status 503 Body: overloaded", 2, None),
    "server": ("API error occurred: Status 500 Body: oops", 2, None),
    "unavailable": ("API error occurred: Status 503 Body: down", 2, None),
    "login": ("Missing MISTRAL_API_KEY environment variable for mistral provider", 1, None),
    "expired": ("Invalid API key (from env var MISTRAL_API_KEY)", 1, "invalid_api_key"),
    "context": ("Prompt too large for model with 131072 maximum context length", 2, None),
    "model": ("Invalid model: x", 2, "invalid_model"),
    "bad": ("API error occurred: Status 400 Body: bad schema", 2, None),
    "credit": ("Out of credits (payment_required)", 2, None),
    "unknown": ("Something odd happened", 2, "odd"),
    "cut": ("peer closed connection without sending complete message body", 2, None),
}


class Vibe(Tongue):
    """`vibe -p --output streaming`: whole entries, and a report on disk."""

    model = "mistral-medium-3.5"

    def start(self, model: str | None = None) -> None:
        text = self.stage.stdin.decode("utf-8", "replace")
        self._message("user", text, {"type": "committed"})

    def _message(self, role: str, text: str, outcome: dict[str, str]) -> None:
        told = {"type": "message", "role": role, "content": [{"type": "text", "text": text}]}
        self.stage.line({**told, "generationStatus": "done", "outcome": outcome})

    def think(self, text: str) -> None:
        self.stage.line({"type": "reasoning", "text": text})

    def _report(self, **fields: Any) -> None:
        out = sys.argv[sys.argv.index("--output-dir") + 1]
        os.makedirs(out, exist_ok=True)
        with open(f"{out}/export.json", "w", encoding="utf-8") as file:
            json.dump(fields, file)

    def end(self, finish: str = "stop", usage: dict[str, int] | None = None) -> None:
        if finish == "refusal":
            self._report(outcome="refusal", error={"message": "refused", "code": "refusal"})
            self.code = 2
            return
        self._message("assistant", "".join(self.text), {"type": "committed"})
        told = usage or {"input_tokens": 31, "output_tokens": 3, "cached_input_tokens": 0}
        outcome = "length" if finish == "length" else "finished"
        self._report(outcome=outcome, usage=told, cost_usd=0.002)

    def fail(self, kind: str, more: dict[str, Any] | None = None) -> None:
        if kind == "retry":
            self._message("assistant", "half", {"type": "discarded", "cause": "retry"})
            return
        text, code, reported = VIBE_FAILURES["quota" if kind == "prose" else kind]
        text = (more or {}).get("text") or text
        _write_all(2, f"Error: {text}\n".encode())
        if reported is not None:
            self._report(outcome="failed", error={"message": text, "code": reported})
        self.code = code

    def tool(self, name: str) -> None:
        self.stage.line({"id": "e1", "type": "effect", "title": name})


TONGUES: dict[str, type[Tongue]] = {"claude": Claude, "codex": Codex, "vibe": Vibe}


# --- what a CLI tells of itself ----------------------------------------------------------------


def _lines() -> Iterator[dict[str, Any]]:
    while line := sys.stdin.readline():
        yield json.loads(line)


def _claude_survey(stage: Stage) -> None:
    """The control protocol: the models, and what is left of the plan."""
    told = stage.survey()
    names = told.get("models", ["sonnet", "opus", "haiku"])
    for line in _lines():
        asked = line["request"]["subtype"]
        models = {"models": [{"value": name} for name in names]}
        limits = {"rate_limits": told.get("limits", {})}
        answer = {"initialize": models, "get_usage": limits}.get(asked, {})
        inner = {"subtype": "success", "request_id": line["request_id"], "response": answer}
        stage.line({"type": "control_response", "response": inner})


def _codex_survey(stage: Stage) -> None:
    """`codex debug models`, or the app-server asked for the plan."""
    told = stage.survey()
    if "debug" in sys.argv:
        names = told.get("models", ["gpt-5.5", "gpt-5.4"])
        reads = told.get("contexts", {})
        sizes = {name: {"context_window": size} for name, size in reads.items()}
        models = [{"slug": name, "visibility": "list", **sizes.get(name, {})} for name in names]
        stage.line({"models": models})
        return
    for line in _lines():
        if "id" in line:
            limits = told.get("limits", {})
            stage.line({"id": line["id"], "result": {"rateLimits": limits}})


Survey = tuple[set[str], Callable[[Stage], None]]
SURVEYS: dict[str, Survey] = {
    "claude": ({"--input-format"}, _claude_survey),
    "codex": ({"debug", "app-server"}, _codex_survey),
}
"""By name: the arguments that make a call a survey, and what it then says."""


# --- the play ----------------------------------------------------------------------------------


def _repeat(tongue: Tongue, what: str, text: str, times: int = 1, every: float = 0.0) -> None:
    for index in range(times):
        if every and index:
            time.sleep(every)
        getattr(tongue, what)(text.replace("{i}", str(index)))


def _split(tongue: Tongue, text: str, pause: float = 0.1) -> None:
    """Says `text`, its line written in two pieces, cut inside the first wide character."""
    real = tongue.stage.write

    def write(data: bytes) -> None:
        cut = next((i for i, byte in enumerate(data) if byte >= 0x80), len(data) - 2) + 1
        real(data[:cut])
        time.sleep(pause)
        real(data[cut:])

    tongue.stage.write = write  # type: ignore[method-assign]
    tongue.say(text)
    tongue.stage.write = real  # type: ignore[method-assign]


def _grandchild(stage: Stage, how: str, seconds: float = 60.0) -> None:
    """A process that keeps standard output open; `own` puts it in a session of its own."""
    ready, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        if how == "own":
            os.setsid()
        os.write(told, b"x")
        # A new program: its environment, and so its mark, is what the fake was given.
        args = [sys.executable, "-SEc", f"import time; time.sleep({seconds})"]
        os.execv(sys.executable, args)
    os.read(ready, 1)
    stage.note(what="grandchild", child=pid, how=how)


def _wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(POLL_S)


def _act(stage: Stage, tongue: Tongue, action: list[Any]) -> None:
    what, *rest = action
    match what:
        case "init" | "start" | "end" | "fail" | "tool":
            getattr(tongue, what)(*rest)
        case "say" | "think":
            _repeat(tongue, what, *rest)
        case "split":
            _split(tongue, *rest)
        case "json":
            stage.line(*rest)
        case "raw":
            stage.write(rest[0].encode())
        case "hex":
            stage.write(bytes.fromhex(rest[0]))
        case "stderr":
            _write_all(2, rest[0].encode() * (rest[1] if len(rest) > 1 else 1))
        case "sleep":
            time.sleep(rest[0])
        case "hang":
            time.sleep(FOREVER_S)
        case "until":
            _wait_for(rest[0])
        case "note":
            stage.note(what=rest[0])
        case "replace":
            _replace(*rest)
        case "grandchild":
            _grandchild(stage, *rest)
        case "close":
            os.close(1)
        case "exit":
            os._exit(rest[0])
        case "kill":
            os.kill(os.getpid(), rest[0])
            time.sleep(FOREVER_S)
        case _:
            raise ValueError(f"no such action: {what}")


def _replace(name: str, text: str) -> None:
    """A new file in place of an old one or a link, by rename, as careful programs write one."""
    top = _private()["path"]
    with open(f"{top}/{name}.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{top}/{name}.new", f"{top}/{name}")


def _on_term(stage: Stage, ignore: bool) -> None:
    def told(number: int, frame: object) -> None:
        stage.note(what="term")
        if not ignore:
            os._exit(128 + number)

    signal.signal(signal.SIGTERM, told)


def main(name: str) -> None:
    """Play one call of the CLI `name`, and end the process."""
    if "--version" in sys.argv:
        print(f"{name} 9.9.9 (fake)")
        os._exit(0)
    stage = Stage(name, os.environ["FAKE_PLAN"])
    if (tell := SURVEYS.get(name)) and tell[0] & set(sys.argv[1:]):
        stage.note(what="survey", pid=os.getpid(), argv=sys.argv)
        tell[1](stage)
        os._exit(0)
    stage.take_number()
    stage.note_start()
    _on_term(stage, ignore=any(turn.get("term") == "ignore" for turn in [stage.turn()]))
    if stage.turn().get("stdin") != "ignore":
        stage.read()
    turn = stage.turn()
    _on_term(stage, ignore=turn.get("term") == "ignore")
    stage.left = turn.get("cap")
    tongue = TONGUES[name](stage)
    try:
        for action in turn.get("do") or ():
            _act(stage, tongue, action)
    except BrokenPipeError:
        os._exit(141)
    stage.note(what="ended", code=tongue.code)
    os._exit(tongue.code)
