"""Starting CLIs and ending them, with small real programs."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from olp.runtime.process import child as process
from olp.runtime.process.child import Child, ProgramMissing
from tests.support import exists, runs, soon, until

Start = Callable[..., Coroutine[Any, Any, Child]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Starts a Python program, given as text; it is gone when the test ends."""
    children: list[Child] = []

    async def run(program: str, **env: str) -> Child:
        argv = [sys.executable, "-SEc", program]
        child = await process.start(argv, {"PATH": "/usr/bin:/bin", **env}, tmp_path)
        children.append(child)
        return child

    yield run
    for child in children:
        await child.stop(grace=0.1)
        assert not exists(child.pid)


async def everything(child: Child) -> bytes:
    """All of its output."""
    parts = []
    while data := await soon(child.read()):
        parts.append(data)
    return b"".join(parts)


async def test_M6_output_and_exit_code(start: Start) -> None:
    child = await start("print('hello'); raise SystemExit(3)")
    assert await everything(child) == b"hello\n"
    assert child.returncode == 3


async def test_M6_a_process_leads_a_session_of_its_own(start: Start) -> None:
    child = await start("import os; print(os.getpid(), os.getpgid(0), os.getsid(0), os.getppid())")
    pid, group, session, parent = map(int, (await everything(child)).split())
    assert pid == group == session == child.pid
    assert parent == os.getpid()


async def test_M6_the_whole_group_is_ended(start: Start) -> None:
    family = (
        "import subprocess, sys, time\n"
        "code = 'import subprocess, sys, time;"
        'p = subprocess.Popen([sys.executable, "-SEc", "import time; time.sleep(60)"]);'
        "print(p.pid, flush=True); time.sleep(60)'\n"
        "p = subprocess.Popen([sys.executable, '-SEc', code]); print(p.pid, flush=True)\n"
        "time.sleep(60)"
    )
    child = await start(family)
    seen = b""
    while len(seen.split()) < 2:
        data: bytes | None = await soon(child.read())
        seen += data or b""
    pids = [int(word) for word in seen.split()]
    assert all(runs(pid) for pid in pids)
    await child.stop()
    assert not exists(child.pid)
    for pid in pids:
        await until(lambda pid=pid: not runs(pid), "a descendant is gone", 2)  # type: ignore[misc]


async def test_M6_a_group_whose_leader_has_gone_is_ended_too(start: Start) -> None:
    child = await start(
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-SEc', 'import time; time.sleep(60)'])\n"
        "print(p.pid, flush=True)"
    )
    pid = int(await everything(child))
    assert runs(pid)
    await child.stop()
    await until(lambda: not runs(pid), "the grandchild is gone", 2)


TRAP = """
import os, signal, time
def told(number, frame):
    os.write(1, b"told\\n")
    {after}
signal.signal(signal.SIGTERM, told)
os.write(1, b"ready\\n")
while True:
    time.sleep(60)
"""


async def test_M6_TERM_comes_first_and_is_enough(start: Start) -> None:
    child = await start(TRAP.format(after="os._exit(7)"))
    assert await soon(child.read()) == b"ready\n"
    began = time.monotonic()
    await child.stop()
    assert time.monotonic() - began < 4
    assert child.returncode == 7


async def test_M6_KILL_comes_after_the_grace(start: Start) -> None:
    child = await start(TRAP.format(after="pass"))
    assert await soon(child.read()) == b"ready\n"
    began = time.monotonic()
    await child.stop(grace=0.3)
    assert 0.3 <= time.monotonic() - began < 4
    assert child.returncode == -9
    assert await soon(child.read()) == b"told\n"


async def test_M6_stop_twice_is_no_harm(start: Start) -> None:
    child = await start("import time; time.sleep(60)")
    await asyncio.gather(child.stop(), child.stop())
    await child.stop()


async def test_M6_standard_error_is_drained_and_its_end_kept(start: Start) -> None:
    child = await start(
        "import sys\nfor i in range(30000): sys.stderr.write(f'line {i:06d}\\n')\nprint('done')"
    )
    assert await everything(child) == b"done\n"
    await until(lambda: "line 029999" in child.stderr, "the last line came")
    assert len(child.stderr) <= process.STDERR_TAIL
    assert child.stderr.endswith("line 029999\n")


async def test_M6_a_reader_that_never_reads_blocks_nobody(start: Start) -> None:
    child = await start("import time; print('up', flush=True); time.sleep(60)")
    child.write(b"x" * 5_000_000)
    child.close_input()
    assert await soon(child.read()) == b"up\n"
    began = time.monotonic()
    await child.stop()
    assert time.monotonic() - began < 4


async def test_M6_a_reader_that_goes_away_is_no_error(start: Start) -> None:
    child = await start("import sys; sys.stdin.buffer.read(10); print('enough', flush=True)")
    child.write(b"x" * 5_000_000)
    child.close_input()
    assert await everything(child) == b"enough\n"
    child.write(b"more")
    child.close_input()
    assert child.returncode == 0


async def test_M6_a_big_input_arrives_whole(start: Start) -> None:
    child = await start("import sys; print(len(sys.stdin.buffer.read()), flush=True)")
    for _ in range(40):
        child.write(b"x" * 100_000)
    child.close_input()
    assert await everything(child) == b"4000000\n"


async def test_M6_a_torrent_waits_for_its_reader(start: Start) -> None:
    size = 40 * process.HIGH_WATER
    child = await start(
        f"import sys; sys.stdout.buffer.write(b'x' * {size}); sys.stdout.flush();"
        "print('all', file=sys.stderr, flush=True)"
    )
    await asyncio.sleep(0.4)
    assert child.stderr == ""
    assert exists(child.pid)
    assert len(await everything(child)) == size


async def test_C6_a_grandchild_that_keeps_the_output_delays_nobody(start: Start) -> None:
    child = await start(
        "import subprocess, sys\nprint('done', flush=True)\n"
        "subprocess.Popen([sys.executable, '-SEc', 'import time; time.sleep(60)'])"
    )
    began = time.monotonic()
    assert await everything(child) == b"done\n"
    assert time.monotonic() - began < 4
    assert child.returncode == 0


async def test_C6_a_process_that_closed_its_output_delays_nobody_for_long(start: Start) -> None:
    child = await start("import os, time; os.write(1, b'bye'); os.close(1); time.sleep(60)")
    began = time.monotonic()
    assert await everything(child) == b"bye"
    assert time.monotonic() - began < process.SILENT_EXIT_S + 3
    assert child.returncode is None


async def test_C7_the_last_words_before_an_exit_are_not_lost(start: Start) -> None:
    for _ in range(10):
        child = await start("import os; os.write(1, b'x' * 65536); os._exit(0)")
        assert len(await everything(child)) == 65536


async def test_M1_nothing_is_inherited(start: Start, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        child = await start(
            "import os\nprint(sorted(os.environ))\n"
            "print([n for n in range(256) if n > 2 and os.path.exists(f'/dev/fd/{n}')])",
            ONLY="this",
        )
        names, descriptors = (await everything(child)).decode().splitlines()
    assert set(eval(names)) <= {"ONLY", "PATH", "LC_CTYPE"}
    assert eval(descriptors) == []


async def test_A7_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ProgramMissing):
        await process.start(["/nowhere/claude"], {}, tmp_path)
    with pytest.raises(ProgramMissing):
        await process.start(["claude-of-nobody"], {"PATH": "/usr/bin"}, tmp_path)
    (tmp_path / "claude").write_text("not executable")
    with pytest.raises(ProgramMissing):
        await process.start([str(tmp_path / "claude")], {}, tmp_path)


async def test_A7_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long"):
        await process.start([sys.executable, "x" * 200_000], {}, tmp_path)
    with pytest.raises(OSError, match="No such file"):
        await process.start([sys.executable], {}, tmp_path / "no folder")


async def test_M6_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    mark = f"time.sleep(61.{os.getpid()})"
    argv = [sys.executable, "-SEc", f"import time; {mark}"]
    for delay in (0, 0, 0.001, 0.003):
        task = asyncio.ensure_future(process.start(argv, {"PATH": "/usr/bin"}, tmp_path))
        await asyncio.sleep(delay)
        if task.cancel():
            await asyncio.wait([task])
        if not task.cancelled():
            await task.result().stop()
    await until(lambda: mark not in process.output_of(["ps", "axww", "-o", "args="]), "all gone", 3)
