"""Counters in the deterministic world: concurrent writers, lost and late requests, regions."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

import anyio
import pytest
from proof.simulator import loop
from proof.simulator.store import NO_FAULTS, FaultProfile
from support.clients import FAULTY, Client, Clients, together
from support.counting import (
    EXACT,
    SINGLE_ITEM,
    Fate,
    fate_of,
    make_counter,
    times_counted,
    until_known,
    wrong,
)
from support.ledgers import AWAY, HOME
from support.tiers import few_fast

from ledger.primitives.counters import Counter
from ledger.store.writes import Applied

WRITERS, CHANGES_EACH = 3, 4
QUIET_SECONDS = 120.0
"""By then everything late has landed, and everything has replicated."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What callers were told, and what each region shows in the end."""

    fates: Sequence[Fate]
    values: Sequence[Decimal]

    @property
    def counted(self) -> list[int]:
        """How often each change was counted, as the first region shows it."""
        return times_counted(self.values[0], len(self.fates))


def counting(method: str, regions: Sequence[str], *, faults: FaultProfile, seed: int) -> Seen:
    """Let a writer per region named make its changes, all at once, and wait until all is quiet."""

    async def run() -> Seen:
        clients = Clients(seed, faults)
        fates: dict[int, Fate] = {}
        writers = [
            counter_of(method, clients.client(f"writer {place}", region))
            for place, region in enumerate(regions)
        ]
        await together([partial(write, one, fates, place) for place, one in enumerate(writers)])
        await anyio.sleep(QUIET_SECONDS)
        clients.world.heal_all()
        readers = [counter_of(method, clients.client(f"reader {one}", one)) for one in (HOME, AWAY)]
        values = [await reader.value() for reader in readers]
        return Seen([fates[place] for place in sorted(fates)], values)

    return loop.run(run)


def counter_of(method: str, client: Client) -> Counter:
    """Return the counter as this client has it."""
    counter: Counter = make_counter(
        method, client.store, clock=client.clock, randomness=client.randomness
    )
    return counter


async def write(counter: Counter, fates: dict[int, Fate], writer: int) -> None:
    """Make this writer's changes one after the other."""
    for number in range(CHANGES_EACH):
        place = writer * CHANGES_EACH + number
        fates[place] = await until_known(counter, Decimal(10) ** place)


@pytest.mark.parametrize("method", [*EXACT, "collection"])
@pytest.mark.parametrize("seed", few_fast(range(200), fast=4))
def test_concurrent_writers_in_a_storm(method: str, seed: int) -> None:
    """Of concurrent changes with lost and late requests each counts as its caller was told."""
    seen = counting(method, [HOME] * WRITERS, faults=FAULTY, seed=seed)
    assert wrong(seen.fates, seen.counted) == []


def test_the_storm_breaks_a_blindly_repeated_add() -> None:
    """The mutant: in the same storms `ADD`, repeated, counts some changes more than once."""
    storms = [counting("atomic", [HOME] * WRITERS, faults=FAULTY, seed=seed) for seed in range(4)]
    assert sum(max(seen.counted) > 1 for seen in storms) >= 3


@pytest.mark.parametrize("method", SINGLE_ITEM)
def test_two_regions_lose_updates_of_single_items(method: str) -> None:
    """Written in two regions at once, a single item ends the same everywhere, with changes lost."""
    seen = counting(method, [HOME, AWAY], faults=NO_FAULTS, seed=1)
    assert all(isinstance(fate, Applied) for fate in seen.fates)
    assert seen.values[0] == seen.values[1]
    assert 0 in seen.counted
    assert max(seen.counted) == 1


@pytest.mark.parametrize("method", SINGLE_ITEM)
def test_one_region_loses_nothing(method: str) -> None:
    """The same changes made in one region are all there, in every region."""
    seen = counting(method, [HOME, HOME], faults=NO_FAULTS, seed=1)
    assert all(isinstance(fate, Applied) for fate in seen.fates)
    assert seen.values[0] == seen.values[1]
    assert seen.counted == [1] * len(seen.fates)


@pytest.mark.parametrize("faults", [NO_FAULTS, FAULTY], ids=["no faults", "faults"])
def test_two_regions_lose_nothing_of_the_collection(faults: FaultProfile) -> None:
    """The ledger counts every change of two regions, in both, storm or not."""
    seen = counting("collection", [HOME, AWAY], faults=faults, seed=1)
    assert seen.values[0] == seen.values[1]
    assert wrong(seen.fates, seen.counted) == []
    if faults is NO_FAULTS:
        assert seen.counted == [1] * len(seen.fates)


def test_two_regions_each_give_slots_away() -> None:
    """Two regions fill a set of 3 slots side by side; one region's holders then have none."""

    async def run() -> tuple[list[Fate], list[Decimal]]:
        clients = Clients(2)
        here, there = (clients.client(region, region) for region in (HOME, AWAY))
        counters = [
            make_counter(
                "slots", client.store, clock=client.clock, randomness=client.randomness, maximum=3
            )
            for client in (here, there)
        ]
        fates: list[Fate] = []

        async def take(counter: Counter) -> None:
            fates.extend([await fate_of(counter.add(1)) for _ in range(3)])

        await together([partial(take, counter) for counter in counters])
        await anyio.sleep(QUIET_SECONDS)
        return fates, [await counter.value() for counter in counters]

    fates, values = loop.run(run)
    assert all(isinstance(fate, Applied) for fate in fates)
    assert len(fates) == 6
    assert values == [3, 3]
