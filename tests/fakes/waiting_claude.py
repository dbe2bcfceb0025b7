"""A claude that waits for its request on standard input, for tests of the pool.

Its prompt says what it does: `die` ends it, `hang` keeps it silent, anything else is answered with
the process's id and all the user has said in this conversation. `WAITING_BOOT` says how it starts:
`fail` exits at once, `hang` never gets ready.
"""

from __future__ import annotations

import json
import os
import sys
import time


def emit(**message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(said: list[str]) -> None:
    text = f"{os.getpid()}: " + " | ".join(said)
    start = {"type": "message_start", "message": {"model": "claude-sonnet-fake", "usage": {}}}
    delta = {"type": "text_delta", "text": text}
    emit(type="system", subtype="init", tools=[], mcp_servers=[])
    emit(type="stream_event", event=start)
    emit(type="stream_event", event={"type": "content_block_delta", "delta": delta})
    emit(type="result", subtype="success", is_error=False, num_turns=1, result=text, usage={})


def main() -> None:
    boot = os.environ.get("WAITING_BOOT")
    if "--input-format" not in sys.argv:
        answer([sys.stdin.read()])
        return
    if boot == "fail":
        sys.exit(3)
    if boot == "hang":
        time.sleep(600)
    said: list[str] = []
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "control_request":
            response = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            emit(type="control_response", response=response)
        elif message["type"] == "user":
            said.append(message["message"]["content"])
            if message.get("shouldQuery") is False:
                emit(type="result", subtype="success", is_error=False, num_turns=0, result="")
            elif "die" in said[-1]:
                os._exit(9)
            elif "hang" in said[-1]:
                time.sleep(600)
            else:
                answer(said)


if __name__ == "__main__":
    main()
