"""OpenAI's Responses API as ``codex`` speaks it.

Codex tells a used-up plan (``usage_limit_reached`` with a reset time) from missing credit and
from a passing throttle by the error's type and code, so each has its own body here, and a context
overflow comes as a failed response inside a good stream, as the real API sends it.

``[[FAIL:{"status": 403, "body": …, "headers": {…}}]]`` is any error at all, its body an object or a
text; ``[[FAILED:{"code": "…", "message": "…"}]]`` is any failed response, and
``[[INCOMPLETE:reason]]`` one that ends early.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from .openai_stream import CONTEXT_MESSAGE, POLICY_MESSAGE, Writer
from .plan import plan
from .reading import tools_of, turns_of
from .scenario import Ask, Quota, Scenario, State, ask_of
from .stream import MidStreamError, Sse, before_head

_ERRORS: dict[str, tuple[int, dict[str, Any]]] = {
    "THROTTLE": (
        429,
        {
            "type": "requests",
            "code": "rate_limit_exceeded",
            "message": "Rate limit reached for requests. Please try again in 20s.",
        },
    ),
    "CREDIT": (
        429,
        {
            "type": "insufficient_quota",
            "code": "insufficient_quota",
            "message": "You exceeded your current quota, please check your plan and billing.",
        },
    ),
    "OVERLOADED": (503, {"type": "server_error", "message": "overloaded"}),
    "ERROR500": (500, {"type": "server_error", "message": "The server had an error."}),
    "AUTH": (
        401,
        {
            "type": "invalid_request_error",
            "code": "invalid_api_key",
            "message": "Incorrect API key provided",
        },
    ),
    "BADREQ": (400, {"type": "invalid_request_error", "code": None, "message": "bad thing"}),
    "POLICY": (
        400,
        {"type": "invalid_request_error", "code": "invalid_prompt", "message": POLICY_MESSAGE},
    ),
}


async def responses(request: web.Request, state: State) -> web.StreamResponse:
    body = await request.json()
    ask = read(body)
    scenario = state.choose("openai", ask)
    failed = await before_head(request, scenario) or failure(scenario, body, state.quota)
    if failed is not None:
        return failed
    sse = Sse(request, state.pace_s)
    await sse.open(limit_headers(state.quota))
    writer = Writer(sse, body, state, ask.length)
    try:
        await writer.run(scenario, plan(scenario, ask))
    except MidStreamError:
        await writer.failed("server_error", "boom")
    return await sse.close()


def read(body: Mapping[str, Any]) -> Ask:
    return ask_of(turns_of("openai", body), tools_of("openai", body))


def limit_headers(quota: Quota) -> dict[str, str]:
    return {
        "x-codex-primary-used-percent": f"{quota.five_hour * 100:g}",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-after-seconds": str(int(quota.resets_in)),
        "x-codex-secondary-used-percent": f"{quota.seven_day * 100:g}",
        "x-codex-secondary-window-minutes": "10080",
        "x-codex-secondary-reset-after-seconds": str(3 * 86400),
    }


def failure(scenario: Scenario, body: Mapping[str, Any], quota: Quota) -> web.Response | None:
    if scenario.name == "QUOTA":
        return _error(429, _usage_limit(quota), limit_headers(quota))
    if scenario.name == "MODEL":
        return _no_model(scenario, body)
    if scenario.name == "FAIL":
        return _any_error(json.loads(scenario.arg or "{}"))
    if scenario.name == "CONTEXT" and scenario.arg == "400":
        return _error(
            400,
            {
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
                "message": CONTEXT_MESSAGE,
            },
        )
    if scenario.name == "POLICY" and scenario.arg != "400":
        return None
    if scenario.name in _ERRORS:
        status, error = _ERRORS[scenario.name]
        late = scenario.name == "THROTTLE" and scenario.arg
        return _error(status, error, {"retry-after": str(scenario.arg)} if late else None)
    return None


def _any_error(told: Mapping[str, Any]) -> web.Response:
    body, headers = told.get("body", ""), told.get("headers", {})
    if not isinstance(body, str):
        return web.json_response(body, status=told["status"], headers=headers)
    return web.Response(status=told["status"], text=body, headers=headers)


def _usage_limit(quota: Quota) -> dict[str, Any]:
    return {
        "type": "usage_limit_reached",
        "message": "The usage limit has been reached",
        "plan_type": "plus",
        "resets_at": int(time.time() + quota.resets_in),
        "resets_in_seconds": int(quota.resets_in),
    }


def _no_model(scenario: Scenario, body: Mapping[str, Any]) -> web.Response:
    model = body.get("model")
    if scenario.arg == "chatgpt":  # what a ChatGPT login gets instead of a 404
        detail = f"The '{model}' model is not supported when using Codex with a ChatGPT account."
        return web.json_response({"detail": detail}, status=400)
    message = f"The model `{model}` does not exist or you do not have access to it."
    error = {"type": "invalid_request_error", "code": "model_not_found", "message": message}
    return _error(404, error)


def _error(
    status: int, error: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.json_response({"error": dict(error)}, status=status, headers=headers)
