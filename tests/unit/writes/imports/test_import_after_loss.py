"""Imports before, across and after the loss of a region, each region a table of its own."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace

import pytest
from support.importing import (
    begins_of,
    csv_of,
    entries_of,
    markers_of,
    source_of,
    sums_of,
    sums_of_csv,
    surveyed,
)
from support.ledgers import make_services
from support.live import Live

from ledger.core.entry import Item, key_of
from ledger.core.errors import ImportRefused, RegionUnreadable, Unreachable
from ledger.settings import Settings
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.reads import Page, Query
from ledger.store.writes import Action, Applied, Outcome, Put, Unknown, Write
from ledger.testing.clock import ManualClock
from ledger.writes.imports.begin_marker import SHOWN_WITHIN
from ledger.writes.imports.file_format import BATCH_ROWS
from ledger.writes.imports.importer import BATCHES_PARALLEL, Importer, ImportReport
from ledger.writes.imports.survey import StopSign

A, B, C = REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
BEFORE = Settings(home=A, regions={name: {} for name in REGIONS})
BATCHES = 4
CONTENT = csv_of(BATCHES * BATCH_ROWS)
SUMS = sums_of_csv(BATCHES * BATCH_ROWS)
DOUBT = f"began before the loss of {A}"


def after(*lost: str, home: str = B) -> Settings:
    """Return the settings after these losses."""
    regions = tuple(name for name in REGIONS if name not in lost)
    terms = replace(BEFORE.terms, home=home, regions=regions, lost=lost)
    return BEFORE.under(terms, home=home)


class Home(MemoryStore):
    """A home region; what it writes alone arrives in `reached`, its transactions nowhere."""

    def __init__(self, region: str, table: MemoryTable, reached: Iterable[MemoryTable]) -> None:
        super().__init__(region, table, page_items_max=3)
        self.reached = list(reached)
        self.queries: list[Query] = []
        self.writes: list[Write] = []
        self.answers = True

    async def write(self, write: Write) -> Outcome:
        """Do one write, and let it arrive."""
        self.writes.append(write)
        outcome = await super().write(write)
        if isinstance(outcome, Applied) and isinstance(write, Put):
            arrive(self.reached, [write.item])
        return outcome if self.answers else Unknown("no answer")

    async def query(self, query: Query) -> Page:
        """Read one page."""
        self.queries.append(query)
        return await super().query(query)


class World:
    """The tables of three regions."""

    def __init__(self) -> None:
        self.tables = {name: MemoryTable() for name in REGIONS}
        self.clock = ManualClock(instant=True)

    def home(self, region: str, *others: str) -> Home:
        """Return the store of a home whose single writes arrive in other regions."""
        return Home(region, self.tables[region], [self.tables[name] for name in others])

    async def run(
        self,
        store: Store,
        *settings: Settings,
        others: Iterable[str] = (),
        stop: StopSign | None = None,
        **how: bool,
    ) -> ImportReport:
        """Import the file through a home, with these other regions."""
        importer = Importer(
            store,
            Live(*settings),
            others=opening(MemoryStore(name, self.tables[name]) for name in others),
            services=make_services(self.clock, 1),
            stop=stop,
        )
        return await importer.run(source_of(CONTENT), await surveyed(CONTENT), **how)

    async def import_at_a(self) -> None:
        """Import all of the file through A, of which only the begin marker arrives elsewhere."""
        await self.run(self.home(A, B, C), BEFORE, others=(B, C))

    def let_arrive(self, items: Iterable[Item], *regions: str) -> None:
        """Let items of A arrive elsewhere."""
        arrive((self.tables[name] for name in regions), items)

    async def again(self, *settings: Settings, after_loss: bool = False) -> ImportReport:
        """Import the file through B, A being lost."""
        store = self.home(B, C)
        found = settings or (after(A),)
        return await self.run(store, *found, others=(C,), after_loss=after_loss)


def arrive(tables: Iterable[MemoryTable], items: Iterable[Item]) -> None:
    """Put items into tables."""
    found = list(items)
    for table in tables:
        for item in found:
            table.set(key_of(item), item)


def opening(stores: Iterable[Store]) -> Callable[[], AbstractAsyncContextManager[dict[str, Store]]]:
    """Return what opens the stores of the other regions."""
    found = {store.region: store for store in stores}
    return lambda: nullcontext(found)


@pytest.fixture
async def world() -> World:
    """A table of three regions, imported through A, from where only the beginning arrived."""
    made = World()
    await made.import_at_a()
    return made


async def test_entries_that_survive_without_their_marker_are_not_written_again(
    world: World,
) -> None:
    """They cannot be told from those of others: the import is refused, with what to do."""
    survivors = entries_of(world.tables[A])[:18]
    world.let_arrive(survivors, B, C)
    with pytest.raises(ImportRefused, match=DOUBT) as refused:
        await world.again()
    for part in ("batches with a marker: 0", "compare the counters", "ledger import --after-loss"):
        assert part in str(refused.value)
    assert len(entries_of(world.tables[B])) == 18
    assert markers_of(world.tables[B]) == []


@pytest.mark.parametrize("region", [B, C])
async def test_a_marker_without_its_entries_proves_nothing(world: World, region: str) -> None:
    """Wherever a marker arrived, its rows may be missing."""
    world.let_arrive(markers_of(world.tables[A])[:1], region)
    with pytest.raises(ImportRefused, match="batches with a marker: 1,"):
        await world.again()


async def test_complete_before_the_loss_is_not_there_already(world: World) -> None:
    """All the markers arrived, and not all of the rows: nothing could tell."""
    world.let_arrive(markers_of(world.tables[A]), B, C)
    world.let_arrive(entries_of(world.tables[A])[1:], B, C)
    with pytest.raises(ImportRefused, match=f"batches with a marker: {BATCHES},"):
        await world.again()


async def test_begun_after_the_loss_it_is_an_import_like_any() -> None:
    """A file that was never begun before is imported, and known again."""
    world = World()
    report = await world.again()
    assert (report.rows, report.lost) == (BATCHES * BATCH_ROWS, ())
    assert sums_of(world.tables[B]) == SUMS
    found = [*begins_of(world.tables[B]), *markers_of(world.tables[B])]
    assert [item["losses"] for item in found] == [{"N": "1"}] * (1 + BATCHES)
    again = await world.again()
    assert (again.rows, again.rows_there) == (0, BATCHES * BATCH_ROWS)


async def test_a_second_loss_puts_in_doubt_what_the_first_did_not() -> None:
    """Of the regions lost, those since the import began are named."""
    world = World()
    await world.again()
    both = after(A, B, home=C)
    with pytest.raises(ImportRefused, match=f"the loss of {B}:"):
        await world.run(world.home(C), both)


async def test_after_loss_takes_the_markers_as_they_are(world: World) -> None:
    """Batches with a marker are skipped, the others written, and the report names the loss."""
    marked = markers_of(world.tables[A])[:1]
    world.let_arrive(marked, C)
    report = await world.again(after_loss=True)
    assert (report.batches, report.batches_there, report.lost) == (BATCHES - 1, 1, (A,))
    skipped = sum(range(BATCH_ROWS))
    assert (
        sum(map(int, sums_of(world.tables[B]).values())) == sum(map(int, SUMS.values())) - skipped
    )
    with pytest.raises(ImportRefused, match=DOUBT):
        await world.again()
    again = await world.again(after_loss=True)
    assert (again.batches, again.lost) == (0, (A,))


async def test_after_loss_begins_where_no_beginning_arrived() -> None:
    """The lost home's begin marker may be in one region alone: a new one reaches every region."""
    world = World()
    await world.run(world.home(A, B, C), BEFORE, others=(B, C))
    world.tables[C] = MemoryTable()
    await world.again(after_loss=True)
    assert [item["losses"] for item in begins_of(world.tables[C])] == [{"N": "1"}]
    assert len(begins_of(world.tables[B])) == 2


@pytest.mark.parametrize("accepted", [False, True])
async def test_a_loss_meanwhile_ends_the_import(accepted: bool) -> None:  # noqa: FBT001 (a parameter)
    """Each batch looks again; a loss that was accepted is not the next one."""
    world = World()
    now, then = (after(C, home=A), after(C, B, home=A)) if accepted else (BEFORE, after(C, home=A))
    others = (B,) if accepted else (B, C)
    store = world.home(A, B, C)
    with pytest.raises(ImportRefused, match=f"loss of {B if accepted else C}:"):
        await world.run(store, now, now, now, then, others=others, after_loss=accepted)
    assert 0 < len(markers_of(world.tables[A])) < BATCHES_PARALLEL


async def test_a_marker_from_before_the_loss_that_a_batch_meets_is_refused() -> None:
    """It was not there when the run began: its batch is not taken for done."""
    former, world = World(), World()
    await former.import_at_a()

    class Meeting(Home):
        async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
            arrive([self.table], markers_of(former.tables[A]))
            return await super().transact(actions, token=token)

    store = Meeting(B, world.tables[B], [world.tables[C]])
    with pytest.raises(ImportRefused, match=DOUBT):
        await world.run(store, after(A), others=(C,))
    assert entries_of(world.tables[B]) == []


@pytest.mark.parametrize("missing", [B, C])
async def test_no_batch_is_written_until_every_region_shows_the_beginning(missing: str) -> None:
    """What does not arrive in time is refused by the region's name; the next run goes on."""
    world = World()
    reached = B if missing == C else C
    with pytest.raises(ImportRefused, match=f"{missing} does not show after 60 s"):
        await world.run(world.home(A, reached), BEFORE, others=(B, C))
    assert world.clock.elapsed >= SHOWN_WITHIN.total_seconds()
    assert entries_of(world.tables[A]) == markers_of(world.tables[A]) == []
    with pytest.raises(ImportRefused, match=f"{missing} does not show"):
        await world.run(world.home(A), BEFORE, others=(B, C))
    world.let_arrive(begins_of(world.tables[A]), missing)
    await world.run(world.home(A), BEFORE, others=(B, C))
    assert sums_of(world.tables[A]) == SUMS


async def test_a_begin_marker_that_arrives_late_is_waited_for() -> None:
    """The wait ends when the region shows it."""
    world = World()

    class Late(MemoryStore):
        looks = 0

        async def query(self, query: Query) -> Page:
            self.looks += 1
            if self.looks > 3:
                arrive([self.table], begins_of(world.tables[A]))
            return await super().query(query)

    late = Late(B, world.tables[B])
    importer = Importer(
        world.home(A), BEFORE, others=opening([late]), services=make_services(world.clock, 1)
    )
    report = await importer.run(source_of(CONTENT), await surveyed(CONTENT))
    assert report.finished
    assert late.looks == 4


async def test_a_region_that_fails_meanwhile_is_named() -> None:
    """It can be read at first and not later: no batch is written."""
    world = World()

    class Failing(MemoryStore):
        async def query(self, query: Query) -> Page:
            if query.first == query.last:
                raise Unreachable("no answer")
            return await super().query(query)

    importer = Importer(
        world.home(A, B),
        BEFORE,
        others=opening([Failing(B, world.tables[B])]),
        services=make_services(world.clock, 1),
    )
    with pytest.raises(RegionUnreadable, match=B):
        await importer.run(source_of(CONTENT), await surveyed(CONTENT))
    assert markers_of(world.tables[A]) == []


async def test_a_request_to_stop_ends_the_wait() -> None:
    """Nothing is written then, and the report says what is left."""
    world, stop = World(), StopSign()
    stop.ask()
    report = await world.run(world.home(A), BEFORE, others=(B, C), stop=stop)
    assert (report.batches_left, world.clock.elapsed) == (BATCHES, 0)
    assert markers_of(world.tables[A]) == []


async def test_a_beginning_without_an_answer_is_what_the_regions_show() -> None:
    """Whether it was written is not the answer's to say."""
    world = World()
    store = world.home(A, B, C)
    store.answers = False
    report = await world.run(store, BEFORE, others=(B, C))
    assert report.finished
    assert report.write_units == 2 * BATCHES * (BATCH_ROWS + 1)


async def test_the_beginning_costs_one_write_and_one_read_a_file() -> None:
    """However many batches there are; a file that every region knows needs neither."""
    world = World()
    store = world.home(A, B, C)
    await world.run(store, BEFORE, others=(B, C))
    assert (len(store.writes), len(store.queries)) == (1, 2)
    again = world.home(A)
    await world.run(again, BEFORE, others=(B, C))
    assert again.writes == []
    assert all(query.first != query.last for query in again.queries)
