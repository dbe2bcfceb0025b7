"""Runs a command with loopback as its only network.

The CLIs under test are made to talk to vendors. A wrong flag must not turn a test run into real
requests on somebody's account, so the whole run (pytest, mock, server and CLIs alike) moves into
a network namespace of its own: ``python -m tests.real.netns -- pytest tests/real``. An unnamed
namespace vanishes with its last process and leaves nothing to clean up. Where no namespace may be
made the command runs plainly, and says so. Only the standard library is used, and no ``ip``
command, so that the file can also be run by path.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

_INNER = "--inside"
_SIOCSIFFLAGS = 0x8914
_UP_AND_RUNNING = 0x41


def prefix() -> list[str]:
    """The words that put a command into a namespace; empty when none can be made."""
    unshare = shutil.which("unshare")
    if unshare is None or not sys.platform.startswith("linux"):
        return []
    for flags in (["--net"], ["--map-root-user", "--net"]):
        words = [unshare, *flags]
        if _works(words):
            return words
    return []


def _works(words: list[str]) -> bool:
    try:
        done = subprocess.run([*words, "true"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def wrap(command: list[str]) -> list[str]:
    """The command as it must be started to run isolated, with loopback up."""
    words = prefix()
    if not words:
        return command
    return [*words, sys.executable, str(Path(__file__).resolve()), _INNER, "--", *command]


def isolated() -> bool:
    """Whether this process has no route to anywhere but itself."""
    return sys.platform.startswith("linux") and not (_routes_v4() | _routes_v6()) - {"lo"}


def _routes_v4() -> set[str]:
    lines = _lines("/proc/self/net/route")[1:]
    return {line.split()[0] for line in lines if line.split()}


def _routes_v6() -> set[str]:
    return {line.split()[-1] for line in _lines("/proc/self/net/ipv6_route") if line.split()}


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="ascii").splitlines()
    except OSError:
        return []


def loopback_up() -> None:
    """What ``ip link set lo up`` does, without needing ``ip``."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh14x", b"lo", _UP_AND_RUNNING)
        import fcntl  # absent on other systems, which never get here

        fcntl.ioctl(sock, _SIOCSIFFLAGS, request)


def main(arguments: list[str]) -> int:
    inside = arguments[:1] == [_INNER]
    command = arguments[1:] if inside else arguments
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        print("usage: python -m tests.real.netns -- COMMAND [ARGUMENT…]", file=sys.stderr)
        return 2
    if inside:
        loopback_up()
    elif not isolated():
        wrapped = wrap(command)
        if wrapped == command:
            print("netns: no namespace can be made here; running plainly", file=sys.stderr)
        command = wrapped
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"netns: cannot run {command[0]}: {error}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
