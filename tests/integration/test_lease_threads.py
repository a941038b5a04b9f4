"""Heartbeats from a thread, on the local global table, while the event loop of the work is held up.

The work waits without giving its loop a turn until another process would see three heartbeats: a
test that hangs where they come from that loop.
"""

from collections.abc import AsyncIterator

import anyio
import pytest

from compactor import Compactor
from compactor.observation import lease_name
from compactor.report import CompactorReport
from ledger import Table, sync
from ledger.core.entry import Key
from ledger.local import LocalGlobalTable
from ledger.primitives.leases import LeaseGrant, LeaseTerms
from ledger.primitives.leases.lease_rules import lease_key, own_key
from ledger.settings import Settings

pytestmark = pytest.mark.slow

REGION = "us-east-1"
TERMS = LeaseTerms(lease_seconds=60.0, heartbeat_seconds=0.05)
BEATS = 3
LOOKS_MAX = 5_000
PASSES = 2


@pytest.fixture(scope="module")
async def settings() -> AsyncIterator[Settings]:
    """Run a local table of one region; give the settings of it."""
    async with LocalGlobalTable.start(regions=[REGION], lag=0.005, jitter=0.005) as world:
        yield world.settings(compactor={"lease": 60.0, "heartbeat": 0.05})


def hold_up(settings: Settings, key: Key) -> None:
    """Keep this thread until the lease has shown three heartbeats more."""
    with sync.Table.open(settings) as table:
        lease = table.lease("watched", key=key)
        shown: set[str] = set()
        for _ in range(LOOKS_MAX):
            record = lease.look()
            shown |= {record.rvn} if record else set()
            if len(shown) > BEATS:
                return
    pytest.fail(f"{len(shown)} records in {LOOKS_MAX} looks")


async def test_a_lease_is_kept_while_its_loop_is_held_up(settings: Settings) -> None:
    """The heartbeats arrive through a connection of the thread's own, and the lease is held."""
    async with Table.open(settings) as table:
        lease = table.lease("job", terms=TERMS, in_thread=True)
        async with lease.held(0) as held:
            assert isinstance(held, LeaseGrant)
            hold_up(settings, own_key("job"))
            assert len(lease.beats) > BEATS
            lease.check()
        record = await lease.look()
        assert record is not None
        assert (record.epoch, record.released) == (held.epoch, True)


async def test_the_compactor_keeps_its_lease_while_its_loop_is_held_up(settings: Settings) -> None:
    """A leader that computes for long goes on leading, under the same epoch."""
    reports: list[CompactorReport] = []
    errors: list[Exception] = []
    stop = anyio.Event()

    def computes(report: CompactorReport) -> None:
        reports.append(report)
        hold_up(settings, lease_key(lease_name(settings)))
        if len(reports) == PASSES:
            stop.set()

    compactor = Compactor(settings)
    await compactor.run_every(0.01, stop=stop, on_report=computes, on_error=errors.append)
    assert errors == []
    assert len({report.epoch for report in reports}) == 1
