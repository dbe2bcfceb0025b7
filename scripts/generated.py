"""The files of this repository that are made from the code, so that they cannot contradict it.

`scripts/generate` writes them; with `--check` it only says which are out of date (exit code 1).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from olp.config.render import Sample, reference, template
from olp.core.routing.triggers import CLIENT_ERROR_STATUSES, HARD_STATUSES, RULES, Rule
from olp.dialects.openai_chat import error_body
from olp.events import ErrorCode, Failed, TriggerType
from olp.providers import all_providers

ROOT = Path(__file__).resolve().parent.parent
MADE = "<!-- Made by scripts/generate: do not edit. -->"

REQUEST_ERRORS: Sequence[tuple[str, int, str, str, str]] = (
    ("invalid_json", 400, "the body is not a JSON object", "final", "send valid JSON"),
    ("invalid_body", 400, "the body cannot be decompressed", "final", "send it as it is"),
    ("bad_request", 400, "this is no proper HTTP request", "final", "look at the address"),
    (
        "null",
        400,
        "a parameter has a wrong type or value",
        "final",
        "change the parameter that `param` names",
    ),
    (
        "unsupported_parameter",
        400,
        "a parameter asks for what no CLI can do",
        "final",
        "leave out the parameter that `param` names",
    ),
    (
        "invalid_value",
        400,
        "a tool, an image or a file is not one that can be used",
        "final",
        "change the parameter that `param` names",
    ),
    (
        "misplaced_key",
        400,
        "a key stands in the address or the model",
        "final",
        "send it in a header, and have it replaced",
    ),
    ("several_keys", 400, "several different keys were sent", "final", "send one"),
    (
        "missing_api_key",
        401,
        "keys are on, and none was sent",
        "final",
        "send one as `Authorization: Bearer …` or `x-api-key: …`; the owner makes one",
    ),
    (
        "invalid_api_key",
        401,
        "the key is not known here",
        "final",
        "look for a typing mistake, or ask the owner for a new one",
    ),
    ("key_revoked", 401, "the owner took the key back", "final", "ask the owner"),
    ("key_expired", 401, "the key's time is over", "final", "ask the owner"),
    (
        "chain_not_allowed",
        403,
        "the key is for other chains and models",
        "final",
        "pick a name from `GET /v1/models`",
    ),
    (
        "outside_hours",
        403,
        "the key may not be used at this time of day",
        "retry after `Retry-After`",
        "wait until it opens",
    ),
    (
        "owner_only",
        403,
        "this path is for the owner",
        "final",
        "ask the owner",
    ),
    (
        "origin_not_allowed",
        403,
        "a web page of this origin may not call OLP",
        "final",
        "the owner can allow it: `cors_origins` in `[server]`",
    ),
    (
        "host_not_allowed",
        403,
        "the address has a name that is not this machine's",
        "final",
        "use the machine's own name or address, or `allowed_hosts` in `[server]`",
    ),
    (
        "model_not_found",
        404,
        "there is no such chain or model",
        "final",
        "pick a name from `GET /v1/models`",
    ),
    ("not_found", 404, "there is nothing at this path", "final", "the API is under `/v1`"),
    (
        "unsupported_endpoint",
        404,
        "other servers do something at this path that OLP does not",
        "final",
        "the message says what OLP does instead",
    ),
    (
        "method_not_allowed",
        405,
        "the path exists, the method does not",
        "final",
        "use the method that the `Allow` header names",
    ),
    ("unknown_method", 501, "there is no such HTTP method", "final", "use GET or POST"),
    (
        "expectation_failed",
        417,
        "the header `Expect` says something else than `100-continue`",
        "final",
        "leave it out",
    ),
    (
        "unsupported_encoding",
        415,
        "the body is packed in a way that OLP cannot unpack",
        "final",
        "send it plain, or with gzip",
    ),
    (
        "headers_too_large",
        431,
        "the address, a header or all of them are too large",
        "final",
        "send less",
    ),
    (
        "request_timeout",
        408,
        "the request was not sent in time",
        "retry",
        "send it faster, or raise `body_timeout_s` in `[server]`",
    ),
    (
        "request_too_large",
        413,
        "the body is larger than OLP accepts",
        "final",
        "send less, or raise `max_body_mb` in `[server]`",
    ),
    (
        "too_many_requests",
        429,
        "you have too many requests in flight",
        "retry after `Retry-After`",
        "wait for one of them to end",
    ),
    (
        "insufficient_quota",
        429,
        "the key's limit of requests, tokens or requests at a time is reached",
        "retry after `Retry-After`",
        "the message says which one, and when it resets",
    ),
    (
        "too_many_attempts",
        429,
        "too many wrong keys came from this address",
        "retry after `Retry-After`",
        "use the right key: it is never held back",
    ),
    (
        "keys_unusable",
        503,
        "the server cannot read its keys, and refuses every request",
        "retry",
        "the owner: `olp keys list` says what is wrong",
    ),
    (
        "server_stopping",
        503,
        "the server is being stopped",
        "retry",
        "ask again when it runs again",
    ),
    (
        "internal_error",
        500,
        "OLP made a mistake",
        "retry once",
        "report it with the `X-OLP-Request-Id`",
    ),
)
"""Code, status, what happened, whether asking again helps, what to do. A test compares the codes
with those that stand in the code."""

FALLBACK = f"""\
# What each failure means for the chain

{MADE}

A chain is tried hop by hop until one answers. Whether a failure moves it on is decided by the
table in `olp/core/routing/triggers.py`, and only while no byte of the answer has been sent. *Hard*
and *soft* failures move on; a soft one means that the hop was not even started. A client error, a
missing login and a failure of an unknown kind stop the chain at once, with the provider's name.

A conversation that is too long for a model is a client error, but another model may read more. How
much each reads, codex tells in its list of models and claude with its answers; `context` of a
provider says it where the CLI does not. An empty answer moves on as long as another hop can be
asked; the last one's is given as it is, with finish reason `stop` and `X-OLP-Empty-Answer: true`.
A hop that is full is passed over, and waited for when nobody else has answered (`queue_s` of
`[routing]`).

| code | trigger | the chain | what happened | counted by the breaker |
|---|---|---|---|---|
"""

BY_STATUS = """
An `UNKNOWN` failure that came with a status of the vendor's is decided by it: {stop}
stop the chain; {go} and everything from 500 on move it on. Without a status it stops.
"""

ERRORS = f"""\
# Every error that a client can meet

{MADE}

The body is `{{"error": {{"message", "type", "param", "code"}}}}`; in a stream that has begun, the
same object comes as an event and no `[DONE]` follows. *Final* means that the same request will fail
again. When a whole chain failed, status and code are those of its first hop, the message tells what
happened to each, and `x-should-retry: false` keeps a client's own retries from multiplying the
attempts. `Retry-After` is the time until any of the hops may be well again.

## Of a request that asks no provider

| code | status | what happened | asking again | what to do |
|---|---|---|---|---|
"""

PROVIDER_ERRORS = """
## Of a provider

The message begins with OLP's own code, which stands in the log and in `X-OLP-Fallback-Detail` too.

| OLP's code | `code` | `type` | status | what happened | asking again | what to do |
|---|---|---|---|---|---|---|
"""

MOVES = {
    TriggerType.HARD: "moves on",
    TriggerType.SOFT: "moves on",
    TriggerType.AUTH_MISSING: 'stops (moves on with `on_auth_missing = "advance"`)',
    TriggerType.CLIENT_ERROR: "stops",
    TriggerType.NON_TRIGGER: "stops",
}

LARGER = "stops (moves on to a model that is known to read more)"


def files() -> Mapping[str, str]:
    """Each made file by its path from the root."""
    samples = [
        Sample(name, provider.info.title, provider.info.models)
        for name, provider in all_providers().items()
        if provider.info.rank
    ]
    return {
        "olp.toml": template(samples),
        "docs/config.md": reference(),
        "docs/fallback.md": fallback(),
        "docs/errors.md": errors(),
    }


def fallback() -> str:
    """The trigger table."""
    rows = []
    for code, rule in RULES.items():
        counted = "yes" if rule.counted_by_breaker else "no"
        moves = LARGER if code is ErrorCode.CONTEXT_TOO_LONG else MOVES[rule.trigger]
        rows.append((f"`{code}`", rule.trigger, moves, rule.meaning, counted))
    stop, go = (_numbers(s) for s in (CLIENT_ERROR_STATUSES, HARD_STATUSES))
    return FALLBACK + "".join(map(row, rows)) + BY_STATUS.format(stop=stop, go=go)


def _numbers(statuses: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(statuses)))


def errors() -> str:
    """Every code."""
    early = [(f"`{code}`", *rest) for code, *rest in REQUEST_ERRORS]
    late = [provider_error(code, rule) for code, rule in RULES.items()]
    return ERRORS + "".join(map(row, early)) + PROVIDER_ERRORS + "".join(map(row, late))


def provider_error(code: ErrorCode, rule: Rule) -> tuple[object, ...]:
    """One row of the second table."""
    told = error_body(Failed(code, ""))["error"]
    shown = (f"`{code}`", f"`{told['code']}`", f"`{told['type']}`", rule.status, rule.meaning)
    return (*shown, again(code, rule), rule.advice)


def again(code: ErrorCode, rule: Rule) -> str:
    """Whether the same request may succeed later."""
    if code is ErrorCode.CONCURRENCY_LIMIT:
        return "retry after `Retry-After`; a client's own retry is welcome"
    fixed = (TriggerType.CLIENT_ERROR, TriggerType.AUTH_MISSING)
    if rule.trigger in fixed or code in (ErrorCode.CLI_NOT_FOUND, ErrorCode.INCAPABLE):
        return "final"
    return "retry after `Retry-After`" if rule.status in (429, 503) else "retry once"


def row(cells: Sequence[object]) -> str:
    """One row of a table."""
    return f"| {' | '.join(str(cell) for cell in cells)} |\n"


def main(arguments: Sequence[str]) -> int:
    """Write what is out of date, or only name it."""
    stale = []
    for name, text in files().items():
        path = ROOT / name
        if not path.exists() or path.read_text("utf-8") != text:
            stale.append(name)
            if "--check" not in arguments:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, "utf-8")
    if "--check" in arguments and stale:
        print(f"out of date: {', '.join(stale)}; run scripts/generate", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
