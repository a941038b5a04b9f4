"""A counter that was handed over takes a new layout only once all of its items have arrived."""

from collections.abc import Awaitable, Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import combinations
from random import Random

import pytest
from support.ledgers import AWAY, HOME, make_services
from support.tiers import few_fast

from ledger.core.entry import Key
from ledger.core.errors import InvalidInput, RegionConflict
from ledger.primitives.counters import ItemCounter, Layouts
from ledger.primitives.counters.catalog import ITEM_METHODS
from ledger.primitives.counters.hand_over_tokens import ARRIVING_SECONDS
from ledger.primitives.counters.layout import (
    Layout,
    Shape,
    layout_item,
    layout_key,
    layout_of,
    shard_keys,
)
from ledger.primitives.counters.new_tokens import draw_token, new_token
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.writes import Applied, Rejected
from ledger.testing.clock import ManualClock

THIRD = "ap-south-1"
OTHER_KIND = {"optimistic": "history", "history": "optimistic"}
SHAPES = [(method, shards) for method in sorted(ITEM_METHODS) for shards in (1, 3)]


def opened(table: MemoryTable, region: str, method: str, shards: int | None = None) -> ItemCounter:
    """Open the counter in a region's table, as a `MemoryTable` does."""
    counter = ITEM_METHODS[method](
        MemoryStore(region, table), "stock", services=make_services(seed=1), shards=shards
    )
    counter.share(Layouts(), is_guarded=True)
    return counter


def keys_of(table: MemoryTable) -> set[Key]:
    """Return the keys of all items of a table."""
    return {(pk, sk) for pk, items in table.partitions.items() for sk in items}


async def handed(method: str, shards: int) -> tuple[MemoryTable, MemoryTable]:
    """Return the tables of two regions: the second shows nothing of a hand-over to it yet."""
    here, there = MemoryTable(), MemoryTable()
    counter = opened(here, HOME, method, shards)
    for token in "abc":
        await counter.add(1, token=token)
    there.partitions = deepcopy(here.partitions)
    for token in "def":
        await counter.add(1, token=token)
    await counter.hand_over(AWAY)
    return here, there


def arrivals(here: MemoryTable, there: MemoryTable) -> Iterator[tuple[set[Key], set[Key]]]:
    """Yield what has arrived beside the layout, and what has not, in every order of arrival."""
    late = {
        key
        for key in keys_of(here) - {layout_key("stock")}
        if here.get(key) != there.get(key) and not key[0].startswith("~count-marker")
    }
    for number in range(len(late) + 1):
        for arrived in combinations(sorted(late), number):
            yield set(arrived), late - set(arrived)


async def hands_back(table: MemoryTable, method: str, shards: int) -> None:
    """Let the region before write the counter again."""
    await opened(table, AWAY, method, shards).hand_over(HOME)


async def hands_on(table: MemoryTable, method: str, shards: int) -> None:
    """Hand the counter to a third region."""
    await opened(table, AWAY, method, shards).hand_over(THIRD)


async def converts(table: MemoryTable, method: str, _shards: int) -> None:
    """Keep the counter by another method."""
    await opened(table, AWAY, OTHER_KIND.get(method, "optimistic")).convert()


async def divides(table: MemoryTable, method: str, shards: int) -> None:
    """Keep the counter in more shards."""
    await opened(table, AWAY, method).convert(shards=shards + 2)


async def grows(table: MemoryTable, method: str, shards: int) -> None:
    """Open the counter with more shards, and add nothing."""
    await opened(table, AWAY, method, shards + 2).add(0)


Arranges = Callable[[MemoryTable, str, int], Awaitable[None]]


@pytest.mark.parametrize("arranges", [hands_back, hands_on, converts, divides, grows])
@pytest.mark.parametrize(("method", "shards"), SHAPES)
async def test_a_new_layout_waits_for_all_items(
    method: str, shards: int, arranges: Arranges
) -> None:
    """It is refused as changes are as long as one is missing, and then it has the whole value."""
    if method == "slots" and arranges not in (hands_back, hands_on):
        with pytest.raises(InvalidInput):
            await arranges((await handed(method, shards))[0], method, shards)
        return
    here, before = await handed(method, shards)
    for arrived, missing in arrivals(here, before):
        there = deepcopy(before)
        for key in {*arrived, layout_key("stock")}:
            there.set(key, here.get(key))
        if missing:
            shown = deepcopy(there.partitions)
            with pytest.raises(RegionConflict, match="have arrived here yet"):
                await arranges(there, method, shards)
            assert there.partitions == shown, "nothing was written"
            for key in missing:
                there.set(key, here.get(key))
        await arranges(there, method, shards)
        after = OTHER_KIND.get(method, "optimistic") if arranges is converts else method
        assert await opened(there, AWAY, after).value() == 6


async def shrunk(method: str, *, by_other: bool = False) -> tuple[MemoryTable, MemoryTable]:
    """As `handed`, of a counter that had 4 shards, or another method, before it was handed over."""
    here, there = MemoryTable(), MemoryTable()
    before = OTHER_KIND.get(method, "optimistic") if by_other else method
    for token in "abcde":
        await opened(here, HOME, before, 4).add(1, token=token)
    there.partitions = deepcopy(here.partitions)
    await opened(here, HOME, method).convert(shards=2)
    await opened(here, HOME, method).add(1, token="f")
    await opened(here, HOME, method).hand_over(AWAY)
    return here, there


def arrive(here: MemoryTable, there: MemoryTable, keys: set[Key], shown: MemoryTable) -> None:
    """Let items arrive: each replaces what `shown` has, unless it was written here since."""
    for key in keys:
        if there.get(key) == shown.get(key):
            there.set(key, here.get(key))


SPLITTING = sorted(set(ITEM_METHODS) - {"slots"})


@pytest.mark.parametrize("by_other", [False, True], ids=["fewer shards", "another method"])
@pytest.mark.parametrize("arranges", [hands_back, converts, divides, grows])
@pytest.mark.parametrize("method", few_fast(SPLITTING, fast=2))
async def test_shards_no_longer_in_force_count_nothing(
    method: str, arranges: Arranges, *, by_other: bool
) -> None:
    """They were emptied elsewhere; whatever of that has arrived, the value is that in force."""
    here, before = await shrunk(method, by_other=by_other)
    kind = opened(here, AWAY, method).kind
    in_force = {layout_key("stock"), *shard_keys("stock", Shape(kind, 2))}
    orders = 0
    for arrived, late in arrivals(here, before):
        there = deepcopy(before)
        arrive(here, there, in_force | arrived, before)
        shown = deepcopy(there)
        await arranges(there, method, 2)
        after = OTHER_KIND.get(method, "optimistic") if arranges is converts else method
        assert await opened(there, AWAY, after).value() == 6
        arrive(here, there, late - in_force, shown)
        assert await opened(there, AWAY, after).value() == 6
        orders += bool(late - in_force)
    assert orders > 0


@pytest.mark.parametrize("method", SPLITTING)
async def test_a_change_that_a_lost_region_began_counts_nothing_twice(method: str) -> None:
    """It was to have 4 shards again: what two of them held before was counted in the others."""
    here, there = await shrunk(method)
    there.partitions = deepcopy(here.partitions)
    counter = opened(there, AWAY, method)
    found = layout_of(there.get(layout_key("stock")) or {})
    lost = replace(found, region=HOME, handed=0, pending=Shape(found.kind, 4, HOME))
    pending = {"kind": {"S": found.kind}, "shards": {"N": "4"}, "region": {"S": HOME}}
    there.set(layout_key("stock"), {**layout_item("stock", lost), "pending": {"M": pending}})
    stale = shard_keys("stock", Shape(found.kind, 4))[3]
    there.set(stale, {"pk": {"S": stale[0]}, "sk": {"S": stale[1]}, "value": {"N": "9"}})
    await counter.hand_over(AWAY, lost=HOME)
    assert await counter.value() == 6


@pytest.mark.parametrize("method", ["optimistic", "history"])
async def test_a_token_in_a_shard_no_longer_in_force_is_refused_until_it_has_arrived(
    method: str,
) -> None:
    """The shard keeps the tokens of its changes, and may be on its way: it would count again."""
    here, there = MemoryTable(), MemoryTable()
    await opened(here, HOME, method, 4).shards()
    there.partitions = deepcopy(here.partitions)
    token = next(token for token in map(str, range(99)) if draw_token(token, 4) == 3)
    await opened(here, HOME, method).add(1, token=token)
    await opened(here, HOME, method).convert(shards=2)
    await opened(here, HOME, method).add(1, token="b")
    await opened(here, HOME, method).hand_over(AWAY)
    kind = opened(here, HOME, method).kind
    in_force = {layout_key("stock"), *shard_keys("stock", Shape(kind, 2))}
    arrive(here, there, in_force, there)
    counter = opened(there, AWAY, method)
    with pytest.raises(RegionConflict, match="may have been used before, and is refused until"):
        await counter.add(1, token=token)
    assert isinstance(await counter.add(1, token="b"), Rejected), "its shard is in force"
    arrive(here, there, set(shard_keys("stock", Shape(kind, 4))) - in_force, there)
    assert await counter.add(1, token=token) == Rejected("applied before")
    assert await counter.value() == 2


async def test_nothing_is_said_of_a_token_whose_marker_may_be_on_its_way() -> None:
    """None would say that nothing was made under it."""
    here, there = await handed("marker", 1)
    there.set(layout_key("stock"), here.get(layout_key("stock")))
    counter = opened(there, AWAY, "marker")
    with pytest.raises(RegionConflict, match="may have been used before"):
        await counter.lookup("d")
    assert await counter.lookup("a") is not None
    there.partitions |= deepcopy(here.partitions)
    assert await counter.lookup("d") is not None
    await counter.clock.sleep(ARRIVING_SECONDS + 1)
    assert await counter.lookup("never") is None


async def test_slots_of_a_layout_before_are_not_taken_nor_given_back() -> None:
    """A process that knew the layout before the hand-over is refused by the items themselves."""
    here, _ = await handed("slots", 1)
    for change, token in ((1, "z"), (2, "y"), (-1, "a")):
        known = Layouts()
        known.remember("stock", Layout("slots", 1, region=HOME))
        late = opened(here, HOME, "slots")
        late.share(known, is_guarded=True)
        with pytest.raises(RegionConflict, match=f"is written by {AWAY}"):
            await late.add(change, token=token)


@pytest.mark.parametrize("method", sorted(ITEM_METHODS))
async def test_what_was_lost_on_its_way_does_not_stop_the_counter(method: str) -> None:
    """The region that handed it over is gone, and so is what never arrived: it goes on without."""
    here, there = await handed(method, 1)
    there.set(layout_key("stock"), here.get(layout_key("stock")))
    counter = opened(there, AWAY, method)
    assert not isinstance(await counter.add(1), Applied)
    await counter.hand_over(AWAY, lost=HOME)
    assert isinstance(await counter.add(1), Applied)
    assert await counter.value() == 4


async def test_a_token_whose_marker_has_not_arrived_is_refused_until_markers_have() -> None:
    """The region before may have used it; once its marker shows, that answers."""
    here, there = await handed("marker", 1)
    for pk, items in here.partitions.items():
        if not pk.startswith("~count-marker"):
            there.partitions[pk] = deepcopy(items)
    clock = ManualClock(instant=True)
    counter = opened(there, AWAY, "marker")
    counter.clock = clock
    with pytest.raises(RegionConflict, match="may have been used before, and is refused until"):
        await counter.add(1, token="d")
    assert isinstance(await counter.add(1), Applied), "a change without a token"
    assert isinstance(await counter.add(1, token=new_token(later(clock, 120), Random(2))), Applied)  # noqa: S311 (no secret)
    assert isinstance(await counter.add(1, token="a"), Rejected), "its marker is there"
    there.partitions |= {
        pk: deepcopy(items) for pk, items in here.partitions.items() if "marker" in pk
    }
    assert isinstance(await counter.add(1, token="d"), Rejected)
    await clock.advance(ARRIVING_SECONDS + 1)
    assert isinstance(await counter.add(1, token="new"), Applied)
    assert await counter.value() == 9


@pytest.mark.parametrize("method", ["atomic", "history"])
async def test_a_count_that_the_region_before_may_have_corrected_is_refused(method: str) -> None:
    """Its record is an item of its own, which may be on its way."""
    here, _ = await handed(method, 1)
    counter = opened(here, AWAY, method)
    with pytest.raises(RegionConflict, match="may have been used before"):
        await counter.reconcile(counted=9, token="week-47")
    await counter.reconcile(counted=9)
    assert await counter.value() == 9


def later(clock: ManualClock, seconds: float) -> datetime:
    """Return a time after that of a clock."""
    return clock.now() + timedelta(seconds=seconds)
