"""Run a command that ends with its parent: `python lease_guard.py PIPE COMMAND ARGS...`.

Run as a file, without site packages, by `ledger lease run` in a session of its own::

    lease run   ── writes how long the lease lasts ── is killed, or stands still
    guard            reads it ······················· the pipe or the time ends: SIGKILL
    command          in the guard's group ··········· gone, and all in the group

So no system call of one kernel is needed. On Linux the kernel is asked besides to kill the command
if the guard is killed. Neither reaches a process that began a session of its own, or runs as
another user.
"""

import ctypes
import os
import select
import signal
import struct
import sys
import time
from typing import NoReturn

PASSED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""Signals to the group that are for the command alone."""
_STOPPED_BY_SIGNAL, _NOT_EXECUTABLE, _NOT_FOUND = 128, 126, 127
"""The exit statuses of a shell."""
SECONDS = struct.Struct("d")
"""How long the lease lasts from now on, as it is written into the pipe."""
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""What Python ignores, and would leave ignored for the command."""
_READ_BYTES = 1024 * SECONDS.size
_PR_SET_PDEATHSIG = 1
"""prctl(2) of Linux: a signal for the caller when the thread that made it ends."""


def main() -> NoReturn:
    """Run the command, and exit as it does; or end with it as the parent does."""
    pipe, command = int(sys.argv[1]), sys.argv[2:]
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED)
    ended, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        _become(command, guard)
    status = _wait(child, pipe, ended)
    os._exit(status if status >= 0 else _STOPPED_BY_SIGNAL - status)


def _become(command: list[str], guard: int) -> NoReturn:
    """Become the command in the child; its files are not those of the guard."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:  # it died before the kernel knew
        os._exit(1)
    for number in (*_RESTORED, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED)
    try:
        os.execvp(command[0], command)  # noqa: S606 (the user's own, no shell is wanted)
    except OSError as error:
        print(
            f"{command[0]}: {(error.strerror or str(error)).lower()}", file=sys.stderr, flush=True
        )
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE)


def _wait(child: int, pipe: int, ended: int) -> int:
    """Return how the child has ended; end the whole group if the parent, or its lease, is gone."""
    end: float | None = None
    while True:
        left = None if end is None else max(0.0, end - time.monotonic())
        readable, _, _ = select.select([pipe, ended], [], [], left)
        if ended in readable:  # or has only been stopped
            os.read(ended, _READ_BYTES)
            number, status = os.waitpid(child, os.WNOHANG)
            if number:
                return os.waitstatus_to_exitcode(status)
        if pipe in readable or not readable:
            told = os.read(pipe, _READ_BYTES) if readable else b""
            if not told:
                os.killpg(0, signal.SIGKILL)
            end = time.monotonic() + SECONDS.unpack(told[-SECONDS.size :])[0]  # the newest


if __name__ == "__main__":
    main()
