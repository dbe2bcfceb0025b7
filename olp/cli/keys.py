"""`olp keys`: manage keys, their chains and their limits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from olp.cli import client, compose
from olp.cli.groups import Group
from olp.config import Config
from olp.core.days import day_of
from olp.core.keys import keyfile
from olp.core.keys.key import MAX_PROMPT, Key, check_name, digest_of, expiry, hours, named
from olp.core.keys.key_usage import DayUsage
from olp.core.routing.chains import AUTO
from olp.errors import OLPError
from olp.runtime.access.keyring import Keyring, new_id, new_token
from olp.runtime.access.people import limits_of
from olp.runtime.usage.store import UsageStore

CONFIG = click.option("--config", "config_file", metavar="FILE", help="Use this configuration.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("keys", cls=Group)
def command() -> None:
    """Manage API keys and their limits. Changes apply from the next request on.

    Until a key exists, programs on this machine need none. The first key enables authentication for
    everyone.
    """


def keyring_of(config: Config) -> Keyring:
    """The keyring in the configured state folder."""
    return Keyring(compose.state_of(config))


# --- changes -----------------------------------------------------------------------------------


def _checked(check: Callable[[str], Any], *, keep: bool = False) -> Callable[..., Any]:
    """A click callback that turns a ValueError of `check` into a usage error; `keep` returns the
    text instead of the result of `check`.
    """

    def callback(_: click.Context, __: click.Parameter, value: str | None) -> Any:
        try:
            return value if value is None else (check(value), value)[keep]
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _prompt(file: str) -> str:
    try:
        text = Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from None
    if not text or len(text) > MAX_PROMPT:
        raise ValueError(f"{file} is empty or has more than {MAX_PROMPT:,} characters")
    return text


COUNT = click.IntRange(min=1, max=10**15)


@command.command("add")
@click.argument("name", callback=_checked(check_name, keep=True))
@click.option("--owner", is_flag=True, help="Full access. Default: a member.")
@click.option("--chains", callback=_checked(_names), help="Only these names, comma-separated.")
@click.option("--daily-requests", type=COUNT, help="Requests per day (local time).")
@click.option("--daily-tokens", type=COUNT, help="Input and output tokens per day.")
@click.option("--concurrent", type=COUNT, help="Concurrent requests.")
@click.option(
    "--system-prompt", metavar="FILE", callback=_checked(_prompt), help="Text to prepend."
)
@click.option(
    "--hours", callback=_checked(hours, keep=True), help="Time of day, such as 07:00-21:00."
)
@click.option(
    "--expires",
    "expires_at",
    callback=_checked(lambda text: expiry(text, time.time())),
    help="Expiry: 30d, 12h, 2w, 2027-01-31 or 2027-01-31T18:00.",
)
@CONFIG
@JSON
def add(config_file: str | None, as_json: bool, **wanted: Any) -> None:
    """Create a key for NAME and show it once."""
    config = compose.read_config(config_file).config
    _check_chains(config, wanted["chains"] or ())
    given = {field: value for field, value in wanted.items() if value is not None}
    token = new_token()
    key = Key(id=new_id(), digest=digest_of(token), created_at=time.time(), **given)
    before, _ = keyring_of(config).change(lambda keys: keyfile.added(keys, key))
    _show_new(key, token, as_json, first=not before)


def _check_chains(config: Config, names: tuple[str, ...]) -> None:
    catalogue = compose.catalogue_of(config, compose.find_providers(config))
    for name in names:
        if name != AUTO and not catalogue.knows(name):
            known = ", ".join(catalogue.chains) or "none"
            raise OLPError(f"there is no chain or model {name!r}; the chains are: {known}")


def _show_new(key: Key, token: str, as_json: bool, *, first: bool) -> None:
    if as_json:
        fields = {**_key_dict(key), "token": token, "switched_keys_on": first}
        click.echo(json.dumps(fields, indent=2, ensure_ascii=False))
        return
    lines = [f"{key.name} ({_tier(key)}; {_limits_text(key)})", "", f"  {token}", ""]
    lines.append("The key is shown only once: OLP stores its hash. The client sends it as its")
    lines.append("API key (`Authorization: Bearer …` or `x-api-key: …`).")
    if first:
        lines += ["", "Keys are on now. From the next request on everyone needs one, programs on"]
        lines.append("this machine included; the `olp` commands of this user do not.")
    click.echo("\n".join(lines))


@command.command("rotate")
@click.argument("name")
@CONFIG
@JSON
def rotate(name: str, config_file: str | None, as_json: bool) -> None:
    """Give NAME a new key; the old one stops working."""
    token = new_token()
    keyring = keyring_of(client.configured(config_file))
    _, keys = keyring.change(lambda keys: keyfile.rotated(keys, name, digest_of(token)))
    _show_new(named(keys, name), token, as_json, first=False)


@command.command("revoke")
@click.argument("name")
@CONFIG
@JSON
def revoke(name: str, config_file: str | None, as_json: bool) -> None:
    """Revoke the key of NAME, from the next request on."""
    keyring = keyring_of(client.configured(config_file))
    before, keys = keyring.change(lambda keys: keyfile.revoked(keys, name, time.time()))
    key = next(key for key in keys if key.id == named(before, name).id)
    message = f"the key of {key.name} is revoked"
    if all(key.revoked for key in keys):
        message += "; keys are still required, and no valid key is left"
    click.echo(json.dumps(_key_dict(key), indent=2, ensure_ascii=False) if as_json else message)


@command.command("rename")
@click.argument("name")
@click.argument("new")
@CONFIG
@JSON
def rename(name: str, new: str, config_file: str | None, as_json: bool) -> None:
    """Rename NAME; the key, its limits and counts are kept."""
    keyring = keyring_of(client.configured(config_file))
    _, keys = keyring.change(lambda keys: keyfile.renamed(keys, name, new))
    key = named(keys, new)
    message = f"renamed {name} to {key.name}"
    click.echo(json.dumps(_key_dict(key), indent=2, ensure_ascii=False) if as_json else message)


# --- display -----------------------------------------------------------------------------------


@command.command("list")
@CONFIG
@JSON
def list_(config_file: str | None, as_json: bool) -> None:
    """List all keys and their usage today."""
    keys, used = _keys_and_usage(client.configured(config_file))
    if as_json:
        dicts = [_key_dict(key, used) for key in keys]
        click.echo(json.dumps(dicts, indent=2, ensure_ascii=False))
    elif not keys:
        click.echo("There are no keys, so none is needed on this machine: olp keys add NAME")
    else:
        click.echo("\n".join(_table(keys, used)))


@command.command("show")
@click.argument("name")
@CONFIG
@JSON
def show(name: str, config_file: str | None, as_json: bool) -> None:
    """Show the limits of one key and its usage today."""
    keys, used = _keys_and_usage(client.configured(config_file))
    fields = _key_dict(named(keys, name), used)
    if as_json:
        click.echo(json.dumps(fields, indent=2, ensure_ascii=False))
        return
    for field, value in fields.items():
        if isinstance(value, float):
            value = datetime.fromtimestamp(value).strftime("%Y-%m-%d %H:%M")
        if value not in (None, [], ""):
            click.echo(f"{field.replace('_', ' '):16} {_plain(value)}")


def _keys_and_usage(config: Config) -> tuple[keyfile.Keys, Mapping[str, DayUsage]]:
    keyring = keyring_of(config)
    ring = keyring.look()
    if ring.problem:
        raise OLPError(
            f"{keyring.path}: {ring.problem}; until this is fixed the server rejects every request"
        )
    today = day_of(time.time())
    return ring.keys, UsageStore(compose.state_of(config) / "olp.db").people(today)


def _key_dict(key: Key, used: Mapping[str, DayUsage] | None = None) -> dict[str, Any]:
    """A key as a dict without secrets, in the format of `--json`."""
    fields = {
        name: value for name, value in msgspec.structs.asdict(key).items() if name != "digest"
    }
    fields["chains"] = list(key.chains)
    fields["state"] = key.state(time.time())
    if used is not None:
        count = used.get(key.id, DayUsage())
        fields |= {
            "requests_today": count.requests,
            "background_today": count.background,
            "tokens_today": count.tokens,
        }
    return fields


def _table(keys: keyfile.Keys, used: Mapping[str, DayUsage]) -> list[str]:
    rows = [("name", "tier", "state", "requests", "tokens", "limits")]
    for key in keys:
        count = used.get(key.id, DayUsage())
        numbers = (f"{count.requests:,}", f"{count.tokens:,}")
        state = key.state(time.time())
        rows.append((key.name, _tier(key), state, *numbers, _limits_text(key)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(f"{c:{w}}" for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]


def _tier(key: Key) -> str:
    return "owner" if key.owner else "member"


def _limits_text(key: Key) -> str:
    limits = limits_of(key)
    if at := limits.pop("expires_at", None):
        limits["until"] = datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")
    texts = [f"{name.replace('_', ' ')} {_plain(value)}" for name, value in limits.items()]
    return ", ".join([*texts, *(["a system prompt"] if key.system_prompt else [])]) or "no limits"


def _plain(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list():
            return " ".join(map(str, value))
        case _:
            return str(value)
