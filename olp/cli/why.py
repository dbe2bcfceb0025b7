"""`olp why`: the trace of one request, without its content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from olp.cli import client, usage_store
from olp.errors import OLPError
from olp.runtime.usage.report import UsageReport
from olp.runtime.usage.store import UsageStore


@click.command("why")
@click.argument("request_id", required=False)
@click.option("--last", is_flag=True, help="Show the last request (the default without an id).")
@click.option("--config", "config_file", metavar="FILE", help="Use this configuration file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(request_id: str | None, last: bool, config_file: str | None, as_json: bool) -> None:
    """Show the trace of REQUEST_ID (the X-OLP-Request-Id of a response); without it, of the last
    request."""
    if request_id is not None and last:
        raise click.UsageError("give a request id or --last, not both")
    store = UsageStore(usage_store.state_in_use(client.configured(config_file)) / "olp.db")
    trace = store.trace(request_id)
    if trace is None and store.problem:
        raise OLPError(f"the usage database cannot be read: {store.problem}")
    if trace is None:
        _print_entry(store, request_id, as_json)
        return
    click.echo(json.dumps(trace, indent=2) if as_json else "\n".join(told(trace)))


def _print_entry(store: UsageStore, request_id: str | None, as_json: bool) -> None:
    """Print the request log's entry: rejected requests, those that shared an answer, and old ones
    have no trace.
    """
    found = UsageReport(store).requests(request_id=request_id) if request_id else []
    if not found:
        if request_id is None:
            raise OLPError("no request is recorded yet")
        raise OLPError("no such request is recorded; the traces of the last 1,000 are kept")
    line = json.dumps(found[0], indent=2) if as_json else usage_store.brief(found[0])
    click.echo(line)


def told(trace: Mapping[str, Any]) -> list[str]:
    """The trace as lines of text."""
    at = datetime.fromtimestamp(trace["at"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    lines = [
        f"request {trace['request_id']} of {trace['caller']}, {at}",
        f"asked for {trace['asked']}: {trace['outcome']} after {trace['total_ms']} ms",
    ]
    if head := trace["answered_by"]:
        first = trace["first_content_ms"]
        begins = "no content" if first is None else f"first content after {first} ms"
        lines.append(
            f"answered by {head['provider']}/{head['model']} (hop {head['hop']}, cache "
            f"{head['cache']}), {begins}"
        )
    if usage := trace["usage"]:
        about = "about " if usage.get("estimated") else ""
        lines.append(f"tokens: {about}{usage['input']:,} in, {about}{usage['output']:,} out")
    return lines + [_hop(hop) for hop in trace["hops"]]


def _hop(hop: Mapping[str, Any]) -> str:
    name = f"  hop {hop['hop']} {hop['provider']}/{hop['model']}: "
    kind = f" ({hop['trigger_type']})" if hop["trigger_type"] else ""
    why = f"{hop['code']}{kind}" if hop["code"] else "answered"
    if not hop["asked"]:
        return f"{name}skipped, {why}"
    parts = [why + (f", upstream status {hop['status']}" if hop["status"] else "")]
    began = hop["spawned_ms"]
    if hop.get("waiting_process") and began is not None:
        parts.append(f"asked at {began} ms, warm process")
    elif began is not None:
        parts.append(f"started at {began} ms")
    first = hop["first_output_ms"]
    parts.append("no output" if first is None else f"first output at {first} ms")
    if hop["ended_ms"] is not None:
        parts.append(f"ended at {hop['ended_ms']} ms")
    parts.append(f"{hop['bytes_written']:,} bytes sent, {hop['bytes_read']:,} received")
    if hop["exit_code"] is not None:
        parts.append(f"exit code {hop['exit_code']}")
    return name + ", ".join(parts)
