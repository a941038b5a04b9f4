"""Changes that share an item: each caller has an entry of its own, and each counts once."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import anyio
import pytest
from anyio.lowlevel import checkpoint
from support.ledgers import AWAY, HOME, changes, make_writer
from support.sharing import GatedStore, ones, record, record_all, sharing, turns

from ledger.core.entry import entry_of
from ledger.core.errors import (
    AmountOverflow,
    InvalidEntry,
    NotSent,
    OutcomeUnknown,
    Throttled,
)
from ledger.core.ids import part_id
from ledger.core.parts import PARTS_MAX, expanded
from ledger.core.values import Entry
from ledger.runtime.call_deadlines import LATE_AT_ONCE
from ledger.runtime.tasks import in_portions
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import FaultyStore, InOrder, Lost
from ledger.store.writes import Outcome, Write
from ledger.testing.clock import ManualClock
from ledger.writes.asked_parts import WHOLES_AT_ONCE, plan_again
from ledger.writes.entry_plan import Change
from ledger.writes.group_commit import TURN_SECONDS, TURNS_MAX
from ledger.writes.writer import Writer

LARGEST = 10**38 - 1


def items(store: MemoryStore, counter: str = "c") -> list[Entry]:
    """Return the items of a counter, in order, as compactors read them."""
    return [entry_of(item) for _, item in sorted(store.table.partitions.get(counter, {}).items())]


def parts_in(store: MemoryStore, counter: str = "c") -> list[Entry]:
    """Return the changes of a counter, in order."""
    return [entry for item in items(store, counter) for entry in expanded(item)]


def entries_of(told: Sequence[object]) -> list[Entry]:
    """Return what calls were told, which must be entries."""
    assert all(isinstance(one, Entry) for one in told), told
    return [one for one in told if isinstance(one, Entry)]


async def test_changes_of_one_counter_share_an_item() -> None:
    """It holds their sum, their count and each of them; every caller is given its own."""
    store = GatedStore()
    async with sharing(store, combine=["visits-*"]) as writer:
        told = entries_of(await record_all(writer, ones(100, "visits-home")))
    assert store.sizes == [1]
    (item,) = items(store, "visits-home")
    assert (int(item.change), item.count) == (5050, 100)
    assert told == parts_in(store, "visits-home")
    assert [entry.id for entry in told] == [part_id(item.id, place) for place in range(100)]
    assert [entry.change for entry in told] == list(range(1, 101))
    assert {(entry.region, entry.count, entry.parts) for entry in told} == {(HOME, 1, "")}


async def test_a_change_that_comes_alone_has_a_place_too() -> None:
    """So no caller knows the id of an item, and repeats it."""
    store = GatedStore()
    async with sharing(store, combine=["c"]) as writer:
        entry = await writer.record(Change("c", Decimal("2.50")))
    (item,) = items(store)
    assert (item.change, item.count, item.parts) == (Decimal("2.5"), 1, "2.5")
    assert entry == expanded(item)[0]
    assert entry.id == part_id(item.id, 0)


async def test_what_must_stay_itself_is_not_combined() -> None:
    """Changes with a key, a note or a date, and counters not named, have items of their own."""
    store, clock = GatedStore(), ManualClock(instant=True)
    today = clock.now().date()
    asked = [
        Change("visits", 1),
        Change("visits", 2),
        Change("visits", 4, note="refund"),
        Change("visits", 8, effective=today),
        Change("visits", 16, key="k", at=clock.now()),
        Change("other", 32),
        Change("other", 64),
    ]
    async with sharing(store, clock=clock, combine=["visits"]) as writer:
        told = entries_of(await record_all(writer, asked))
    assert [entry.change for entry in told] == [1, 2, 4, 8, 16, 32, 64]
    assert ["." in entry.id[27:] for entry in told] == [True, True, *[False] * 5]
    assert changes(store.table, "visits") == [3, 4, 8, 16]
    assert changes(store.table, "other") == [32, 64]


async def test_a_sum_that_does_not_fit_takes_another_item() -> None:
    """Amounts that fit on their own share no item where their sum has 39 digits."""
    store = GatedStore()
    async with sharing(store, combine=["c"]) as writer:
        told = entries_of(await record_all(writer, [Change("c", LARGEST), Change("c", LARGEST)]))
    assert changes(store.table, "c") == [LARGEST, LARGEST]
    assert [entry.change for entry in told] == [LARGEST, LARGEST]
    with pytest.raises(AmountOverflow):
        await make_writer(store).record(Change("c", LARGEST * 10 + 1))


@pytest.mark.parametrize(("change", "most"), [(7, 443), (12_345, 147), (Decimal("0.01"), 177)])
async def test_an_item_is_as_long_as_a_write_unit_allows(change: Decimal | int, most: int) -> None:
    """A longer one would cost another unit; what has no room is in the next item."""
    store, amount = GatedStore(), Decimal(change)
    async with sharing(store, combine=["a-counter!"]) as writer:
        await record_all(writer, [Change("a-counter!", amount)] * (most + 1))
    assert sorted(item.count for item in items(store, "a-counter!")) == [1, most]


async def test_an_item_has_as_many_parts_as_places() -> None:
    """A place has three digits, however short the amounts are."""
    asked = [Change("c", 0)] * (PARTS_MAX + 1)
    store = GatedStore()
    written = await make_writer(store, combine=["c"]).record_many(asked)
    assert all(item.count <= PARTS_MAX for item in items(store))
    assert len({entry.id for entry in written}) == len(asked)


async def test_a_cancelled_change_is_left_out() -> None:
    """A caller that gives up before the item is sent is neither in its sum nor in its parts."""
    store = GatedStore()
    store.shut()
    scope = anyio.CancelScope()
    told = list[Entry]()

    async def gives_up(writer: Writer) -> None:
        with scope:
            await writer.record(Change("c", 100))

    async def goes_on(writer: Writer) -> None:
        told.append(await record(writer, Change("c", 1)))

    limits = {"in_flight": 1}
    shared = sharing(store, combine=["c"], writer=limits)
    async with shared as writer, anyio.create_task_group() as tasks:
        tasks.start_soon(record, writer, Change("other", 7))
        await turns()
        tasks.start_soon(gives_up, writer)
        tasks.start_soon(goes_on, writer)
        await turns()
        scope.cancel()
        await turns()
        store.gate.set()
    assert [(int(item.change), item.parts) for item in items(store)] == [(1, "1")]
    assert told == parts_in(store)


async def test_a_sum_that_fits_no_more_without_a_cancelled_change_takes_two_items() -> None:
    """Of LARGEST, -LARGEST and LARGEST the sum fits; without the second it does not."""
    store = GatedStore()
    store.shut()
    scope = anyio.CancelScope()

    async def gives_up(writer: Writer) -> None:
        with scope:
            await writer.record(Change("c", -LARGEST))

    shared = sharing(store, combine=["c"], writer={"in_flight": 1})
    async with shared as writer, anyio.create_task_group() as tasks:
        tasks.start_soon(record, writer, Change("other", 7))
        await turns()
        tasks.start_soon(record, writer, Change("c", LARGEST))
        await turns()
        tasks.start_soon(gives_up, writer)
        await turns()
        tasks.start_soon(record, writer, Change("c", LARGEST))
        await turns()
        scope.cancel()
        await turns()
        store.gate.set()
    assert [(int(item.change), item.count) for item in items(store)] == [(LARGEST, 1)] * 2


async def test_an_unknown_item_is_repeated_whole() -> None:
    """Each caller has its own change of it; whoever repeats that repeats all, and each is once."""
    inner = MemoryStore(HOME)
    store = FaultyStore(inner, lambda _call: Lost())
    async with sharing(store, combine=["c"]) as writer:
        told = await record_all(writer, ones(3))
        store.decide = InOrder()
        for place, one in enumerate(told):
            assert isinstance(one, OutcomeUnknown)
            (entry,) = one.entries
            assert (int(entry.change), entry.id[-4:]) == (place + 1, f".00{place}")
            (again,) = await writer.retry(one.entries, together=one.together)
            assert again == entry
            with pytest.raises(InvalidEntry, match="is never written again"):
                await writer.retry([again], together=False)
    (item,) = items(inner)
    assert (int(item.change), item.count, item.parts) == (6, 3, "1 2 3")


async def test_callers_repeat_their_changes_in_one_call() -> None:
    """Their item is written once, and each gets its own; so in a transaction."""
    inner = MemoryStore(HOME)
    store = FaultyStore(inner, lambda _call: Lost())
    for seed, together in enumerate((False, True)):
        async with sharing(store, combine=["c"], seed=seed) as writer:
            store.decide = lambda _call: Lost()
            told = await record_all(writer, ones(3))
            store.decide = InOrder()
            asked = [one.entries[0] for one in told if isinstance(one, OutcomeUnknown)]
            assert await writer.retry(asked[::-1], together=together) == asked[::-1]
    assert [(int(item.change), item.parts) for item in items(inner)] == [(6, "1 2 3")] * 2


async def test_a_repeat_that_gets_no_answer_has_the_changes_asked_for() -> None:
    """Not those of other callers."""
    store = FaultyStore(MemoryStore(HOME), lambda _call: Lost())
    async with sharing(store, combine=["c"]) as writer:
        told = await record_all(writer, ones(3))
        assert isinstance(told[1], OutcomeUnknown)
        with pytest.raises(OutcomeUnknown) as caught:
            await writer.retry(told[1].entries, together=False)
    assert caught.value.entries == told[1].entries
    assert caught.value.entries[0].parts == "1 2 3"


async def test_a_changed_part_is_refused() -> None:
    """A repeat writes what was asked for first, or nothing."""
    store = FaultyStore(MemoryStore(HOME), lambda _call: Lost())
    async with sharing(store, combine=["c"]) as writer:
        told = await record_all(writer, ones(2))
    assert isinstance(told[0], OutcomeUnknown)
    part = told[0].entries[0]
    for wrong in (
        Entry("c", part.id, Decimal(2), parts=part.parts),
        Entry("c", part.id[:-1] + "7", part.change, parts=part.parts),
        Entry("c", part.id, part.change, parts="1  2"),
        Entry("c", part.id, part.change, parts="1 x"),
    ):
        with pytest.raises(InvalidEntry):
            await writer.retry([wrong], together=False)


# Turns


async def test_a_call_after_a_pause_is_sent_at_once_and_later_ones_wait_for_more() -> None:
    """For a turn; whoever comes after a turn without calls is sent at once again."""
    store, clock = GatedStore(), ManualClock()
    async with (
        sharing(store, clock=clock, combine=["c"]) as writer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(record, writer, Change("c", 1))
        await clock.run_pending()
        assert [item.parts for item in items(store)] == ["1"]
        for amount in (2, 3):
            tasks.start_soon(record, writer, Change("c", amount))
            await clock.advance(TURN_SECONDS / 3)
        assert [item.parts for item in items(store)] == ["1"]
        await clock.advance(TURN_SECONDS / 3)
        assert [item.parts for item in items(store)] == ["1", "2 3"]
        await clock.advance(2 * TURN_SECONDS)
        tasks.start_soon(record, writer, Change("c", 4))
        await clock.run_pending()
        assert [item.parts for item in items(store)] == ["1", "2 3", "4"]


async def test_turns_of_all_counters_end_together() -> None:
    """So their items share requests."""
    store, clock = GatedStore(), ManualClock()
    async with (
        sharing(store, clock=clock, combine=["*"]) as writer,
        anyio.create_task_group() as tasks,
    ):
        for counter in ("c", "d"):
            tasks.start_soon(record, writer, Change(counter, 1))
            await clock.advance(TURN_SECONDS / 5)
            tasks.start_soon(record, writer, Change(counter, 2))
            await clock.advance(TURN_SECONDS / 5)
        assert store.sizes == [1, 1]
        await clock.advance(TURN_SECONDS / 2)
        assert store.sizes == [1, 1, 2]


async def test_another_counter_is_not_held_back() -> None:
    """Each counter takes turns of its own."""
    store, clock = GatedStore(), ManualClock()
    async with (
        sharing(store, clock=clock, combine=["*"]) as writer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(record, writer, Change("c", 1))
        await clock.run_pending()
        tasks.start_soon(record, writer, Change("d", 2))
        await clock.run_pending()
        assert [item.parts for item in items(store, "d")] == ["2"]


async def test_changes_wait_for_the_answer_before_but_not_for_long() -> None:
    """A request that hangs holds its counter up for some turns."""
    store, clock = GatedStore(), ManualClock()
    store.shut()
    async with (
        sharing(store, clock=clock, combine=["c"]) as writer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(record, writer, Change("c", 1))
        await clock.run_pending()
        tasks.start_soon(record, writer, Change("c", 2))
        await clock.advance(TURN_SECONDS * (TURNS_MAX - 0.5))
        assert store.sizes == [1]
        await clock.advance(TURN_SECONDS)
        assert store.sizes == [1, 1]
        store.gate.set()
        await clock.advance(TURN_SECONDS)
    assert [item.parts for item in items(store)] == ["1", "2"]


async def test_an_item_that_is_full_waits_for_no_turn() -> None:
    """It cannot take more."""
    store, clock = GatedStore(), ManualClock()
    async with (
        sharing(store, clock=clock, combine=["c"]) as writer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(record, writer, Change("c", 1))
        await clock.run_pending()
        for _ in range(600):
            tasks.start_soon(record, writer, Change("c", 2))
        await clock.run_pending()
        assert sorted(item.count for item in items(store)) == [1, 448]
        await clock.advance(TURN_SECONDS)
        assert sorted(item.count for item in items(store)) == [1, 152, 448]


async def test_what_waits_for_its_turn_is_not_sent_once_the_ledger_closes() -> None:
    """Its callers are told so."""
    store, clock, told = GatedStore(), ManualClock(), list[str]()

    async def fails(writer: Writer) -> None:
        with pytest.raises(NotSent):
            await record(writer, Change("c", 2))
        told.append("not sent")

    async with anyio.create_task_group() as tasks:
        async with sharing(store, clock=clock, combine=["c"]) as writer:
            await record(writer, Change("c", 1))
            tasks.start_soon(fails, writer)
            await clock.run_pending()
        await clock.run_pending()
    assert told == ["not sent"]
    assert [item.parts for item in items(store)] == ["1"]


async def test_a_caller_whose_time_is_over_is_told_what_is_known() -> None:
    """Of what waits for its turn that it is not sent; of what is in flight its own change."""
    store = GatedStore()
    store.shut()
    time = asyncio.get_running_loop().time
    async with sharing(store, combine=["c"], writer={"in_flight": 1}) as writer:
        with pytest.raises(OutcomeUnknown) as caught:
            await writer.record(Change("c", 1), end=time() + 0.05)
        assert [(int(one.change), one.parts) for one in caught.value.entries] == [(1, "1")]
        with pytest.raises(NotSent):
            await writer.record(Change("c", 2), end=time() + 0.05)


async def test_calls_that_end_together_end_a_few_in_each_round() -> None:
    """Each tells its caller; thousands in one round would hold up all others."""
    store = GatedStore()
    store.shut()
    loop, ended, turn = asyncio.get_running_loop(), Counter[int](), 0

    async def call(writer: Writer, change: int, end: float) -> None:
        with pytest.raises((NotSent, OutcomeUnknown)):
            await writer.record(Change("c", change), end=end)
        ended[turn] += 1

    async with sharing(store, combine=["c"]) as writer, anyio.create_task_group() as tasks:
        end = loop.time() + 0.2
        for change in range(5 * LATE_AT_ONCE):
            tasks.start_soon(call, writer, change, end)
        while sum(ended.values()) < 5 * LATE_AT_ONCE:
            await checkpoint()
            turn += 1
    assert max(ended.values()) <= LATE_AT_ONCE


async def test_what_one_caller_may_have_repeated_is_refused_to_no_other() -> None:
    """Its time was over, so it repeats the item: whatever comes of the request is not the end."""

    class Throttling(GatedStore):
        async def write(self, write: Write) -> Outcome:
            await super().write(write)
            raise Throttled("slow down")

    store, table = Throttling(), MemoryStore(HOME)
    store.shut()
    tell, told = anyio.create_memory_object_stream[Sequence[Entry]](2)
    time = asyncio.get_running_loop().time

    async def call(writer: Writer, change: int, end: float) -> None:
        with pytest.raises(OutcomeUnknown) as caught:
            await writer.record(Change("c", change), end=end)
        await tell.send(caught.value.entries)

    async with sharing(store, combine=["c"]) as writer, anyio.create_task_group() as tasks:
        tasks.start_soon(call, writer, 1, time() + 0.05)
        tasks.start_soon(call, writer, 2, time() + 60)
        other = make_writer(table)
        await other.retry(await told.receive(), together=False)
        store.gate.set()
        await other.retry(await told.receive(), together=False)
    tell.close()
    told.close()
    assert [item.parts for item in items(table)] == ["1 2"]


# Many changes in one call


async def test_many_changes_of_one_call_share_items_in_their_order() -> None:
    """Those of other counters, and those that are more than an amount, are entries of their own."""
    store, clock = MemoryStore(HOME), ManualClock(instant=True)
    asked = [
        Change("c", 1),
        Change("d", 2, note="n"),
        Change("other", 3),
        Change("c", 4),
        Change("d", 5),
        Change("c", 6, key="k", at=clock.now()),
        Change("d", 7),
    ]
    writer = make_writer(store, clock=clock, combine=["c", "d"])
    written = await writer.record_many(asked)
    assert [entry.change for entry in written] == [1, 2, 3, 4, 5, 6, 7]
    assert [(int(item.change), item.parts) for item in items(store)] in (
        [(5, "1 4"), (6, "")],
        [(6, ""), (5, "1 4")],
    )
    assert {item.parts for item in items(store, "d")} == {"", "5 7"}
    for place, counter in ((0, "c"), (3, "c"), (4, "d"), (6, "d")):
        assert written[place] in parts_in(store, counter)


async def test_changes_of_a_call_that_are_not_confirmed_can_be_repeated() -> None:
    """All of an item, since none of them is known to be there."""
    inner = MemoryStore(HOME)
    store = FaultyStore(inner, lambda _call: Lost())
    writer = make_writer(store, combine=["c"])
    with pytest.raises(OutcomeUnknown) as caught:
        await writer.record_many([*ones(3), Change("other", 7)])
    assert [entry.change for entry in caught.value.entries] == [1, 2, 3, 7]
    store.decide = InOrder()
    again = await writer.retry(caught.value.entries, together=False)
    assert [entry.change for entry in again] == [1, 2, 3, 7]
    assert [item.parts for item in items(inner)] == ["1 2 3"]


async def test_a_repeat_in_another_region_writes_the_same_item() -> None:
    """With the region of the first try, so that the two are the same to the byte."""
    store = FaultyStore(MemoryStore(HOME), lambda _call: Lost())
    writer = make_writer(store, combine=["c"])
    with pytest.raises(OutcomeUnknown) as caught:
        await writer.record_many(ones(2))
    other = MemoryStore(AWAY)
    await make_writer(other).retry(caught.value.entries, together=False)
    assert [(item.parts, item.region) for item in items(other)] == [("1 2", HOME)]


async def test_items_are_checked_a_few_at_a_time_before_they_are_written_again() -> None:
    """Others go on meanwhile: a call may have thousands of changes in full items."""
    store = FaultyStore(MemoryStore(HOME), lambda _call: Lost())
    writer = make_writer(store, combine=["*"])
    with pytest.raises(OutcomeUnknown) as caught:
        await writer.record_many([Change(f"c{number}", 1) for number in range(100)])
    turns_of_others = 0

    async def others() -> None:
        nonlocal turns_of_others
        while True:
            await checkpoint()
            turns_of_others += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        await checkpoint()
        steps = plan_again(caught.value.entries, writer._planner)
        await in_portions(steps)
        assert turns_of_others >= 100 // WHOLES_AT_ONCE
        tasks.cancel_scope.cancel()
