"""`python -m olp.demo -p --model NAME …`: read a prompt on standard input and answer it.

The model's name selects the behaviour: `chat` answers at once, `slow` word by word, `limited` has
used up its plan, `overloaded` gets an error from its vendor, `cut` dies in the middle of the
answer, `silent` never starts to answer, `logged-out` has no login.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

VERSION = "2.1.332 (olp demo)"
MODEL_ID = "demo-{name}"
RESET_S = 3600


def emit(kind: str, **fields: Any) -> None:
    """Write one line of stream-json."""
    sys.stdout.write(json.dumps({"type": kind, **fields}) + "\n")
    sys.stdout.flush()


def stream(event: dict[str, Any]) -> None:
    """Write one stream event of the vendor."""
    emit("stream_event", event=event, parent_tool_use_id=None)


def result(text: str, usage: dict[str, int], *, error: bool = False, **more: Any) -> int:
    """Write the final line; returns the exit code."""
    emit("result", subtype="success", is_error=error, result=text, usage=usage, **more)
    return 1 if error else 0


def refuse(text: str, error: str, status: int | None) -> int:
    """Write a failure in the form of an answer, like the real CLI; returns the exit code."""
    message = {"model": "<synthetic>", "content": [{"type": "text", "text": text}]}
    emit("assistant", message=message, parent_tool_use_id=None, error=error)
    return result(text, {}, error=True, api_error_status=status)


def limited() -> int:
    """Report that the plan is used up."""
    resets = int(time.time()) + RESET_S
    window = {"utilization": 1.0, "resetsAt": resets, "status": "rejected"}
    # A limit of one model: the demo's other models keep working.
    info = {"status": "rejected", "resetsAt": resets, "rateLimitType": "seven_day_opus"}
    emit("rate_limit_event", rate_limit_info={**info, "unifiedWindows": {"seven_day_opus": window}})
    return refuse("You've hit your Opus limit \u00b7 resets in 1 hour", "rate_limit", 429)


def words(prompt: str) -> list[str]:
    """The pieces of the answer."""
    lines = prompt.strip().splitlines() or [""]
    asked = lines[0][:60]
    text = (
        "Hello from OLP's demo. No subscription was used for this answer; it only shows that "
        f"your client reaches OLP. You wrote {len(prompt.strip())} characters, beginning with "
        f"\u201c{asked}\u201d."
    )
    return [word + " " for word in text.split(" ")]


def answer(name: str, prompt: str, limit: int | None) -> int:
    """Stream an answer, slow or broken as `name` says; returns the exit code."""
    model = MODEL_ID.format(name=name)
    pieces = words(prompt)
    usage = {"input_tokens": max(1, len(prompt) // 4), "output_tokens": len(pieces)}
    stream({"type": "message_start", "message": {"model": model, "usage": usage}})
    for index, piece in enumerate(pieces[:limit]):
        if name == "cut" and index == len(pieces) // 2:
            return 137
        if name == "slow":
            time.sleep(0.3)
        delta = {"type": "text_delta", "text": piece}
        stream({"type": "content_block_delta", "index": 0, "delta": delta})
    if limit is not None and limit < len(pieces):
        delta = {"stop_reason": "max_tokens"}
        stream({"type": "message_delta", "delta": delta, "usage": {"output_tokens": limit}})
    stream({"type": "message_stop"})
    return result("".join(pieces), usage, total_cost_usd=0.0)


def main() -> int:
    """Run the program; returns the exit code."""
    if "--version" in sys.argv:
        print(VERSION)
        return 0
    name = sys.argv[sys.argv.index("--model") + 1] if "--model" in sys.argv else "chat"
    prompt = sys.stdin.read()
    limit = os.environ.get("CLAUDE_CODE_MAX_OUTPUT_TOKENS")
    emit("system", subtype="init", tools=[], mcp_servers=[], model=MODEL_ID.format(name=name))
    match name:
        case "limited":
            return limited()
        case "overloaded":
            return refuse("API Error: 529 Overloaded", "server_error", 529)
        case "logged-out":
            return refuse("Not logged in \u00b7 Please run /login", "authentication_failed", None)
        case "silent":
            time.sleep(3600)
            return 0
        case _:
            return answer(name, prompt, int(limit) if limit else None)


if __name__ == "__main__":
    try:
        code = main()
    except (KeyboardInterrupt, BrokenPipeError):
        code = 130
    sys.stdout.flush()
    os._exit(code)
