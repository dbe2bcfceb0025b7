"""Checks of one CLI: installation, version, login and isolation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from olp.doctor.finding import Finding, Patient, Say
from olp.doctor.isolation import check_isolation
from olp.doctor.lab import Lab, Listener
from olp.events import Event, Failed
from olp.model import Launch, Message, Request, Role

PROBE_S = 30.0
"""Seconds that a CLI may take to print its version; the slowest needs 3 s."""

_NUMBER = re.compile(r"\d+(?:\.\d+)+")


def check_any(patients: Sequence[Patient]) -> Finding:
    """Check that any CLI is installed."""
    there = [patient.name for patient in patients if patient.installed]
    if there:
        return Finding("clis", True, f"{len(there)} of {len(patients)} found: {', '.join(there)}")
    commands = "; or ".join(patient.provider.info.install for patient in patients)
    return Finding("clis", False, "no CLI was found on PATH", commands)


async def examine(patient: Patient, lab: Lab, say: Say) -> list[Finding]:
    """All checks of one CLI."""
    installed = check_installed(patient)
    if not patient.installed or not patient.enabled:
        return [installed]
    rest = await asyncio.gather(
        check_version(patient, lab), check_login(patient, lab), check_isolation(patient, lab)
    )
    say(f"{patient.name} done")
    return [installed, *rest]


def check_installed(patient: Patient) -> Finding:
    """Check that the program is installed. It may be missing if it is not needed."""
    info = patient.provider.info
    name = f"{info.name}.installed"
    if not patient.installed:
        program = patient.context.command[0]
        if patient.needed:
            return Finding(name, False, f"{program} was not found", info.install)
        return Finding(name, None, f"{program} is not installed; add it with: {info.install}")
    where = " ".join(patient.context.command)
    if not patient.enabled:
        return Finding(name, None, f"{where}, switched off in the configuration")
    return Finding(name, True, where)


# --- version -----------------------------------------------------------------------------------


async def check_version(patient: Patient, lab: Lab) -> Finding:
    """Check that the version is one that OLP was tested with."""
    info = patient.provider.info
    name = f"{info.name}.version"
    listener, events = await _probe(patient.provider.probes(patient.context)["version"], lab)
    found = _NUMBER.search("\n".join(listener.lines))
    if found is None:
        what = f"`{info.program} --version` printed no version: {_end(listener, events)}"
        return Finding(name, False, what, info.install)
    low, high = info.tested
    version = found[0]
    if _parts(version) < _parts(low):
        what = f"{version} is too old: at least {low} is needed"
        return Finding(name, False, what, info.install)
    if _parts(version) > _parts(high):
        return Finding(name, None, f"{version} is newer than the tested versions ({high})")
    return Finding(name, True, f"{version} is a tested version")


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


# --- login -------------------------------------------------------------------------------------


async def check_login(patient: Patient, lab: Lab) -> Finding:
    """Check that a login is present. Only an answered request would prove that it works."""
    launch = patient.provider.probes(patient.context).get("login")
    if launch is None:
        return _by_key(patient)
    listener, events = await _probe(launch, lab)
    if listener.code == 0:
        return _login(patient, True, "there is a login")
    if listener.code is None:
        what = f"its login could not be checked: {_end(listener, events)}"
        return _login(patient, False, what)
    return _login(patient, False, "it is not logged in")


def _by_key(patient: Patient) -> Finding:
    """Check a CLI without a login command: the variables that carry its key, or its key file."""
    names = patient.provider.info.passes
    files = _key_files(patient)
    known = {**patient.context.environ, **patient.context.config.env}
    line = re.compile(rf"\s*(?:export\s+)?(?:{'|'.join(names)})\s*=\s*['\"]?[^\s'\"]", re.M)
    if given := next((name for name in names if known.get(name)), None):
        return _login(patient, True, f"{given} is in the environment")
    if file := next((file for file in files if line.search(_text(file))), None):
        return _login(patient, True, f"there is a key in {file}")
    what = f"there is no {' or '.join(names)} in the environment or in {files[0]}"
    # A CLI may keep its key in the system's keyring, which no server can open.
    more = f"; if the key is stored elsewhere, write {names[0]}=… into {files[0]}"
    return _login(patient, False, what, more)


def _key_files(patient: Patient) -> list[Path]:
    """The login files that a launch would link."""
    info = patient.provider.info
    request = Request(info.models[0], (Message(Role.USER, "hi"),))
    now = datetime.now().astimezone()
    launch, _ = patient.provider.launch(request, info.models[0], patient.context, now)
    return [Path(target) for target in launch.links.values()]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _login(patient: Patient, ok: bool, what: str, more: str = "") -> Finding:
    info = patient.provider.info
    name = f"{info.name}.login"
    if ok:
        return Finding(name, True, f"{what} (not verified with the vendor)")
    command = info.login
    if patient.context.config.login == "own":
        command = f"{command} (for OLP's own login, kept in {patient.context.own_home})"
    return Finding(name, False, what, command + more)


# --- running a probe ---------------------------------------------------------------------------


async def _probe(launch: Launch, lab: Lab) -> tuple[Listener, Sequence[Event]]:
    listener = Listener()
    return listener, await lab.run(launch, listener, PROBE_S)


def _end(listener: Listener, events: Sequence[Event]) -> str:
    """The reason why a probe gave no result, in one line."""
    failed = [event.detail for event in events if isinstance(event, Failed)]
    last_line = (listener.stderr.strip().splitlines() or [f"exit code {listener.code}"])[-1]
    return (failed or [last_line])[0][:200]
