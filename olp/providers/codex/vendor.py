"""Which vendor's API Codex uses, and settings that make it send each request only once.

By default it sends a request up to thirty times, mostly without reporting it, and tries a WebSocket
before HTTPS. The retry settings exist for every model provider but the built-in ones, which cannot
be redefined. OpenAI's is therefore defined again under another name. The copy differs in three
things: no retries, no WebSocket, and no `version` header (the user agent still contains the
version).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence

_OURS = "olp"
"""The name of the copy."""

_OPENAI = "openai"

_PARTLY = ("amazon-bedrock", "amazon-bedrock-runtime", "gcp")
"""Built-in providers that allow a few settings, but not these."""

_LOCAL = ("--oss", "--local-provider")
"""Flags that select a built-in provider."""

_ONCE = {"request_max_retries": "0", "stream_max_retries": "0", "supports_websockets": "false"}

_PATIENT = "features.unbounded_connection_retries=false"
"""Otherwise the CLI waits indefinitely for a network if it cannot reach its vendor."""


def asked_once(args: Sequence[str]) -> tuple[str, ...]:
    """The arguments to append after the owner's `args`, which may select another model provider.

    Another built-in provider cannot be changed; a request to it ends at the first reported retry.
    """
    given = dict(_settings(args))
    name = given.get("model_provider", _OPENAI)
    words = ["-c", _PATIENT]
    if any(arg.partition("=")[0] in _LOCAL for arg in args):
        return tuple(words)
    if name == _OPENAI:
        return (*words, *_copy(given.get("openai_base_url")))
    if name not in _PARTLY and any(_defines(key, name) for key in given):
        for key, value in _ONCE.items():
            words += ["-c", f"model_providers.{name}.{key}={value}"]
    return tuple(words)


def _defines(key: str, name: str) -> bool:
    return key == "model_providers" or f"{key}.".startswith(f"model_providers.{name}.")


def _copy(base_url: str | None) -> tuple[str, ...]:
    """The copy of OpenAI's provider. Without a base URL the CLI chooses it by the kind of login."""
    fields = {
        "name": '"OpenAI"',
        "wire_api": '"responses"',
        "requires_openai_auth": "true",
        **_ONCE,
    }
    headers = {"OpenAI-Organization": "OPENAI_ORGANIZATION", "OpenAI-Project": "OPENAI_PROJECT"}
    fields["env_http_headers"] = _table({f'"{k}"': f'"{v}"' for k, v in headers.items()})
    if base_url is not None:
        fields["base_url"] = json.dumps(base_url)
    model = f"model_providers.{_OURS}={_table(fields)}"
    return ("-c", f'model_provider="{_OURS}"', "-c", model)


def _table(fields: dict[str, str]) -> str:
    return "{" + ",".join(f"{key}={value}" for key, value in fields.items()) + "}"


def _settings(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The string settings in `args` as (key, value), in all syntaxes of the CLI."""
    words = iter(args)
    for word in words:
        if word in ("-c", "--config"):
            context = next(words, "")
        elif word.startswith("--config="):
            context = word.removeprefix("--config=")
        elif word.startswith("-c"):
            context = word[2:].removeprefix("=")
        else:
            continue
        key, _, value = context.partition("=")
        yield key.strip(), _value(value)


def _value(text: str) -> str:
    """Parse a value like the CLI: as TOML, or literally if it is not valid TOML."""
    try:
        value = tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text.strip()
    return value if isinstance(value, str) else text.strip()
