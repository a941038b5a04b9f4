"""Processes of the bench: Python modules of ours, each on a core of its own where there are two."""

import os
import subprocess
import sys
from pathlib import Path

import ledger

STOP_SECONDS_MAX = 10.0


def cores() -> tuple[int | None, int | None]:
    """Return a core for the client and another for the stub; None where that is no choice."""
    if not hasattr(os, "sched_getaffinity"):  # not Linux
        return None, None
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[-1], allowed[0]) if len(allowed) > 1 else (None, None)


def take_core(core: int | None) -> None:
    """Keep this process, and those that it starts, to one core."""
    if core is not None:
        os.sched_setaffinity(0, {core})


def start(
    module: str, *arguments: str, core: int | None = None, catch_errors: bool = False
) -> subprocess.Popen[str]:
    """Start a module of ours; its input and output are pipes, and its errors if `catch_errors`."""
    package_parent = str(Path(ledger.__file__).parent.parent)
    search = os.pathsep.join(filter(None, (package_parent, os.environ.get("PYTHONPATH"))))
    words = [] if core is None else [str(core)]
    command = [sys.executable, "-m", module, *words, *arguments]
    return subprocess.Popen(  # noqa: S603 (our own module)
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if catch_errors else None,
        env={**os.environ, "PYTHONPATH": search},
        text=True,
    )


def stop(process: subprocess.Popen[str]) -> None:
    """Close its input, which tells it to end, and wait; kill it if it does not."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
