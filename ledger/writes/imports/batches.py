"""From rows to batches, and from a batch to the transaction that writes it.

A batch holds the next 99 rows of the file, or fewer if these have more than 3.5 MB, counting bad
rows, which are left out. So batch boundaries depend only on the file, and a marker means the same
rows in every run. Entries and marker are in one transaction, each on condition that it is absent::

    run 1   [batch 0: 99 entries + marker] applied, the answer lost
    run 2   [batch 0: 99 other entries + marker] rejected: the marker exists
                                                 nothing of it is written

That is why entry ids can be new at every attempt, and why it does not matter how late a request
arrives or how many days later the file is imported again. Nor does it matter which rows share an
item, or whether the contract combines other counters by then.
"""

import hashlib
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ledger.core import keys
from ledger.core.capacity import item_size, write_units
from ledger.core.entry import AttributeValue, Item, Key, damaged, entry_id, entry_item
from ledger.core.errors import ImportRefused, InvalidInput
from ledger.core.ids import SUFFIX_BITS, EntryId
from ledger.core.parts import GatheredParts
from ledger.core.values import Entry
from ledger.settings import Settings
from ledger.store.conditions import Absent
from ledger.store.writes import Put
from ledger.writes.book_rules import check_not_book
from ledger.writes.imports.file_format import BATCH_BYTES_MAX, BATCH_ROWS
from ledger.writes.imports.rows import BadRow, Row

NUMBER_DIGITS = 8
BATCHES_MAX = 10**NUMBER_DIGITS
DIGEST_BYTES = 8
_BEGIN = "#begin-"
_NUMBER = re.compile(rf"#([0-9]{{{NUMBER_DIGITS}}})\Z", flags=re.ASCII)
_MICROSECOND = timedelta(microseconds=1)

ShardsNow = Callable[[str, datetime], int]
RowItem = Row | GatheredParts
"""What becomes one item: a row, or rows of one counter that share it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The good rows of one batch; `digest` is of all its rows as they are in the file."""

    number: int
    rows: tuple[Row, ...]
    bad: tuple[BadRow, ...]
    digest: bytes

    @property
    def lines(self) -> tuple[int, int]:
        """The lines on which the first and the last row of the batch begin."""
        begins = [row.line for row in self.rows] + [bad.line for bad in self.bad]
        return min(begins), max(begins)


@dataclass(frozen=True, slots=True)
class Marking:
    """What the markers of one import share: the file's hash and the text of its form."""

    file_hash: str
    columns: str

    def key(self, number: int) -> Key:
        """Return the key of a batch's marker."""
        return keys.IMPORT_PARTITION, f"{self.file_hash}#{number:0{NUMBER_DIGITS}d}"

    def begin_key(self, losses: int) -> Key:
        """Return the key of the begin marker written after `losses` losses of a region."""
        return keys.IMPORT_PARTITION, f"{self.file_hash}{_BEGIN}{losses:0{NUMBER_DIGITS}d}"

    def bounds(self) -> tuple[str, str]:
        """Return the first and last sort key that a marker of this file can have."""
        return self.key(0)[1], self.begin_key(BATCHES_MAX - 1)[1]

    def begin(self, losses: int) -> Put:
        """Return the put of the begin marker, on condition that it is absent."""
        return self._put(self.begin_key(losses), losses)

    def marker(self, batch: Batch, losses: int = 0) -> Put:
        """Return the put of a batch's marker, on condition that it is absent.

        `losses` is how many losses of a region the contract names.
        """
        return self._put(self.key(batch.number), losses, rows={"N": str(len(batch.rows))})

    def _put(self, key: Key, losses: int, **more: AttributeValue) -> Put:
        item: Item = {
            "pk": {"S": key[0]},
            "sk": {"S": key[1]},
            **more,
            "columns": {"S": self.columns},
            "losses": {"N": str(losses)},
        }
        return Put(item, Absent())


def batches(records: Iterable[Row | BadRow]) -> Iterator[Batch]:
    """Group rows by their position in the file."""
    for number, chunk in enumerate(_chunks(records)):
        rows = tuple(record for record in chunk if isinstance(record, Row))
        bad = tuple(record for record in chunk if isinstance(record, BadRow))
        yield Batch(number, rows, bad, _digest(chunk))


def check_no_book(batch: Batch, settings: Settings) -> None:
    """Refuse a batch that has a row of a book: an import makes no transfers.

    Raises:
        ImportRefused: nothing of the batch was written.
    """
    for row in batch.rows if settings.books else ():
        try:
            check_not_book(row.counter, settings)
        except InvalidInput as error:
            raise ImportRefused(f"line {row.line}: {error}") from None


def _chunks(records: Iterable[Row | BadRow]) -> Iterator[Sequence[Row | BadRow]]:
    """Part rows so that those of each part fit a transaction: a row has no more than its text."""
    chunk: list[Row | BadRow] = []
    size = 0
    for record in records:
        more = len(_encoded(record))
        if chunk and (len(chunk) == BATCH_ROWS or size + more > BATCH_BYTES_MAX):
            yield chunk
            chunk, size = [], 0
        chunk.append(record)
        size += more
    if chunk:
        yield chunk


def row_items(rows: Iterable[Row], is_combined: Callable[[str], bool]) -> list[RowItem]:
    """Return what the rows of a batch are written as: the plain ones of a combined counter share.

    The rows of a counter keep their order, so none is put before a row that has an item of its own.
    """
    items: list[RowItem] = []
    gathering: dict[str, GatheredParts] = {}
    for row in rows:
        if not row.is_plain or not is_combined(row.counter):
            gathering.pop(row.counter, None)
            items.append(row)
            continue
        gathered = gathering.get(row.counter)
        if gathered is None or not gathered.take(row.change):
            gathered = gathering[row.counter] = GatheredParts(row.counter)
            gathered.take(row.change)
            items.append(gathered)
    return items


def fresh_ids(at: datetime, count: int, randomness: random.Random) -> tuple[EntryId, ...]:
    """Return ids for the items of a batch, a microsecond apart so that they keep their order."""
    return tuple(
        entry_id(at + place * _MICROSECOND, randomness.getrandbits(SUFFIX_BITS))
        for place in range(count)
    )


def transaction(
    items: Sequence[RowItem],
    ids: Sequence[EntryId],
    marker: Put,
    *,
    region: str,
    shards_now: ShardsNow,
    horizon: timedelta,
) -> tuple[Put, ...]:
    """Return the actions that write a batch, all or none: its entries, then its marker.

    Like all entries they are not signed later than the retry horizon, so that none appears under an
    id that may already be merged.
    """
    entries = tuple(
        Put(_item(of, made, region, shards_now), Absent(), not_after=made.at + horizon)
        for of, made in zip(items, ids, strict=True)
    )
    return (*entries, marker)


def units_of(actions: Sequence[Put]) -> int:
    """Return the write units of a transaction in its own region; a rejected one costs the same."""
    return sum(write_units(item_size(action.item), transactional=True) for action in actions)


def batch_number(marker: Item) -> int | None:
    """Return the batch number of a marker; None for a begin marker.

    Raises:
        DamagedItem: its key is malformed; guessing a number could leave out a batch.
    """
    if _BEGIN in marker["sk"]["S"]:
        return None
    number = _NUMBER.search(marker["sk"]["S"])
    if number is None:
        raise damaged(marker, f"a marker ends in # and {NUMBER_DIGITS} digits")
    return int(number[1])


def columns_of(marker: Item) -> str:
    """Return the text of the form under which a batch was imported; empty without one."""
    return str(marker.get("columns", {}).get("S", ""))


def losses_of(marker: Item) -> int:
    """Return how many losses of a region the contract named when a marker was written.

    Raises:
        DamagedItem: it is missing, or not a number; a guess could hide a loss.
    """
    text = str(marker.get("losses", {}).get("N", ""))
    if not (text.isascii() and text.isdigit()):
        raise damaged(marker, f"losses must be a number, got {text!r}")
    return int(text)


def _item(of: RowItem, made: EntryId, region: str, shards_now: ShardsNow) -> Item:
    entry = Entry(
        counter=of.counter,
        id=str(made),
        change=of.change,
        region=region,
        shard=keys.shard_of(made.suffix, shards_now(of.counter, made.at)),
    )
    if isinstance(of, GatheredParts):
        return entry_item(replace(entry, count=of.size, parts=of.text))
    return entry_item(replace(entry, note=of.note, effective=of.effective, metadata=of.metadata))


def _digest(chunk: Iterable[Row | BadRow]) -> bytes:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for record in chunk:
        digest.update(_encoded(record))
    return digest.digest()


def _encoded(record: Row | BadRow) -> bytes:
    return record.raw.encode(errors="surrogatepass")
