"""Rows that share items: which do, in what order, at what price, whoever finishes the import."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from support.importing import (
    COMBINED,
    HOME,
    SETTINGS,
    Fate,
    FateStore,
    Killed,
    changes_of,
    csv_of,
    entries_of,
    hinted_in,
    imported,
    seeded,
    sums_of,
    sums_of_csv,
)
from support.live import Live

from ledger.core.capacity import WRITE_UNIT_BYTES, item_size
from ledger.core.entry import entry_of
from ledger.core.parts import GatheredParts, expanded
from ledger.settings import Settings
from ledger.store.memory import MemoryTable
from ledger.store.writes import Put
from ledger.writes.imports.batches import (
    Marking,
    RowItem,
    batches,
    fresh_ids,
    row_items,
    transaction,
    units_of,
)
from ledger.writes.imports.file_format import BATCH_ROWS
from ledger.writes.imports.rows import Row

NOW = datetime(2026, 11, 21, 6, 50, 1, 123456, tzinfo=UTC)
LARGEST = 10**38 - 1
DAY = date(2026, 10, 1)


def row(counter: str, change: int, *, note: str | None = None, day: date | None = None) -> Row:
    """Make a good row."""
    return Row(2, counter, Decimal(change), note, day, f"{counter},{change},{note},{day}\n")


def actions_of(rows: Sequence[Row], settings: Settings = COMBINED) -> tuple[Put, ...]:
    """Return the transaction of the only batch of these rows."""
    (batch,) = batches(rows)
    items = row_items(batch.rows, settings.combines)
    return transaction(
        items,
        fresh_ids(NOW, len(items), seeded(1)),
        Marking("ab" * 32, "{}").marker(batch),
        region=HOME,
        shards_now=settings.shards_now,
        horizon=timedelta(minutes=5),
    )


def told(items: Sequence[RowItem]) -> list[tuple[str, str]]:
    """Return the counter of each item and its parts, or its change if it has none."""
    return [
        (of.counter, of.text if isinstance(of, GatheredParts) else str(of.change)) for of in items
    ]


def test_plain_rows_of_a_combined_counter_share_an_item() -> None:
    """In the order of the file; rows of a counter that the contract does not name stay alone."""
    rows = [row("a", 1), row("x", 2), row("b", 3), row("a", -4), row("x", 5), row("a", 6)]
    settings = SETTINGS.replace(combine=["a", "b"])
    assert told(row_items(rows, settings.combines)) == [
        ("a", "1 -4 6"),
        ("x", "2"),
        ("b", "3"),
        ("x", "5"),
    ]


@pytest.mark.parametrize("own", [row("a", 3, note="rent"), row("a", 3, day=DAY)])
def test_a_row_that_says_more_has_its_own_item_in_its_place(own: Row) -> None:
    """The rows after it do not share with those before: a history has the order of the file."""
    rows = [row("a", 1), row("b", 7), row("a", 2), own, row("a", 4), row("b", 8)]
    items = row_items(rows, COMBINED.combines)
    assert told(items) == [("a", "1 2"), ("b", "7 8"), ("a", "3"), ("a", "4")]
    entries = [entry_of(action.item) for action in actions_of(rows)[:-1]]
    found = [part for entry in entries for part in expanded(entry) if entry.counter == "a"]
    assert [int(part.change) for part in found] == [1, 2, 3, 4]
    assert [part.id for part in found] == sorted(part.id for part in found)
    assert (found[2].note, found[2].effective) == (own.note, own.effective)


def test_rows_share_as_long_as_their_item_costs_one_unit() -> None:
    """Amounts of 38 digits fill several items, none of more than 1 KB, each change in one."""
    rows = [row("a" * 100, LARGEST // 1_000 - number) for number in range(BATCH_ROWS)]
    *entries, _marker = actions_of(rows)
    assert len(entries) > 4
    assert all(item_size(action.item) <= WRITE_UNIT_BYTES for action in entries)
    found = [part for action in entries for part in expanded(entry_of(action.item))]
    assert [part.change for part in found] == [each.change for each in rows]


def test_rows_whose_sum_has_too_many_digits_do_not_share() -> None:
    """Each amount fits in 38 digits, their sum does not: the item ends before it."""
    rows = [row("a", LARGEST), row("a", 2), row("a", -LARGEST), row("a", -4)]
    assert told(row_items(rows, COMBINED.combines)) == [
        ("a", f"{LARGEST}"),
        ("a", f"2 -{LARGEST}"),
        ("a", "-4"),
    ]


def test_a_counter_with_a_long_name_has_an_item_for_each_row() -> None:
    """Beside the name no room is left for several amounts in 1 KB."""
    items = row_items([row("c" * 1_000, 1), row("c" * 1_000, 2)], COMBINED.combines)
    assert [text for _, text in told(items)] == ["1", "2"]


@pytest.mark.parametrize(
    ("counters", "alone", "shared"), [(1, 200, 4), (5, 200, 12), (20, 200, 42), (99, 200, 200)]
)
def test_a_batch_costs_two_units_for_each_item(counters: int, alone: int, shared: int) -> None:
    """And two for its marker: 99 rows of one counter cost what two rows do."""
    rows = [row(f"c{number % counters}", 12_345) for number in range(BATCH_ROWS)]
    assert units_of(actions_of(rows, SETTINGS)) == alone
    assert units_of(actions_of(rows)) == shared


def test_what_shares_an_item_lies_in_one_shard() -> None:
    """In that of the item's id, where readers look for it."""
    settings = COMBINED.replace(shards={"hot": 4})
    entries = [
        entry_of(action.item)
        for number in range(8)
        for action in actions_of([row("hot", number)] * 3, settings)[:-1]
    ]
    assert [entry.count for entry in entries] == [3] * 8
    assert {entry.shard for entry in entries} == {int(entry.id[-16:], 16) % 4 for entry in entries}


async def test_each_row_is_there_once_and_in_order() -> None:
    """A file is imported in a fiftieth of the items, and its second run sends nothing."""
    table, rows = MemoryTable(), 5 * 99
    report = await imported(csv_of(rows), FateStore(table), settings=COMBINED)
    assert (report.rows, report.batches, len(entries_of(table))) == (rows, 5, 25)
    assert report.write_units == 2 * (25 + 5) + 1
    assert sums_of(table) == sums_of_csv(rows)
    assert {name: sorted(each) for name, each in changes_of(table).items()} == {
        f"c{number}": [Decimal(change) for change in range(number, rows, 5)] for number in range(5)
    }
    store = FateStore(table)
    again = await imported(csv_of(rows), store, settings=COMBINED)
    assert (again.rows_there, again.write_units, store.sent) == (rows, 0, [])


@pytest.mark.parametrize("looks", [[COMBINED, SETTINGS], [SETTINGS, COMBINED]])
@pytest.mark.parametrize("fate", ["lands later", "applied, no answer"])
async def test_a_contract_that_changes_between_two_tries(
    looks: Sequence[Settings], fate: Fate
) -> None:
    """The tries of a batch have other items, and its marker lets one of them be written."""
    table = MemoryTable()
    store = FateStore(table, [fate])
    # The run looks at the contract once before the batch, then before each try of it.
    report = await imported(csv_of(99), store, settings=Live(SETTINGS, SETTINGS, *looks))
    assert sorted(len(actions) for actions in store.sent) == [6, 100]
    assert (report.rows, sums_of(table)) == (99, sums_of_csv(99))
    assert sum(map(len, changes_of(table).values())) == 99


@pytest.mark.parametrize(
    ("before", "after", "items"), [(SETTINGS, COMBINED, 5 + 99), (COMBINED, SETTINGS, 99 + 5)]
)
async def test_a_contract_that_changed_before_an_import_is_finished(
    before: Settings, after: Settings, items: int
) -> None:
    """What is there stays as it was written; the other batches go by the contract of their day."""
    table = MemoryTable()
    with pytest.raises(ExceptionGroup) as ended:
        await imported(csv_of(198), FateStore(table, ["applied", "killed before"]), settings=before)
    assert ended.group_contains(Killed)
    report = await imported(csv_of(198), FateStore(table), settings=after)
    assert (report.rows, report.rows_there) == (99, 99)
    assert len(entries_of(table)) == items
    assert sums_of(table) == sums_of_csv(198)


async def test_a_marker_of_a_release_that_shared_no_items_is_known() -> None:
    """Key, borders and the text of the form are what they were: the batch is not written again."""
    marker = {
        "pk": {"S": "~import"},
        "sk": {"S": "a28e655d674399f0628bd44dabd79726f9eabe931a5c8fe3634f0e0a0f52eee3#00000001"},
        "rows": {"N": "99"},
        "columns": {
            "S": '{"batch_bytes":3500000,"batch_rows":99,"change":"change","counter":"counter"'
            ',"counter_format":"{}","delimiter":",","encoding":"utf-8-sig","format":"csv"}'
        },
        "losses": {"N": "0"},
    }
    table = MemoryTable()
    table.set((marker["pk"]["S"], marker["sk"]["S"]), marker)
    report = await imported(csv_of(200), FateStore(table), settings=COMBINED)
    assert (report.rows, report.rows_there) == (101, 99)


async def test_hints_go_by_items() -> None:
    """Rows that share few items are not worth a visit; the same rows in many items are."""
    fold_min = SETTINGS.compactor.fold_min
    for batches_, hinted in ((fold_min - 1, []), (fold_min, ["a"])):
        table = MemoryTable()
        content = "counter,change\n" + "a,1\n" * (BATCH_ROWS * batches_)
        await imported(content, FateStore(table), settings=COMBINED)
        assert len(entries_of(table)) == batches_
        assert hinted_in(table) == hinted
