"""A command under a lease: it ends as the command does, and the command ends with the lease."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from support.leases import FIRST, World

from ledger.commands.lease import LOST, NOT_HELD, LeasedRun, LeaseRunOptions
from ledger.core.errors import InvalidInput
from ledger.primitives.leases import LeaseGrant, LeaseTerms
from ledger.primitives.leases.lease_rules import own_key, record_of
from ledger.testing.clock import ManualClock

GRACE = 3.0
HANG_SECONDS = 60.0
KEY = own_key("nightly")
READY = "import pathlib, sys, time\npathlib.Path(sys.argv[1]).write_text('ready')\n"
"""What a child does first: it says that it runs, to the file it is given."""
OBEYS = READY + "time.sleep(600)"
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + OBEYS
ANSWERS = (
    "import signal\n"
    "STATUSES = {signal.SIGUSR1: 7, signal.SIGINT: 8}\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, STATUSES)\n"
    f"{READY}sys.exit(STATUSES[signal.sigwait(STATUSES)])"
)
"""A signal is waited for, and never raised where Python drops an error, as in a finalizer."""


@dataclass
class Place:
    """One table, a folder, and runs of commands under the lease `nightly`."""

    folder: Path
    world: World = field(default_factory=World)
    said: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    async def run(self, *command: str, wait: float = 0, owner: str = "one") -> int:
        """Run a command under the lease to its end."""
        lease = self.world.contender(owner, name="nightly", key=KEY, terms=LeaseTerms())
        run = LeasedRun(
            lease,
            command,
            {"PATH": os.environ["PATH"]},
            grace_seconds=GRACE,
            clock=self.world.clock,
            say=self.said.append,
        )
        status = await run.run(wait, take_expired=True)
        self.statuses.append(status)
        return status

    @asynccontextmanager
    async def running(self, program: str) -> AsyncIterator[None]:
        """Let a Python program run under the lease; the body begins once it says that it runs."""
        ready = self.folder / "ready"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.run, sys.executable, "-c", program, str(ready))
            with anyio.fail_after(HANG_SECONDS):
                await until(ready.exists)
                yield
                await until(lambda: bool(self.statuses))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what a process outside does."""
    while not condition():  # noqa: ASYNC110 (of another process there is no event)
        await anyio.sleep(0.01)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Give an empty table and folder."""
    return Place(tmp_path)


@pytest.mark.parametrize(
    ("command", "status"),
    [
        pytest.param(("sh", "-c", "exit 0"), 0, id="its own, 0"),
        pytest.param(("sh", "-c", "exit 3"), 3, id="its own, 3"),
        pytest.param(("sh", "-c", "kill -9 $$"), 128 + 9, id="a signal ended it"),
        pytest.param(("/no/such/program",), 127, id="not found"),
        pytest.param(("/etc/passwd",), 126, id="not executable"),
    ],
)
async def test_the_status_is_the_command_s(
    place: Place, command: tuple[str, ...], status: int
) -> None:
    """The status to exit with is the command's own, and the lease is given back."""
    assert await place.run(*command) == status
    assert record_of(place.world.item(KEY)).released


async def test_the_command_finds_its_holding(place: Place) -> None:
    """The environment has name, owner and epoch, and what was there before."""
    out = place.folder / "out"
    script = f'echo "$LEDGER_LEASE_NAME $LEDGER_LEASE_OWNER $LEDGER_LEASE_EPOCH" > {out}'
    assert await place.run("sh", "-c", script) == 0
    assert out.read_text() == f"nightly one {FIRST}\n"


async def test_no_two_run_at_once(place: Place) -> None:
    """While another holds the lease the command is not run; the status says so."""
    other = place.world.contender("other", name="nightly", key=KEY)
    assert isinstance(await other.acquire(0), LeaseGrant)
    out = place.folder / "out"
    assert await place.run("touch", str(out)) == NOT_HELD
    assert not out.exists()
    assert place.said == ["lease 'nightly' is held by 'other': the command was not run"]


async def test_a_dead_holder_is_replaced(place: Place) -> None:
    """A wait of a lease and more takes over from a holder that died."""
    await place.world.contender("dead", name="nightly", key=KEY).acquire(0)

    async def wait() -> None:
        await place.run("true", wait=40.0)

    with anyio.fail_after(HANG_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            while not place.statuses:
                await place.world.clock.advance(1.0)
    assert place.statuses == [0]


async def test_heartbeats_go_on_while_the_command_runs(place: Place) -> None:
    """However long the command takes, the lease stays held."""
    async with place.running(ANSWERS):
        await place.world.clock.advance(500.0)
        record = record_of(place.world.item(KEY))
        assert (record.owner, record.epoch) == ("one", FIRST)
        assert not place.statuses
        os.kill(os.getpid(), signal.SIGUSR1)
    assert place.statuses == [7]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGUSR1, 7), (signal.SIGINT, 8)])
async def test_signals_are_passed_on(place: Place, number: int, status: int) -> None:
    """The command gets the signal and ends as it likes."""
    async with place.running(ANSWERS):
        os.kill(os.getpid(), number)
    assert place.statuses == [status]


async def test_a_signal_reaches_what_the_command_started(place: Place) -> None:
    """A shell's own child ends with the shell: both are in one session."""
    inner = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {OBEYS!r}, sys.argv[1]])"
    )
    async with place.running(inner):
        os.kill(os.getpid(), signal.SIGTERM)
    assert place.statuses == [128 + signal.SIGTERM]


async def test_a_signal_while_waiting_ends_the_wait(place: Place) -> None:
    """The command is not run; the status is that of what the signal stopped."""
    await place.world.contender("other", name="nightly", key=KEY).acquire(0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: place.run("true", wait=1000.0))
        await place.world.clock.advance(5.0)
        os.kill(os.getpid(), signal.SIGTERM)
    assert place.statuses == [128 + signal.SIGTERM]


async def test_a_lost_lease_ends_the_command(place: Place) -> None:
    """Another took the lease: SIGTERM at once, and a status of its own."""
    async with place.running(OBEYS):
        await take(place.world)
        await place.world.clock.advance(10.0)
    assert place.statuses == [LOST]
    assert place.said == ["lease 'nightly' is lost: the command is terminated"]
    assert record_of(place.world.item(KEY)).owner == "thief"


async def test_a_command_that_ignores_the_end_is_killed(place: Place) -> None:
    """After the grace, not before."""
    async with place.running(STUBBORN):
        await take(place.world)
        await place.world.clock.advance(10.0 + GRACE - 0.1)
        await settle(place.world.clock)
        assert not place.statuses
        await place.world.clock.advance(0.1)
    assert place.statuses == [LOST]


async def take(world: World) -> None:
    """Let another take the lease out of turn."""
    item = dict(world.item(KEY))
    world.table.set(KEY, {**item, "owner": {"S": "thief"}, "rvn": {"S": "x"}, "epoch": {"N": "9"}})


async def settle(clock: ManualClock) -> None:
    """Let a child that was signalled end, if it does."""
    await clock.run_pending()


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 86_401.0])
def test_a_lease_out_of_its_range_is_a_misused_option(seconds: float) -> None:
    """It ends with 2, as other bad options do: the error is one of input, not of settings."""
    with pytest.raises(InvalidInput, match="--lease must be over 0 and at most 86,400 seconds"):
        LeaseRunOptions(lease=seconds, grace=0.0).terms()
