"""`ledger lease`: run a command under a lease, list the leases of a table, show one.

The command runs as a child while the lease is held, and is ended when the lease is lost::

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
from dataclasses import dataclass
from typing import Annotated, Any

import anyio
import anyio.abc
import typer

from ledger.commands import lease_guard
from ledger.commands.regions import HomeOptions, HomeRegion, home_or
from ledger.core.errors import InvalidInput, LedgerError
from ledger.primitives.leases import Lease, LeaseGrant, LeaseRecord, LeaseTerms, NotHeld
from ledger.primitives.leases.grant_environment import environment_of
from ledger.primitives.leases.lease_rules import LEASE_SECONDS_MAX, MARGIN_SHARE_MAX
from ledger.runtime.clock import Clock, SystemClock
from ledger.runtime.command_line import Config, new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import Column, Grid, number, print_grid
from ledger.runtime.output import print_json, say
from ledger.runtime.signals import STOPPED_BY_SIGNAL
from ledger.runtime.tasks import background_tasks
from ledger.settings import Settings
from ledger.table import Table

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
        async for sent in signals:
            if self._child is None:
                self._stopped_by = sent
                self._waiting.cancel()
            else:
                self._signal(sent)

    def _signal(self, number: int) -> None:
        """Signal the child and its session; nothing of it must remain."""
        if self._child is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)


app = new_app(about="Run a command under a lease; list the leases of a table, show one.")

Name = Annotated[str, typer.Argument(help="Name of the lease.")]
HEARTBEATS_PER_LEASE = 3


@dataclass(frozen=True, slots=True)
class LeaseRunOptions:
    """How long the lease of a command lasts, and who may hold it."""

    wait: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Seconds to wait for the lease; inf without limit.",
            show_default="a lease and a heartbeat, to replace a holder that died",
        ),
    ] = None
    lease: Annotated[float, typer.Option(help="Seconds that the lease lasts.")] = 30.0
    grace: Annotated[
        float,
        typer.Option(min=0, help="Seconds from SIGTERM to SIGKILL if the lease is lost."),
    ] = 5.0
    released_only: Annotated[
        bool, typer.Option("--released-only", help="Never replace a holder that died.")
    ] = False
    owner: Annotated[
        str | None,
        typer.Option(help="Name shown to others.", show_default="host, process and random"),
    ] = None

    def terms(self) -> LeaseTerms:
        """Return terms whose margin is the grace: the command is dead before another can begin.

        Raises:
            InvalidInput: the lease is out of range, or the grace is half of it or more.
        """
        if not 0 < self.lease <= LEASE_SECONDS_MAX:
            raise InvalidInput(
                f"--lease must be over 0 and at most {LEASE_SECONDS_MAX:,.0f} seconds,"
                f" got {self.lease:g}"
            )
        if not self.grace < self.lease * MARGIN_SHARE_MAX:
            raise InvalidInput(
                f"--grace must be under half of --lease ({self.lease:g} s), so that the command"
                f" can be ended before another may begin, got {self.grace:g}"
            )
        return LeaseTerms(
            lease_seconds=self.lease,
            heartbeat_seconds=self.lease / HEARTBEATS_PER_LEASE,
            margin_share=self.grace / self.lease,
        )


@app.command()
@spread_options
def run(
    name: Name,
    command: Annotated[list[str], typer.Argument(help="Command and its arguments, after --.")],
    *,
    options: LeaseRunOptions,
    region: HomeRegion = None,
    config: Config = None,
) -> None:
    """Run a command while its lease is held, by one process at a time; exit as the command does.

    `ledger lease run nightly -- ./report.sh --all`. Heartbeats keep the lease, which is released at
    the end. Signals are passed on to the command and its children. The command finds the lease in
    LEDGER_LEASE_NAME, LEDGER_LEASE_OWNER and LEDGER_LEASE_EPOCH, a number that grows with each
    holder.

    If the lease is lost the command is terminated, and killed before another process can hold the
    lease: exit status 79. If this process is killed, or stands still until the lease is over, the
    command is killed, and what it has started; but not what began a session of its own. Exit status
    75: another process holds the lease, and the command was not run; 126 and 127: it cannot be run.
    """
    terms = options.terms()
    patience = options.lease + terms.heartbeat_seconds if options.wait is None else options.wait
    settings = Settings.load(config)

    async def call() -> int:
        async with Table.open(settings, region=home_or(settings, region)) as table:
            leased = LeasedRun(
                table.lease(name, owner=options.owner, terms=terms),
                command,
                os.environ,
                grace_seconds=options.grace,
                clock=SystemClock(),
                say=lambda text: say(text, err=True),
            )
            return await leased.run(patience, take_expired=not options.released_only)

    raise typer.Exit(anyio.run(call))


@app.command("list")
@spread_options
def list_command(common: HomeOptions) -> None:
    """List the leases of the table, by a scan of all of it: every item is read and charged.

    Whether a holder is alive shows only over time, see `ledger lease show --watch`.
    """
    settings, place = common.chosen()

    async def call() -> list[LeaseRecord]:
        async with Table.open(settings, region=place) as table:
            return [record async for record in table.leases()]

    records = sorted(anyio.run(call), key=lambda record: record.key)
    if common.as_json:
        print_json(map(_fields, records))
        return
    print_grid(_grid(records))


@app.command()
@spread_options
def show(
    name: Name,
    *,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Look for up to a lease whether its holder sends heartbeats."),
    ] = False,
    common: HomeOptions,
) -> None:
    """Show who holds a lease, since when, and what is stored with it."""
    settings, place = common.chosen()

    async def call() -> tuple[LeaseRecord, bool | None]:
        async with Table.open(settings, region=place) as table:
            lease = table.lease(name)
            record = await lease.look()
            if record is None:
                raise LedgerError(f"lease {name!r} has no item: it was never held, or is deleted")
            return record, await lease.watch() if watch else None

    record, is_alive = anyio.run(call)
    if common.as_json:
        print_json([_fields(record) | ({} if is_alive is None else {"alive": is_alive})])
        return
    for field, value in _fields(record).items():
        say(f"{field}: {'-' if value is None else value}")
    if is_alive is not None:
        say(f"alive: {'yes' if is_alive else 'no heartbeat in a whole lease'}")


def _fields(record: LeaseRecord) -> dict[str, Any]:
    return {
        "lease": record.title,
        "owner": record.owner or None,
        "since": record.since.isoformat() if record.since else None,
        "epoch": record.epoch,
        "lease_seconds": record.lease_seconds,
        "region": record.home,
        "data": dict(record.data) or None,
    }


def _grid(records: Sequence[LeaseRecord]) -> Grid:
    columns = (Column("lease"), Column("owner"), Column("since"), number("epoch"))
    rows = [
        (
            record.title,
            record.owner or "(released)",
            record.since.isoformat(timespec="seconds") if record.since else "-",
            str(record.epoch),
        )
        for record in records
    ]
    return Grid(columns, rows)
