"""Items that several changes share are merged as any entry, and each change stays to be seen."""

from decimal import Decimal

import pytest
from support.archiving import ArchivedWorld
from support.combined import combined
from support.ledgers import HOME, SOUTH, WEST

from ledger.administration.collection_findings import CollectionFinding
from ledger.administration.verification import Verification
from ledger.core.amounts import total_wide
from ledger.core.entry import entry_item
from ledger.core.parts import expanded
from ledger.core.values import Entry
from ledger.reads.collection import read_net
from ledger.session.ledger import Ledger
from ledger.store.conditions import Absent
from ledger.store.writes import Applied, Put
from ledger.testing import MemoryGlobalTable

EACH = [(5, -1, 8), ("0.25", "0.5"), (7,), (100, 10, 1)]
SUMS = [Decimal(12), Decimal("12.75"), Decimal("19.75"), Decimal("130.75")]


async def hours(ledger: Ledger) -> Decimal:
    """Return the sum of all hours of a counter."""
    found = (await ledger.periods("counter", by="hour")).periods
    return total_wide(hour.value for hour in found)


async def test_totals_before_while_and_after_items_are_merged() -> None:
    """In each region, by period and in all, whatever has arrived; the net counts items."""
    table = MemoryGlobalTable(
        compactor={"fold_min": 1, "fold_max": 3, "scan_every": 0}, periods={"*": {}}
    )
    async with table.ledger(HOME) as home, table.ledger(WEST) as west:
        for place, each in enumerate(EACH):
            region = (HOME, WEST)[place % 2]
            item = entry_item(combined(table.clock.now(), *each, region=region, suffix=place))
            assert await table.store(region).write(Put(item, Absent())) == Applied()
            own = home if region == HOME else west
            assert len([one async for one in own.history("counter")]) >= len(each)
            table.replicate()
            assert (await own.total("counter", max_age=0)).value == SUMS[place]
            await table.pass_time(1)
        await table.settle()
        for _ in range(6):
            for ledger in (home, west):
                total = await ledger.total("counter", max_age=0)
                assert (total.value, await hours(ledger)) == (SUMS[-1], SUMS[-1])
            report = await table.compact()
            assert report.is_success
        assert report.is_idle
        for ledger in (home, west):
            assert [one async for one in ledger.history("counter")] == []
        net = await read_net(table.store(), "counter")
        assert net is not None
        assert (net.change, net.count) == (SUMS[-1], len(EACH))


@pytest.mark.parametrize("fold_max", [2, 100])
async def test_with_an_archive_the_history_stays_whole(fold_max: int) -> None:
    """Before, between and after passes, in each region, with totals of the past; all verifies."""
    world = ArchivedWorld(periods={"*": {}})
    world.settings = world.settings.replace(
        compactor=world.settings.compactor.model_copy(update={"fold_max": fold_max})
    )
    one = world.world.instance("small", settings=world.settings, archive=[world.place])
    shown, moments = list[Entry](), []
    for place, each in enumerate(EACH):
        region = (HOME, WEST)[place % 2]
        item = combined(world.world.clock.now(), *each, region=region, suffix=place)
        world.world.regions.put(region, entry_item(item))
        shown += expanded(item)
        await world.world.clock.advance(1)
        moments.append(world.world.clock.now())
    world.replicate()
    for step in range(6):
        for region in (HOME, WEST, SOUTH):
            async with world.ledger(region) as ledger:
                assert [found async for found in ledger.history("counter")] == shown
                assert (await ledger.total("counter", max_age=0)).value == SUMS[-1]
                past = [(await ledger.total("counter", at=at)).value for at in moments]
                assert past == SUMS
                assert await hours(ledger) == SUMS[-1]
        if step < 5:
            await world.merge(passes=1, by=one)
    assert not world.world.shown(HOME).entries
    assert not world.world.shown(SOUTH).entries
    wrong: list[CollectionFinding] = []
    stores = world.world.regions.replicas
    await Verification(stores, world.settings, world.world.clock, wrong.append).whole()
    assert wrong == []
