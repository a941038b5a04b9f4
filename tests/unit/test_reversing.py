"""Taking an entry back, once, also long after it was merged."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from support.archiving import ArchivedWorld, archived_settings
from support.combined import combined
from support.compacting import SETTLE
from support.ledgers import HOME, SOUTH, WEST

from ledger.core.entry import Item, entry_id, entry_item
from ledger.core.errors import (
    AmountOverflow,
    DamagedItem,
    InvalidEntry,
    InvalidInput,
    StateConflict,
)
from ledger.core.hints import HINT_PARTITIONS
from ledger.core.parts import expanded
from ledger.core.values import Entry


@pytest.mark.parametrize("merged", [0, 1, 2])
async def test_reversed_once(merged: int) -> None:
    """The opposite change is written once, however often it is asked for, merged or not."""
    world = ArchivedWorld()
    async with world.ledger(HOME) as ledger:
        entry = await ledger.record("counter", 7, note="sale")
        await world.world.clock.advance(1)
        await ledger.record("counter", 1)
        await world.world.clock.advance(1)
        world.replicate()
        if merged:
            await world.merge()
        reversal = await ledger.reverse(entry, note="returned")
        assert reversal.change == -7
        assert (reversal.reverses, reversal.note) == (entry.id, "returned")
        if merged == 2:
            await world.merge()
            assert not world.world.shown(HOME).entries
        assert await ledger.reverse(entry) == reversal
        assert await ledger.reverse(entry, note="returned") == reversal
        assert (await ledger.total("counter", max_age=0)).value == 1
        await world.merge()
    async with world.ledger(WEST) as other:
        found = [one async for one in other.history("counter")]
        assert [one.change for one in found] == [7, 1, -7]
        assert found[-1] == reversal


async def test_a_total_that_does_not_fit_is_mended() -> None:
    """The change that is too large is reversed; then both are merged, and the total is right."""
    world = ArchivedWorld()
    async with world.ledger(HOME) as ledger:
        await ledger.record("counter", Decimal("0.01"))
        await world.world.clock.advance(1)
        await ledger.record("counter", 10**38 - 1)
        world.world.regions.deliver()
        await world.world.clock.advance(SETTLE + 1)
        report = await world.world.run_once(world.one)
        assert "38" in report.quarantined["counter"]
        with pytest.raises(AmountOverflow, match=r"total of 'counter': .*reverse it"):
            await ledger.total("counter", max_age=0)
        largest = [entry async for entry in ledger.history("counter")][1]
        assert (await ledger.reverse(largest)).change == -(10**38) + 1
        assert (await ledger.total("counter", max_age=0)).value == Decimal("0.01")
        await world.merge()
        assert not world.world.shown(HOME).entries
        assert (await ledger.total("counter", max_age=0)).value == Decimal("0.01")


async def test_an_entry_of_earlier_releases_is_reversed() -> None:
    """Whatever its size: one of 10^38 is read, and taken back."""
    world = ArchivedWorld()
    async with world.ledger(HOME) as ledger:
        await ledger.record("counter", 4)
        large = Entry("counter", str(entry_id(world.world.clock.now(), 7)), Decimal(10**38))
        (written,) = await ledger.retry([large])
        world.replicate()
        with pytest.raises(AmountOverflow):
            await ledger.total("counter", max_age=0)
        assert (await ledger.reverse(written)).change == -(10**38)
        assert (await ledger.total("counter", max_age=0)).value == 4


async def test_what_is_refused() -> None:
    """An unknown entry, a reversal, another note, another region: nothing is written."""
    world = ArchivedWorld()
    async with world.ledger(HOME) as ledger, world.ledger(WEST) as west:
        entry = await ledger.record("counter", 7)
        world.replicate()
        reversal = await ledger.reverse(entry, note="one")
        for wrong, said in {
            reversal: "is itself the reversal of",
            replace(reversal, reverses=None): "is itself the reversal of",
            replace(entry, id=entry.id[:-1] + "x"): "an id that the ledger did not make",
            replace(entry, counter="other"): "has no entry",
            replace(entry, counter=""): "counter must have 1 to 1,024 bytes",
            replace(entry, counter="~lease"): "counter must not begin with '~'",
        }.items():
            with pytest.raises(InvalidInput, match=said):
                await ledger.reverse(wrong)
        with pytest.raises(InvalidInput, match=r"was reversed before, by .* with the note 'one'"):
            await ledger.reverse(entry, note="two")
        with pytest.raises(InvalidInput, match=f"in the home region {HOME}, not {WEST}"):
            await west.reverse(entry)
        with pytest.raises(InvalidInput, match="only an entry is reversed"):
            await ledger.reverse(entry.id)  # type: ignore[arg-type]
        assert (await ledger.total("counter", max_age=0)).value == 0


async def test_an_entry_whose_shard_is_not_known() -> None:
    """It is looked for in each shard of its counter."""
    world = ArchivedWorld(shards={"counter": 4})
    async with world.ledger(HOME) as ledger:
        made = [await ledger.record("counter", 1) for _ in range(6)]
        assert len({entry.shard for entry in made}) > 1
        world.replicate()
        for entry in made:
            reversal = await ledger.reverse(replace(entry, shard=None))
            assert reversal.reverses == entry.id
        assert (await ledger.total("counter", max_age=0)).value == 0


async def test_the_entry_as_the_table_has_it_is_reversed() -> None:
    """Not as the caller says it was."""
    world = ArchivedWorld()
    async with world.ledger(HOME) as ledger:
        entry = await ledger.record("counter", 7)
        world.replicate()
        assert (await ledger.reverse(replace(entry, change=Decimal(14)))).change == -7


async def test_what_regions_show_differently_is_not_reversed_yet() -> None:
    """Of one key with two changes one is lost, and the reversal of the other would stay."""
    world = ArchivedWorld()
    at = world.world.clock.now()
    async with world.ledger(HOME) as ledger, world.ledger(WEST) as west:
        mine = await ledger.record("counter", 5, key="k", at=at)
        with pytest.raises(StateConflict, match=f"not shown alike by {WEST}, {SOUTH} yet") as early:
            await ledger.reverse(mine)
        assert (early.value.outcome, early.value.retryable) == ("not_applied", True)
        await west.record("counter", 7, key="k", at=at)
        with pytest.raises(StateConflict, match="not shown alike"):
            await ledger.reverse(mine)
        world.replicate()
        reversal = await ledger.reverse(mine)
        world.replicate()
        for each in (ledger, west):
            assert (await each.total("counter", max_age=0)).value == 0
        assert await ledger.reverse(mine) == reversal


@pytest.mark.parametrize("merged", [False, True])
async def test_the_day_from_which_a_reversal_applies_is_chosen(*, merged: bool) -> None:
    """By default it has none; a repeat need not name it, and may not name another."""
    world = ArchivedWorld()
    async with world.ledger(HOME) as ledger:
        one = await ledger.record("counter", 7, effective=date(2026, 11, 1))
        two = await ledger.record("counter", 8, effective=date(2026, 11, 1))
        world.replicate()
        reversal = await ledger.reverse(one, effective=date(2026, 11, 2))
        assert reversal.effective == date(2026, 11, 2)
        assert (await ledger.reverse(two)).effective is None
        if merged:
            await world.merge()
        assert await ledger.reverse(one) == reversal
        with pytest.raises(StateConflict, match="effective date 2026-11-02, not 2026-11-03"):
            await ledger.reverse(one, effective=date(2026, 11, 3))
        with pytest.raises(InvalidEntry, match="effective must be a date"):
            await ledger.reverse(one, effective="2026-11-03")  # type: ignore[arg-type]
        with pytest.raises(StateConflict, match="effective date None, not 2026-11-03"):
            await ledger.reverse(two, effective=date(2026, 11, 3))


async def test_a_reversal_leaves_a_hint() -> None:
    """As any entry does, so it is merged soon; a repeat leaves none."""
    world = ArchivedWorld()
    world.settings = archived_settings(hint_every=1)
    async with world.ledger(HOME) as ledger:
        entry = await ledger.record("counter", 7)
    assert len(hints_in(world)) == 1
    world.replicate()
    await world.world.clock.advance(SETTLE)
    for _ in range(2):
        async with world.ledger(HOME) as ledger:
            await ledger.reverse(entry)
        assert len(hints_in(world)) == 2
        await world.world.clock.advance(SETTLE)


def hints_in(world: ArchivedWorld) -> list[Item]:
    """Return the hints that the home region shows."""
    items = world.world.regions.replicas[HOME].table.items()
    return [item for item in items if item["pk"]["S"] in HINT_PARTITIONS]


def put(world: ArchivedWorld, *changes: int, **said: Any) -> Entry:
    """Put an item that changes share into the home region's table; return it."""
    made = combined(world.world.clock.now(), *changes, **said)
    world.world.regions.put(HOME, entry_item(made))
    return made


@pytest.mark.parametrize("merged", [0, 1, 3])
async def test_each_of_several_changes_of_an_item_is_reversed_on_its_own(merged: int) -> None:
    """In the table, named by the net, in the archive alone; once, also after it is merged."""
    world = ArchivedWorld(shards={"counter": 2})
    item = put(world, 5, -1, 8, suffix=7, shard=1)
    await world.world.clock.advance(1)
    world.replicate()
    if merged:
        await world.merge(passes=merged)
    assert bool(world.world.shown(HOME, "~1~counter").entries) == (merged < 3)
    if merged == 1:  # the delete has come to one region before the others
        world.world.regions.replicas[WEST].table.set(("~1~counter", item.id), None)
    async with world.ledger(HOME) as ledger:
        parts = [one async for one in ledger.history("counter")]
        reversals = [await ledger.reverse(parts[place], note="returned") for place in (0, 2)]
        assert [one.change for one in reversals] == [-5, -8]
        assert [one.reverses for one in reversals] == [f"{item.id}.000", f"{item.id}.002"]
        assert (await ledger.total("counter", max_age=0)).value == -1
        for _ in range(2):
            for part, reversal in zip(parts[::2], reversals, strict=True):
                again = await ledger.reverse(part)
                assert (again, again.repeated) == (reversal, True)
            with pytest.raises(StateConflict, match="was reversed before"):
                await ledger.reverse(parts[0], note="other")
            with pytest.raises(StateConflict, match=f"the reversal of {item.id}.000"):
                await ledger.reverse(reversals[0])
            await world.merge()
        assert not world.world.shown(HOME, "~1~counter").entries
        assert (await ledger.total("counter", max_age=0)).value == -1
        assert [one async for one in ledger.history("counter")] == [*parts, *reversals]
        assert (await ledger.reverse(replace(parts[1], shard=None))).change == 1
        assert (await ledger.total("counter", max_age=0)).value == 0


@pytest.mark.parametrize("merged", [0, 1, 3])
async def test_of_an_item_with_several_changes_one_is_named(merged: int) -> None:
    """Its own id, and a place that it has not, reverse nothing."""
    world = ArchivedWorld()
    item = put(world, 5, -1, 8)
    await world.world.clock.advance(1)
    world.replicate()
    if merged:
        await world.merge(passes=merged)
    async with world.ledger(HOME) as ledger:
        with pytest.raises(InvalidEntry) as refused:
            await ledger.reverse(replace(item, parts=""))
        names = f"{item.id}.000 to {item.id}.002"
        assert (
            str(refused.value) == f"entry {item.id} of 'counter' has 3 changes: name one, {names}"
        )
        for place, said in {
            ".003": f"has no entry {item.id}.003 in {HOME}",
            ".999": "has no entry",
            ".3": "an id that the ledger did not make",
            ".1000": "an id that the ledger did not make",
        }.items():
            with pytest.raises(InvalidInput, match=said):
                await ledger.reverse(replace(item, id=item.id + place, parts=""))
        assert (await ledger.total("counter", max_age=0)).value == 12
        assert len([one async for one in ledger.history("counter")]) == 3


@pytest.mark.parametrize("merged", [False, True])
async def test_what_keeps_no_changes_is_reversed_whole(*, merged: bool) -> None:
    """An entry that an earlier release combined has one amount, and no places."""
    world = ArchivedWorld()
    item = replace(put(world, 5, -1, 8), parts="")
    world.world.regions.put(HOME, entry_item(item))
    world.replicate()
    if merged:
        await world.merge()
    async with world.ledger(HOME) as ledger:
        with pytest.raises(StateConflict, match=f"no entry {item.id}.000"):
            await ledger.reverse(replace(item, id=f"{item.id}.000"))
        reversal = await ledger.reverse(item)
        assert reversal.change == -12
        assert (reversal.count, reversal.reverses) == (1, item.id)
        assert (await ledger.total("counter", max_age=0)).value == 0


async def test_a_part_that_regions_show_differently_is_not_reversed_yet() -> None:
    """The same sum of other changes is another item."""
    world = ArchivedWorld()
    item = put(world, 5, 7)
    part = expanded(item)[0]
    world.world.regions.put(WEST, entry_item(replace(item, parts="6 6")))
    async with world.ledger(HOME) as ledger:
        with pytest.raises(StateConflict, match=f"not shown alike by {WEST}, {SOUTH} yet"):
            await ledger.reverse(part)
        world.replicate()
        assert (await ledger.reverse(part)).reverses == part.id


async def test_a_change_of_an_item_that_does_not_add_up_is_not_reversed() -> None:
    """Which of its amounts is wrong is not known."""
    world = ArchivedWorld()
    item = replace(put(world, 5, 7), change=Decimal(13))
    world.world.regions.put(HOME, entry_item(item))
    world.replicate()
    async with world.ledger(HOME) as ledger:
        with pytest.raises(DamagedItem, match="add up to 13, got '5 7'"):
            await ledger.reverse(replace(item, id=f"{item.id}.000", parts=""))
