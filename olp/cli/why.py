"""`olp why`: the story of one request, without its content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from olp.cli import book, house
from olp.errors import OLPError
from olp.runtime.accounts import Accounts
from olp.runtime.place import default_state
from olp.runtime.record import Record


@click.command("why")
@click.argument("request_id", required=False)
@click.option("--last", is_flag=True, help="The last request.")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(request_id: str | None, last: bool, config_file: str | None, as_json: bool) -> None:
    """Tell what happened to REQUEST_ID (the X-OLP-Request-Id of an answer) or to the last one."""
    if request_id is None and not last:
        raise click.UsageError("give a request id, or --last")
    state = house.read_config(config_file).config.server.state_dir
    record = Record((Path(state) if state else default_state()) / "olp.db")
    story = record.story(None if last else request_id)
    if story is None and record.trouble:
        raise OLPError(f"the record cannot be read: {record.trouble}")
    if story is None:
        _tell_line(record, request_id, as_json)
        return
    click.echo(json.dumps(story, indent=2) if as_json else "\n".join(told(story)))


def _tell_line(record: Record, request_id: str | None, as_json: bool) -> None:
    """Of what was refused, shared another's answer or is long ago, the book has a line."""
    found = Accounts(record).requests(request_id=request_id) if request_id else []
    if not found:
        raise OLPError("no such request is on record; the stories of the last 1,000 are kept")
    line = json.dumps(found[0], indent=2) if as_json else book.brief(found[0])
    click.echo(line)


def told(story: Mapping[str, Any]) -> list[str]:
    """The story as lines of text."""
    at = datetime.fromtimestamp(story["at"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    lines = [
        f"request {story['request_id']} of {story['caller']}, {at}",
        f"asked for {story['asked']}: {story['outcome']} after {story['total_ms']} ms",
    ]
    if head := story["answered_by"]:
        first = story["first_content_ms"]
        lines.append(
            f"answered by {head['provider']}/{head['model']} (hop {head['hop']}, cache "
            f"{head['cache']}), first content after {first} ms"
        )
    if usage := story["usage"]:
        lines.append(f"tokens: {usage['input']} in, {usage['output']} out")
    return lines + [_hop(hop) for hop in story["hops"]]


def _hop(hop: Mapping[str, Any]) -> str:
    name = f"  hop {hop['hop']} {hop['provider']}/{hop['model']}: "
    kind = f" ({hop['trigger_type']})" if hop["trigger_type"] else ""
    why = f"{hop['code']}{kind}" if hop["code"] else "answered"
    if not hop["asked"]:
        return f"{name}skipped, {why}"
    status = f", upstream status {hop['status']}" if hop["status"] else ""
    first = hop["first_output_ms"]
    spoke = "it never spoke" if first is None else f"first output at {first} ms"
    return (
        f"{name}{why}{status}; started at {hop['spawned_ms']} ms, {spoke}, ended at "
        f"{hop['ended_ms']} ms; {hop['bytes_written']} bytes in, {hop['bytes_read']} out, "
        f"exit code {hop['exit_code']}"
    )
