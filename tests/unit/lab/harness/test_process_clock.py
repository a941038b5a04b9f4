"""The clocks of a child process: they stand still with it, and its parent sets its time of day."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from lab.harness.process_clock import ProcessClock
from lab.harness.processes import ManagedProcess, module_words

from ledger.runtime.clock import SystemClock

SUSPENDED_SECONDS = 0.5
AHEAD_SECONDS = -700.0
WAIT_SECONDS_MAX = 60.0
CLOCKS = """
import json, sys, time
from botocore import auth
from ledger.runtime.clock import ElapsedTime, SystemClock
clock, elapsed = SystemClock(), ElapsedTime(SystemClock())
for _ in sys.stdin:
    times = clock.monotonic(), time.monotonic(), elapsed.seconds(), clock.now().timestamp()
    print(json.dumps([*times, auth.get_current_datetime().isoformat()]), flush=True)
"""


async def test_clocks_stand_still_with_the_process_and_elapsed_time_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both monotonic clocks miss the suspension; wall time shows it; signatures go by wall time."""
    (tmp_path / "clocks_said.py").write_text(CLOCKS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    clock = SystemClock()
    times = ProcessClock(tmp_path / "clock", clock=clock)
    process = ManagedProcess(
        "clocks", module_words("clocks_said"), log=tmp_path / "log", clock=times
    )
    with anyio.fail_after(WAIT_SECONDS_MAX):
        async with process.started():
            lines = process.lines()

            async def ask() -> list[Any]:
                await process.send(b"")
                found: list[Any] = json.loads(await anext(lines))
                return found

            before, began = await ask(), clock.monotonic()
            assert process.suspend(with_clock=True)
            await clock.sleep(SUSPENDED_SECONDS)
            process.resume()
            after, took = await ask(), clock.monotonic() - began
            process.set_clock(AHEAD_SECONDS)
            off = await ask()
    passed = [later - earlier for earlier, later in zip(before[:4], after[:4], strict=True)]
    monotonic, other, elapsed, wall = passed
    assert 0 <= monotonic <= took - SUSPENDED_SECONDS + 0.1
    assert 0 <= other <= took - SUSPENDED_SECONDS + 0.1
    assert elapsed >= SUSPENDED_SECONDS
    assert wall >= SUSPENDED_SECONDS
    assert off[3] - after[3] < AHEAD_SECONDS + WAIT_SECONDS_MAX
    assert off[4] < after[4]


def test_only_a_module_of_python_goes_by_them(tmp_path: Path) -> None:
    """Any other program is started as it is."""
    times = ProcessClock(tmp_path / "clock", clock=SystemClock())
    words = [sys.executable, "-c", "pass"]
    assert times.words(words) == words
    assert times.words(module_words("that", "it"))[-2:] == ["that", "it"]
