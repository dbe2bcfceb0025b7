"""OLP as a user service of systemd or launchd.

A service does not have the shell's environment, so PATH and the variables with the CLIs' login
folders are copied from the installing shell. Secrets are not, since unit files are readable; they
go to a separate file beside the configuration.
"""

from __future__ import annotations

import plistlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NAME = "olp"
LABEL = "local.olp.serve"
"""The launchd label."""

WATCHDOG_S = 60
"""Seconds without a watchdog ping after which systemd restarts the server."""

STOP_EXTRA_S = 20
"""Seconds for a stop beyond the drain: ending processes, flushing the usage store."""

PLACES = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "VIBE_HOME", "OLP_CONFIG"),
    *("XDG_CONFIG_HOME", "XDG_STATE_HOME", "LANG", "TZ"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
)
"""Variables with locations and settings, without secrets."""


@dataclass(frozen=True, slots=True)
class Job:
    """The service to start. `environment` has the copied variables; `secrets` is the file with
    secret ones."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    secrets: Path
    drain_s: float
    log: Path


SECRETS = "service.env"
"""The file of secrets, beside the configuration."""


def job(
    environ: Mapping[str, str], config: Path, drain_s: float, home: Path, *, named: bool = True
) -> Job:
    """The server as started from this shell, with this Python. `config` is the configuration file,
    which need not exist; it is passed to the server if `named`."""
    told = ("--config", str(config)) if named else ()
    argv = (sys.executable, "-m", "olp", "serve", *told)
    kept = {name: environ[name] for name in PLACES if environ.get(name)}
    kept["PATH"] = search_path(environ)
    logs = home / "Library" / "Logs" / "olp.log"
    return Job(argv, kept, config.with_name(SECRETS), drain_s, logs)


def search_path(environ: Mapping[str, str]) -> str:
    """The absolute folders of PATH, without duplicates."""
    parts = [part for part in environ.get("PATH", "").split(":") if part.startswith("/")]
    return ":".join(dict.fromkeys((*parts, "/usr/bin", "/bin")))


# --- systemd -----------------------------------------------------------------------------------


def systemd_file(home: Path, environ: Mapping[str, str]) -> Path:
    """Path of the unit."""
    config = environ.get("XDG_CONFIG_HOME") or str(home / ".config")
    return Path(config) / "systemd" / "user" / f"{NAME}.service"


def systemd_unit(job: Job) -> str:
    """The unit. Its hardening options need no namespaces, which user services cannot create
    everywhere, and are compatible with the CLIs (JIT compilation, logins in the home folder)."""
    environment = "\n".join(
        f"Environment={_quoted(f'{name}={value}')}" for name, value in job.environment.items()
    )
    return f"""\
# Made by `olp service install`; run that again to renew it.
[Unit]
Description=OLP, one address for all AI subscriptions in a household
StartLimitIntervalSec=300
StartLimitBurst=5

[Service]
Type=notify
ExecStart={" ".join(map(_word, job.argv))}
ExecReload=/bin/kill -HUP $MAINPID
{environment}
EnvironmentFile=-{_escaped(str(job.secrets))}
WatchdogSec={WATCHDOG_S}
Restart=on-failure
RestartSec=5
# A mistake in the configuration does not go away by trying again.
RestartPreventExitStatus=2
TimeoutStopSec={round(job.drain_s) + STOP_EXTRA_S}
# The server ends its children itself, and gently; what is left is killed.
KillMode=mixed
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native

[Install]
WantedBy=default.target
"""


def _word(text: str) -> str:
    """One word of a command line, as systemd reads it."""
    return _quoted(text.replace("$", "$$"))


def _quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text}"' if re.search(r"[\s\"'\\;#]", text) else text


def _escaped(path: str) -> str:
    return path.replace("%", "%%")


def systemd_commands() -> Sequence[tuple[str, ...]]:
    """Commands to run after the unit was written."""
    return (
        ("systemctl", "--user", "daemon-reload"),
        ("systemctl", "--user", "enable", NAME),
        ("systemctl", "--user", "restart", NAME),
    )


def systemd_undo() -> Sequence[tuple[str, ...]]:
    """Commands to run before the unit is removed."""
    return (("systemctl", "--user", "disable", "--now", NAME),)


# --- launchd -----------------------------------------------------------------------------------


def launchd_file(home: Path) -> Path:
    """Path of the agent."""
    return home / "Library" / "LaunchAgents" / f"{LABEL}.plist"


def launchd_agent(job: Job) -> str:
    """The agent. launchd has no environment files: a shell reads it and execs the server."""
    script = 'set -a; [ -f "$0" ] && . "$0"; set +a; exec "$@"'
    tree = {
        "Label": LABEL,
        "ProgramArguments": ["/bin/sh", "-c", script, str(job.secrets), *job.argv],
        "EnvironmentVariables": dict(job.environment),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 30,
        "ExitTimeOut": round(job.drain_s) + STOP_EXTRA_S,
        "Umask": 0o077,
        "ProcessType": "Standard",
        "StandardOutPath": str(job.log),
        "StandardErrorPath": str(job.log),
    }
    return plistlib.dumps(tree).decode()


def launchd_commands(file: Path, uid: int) -> Sequence[tuple[str, ...]]:
    """Commands to run after the agent was written."""
    return (("launchctl", "bootstrap", f"gui/{uid}", str(file)),)


def launchd_undo(uid: int) -> Sequence[tuple[str, ...]]:
    """Commands to run before the agent is removed or replaced."""
    return (("launchctl", "bootout", f"gui/{uid}/{LABEL}"),)


# --- reading back ------------------------------------------------------------------------------


def installed(home: Path, environ: Mapping[str, str]) -> Path | None:
    """The file of an installed service, if there is one."""
    files = (systemd_file(home, environ), launchd_file(home))
    return next((file for file in files if file.is_file()), None)


def secrets_of(file: Path) -> Path | None:
    """The file of secrets of the service in `file`, if any."""
    if file.suffix == ".plist":
        words = plistlib.loads(file.read_bytes()).get("ProgramArguments", [])
        return Path(words[3]) if len(words) > 3 else None
    found = re.search(r"^EnvironmentFile=-(.+)$", file.read_text("utf-8"), re.M)
    return Path(found[1].replace("%%", "%")) if found else None


def path_in(file: Path) -> str | None:
    """The PATH of the service in `file`, if any. Raises OSError or ValueError if it cannot be
    read."""
    if file.suffix == ".plist":
        told = plistlib.loads(file.read_bytes()).get("EnvironmentVariables", {}).get("PATH")
        return str(told) if told else None
    found = None
    for line in file.read_text("utf-8").splitlines():
        if match := re.fullmatch(r'Environment=("?)PATH=(.*?)\1', line.strip()):
            found = re.sub(r'\\(["\\])', r"\1", match[2].replace("%%", "%"))
    return found
