"""What an error message must not carry out of this machine."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from olp.core.scrub import scrub

SECRETS = [
    "sk-ant-oat01-abcdefgh",
    "sk-proj-A1b2C3d4E5",
    "olp_0123456789abcdef",
    "Bearer abcdefgh.ijkl",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_1",
    "a" * 40,
    "0123456789abcdef0123456789abcdef01234567",
]
LABELLED = [
    "api_key=abcdefgh1",
    'api-key: "abcdefgh1"',
    "apikey=abcdefgh1",
    "MISTRAL_API_KEY=abcdefgh1",
    "X-Api-Key: abcdefgh1",
    "access_token=abcdefgh1",
    '"token": "abcdefgh1"',
    "client_secret = abcdefgh1",
    "PASSWORD=abcdefgh1",
    "Authorization: abcdefgh1",
]
PATHS = [
    "/home/bob/.claude/settings.json",
    "/etc/passwd",
    "/usr/lib/node_modules/@anthropic-ai/claude-code/cli.js",
    "/home/bob/",
    "~/.codex/auth.json",
    "~bob/x",
    r"C:\Users\bob\AppData\claude.exe",
    "C:/Users/bob/x",
    r"\\nas\share\bob",
    "file:///home/bob/x",
]
URLS = [
    "https://chatgpt.com/explore/pro",
    "https://chatgpt.com/codex/settings/usage",
    "http://127.0.0.1:8080/v1/responses",
    "ws://localhost:9/v1/x",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("frame", ["{}", "key {} is bad", "({})", "'{}'", "x: {}, y", "{}\n{}"])
def test_I4_secrets_are_taken_out(secret: str, frame: str) -> None:
    out = scrub(frame.replace("{}", secret))
    assert secret.removeprefix("Bearer ") not in out
    assert "[secret]" in out


@pytest.mark.parametrize("text", LABELLED)
def test_I4_what_is_called_a_secret_is_one(text: str) -> None:
    assert "abcdefgh1" not in scrub(f"sent {text} to the vendor")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "frame", ["{}", "in {} today", "({})", "'{}'", "cwd:{}", "a={}", "{}: bad"]
)
def test_I4_paths_of_this_machine_are_taken_out(path: str, frame: str) -> None:
    out = scrub(frame.format(path))
    assert "bob" not in out and "passwd" not in out and "node_modules" not in out
    assert "[path]" in out


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("frame", ["{}", "see {}.", "({})", "url: {}, then"])
def test_I4_addresses_stay_readable(url: str, frame: str) -> None:
    assert scrub(frame.format(url)) == frame.format(url)


@pytest.mark.parametrize(
    "text",
    [
        "You've hit your usage limit. Try again at 3:45 PM.",
        "Prompt is too long: 250000 tokens (limit 200000), input and/or output",
        "Grüße 👋 日本",
        "unexpected status 503 Service Unavailable: overloaded",
        "model gpt-5.5 does not exist",
        "exited with code 1 before its answer was complete.",
        "the ratio 1/2 and 3 / 4",
    ],
)
def test_I4_ordinary_words_stay(text: str) -> None:
    assert scrub(text) == text


@given(st.text(st.characters()))
def test_I5_no_control_character_and_no_half_character_is_left(text: str) -> None:
    out = scrub(text)
    assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in out)
    out.encode()


@given(st.text(), st.sampled_from(SECRETS), st.text())
def test_I4_a_secret_between_spaces_is_always_found(before: str, secret: str, after: str) -> None:
    assert (
        secret.removeprefix("Bearer ")
        not in scrub(f"{before} {secret} {after}").replace("[secret]", "")
        or secret in before + after
    )


@given(st.text(max_size=60))
def test_I4_scrubbing_twice_changes_nothing_more(text: str) -> None:
    assert scrub(scrub(text)) == scrub(text)


def test_I4_a_long_text_is_scrubbed_in_reasonable_time() -> None:
    for hard in ("a-" * 200_000, "/a" * 200_000, "~" * 200_000, "api_" * 100_000, "eyJ" * 100_000):
        scrub(hard)
