"""A counter's total at a moment: of what was made, or is effective, before it.

Of each shard: the entries that the net does not name, by their own times, and the merged ones, from
the archive. The newest segment that ended before the moment holds the net's sum then; added to it
are the earlier entries in later segments, to which their pointers lead. So a moment far back costs
as little as a recent one. What is not archived has no times any more: a moment before it is
refused. By effective date every entry of the archive is read, unless sums by period cover it.

The result is exact: late and back-dated entries count where they belong, once they have arrived.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal

from ledger.core import amounts, books, ids
from ledger.core.errors import InvalidInput
from ledger.core.fold import Collection, Portions
from ledger.core.ids import EPOCH, MICROSECOND
from ledger.core.periods import zone_of
from ledger.core.values import NetChange
from ledger.reads.archive.access import archived_of
from ledger.reads.archive.reader import ArchiveReader
from ledger.reads.archive.segments import Line
from ledger.runtime.tasks import in_portions

LINES_AT_ONCE = 8
"""Archived transfers that are added up in one turn of the event loop: many may share an item."""
_YEARS = (1970, 9998)


@dataclass(frozen=True, slots=True)
class Moment:
    """Before which moment changes count: as a time, and for effective dates as a day of a zone."""

    at: datetime
    day: date
    zone: str
    effective: bool

    @property
    def microseconds(self) -> int:
        """The last microsecond that counts, since 1970; -1 if none does."""
        return (self.at - EPOCH) // MICROSECOND - 1


def moment_of(at: object, *, effective: bool, zone: str) -> Moment:
    """Return a moment; a date means its beginning in a zone.

    Raises:
        InvalidInput: it is neither a date nor an aware datetime, or not within 1970 to 9998; or it
            is a time of day, and `effective` is asked for.
    """
    if not isinstance(at, date) or (isinstance(at, datetime) and at.tzinfo is None):
        raise InvalidInput(f"at must be a date or an aware datetime, got {at!r}")
    if not _YEARS[0] <= at.year <= _YEARS[1]:
        raise InvalidInput(f"at must be within the years 1970 to 9998, got {at}")
    if not isinstance(at, datetime):
        start = datetime(at.year, at.month, at.day, tzinfo=zone_of(zone))
        return Moment(start.astimezone(UTC), at, zone, effective)
    if effective:
        raise InvalidInput(f"changes are effective from a date: at must be a date, got {at!r}")
    return Moment(at.astimezone(UTC), at.date(), zone, effective)


@dataclass(frozen=True, slots=True)
class PartBefore:
    """The value of one shard: its sum, and the number of entries in it, merged or not.

    Of a book also its accounts.
    """

    change: Decimal
    entries: int
    merged: int
    accounts: books.Accounts | None = None


async def read_part_before(
    moment: Moment, partition: str, collection: Collection, archive: ArchiveReader | None
) -> PartBefore:
    """Return the sum of a collection before a moment.

    Raises:
        InvalidInput: a pipeline adds to it, or it was merged past the moment without an archive.
        ArchiveError: the archive cannot be read.
    """
    if collection.sums:
        raise InvalidInput(
            f"a pipeline adds to {partition!r}: what it adds has no times, so there is no total at"
            " a moment"
        )
    balances = None if collection.legs is None else books.AccountSums()
    shown, entries = await in_portions(_unmerged_before(moment, collection, balances))
    net = collection.net
    if net is None:
        return _part(shown, entries, 0, balances)
    head = archived_of(net, partition)
    if net.archive is None or archive is None:
        if not _is_past(moment, net.until):
            raise _too_far_back(moment, partition, net.until, "merged without an archive")
        if balances is not None:
            balances.add(books.accounts_of(net))
        return _part(amounts.total_wide([net.change, shown]), entries, net.count, balances)
    if not _is_past(moment, head.since):
        raise _too_far_back(moment, partition, head.since, "merged before the archive began")
    merged = _effective_before if moment.effective else _made_before
    change, count = await merged(moment, partition, net, archive, balances)
    return _part(amounts.total_wide([change, shown]), entries, count, balances)


def _part(
    change: Decimal, entries: int, merged: int, balances: books.AccountSums | None
) -> PartBefore:
    return PartBefore(change, entries, merged, None if balances is None else balances.accounts())


def _unmerged_before(
    moment: Moment, collection: Collection, balances: books.AccountSums | None
) -> Portions[tuple[Decimal, int]]:
    """Return the sum, and number, of the entries before a moment; the collection keeps none."""
    total, count, legs = Decimal(0), 0, collection.legs or {}
    for portion in collection.take_unmerged():
        found = [
            (key, change) for key, effective, change in portion if _counts(moment, key, effective)
        ]
        total = amounts.total_wide([total, *(change for _, change in found)])
        count += len(found)
        for key, _ in found if balances is not None else ():
            balances.move(legs.get(key, ()))  # type: ignore[union-attr]
        yield
    return total, count


def _counts(moment: Moment, key: str, effective: str | None) -> bool:
    """Return whether an entry counts; a foreign one, whose key has no time, always does."""
    parsed = ids.parse(key)
    if not moment.effective:
        return parsed is None or parsed.microseconds <= moment.microseconds
    if effective is not None:
        return effective < moment.day.isoformat()
    return parsed is None or parsed.at.astimezone(zone_of(moment.zone)).date() < moment.day


def _is_past(moment: Moment, until: str) -> bool:
    """Return whether all entries up to an id certainly count: by effective date only if none is."""
    parsed = ids.parse(until)
    if parsed is None:
        return True
    return not moment.effective and parsed.microseconds <= moment.microseconds


def _too_far_back(moment: Moment, partition: str, until: str, why: str) -> InvalidInput:
    when = "by effective date" if moment.effective else f"before {moment.at.isoformat()}"
    return InvalidInput(
        f"the total of {partition!r} {when} is not known any more: entries up to {until} were {why}"
    )


async def _made_before(
    moment: Moment,
    partition: str,
    net: NetChange,
    archive: ArchiveReader,
    balances: books.AccountSums | None,
) -> tuple[Decimal, int]:
    """Return the sum, and number, of the merged entries made before a moment; add their legs."""
    last, head = moment.microseconds, archived_of(net, partition)
    change, count, number = head.base_change, head.base_count, 0
    pointers = head.pointers
    while True:
        ended = next((pointer for pointer in pointers if pointer.until <= last), None)
        later = [pointer for pointer in pointers if pointer.until > last]
        if ended is not None and (not later or later[-1].number == ended.number + 1):
            segment = await archive.segment(partition, ended)
            change, count, number = segment.change, segment.count, segment.number
            if balances is not None:
                balances.add(segment.balances)
            break
        if not later or later[-1].number == 1:
            if balances is not None and head.base_count:
                first = await archive.segment(partition, later[-1]) if later else None
                if first is None:
                    balances.add(books.accounts_of(net))
                else:
                    balances.add(first.balances)
                    await in_portions(_moved(first.lines, balances, back=True))
            break
        pointers = (await archive.segment(partition, later[-1])).pointers
    found = await archive.located(partition, head, last=last, after=number)
    late = [
        line async for line in archive.lines(partition, found) if ids.moment_of(line.id) < moment.at
    ]
    moved = await in_portions(_moved(late, balances))
    return amounts.total_wide([change, *moved]), count + len(late)


def _moved(
    lines: Iterable[Line], balances: books.AccountSums | None, *, back: bool = False
) -> Portions[list[Decimal]]:
    """Return the changes of archived entries; add their legs, or take them back."""
    changes = list[Decimal]()
    for line in lines:
        changes.append(line.change)
        if balances is None:
            continue
        balances.move(books.opposite(line.legs) if back else line.legs)
        if len(changes) % LINES_AT_ONCE == 0:
            yield
    return changes


async def _effective_before(
    moment: Moment,
    partition: str,
    net: NetChange,
    archive: ArchiveReader,
    balances: books.AccountSums | None,
) -> tuple[Decimal, int]:
    """Return the sum, and number, of the archived entries that are effective before a day."""
    total, count = Decimal(0), 0
    async for segment in archive.walk(partition, archived_of(net, partition)):
        lines = (line for line in segment.lines if _counts(moment, line.id, line.effective))
        found = await in_portions(_moved(lines, balances))
        total, count = amounts.total_wide([total, *found]), count + len(found)
    return total, count
