"""OLP as a service of the user: the file that systemd or launchd starts it from.

A service does not see what a shell has set up, and so finds no CLI: PATH is taken over from the
shell that installs it, and so are the variables that say where a CLI keeps its login. Secrets are
not, since these files are readable; they have a file of their own beside the configuration.
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
"""launchd's name for it."""

WATCHDOG_S = 60
"""Seconds without a sign of life after which systemd starts it again."""

STOP_EXTRA_S = 20
"""Seconds beside the drain that a stop may take: ending processes, writing the record."""

PLACES = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "VIBE_HOME", "OLP_CONFIG"),
    *("XDG_CONFIG_HOME", "XDG_STATE_HOME", "LANG", "TZ"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
)
"""Variables that say where and how things are, and hold no secret."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be started. `environment` is the shell's as far as it is taken over; `secrets` is
    the file of those variables that are nobody else's business."""

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
    """The server as it would run in this shell, with this Python. `config` is where the
    configuration is, or would be; it is told to the server if `named`."""
    told = ("--config", str(config)) if named else ()
    argv = (sys.executable, "-m", "olp", "serve", *told)
    kept = {name: environ[name] for name in PLACES if environ.get(name)}
    kept["PATH"] = search_path(environ)
    logs = home / "Library" / "Logs" / "olp.log"
    return Job(argv, kept, config.with_name(SECRETS), drain_s, logs)


def search_path(environ: Mapping[str, str]) -> str:
    """PATH without what means something only in this shell, or belongs to this moment."""
    parts = [part for part in environ.get("PATH", "").split(":") if part.startswith("/")]
    return ":".join(dict.fromkeys((*parts, "/usr/bin", "/bin")))


# --- systemd -----------------------------------------------------------------------------------


def systemd_file(home: Path, environ: Mapping[str, str]) -> Path:
    """Where the unit belongs."""
    config = environ.get("XDG_CONFIG_HOME") or str(home / ".config")
    return Path(config) / "systemd" / "user" / f"{NAME}.service"


def systemd_unit(job: Job) -> str:
    """The unit. What hardens it here are the options that need no new namespace, since a user's
    own systemd may not make one everywhere, and that no CLI runs into: a JIT needs writable code,
    a login its home."""
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
    """What has to be run when the unit is in its place."""
    return (
        ("systemctl", "--user", "daemon-reload"),
        ("systemctl", "--user", "enable", NAME),
        ("systemctl", "--user", "restart", NAME),
    )


def systemd_undo() -> Sequence[tuple[str, ...]]:
    """What has to be run before the unit is removed."""
    return (("systemctl", "--user", "disable", "--now", NAME),)


# --- launchd -----------------------------------------------------------------------------------


def launchd_file(home: Path) -> Path:
    """Where the agent belongs."""
    return home / "Library" / "LaunchAgents" / f"{LABEL}.plist"


def launchd_agent(job: Job) -> str:
    """The agent. launchd knows no file of secrets: a shell reads it, and becomes the server."""
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
    """What has to be run when the agent is in its place."""
    return (("launchctl", "bootstrap", f"gui/{uid}", str(file)),)


def launchd_undo(uid: int) -> Sequence[tuple[str, ...]]:
    """What has to be run before the agent is removed, or put in its place again."""
    return (("launchctl", "bootout", f"gui/{uid}/{LABEL}"),)


# --- reading back ------------------------------------------------------------------------------


def installed(home: Path, environ: Mapping[str, str]) -> Path | None:
    """The file of an installed service, if there is one."""
    files = (systemd_file(home, environ), launchd_file(home))
    return next((file for file in files if file.is_file()), None)


def secrets_of(file: Path) -> Path | None:
    """The file of secrets that the service in `file` reads; None if it says none."""
    if file.suffix == ".plist":
        words = plistlib.loads(file.read_bytes()).get("ProgramArguments", [])
        return Path(words[3]) if len(words) > 3 else None
    found = re.search(r"^EnvironmentFile=-(.+)$", file.read_text("utf-8"), re.M)
    return Path(found[1].replace("%%", "%")) if found else None


def path_in(file: Path) -> str | None:
    """The PATH that the service in `file` has; None if it says none. OSError, ValueError if the
    file cannot be read."""
    if file.suffix == ".plist":
        told = plistlib.loads(file.read_bytes()).get("EnvironmentVariables", {}).get("PATH")
        return str(told) if told else None
    found = None
    for line in file.read_text("utf-8").splitlines():
        if match := re.fullmatch(r'Environment=("?)PATH=(.*?)\1', line.strip()):
            found = re.sub(r'\\(["\\])', r"\1", match[2].replace("%%", "%"))
    return found
