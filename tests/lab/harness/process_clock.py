"""The clocks of a child process under control of its parent, as a suspended or wrong machine's are.

A stopped process's clocks run on; those of a virtual machine that its host suspends do not, but for
the time of day, which is set right. The parent writes what its child's clocks differ by to a file,
and the child reads it each time that it is asked for the time. Only programs of the laboratory are
started so.

`python -m lab.harness.process_clock FILE MODULE ...` is `python -m MODULE ...` by the
clocks of the file.
"""

import mmap
import runpy
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ledger.runtime.clock import Clock, SystemClock

_SECONDS = struct.Struct("d")
_STOOD, _AHEAD = 0, _SECONDS.size
_BYTES = 2 * _SECONDS.size
STOPPED_WITHIN_SECONDS = 0.01
"""From a signal to its effect: the clocks stand a little shorter than the process, never longer."""
_STANDING = {time.CLOCK_MONOTONIC, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)}


class ProcessClock:
    """The clocks of one process: for how long they stood, and how far its time of day is ahead."""

    def __init__(self, file: Path, *, clock: Clock) -> None:
        file.write_bytes(bytes(_BYTES))
        self._file = file
        self._clock = clock
        self._stood = 0.0
        self._stopped: float | None = None

    def stop(self) -> None:
        """Let the monotonic clocks stand still from now on; the process was just stopped."""
        self._stopped = self._clock.monotonic() + STOPPED_WITHIN_SECONDS

    def go_on(self) -> None:
        """Let them go on from where they stood; the process is about to be continued."""
        if self._stopped is not None:
            self._stood += max(self._clock.monotonic() - self._stopped, 0.0)
            self._write(_STOOD, self._stood)
        self._stopped = None

    def set_ahead(self, seconds: float) -> None:
        """Let the time of day be so far ahead from now on, below 0 behind."""
        self._write(_AHEAD, seconds)

    def words(self, words: Sequence[str]) -> list[str]:
        """Return the words that start a module of Python by these clocks; others as they are."""
        python, option, *module = words
        if option != "-m":
            return list(words)
        return [python, "-m", "lab.harness.process_clock", str(self._file), *module]

    def _write(self, place: int, seconds: float) -> None:
        with self._file.open("r+b") as file:
            file.seek(place)
            file.write(_SECONDS.pack(seconds))


def run_by(file: Path) -> None:
    """Let this process's clocks be those of a file, the time in its signatures included."""
    from botocore import auth  # noqa: PLC0415 (slow to import; the parent does without it)

    with file.open("rb") as opened:
        shared = mmap.mmap(opened.fileno(), _BYTES, access=mmap.ACCESS_READ)
    monotonic, get_time = time.monotonic, time.clock_gettime

    def stood() -> float:
        return float(_SECONDS.unpack_from(shared, _STOOD)[0])

    def now(_clock: object = None) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=_SECONDS.unpack_from(shared, _AHEAD)[0])

    replaced: Mapping[tuple[Any, str], Any] = {
        (time, "monotonic"): lambda: monotonic() - stood(),
        (time, "clock_gettime"): lambda kind: (
            get_time(kind) - (stood() if kind in _STANDING else 0.0)
        ),
        (SystemClock, "now"): now,
        (auth, "get_current_datetime"): lambda: now().replace(tzinfo=None),
    }
    for (owner, name), value in replaced.items():
        setattr(owner, name, value)


if __name__ == "__main__":
    _, clock_file, module, *arguments = sys.argv
    run_by(Path(clock_file))
    sys.argv[:] = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
