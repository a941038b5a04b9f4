"""Shards: changes spread evenly over them, a retry finds the first one's, and growth is dated."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from support.ledgers import HOME, make_settings, make_writer, seeded

from ledger.core import keys
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.store.memory import MemoryStore
from ledger.store.reads import Query
from ledger.testing.clock import START, ManualClock
from ledger.writes.entry_plan import Change, plan_entry

SINCE = START + timedelta(seconds=60)
OLD = make_settings(shards={"hot": 4})
NEW = make_settings(shards={"hot": [{"count": 4}, {"count": 16, "since": SINCE}]})
ENTRIES = 8_000


def shard_of(change: Change, settings: Settings, *, seconds: float, suffix: int = 0) -> int:
    """Return the shard of a change that is planned so long after the start."""
    now = START + timedelta(seconds=seconds)
    planned = plan_entry(change, region=HOME, settings=settings, now=now, suffix=suffix)
    place = keys.counter_of(planned.put.key[0])
    assert place is not None
    return place[1]


@pytest.mark.parametrize(("seconds", "shards"), [(0, 4), (61, 16)])
@pytest.mark.parametrize("keyed", [False, True], ids=["random", "keyed"])
def test_writes_spread_evenly(seconds: float, shards: int, *, keyed: bool) -> None:
    """Each shard gets its share of 8,000 changes, within a fifth: before the growth and after."""
    chance, at = seeded(), START + timedelta(seconds=seconds)
    changes = [
        Change("hot", 1, key=f"order-{number}", at=at) if keyed else Change("hot", 1)
        for number in range(ENTRIES)
    ]
    found = Counter(
        shard_of(change, NEW, seconds=seconds, suffix=chance.getrandbits(64)) for change in changes
    )
    assert set(found) == set(range(shards))
    share = ENTRIES / shards
    assert all(0.8 * share < count < 1.2 * share for count in found.values())


def test_a_repeat_finds_the_shard_of_its_first_try() -> None:
    """Planned by the old settings or the new ones, before the date or after it: one place."""
    for number in range(200):
        change = Change("hot", 1, key=f"order-{number}", at=START + timedelta(seconds=30))
        places = {
            shard_of(change, settings, seconds=seconds)
            for settings, seconds in ((OLD, 30), (NEW, 30), (NEW, 61), (NEW, 200))
        }
        assert len(places) == 1


def test_growing_by_the_time_of_writing_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: were the shard that of the moment, most repeats would lie elsewhere."""
    shards_now = Settings.shards_now
    now = START

    def by_now(self: Settings, counter: str, _at: Any) -> int:
        return shards_now(self, counter, now)

    monkeypatch.setattr(Settings, "shards_at", by_now)
    moved = 0
    for number in range(200):
        change = Change("hot", 1, key=f"order-{number}", at=START + timedelta(seconds=30))
        now = START + timedelta(seconds=30)
        first = shard_of(change, NEW, seconds=30)
        now = SINCE
        moved += shard_of(change, NEW, seconds=61) != first
    assert moved > 100


@dataclass
class Slow(MemoryStore):
    """A store on a clock: each query takes a second."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(HOME)
        self.clock = clock
        self.at_once = self.most = 0

    async def query(self, query: Query) -> Any:
        """Read a page, a second later."""
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await self.clock.sleep(1)
        self.at_once -= 1
        return await super().query(query)


async def test_shards_are_read_in_parallel() -> None:
    """The 16 shards of a counter take as long as one, by 16 queries at once."""
    clock = ManualClock(SINCE, instant=True)
    store = Slow(clock)
    async with Ledger(
        NEW,
        region=HOME,
        given=GivenConnections(store=store),
        services=Services.of(clock=clock, randomness=seeded()),
    ) as ledger:
        await ledger.record_many([("hot", number) for number in range(200)])
        total = await ledger.total("hot", max_age=0)
    assert total.value == sum(range(200))
    assert store.most == 16


async def written(settings: Sequence[Settings], clock: ManualClock) -> MemoryStore:
    """Write the same keyed changes by one process after the other, each with its settings."""
    store = MemoryStore(HOME)
    made = clock.now()
    for setting in settings:
        writer = make_writer(store, clock=clock, shards=setting.shards)
        for number in range(50):
            await writer.record(Change("hot", Decimal(1), key=f"k{number}", at=made))
        clock.pass_by(61)
    return store


async def test_a_process_with_the_old_file_repeats_harmlessly() -> None:
    """Processes that have not loaded the new file and those that have write each change once."""
    clock = ManualClock(instant=True)
    store = await written([OLD, NEW, OLD], clock)
    async with Ledger(
        NEW,
        region=HOME,
        given=GivenConnections(store=store),
        services=Services.of(clock=clock, randomness=seeded()),
    ) as ledger:
        assert (await ledger.total("hot", max_age=0)).value == 50
