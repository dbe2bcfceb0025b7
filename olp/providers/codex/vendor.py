"""Which vendor's API Codex speaks to, and that it asks it once.

By itself it sends a request up to thirty times, most of them without a word, and it asks over a
WebSocket first and then over HTTPS. The numbers can be set for any provider of models but the ones
that are built in: these may not be redefined. OpenAI's own is therefore given once more under
another name. That one is the same in all but three things: it has no retries, no WebSocket, and
does not send the header `version` (the user agent still tells the version).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence

_OURS = "olp"
"""The name of the copy."""

_OPENAI = "openai"

_PARTLY = ("amazon-bedrock", "amazon-bedrock-runtime", "gcp")
"""Built-in ones of which a few things may be set, and not these."""

_LOCAL = ("--oss", "--local-provider")
"""Flags that choose a built-in one."""

_ONCE = {"request_max_retries": "0", "stream_max_retries": "0", "supports_websockets": "false"}

_PATIENT = "features.unbounded_connection_retries=false"
"""Otherwise the CLI waits without end for a network where it cannot reach its vendor."""


def asked_once(args: Sequence[str]) -> tuple[str, ...]:
    """The arguments that follow the owner's `args`, which may choose a provider of models. Another
    that is built in stays as it is, and ends at the first retry that is told."""
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
    """OpenAI's provider. Without an address the CLI chooses it by the kind of login."""
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
    """The settings among `args` whose value is a string, in all the forms in which they may be."""
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


def _value(said: str) -> str:
    """As the CLI reads it: TOML, and what is none as it stands."""
    try:
        value = tomllib.loads(f"x = {said}")["x"]
    except tomllib.TOMLDecodeError:
        return said.strip()
    return value if isinstance(value, str) else said.strip()
