"""Record version guards in the deterministic world: parallel handlers, storms, pauses, crashes."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

import anyio
import pytest
from support.clients import FAULTY, Client, Clients, together
from support.guarding import RECORD, Handling, event, lock_guard, record_in, record_put
from support.ledgers import AWAY, HOME

from ledger.core.entry import Item, Key
from ledger.core.errors import LeaseLost, StoreError
from ledger.lab.simulator import loop
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
from ledger.store.writes import Action, Update

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
    return ConditionGuard(client.store, clock=client.clock, randomness=client.randomness)


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


@dataclass
class Storm:
    """Versions that arrive in disorder, twice each or lost, at handlers in parallel."""

    seed: int
    run_for: Counter[int] = field(default_factory=Counter)
    witness: Witness = field(default_factory=Witness)
    ended: dict[int, list[object]] = field(default_factory=dict)

    async def handler(self, event: Event, lease: Lease) -> Sequence[Action]:
        """Handle: note that it was run, and return what is to be written once."""
        del lease
        self.run_for[event.version] += 1
        return self.effects(event.version)

    def effects(self, version: int) -> list[Action]:
        """Return the record at this version, and one more handling of it counted."""
        counted = Update(("effects", str(version)), add={"times": {"N": "1"}})
        return [record_put(version), counted]

    async def rage(self, deliver: Callable[[Client, int, "Storm"], Awaitable[object]]) -> None:
        """Deliver everything until it has an end, and judge what is there."""
        clients, draw = Clients(seed=self.seed, faults=FAULTY), Random(self.seed)  # noqa: S311
        clients.world.observers.append(self.witness)
        arriving = [version for version in range(VERSIONS) for _ in range(draw.choice((0, 1, 2)))]

        async def work(name: str, version: int) -> None:
            client = clients.client(name)
            await client.clock.sleep(draw.random())
            for _ in range(DELIVERIES_MAX):
                try:
                    outcome = await deliver(client, version, self)
                except StoreError:
                    continue
                if isinstance(outcome, Handled | Skipped):
                    self.ended.setdefault(version, []).append(outcome)
                    return
            raise AssertionError(f"version {version} never had an end")

        draw.shuffle(arriving)
        await together([partial(work, f"{n}", version) for n, version in enumerate(arriving)])
        await anyio.sleep(SETTLED_SECONDS)
        self.judge(clients, arriving)

    def judge(self, clients: Clients, arriving: Sequence[int]) -> None:
        """Compare what is there with what arrived."""
        table = clients.world.replicas[HOME].table
        shown = self.witness.shown
        assert shown == sorted(set(shown)), "older after newer, or one twice"
        assert record_in(table) == max(arriving, default=None)
        assert version_of(table.get(event(0).key)) == max(arriving, default=None)
        times = {key: item["times"] for key, item in table.partitions.get("effects", {}).items()}
        assert times == {str(version): {"N": "1"} for version in shown}, "effects more than once"
        handled = {version for version, ends in self.ended.items() if Handled(version) in ends}
        assert handled <= set(shown), "said to be handled, and was not"


async def deliver_by_lock(client: Client, version: int, storm: Storm) -> object:
    """Deliver a version to a guard by lock."""
    return await guarded(client).handle(event(version), storm.handler)


async def deliver_by_condition(client: Client, version: int, storm: Storm) -> object:
    """Deliver a version to a guard by condition."""
    return await by_condition(client).handle(event(version), storm.effects(version))


async def deliver_unguarded(client: Client, version: int, storm: Storm) -> object:
    """Write what an event brings without a guard."""
    await client.store.transact(storm.effects(version))
    return Handled(version)


GUARDS = [deliver_by_lock, deliver_by_condition]


@pytest.mark.parametrize("deliver", GUARDS)
def test_in_storms_the_record_only_gets_newer(
    deliver: Callable[[Client, int, Storm], Awaitable[object]],
) -> None:
    """Disorder, loss, duplicates, lost and late answers: newer only, each effect once, no loss."""
    for seed in SEEDS:
        loop.run(partial(Storm(seed).rage, deliver))


@pytest.mark.slow
@pytest.mark.parametrize("deliver", GUARDS)
def test_in_storms_the_record_only_gets_newer_at_length(
    deliver: Callable[[Client, int, Storm], Awaitable[object]],
) -> None:
    """The same over hundreds of seeds."""
    for seed in MANY_SEEDS:
        loop.run(partial(Storm(seed).rage, deliver))


def test_mutant_without_a_guard_older_overwrites_newer() -> None:
    """The same storms without a guard are found out by the same judge, in most of them."""
    found = 0
    for seed in SEEDS:
        try:
            loop.run(partial(Storm(seed).rage, deliver_unguarded))
        except AssertionError:
            found += 1
    assert found > len(SEEDS) / 2


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
