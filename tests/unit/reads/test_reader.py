"""Reading totals: every page, every shard, and merges that race the pages."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ledgers import HOME, make_settings, net, sample, seeded
from support.live import Live, SignedStore

from ledger.core import keys
from ledger.core.contract import CONTRACT_LIFE, Validity
from ledger.core.entry import Item, entry_id, entry_item
from ledger.core.errors import (
    AmountOverflow,
    ContractStale,
    DamagedItem,
    ReadTooSlow,
    Throttled,
    Unreachable,
)
from ledger.core.ids import EntryId
from ledger.core.values import Entry
from ledger.reads.collection import RESTARTS_MAX, ReadBounds, read_collection
from ledger.reads.reader import Reader
from ledger.runtime.clock import ElapsedTime
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.reads import Page, Query
from ledger.store.wrappers.faults import Fault, FaultyStore, InOrder, Raises, Slow
from ledger.testing.clock import START, ManualClock

SETTINGS = make_settings()
READ_MAX = SETTINGS.read_deadline
HOLD = SETTINGS.observation_delay


def ids_of(count: int) -> list[EntryId]:
    """Return the ids of so many entries, a second apart."""
    first = entry_id(START, 0).microseconds
    return [EntryId(first + number * 1_000_000, number) for number in range(count)]


def put(table: MemoryTable, counter: str, change: int | Decimal, entry: EntryId | str) -> Item:
    """Put one entry as another process would."""
    suffix = entry.suffix if isinstance(entry, EntryId) else 0
    shard = keys.shard_of(suffix, SHARDED.shards_now(counter, START))
    item = entry_item(Entry(counter, str(entry), Decimal(change), HOME, shard=shard))
    table.set((item["pk"]["S"], item["sk"]["S"]), item)
    return item


SHARDED = make_settings(shards={"wide": 4})


def of_generation(generation: int) -> Settings:
    """Return settings under the contract of a table that lost a region before."""
    terms = replace(SHARDED.terms, generation=generation)
    return SHARDED.under(terms, home=HOME)


def make_reader(
    store: Store,
    *,
    clock: ManualClock | None = None,
    metrics: Metrics | None = None,
    settings: Settings = SHARDED,
) -> Reader:
    """Return a reader that knows the counter `wide` with four shards."""
    return Reader(
        store,
        settings=settings,
        services=Services(clock or ManualClock(instant=True), seeded(), metrics or Metrics()),
    )


class RacingStore(MemoryStore):
    """A store of two items a page on whose table something happens before certain queries."""

    def __init__(self, clock: ManualClock, *steps: Callable[[], None] | None) -> None:
        super().__init__(HOME, page_items_max=2)
        self.clock = clock
        self.steps = list(steps)
        self.consistent: list[bool] = []

    async def query(self, query: Query) -> Page:
        """Let the next step happen, then read."""
        step = self.steps.pop(0) if self.steps else None
        if step is not None:
            step()
        self.consistent.append(query.consistent)
        return await super().query(query)


async def test_total_says_what_it_rests_on() -> None:
    """A total tells value, time, region, unmerged entries, merged ones and the net's version."""
    store = MemoryStore(HOME, page_items_max=2)
    one, two, three = ids_of(3)
    put(store.table, "c", 5, two)
    put(store.table, "c", 7, three)
    item = net("c", 100, [one, two], version="v9")
    store.table.set(("c", "~net#0001"), item)

    total = await make_reader(store).total("c")

    assert (total.counter, total.value, total.region) == ("c", Decimal(107), HOME)
    assert (total.entries, total.merged, total.versions) == (1, 2, ("v9",))
    assert total.as_of == START
    assert not total.cached


async def test_total_of_nothing_is_zero() -> None:
    """A counter that was never written has the total 0, of no entries."""
    total = await make_reader(MemoryStore(HOME)).total("wide")

    assert (total.value, total.entries, total.versions) == (Decimal(0), 0, ())


@given(
    parts=st.lists(st.tuples(st.integers(-(10**20), 10**20), st.integers(0, 2)), max_size=25),
    page=st.integers(1, 5),
)
async def test_property_merging_and_paging_are_invisible(
    parts: Sequence[tuple[int, int]], page: int
) -> None:
    """Unmerged, merged but still there, or merged and deleted: the sum is that of all changes."""
    store = MemoryStore(HOME, page_items_max=page)
    merged, folded = [], 0
    for entry, (change, fate) in zip(ids_of(len(parts)), parts, strict=True):
        if fate < 2:
            put(store.table, "c", change, entry)
        if fate > 0:
            merged.append(entry)
            folded += change
    if merged:
        store.table.set(("c", "~net#0001"), net("c", folded, merged))

    total = await make_reader(store).total("c")

    assert total.value == sum(change for change, _ in parts)
    assert total.entries == sum(1 for _, fate in parts if fate == 0)


async def test_all_shards_are_summed() -> None:
    """Entries and nets of all four shards of a counter make one total."""
    store = MemoryStore(HOME, page_items_max=2)
    entries = ids_of(12)
    for number, entry in enumerate(entries):
        put(store.table, "wide", 10**number, entry)
    for shard, change in ((0, 5), (3, 7)):
        partition = keys.partition_key("wide", shard)
        gone = EntryId(1, shard)
        item = net(partition, change * 10**12, [gone], version=f"v{shard}")
        store.table.set((partition, "~net#0001"), item)

    total = await make_reader(store).total("wide")

    assert set(store.table.partitions) == {"wide", "~1~wide", "~2~wide", "~3~wide"}
    assert total.value == Decimal("12" + "1" * 12)
    assert (total.entries, total.merged, total.versions) == (12, 2, ("v0", "v3"))


async def test_foreign_items_count_and_the_rest_does_not() -> None:
    """An item of another tool with a `change` is counted; one without is none of ours."""
    store = MemoryStore(HOME)
    put(store.table, "c", 3, "a458fc3d")
    put(store.table, "c", 4, "zzz")
    store.table.set(("c", "profile"), {"pk": {"S": "c"}, "sk": {"S": "profile"}})

    total = await make_reader(store).total("c")

    assert (total.value, total.entries) == (Decimal(7), 2)


async def test_highest_generation_counts_alone() -> None:
    """Of the nets of two homes the later generation counts, the earlier is ignored."""
    store = MemoryStore(HOME, page_items_max=1)
    (entry,) = ids_of(1)
    put(store.table, "c", 1, entry)
    for generation, change in ((1, 100), (2, 30)):
        item = net("c", change, [], version=f"v{generation}", generation=generation)
        store.table.set(("c", f"~net#{generation:04d}"), item)

    settings = of_generation(2)
    total = await make_reader(store, settings=settings).total("c")

    assert (total.value, total.versions) == (Decimal(31), ("v2",))


@pytest.mark.parametrize(
    "broken",
    [
        {"change": {"S": "5"}},
        {"change": {"N": "five"}},
        {"sk": {"S": "~net#0001"}},
    ],
)
async def test_damaged_item_gives_no_total(broken: dict[str, dict[str, str]]) -> None:
    """An item that should be counted and cannot be is named; no total leaves it out in silence."""
    store = MemoryStore(HOME)
    (entry,) = ids_of(1)
    item = {**put(store.table, "c", 5, entry), **broken}
    store.table.set(("c", item["sk"]["S"]), item)

    with pytest.raises(DamagedItem, match=r"item '.*' of counter 'c' is damaged"):
        await make_reader(store).total("c")


async def test_shards_whose_sums_do_not_fit_alone_may_fit_together() -> None:
    """Only the total has to fit in 38 digits, not the sum of each shard."""
    store = MemoryStore(HOME)
    for entry, change in zip(ids_of(6), (9, -9, 0, 0, 9, -9), strict=True):
        put(store.table, "wide", change * 10**37, entry)

    assert (await make_reader(store).total("wide")).value == 0


async def test_sum_beyond_38_digits_is_an_error() -> None:
    """A sum that needs 39 digits is refused, though each change fits; a passing excess is not."""
    store = MemoryStore(HOME)
    one, two, three = ids_of(3)
    most = int("9" * 38)
    put(store.table, "c", most, one)
    put(store.table, "c", 2, two)

    with pytest.raises(AmountOverflow, match=r"total of 'c': .* got 39 digits"):
        await make_reader(store).total("c")
    put(store.table, "c", -3, three)
    assert (await make_reader(store).total("c")).value == most - 1


@pytest.mark.parametrize("error", [Throttled("slow down"), Unreachable("no answer")])
async def test_error_of_any_page_is_raised_plain(error: Exception) -> None:
    """If one page of one shard cannot be read, that error comes out, not a part of the sum."""
    inner = MemoryStore(HOME, page_items_max=1)
    for entry in ids_of(8):
        put(inner.table, "wide", 1, entry)
    store = FaultyStore(inner, InOrder(*[None] * 5, Raises(error)))

    with pytest.raises(type(error)) as caught:
        await make_reader(store).total("wide")
    assert caught.value is error


async def test_a_steady_read_is_consistent_whatever_the_settings_say() -> None:
    """Two eventual looks could agree on a state that was none: replicas of a region step back."""
    clock = ManualClock(instant=True)
    store = RacingStore(clock)
    for entry in ids_of(5):
        put(store.table, "c", 1, entry)
    settings = make_settings(consistent_reads=False)
    reader = Reader(store, settings=settings, services=Services.of(clock=clock))
    await reader.steady_totals(["c"])
    assert store.consistent == [True] * 6


async def test_looks_of_one_sum_and_other_changes_do_not_agree() -> None:
    """A deposit and its withdrawal in between leave the sum, and no moment that is sure."""
    clock = ManualClock(instant=True)
    one, two, three = ids_of(3)

    def move() -> None:
        put(store.table, "c", 100, two)
        put(store.table, "c", -100, three)

    store = RacingStore(clock, None, move)
    put(store.table, "c", 1, one)
    total = (await make_reader(store, clock=clock).steady_totals(["c"]))["c"]
    assert (total.value, total.changes) == (Decimal(1), 3)
    assert len(store.consistent) == 1 + 2 + 2


@pytest.mark.parametrize("late", [False, True])
async def test_no_page_is_asked_for_past_the_view_of_the_contract(*, late: bool) -> None:
    """A process that stood still may know fewer shards than there are: it reads nothing."""
    clock = ManualClock(instant=True)
    store = SignedStore(HOME, clock)
    validity = Validity.of_read(START - timedelta(seconds=CONTRACT_LIFE + late), 0.0)
    live = Live(SHARDED, validity=validity)
    reader = Reader(store, settings=live, services=Services.of(clock=clock))
    if late:
        with pytest.raises(ContractStale):
            await reader.total("wide")
    else:
        assert (await reader.total("wide")).value == 0
    assert store.requests == (0 if late else 4)


@pytest.mark.parametrize("consistent", [True, False])
async def test_consistency_is_that_of_the_settings(*, consistent: bool) -> None:
    """Every page is read strongly consistent, or none is, as the settings say."""
    clock = ManualClock(instant=True)
    store = RacingStore(clock)
    for entry in ids_of(5):
        put(store.table, "c", 1, entry)
    settings = make_settings(consistent_reads=consistent)
    reader = Reader(store, settings=settings, services=Services.of(clock=clock))

    await reader.total("c")

    assert store.consistent == [consistent] * 3


# Merges that race the pages


def merge_between_pages(
    clock: ManualClock, *, drop: bool, go_by: Callable[[float], None] | None = None
) -> RacingStore:
    """Return a store on which four entries are merged after their first page was read.

    The net that counts them is written, then, a hold later, they are deleted; with `drop` a
    further hold later the net is written again without their ids. `go_by` lets the time pass.
    """
    entries, go_by = ids_of(4), go_by or clock.pass_by

    def merge() -> None:
        store.table.set(("c", "~net#0001"), net("c", 1111, entries, version="v1"))
        go_by(HOLD if drop else 0)
        for entry in entries:
            store.table.set(("c", str(entry)), None)
        if drop:
            go_by(HOLD)
            item = net("c", 1111, [], version="v2", count=4)
            store.table.set(("c", "~net#0001"), item)

    store = RacingStore(clock, None, merge)
    for number, entry in enumerate(entries):
        put(store.table, "c", 10**number, entry)
    return store


async def test_merge_within_a_read_is_invisible() -> None:
    """Entries read on page 1 and merged before page 2 are in the net's list, so count once."""
    clock = ManualClock(instant=True)
    store = merge_between_pages(clock, drop=False)

    total = await make_reader(store, clock=clock).total("c")

    assert (total.value, total.entries, total.merged) == (Decimal(1111), 0, 4)


async def test_read_slower_than_read_max_starts_again() -> None:
    """A read that a whole merge overtook, ids dropped included, has taken too long: it restarts."""
    clock, metrics = ManualClock(instant=True), Metrics()
    store = merge_between_pages(clock, drop=True)

    total = await make_reader(store, clock=clock, metrics=metrics).total("c")

    assert (total.value, total.entries, total.merged) == (Decimal(1111), 0, 4)
    assert sample(metrics, "ledger_read_restarts_total", region=HOME) == 1
    assert sample(metrics, "ledger_read_pages_sum", region=HOME) == 1
    assert sample(metrics, "ledger_read_duration_seconds_sum", region=HOME) == 2 * HOLD


async def test_a_read_that_was_suspended_between_two_pages_starts_again() -> None:
    """Its monotonic clock stood still while the collection was merged: it would count all twice."""
    clock, metrics = ManualClock(instant=True), Metrics()
    store = merge_between_pages(clock, drop=True, go_by=clock.suspend)

    total = await make_reader(store, clock=clock, metrics=metrics).total("c")

    assert clock.monotonic() == 0
    assert (total.value, total.entries, total.merged) == (Decimal(1111), 0, 4)
    assert sample(metrics, "ledger_read_restarts_total", region=HOME) == 1


async def test_without_the_restart_the_sum_would_be_wrong() -> None:
    """The mutant: the same race with an endless `read_deadline` counts page 1 twice."""
    clock = ManualClock(instant=True)
    store = merge_between_pages(clock, drop=True)

    read = await read_collection(store, "c", ElapsedTime(clock), ReadBounds(1e9), consistent=True)

    assert read.restarts == 0
    assert read.collection.total() == Decimal(1111 + 11)


@given(
    merged=st.sets(st.integers(0, 5), min_size=1),
    strides=st.lists(st.integers(0, 12)),
    keys_max=st.sampled_from([1, 3, 50_000]),
)
async def test_property_no_race_with_a_merge_shows(
    merged: set[int], strides: list[int], keys_max: int
) -> None:
    """Wherever the steps of a merge fall between the pages, with holds kept, the sum is right.

    However few sort keys a read may keep.
    """
    clock = ManualClock(instant=True)
    store = RacingStore(clock)
    entries = ids_of(6)
    for number, entry in enumerate(entries):
        put(store.table, "c", 10**number, entry)
    change = sum(10**number for number in merged)
    going = [entries[number] for number in sorted(merged)]
    fold = net("c", change, going, version="v1")
    dropped = net("c", change, [], version="v2", count=len(going))
    todo: list[Callable[[], None]] = [
        partial(store.table.set, ("c", "~net#0001"), fold),
        partial(clock.pass_by, HOLD),
        *[partial(store.table.set, ("c", str(entry)), None) for entry in going],
        partial(clock.pass_by, HOLD),
        partial(store.table.set, ("c", "~net#0001"), dropped),
    ]

    def go_on(stride: int) -> None:
        for step in todo[:stride]:
            step()
        del todo[:stride]

    store.steps = [partial(go_on, stride) for stride in strides]

    settings = SHARDED.replace(read_keys_max=keys_max)
    total = await make_reader(store, clock=clock, settings=settings).total("c")

    assert total.value == 111111


@pytest.mark.parametrize(("seconds", "restarts"), [(READ_MAX / 4, 0), (READ_MAX / 4 + 0.001, None)])
async def test_read_max_is_the_border(seconds: float, restarts: int | None) -> None:
    """Pages that take just `read_deadline` are good; a millisecond more each is an error."""
    clock, metrics = ManualClock(instant=True), Metrics()
    inner = MemoryStore(HOME, page_items_max=2)
    for entry in ids_of(8):
        put(inner.table, "c", 1, entry)
    store = FaultyStore(inner, lambda _: Slow(seconds), clock=clock)
    reader = make_reader(store, clock=clock, metrics=metrics)

    if restarts is not None:
        assert (await reader.total("c")).value == 8
        assert sample(metrics, "ledger_read_restarts_total") == restarts
        return
    with pytest.raises(ReadTooSlow, match=r"'c' in us-east-1: 11 reads .*\(15 s\)"):
        await reader.total("c")
    assert store.calls == 4 * (RESTARTS_MAX + 1)


async def test_one_slow_shard_restarts_alone() -> None:
    """Each shard is a collection of its own: the time of one read does not restart the others."""
    clock, metrics = ManualClock(instant=True), Metrics()
    inner = MemoryStore(HOME)
    for entry in ids_of(8):
        put(inner.table, "wide", 1, entry)
    faults: list[Fault | None] = [None, None, None, Slow(after_seconds=READ_MAX + 1)]
    store = FaultyStore(inner, InOrder(*faults), clock=clock)

    assert (await make_reader(store, clock=clock, metrics=metrics).total("wide")).value == 8

    assert sample(metrics, "ledger_read_restarts_total") == 1
    assert store.calls == 5
