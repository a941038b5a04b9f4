"""A compactor killed between any two steps of archive and table loses and doubles nothing."""

from collections.abc import Callable

import pytest
from support.archiving import URL, archived_settings
from support.compacting import Instance, World
from support.ledgers import HOME, SOUTH, WEST

from ledger.administration.archive.check import ArchiveCheck, ArchiveFault
from ledger.reads.archive.places.memory import MemoryPlace
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.reads.archive.reader import ArchiveReader
from ledger.reads.history import HistoryRange, history
from ledger.store.wrappers.faults import Fault, FaultCall, NeverArrived

REGIONS = (HOME, WEST, SOUTH)
STEPS_MAX = 400


class TickingPlace(MemoryPlace):
    """A place that counts the steps before and after each request."""

    tick: Callable[[], None] = staticmethod(lambda: None)

    async def put(self, name: str, data: bytes) -> None:
        """Put an object, between two steps."""
        self.tick()
        await super().put(name, data)
        self.tick()

    async def get(self, name: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return an object, between two steps."""
        self.tick()
        found = await super().get(name, start=start, length=length)
        self.tick()
        return found


class Bomb:
    """Kills a process at a step of its, counted over all stores and the archive."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.one: Instance | None = None

    def arm(self, one: Instance, place: TickingPlace) -> None:
        """Count the steps of a process from now on."""
        self.one = one
        one.faults = dict.fromkeys(REGIONS, self._called)
        place.tick = self._tick

    def _called(self, _call: FaultCall) -> Fault | None:
        self._tick()
        return NeverArrived() if self.one is not None and self.one.is_dead else None

    def _tick(self) -> None:
        self.left -= 1
        if self.left == 0 and self.one is not None:
            self.one.kill(NeverArrived())


async def survives(at: int) -> bool:
    """Kill a compactor at a step, let another go on, and check; return whether it came so far."""
    world, place, bomb = World(seed=at), TickingPlace(URL), Bomb(at)
    made = [str(entry) for entry in await world.settled(entries=6)]
    one = world.instance("one", settings=archived_settings(), archive=[place])
    bomb.arm(one, place)

    async def passes() -> None:
        for _ in range(3):
            await one.compactor.run_once()

    await world.drive(lambda: one.live(passes))
    place.tick = lambda: None
    assert world.is_right(), at
    other = world.instance("other", settings=archived_settings(), archive=[place])
    for _ in range(5):
        await world.run_once(other)
        assert world.is_right(), at
    wrong: list[ArchiveFault] = []
    check = ArchiveCheck(world.regions.replicas, HOME, ReplicatedPlace([place]), wrong.append)
    await check.run(["counter"])
    assert wrong == [], at
    assert check.entries == len(made)
    for region in REGIONS:
        found = history(
            world.regions.replicas[region],
            HistoryRange("counter"),
            consistent=True,
            archive=ArchiveReader(ReplicatedPlace([place])),
        )
        assert [entry.id async for entry in found] == sorted(made), at
    assert not world.shown(WEST).entries, at
    return one.is_dead


@pytest.mark.slow
async def test_killed_at_each_step() -> None:
    """Whatever step it is, what was written is counted once, kept once, and merged in the end."""
    killed = 0
    while killed < STEPS_MAX and await survives(killed + 1):
        killed += 1
    assert 40 < killed < STEPS_MAX
