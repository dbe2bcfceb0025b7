"""Memory use of a process tree."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from olp.runtime.process import child as process


def resident_mb(pid: int | None) -> float:
    """Resident memory of `pid` and its descendants in MB; 0 if it has exited."""
    if pid is None:
        return 0.0
    if sys.platform != "linux":
        listing = process.output_of(["ps", "-o", "rss=", "-g", str(pid)])
        return sum(map(float, listing.split())) / 1024
    return _linux(pid)


def _linux(pid: int) -> float:
    folder = Path("/proc") / str(pid)
    try:
        pages = int((folder / "statm").read_text().split()[1])
        children = (folder / "task" / str(pid) / "children").read_text().split()
    except (OSError, IndexError, ValueError):
        return 0.0
    own = pages * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024
    return own + sum(_linux(int(child)) for child in children)
