"""Reading only what is new, where that is provably the same: one region, no other writers."""

from datetime import timedelta
from decimal import Decimal
from random import Random

import pytest
from support.ledgers import HOME, LOCAL, WEST, net, seeded

from ledger.core import fold, ids
from ledger.core.clock_offset import ClockOffset
from ledger.core.entry import entry_id, entry_item, net_of
from ledger.core.ids import EntryId
from ledger.core.values import Entry, NetChange
from ledger.demo.harness.digit_tags import CHANGES_MAX, amount, describe_counts, digits
from ledger.reads.collection import Base
from ledger.reads.reader import Bases, Reader
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.reads import Page, Query
from ledger.store.writes import Put
from ledger.testing.clock import ManualClock
from ledger.testing.replicas import ManualWorld

NET = ("c", "~net#0001")
SETTINGS = Settings(
    home=HOME,
    regions={HOME: LOCAL},
    settle=100,
    retry_horizon=30,
    signature_lifetime=30,
    clock_skew=30,
    request_timeout=1,
    write_deadline=1,
    read_deadline=5,
    observation_delay=6,
    cache={"incremental": True},
)


class Life:
    """A counter of one region in its everyday life: changes, slow requests, merges.

    Number n of its changes adds 10 to the power of n, so a total tells which it counts. What must
    be counted is what had landed when the read began; what lands while it runs may be.
    """

    def __init__(self, random: Random, *, longest_flight: float, keys_max: int) -> None:
        self.random = random
        self.clock = ManualClock(instant=True)
        self.store = Busy(self)
        self.flying: list[tuple[float, EntryId, int]] = []
        self.landed: set[int] = set()
        self.made = 0
        self.version = 0
        self.is_calm = False
        self._longest_flight = longest_flight
        self._folded_at = -1e9
        settings = SETTINGS.replace(read_keys_max=keys_max)
        self.reader = reader_of(self.store, clock=self.clock, settings=settings)

    def go_on(self, *pauses: float) -> None:
        """Let some time pass and something happen."""
        self.clock.pass_by(self.random.choice(pauses))
        self.random.choice((self.write, self.write, self.fold, self.delete, self.forget))()
        now = self.clock.monotonic()
        for flight in [one for one in self.flying if one[0] <= now]:
            self.flying.remove(flight)
            self._land(*flight[1:])

    def write(self) -> None:
        """Make a change, whose request lands at once or late."""
        if self.made == CHANGES_MAX:
            return
        entry = entry_id(self.clock.now(), self.random.getrandbits(64))
        late = self.random.choice((0, 0, 0, self._longest_flight))
        self.flying.append((self.clock.monotonic() + late, entry, self.made))
        self.made += 1

    def _land(self, entry: EntryId, number: int) -> None:
        change = Entry("c", str(entry), Decimal(amount(number)))
        self.store.table.set(("c", str(entry)), entry_item(change))
        self.landed.add(number)

    def fold(self) -> None:
        """Fold what is settled, at most once a hold."""
        known = self._net()
        named = {str(one) for one in known.merged} if known else set()
        settled = [
            key
            for key in self._entries()
            if key not in named and self._age(key) > SETTINGS.settle and self.random.random() < 0.7
        ]
        if settled and self._may_write():
            folded = sum(self._change(key) for key in settled) + (int(known.change) if known else 0)
            self._put_net(folded, (known.count if known else 0) + len(settled), named | {*settled})

    def delete(self) -> None:
        """Delete what the net names."""
        known = self._net()
        if known and self._may_write():
            for one in known.merged:
                self.store.table.set(("c", str(one)), None)

    def forget(self) -> None:
        """Drop the ids of what is gone."""
        known = self._net()
        if known and known.merged and self._may_write():
            left = {key for key in map(str, known.merged) if key in self._entries()}
            self._put_net(int(known.change), known.count, left)

    async def check(self) -> str | None:
        """Read the total; say what is wrong with it."""
        before = set(self.landed)
        times = digits((await self.reader.total("c")).value)
        if any(often != 1 for often in times.values()) or not before <= set(times) <= self.landed:
            return f"{describe_counts(times)}; landed {sorted(before)}"
        return None

    def _may_write(self) -> bool:
        if self.clock.monotonic() - self._folded_at <= SETTINGS.observation_delay:
            return False
        self._folded_at = self.clock.monotonic()
        return True

    def _put_net(self, change: int, count: int, merged: set[str]) -> None:
        self.version += 1
        item = net("c", change, map(id_of, merged), version=f"v{self.version}", count=count)
        self.store.table.set(NET, item)

    def _net(self) -> NetChange | None:
        item = self.store.table.get(NET)
        return net_of(item) if item else None

    def _entries(self) -> list[str]:
        return [key for key in self.store.table.partitions.get("c", {}) if key[0] != "~"]

    def _age(self, key: str) -> float:
        return (self.clock.now() - id_of(key).at).total_seconds()

    def _change(self, key: str) -> int:
        item = self.store.table.get(("c", key))
        assert item is not None
        return int(item["change"]["N"])


class Busy(MemoryStore):
    """A store of two items a page, on which life goes on between two pages."""

    def __init__(self, life: Life) -> None:
        super().__init__(HOME, page_items_max=2)
        self._life = life
        self.firsts: list[str | None] = []

    async def query(self, query: Query) -> Page:
        """Let something happen now and then, then read."""
        self.firsts.append(query.first)
        life = self._life
        if query.after is not None and not life.is_calm and life.random.random() < 0.3:
            life.go_on(0, 0.1)
        return await super().query(query)


def id_of(key: str) -> EntryId:
    """Return the id that a sort key is."""
    found = ids.parse(key)
    assert found is not None
    return found


def reader_of(store: Store, *, clock: ManualClock, settings: Settings = SETTINGS) -> Reader:
    """Return a reader that reads only what is new."""
    return Reader(store, settings=settings, services=Services.of(clock=clock))


async def live(seed: int, *, longest_flight: float = 60, keys_max: int = 50_000) -> str | None:
    """Live one life, reading now and then; return the first wrong total."""
    life = Life(seeded(seed), longest_flight=longest_flight, keys_max=keys_max)
    for _ in range(120):
        life.go_on(0, 0.5, 5, 40)
        if life.random.random() < 0.5 and (wrong := await life.check()):
            return wrong
    return None


@pytest.mark.parametrize("keys_max", [1, 4, 50_000])
@pytest.mark.parametrize("seed", range(12))
async def test_what_is_read_is_exact(seed: int, keys_max: int) -> None:
    """Requests as late as the settings allow, merges at any time: no change is missed or doubled.

    A request is signed within the retry horizon and lands within its life, here 30 s each.
    """
    assert await live(seed, keys_max=keys_max) is None


async def first_wrong(**options: float) -> str:
    """Return what is wrong in the first life in which something is."""
    for seed in range(60):
        if wrong := await live(seed, **options):  # type: ignore[arg-type]
            return wrong
    pytest.fail("no total was wrong in 60 lives")


async def test_a_request_later_than_allowed_would_be_missed() -> None:
    """A mutant: an entry that lands under an id older than `settle` is not read."""
    assert "landed" in await first_wrong(longest_flight=150)


async def test_without_the_nets_version_it_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: where every net passes for the same, folded entries count twice."""
    monkeypatch.setattr(fold, "stamp_of", lambda _: None)
    assert "counted 2 times" in await first_wrong()


async def test_only_what_is_new_is_read() -> None:
    """Of 100 settled entries and 2 new ones a second read asks for the new ones only."""
    life = Life(seeded(1), longest_flight=0, keys_max=50_000)
    life.is_calm = True
    store, reader = life.store, life.reader
    for number in range(100):
        await put(store, entry_id(life.clock.now(), number), 1)
    life.clock.pass_by(SETTINGS.settle + 1)
    assert (await reader.total("c")).value == 100
    assert store.firsts == [None] * 50
    for number in range(2):
        await put(store, entry_id(life.clock.now(), number), 1)
    store.firsts.clear()
    second = await reader.total("c")
    assert second.value == second.entries == 102
    assert len(store.firsts) == 1
    assert store.firsts[0] is not None
    store.table.set(NET, net("c", 0, [], version="v2"))
    assert (await reader.total("c")).value == 102
    assert store.firsts[-1] is None


async def put(store: Store, entry: EntryId, change: int) -> None:
    """Put an entry."""
    await store.write(Put(entry_item(Entry("c", str(entry), Decimal(change)))))


async def test_from_another_region_an_entry_would_be_missed() -> None:
    """Why the settings refuse it for several regions: what arrives late lies below the border.

    Nothing in the table tells that an entry is still under way, so no border is ever safe. A whole
    read has it.
    """
    regions, clock = ManualWorld((HOME, WEST), randomness=seeded()), ManualClock(instant=True)
    home, west = regions.replicas[HOME], regions.replicas[WEST]
    reader = reader_of(home, clock=clock)
    await put(home, entry_id(clock.now(), 1), 1)
    await put(west, entry_id(clock.now(), 2), 10)
    clock.pass_by(SETTINGS.settle + 1)
    assert (await reader.total("c")).value == 1
    regions.deliver()
    assert regions.collection(HOME, "c").total() == 11
    assert (await reader.total("c")).value == 1
    whole = reader_of(home, clock=clock, settings=SETTINGS.replace(cache={"incremental": False}))
    assert (await whole.total("c")).value == 11


@pytest.mark.parametrize(("offset", "counted"), [(None, 1), (ClockOffset(699.0, 700.0), 11)])
async def test_with_a_clock_that_is_ahead_an_entry_would_be_missed(
    offset: ClockOffset | None, counted: int
) -> None:
    """A reader that is ahead takes ids for settled that may still appear, so it reads them all."""
    store, clock = MemoryStore(HOME), ManualClock(instant=True)
    slow = entry_id(clock.now(), 2)
    store.clock_offset = offset
    reader = reader_of(store, clock=ManualClock(clock.now() + timedelta(seconds=700)))
    await put(store, entry_id(clock.now(), 1), 1)
    assert (await reader.total("c")).value == 1
    await put(store, slow, 10)
    assert (await reader.total("c")).value == counted


async def test_bases_are_bounded() -> None:
    """No more collections are kept to go on from than the cache keeps counters."""
    store, clock = MemoryStore(HOME), ManualClock(instant=True)
    settings = SETTINGS.replace(cache={"counters_max": 3})
    reader = reader_of(store, clock=clock, settings=settings)
    for number in range(9):
        await reader.total(f"c{number}")
    assert list(reader._bases._bases) == ["c6", "c7", "c8"]


def test_a_read_without_a_base_forgets_the_one_before() -> None:
    """A later read begins anew, and not where an older one could continue."""
    bases = Bases(3)
    bases.keep("c", Base("border", fold.Subtotal(None, Decimal(1), 1)))
    assert bases.get("c") is not None
    bases.keep("c", None)
    assert bases.get("c") is None
