"""Record version guards in storms of the deterministic world, drawn whole from seeds.

Versions arrive in disorder, twice or never, in few processes or many, with lost and late answers.
Some delete the record, some are poison and fail at each handling, handlers fail by chance, calls of
a process wait for their turns or contend each by itself, and one record was made without a version
and is adopted by several at once.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TypeGuard

import anyio
import pytest
from proof.simulator import loop
from support.clients import FAULTY, Client, Clients, together
from support.guarding import RECORD, HastyTurns, event, lock_guard, record_in, record_put
from support.ledgers import HOME

from ledger.core.entry import Item, Key
from ledger.core.errors import DamagedItem, StoreError
from ledger.primitives.leases.lease import Lease
from ledger.primitives.versions import (
    Adopted,
    ConditionGuard,
    DeadLetter,
    Event,
    Handled,
    LockGuard,
    Refused,
    Skipped,
    is_tombstone,
    version_of,
)
from ledger.primitives.versions.version_rules import DELETED
from ledger.store.conditions import Condition, Has
from ledger.store.writes import Action, Applied, Check, Delete, Unknown, Update

SEEDS = range(15)
MANY_SEEDS = range(1000, 1300)
VERSIONS = 6
FAILURES_MAX = 3
DELIVERIES_MAX = 80
SETTLED_SECONDS = 120.0
CLOSED = Check(("gate", "closed"), Has("open"))
"""An action whose condition is false: what makes an event poison by condition."""


class Broken(Exception):
    """A handler failed."""


@dataclass
class Witness:
    """Notes what is put under one key in the home region: its version, and if it is deleted."""

    key: Key
    shown: list[tuple[int, bool]] = field(default_factory=list)

    def arrived(self, region: str, key: Key, item: Item | None) -> None:
        """Take in a write."""
        if (region, key) == (HOME, self.key) and item is not None and "version" in item:
            self.shown.append((int(item["version"]["N"]), is_tombstone(item)))

    def changed(self, region: str, partition: str) -> None:
        """Nothing to take in."""


Guard = LockGuard | ConditionGuard
Deliver = Callable[["Storm", Guard, Event], Awaitable[object]]


@dataclass
class Storm:
    """One world: which versions arrive, which delete or are poison, and in which processes."""

    seed: int
    run_for: Counter[int] = field(default_factory=Counter)
    ended: dict[int, list[object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        draw = self.draw = Random(self.seed)  # noqa: S311 (repeatable)
        self.witness = Witness(event(0).key)
        arriving = [version for version in range(VERSIONS) for _ in range(draw.choice((0, 1, 2)))]
        draw.shuffle(arriving)
        self.arriving = arriving
        self.deleting = {version for version in range(VERSIONS) if draw.random() < 0.3}
        self.poison = {version for version in range(VERSIONS) if draw.random() < 0.15}
        self.failing = draw.choice((0.0, 0.2))
        self.processes = draw.choice((1, 2, len(arriving) or 1))
        self.waiting_max = draw.choice((0, 1, 1000, 1000))

    async def handler(self, event: Event, lease: Lease) -> Sequence[Action]:
        """Handle: note that it was run, fail by chance, return what is to be written once."""
        del lease
        self.run_for[event.version] += 1
        await anyio.sleep(self.draw.random())
        if event.version in self.poison or self.draw.random() < self.failing:
            raise Broken
        return self.effects(event)

    def effects(self, event: Event) -> list[Action]:
        """Return the record at this version, or its end, and one more handling of it counted."""
        counted = Update(("effects", str(event.version)), add={"times": {"N": "1"}})
        return [Delete(RECORD) if event.deletes else record_put(event.version), counted]

    async def rage(self, make: Callable[[Client, "Storm"], Guard], deliver: Deliver) -> None:
        """Deliver everything until it has an end, and judge what is there."""
        clients = Clients(seed=self.seed, faults=FAULTY)
        clients.world.observers.append(self.witness)
        processes = [clients.client(f"{number}") for number in range(self.processes)]
        guards = [make(client, self) for client in processes]

        async def work(number: int, version: int) -> None:
            place = number % self.processes
            await processes[place].clock.sleep(self.draw.random())
            arrived = event(version, deletes=version in self.deleting)
            for _ in range(DELIVERIES_MAX):
                try:
                    outcome = await deliver(self, guards[place], arrived)
                except (StoreError, Broken):
                    continue
                if is_letter(outcome) and version not in self.poison:
                    await released(guards[place], arrived)
                elif isinstance(outcome, Handled | Skipped | DeadLetter):
                    self.ended.setdefault(version, []).append(outcome)
                    return
            raise AssertionError(f"version {version} never had an end")

        await together([partial(work, *numbered) for numbered in enumerate(self.arriving)])
        await anyio.sleep(SETTLED_SECONDS)
        await self.judge(clients, guards[0])

    async def judge(self, clients: Clients, guard: Guard) -> None:
        """Compare what is there with what arrived."""
        table = clients.world.replicas[HOME].table
        shown = [version for version, _ in self.witness.shown]
        newest = max(set(self.arriving) - self.poison, default=None)
        ends = [end for ends in self.ended.values() for end in ends]
        assert shown == sorted(set(shown)), "older after newer, or one twice"
        assert max(shown, default=None) == newest == version_of(table.get(event(0).key))
        assert dict(self.witness.shown) == {one: one in self.deleting for one in shown}
        assert record_in(table) == (None if newest in self.deleting else newest)
        times = {key: item["times"] for key, item in table.partitions.get("effects", {}).items()}
        assert times == {str(version): {"N": "1"} for version in shown}, "effects more than once"
        named = {end.version for end in ends if isinstance(end, Handled)}
        named |= {end.newest for end in ends if isinstance(end, Skipped)}
        assert named <= set(shown), "said to be handled, and was not"
        kept = await listed(guard)
        assert {end.event.version for end in ends if is_letter(end)} <= kept.keys()
        assert {len(letter.causes) for letter in kept.values()} <= {FAILURES_MAX}


async def listed(guard: Guard) -> dict[int, DeadLetter]:
    """Return the dead letters by version, whatever goes wrong meanwhile."""
    for _ in range(DELIVERIES_MAX):
        try:
            return {letter.event.version: letter async for letter in guard.dead_letters.letters()}
        except StoreError:
            continue
    raise AssertionError("never listed")


async def released(guard: Guard, event: Event) -> None:
    """Release a dead letter, or leave it to the next delivery."""
    with suppress(StoreError):
        await guard.dead_letters.release(event)


def is_letter(end: object) -> TypeGuard[DeadLetter]:
    """Return whether a delivery ended as a dead letter."""
    return isinstance(end, DeadLetter)


def lock_of(client: Client, storm: Storm) -> Guard:
    """Return a process's guard by lock."""
    return lock_guard(
        client.store,
        clock=client.clock,
        randomness=client.randomness,
        waiting_max=storm.waiting_max,
        failures_max=FAILURES_MAX,
    )


def hasty_lock_of(client: Client, storm: Storm) -> Guard:
    """Return one that skips what waits before what overtook it is handled."""
    guard = lock_of(client, storm)
    assert isinstance(guard, LockGuard)
    guard._turns.__class__ = HastyTurns
    return guard


def condition_of(client: Client, _: Storm) -> Guard:
    """Return a process's guard by condition."""
    return ConditionGuard(client.store, services=client.services, failures_max=FAILURES_MAX)


async def by_lock(storm: Storm, guard: Guard, event: Event) -> object:
    """Deliver an event to a guard by lock."""
    assert isinstance(guard, LockGuard)
    return await guard.handle(event, storm.handler)


async def by_condition(storm: Storm, guard: Guard, event: Event) -> object:
    """Deliver an event to a guard by condition."""
    assert isinstance(guard, ConditionGuard)
    poison = [CLOSED] if event.version in storm.poison else []
    return await guard.handle(event, [*storm.effects(event), *poison])


async def unguarded(storm: Storm, guard: Guard, event: Event) -> object:
    """Write what an event brings without a guard."""
    await guard._store.transact(storm.effects(event))
    return Handled(event.version)


async def without_tombstones(storm: Storm, guard: Guard, event: Event) -> object:
    """Deliver an event so that a delete takes its version away with the record."""
    outcome = await by_condition(storm, guard, event)
    if event.deletes and isinstance(outcome, Handled):
        await guard._store.write(Delete(event.key, Has(DELETED)))
    return outcome


WAYS = pytest.mark.parametrize(
    ("make", "deliver"),
    [(lock_of, by_lock), (condition_of, by_condition)],
    ids=["lock", "condition"],
)
Make = Callable[[Client, Storm], Guard]


def found_out(make: Make, deliver: Deliver, seeds: Iterable[int] = SEEDS) -> int:
    """Return how many storms the judge finds something wrong in."""
    found = 0
    for seed in seeds:
        try:
            loop.run(partial(Storm(seed).rage, make, deliver))
        except AssertionError:
            found += 1
    return found


@WAYS
def test_in_storms_the_record_only_gets_newer(make: Make, deliver: Deliver) -> None:
    """Disorder, loss, duplicates, deletes, poison, no answers: newer only, once, and no loss."""
    for seed in SEEDS:
        loop.run(partial(Storm(seed).rage, make, deliver))


@pytest.mark.slow
@WAYS
def test_in_storms_the_record_only_gets_newer_at_length(make: Make, deliver: Deliver) -> None:
    """The same over hundreds of seeds."""
    for seed in MANY_SEEDS:
        loop.run(partial(Storm(seed).rage, make, deliver))


def test_the_storms_have_all_that_is_drawn() -> None:
    """Among the seeds are deletes, poison, one process and many, and turns of each bound."""
    storms = [Storm(seed) for seed in SEEDS]
    assert sum(bool(storm.deleting & set(storm.arriving)) for storm in storms) > len(SEEDS) / 2
    assert sum(bool(storm.poison & set(storm.arriving)) for storm in storms) > len(SEEDS) / 4
    assert {storm.waiting_max for storm in storms} == {0, 1, 1000}
    assert {storm.failing for storm in storms} == {0.0, 0.2}
    assert 1 in {storm.processes for storm in storms} != {1}


def test_mutant_without_a_guard_older_overwrites_newer() -> None:
    """The same storms without a guard are found out by the same judge, in most of them."""
    assert found_out(condition_of, unguarded) > len(SEEDS) / 2


def test_mutant_without_tombstones_older_versions_come_back() -> None:
    """Storms in which a delete takes the version with it are found out."""
    assert found_out(condition_of, without_tombstones) > 0


def test_mutant_skipped_before_the_newest_is_handled_events_are_lost() -> None:
    """Turns that skip at once name versions that are never handled, where the newest is poison."""
    storms = map(Storm, range(200))
    alone = [
        storm.seed
        for storm in storms
        if storm.processes == 1 and storm.waiting_max > 1 and storm.poison
    ]
    assert found_out(hasty_lock_of, by_lock, alone) > 0


@dataclass
class Adoption:
    """A record that another program made, at version 2, adopted while guarded writes arrive."""

    seed: int
    kind: type[ConditionGuard] = ConditionGuard

    async def run(self) -> None:
        """Adopt it in several processes at once, put and delete meanwhile, and judge."""
        draw = Random(self.seed)  # noqa: S311 (repeatable)
        clients, witness = Clients(seed=self.seed, faults=FAULTY), Witness(RECORD)
        clients.world.observers.append(witness)
        made = record_put(2)
        clients.world.replicas[HOME].table.set(RECORD, made.item)
        deleting = {version for version in range(VERSIONS) if draw.random() < 0.3}
        arriving = draw.sample(range(VERSIONS), draw.randrange(VERSIONS))

        async def work(name: str, act: Callable[[ConditionGuard], Awaitable[object]]) -> None:
            client = clients.client(name)
            guard = self.kind(client.store, services=client.services)
            await client.clock.sleep(5 * draw.random())
            for _ in range(DELIVERIES_MAX):
                with suppress(StoreError, DamagedItem):
                    if isinstance(await act(guard), Handled | Skipped | Adopted):
                        return
                await client.clock.sleep(draw.random())
            raise AssertionError(f"{name} never had an end")

        async def bring(version: int, guard: ConditionGuard) -> object:
            if version in deleting:
                return await guard.delete(RECORD, version=version)
            return await guard.put(record_put(version).item, version=version)

        async def adopt(guard: ConditionGuard) -> object:
            return await guard.adopt(RECORD, version=2)

        works = [partial(work, f"{version}", partial(bring, version)) for version in arriving]
        adopting = [partial(work, f"adopter {number}", adopt) for number in range(2)]
        await together([*works, *adopting])
        await anyio.sleep(SETTLED_SECONDS)
        shown = [version for version, _ in witness.shown]
        newest = max(2, *arriving, 0)
        assert shown == sorted(set(shown)), "older after newer, or one twice"
        assert shown[0] == 2
        assert shown[-1] == newest
        table = clients.world.replicas[HOME].table
        deleted = newest in deleting and newest != 2
        assert is_tombstone(table.get(RECORD) or {}) is deleted
        assert deleted or record_in(table) == newest


def test_an_adopted_record_only_gets_newer() -> None:
    """Adopted by two at once while versions arrive, with no answers: first 2, then newer only."""
    for seed in SEEDS:
        loop.run(Adoption(seed).run)


class Taking(ConditionGuard):
    """A broken guard that adopts what has a version."""

    async def adopt(
        self,
        key: Key,
        *,
        version: int,
        condition: Condition | None = None,
        timeout: float | None = None,
    ) -> Adopted | Skipped | Refused | Unknown:
        """Set the version, whatever is there."""
        del condition, timeout
        outcome = await self._store.write(Update(key, set={"version": {"N": str(version)}}))
        return Adopted(version) if isinstance(outcome, Applied) else Unknown("no answer")


def test_mutant_adopted_whatever_is_there_versions_go_back() -> None:
    """An adoption without its condition is found out by the same judge, in most worlds."""
    found = 0
    for seed in SEEDS:
        try:
            loop.run(Adoption(seed, Taking).run)
        except AssertionError:
            found += 1
    assert found > len(SEEDS) / 2
