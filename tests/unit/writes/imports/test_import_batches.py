"""Rows become batches by position, and batches transactions with their marker."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from support.importing import seeded

from ledger.core import ids
from ledger.core.capacity import item_size
from ledger.core.entry import NOTE_BYTES_MAX, entry_of
from ledger.core.errors import DamagedItem
from ledger.core.ids import EntryId
from ledger.settings import Settings
from ledger.store.conditions import Absent
from ledger.store.writes import TRANSACTION_ACTIONS_MAX, Put
from ledger.writes.imports.batches import (
    BATCHES_MAX,
    Batch,
    Marking,
    ShardsNow,
    batch_number,
    batches,
    fresh_ids,
    losses_of,
    transaction,
    units_of,
)
from ledger.writes.imports.file_format import ColumnChoice, Columns, Form, Format
from ledger.writes.imports.rows import BadRow, Row

NOW = datetime(2026, 11, 21, 6, 50, 1, 123456, tzinfo=UTC)
MARKING = Marking("ab" * 32, "{}")
HORIZON = timedelta(minutes=5)
TRANSACTION_BYTES_MAX = 4 * 1024 * 1024


def row(line: int, *, counter: str = "a", note: str | None = None) -> Row:
    """Make a good row."""
    return Row(line, counter, Decimal(line), note, None, f"a,{line}\n")


def one_shard(_counter: str, _at: datetime) -> int:
    """Keep every counter whole."""
    return 1


def written(
    batch: Batch, made: Sequence[EntryId], marker: Put, *, shards_now: ShardsNow = one_shard
) -> tuple[Put, ...]:
    """Return the transaction of a batch of which no rows share an item."""
    return transaction(
        batch.rows, made, marker, region="us-east-1", shards_now=shards_now, horizon=HORIZON
    )


def test_borders_are_those_of_the_file() -> None:
    """Bad rows keep their place: the borders are the same whether they are there or mended."""
    good = [row(line) for line in range(2, 202)]
    mixed = [BadRow(r.line, "", r.raw) if r.line % 7 == 0 else r for r in good]
    expected = [range(2, 101), range(101, 200), range(200, 202)]
    for records in (good, mixed):
        made = list(batches(records))
        assert [batch.number for batch in made] == [0, 1, 2]
        lines = [
            sorted([row.line for row in batch.rows] + [bad.line for bad in batch.bad])
            for batch in made
        ]
        assert lines == [list(each) for each in expected]
    assert [batch.digest for batch in batches(good)] == [batch.digest for batch in batches(mixed)]


def test_a_digest_sees_every_change() -> None:
    """Batches that differ in one character of one row have other digests."""
    (one,) = batches([row(2), row(3)])
    (other,) = batches([row(2), Row(3, "a", Decimal(3), None, None, "a,3 \n")])
    assert one.digest != other.digest


def test_a_transaction_holds_the_entries_and_their_marker() -> None:
    """A full batch takes the 100 actions there are, each on the condition that it is new."""
    (batch,) = batches([row(line) for line in range(2, 101)])
    made = fresh_ids(NOW, 99, seeded(1))
    actions = written(batch, made, MARKING.marker(batch, 2))
    assert len(actions) == TRANSACTION_ACTIONS_MAX
    assert {action.condition for action in actions} == {Absent()}
    assert [action.not_after for action in actions[:-1]] == [
        entry_id.at + HORIZON for entry_id in made
    ]
    assert actions[-1].item == {
        "pk": {"S": "~import"},
        "sk": {"S": f"{'ab' * 32}#00000000"},
        "rows": {"N": "99"},
        "columns": {"S": "{}"},
        "losses": {"N": "2"},
    }
    entry = entry_of(actions[4].item)
    assert (entry.counter, entry.change, entry.region) == ("a", Decimal(6), "us-east-1")
    assert entry.id.startswith("2026-11-21T06:50:01.123460Z#")


def test_a_batch_without_good_rows_is_its_marker() -> None:
    """Nothing but the marker is written, so that a later run knows the batch."""
    batch = Batch(3, (), (BadRow(2, "", ""),), b"")
    (marker,) = written(batch, (), MARKING.marker(batch))
    assert (marker.key[1][-9:], marker.item["rows"]) == ("#00000003", {"N": "0"})


def test_ids_keep_the_order_of_the_file() -> None:
    """The ids of a batch are new each time and rise with the rows."""
    randomness = seeded(5)
    first, second = (fresh_ids(NOW, 99, randomness) for _ in range(2))
    assert list(first) == sorted(first)
    assert not {made.suffix for made in first} & {made.suffix for made in second}


def test_shards_are_those_of_the_settings() -> None:
    """Each entry lies in the shard that its id gives, and readers find them all there."""
    settings = Settings(home="us-east-1", regions={"us-east-1": {}}, shards={"hot": 4})
    (batch,) = batches([row(line, counter="hot") for line in range(2, 101)])
    made = fresh_ids(NOW, 99, seeded(2))
    actions = written(batch, made, MARKING.marker(batch), shards_now=settings.shards_now)
    partitions = {action.key[0] for action in actions[:-1]}
    assert partitions == {"hot", "~1~hot", "~2~hot", "~3~hot"}
    for action in actions[:-1]:
        parsed = ids.parse(action.key[1])
        assert parsed is not None
        assert action.key[0] == ("hot" if parsed.suffix % 4 == 0 else f"~{parsed.suffix % 4}~hot")


@pytest.mark.parametrize(("note_bytes", "rows"), [(33_950, 99), (NOTE_BYTES_MAX, 8)])
def test_the_largest_batch_fits_a_transaction(note_bytes: int, rows: int) -> None:
    """The longest counters and notes stay under DynamoDB's 4 MB: of the longest notes, a few."""
    counter, change, note = "c" * 1024, "1." + "1" * 37, "n" * note_bytes
    raw = f"{counter},{change},{note}\n"
    named = {"m" * 1024: "", "n" * 1023: "1"} if note_bytes < NOTE_BYTES_MAX else None
    largest = Row(2, counter, Decimal(change), note, NOW.date(), raw, named)
    batch, *_ = batches([largest] * 200)
    assert len(batch.rows) == rows
    column = "c" * 1024
    form = Form(columns=ColumnChoice(column, column, column, column, tuple(named or ())))
    actions = transaction(
        batch.rows,
        fresh_ids(NOW, rows, seeded(3)),
        Marking("ab" * 32, form.text(Columns("c", "d"))).marker(batch),
        region="ap-southeast-1",
        shards_now=lambda _counter, _at: 100,
        horizon=HORIZON,
    )
    size = sum(item_size(action.item) for action in actions)
    assert TRANSACTION_BYTES_MAX * 0.75 < size < TRANSACTION_BYTES_MAX


def test_small_rows_cost_two_units_each() -> None:
    """A transaction costs double: 2 units a row of up to 1 KB, and 2 for the marker."""
    (batch,) = batches([row(line) for line in range(2, 12)])
    made = fresh_ids(NOW, 10, seeded(1))
    actions = written(batch, made, MARKING.marker(batch))
    assert units_of(actions) == 22


def test_bounds_hold_every_marker_of_a_file() -> None:
    """The markers of a file, and none of another's, lie between the bounds."""
    first, last = MARKING.bounds()
    keys = [MARKING.key(number)[1] for number in (0, 1, 99, BATCHES_MAX - 1)]
    assert keys == sorted(keys)
    begins = [MARKING.begin_key(losses)[1] for losses in (0, 1, BATCHES_MAX - 1)]
    assert begins == sorted(begins)
    assert (first, last) == (keys[0], begins[-1])
    assert keys[-1] < begins[0]
    assert [batch_number(MARKING.begin(losses).item) for losses in (0, 7)] == [None, None]
    assert not first <= Marking("ac" * 32, "{}").key(0)[1] <= last


def test_losses_of_a_marker() -> None:
    """A marker must say a number."""
    assert losses_of(MARKING.begin(3).item) == 3
    with pytest.raises(DamagedItem, match="losses must be a number, got ''"):
        losses_of({"pk": {"S": "~import"}, "sk": {"S": "ab#00000000"}})
    for text in ("", "-1", "1.5", "²"):
        with pytest.raises(DamagedItem, match="losses must be a number"):
            losses_of({**MARKING.begin(3).item, "losses": {"N": text}})


def test_the_text_of_a_form_is_what_decides_the_entries() -> None:
    """Each choice that gives other entries gives another text; what gives the same does not."""
    columns = Columns("account", "change")
    forms = [
        Form(),
        Form(format=Format.JSONL),
        Form(delimiter=";"),
        Form(encoding="latin-1"),
        Form(counter_format="account-{}"),
    ]
    texts = [form.text(columns) for form in forms]
    texts += [
        Form().text(Columns("account", "change", note="n")),
        Form().text(Columns("account", "change", effective="n")),
        Form().text(Columns("account", "change", metadata="n")),
        Form().text(Columns("account", "change", metadata=("n",))),
        Form().text(Columns("account", "balance")),
        Form().text(Columns("counter", "change")),
    ]
    assert len(set(texts)) == len(texts)
    assert Form(encoding="UTF8").text(columns) == Form(encoding="utf-8").text(columns)
