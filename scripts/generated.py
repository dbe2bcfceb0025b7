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
    ("invalid_body", 400, "the body cannot be decompressed", "final", "send it uncompressed"),
    ("bad_request", 400, "the HTTP request is malformed", "final", "check the URL"),
    (
        "null",
        400,
        "a parameter has an invalid type or value",
        "final",
        "change the parameter that `param` names",
    ),
    (
        "unsupported_parameter",
        400,
        "no CLI supports this parameter value",
        "final",
        "remove the parameter that `param` names",
    ),
    (
        "invalid_value",
        400,
        "a tool, an image or a file is unusable",
        "final",
        "change the parameter that `param` names",
    ),
    (
        "misplaced_key",
        400,
        "a key was sent in the URL or the model",
        "final",
        "send it in a header, and have it rotated",
    ),
    ("several_keys", 400, "several different keys were sent", "final", "send one"),
    (
        "missing_api_key",
        401,
        "a key is required, and none was sent",
        "final",
        "send one as `Authorization: Bearer …` or `x-api-key: …`; the owner makes one",
    ),
    (
        "invalid_api_key",
        401,
        "the key is unknown",
        "final",
        "check for typos, or ask the owner for a new one",
    ),
    ("key_revoked", 401, "the key was revoked", "final", "ask the owner"),
    ("key_expired", 401, "the key has expired", "final", "ask the owner"),
    (
        "chain_not_allowed",
        403,
        "the key does not allow this chain or model",
        "final",
        "pick a name from `GET /v1/models`",
    ),
    (
        "outside_hours",
        403,
        "the key is not valid at this time of day",
        "retry after `Retry-After`",
        "wait until then",
    ),
    (
        "owner_only",
        403,
        "this path is restricted to the owner",
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
        "the `Host` header is not a name of this machine",
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
    ("not_found", 404, "there is no such path", "final", "the API is under `/v1`"),
    (
        "unsupported_endpoint",
        404,
        "OLP does not implement this endpoint",
        "final",
        "the message names the alternative",
    ),
    (
        "method_not_allowed",
        405,
        "the path does not support this method",
        "final",
        "use a method listed in the `Allow` header",
    ),
    ("unknown_method", 501, "there is no such HTTP method", "final", "use GET or POST"),
    (
        "expectation_failed",
        417,
        "the header `Expect` is not `100-continue`",
        "final",
        "remove it",
    ),
    (
        "unsupported_encoding",
        415,
        "the body's content encoding is not supported",
        "final",
        "send it uncompressed or with gzip",
    ),
    (
        "headers_too_large",
        431,
        "the URL, a header or all headers together are too large",
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
        "wait for one of them to finish",
    ),
    (
        "insufficient_quota",
        429,
        "the key's limit of requests, tokens or concurrent requests is reached",
        "retry after `Retry-After`",
        "the message names the limit and its reset time",
    ),
    (
        "too_many_attempts",
        429,
        "too many wrong keys came from this address",
        "retry after `Retry-After`",
        "use a valid key: it is never delayed",
    ),
    (
        "keys_unusable",
        503,
        "the server cannot read its keys and rejects every request",
        "retry",
        "the owner: run `olp keys list` for the cause",
    ),
    (
        "server_stopping",
        503,
        "the server is shutting down",
        "retry",
        "retry when it is running again",
    ),
    (
        "internal_error",
        500,
        "internal error in OLP",
        "retry once",
        "report it with the `X-OLP-Request-Id`",
    ),
)
"""Code, status, what happened, whether asking again helps, what to do. A test compares the codes
with those that stand in the code."""

FALLBACK = f"""\
# When a chain falls back

{MADE}

A chain tries its hops in order until one answers. The table in `olp/core/routing/triggers.py`
decides whether a failure causes fallback, and only while no byte of the answer has been sent.
*Hard* and *soft* failures do; soft means that the hop was not started. A client error, a missing
login and an unknown failure stop the chain immediately, and the error names the provider.

A conversation that is too long for a model is a client error, but another model may have a larger
context window. codex reports it in its model list and claude with its answers; set `context` of a
provider where the CLI does not. An empty answer causes fallback while hops remain; the last one's
is returned as it is, with finish reason `stop` and `X-OLP-Empty-Answer: true`. A hop at capacity is
skipped, and queued for if no other hop has answered (`queue_s` of `[routing]`).

| code | trigger | chain | what happened | counted by the circuit breaker |
|---|---|---|---|---|
"""

BY_STATUS = """
For an `UNKNOWN` failure with a vendor status, the status decides: {stop} stop the
chain; {go} and 500 or above cause fallback. Without a status the chain stops.
"""

ERRORS = f"""\
# Errors

{MADE}

The body is `{{"error": {{"message", "type", "param", "code"}}}}`; in a stream that has started, the
same object is sent as an event and no `[DONE]` follows. *Final* means that the same request will
fail again. For an exhausted chain, status and code are those of the first hop, the message says
what happened to each hop, and `x-should-retry: false` prevents client retries from multiplying the
attempts. `Retry-After` is the time until any hop may be available again.

## Before a provider is tried

| code | status | what happened | retry | what to do |
|---|---|---|---|---|
"""

PROVIDER_ERRORS = """
## From a provider

The message starts with OLP's code, which is also in the log and in `X-OLP-Fallback-Detail`.

| OLP's code | `code` | `type` | status | what happened | retry | what to do |
|---|---|---|---|---|---|---|
"""

MOVES = {
    TriggerType.HARD: "falls back",
    TriggerType.SOFT: "falls back",
    TriggerType.AUTH_MISSING: 'stops (falls back with `on_auth_missing = "advance"`)',
    TriggerType.CLIENT_ERROR: "stops",
    TriggerType.NON_TRIGGER: "stops",
}

LARGER = "stops (falls back to a model with a larger context window)"


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
        return "retry after `Retry-After`; client libraries may retry"
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
