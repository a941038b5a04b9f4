"""One door: every part of a table, made by it, over one connection."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
from prometheus_client import CollectorRegistry
from support.ledgers import AWAY, HOME, make_settings, sample
from support.pipelines import FIELDS
from support.tables import changes_file, make_table, trades

from ledger import (
    ImportRefused,
    InvalidInput,
    Ledger,
    LedgerError,
    MethodConflict,
    SettingsError,
)
from ledger.core.entry import Item
from ledger.core.errors import InvalidCounter
from ledger.primitives.counters import METHODS
from ledger.primitives.leases import Lease, LeaseGrant, LeaseTerms, NotHeld
from ledger.primitives.sequences import Numbered
from ledger.primitives.versions import (
    Event,
    Handled,
    Skipped,
)
from ledger.runtime.metrics import Metrics, summed
from ledger.session.assembly import GivenConnections
from ledger.store.memory import MemoryStore
from ledger.store.reads import Page, Query
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.writes import Action, Applied, Outcome, Rejected, Write
from ledger.table import Table
from ledger.testing.clock import ManualClock
from ledger.writes.imports import Form, StopSign
from ledger.writes.imports.batch_writer import BatchDone

RECORD: Item = {"pk": {"S": "record~7"}, "sk": {"S": "address"}}


@pytest.mark.parametrize("method", METHODS)
async def test_counters_of_every_method(method: Any) -> None:
    """Each method counts, through the table's own store."""
    async with make_table() as table:
        counter = table.counter("stock", method=method)
        assert isinstance(await counter.add(1), Applied)
        assert isinstance(await counter.add(1), Applied)
        assert await counter.value() == 2


@pytest.mark.parametrize("method", METHODS)
async def test_a_value_is_read_consistently_or_not(method: Any) -> None:
    """A text would count as True; every method refuses it."""
    async with make_table() as table:
        with pytest.raises(InvalidInput, match="consistent must be True or False, got 'no'"):
            await table.counter("stock", method=method).value(consistent="no")


async def test_counters_take_thresholds_and_shards() -> None:
    """Thresholds hold, and a counter has the shards that are asked for."""
    store = MemoryStore(HOME)
    async with make_table(store) as table:
        stock = table.counter("stock", method="marker", minimum=-3, shards=3)
        assert isinstance(await stock.add(-3), Applied)
        assert await stock.add(-1) == Rejected("threshold", "minimum -3")
        assert stock.guarantees.value_units == 3
    assert "~count~shards~stock" in store.table.partitions


async def test_a_counter_is_converted_while_others_have_it() -> None:
    """Those of the same kind go on, those of another are refused with the way out."""
    async with make_table() as table:
        stock = table.counter("stock", method="marker", minimum=0)
        await stock.add(90)
        await table.convert_counter("stock", method="atomic", shards=4)
        assert await stock.add(-3) == Applied()
        await table.convert_counter("stock", method="history-sharded", shards=2)  # type: ignore[arg-type]
        with pytest.raises(MethodConflict, match="kept by method history, not atomic"):
            await stock.add(-3)
        assert await table.counter("stock", method="history").value() == 87
        for method in ("collection", "slots", "x"):
            with pytest.raises(InvalidInput, match=r"a set of slots|method to convert to"):
                await table.convert_counter("stock", method=method)  # type: ignore[arg-type]


async def test_counters_of_a_table_remember_layouts_together() -> None:
    """A second counter of a name reads and writes nothing but its changes."""
    metrics = Metrics(None)
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=ManualClock())
    async with make_table(store) as table:
        await table.counter("stock", method="atomic").add(1)
        before = sample(metrics, "ledger_consumed_units_total", kind="read")
        await table.counter("stock", method="marker").add(1)
        assert sample(metrics, "ledger_consumed_units_total", kind="read") == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "markers"}, "method must be one of .*marker.*, got 'markers'"),
        ({"method": ["marker"]}, r"method must be one of .*, got \['marker'\]"),
        ({"minimum": 0}, "takes no minimum"),
        ({"shards": 2}, "takes no shards"),
        ({"method": "atomic", "shards": 0}, "shards must be a whole number from 1 to 96, got 0"),
        ({"method": "atomic", "shards": "4"}, "shards must be .*, got '4'"),
        ({"method": "marker-sharded", "shards": True}, "shards must be .*, got True"),
    ],
)
async def test_a_counter_that_cannot_be_is_refused(options: Any, message: str) -> None:
    """What a method does not have is an error when the counter is made."""
    async with make_table() as table:
        with pytest.raises(InvalidInput, match=message):
            table.counter("stock", **options)


async def test_the_collection_is_the_ledger_of_the_table() -> None:
    """The default counter and `table.ledger` see the same changes."""
    async with make_table() as table:
        await table.counter("stock").add(Decimal("2.5"))
        await table.ledger.record("stock", 1)
        assert (await table.ledger.total("stock", max_age=0)).value == Decimal("3.5")


async def test_sequences_of_both_methods() -> None:
    """Numbers by a counter item, in blocks, and items under numbers."""
    async with make_table() as table:
        orders = table.sequence("orders", block=10)
        assert [await orders.next(), await orders.next()] == [Numbered(1), Numbered(2)]
        tickets = table.sequence("tickets", method="sort-key", consistent=False)
        assert await tickets.append({"title": {"S": "slow"}}) == Numbered(1)
        keeping = table.sequence("carts", kept_seconds=60)
        assert await keeping.next(token="cart-1") == Numbered(1)
        adding = table.sequence("tickets", method="sort-key", after_race="add_one", added_max=1)
        assert await adding.append_many([{"title": {"S": "x"}}] * 2) == Numbered(2, 2)
        with pytest.raises(InvalidInput, match=r"counter, sort-key, got 'sorted'"):
            table.sequence("x", method="sorted")  # type: ignore[call-overload]


class CountingStore(MemoryStore):
    """A store that lets other tasks go on before each write, and counts."""

    queries = writes = 0

    async def query(self, query: Query) -> Page:
        """Read a page."""
        self.queries += 1
        return await super().query(query)

    async def write(self, write: Write) -> Outcome:
        """Write, after the others had their turn."""
        self.writes += 1
        await anyio.lowlevel.checkpoint()
        return await super().write(write)


async def test_calls_of_one_table_queue_whichever_object_they_are_made_of() -> None:
    """Ten calls at once, each of a sequence of its own, take ten writes and do not race."""
    store = CountingStore(HOME)
    async with make_table(store) as table, anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(table.sequence("tickets", method="sort-key").append, {})
    assert (store.queries, store.writes) == (1, 10)


async def test_a_sequence_has_a_name_of_the_rules() -> None:
    """What is no name is an error of ours, by either method."""
    async with make_table() as table:
        for method in ("counter", "sort-key"):
            with pytest.raises(InvalidCounter):
                table.sequence(["tickets"], method=method)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"after_race": "query"}, "method 'counter' takes no after_race, got 'query'"),
        ({"consistent": False}, "method 'counter' takes no consistent, got False"),
        ({"block": "3"}, "block must be a whole number from 1 to 1,000,000, got '3'"),
        ({"added_max": 1}, "method 'counter' takes no added_max, got 1"),
        ({"block": True}, "block must be a whole number from 1 to 1,000,000, got True"),
        ({"kept_seconds": 0}, "kept_seconds must be over 0 and at most 3,153,600,000, got 0"),
        ({"method": "sort-key", "block": 10}, "method 'sort-key' takes no block, got 10"),
        ({"method": "sort-key", "kept_seconds": 9}, "'sort-key' takes no kept_seconds, got 9"),
        (
            {"method": "sort-key", "consistent": "no"},
            "consistent must be True or False, got 'no'",
        ),
        ({"method": "sort-key", "added_max": 0}, "added_max must be a whole number from 1 to 64"),
        (
            {"method": "sort-key", "after_race": "retry"},
            "after_race must be one of query, add_one, got 'retry'",
        ),
    ],
)
async def test_a_sequence_that_cannot_be_is_refused(options: Any, message: str) -> None:
    """An option of the other method is no option, whatever its value."""
    async with make_table() as table:
        with pytest.raises(InvalidInput, match=message):
            table.sequence("orders", **options)


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        ({"owner": "me"}, "owner, got 'me'"),
        ({"check_first": True}, "check_first, got True"),
        ({"terms": LeaseTerms()}, "terms, got LeaseTerms"),
        ({"waiting_max": 5}, "waiting_max, got 5"),
    ],
)
async def test_a_guard_by_condition_takes_no_option_of_a_lock(option: Any, shown: str) -> None:
    """What only a lock has is refused where there is none."""
    async with make_table() as table:
        with pytest.raises(InvalidInput, match=f"method 'condition' takes no {shown}"):
            table.versions(**option)


async def test_a_lock_is_asked_for_first_or_not() -> None:
    """What is neither True nor False is refused by the table too."""
    async with make_table() as table:
        with pytest.raises(InvalidInput, match="check_first must be True or False, got 'no'"):
            table.versions(method="lock", check_first="no")  # type: ignore[call-overload]


async def test_leases_have_owners_of_their_own() -> None:
    """Two contenders of one process differ, and one of them holds."""
    async with make_table() as table:
        one, two = table.lease("nightly"), table.lease("nightly")
        async with one.held(0) as held, two.held(0) as other:
            assert isinstance(held, LeaseGrant)
            assert isinstance(other, NotHeld)
            assert other.owner == one.owner != two.owner
        with pytest.raises(InvalidInput, match="must not be empty"):
            table.lease("nightly", owner="")


async def test_versions_of_both_methods() -> None:
    """Old versions are skipped, by condition and by lock."""
    async with make_table() as table:
        guard = table.versions()
        assert await guard.put(RECORD, version=4) == Handled(4)
        assert await guard.put(RECORD, version=3) == Skipped(3, 4)

        async def nothing(_: Event, lease: Lease) -> Sequence[Action]:
            lease.check()
            return ()

        lock = table.versions(method="lock", terms=LeaseTerms(lease_seconds=5, heartbeat_seconds=1))
        assert await lock.handle(Event("customer", 2), nothing) == Handled(2)
        with pytest.raises(InvalidInput, match=r"condition, lock, got 'none'"):
            table.versions(method="none")  # type: ignore[call-overload]


async def test_a_pipeline_counts_each_record_once(tmp_path: Path) -> None:
    """A file's records are in the totals, the newest version of each, and metrics are shared."""
    registry = CollectorRegistry()
    async with make_table(registry=registry) as table:
        positions: list[str] = []
        opening = table.pipeline(
            "trades", trades(tmp_path), dead_letters=tmp_path / "dead", on_counted=positions.append
        )
        async with opening as pipeline:
            await pipeline.run()
        assert (await table.ledger.total("desk/x", max_age=0)).value == Decimal("8.5")
        assert positions[-1] == pipeline.position
    assert summed(registry, "ledger_pipeline_in_total", stage="state") == 3


async def test_a_pipeline_is_chosen_by_its_name(tmp_path: Path) -> None:
    """Several pipelines of the settings count the same file, each for itself."""
    forms = {name: {"fields": FIELDS, "categories": [f"{name}/{{Desk}}"]} for name in ("a", "b")}
    table = Table(
        make_settings(pipelines=forms),
        region=HOME,
        given=GivenConnections(store=MemoryStore(HOME)),
    )
    async with table:
        for name in forms:
            dead, file = tmp_path / "dead", trades(tmp_path)
            async with table.pipeline("trades", file, dead_letters=dead, name=name) as pipeline:
                await pipeline.run()
        totals = [await table.ledger.total(f"{name}/x", max_age=0) for name in forms]
        assert [total.value for total in totals] == [Decimal("8.5")] * 2
        with pytest.raises(SettingsError, match="no pipeline 'c'"):
            async with table.pipeline("trades", file, dead_letters=dead, name="c"):
                pass


async def test_an_import_counts_each_row_once(tmp_path: Path) -> None:
    """A file imported twice is in the totals once, batch by batch, whoever repeats it."""
    file, batches = changes_file(tmp_path), list[BatchDone]()
    async with make_table() as table:
        first = await table.importer(on_batch=batches.append).run_file(file)
        again = await table.importer().run_file(str(file), Form())
        assert (await table.ledger.total("a", max_age=0)).value == Decimal("3.5")
    assert first is not None
    assert again is not None
    assert (first.rows, first.rows_there, first.finished) == (3, 0, True)
    assert (again.rows, again.rows_there) == (0, 3)
    assert [batch.rows for batch in batches] == [3]


async def test_an_import_refuses_bad_rows_unless_they_are_skipped(tmp_path: Path) -> None:
    """Nothing is written of a file with a bad row, and all but that row if it may be skipped."""
    file = changes_file(tmp_path, "a,1\na,x\n")
    async with make_table() as table:
        with pytest.raises(ImportRefused, match="1 of 2 rows break a rule, the first on line 3"):
            await table.importer().run_file(file)
        assert (await table.ledger.total("a", max_age=0)).entries == 0
        report = await table.importer().run_file(file, skip_bad=True)
        assert report is not None
        assert (report.rows, report.rows_bad) == (1, 1)
        with pytest.raises(InvalidInput, match="unknown suffix"):
            await table.importer().run_file(tmp_path / "changes.xls")


async def test_an_import_is_stopped_and_is_only_for_home(tmp_path: Path) -> None:
    """Stopped before the end of the check it writes nothing; only the home region has one."""
    stop = StopSign()
    stop.ask()
    async with make_table() as table:
        assert await table.importer(stop=stop).run_file(changes_file(tmp_path)) is None
        assert (await table.ledger.total("a", max_age=0)).entries == 0
    async with make_table(MemoryStore(AWAY), region=AWAY) as table:
        with pytest.raises(ImportRefused, match=f"home region {HOME}, not {AWAY}"):
            table.importer()


async def test_a_closed_table_says_so() -> None:
    """Before and after, its parts cannot be made; a region that is not there is refused."""
    table = make_table()
    with pytest.raises(LedgerError, match="not open"):
        table.lease("x")
    async with table:
        await table.ledger.record("c", 1)
    with pytest.raises(LedgerError, match="not open"):
        table.counter("x", method="atomic")
    assert Table.open(make_settings()).region == HOME
    for region in ("us-west-9", ""):
        with pytest.raises(SettingsError, match=f"{region!r} is not one of the regions"):
            Table.open(make_settings(), region=region)
        with pytest.raises(SettingsError, match=f"{region!r} is not one of the regions"):
            Ledger.open(make_settings(), region=region)


async def test_markers_and_histories_are_kept_as_long_as_is_said() -> None:
    """Each method takes its own option, and no other's."""
    async with make_table(MemoryStore(HOME, clock=ManualClock())) as table:
        history = table.counter("h", method="history", tags_max=2)
        assert isinstance(await history.add(1, token="a"), Applied)
        await history.add(1, token="b")
        assert await history.add(1, token="a") == Rejected("applied before")
        await history.add(1, token="c")
        assert isinstance(await history.add(1, token="a"), Applied)
        for method in ("marker", "marker-sharded"):
            for kept in (60, 1.5):
                assert table.counter(f"m-{method}", method=method, kept_seconds=kept)
        for method, option in (
            ("atomic", {"kept_seconds": 60}),
            ("marker", {"tags_max": 3}),
            ("collection", {"tags_max": 3}),
        ):
            with pytest.raises(InvalidInput, match=f"'{method}' takes no {next(iter(option))}"):
                table.counter("x", method=method, **option)  # type: ignore[call-overload]
        refused: tuple[tuple[str, dict[str, object]], ...] = (
            ("marker", {"kept_seconds": 0}),
            ("marker", {"kept_seconds": True}),
            ("history", {"tags_max": 1}),
            ("history", {"tags_max": 101}),
        )
        for method, wrong in refused:
            with pytest.raises(InvalidInput, match=next(iter(wrong))):
                table.counter("x", method=method, **wrong)  # type: ignore[call-overload]
