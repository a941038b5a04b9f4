"""What a sender says of entries whose outcome it does not know, and how it ends when closed."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import chain, repeat

import anyio
import pytest
from anyio.lowlevel import checkpoint
from support.ledgers import HOME, make_settings, seeded

from ledger.core.entry import entry_item
from ledger.core.errors import NotSent, OutcomeUnknown, SignedTooLate, StoreError, Throttled
from ledger.core.values import Entry
from ledger.runtime.services import Services
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.faults import FaultyStore, InOrder, Partial, Raises
from ledger.store.writes import Action, BatchOutcome, BatchWrite, EachOutcome, Outcome, Write
from ledger.testing.clock import START, ManualClock
from ledger.writes.bulk_write import send_all
from ledger.writes.entry_plan import Change, PlannedEntry, plan_entry
from ledger.writes.sender import Result, Sender
from ledger.writes.writer import ClosableSender

SETTINGS = make_settings()


def planned(count: int, *, keyed: bool = False) -> list[PlannedEntry]:
    """Plan changes of one counter."""
    return [
        plan_entry(
            Change("c", 1, key=f"k{place}", at=START) if keyed else Change("c", 1),
            region=HOME,
            settings=SETTINGS,
            now=START,
            suffix=place,
        )
        for place in range(count)
    ]


class HalfStore(MemoryStore):
    """A store that does the first half of its first batch and then, or always, gives no answer."""

    def __init__(self, *, hangs: bool = False) -> None:
        super().__init__(HOME)
        self.hangs = hangs
        self.sent: list[int] = []

    async def write(self, write: Write) -> Outcome:
        """Give no answer."""
        self.sent.append(1)
        await self._silence()
        return await super().write(write)

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do the first half of the first batch."""
        self.sent.append(len(writes))
        if len(self.sent) > 1:
            await self._silence()
            return BatchOutcome((), tuple(range(len(writes))), "no answer")
        half = len(writes) // 2
        await super().write_batch(writes[:half])
        return BatchOutcome((), tuple(range(half, len(writes))), "no answer")

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Give no answer."""
        self.sent.append(len(writes))
        await self._silence()
        return await super().write_each(writes)

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Give no answer."""
        self.sent.append(len(actions))
        await self._silence()
        return await super().transact(actions, token=token)

    async def _silence(self) -> None:
        if self.hangs:
            await anyio.sleep_forever()


def sender(store: Store, clock: ManualClock | None = None) -> Sender:
    """Return a sender on a clock whose sleeps are over at once."""
    services = Services.of(clock=clock or ManualClock(instant=True), randomness=seeded())
    return Sender(store, settings=SETTINGS, services=services)


def closable(store: Store) -> ClosableSender:
    """Return a sender that can be closed."""
    services = Services.of(clock=ManualClock(instant=True), randomness=seeded())
    return ClosableSender(store, settings=SETTINGS, services=services)


async def test_a_batch_names_as_unknown_only_what_it_did_not_report() -> None:
    """What is durable is not among the entries to retry."""
    store, changes = HalfStore(), planned(10)
    reported: list[PlannedEntry] = []
    with pytest.raises(OutcomeUnknown) as caught:
        await sender(store).batch(changes, reported.extend)
    assert reported == changes[:5]
    assert caught.value.entries == tuple(change.entry for change in changes[5:])
    assert store.sent[:2] == [10, 5]


async def test_one_key_makes_a_whole_transaction_late() -> None:
    """Beside changes of its own a process sends none that another may have made, past its time."""
    store = HalfStore()
    clock = ManualClock(START + timedelta(seconds=SETTINGS.retry_horizon + 1), instant=True)
    mixed = [*planned(1), *planned(2, keyed=True)[1:]]
    with pytest.raises(
        OutcomeUnknown,
        match=r"no request was sent .* only if an earlier call .*\(the retry horizon passed",
    ):
        await sender(store, clock).transaction(mixed)
    assert store.sent == []


async def test_closing_a_batch_names_only_what_was_not_reported() -> None:
    """What the closed batch has made durable is not said to be unknown."""
    changes, reported = planned(10), list[PlannedEntry]()
    closing = closable(HalfStore(hangs=True))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_close_soon, closing)
        with (
            anyio.fail_after(20),
            pytest.raises(OutcomeUnknown, match="closed before 5 changes") as caught,
        ):
            await closing.batch(changes, reported.extend)
    assert reported == changes[:5]
    assert caught.value.entries == tuple(change.entry for change in changes[5:])


async def test_closing_a_transaction_leaves_its_entries_together() -> None:
    """The retry of what was to be all or none must be all or none again."""
    changes = planned(3)
    closing = closable(HalfStore(hangs=True))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_close_soon, closing)
        with pytest.raises(OutcomeUnknown) as caught:
            await closing.transaction(changes)
    assert caught.value.together
    assert caught.value.entries == tuple(change.entry for change in changes)


async def test_a_closed_sender_begins_no_call() -> None:
    """A call that comes after closing sends nothing, and says so: connections are being closed."""
    closing = closable(HalfStore(hangs=True))
    closing.close()
    with pytest.raises(NotSent, match="closed before 1 change was sent: not written"):
        await closing.put(planned(1)[0])
    told = await each(closing, planned(2, keyed=True))
    assert [type(one) for one in told] == [NotSent, NotSent]


async def test_a_call_whose_time_is_over_sends_nothing() -> None:
    """One that comes to be sent after its end is not; the sender goes on for other calls."""
    store = MemoryStore(HOME)
    closing, changes = closable(store), planned(30)
    late = closing.until(anyio.current_time())
    with pytest.raises(NotSent, match="timeout ended before 1 change was sent: not written"):
        await late.put(changes[0])
    with pytest.raises(NotSent, match="timeout ended"):
        await send_all(late, changes)
    assert store.table.partitions == {}
    await closing.put(changes[0])


async def test_each_entry_ends_on_its_own() -> None:
    """Of one request: applied, throttled for good, lost once, and taken by another change."""
    inner, changes = MemoryStore(HOME), planned(4, keyed=True)
    taken = replace(changes[3].entry, change=Decimal(7))
    inner.table.set(changes[3].put.key, entry_item(taken))
    store = FaultyStore(inner, InOrder(Partial(unprocessed=(1,), lost=(2,))))
    told = await each(sender(store), changes)
    assert [type(one).__name__ for one in told] == ["Entry", "Throttled", "Entry", "KeyConflict"]
    assert inner.table.get(changes[1].put.key) is None


async def test_what_may_have_been_written_is_never_called_unwritten() -> None:
    """A throttled try after one without an answer leaves it unknown, with that entry alone."""
    inner, changes = MemoryStore(HOME), planned(2, keyed=True)
    faults = chain([Partial(lost=(0,))], repeat(Partial(unprocessed=(0,))))
    store = FaultyStore(inner, lambda call: next(faults) if call.size else None)
    told = await each(sender(store), changes)
    assert isinstance(told[0], OutcomeUnknown)
    assert told[0].entries == (changes[0].entry,)
    assert isinstance(told[1], Entry)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("error", [SignedTooLate("signed too late"), Throttled("slow down")])
async def test_what_an_earlier_request_wrote_is_never_called_unwritten(
    error: StoreError, *, keyed: bool
) -> None:
    """An entry that shared a request without an answer is unknown if its own put is not sent."""
    inner, changes = MemoryStore(HOME), planned(2, keyed=keyed)
    faults = chain([Partial(lost=(0, 1)), None], repeat(Raises(error)))
    told = await each(sender(FaultyStore(inner, lambda _call: next(faults))), changes)
    assert [one.entries for one in told if isinstance(one, OutcomeUnknown)] == [
        (change.entry,) for change in changes
    ]


@pytest.mark.parametrize("error", [SignedTooLate("signed too late"), Throttled("slow down")])
async def test_the_rest_of_a_transaction_that_is_there_in_part_is_unknown(
    error: StoreError,
) -> None:
    """One that has arrived in part from another region is never called unwritten."""
    inner, changes = MemoryStore(HOME), planned(2, keyed=True)
    await inner.write(changes[0].put)
    store = FaultyStore(inner, InOrder(None, Raises(error)))
    with pytest.raises(OutcomeUnknown) as raised:
        await sender(store).transaction(changes)
    assert (raised.value.entries, raised.value.together) == ((changes[1].entry,), True)


async def test_a_late_key_among_others_is_not_sent() -> None:
    """An entry past its retry horizon is left out of a request, and the others are written."""
    clock = ManualClock(START + timedelta(seconds=SETTINGS.retry_horizon + 1), instant=True)
    inner = MemoryStore(HOME)
    mixed = [*planned(1, keyed=True), *planned(3)[1:]]
    told = await each(sender(inner, clock), mixed)
    assert isinstance(told[0], OutcomeUnknown)
    assert "no request was sent" in str(told[0])
    assert "the retry horizon passed" in str(told[0])
    assert inner.table.get(mixed[0].put.key) is None
    assert told[1:] == [change.entry for change in mixed[1:]]


async def test_closing_each_names_what_was_not_reported() -> None:
    """Each entry that is open when the ledger closes is unknown on its own."""
    closing, changes = closable(HalfStore(hangs=True)), planned(3, keyed=True)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_close_soon, closing)
        with anyio.fail_after(20):
            told = await each(closing, changes)
    assert [error.entries for error in told if isinstance(error, OutcomeUnknown)] == [
        (change.entry,) for change in changes
    ]


async def each(sending: Sender, changes: list[PlannedEntry]) -> list[Result]:
    """Send entries in one request; returns what was reported of each, which is once."""
    told: dict[int, Result] = {}

    def report(change: PlannedEntry, result: Result) -> None:
        assert id(change) not in told
        told[id(change)] = result

    await sending.each(changes, report)
    return [told[id(change)] for change in changes]


async def _close_soon(closing: ClosableSender) -> None:
    for _ in range(20):
        await checkpoint()
    closing.close()


@pytest.mark.parametrize("keyed", [False, True])
async def test_what_is_planned_under_an_old_view_is_not_sent(*, keyed: bool) -> None:
    """Past the end of what is known of the contract nothing is sent, and that is what is said."""
    clock = ManualClock(START + timedelta(seconds=30), instant=True)
    inner = MemoryStore(HOME)
    old = [change._replace(latest=START) for change in planned(2, keyed=keyed)]
    late = FaultyStore(inner, lambda _call: Raises(SignedTooLate("signed too late")))
    for call in (
        sender(late, clock).put(old[0]),
        sender(late, clock).transaction(old),
        sender(late, clock).batch(old),
    ):
        with pytest.raises(NotSent, match="it is not written"):
            await call
    told = await each(sender(late, clock), old)
    assert [type(one) for one in told] == [NotSent, NotSent]
    assert not [*inner.table.items()]
