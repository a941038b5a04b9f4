"""What the importer does about every outcome of a batch, and about files that are not as before."""

import io
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from support.importing import (
    HOME,
    SETTINGS,
    Fate,
    FateStore,
    Killed,
    MarkerlessStore,
    csv_of,
    entries_of,
    hinted_in,
    imported,
    markers_of,
    source_of,
    sums_of,
    sums_of_csv,
    surveyed,
)
from support.ledgers import services_of

from ledger.core.amounts import EXACT
from ledger.core.entry import key_of
from ledger.core.errors import AccessDenied, ImportRefused, OutcomeUnknown, Throttled
from ledger.core.hints import HINT_PARTITIONS
from ledger.core.keys import IMPORT_PARTITION
from ledger.runtime.clock import system_random
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.reads import Page
from ledger.store.writes import Action, BatchOutcome, BatchWrite, Outcome, Rejected, Unknown, Write
from ledger.testing.clock import ManualClock
from ledger.writes.imports.batch_writer import WRITE_DEADLINES
from ledger.writes.imports.file_format import BATCH_ROWS, ColumnChoice, Form, Format
from ledger.writes.imports.importer import BATCHES_PARALLEL, Importer
from ledger.writes.imports.source import ImportSource
from ledger.writes.imports.survey import StopSign, survey

ROWS = 500
BATCHES = -(-ROWS // BATCH_ROWS)


async def test_every_row_once() -> None:
    """A first import writes every row and a marker for each batch, and says so."""
    table = MemoryTable()
    report = await imported(csv_of(ROWS), FateStore(table))
    assert sums_of(table) == sums_of_csv(ROWS)
    assert (len(entries_of(table)), len(markers_of(table))) == (ROWS, BATCHES)
    assert (report.rows, report.batches, report.rows_there) == (ROWS, BATCHES, 0)
    assert report.finished
    assert report.write_units == 2 * (ROWS + BATCHES) + 1
    assert {item["region"]["S"] for item in entries_of(table)} == {HOME}


async def test_the_same_file_again_sends_nothing() -> None:
    """A second run finds the markers, over several pages, and sends no transaction."""
    table = MemoryTable()
    await imported(csv_of(ROWS), FateStore(table))
    store = FateStore(table)
    report = await imported(csv_of(ROWS), store)
    assert store.sent == []
    assert (report.rows, report.rows_there, report.batches_there) == (0, ROWS, BATCHES)
    assert report.write_units == 0
    assert sums_of(table) == sums_of_csv(ROWS)


async def test_without_markers_the_second_run_doubles() -> None:
    """The mutant: it is the marker, nothing else, that keeps a second run harmless."""
    table = MemoryTable()
    for _run in range(2):
        await imported(csv_of(ROWS), MarkerlessStore(table))
    assert sums_of(table) == {
        name: EXACT.multiply(2, total) for name, total in sums_of_csv(ROWS).items()
    }


@pytest.mark.parametrize("fate", ["applied, no answer", "lands later"])
async def test_without_markers_a_lost_answer_doubles(fate: Fate) -> None:
    """The mutant: ids are new at each attempt, so only the marker makes a retry harmless."""
    table = MemoryTable()
    await imported(csv_of(99), MarkerlessStore(table, [fate]))
    assert len(entries_of(table)) == 198


@pytest.mark.parametrize(
    "fates",
    [
        ["applied, no answer"],
        ["lost, no answer", "lost, no answer"],
        ["lands later"],
        ["lands later", "lands later", "lands later"],
        ["throttled", "lands later", "applied, no answer", "throttled"],
        ["frozen before it signs", "lands later", "frozen before it signs"],
    ],
)
async def test_lost_answers_count_once(fates: Sequence[Fate]) -> None:
    """Whatever became of a transaction without an answer, its rows are there once."""
    table = MemoryTable()
    report = await imported(csv_of(ROWS), FateStore(table, fates))
    assert sums_of(table) == sums_of_csv(ROWS)
    assert len(entries_of(table)) == ROWS
    assert (report.rows, report.rows_there) == (ROWS, 0)


async def test_an_unknown_end_is_said_and_mended_by_another_run() -> None:
    """After the time of an import it gives up, says what to do, and doing it is right."""
    table = MemoryTable()
    clock = ManualClock(instant=True)
    fates: list[Fate] = ["lands later"] * 1_000
    store = FateStore(table, fates)
    importer = Importer(store, SETTINGS, services=services_of(clock, system_random()))
    with pytest.raises(OutcomeUnknown, match="run the same command again") as unknown:
        await importer.run(source_of(csv_of(99)), await surveyed(csv_of(99)))
    assert "lines 2 to 100" in str(unknown.value)
    assert unknown.value.entries == ()
    assert clock.elapsed >= SETTINGS.write_deadline * WRITE_DEADLINES
    await store.land()
    await imported(csv_of(99), FateStore(table))
    assert sums_of(table) == sums_of_csv(99)


async def test_throttling_without_end_is_raised_as_it_is() -> None:
    """What is known not to be written ends in the store's own error, after the time."""
    table = MemoryTable()
    with pytest.raises(Throttled, match="too many requests"):
        await imported(csv_of(99), FateStore(table, ["throttled"] * 1_000))
    assert (entries_of(table), markers_of(table)) == ([], [])


async def test_an_entry_id_that_is_taken_is_replaced() -> None:
    """A collision of an entry's id, without the marker, is tried with new ids."""
    table = MemoryTable()
    await imported("counter,change\na,1\n", FateStore(table), seed=7)
    report = await imported("counter,change\na,2\n", FateStore(table), seed=7)
    assert report.rows == 1
    assert sums_of(table) == {"a": Decimal(3)}


class SilentStore(FateStore):
    """An engine that says which condition failed, but not what was there."""

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction."""
        outcome = await super().transact(actions, token=token)
        if isinstance(outcome, Rejected):
            return Rejected(found=dict.fromkeys(outcome.found))
        return outcome


def overtaken(store: FateStore, other_run: Callable[[], Awaitable[object]]) -> FateStore:
    """Let another run come in after this one has read the markers."""
    query = store.query

    async def query_then_overtaken(*args: Any, **options: Any) -> Page:
        page = await query(*args, **options)
        await other_run()
        return page

    store.query = query_then_overtaken  # type: ignore[method-assign]
    return store


@pytest.mark.parametrize("store_type", [FateStore, SilentStore])
async def test_two_runs_at_once_share_the_rows(store_type: type[FateStore]) -> None:
    """A run that meets markers written since it began counts those batches as there already."""
    table = MemoryTable()
    content = csv_of(ROWS)
    there: list[bool] = []
    store = overtaken(store_type(table), lambda: imported(content, FateStore(table)))
    await imported(content, store, on_batch=lambda done: there.append(done.there))
    assert there == [True] * BATCHES
    assert sums_of(table) == sums_of_csv(ROWS)


async def test_the_same_file_in_another_way_is_refused() -> None:
    """The same bytes with other columns are refused, naming both ways, and nothing is written."""
    table = MemoryTable()
    content = "counter,change,balance\na,1,10\n"
    await imported(content, FateStore(table))
    before = list(table.items())
    store = FateStore(table)
    with pytest.raises(ImportRefused) as refused:
        await imported(content, store, form=Form(columns=ColumnChoice(change="balance")))
    assert '"change":"change"' in str(refused.value)
    assert '"change":"balance"' in str(refused.value)
    assert (store.sent, list(table.items())) == ([], before)


async def test_another_way_that_began_first_is_refused() -> None:
    """Of two runs at once with other columns one is refused, by the begin marker that it meets."""
    table = MemoryTable()
    content = "counter,change,balance\na,1,10\n"
    other = Form(columns=ColumnChoice(change="balance"))
    store = overtaken(FateStore(table), lambda: imported(content, FateStore(table)))
    with pytest.raises(ImportRefused, match="imported before as"):
        await imported(content, store, form=other)
    assert store.sent == []
    assert sums_of(table) == {"a": Decimal(1)}


@pytest.mark.parametrize("store_type", [FateStore, SilentStore])
async def test_another_way_found_only_in_the_transaction_is_refused(
    store_type: type[FateStore],
) -> None:
    """A release that writes no begin marker is met at its batch."""
    table = MemoryTable()
    content = "counter,change,balance\na,1,10\n"
    other = Form(columns=ColumnChoice(change="balance"))
    former = MemoryTable()
    await imported(content, FateStore(former))

    async def other_run() -> None:
        (marker,) = markers_of(former)
        table.set((marker["pk"]["S"], marker["sk"]["S"]), marker)

    store = store_type(table)
    write = store.write

    async def overtaken_write(put: Write) -> Outcome:
        await other_run()
        return await write(put)

    store.write = overtaken_write  # type: ignore[assignment, method-assign]
    with pytest.raises(ImportRefused, match="imported before as"):
        await imported(content, store, form=other)
    assert len(store.sent) == 1
    assert entries_of(table) == []


async def test_a_marker_of_somebody_else_is_refused() -> None:
    """A marker that does not say how its batch was imported is no leave to go on."""
    table = MemoryTable()
    found = await surveyed("counter,change\na,1\n")
    key = found.marking.key(0)
    table.set(key, {"pk": {"S": key[0]}, "sk": {"S": key[1]}, "rows": {"N": "1"}})
    with pytest.raises(ImportRefused, match="imported before as something unknown"):
        await imported("counter,change\na,1\n", FateStore(table))


async def test_another_file_is_another_import() -> None:
    """Markers of one file say nothing of another; one byte makes another file."""
    table = MemoryTable()
    await imported("counter,change\na,1\n", FateStore(table))
    await imported("counter,change\na,1\n\n", FateStore(table))
    assert sums_of(table) == {"a": Decimal(2)}


async def test_bad_rows_are_left_out_and_stay_out() -> None:
    """The importer writes the good rows; a batch of nothing else leaves its marker only."""
    table = MemoryTable()
    content = "counter,change\n" + "a,x\n" * 99 + "a,1\nb,y\n"
    for expected in (1, 0):
        report = await imported(content, FateStore(table))
        assert (report.rows, report.rows_bad, report.finished) == (expected, 100, True)
    assert [marker["rows"]["N"] for marker in markers_of(table)] == ["0", "1"]
    assert sums_of(table) == {"a": Decimal(1)}


@pytest.mark.parametrize(
    ("content", "form", "rule"),
    [
        ("counter,change\n", Form(), "made.csv: the file has no rows"),
        (
            "counter,change\na,x\n",
            Form(),
            "none of 1 rows is good; line 2: amount must be a decimal number, got 'x'",
        ),
        (
            '{"account": 1, "change": 2}\n',
            Form(format=Format.JSONL),
            "none of 1 rows is good; line 1: the object has no 'counter'; it has: 'account', 'ch",
        ),
        (
            '{"counter": "a", "change": 2}\n',
            Form(format=Format.JSONL, columns=ColumnChoice(note="memo")),
            "no row has the column 'memo'",
        ),
        (b"\x00", Form(encoding="utf-16"), "made.csv: line 1 is not utf-16"),
    ],
)
async def test_files_that_give_nothing_are_refused(
    content: str | bytes, form: Form, rule: str
) -> None:
    """A file without one good row is refused: its markers would only block a better try."""
    with pytest.raises(ImportRefused) as refused:
        await surveyed(content, form)
    assert rule in str(refused.value)


async def test_asked_to_stop_it_finishes_what_is_in_flight() -> None:
    """After a stop no batch is begun, the report says what is left, the next run finishes."""
    table = MemoryTable()
    stop = StopSign()
    report = await imported(
        csv_of(ROWS), FateStore(table), stop=stop, on_batch=lambda _: stop.ask()
    )
    assert not report.finished
    assert 1 <= report.batches <= BATCHES_PARALLEL
    assert report.rows + report.rows_left == ROWS
    assert len(entries_of(table)) == report.rows
    rest = await imported(csv_of(ROWS), FateStore(table))
    assert (rest.rows, rest.rows_there) == (report.rows_left, report.rows)
    assert sums_of(table) == sums_of_csv(ROWS)


async def test_asked_to_stop_it_does_not_wait_for_answers() -> None:
    """A stop ends the retries of a batch; what may have landed is no harm to the next run."""
    table = MemoryTable()
    stop = StopSign()

    class Stopping(FateStore):
        async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
            await super().transact(actions, token=token)
            stop.ask()
            return Unknown("no answer")

    store = Stopping(table)
    report = await imported(csv_of(99), store, stop=stop)
    assert (len(store.sent), report.rows, report.batches_left) == (1, 0, 1)
    await imported(csv_of(99), FateStore(table))
    assert sums_of(table) == sums_of_csv(99)


async def test_at_most_so_many_batches_are_in_flight() -> None:
    """The work is bounded: no more transactions at once than the constant says."""
    flying = most = 0

    class Counting(FateStore):
        async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
            nonlocal flying, most
            flying += 1
            most = max(most, flying)
            outcome = await super().transact(actions, token=token)
            flying -= 1
            return outcome

    await imported(csv_of(ROWS), Counting(MemoryTable()))
    assert most == BATCHES_PARALLEL


async def test_a_failure_lets_the_others_finish_and_is_raised_plainly() -> None:
    """One batch that fails ends the run with its own error, not with a group of errors."""
    table = MemoryTable()

    class Denying(FateStore):
        async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
            await checkpoint()
            if actions[-1].key[1].endswith("#00000002"):
                raise AccessDenied("not allowed")
            return await super().transact(actions, token=token)

    with pytest.raises(AccessDenied, match="not allowed"):
        await imported(csv_of(ROWS), Denying(table))
    assert len(markers_of(table)) == BATCHES_PARALLEL - 1
    await imported(csv_of(ROWS), FateStore(table))
    assert sums_of(table) == sums_of_csv(ROWS)


@pytest.mark.parametrize("fate", ["killed before", "killed after"])
@pytest.mark.parametrize("at", range(BATCHES))
async def test_killed_at_any_batch(fate: Fate, at: int) -> None:
    """Killed at any batch, before or after it was applied, the next run makes it whole."""
    table = MemoryTable()
    before: list[Fate] = ["applied"]
    fates = [*(before * at), fate]
    with pytest.raises(ExceptionGroup) as ended:
        await imported(csv_of(ROWS), FateStore(table, fates))
    assert ended.group_contains(Killed)
    await imported(csv_of(ROWS), FateStore(table))
    assert sums_of(table) == sums_of_csv(ROWS)
    assert len(entries_of(table)) == ROWS


async def test_a_file_that_grows_is_imported_as_it_was_checked() -> None:
    """Rows appended between the passes are not of this import."""
    table = MemoryTable()
    found = await surveyed(csv_of(150))
    importer = Importer(
        FateStore(table),
        SETTINGS,
        services=services_of(ManualClock(instant=True), system_random()),
    )
    report = await importer.run(source_of(csv_of(200)), found)
    assert report.rows == 150
    assert sums_of(table) == sums_of_csv(150)


@pytest.mark.parametrize(
    ("change", "batches"),
    [
        (lambda text: text.replace("c0,0\n", "c0,7\n"), 0),
        (lambda text: text.replace("c0,150\n", "c0,160\n"), 1),
        (lambda text: text[: text.index("c4,199")], 2),
        (lambda text: text.replace("counter,change", "change,counter"), 0),
    ],
)
async def test_a_file_that_changes_is_noticed(change: Callable[[str], str], batches: int) -> None:
    """What differs from what was checked is not written, from the batch that differs on."""
    table = MemoryTable()
    found = await surveyed(csv_of(200))
    importer = Importer(
        FateStore(table),
        SETTINGS,
        services=services_of(ManualClock(instant=True), system_random()),
    )
    with pytest.raises(ImportRefused, match="has changed since it was checked"):
        await importer.run(source_of(change(csv_of(200))), found)
    assert len(markers_of(table)) == batches
    await imported(csv_of(200), FateStore(table))
    assert sums_of(table) == sums_of_csv(200)


def test_only_the_home_region_writes_imports() -> None:
    """A store of another region is refused: its markers would not be seen in time."""
    with pytest.raises(ImportRefused, match="home region us-east-1, not eu-west-1"):
        Importer(
            MemoryStore("eu-west-1"),
            SETTINGS,
            services=services_of(ManualClock(instant=True), system_random()),
        )


async def test_a_disk_that_fails_is_one_clear_error() -> None:
    """A file that cannot be read to its end is refused before anything is written."""

    class Failing(io.BytesIO):
        def read(self, _size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    broken = ImportSource("disk.csv", Failing())
    with pytest.raises(ImportRefused, match=r"disk\.csv: the file cannot be read: Input/output"):
        await survey(broken, Form(), SETTINGS, stop=StopSign())


async def test_asked_to_stop_while_checking_nothing_was_done() -> None:
    """A stop in the first pass ends it without a survey."""
    stop = StopSign()
    stop.ask()
    assert await survey(source_of(csv_of(500)), Form(), SETTINGS, stop=stop) is None


def test_the_marker_partition_is_the_designs() -> None:
    """Markers lie where the design has them, so that policies and tools find them."""
    assert IMPORT_PARTITION == "~import"


async def test_hints_lead_to_the_counters_that_are_worth_a_merge() -> None:
    """A counter of which enough rows were imported does not wait for the compactor's search."""
    table = MemoryTable()
    few = "".join(f"few,{number}\n" for number in range(SETTINGS.compactor.fold_min - 1))
    many = "".join(f"many,{number}\n" for number in range(SETTINGS.compactor.fold_min))
    await imported(f"counter,change\n{few}{many}", FateStore(table))
    assert hinted_in(table) == ["many"]


async def test_a_repeated_run_leaves_the_hints_of_one_that_was_killed() -> None:
    """Its rows are there, and the hints that it had not written yet are not."""
    table = MemoryTable()
    await imported(csv_of(ROWS), FateStore(table))
    left = hinted_in(table)
    for key in [key_of(item) for item in table.items() if item["pk"]["S"] in HINT_PARTITIONS]:
        table.set(key, None)
    await imported(csv_of(ROWS), FateStore(table))
    assert hinted_in(table) == left != []


async def test_an_import_without_the_right_to_leave_hints_is_finished() -> None:
    """They only save time: what cannot be left is found by the search."""
    table = MemoryTable()
    report = await imported(csv_of(ROWS), HintlessStore(table))
    assert (report.finished, hinted_in(table)) == (True, [])


class HintlessStore(FateStore):
    """A store whose role may not write hints."""

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Refuse every write."""
        raise AccessDenied(f"{len(writes)} hints")
