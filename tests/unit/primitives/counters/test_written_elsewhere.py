"""One region writes a counter kept in items: the table names it, and others are refused."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from support.ledgers import AWAY, HOME, services_of

from ledger.core.errors import RegionConflict
from ledger.primitives.counters import ItemCounter, Layouts
from ledger.primitives.counters.catalog import ITEM_METHODS
from ledger.primitives.counters.layout import layout_key
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.writes import Action, Applied, Outcome
from ledger.testing.clock import ManualClock

METHODS = sorted(ITEM_METHODS)
Regions = Callable[..., ItemCounter]


@pytest.fixture
def counter() -> Regions:
    """Make counters of a `MemoryTable` whose regions show each other's writes at once."""
    shared = MemoryTable()

    def make(region: str, *, method: str = "atomic", shards: int | None = None) -> ItemCounter:
        return made(MemoryStore(region, shared), method, shards=shards)

    return make


def made(store: Any, method: str = "atomic", *, shards: int | None = None) -> ItemCounter:
    """Make a counter over a store, as a `MemoryTable` does."""
    made = ITEM_METHODS[method](
        store,
        "stock",
        services=services_of(
            ManualClock(instant=True),
            Random(store.region),  # noqa: S311 (no secret)
        ),
        shards=shards,
    )
    made.share(Layouts(), is_guarded=True)
    return made


@pytest.mark.parametrize("method", METHODS)
async def test_a_second_region_is_refused(counter: Regions, method: str) -> None:
    """Its change would overwrite others, or be overwritten, and no error would say so."""
    await counter(HOME, method=method).add(1, token="a")
    with pytest.raises(RegionConflict, match=f"is written by {HOME}, and this is {AWAY}"):
        await counter(AWAY, method=method).add(1, token="b")
    assert await counter(AWAY, method=method).value() == 1


@pytest.mark.parametrize("method", METHODS)
async def test_a_counter_is_handed_over(counter: Regions, method: str) -> None:
    """The other region writes on from the same value, and the first one is refused."""
    here, there = counter(HOME, method=method), counter(AWAY, method=method)
    await here.add(1, token="a")
    await here.hand_over(AWAY)
    assert isinstance(await there.add(1), Applied)
    with pytest.raises(RegionConflict, match=f"is written by {AWAY}"):
        await here.add(1, token="c")
    assert await here.value() == await there.value() == 2


@pytest.mark.parametrize("is_lost", [True, False])
@pytest.mark.parametrize("looked", ["value", "shards", "add"])
@pytest.mark.parametrize("method", METHODS)
async def test_a_process_that_looked_before_the_hand_over_writes_after_it(
    counter: Regions, method: str, looked: str, *, is_lost: bool
) -> None:
    """What it remembers of the counter refuses nothing: it looks once more before it does."""
    here, there = counter(HOME, method=method), counter(AWAY, method=method)
    await here.add(1, token="a")
    if looked == "value":
        assert await there.value() == 1
    else:
        with pytest.raises(RegionConflict):
            await (there.shards() if looked == "shards" else there.add(1, token="b"))
    if is_lost:
        await counter(AWAY, method=method).hand_over(AWAY, lost=HOME)
    else:
        await here.hand_over(AWAY)
    assert isinstance(await there.add(1), Applied)
    assert await there.value() == 2
    await there.hand_over(HOME)
    assert isinstance(await here.add(1), Applied), "and back"


async def test_only_the_region_that_writes_hands_over(counter: Regions) -> None:
    """Another one does not know what is on its way."""
    await counter(HOME).add(1)
    with pytest.raises(RegionConflict, match=f"is written by {HOME}"):
        await counter(AWAY).hand_over(AWAY)
    with pytest.raises(RegionConflict, match=f"by {HOME}, not by sa-east-1"):
        await counter(AWAY).hand_over(AWAY, lost="sa-east-1")


async def test_a_lost_region_hands_nothing_over(counter: Regions) -> None:
    """What has arrived is written on by the region that an operator names."""
    await counter(HOME, shards=3).add(7)
    there = counter(AWAY)
    await there.hand_over(AWAY, lost=HOME)
    await there.hand_over(AWAY, lost=HOME)
    await there.add(1)
    assert await there.value() == 8


async def test_a_change_that_a_lost_region_began_is_finished(counter: Regions) -> None:
    """It was announced there, and arrived: nobody else would go on with it."""
    await counter(HOME).add(7)
    shared = MemoryTable()
    with pytest.raises(KeyboardInterrupt):
        await made(Ends(MemoryStore(HOME, shared))).hand_over(AWAY)
    there = made(MemoryStore(AWAY, shared))
    with pytest.raises(RegionConflict):
        await there.add(1)
    await there.hand_over(AWAY, lost=HOME)
    await there.add(1)
    assert await there.value() == 1


async def test_what_is_handed_over_is_written_once_it_has_arrived() -> None:
    """The layout may arrive before the items: until they do a change is refused, not lost."""
    here, there = MemoryTable(), MemoryTable()
    await made(MemoryStore(HOME, here)).add(5)
    there.partitions = deepcopy(here.partitions)
    await made(MemoryStore(HOME, here)).hand_over(AWAY)
    key = layout_key("stock")
    there.set(key, here.get(key))
    early = made(MemoryStore(AWAY, there))
    assert not isinstance(await early.add(1), Applied)
    there.partitions = deepcopy(here.partitions)
    assert await early.add(1) == Applied(value=Decimal(6))


async def test_a_counter_without_a_region_is_claimed_by_who_writes_it_first(
    counter: Regions,
) -> None:
    """A counter of its class alone, without a `MemoryTable`, names no region."""
    plain = counter(HOME)
    plain.share(Layouts())
    await plain.add(1)
    await counter(AWAY).add(1)
    with pytest.raises(RegionConflict, match=f"is written by {AWAY}"):
        await counter(HOME).add(1)


class Ends(MemoryStore):
    """A store whose process ends before the transaction that finishes a change."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner.region, inner.table)

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """End."""
        del actions, token
        raise KeyboardInterrupt
