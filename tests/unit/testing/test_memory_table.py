"""`MemoryGlobalTable` as a test of somebody's program uses it."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import anyio
import pytest

from ledger import KeyConflict, RetryHorizonPassed
from ledger.core.errors import ImportRefused, InvalidInput, RegionUnreadable, SettingsError
from ledger.testing import ManualClock, MemoryGlobalTable

HOME, AWAY = "us-east-1", "eu-west-1"


async def test_regions_differ_until_what_they_wrote_arrives() -> None:
    """Each shows its own change at once, and the other's once it has replicated."""
    table = MemoryGlobalTable((HOME, AWAY))
    async with table.ledger(HOME) as home, table.ledger(AWAY) as away:
        await home.record("shop", 3)
        await away.record("shop", Decimal("-0.50"))
        assert (await home.total("shop", max_age=0)).value == 3
        assert (await away.total("shop", max_age=0)).value == Decimal("-0.50")
        assert table.replicate() > 0
        for ledger in (home, away):
            assert (await ledger.total("shop", max_age=0)).value == Decimal("2.50")
        assert table.replicate() == 0


async def test_held_links_deliver_after_healing() -> None:
    """One direction alone, then a region both ways."""
    table = MemoryGlobalTable((HOME, AWAY))
    async with table.ledger(HOME) as home, table.ledger(AWAY) as away:
        table.pause(HOME, AWAY)
        await home.record("a", 1)
        await away.record("a", 2)
        table.replicate()
        assert (await home.total("a", max_age=0)).value == 3
        assert (await away.total("a", max_age=0)).value == 2
        table.heal()
        table.replicate()
        table.isolate(AWAY)
        await away.record("a", 4)
        table.replicate()
        assert (await home.total("a", max_age=0)).value == 3
        table.heal()
        table.replicate()
        assert (await home.total("a", max_age=0)).value == 7


async def test_merging_leaves_one_net_and_the_same_totals() -> None:
    """Hours of the clock, and no time at all."""
    table = MemoryGlobalTable((HOME, AWAY), compactor={"fold_min": 1, "scan_every": 0})
    async with table.ledger(HOME) as home, table.ledger(AWAY) as away:
        for _ in range(30):
            await home.record("a", 1)
            await away.record("a", 2)
        assert await table.merge() == 60
        for ledger in (home, away):
            total = await ledger.total("a", max_age=0)
            assert (int(total.value), total.entries) == (90, 0)
        assert await table.merge() == 0


@pytest.mark.parametrize("entries", [2, 200])
async def test_a_total_that_does_not_fit_is_reported_by_a_search(entries: int) -> None:
    """Of a small counter as of a large one, and nothing of it is merged."""
    table = MemoryGlobalTable((HOME, AWAY), compactor={"scan_every": 0})
    async with table.ledger() as ledger:
        await ledger.record_many([("c", Decimal("0.01")), *[("c", 10**37)] * (entries - 1)])
    table.replicate()
    assert (await table.compact()).damaged == 1
    await table.settle()
    report = await table.compact()
    assert (report.damaged, report.merged) == (1, 0)


async def test_the_clock_decides_what_a_late_repeat_is_told() -> None:
    """Within the retry horizon it changes nothing, or is a conflict; later it is refused."""
    table = MemoryGlobalTable((HOME, AWAY))
    async with table.ledger(HOME) as ledger:
        made = table.clock.now()
        await ledger.record("a", 5, key="order-1", at=made)
        await ledger.record("a", 5, key="order-1", at=made)
        assert (await ledger.total("a", max_age=0)).value == 5
        with pytest.raises(KeyConflict):
            await ledger.record("a", 6, key="order-1", at=made)
        await table.pass_time(table.settings.retry_horizon + 1)
        with pytest.raises(RetryHorizonPassed):
            await ledger.record("a", 5, key="order-1", at=made)


async def test_the_same_seed_gives_the_same_ids() -> None:
    """A failing test fails again."""

    async def ids(seed: int) -> list[str]:
        table = MemoryGlobalTable(seed=seed)
        async with table.ledger() as one, table.ledger(AWAY) as other:
            return [str((await ledger.record("a", 1)).id) for ledger in (one, other)]

    assert await ids(1) == await ids(1) != await ids(2)


async def test_a_cached_total_grows_old_on_the_clock() -> None:
    """A moment later it is read anew."""
    table = MemoryGlobalTable()
    async with table.ledger() as reader, table.ledger() as writer:
        assert (await reader.total("a", max_age=5)).value == 0
        await writer.record("a", 1)
        assert (await reader.total("a", max_age=5)).value == 0
        await table.pass_time(6)
        assert (await reader.total("a", max_age=5)).value == 1


async def test_the_whole_table_is_there() -> None:
    """Counters, sequences and leases, in one region."""
    table = MemoryGlobalTable()
    async with table.table() as opened:
        stock = opened.counter("stock", method="marker", minimum=0)
        await stock.add(2, token="delivery")
        assert await stock.value() == 2
        await opened.ledger.record("a", 1)
        assert (await opened.ledger.total("a", max_age=0)).value == 1


def test_plain_code_has_it_too() -> None:
    """Without async."""
    table = MemoryGlobalTable()
    with table.sync_ledger() as home:
        home.record("a", 3)
    with table.sync_ledger(AWAY) as away:
        assert away.total("a").value == 0
        table.replicate()
        assert away.total("a", max_age=0).value == 3


async def test_calls_end_although_nobody_moves_the_clock() -> None:
    """Changes that are combined, and more at once than a request takes: none waits for others."""
    table = MemoryGlobalTable(combine=["votes-*"])
    async with table.ledger() as ledger:
        with anyio.fail_after(60):
            await ledger.record("votes-a", 1)
            async with anyio.create_task_group() as tasks:
                for number in range(60):
                    tasks.start_soon(ledger.record, f"c{number}", 1)
        assert (await ledger.total("votes-a", max_age=0)).value == 1
        assert (await ledger.total("c59", max_age=0)).value == 1


@pytest.mark.parametrize("regions", [(), (HOME, HOME)])
def test_regions_are_different_ones(regions: tuple[str, ...]) -> None:
    """At least one."""
    with pytest.raises(SettingsError, match="regions must be different ones"):
        MemoryGlobalTable(regions)


async def test_time_does_not_go_back() -> None:
    """A test that asks for it is told."""
    with pytest.raises(InvalidInput, match="must be 0 or more, got -5"):
        await MemoryGlobalTable().pass_time(-5)


@pytest.mark.parametrize("call", ["ledger", "table", "store", "isolate", "sync_ledger"])
def test_an_unknown_region_is_named(call: str) -> None:
    """As everywhere."""
    with pytest.raises(SettingsError, match="mars-1"):
        getattr(MemoryGlobalTable(), call)("mars-1")


def test_settings_are_checked_as_everywhere() -> None:
    """A rule that is broken is named; a clock may be given."""
    with pytest.raises(SettingsError, match="settle"):
        MemoryGlobalTable(settle="1s")
    clock = ManualClock()
    assert MemoryGlobalTable(clock=clock).clock is clock
    assert clock.now() + timedelta(0) == clock.wall


async def test_an_import_reads_every_region(tmp_path: Path) -> None:
    """Each has to show that it began, or a loss of home would not be known to have met it."""
    table = MemoryGlobalTable((HOME, AWAY))
    file = tmp_path / "changes.csv"
    file.write_text("counter,change\na,1\na,2\n")
    async with table.table() as here, table.ledger(AWAY) as away:
        table.isolate(AWAY)
        with pytest.raises(RegionUnreadable, match=f"cannot be read in {AWAY}|{AWAY}"):
            await here.importer().run_file(file)
        assert (await here.ledger.total("a", max_age=0)).entries == 0
        table.heal()
        table.pause(HOME, AWAY)
        with pytest.raises(ImportRefused, match=f"{AWAY} does not show after 60 s"):
            await here.importer().run_file(file)
        table.heal()
        report = await here.importer().run_file(file)
        assert report is not None
        table.replicate()
        assert (report.rows, (await away.total("a", max_age=0)).value) == (2, Decimal(3))
