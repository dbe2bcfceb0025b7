"""Whatever provider of models the owner's arguments choose, Codex asks it once."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from olp.providers.codex.vendor import asked_once

TABLE = 'model_providers.mine={name="m",base_url="http://x/v1"}'
ONCE = {"request_max_retries": 0, "stream_max_retries": 0, "supports_websockets": False}


def settings(args: tuple[str, ...]) -> dict[str, Any]:
    """What the CLI makes of the words that OLP adds to the owner's."""
    words = asked_once(args)
    assert len(words) % 2 == 0 and set(words[::2]) == {"-c"}
    found = tomllib.loads("\n".join(words[1::2]))
    assert found.pop("features") == {"unbounded_connection_retries": False}
    return found


def ours(args: tuple[str, ...] = ()) -> dict[str, Any]:
    found = settings(args)
    assert found["model_provider"] == "olp"
    provider: dict[str, Any] = found["model_providers"]["olp"]
    assert provider["name"] == "OpenAI" and provider["requires_openai_auth"] is True
    assert ONCE.items() <= provider.items()
    return provider


def test_A9_openais_own_provider_is_asked_once() -> None:
    assert "base_url" not in ours()
    assert "base_url" not in ours(("-c", 'model_provider="openai"', "--debug"))
    assert ours(("-c", 'openai_base_url="http://x/v1"'))["base_url"] == "http://x/v1"
    assert ours(("-c", "openai_base_url=http://x/v1"))["base_url"] == "http://x/v1"


@pytest.mark.parametrize(
    "args",
    [
        ("-c", "model_provider=mine", "-c", TABLE),
        ("--config", 'model_provider="mine"', "--config", TABLE),
        ("--config=model_provider=mine", f"--config={TABLE}"),
        ("-cmodel_provider = 'mine'", f"-c={TABLE}"),
        ("-c", TABLE, "-c", "model_provider=other", "-c", "model_provider=mine"),
        ("-c", "model_provider=mine", "-c", 'model_providers.mine.name="m"'),
        ("-c", "model_provider=mine", "-c", 'model_providers={mine={name="m"}}'),
        ("-c", "model_provider=mine", "-c", TABLE, "-c", "model_providers.mine.x=9"),
    ],
)
def test_A9_so_is_one_of_the_owners(args: tuple[str, ...]) -> None:
    assert settings(args) == {"model_providers": {"mine": ONCE}}


@pytest.mark.parametrize(
    "args",
    [
        ("-c", "model_provider=ollama"),
        ("-c", "model_provider=minerva", "-c", TABLE),
        ("-c", "model_provider=amazon-bedrock", "-c", "model_providers.amazon-bedrock.aws={}"),
        ("--oss",),
        ("--local-provider=ollama",),
        ("-c", "model_provider=nowhere"),
    ],
)
def test_A9_one_that_may_not_be_redefined_is_left_as_it_is(args: tuple[str, ...]) -> None:
    assert settings(args) == {}


@pytest.mark.parametrize("args", [("-c",), ("-c", ""), ("-c", "="), ("--config=",), ("-c", "a=[")])
def test_A9_words_that_are_no_settings_are_no_crash(args: tuple[str, ...]) -> None:
    ours(args)
