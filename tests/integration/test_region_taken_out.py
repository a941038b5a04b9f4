"""A region is taken out before one entry has left it: nothing is said of it that may be false."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from compactor.job import Compactor
from ledger.contract.contract_writer import ContractWriter
from ledger.core.errors import RetryHorizonPassed
from ledger.runtime.services import Services
from ledger.testing import MemoryGlobalTable
from ledger.testing.replicas import Transit

HOME, STAYS, LEAVES = REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-2")


class Parted:
    """A table whose third region is taken out, with an entry that has not left it."""

    def __init__(self, folder: Path) -> None:
        self.table = MemoryGlobalTable(
            REGIONS,
            compactor={"fold_min": 1, "prune_min": 1, "scan_every": 0, "scan_segments": 1},
            archive=[f"file://{folder}/1", f"file://{folder}/2"],
        )
        self.at = self.table.clock.now()
        self.late: list[Transit] = []

    async def part(self) -> None:
        """Record in the region, and take it out; all but the entry has replicated."""
        table, links = self.table, self.table._world.links
        async with table.ledger(HOME) as home, table.ledger(LEAVES) as leaves:
            await home.record("c", 1)
            table.replicate()
            await table.pass_time(10)
            self.at = table.clock.now()
            entry = await leaves.record("c", 5, key="k", at=self.at)
        for link, transits in links.items():
            self.late += [one for one in transits if one.key == ("c", entry.id)]
            links[link] = type(transits)(one for one in transits if one.key != ("c", entry.id))
        stores = {region: table.store(region) for region in REGIONS}
        writer = ContractWriter(stores, clock=table.clock, poll_seconds=5.0)
        await table._while_time_passes(
            lambda: writer.change(lambda now: replace(now.terms, regions=(HOME, STAYS)))
        )
        await table.pass_time(61)

    async def merge(self, passes: int = 1) -> None:
        """Let compactors of the regions that stay work."""
        table = self.table
        settings = table.settings.replace(regions={HOME: {}, STAYS: {}})
        stores = {region: table.store(region) for region in (HOME, STAYS)}
        for _ in range(passes):
            await table.pass_time(1_500)
            compactor = Compactor(
                settings,
                stores=stores,
                services=Services.of(clock=table.clock, randomness=table._new_random()),
                owner="pass",
                contract=True,
            )
            await table._while_time_passes(compactor.run_once)
            table.replicate()

    async def totals(self) -> list[Decimal]:
        """Return the total of each region that stays."""
        found = []
        for region in (HOME, STAYS):
            async with self.table.ledger(region) as ledger:
                found.append((await ledger.total("c", max_age=0)).value)
        return found


async def test_a_late_call_is_not_told_that_its_entry_was_never_applied(tmp_path: Path) -> None:
    """Its region acknowledged it; whether it arrives yet nobody can know."""
    world = Parted(tmp_path)
    await world.part()
    async with world.table.ledger(HOME) as home:
        for _ in range(3):
            await world.merge()
            with pytest.raises(RetryHorizonPassed, match="may have been lost with a region"):
                await home.record("c", 5, key="k", at=world.at)


@pytest.mark.parametrize("arrives", [(HOME,), (STAYS,), (HOME, STAYS)])
async def test_what_arrives_late_comes_to_every_region(
    tmp_path: Path, arrives: tuple[str, ...]
) -> None:
    """Replication brings it to some of them; the compactor takes it to the others, once."""
    world = Parted(tmp_path)
    await world.part()
    await world.merge(2)
    arrive: Callable[[Transit], None] = world.table._world._arrive
    for one in world.late:
        if one.link[1] in arrives:
            arrive(one)
    await world.merge(3)
    assert await world.totals() == [6, 6]
    async with world.table.ledger(STAYS) as stays:
        assert (await stays.record("c", 5, key="k", at=world.at)).repeated
