"""Every code and every sentence of Codex's and of its vendor's, on both transports: the app-server
tells a code and words, `codex exec` the words alone.

The words are those of codex 0.171.0 (from the program itself, and from its vendor through it) and
of versions before it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from olp.events import Done, ErrorCode, Event, Failed, Finish, Started, Text
from olp.providers.base import Exit, Halt, Step
from olp.providers.codex.answer import Driver
from olp.providers.codex.failures import CODES, REFUSALS
from tests.providers.replay import NOW, play

from .test_sessions import codex_turn, completed, new_codex, request, tell

QUOTA, RATE, OVERLOAD = ErrorCode.QUOTA_EXHAUSTED, ErrorCode.RATE_LIMITED, ErrorCode.OVERLOADED
AUTH, BAD, LONG = ErrorCode.AUTH_MISSING, ErrorCode.BAD_REQUEST, ErrorCode.CONTEXT_TOO_LONG
MODEL, DEAD, CUT = ErrorCode.MODEL_NOT_FOUND, ErrorCode.SPAWN_FAILED, ErrorCode.VENDOR_CUT
UNKNOWN = ErrorCode.UNKNOWN
REFUSED, LIMITED = Finish.CONTENT_FILTER, Finish.LENGTH

PAGE = "<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>x</body></html>"
URL = ", url: https://x/v1/responses"

Meaning = ErrorCode | Finish


def http(status: int | None) -> dict[str, Any]:
    return {"httpConnectionFailed": {"httpStatusCode": status}}


LAST: dict[str, Any] = {"responseTooManyFailedAttempts": {"httpStatusCode": 429}}

SENTENCES: list[tuple[str, object, Meaning]] = [
    # the plan
    (
        "You’ve hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit "
        "https://chatgpt.com/settings/usage to purchase more credits or try again at 11:52 PM.",
        "usageLimitExceeded",
        QUOTA,
    ),
    ("You've hit your usage limit. Upgrade to Plus to continue using Codex", None, QUOTA),
    (
        "You’ve hit your usage limit. To get more access now, send a request to your admin or try "
        "again later.",
        "usageLimitExceeded",
        QUOTA,
    ),
    ("You've hit your usage limit. Try again later.", None, QUOTA),
    ("You've hit your usage limit for GPT-5.5. Switch to another model now, or try", None, QUOTA),
    ("You've hit your usage limit. Upgrade to Pro or try again in 2 days 17 hours", None, QUOTA),
    ("You've reached your usage limit. Increase your limits to continue using codex.", None, QUOTA),
    ("You've reached your workspace credit limit", None, QUOTA),
    ("Usage limit reached. You've reached your usage limit.", None, QUOTA),
    ("You're out of credits. Your workspace is out of credits. Add credits", None, QUOTA),
    ("Your workspace is out of credits. Add credits to continue.", "usageLimitExceeded", QUOTA),
    ("Your workspace is out of credits. Ask your workspace owner to refill", None, QUOTA),
    ("You hit your spend cap set in your workspace. Increase your spend cap", None, QUOTA),
    ("You hit your spend cap set by the owner of your workspace.", None, QUOTA),
    ("Quota exceeded. Check your plan and billing details.", "usageLimitExceeded", QUOTA),
    (
        "To use Codex with your ChatGPT plan, upgrade to Plus: https://x",
        "usageLimitExceeded",
        QUOTA,
    ),
    ("stream disconnected before completion: The usage limit has been reached", "other", QUOTA),
    ("stream disconnected before completion: You exceeded your current quota", "other", QUOTA),
    ("unexpected status 402 Payment Required: pay" + URL, http(402), QUOTA),
    ("budget reached", "sessionBudgetExceeded", QUOTA),
    ("shared rollout token budget exhausted", "sessionBudgetExceeded", QUOTA),
    # a throttle
    ("rate limit exceeded: Please try again in 11.054s.", "rateLimitExceeded", RATE),
    ("rate limit exceeded: ", "rateLimitExceeded", RATE),
    ("exceeded retry limit, last status: 429 Too Many Requests, request id: x", LAST, RATE),
    # the vendor's trouble
    ("Selected model is at capacity. Please try a different model.", "serverOverloaded", OVERLOAD),
    (
        "We’re currently experiencing high demand, which may cause temporary errors.",
        "internalServerError",
        OVERLOAD,
    ),
    ("Codex is currently experiencing high load.", None, OVERLOAD),
    ("Flex capacity unavailable.", "flexUnavailable", OVERLOAD),
    (
        "Policy-restricted capacity is unavailable. Please try again later.",
        "policyCapacityUnavailable",
        OVERLOAD,
    ),
    ("Server overloaded; retry later.", None, OVERLOAD),
    ("exceeded retry limit, last status: 503 Service Unavailable, request id: x", None, OVERLOAD),
    ("unexpected status 503 Service Unavailable: Unknown error" + URL, http(503), OVERLOAD),
    ("unexpected status 504 Gateway Timeout: Unknown error" + URL, http(504), OVERLOAD),
    ("unexpected status 502 Bad Gateway: <html><title>502</title></html>", http(502), OVERLOAD),
    ("unexpected status 520 <unknown status code>: cloudflare" + URL, http(520), OVERLOAD),
    ("unexpected status 529 <unknown status code>: x" + URL, http(529), OVERLOAD),
    ("internal error; agent loop died unexpectedly", "internalServerError", OVERLOAD),
    # an answer that broke off
    (
        "stream disconnected before completion: stream closed before response.completed",
        "other",
        CUT,
    ),
    ("stream disconnected before completion: Transport error: network error", None, CUT),
    ("stream disconnected before completion: idle timeout waiting for SSE", "other", CUT),
    ("stream disconnected before completion: response.failed event received", "other", CUT),
    ("stream disconnected before completion: The server had an error.", "other", CUT),
    ("Incomplete response returned, reason: something_else", "other", CUT),
    ("Error while reading the server response: connection reset", None, CUT),
    # a vendor that cannot be reached
    ("Connection failed: error sending request", http(None), DEAD),
    ("stream disconnected before completion: error sending request", "other", DEAD),
    ("workspace routing discovery failed", "other", DEAD),
    ("workspace routing discovery timed out", "other", DEAD),
    ("request timed out", "other", DEAD),
    ("unexpected status 403 Forbidden: " + PAGE + URL, http(403), DEAD),
    ("unexpected status 403 Forbidden: <html><title>403 Forbidden</title></html>", http(403), DEAD),
    (
        "Access blocked by Cloudflare. This usually happens when connecting from a restricted "
        "region (status 403 Forbidden), url: https://x, cf-ray: y",
        http(403),
        DEAD,
    ),
    (
        "unexpected status 403 Forbidden: Country, region, or territory not supported" + URL,
        http(403),
        DEAD,
    ),
    (PAGE, "other", DEAD),
    ("unexpected status 451 Unavailable For Legal Reasons: Unknown error", http(451), DEAD),
    ("unexpected status 302 Found: Unknown error" + URL, http(302), DEAD),
    # no login
    ("unexpected status 401 Unauthorized: x" + URL, http(401), AUTH),
    ("unexpected status 403 Forbidden: no permission" + URL, http(403), AUTH),
    ("unexpected status 403 Forbidden: Unknown error" + URL, http(403), AUTH),
    (
        "Your access token could not be refreshed because your refresh token has expired.",
        None,
        AUTH,
    ),
    (
        "Your access token could not be refreshed because your refresh token was revoked.",
        None,
        AUTH,
    ),
    ("Your access token could not be refreshed. Please log out and sign in again.", None, AUTH),
    (
        "Your access token could not be refreshed because you have since logged out or signed in "
        "to another account. Please sign in again.",
        "unauthorized",
        AUTH,
    ),
    ("Your refresh token was already used. Please log out and sign in again.", None, AUTH),
    ("Your authentication session could not be refreshed automatically.", None, AUTH),
    ("workspace routing discovery unauthorized (401)", "other", AUTH),
    ("ChatGPT login is required", None, AUTH),
    ("Missing environment variable: `X`.", "other", AUTH),
    ("Not logged in", None, AUTH),
    # the request
    ('{"detail":"The \'x\' model is not supported when using Codex with"}', "other", MODEL),
    ("The model `x` does not exist or you do not have access to it.", "modelNotFound", MODEL),
    ("model_not_found", "modelNotFound", MODEL),
    ("The requested access program is not enabled.", http(None), MODEL),
    ('{"detail":"The \'x\' model requires a newer version of Codex."}', "other", MODEL),
    ("unexpected status 404 Not Found: Unknown error" + URL, http(404), MODEL),
    (
        "Codex ran out of room in the model's context window. Start a new thread or clear earlier "
        "history before retrying.",
        "contextWindowExceeded",
        LONG,
    ),
    ('{"error": {"code": "context_length_exceeded", "message": "x"}}', "other", LONG),
    ("unexpected status 413 Payload Too Large: Unknown error" + URL, http(413), LONG),
    ('{"error": {"type": "invalid_request_error", "message": "bad thing"}}', "other", BAD),
    ('{"error": {"code": "access_program_not_enabled", "message": "no"}}', "other", BAD),
    ("Invalid image in your last message. Please remove it and try again.", "badRequest", BAD),
    ("The image data you provided does not represent a valid image", None, BAD),
    ("Invalid audio input.", None, BAD),
    ("duplicate tool: x", "other", BAD),
    ("unexpected status 422 Unprocessable Entity: no" + URL, http(422), BAD),
    # the CLI itself
    ("turn aborted. Something went wrong? Hit `/feedback` to report the issue.", "other", DEAD),
    ("Fatal error: no such thing", "other", DEAD),
    ("sandbox error: x", "sandboxError", DEAD),
    ("codex-linux-sandbox was required but not provided", "other", DEAD),
    ("timeout waiting for child process to exit", "other", DEAD),
    ("spawn failed: child stdout/stderr not captured", "other", DEAD),
    ("session configured event was not the first event in the stream", None, DEAD),
    ("unsupported operation: x", None, DEAD),
    ("Host usage accounting failed: x", "other", DEAD),
    ("no thread with id: x", None, DEAD),
    ("agent thread limit reached", None, DEAD),
    (
        "interrupted (Ctrl-C). Something went wrong? Hit `/feedback` to report the issue.",
        None,
        DEAD,
    ),
    # a limit of the answer
    ("Incomplete response returned, reason: max_output_tokens", "other", LIMITED),
    # refusals
    (
        "stream disconnected before completion: Incomplete response returned, reason: "
        "content_filter",
        "other",
        REFUSED,
    ),
    (
        "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please "
        "try again with a different prompt.",
        "other",
        REFUSED,
    ),
    (
        "Invalid prompt: we've limited access to this content for safety reasons.",
        "other",
        REFUSED,
    ),
    ("Invalid request.", "other", REFUSED),
    ("This request has been flagged for possible cybersecurity risk.", "cyberPolicy", REFUSED),
    (
        "This request has been flagged for potentially high-risk cyber activity.",
        "cyberPolicy",
        REFUSED,
    ),
    ("This content was flagged for possible biological risk.", "bioPolicy", REFUSED),
    (
        "This request was blocked due to a misalignment policy violation.",
        "misalignmentPolicyViolation",
        REFUSED,
    ),
    (
        "This request was blocked by our safety systems. Reason: Potentially unintended activity.",
        "misalignmentPolicyViolation",
        REFUSED,
    ),
    (
        "Your workspace inference hook blocked this request.",
        "inferenceHookDenied",
        REFUSED,
    ),
    ("The input was rejected by the content policy.", "other", REFUSED),
    ("Your request was rejected as a result of our safety system.", "other", REFUSED),
    # known by a status alone, or not at all
    ("unexpected status 408 Request Timeout: Unknown error" + URL, http(408), UNKNOWN),
    ("unexpected status 418 I'm a teapot: Unknown error" + URL, http(418), UNKNOWN),
    ("Something that nobody has seen", "other", UNKNOWN),
    ("", "other", UNKNOWN),
    ("Something that nobody has seen", "neverSeen", UNKNOWN),
]


def exec_says(*lines: dict[str, Any], code: int = 1) -> list[Event]:
    played = play(Driver("hi", now=NOW), [json.dumps(line) for line in lines], Exit(code))
    return [event for event in played.events if not isinstance(event, Started)]


def exec_fails(words: str) -> list[Event]:
    error = {"message": words}
    return exec_says({"type": "error", **error}, {"type": "turn.failed", "error": error})


def server_says(method: str, **params: Any) -> list[Step]:
    """What the app-server tells while it answers."""
    session = new_codex()
    codex_turn(session, request("hi"))
    return list(tell(session, method=method, params={"threadId": "T", **params}))


def server_fails(words: str, info: object) -> list[Step]:
    session = new_codex()
    codex_turn(session, request("hi"))
    told = completed("failed", message=words, codexErrorInfo=info)
    error = {"threadId": "T", "error": told["params"]["turn"]["error"], "willRetry": False}
    assert list(tell(session, method="error", params=error)) == []
    return list(tell(session, **told))


def meaning(events: list[Any]) -> Meaning:
    end = events[-1]
    return end.code if isinstance(end, Failed) else end.finish


@pytest.mark.parametrize(("words", "info", "expected"), SENTENCES)
def test_A7_each_wording_of_the_app_server(words: str, info: object, expected: Meaning) -> None:
    assert meaning(server_fails(words, info)) is expected


@pytest.mark.parametrize(("words", "info", "expected"), SENTENCES)
def test_A7_each_wording_of_exec(words: str, info: object, expected: Meaning) -> None:
    assert meaning(exec_fails(words)) is _without_code(words, expected)


def _without_code(words: str, expected: Meaning) -> Meaning:
    """Two sentences that say nothing without their code."""
    known = {"internal error; agent loop died unexpectedly": DEAD}
    return known.get(words, expected)


@pytest.mark.parametrize(("words", "info", "expected"), SENTENCES)
def test_G1_no_wording_gives_text_that_came_before_for_a_whole_answer(
    words: str, info: object, expected: Meaning
) -> None:
    """A failure that a living CLI tells is never one that is salvaged."""
    said = {"type": "item.completed", "item": {"type": "agent_message", "text": "half"}}
    told = exec_says(said, {"type": "turn.failed", "error": {"message": words}})
    if isinstance(expected, ErrorCode):
        assert [type(event) for event in told] == [Failed]
        assert meaning(told) is not DEAD
    else:
        assert told == [Text("half"), Done(expected)]


# --- codes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "trouble"), [(n, t) for n, t in CODES.items() if t])
def test_A7_each_code_alone(name: str, trouble: ErrorCode) -> None:
    plain, fields = server_fails("never seen", name), {name: {"httpStatusCode": None}}
    assert meaning(plain) is trouble
    assert meaning(server_fails("never seen", fields)) is trouble


@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_S13_a_refusal_is_an_answer_in_the_vendors_words(name: str) -> None:
    assert server_fails("not that", name) == [Text("not that"), Done(REFUSED)]


@pytest.mark.parametrize("name", ["httpConnectionFailed", "responseTooManyFailedAttempts"])
@pytest.mark.parametrize(
    ("status", "trouble"), [(401, AUTH), (429, RATE), (500, OVERLOAD), (404, MODEL), (400, BAD)]
)
def test_A7_a_code_with_a_status(name: str, status: int, trouble: ErrorCode) -> None:
    told = server_fails("no", {name: {"httpStatusCode": status}})
    assert meaning(told) is trouble
    assert isinstance(told[-1], Failed) and told[-1].status == status


@pytest.mark.parametrize(
    "info", [5, [], {}, {"a": 5}, {"httpConnectionFailed": {"httpStatusCode": "x"}}, True, 1e300]
)
def test_S10_a_code_of_another_form_is_no_crash(info: object) -> None:
    assert meaning(server_fails("no", info)) is UNKNOWN


def test_S13_a_refusal_after_text_adds_nothing_to_it() -> None:
    session = new_codex()
    codex_turn(session, request("hi"))
    said = {"threadId": "T", "itemId": "i", "delta": "one two"}
    tell(session, method="item/agentMessage/delta", params=said)
    told = completed("failed", message="This was flagged.", codexErrorInfo="cyberPolicy")
    assert list(tell(session, **told)) == [Done(REFUSED)]


# --- announced retries ---------------------------------------------------------------------------

RETRIES = [
    ("Reconnecting... waiting for network", "Connection failed: error sending request", DEAD),
    ("Reconnecting... 1/5", "stream disconnected before completion: boom", CUT),
    ("Reconnecting... 1/5", "stream closed, url: wss://x", DEAD),
    ("Reconnecting... 1/5", "unexpected status 404 Not Found: x, url: wss://x", DEAD),
    ("Reconnecting... 1/5", "unexpected status 503 Service Unavailable: x", OVERLOAD),
    ("Reconnecting... 1/5", "Selected model is at capacity.", OVERLOAD),
    ("Reconnecting... 2/5", "unexpected status 401 Unauthorized: no", AUTH),
    ("Reconnecting... 2/5", "unexpected status 429 Too Many Requests: no", RATE),
    ("Reconnecting... 2/5", "You've hit your usage limit.", QUOTA),
    (
        "Reconnecting... 1/5",
        "stream disconnected before completion: Incomplete response returned, reason: "
        "content_filter",
        REFUSED,
    ),
]


@pytest.mark.parametrize(("head", "why", "expected"), RETRIES)
def test_A9_an_announced_retry_ends_the_attempt(head: str, why: str, expected: Meaning) -> None:
    line = {"type": "error", "message": f"{head} ({why})"}
    assert meaning(exec_says(line, {"type": "turn.completed", "usage": {}})) is expected
    info = {"responseStreamDisconnected": {"httpStatusCode": None}}
    error = {"message": head, "codexErrorInfo": info, "additionalDetails": why}
    assert meaning(server_says("error", error=error, willRetry=True)) is expected


def test_A9_so_does_one_by_another_transport() -> None:
    words = "Falling back from WebSockets to HTTPS transport. stream closed"
    item = {"type": "error", "message": words}
    assert meaning(exec_says({"type": "item.completed", "item": item})) is DEAD
    assert meaning(server_says("warning", message=words)) is DEAD


def test_C2_any_other_warning_decides_nothing() -> None:
    assert server_says("warning", message="Heads up: something is deprecated") == []
    assert server_says("error", error={"message": "x"}, willRetry=False) == []


def test_A9_a_retry_after_text_is_an_answer_that_broke_off() -> None:
    session = new_codex()
    codex_turn(session, request("hi"))
    said = {"threadId": "T", "itemId": "i", "delta": "one two"}
    tell(session, method="item/agentMessage/delta", params=said)
    error = {"message": "Reconnecting... 1/5", "additionalDetails": "x"}
    params = {"threadId": "T", "error": error, "willRetry": True}
    assert meaning(list(tell(session, method="error", params=params))) is CUT


# --- an answer more than was asked for -----------------------------------------------------------


class _Server:
    """An app-server under way, whose model speaks in messages."""

    def __init__(self) -> None:
        self.session = new_codex()
        codex_turn(self.session, request("hi"))
        self.told: list[Step] = []
        self._count = 0

    def _tell(self, method: str, **params: Any) -> None:
        message = {"method": method, "params": {"threadId": "T", "turnId": "U", **params}}
        self.told += self.session.receive(json.dumps(message))

    def answers(self, text: str, phase: str | None = None) -> _Server:
        """One answer of the vendor's, with one message."""
        self._count += 1
        item = {"type": "agentMessage", "id": f"i{self._count}", "phase": phase}
        self._tell("item/started", item=item | {"text": ""})
        if text:
            self._tell("item/agentMessage/delta", itemId=item["id"], delta=text)
            self._tell("item/completed", item=item | {"text": text})
        self._tell("rawResponse/completed", usage={"inputTokens": 3})
        return self

    def ends(self) -> list[Step]:
        self.told += tell(self.session, **completed())
        return [step for step in self.told if not isinstance(step, Started)]


def test_A9_a_second_answer_after_text_is_an_answer_that_broke_off() -> None:
    told = _Server().answers("one").answers("two").told
    assert [type(step) for step in told[2:4]] == [Failed, Halt]
    assert meaning([told[2]]) is CUT


def test_N1_what_is_said_aside_may_be_followed_by_the_answer() -> None:
    told = _Server().answers("let me see", "commentary").answers("42").ends()
    assert [step.text for step in told if isinstance(step, Text)] == ["42"]
    assert any(isinstance(step, Done) for step in told)


def test_A9_that_has_an_end() -> None:
    server = _Server()
    for number in range(5):
        server.answers(f"step {number}", "commentary")
    failed = [step for step in server.told if isinstance(step, Failed)]
    assert meaning([failed[0]]) is CUT


def test_N1_an_answer_that_is_all_aside_is_the_answer() -> None:
    told = _Server().answers("42", "commentary").ends()
    assert [step.text for step in told if isinstance(step, Text)] == ["42"]


def test_S13_a_message_that_stays_without_text_is_a_refusal() -> None:
    assert Done(REFUSED) in _Server().answers("").ends()
    assert Done() in _Server().answers("x").ends()


def test_J4_another_model_that_answers_is_named() -> None:
    told = server_says("model/rerouted", fromModel="gpt-5.5", toModel="gpt-5.2", reason="x")
    assert told == [Started("gpt-5.2")]
