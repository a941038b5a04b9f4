"""Record version guards in the deterministic world: parallel handlers, storms, pauses, crashes."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio
import pytest
from proof.simulator import loop
from support.clients import Client, Clients, together
from support.guarding import RECORD, Handling, event, lock_guard, record_in, record_put
from support.ledgers import AWAY, HOME

from ledger.core.entry import Item, Key
from ledger.core.errors import LeaseLost, StoreError
from ledger.primitives.leases.lease import Lease
from ledger.primitives.versions import (
    ConditionGuard,
    Event,
    Handled,
    LockGuard,
    LockLost,
    Skipped,
    version_of,
)
from ledger.store.writes import Action

SEEDS = range(15)
MANY_SEEDS = range(1000, 1300)
VERSIONS = 6
DELIVERIES_MAX = 60
SETTLED_SECONDS = 120.0
PAUSED_SECONDS = 60.0


@dataclass
class Witness:
    """Notes every version that the record is brought to in the home region, in order."""

    shown: list[int] = field(default_factory=list)

    def arrived(self, region: str, key: Key, item: Item | None) -> None:
        """Take in a write of the record."""
        if (region, key) == (HOME, RECORD) and item is not None:
            self.shown.append(int(item["shows"]["N"]))

    def changed(self, region: str, partition: str) -> None:
        """Nothing to take in."""


def guarded(client: Client, kind: type[LockGuard] = LockGuard) -> LockGuard:
    """Return a client's guard by lock."""
    guard = lock_guard(client.store, clock=client.clock, randomness=client.randomness)
    guard.__class__ = kind
    return guard


def by_condition(client: Client) -> ConditionGuard:
    """Return a client's guard by condition."""
    return ConditionGuard(client.store, services=client.services)


class OutsideOnly(LockGuard):
    """A broken guard that checks the version before the lock, not inside it."""

    async def _newest(self, event: Event, *, consistent: bool) -> int | None:
        return None if consistent else await super()._newest(event, consistent=False)


async def deliver_at_once(kind: type[LockGuard], handler: Handling) -> list[object]:
    """Deliver one version to five handlers at the same moment."""
    clients = Clients()
    outcomes: list[object] = []

    async def deliver(client: Client) -> None:
        outcomes.append(await guarded(client, kind).handle(event(7), handler))

    await together([partial(deliver, clients.client(f"handler {n}")) for n in range(5)])
    return outcomes


def test_parallel_deliveries_of_one_version_are_handled_once() -> None:
    """Of five deliveries at the same moment one is handled, and the others find it done."""
    handler = Handling()
    outcomes = loop.run(partial(deliver_at_once, LockGuard, handler))
    assert outcomes.count(Handled(7)) == 1
    assert outcomes.count(Skipped(7, 7)) == 4
    assert handler.versions == [7]


def test_mutant_checked_only_outside_the_lock_it_is_handled_twice() -> None:
    """Without the check inside, deliveries that passed the one before the lock are all handled."""
    handler = Handling()
    loop.run(partial(deliver_at_once, OutsideOnly, handler))
    assert len(handler.versions) > 1


async def pause_the_holder(*, fenced: bool) -> tuple[object, int | None]:
    """Let version 4 be paused past its lease while 5 is handled; return its end and the record."""
    clients = Clients()
    slow, quick = clients.client("slow"), clients.client("quick")
    ends: list[object] = []

    async def stalls(event: Event, _: Lease) -> Sequence[Action]:
        slow.process._awake_at = clients.world.loop.time() + PAUSED_SECONDS
        await slow.clock.sleep(0)
        if fenced:
            return [record_put(event.version)]
        await slow.store.write(record_put(event.version))
        return []

    async def older() -> None:
        ends.append(await guarded(slow).handle(event(4), stalls))

    async def newer() -> None:
        await anyio.sleep(1.0)
        outcome = await guarded(quick).handle(event(5), Handling(), wait_seconds=30.0)
        assert outcome == Handled(5)

    await together([older, newer])
    return ends[0], record_in(clients.world.replicas[HOME].table)


def test_a_paused_holder_cannot_overwrite_what_the_guard_writes() -> None:
    """A holder that wakes after its lease has its commit refused; the newer record stays."""
    end, record = loop.run(partial(pause_the_holder, fenced=True))
    assert end == Skipped(4, 5)
    assert record == 5


def test_mutant_without_the_fence_a_paused_holder_overwrites() -> None:
    """A handler that writes by itself, without the fence, brings the older version back."""
    _, record = loop.run(partial(pause_the_holder, fenced=False))
    assert record == 4


def test_a_lock_lost_before_anything_newer_is_written_stops_the_commit() -> None:
    """If the successor is still at work, it is the fence that refuses the paused holder."""

    async def main() -> None:
        clients = Clients()
        slow, quick = clients.client("slow"), clients.client("quick")
        ends: list[object] = []

        async def stalls(event: Event, _: Lease) -> Sequence[Action]:
            slow.process._awake_at = clients.world.loop.time() + PAUSED_SECONDS
            await slow.clock.sleep(0)
            return [record_put(event.version)]

        async def works_long(event: Event, _: Lease) -> Sequence[Action]:
            await quick.clock.sleep(2 * PAUSED_SECONDS)
            return [record_put(event.version)]

        async def older() -> None:
            ends.append(await guarded(slow).handle(event(4), stalls))
            assert record_in(clients.world.replicas[HOME].table) is None

        async def newer() -> None:
            await anyio.sleep(1.0)
            ends.append(await guarded(quick).handle(event(5), works_long, wait_seconds=30.0))

        await together([older, newer])
        assert isinstance(ends[0], LockLost)
        assert ends[1] == Handled(5)

    loop.run(main)


def test_a_crash_between_handling_and_the_version_handles_again() -> None:
    """What a handler does by itself happens at least once; what it returns happens once."""

    async def main() -> None:
        clients = Clients()
        mortal, other = clients.client("mortal"), clients.client("other")
        mails: list[int] = []

        async def mails_and_dies(event: Event, _: Lease) -> Sequence[Action]:
            mails.append(event.version)
            mortal.process.crash()
            return [record_put(event.version)]

        async def mails_only(event: Event, _: Lease) -> Sequence[Action]:
            mails.append(event.version)
            return [record_put(event.version)]

        witness = Witness()
        clients.world.observers.append(witness)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_until_the_end, guarded(mortal).handle(event(1), mails_and_dies))
            await anyio.sleep(1.0)
            assert mails == [1]
            assert version_of(clients.world.replicas[HOME].table.get(event(1).key)) is None
            again = await guarded(other).handle(event(1), mails_only, wait_seconds=30.0)
            assert again == Handled(1)
            clients.world.end()
        assert mails == [1, 1]
        assert witness.shown == [1]

    loop.run(main)


async def _until_the_end(work: Awaitable[object]) -> None:
    """Let what a dead process was doing unwind when the world ends."""
    with pytest.raises(StoreError):
        await work


def test_mutant_two_regions_handle_the_same_version() -> None:
    """Guards of two regions at once know nothing of each other: both handle, in either way."""

    async def main() -> None:
        clients, outcomes = Clients(), list[object]()

        async def deliver(client: Client) -> None:
            outcomes.append(await guarded(client).handle(event(1), Handling()))
            outcomes.append(await by_condition(client).handle(event(1, "balance"), []))

        for source, target in ((HOME, AWAY), (AWAY, HOME)):
            clients.world.pause(source, target)
        await together(
            [partial(deliver, clients.client(region, region)) for region in (HOME, AWAY)]
        )
        assert outcomes == [Handled(1)] * 4

    loop.run(main)


def test_a_lock_that_has_replicated_is_refused_in_another_region() -> None:
    """A guard by lock in a second region raises as soon as it sees the first one's lock there."""

    async def main() -> None:
        clients = Clients()
        await guarded(clients.client("here")).handle(event(1), Handling())
        await anyio.sleep(SETTLED_SECONDS)
        with pytest.raises(LeaseLost, match="belongs to us-east-1"):
            await guarded(clients.client("there", AWAY)).handle(event(2), Handling())

    loop.run(main)
