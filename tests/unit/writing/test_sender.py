"""What a sender says of entries whose outcome it does not know, and how it ends when closed."""

from collections.abc import Sequence
from datetime import timedelta

import anyio
import pytest
from anyio.lowlevel import checkpoint
from support.clock import START, FakeClock
from support.ledgers import HOME, make_settings, seeded

from ledger.core.errors import OutcomeUnknown
from ledger.store.memory import MemoryStore
from ledger.store.writes import Action, BatchOutcome, BatchWrite, Outcome, Write
from ledger.writing.closing import ClosableSender
from ledger.writing.plan import Change, Planned, plan
from ledger.writing.sender import Sender

SETTINGS = make_settings()


def planned(count: int, *, keyed: bool = False) -> list[Planned]:
    """Plan changes of one counter."""
    return [
        plan(
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

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Give no answer."""
        self.sent.append(len(actions))
        await self._silence()
        return await super().transact(actions, token=token)

    async def _silence(self) -> None:
        if self.hangs:
            await anyio.sleep_forever()


def sender(store: MemoryStore, clock: FakeClock | None = None) -> Sender:
    """Return a sender on a clock whose sleeps are over at once."""
    clock = clock or FakeClock(instant=True)
    return Sender(store, settings=SETTINGS, clock=clock, randomness=seeded())


def closable(store: MemoryStore) -> ClosableSender:
    """Return a sender that can be closed."""
    clock = FakeClock(instant=True)
    return ClosableSender(store, settings=SETTINGS, clock=clock, randomness=seeded())


async def test_a_batch_names_as_unknown_only_what_it_did_not_report() -> None:
    """What is durable is not among the entries to retry."""
    store, changes = HalfStore(), planned(10)
    reported: list[Planned] = []
    with pytest.raises(OutcomeUnknown) as caught:
        await sender(store).batch(changes, reported.extend)
    assert reported == changes[:5]
    assert caught.value.entries == tuple(change.entry for change in changes[5:])
    assert store.sent[:2] == [10, 5]


async def test_one_key_makes_a_whole_transaction_late() -> None:
    """Beside changes of its own a process sends none that another may have made, past its time."""
    store = HalfStore()
    clock = FakeClock(START + timedelta(seconds=SETTINGS.retry_horizon + 1), instant=True)
    mixed = [*planned(1), *planned(2, keyed=True)[1:]]
    with pytest.raises(OutcomeUnknown, match="the retry horizon passed"):
        await sender(store, clock).transaction(mixed)
    assert store.sent == []


async def test_closing_a_batch_names_only_what_was_not_reported() -> None:
    """What the closed batch has made durable is not said to be unknown."""
    changes, reported = planned(10), list[Planned]()
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
    closing.close()
    with anyio.fail_after(20), pytest.raises(OutcomeUnknown) as caught:
        await closing.transaction(changes)
    assert caught.value.together
    assert caught.value.entries == tuple(change.entry for change in changes)


async def test_a_closed_sender_begins_no_call() -> None:
    """A call that comes after closing ends as well: its connections are being closed."""
    closing = closable(HalfStore(hangs=True))
    closing.close()
    with anyio.fail_after(20), pytest.raises(OutcomeUnknown, match="closed before"):
        await closing.put(planned(1)[0])


async def _close_soon(closing: ClosableSender) -> None:
    for _ in range(20):
        await checkpoint()
    closing.close()
