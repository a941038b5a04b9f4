"""Become another program that dies with its parent: `python guard.py PARENT_PID PROGRAM ARGS...`.

Run as a file, without site packages, so that it costs a few milliseconds. On Linux the kernel is
asked to kill us when the parent ends, however it ends; that request survives exec. Elsewhere the
parent's own clean-up has to suffice.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask for the signal, make sure that the parent is still there, and become the program."""
    parent, program = int(sys.argv[1]), sys.argv[2]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel knew
        sys.exit(1)
    os.execv(program, sys.argv[2:])  # noqa: S606 (the program is the caller's, no shell is wanted)


if __name__ == "__main__":
    main()
