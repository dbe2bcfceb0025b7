"""Checks of the machine: the port, folders, and the killing of child processes."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import aiohttp

from olp.config import ServerConfig
from olp.core.routing.chains import Catalogue
from olp.doctor.finding import Finding, Patient
from olp.doctor.lab import Lab, Listener
from olp.events import Failed
from olp.host import lan
from olp.model import Launch
from olp.runtime.process.run_folder import RunFolder

ASK_S = 3.0
"""Seconds that the server on the port has to identify itself."""

START_S = 10.0
"""Seconds that the system may take to run a program that does nothing."""


# --- the port ----------------------------------------------------------------------------------


async def check_port(server: ServerConfig) -> Finding:
    """Check that `olp serve` can listen, or already does."""
    host, port = server.host, server.port
    try:
        listener = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)
    except OSError as error:
        return await _taken(server, error)
    listener.close()
    where = f"port {port} on {host}" if port else f"{host}, any free port (port = 0)"
    return Finding("port", True, f"{where} is free")


async def _taken(server: ServerConfig, error: OSError) -> Finding:
    host, port = server.host, server.port
    if error.errno == errno.EADDRINUSE:
        if await _is_olp(server):
            return Finding("port", True, f"OLP is already serving on {host} port {port}")
        free = f"olp serve --port {port + 1 if port < 65535 else port - 1}"
        what = f"port {port} on {host} is in use by another program"
        return Finding("port", False, what, f"stop that program, or use another port: {free}")
    if error.errno == errno.EACCES:
        what = f"port {port} needs privileges that OLP does not have"
        return Finding("port", False, what, "use a port above 1023: olp serve --port 4567")
    what = f"cannot listen on {host} port {port}: {error.strerror or error}"
    return Finding(
        "port", False, what, "use an address of this machine: olp serve --host 127.0.0.1"
    )


async def _is_olp(server: ServerConfig) -> bool:
    base = lan.url(lan.reached_at(server.host), server.port, tls=bool(server.tls_cert))
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ASK_S)) as session,
            # Nothing secret is sent, so the certificate need not be verified.
            session.get(f"{base}/healthz", allow_redirects=False, ssl=False) as response,
        ):
            return response.status == 200 and response.headers.get("Server") == "olp"
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False


# --- folders -----------------------------------------------------------------------------------


def check_folders(state: Path | None) -> list[Finding]:
    """Check that OLP's folders are private and writable."""
    run_folder = RunFolder(state)
    folders = {"state": run_folder.state, "work": run_folder.work, "private": run_folder.private}
    findings = [check_folder(f"folder.{name}", path) for name, path in folders.items()]
    if findings[1].ok and run_folder.work.is_dir() and any(run_folder.work.iterdir()):
        why = "is the working directory of the CLIs and is not empty: OLP empties it"
        what = f"{run_folder.work} {why}"
        findings[1] = Finding("folder.work", None, what)
    return findings


def check_folder(name: str, path: Path) -> Finding:
    """Check one folder. It may be missing if it can be created."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return _missing(name, path)
    except OSError as error:
        return Finding(name, False, f"{path}: {error.strerror}", _elsewhere())
    if not stat.S_ISDIR(found.st_mode):
        return Finding(name, False, f"{path} is not a folder", f"remove it: rm {path}")
    if found.st_uid != os.getuid():
        fix = f"sudo chown -R {os.getuid()} {path}"
        return Finding(name, False, f"{path} belongs to another user (uid {found.st_uid})", fix)
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077 or mode & 0o700 != 0o700:
        what = f"{path} is not private and writable (mode {mode:o}, not 700)"
        return Finding(name, False, what, f"chmod 700 {path}")
    if not os.access(path, os.W_OK | os.X_OK):
        return Finding(name, False, f"{path} cannot be written", _elsewhere())
    return Finding(name, True, f"{path} is writable and private")


def _missing(name: str, path: Path) -> Finding:
    above = next(folder for folder in path.parents if folder.exists())
    if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        return Finding(name, True, f"{path} will be made")
    what = f"{path} cannot be created: {above} is not writable for OLP"
    return Finding(name, False, what, _elsewhere())


def _elsewhere() -> str:
    return 'choose another folder: state_dir = "…" in [server]'


# --- processes ---------------------------------------------------------------------------------


async def check_processes(lab: Lab) -> Finding:
    """Check that programs can be started as OLP starts them, and die with it."""
    name = "death_signal"
    env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
    listener = Listener()
    events = await lab.run(Launch(("true",), env), listener, START_S)
    if listener.code != 0:
        failed = [event.detail for event in events if isinstance(event, Failed)]
        reason = (failed or listener.stderr.strip().splitlines() or ["no reason given"])[-1]
        fix = "install util-linux (its setpriv knows --pdeathsig): apt install util-linux"
        return Finding(name, False, f"no program can be started: {reason}", fix)
    if sys.platform == "linux" and shutil.which("setpriv"):
        return Finding(name, True, "children end with the server, even if it is killed")
    why = "there is no setpriv" if sys.platform == "linux" else "this system has no such signal"
    what = f"{why}: after a crash, children end when OLP starts again"
    return Finding(name, None, what, "apt install util-linux" if sys.platform == "linux" else "")


# --- chains ------------------------------------------------------------------------------------


def check_chains(catalogue: Catalogue, patients: Mapping[str, Patient]) -> Iterable[Finding]:
    """Check that each hop of each chain is usable."""
    for name, chain in catalogue.chains.items():
        shown = " > ".join(map(str, chain.hops))
        problems = [_problem(patients.get(hop.provider)) for hop in chain.hops]
        what, fix = next((problem for problem in problems if problem), ("", ""))
        if what:
            yield Finding(f"chain.{name}", False, f"{shown}: {what}", fix)
        else:
            yield Finding(f"chain.{name}", True, shown)


def _problem(patient: Patient | None) -> tuple[str, str] | None:
    """The problem and the fix for a hop, or None. A provider without a patient is built in."""
    if patient is None or (patient.installed and patient.enabled):
        return None
    if not patient.enabled and patient.installed:
        fix = f"set enabled = true in [providers.{patient.name}], or remove it from the chain"
        return f"{patient.name} is switched off", fix
    return f"{patient.name} is not installed", patient.provider.info.install
