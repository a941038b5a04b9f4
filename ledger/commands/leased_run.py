"""A command run as a child while a lease is held, and ended when the lease is lost.

::

    lease      acquired ── heartbeats ──────── lost ────── margin ────── another may take it
    child               started ...            SIGTERM ─── SIGKILL
                                                  grace = margin

The child is run by a guard (`lease_guard`), which leads a session of its own: the child and its
children are signalled together, and end with this process however that ends, or once the lease is
over while this process stands still.
"""

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress

import anyio
import anyio.abc

from ledger.commands import lease_guard
from ledger.primitives.leases import Lease, LeaseGrant, NotHeld
from ledger.primitives.leases.grant_environment import environment_of
from ledger.runtime.clock import Clock
from ledger.runtime.signals import STOPPED_BY_SIGNAL
from ledger.runtime.tasks import background_tasks

NOT_HELD = 75
"""EX_TEMPFAIL of sysexits.h: try again later."""
LOST = 79
"""One above those of sysexits.h, so that a program is unlikely to use it."""
TELL_SECONDS = 0.5
"""How often the guard is told how long the lease lasts."""

Say = Callable[[str], None]


class LeasedRun:
    """One run of a command under a lease.

    `grace_seconds` pass between SIGTERM and SIGKILL of a child whose lease is lost.
    """

    def __init__(
        self,
        lease: Lease,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        grace_seconds: float,
        clock: Clock,
        say: Say,
    ) -> None:
        self._lease = lease
        self._command = command
        self._environment = environment
        self._grace_seconds = grace_seconds
        self._clock = clock
        self._say = say
        self._waiting = anyio.CancelScope()
        self._child: anyio.abc.Process | None = None
        self._stopped_by = 0

    async def run(self, wait_seconds: float, *, take_expired: bool) -> int:
        """Wait for the lease, run the command, and return the status to exit with.

        That is the command's own (128 plus the signal's number if a signal ended it), `NOT_HELD`,
        `LOST`, or a shell's for a command that cannot be run. Signals are passed on to the child;
        one that comes while waiting for the lease ends the wait.

        Raises:
            LedgerError: the lease could not be requested.
        """
        with anyio.open_signal_receiver(*lease_guard.PASSED) as signals:
            async with background_tasks() as tasks:
                tasks.start_soon(self._pass_on, signals)
                return await self._run(wait_seconds, take_expired=take_expired)

    async def _run(self, wait_seconds: float, *, take_expired: bool) -> int:
        outcome: LeaseGrant | NotHeld | None = None
        with self._waiting:
            outcome = await self._lease.acquire(wait_seconds, take_expired=take_expired)
        if self._stopped_by:
            await self._lease.release()
            return STOPPED_BY_SIGNAL + self._stopped_by
        if isinstance(outcome, LeaseGrant):
            async with self._lease.held(0) as held:
                if isinstance(held, LeaseGrant):
                    return await self._supervise(held)
        name, owner = self._lease.name, outcome.owner if outcome else ""
        self._say(f"lease {name!r} is held by {owner!r}: the command was not run")
        return NOT_HELD

    async def _supervise(self, held: LeaseGrant) -> int:
        """Run the child to its end, or to that of the lease."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        try:
            child = await self._start(held, reading)
        finally:
            os.close(reading)
        try:
            async with background_tasks() as tasks:
                tasks.start_soon(self._end_when_lost)
                tasks.start_soon(self._tell, writing)
                status = await child.wait()
        finally:
            os.close(writing)
            # A guard that was killed itself leaves what the command has started.
            if child.returncode is None or child.returncode < 0 or self._lease.lost.is_set():
                self._signal(signal.SIGKILL)
        if self._lease.lost.is_set() or (status < 0 and self._left() <= 0):
            return LOST
        return status if status >= 0 else STOPPED_BY_SIGNAL - status

    async def _start(self, held: LeaseGrant, pipe: int) -> anyio.abc.Process:
        self._child = await anyio.open_process(
            [sys.executable, "-I", "-S", lease_guard.__file__, str(pipe), *self._command],
            stdin=None,
            stdout=None,
            stderr=None,
            env={**self._environment, **environment_of(self._lease.name, held)},
            start_new_session=True,
            pass_fds=(pipe,),
        )
        return self._child

    async def _tell(self, writing: int) -> None:
        """Tell the guard how long the lease lasts, again and again, until it is lost."""
        while not self._lease.lost.is_set():
            with suppress(BrokenPipeError, BlockingIOError):
                os.write(writing, lease_guard.SECONDS.pack(self._left()))
            await self._clock.sleep(TELL_SECONDS)

    def _left(self) -> float:
        return self._lease.held_until - self._clock.monotonic()

    async def _end_when_lost(self) -> None:
        await self._lease.lost.wait()
        self._say(f"lease {self._lease.name!r} is lost: the command is terminated")
        self._signal(signal.SIGTERM)
        await self._clock.sleep(self._grace_seconds)
        self._signal(signal.SIGKILL)

    async def _pass_on(self, signals: AsyncIterator[signal.Signals]) -> None:
        async for number in signals:
            if self._child is None:
                self._stopped_by = number
                self._waiting.cancel()
            else:
                self._signal(number)

    def _signal(self, number: int) -> None:
        """Signal the child and its session; nothing of it must remain."""
        if self._child is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)
