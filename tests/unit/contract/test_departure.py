"""A region that leaves is compared with the others before its replica is removed."""

from collections.abc import Callable
from functools import partial

import pytest
from support.contracts import established, make_terms, to

from ledger.contract import departure
from ledger.contract.contract_writer import COMPARED_EVERY_SECONDS
from ledger.contract.departure import count_alone
from ledger.contract.wait_report import Alone
from ledger.core.entry import Item
from ledger.store.memory import MemoryStore
from ledger.testing.clock import ManualClock

LEAVES, STAYS, OTHER = "ap-southeast-2", "us-east-1", "eu-west-1"


class Regions(ManualClock):
    """A region that leaves, and two that stay; `between` happens between the two looks."""

    def __init__(self) -> None:
        super().__init__(instant=True)
        self.stores = {region: MemoryStore(region) for region in (LEAVES, STAYS, OTHER)}
        self.between: Callable[[], None] = lambda: None

    def put(self, sort_key: str, value: str, *regions: str) -> None:
        """Let regions, by default all, show an item."""
        item: Item = {"pk": {"S": "c"}, "sk": {"S": sort_key}, "value": {"S": value}}
        for region in regions or self.stores:
            self.stores[region].table.set(("c", sort_key), item)

    async def sleep(self, seconds: float) -> None:
        """Let something happen."""
        self.between()
        await super().sleep(seconds)

    async def count(self) -> Alone:
        """Compare the region that leaves with the others."""
        return await count_alone(
            self.stores[LEAVES], [self.stores[STAYS], self.stores[OTHER]], clock=self
        )


async def test_what_all_regions_show_is_in_none_alone() -> None:
    """Nor is what only the others have: it need not arrive in a region that leaves."""
    regions = Regions()
    regions.put("1", "a")
    regions.put("2", "b", STAYS, OTHER)
    assert await regions.count() == Alone(0)


@pytest.mark.parametrize("shown", [(), (STAYS,)])
async def test_an_item_that_one_of_the_others_does_not_have_is_alone(
    shown: tuple[str, ...],
) -> None:
    """Once the replica is removed nothing brings it there."""
    regions = Regions()
    regions.put("1", "a", LEAVES, *shown)
    regions.put("2", "b", LEAVES, *shown)
    assert await regions.count() == Alone(2)


async def test_a_newer_version_is_alone() -> None:
    """A sum, or a net of a former home, is one item for ever: its last version is what counts."""
    regions = Regions()
    regions.put("1", "old", STAYS, OTHER)
    regions.put("1", "new", LEAVES)
    assert await regions.count() == Alone(1)


@pytest.mark.parametrize("region", [LEAVES, STAYS])
async def test_what_changes_between_two_looks_is_under_way(region: str) -> None:
    """What had not arrived in the region that leaves arrives, or what it had in the other."""
    regions = Regions()
    regions.put("1", "new")
    regions.put("1", "new" if region == STAYS else "old", LEAVES)
    regions.put("1", "old" if region == STAYS else "new", STAYS)
    regions.between = lambda: regions.put("1", "new", region)
    assert await regions.count() == Alone(0)


async def test_no_more_suspects_are_kept_than_memory_has_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The count is a least one then, and the replica may not go though it came to nothing."""
    monkeypatch.setattr(departure, "SUSPECTS_MAX", 1)
    regions = Regions()
    for number in range(3):
        regions.put(str(number), "a", LEAVES)
    regions.stores[LEAVES].page_items_max = 2
    found = await regions.count()
    assert (found, str(found), found.is_none) == (
        Alone(2, is_whole=False),
        "at least 2 items",
        False,
    )
    regions.between = partial(regions.put, "0", "a")
    assert not (await regions.count()).is_none


async def test_the_removal_is_asked_for_once_nothing_is_in_the_region_alone() -> None:
    """Before, the operator hears how many items would be lost with it."""
    world = await established()
    home, away, south = world.stores.values()
    key = ("c", "1")
    item: Item = {"pk": {"S": "c"}, "sk": {"S": "1"}}
    for store in (home, south):
        store.table.set(key, item)
    described = home.described = {away.region: "ACTIVE", south.region: "ACTIVE"}
    said: list[str] = []

    def happens() -> None:
        if not world.waits[-1].replicas:
            return
        said.append(str(world.waits[-1]))
        if len(said) == 4:
            away.table.set(key, item)
        if world.waits[-1].alone == Alone(0):
            home.described = {away.region: "ACTIVE", south.region: "DELETING"}
        elif home.described != described:
            home.described = {away.region: "ACTIVE"}
            south.is_missing = True

    world.on_sleep = happens
    begun = world.elapsed
    done = await world.operator().change(to(make_terms(regions=(home.region, away.region))))
    assert done.terms.lost == (south.region,)
    assert said[0].startswith(f"1 items are in {south.region} alone, or newer there")
    assert "nothing is in ap-southeast-2 alone, so remove it" in said[-2]
    assert said[-1].endswith("once the replica in ap-southeast-2 is removed")
    assert world.elapsed - begun > COMPARED_EVERY_SECONDS
