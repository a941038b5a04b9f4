"""The in-progress marker of a lane: no record is passed over whose effect a state may already show.

A lane's position may pass only records that have been counted. A source that gives up on a batch
breaks that: Lambda does once its records are too old, a stream does when it forgets them. If
processing of the batch had started, states may show what it changed, and the next commit would
move the position past it, as if that were in the totals::

    at 10   event (11..20): states written, killed, given up
            event (21..30): in progress since 11, not committed, and not here: refused

So before its states are written, an event leaves a marker beside the lane's position: its first and
its last record. The marker is never narrowed before the position has passed it.

It catches a gap after the first record in progress, or after the last one; not a piece missing in
the middle of an event of which a part is committed and the rest was divided differently.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ledger.core.entry import Item, damaged
from ledger.core.errors import LeftOut, Unreachable
from ledger.pipeline.core.items import position_key, position_of
from ledger.store.conditions import Absent, AllOf, Condition, Equals
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Applied, Put

MARKER_SORT_KEY = "begun"
TRIES_MAX = 10


class InProgress(NamedTuple):
    """From which position to which records may be in progress."""

    first: str
    last: str


def joined(known: InProgress | None, committed: str, asked: InProgress) -> InProgress:
    """Return the marker under which records after a committed position may be processed.

    Raises:
        LeftOut: other records in progress, not committed, lie between.
    """
    if known is None or known.last <= committed:
        return asked
    missing = known.first if known.first > committed else known.last
    if asked.first > missing:
        raise LeftOut(
            f"the record at {missing.lstrip('0')} was in progress and is not in the totals, but the"
            f" stream goes on at {asked.first.lstrip('0')}: restart the event source mapping"
            " before it (StartingPosition); records that come again do no harm"
        )
    return InProgress(asked.first, max(asked.last, known.last))


async def begin(store: Store, lane: str, positions: Sequence[str], *, pipeline: str = "") -> None:
    """Leave the marker of records at these positions, as far as they are not committed yet.

    Raises:
        LeftOut: other records in progress, not committed, lie between.
        StoreError: the marker could not be written.
    """
    partition = position_key(lane, pipeline)[0]
    for _ in range(TRIES_MAX):
        # In this order: what is committed in between has passed the marker, not the reverse.
        known = mark_of(await store.get(Get((partition, MARKER_SORT_KEY))))
        committed = position_of(await store.get(Get(position_key(lane, pipeline))))
        first = next((position for position in positions if position > committed), None)
        if first is None:
            return
        mark = joined(known, committed, InProgress(first, positions[-1]))
        if mark == known:
            return
        if isinstance(await store.write(Put(mark_item(partition, mark), _still(known))), Applied):
            return
    raise Unreachable(f"the in-progress marker of lane {lane} was not written in {TRIES_MAX} tries")


def mark_item(partition: str, mark: InProgress) -> Item:
    """Return the item of a lane's marker, in the lane's partition."""
    return {
        "pk": {"S": partition},
        "sk": {"S": MARKER_SORT_KEY},
        "first": {"S": mark.first},
        "last": {"S": mark.last},
    }


def mark_of(item: Item | None) -> InProgress | None:
    """Read a lane's marker; None for no item.

    Raises:
        DamagedItem: a position is missing.
    """
    if item is None:
        return None
    first, last = (item.get(name, {}).get("S") for name in InProgress._fields)
    if not (isinstance(first, str) and isinstance(last, str)):
        raise damaged(item, "a marker needs its first and its last position")
    return InProgress(first, last)


def _still(known: InProgress | None) -> Condition:
    if known is None:
        return Absent()
    return AllOf(tuple(Equals(name, {"S": getattr(known, name)}) for name in InProgress._fields))
