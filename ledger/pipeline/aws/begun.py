"""What has been begun of a lane: so that no record is passed over that a state may show already.

A lane's position may only pass what has been brought in. A source that gives up on a batch breaks
that: Lambda does once its records are too old, a stream does when it forgets them. If the batch had
been begun, states may show what it changed, and the next commit would move the position past it,
as if that were in the totals::

    at 10   event (11..20): states ✓  killed, given up
            event (21..30): begun at 11, not committed, and not here: refused

So before its states are written an event leaves a mark beside the lane's position: its first and
its last record. The mark is never narrowed before the position has passed it.

It finds whatever begins after the first record begun, or after the last one; not a piece that is
missing in the middle of an event of which a part is committed and the rest was divided anew.
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

BEGUN_SORT_KEY = "begun"
TRIES_MAX = 10


class Begun(NamedTuple):
    """From which position to which records may have been begun."""

    first: str
    last: str


def joined(known: Begun | None, committed: str, asked: Begun) -> Begun:
    """Return the mark with which records that follow a committed position may be begun.

    Raises:
        LeftOut: others that were begun, and are not committed, lie between.
    """
    if known is None or known.last <= committed:
        return asked
    missing = known.first if known.first > committed else known.last
    if asked.first > missing:
        raise LeftOut(
            f"the record at {missing.lstrip('0')} was begun and is not in the totals, but the"
            f" stream goes on at {asked.first.lstrip('0')}: let the event source mapping begin anew"
            " before it (StartingPosition); what comes again does no harm"
        )
    return Begun(asked.first, max(asked.last, known.last))


async def begin(store: Store, lane: str, positions: Sequence[str]) -> None:
    """Leave the mark of records at these positions, as far as they are not committed yet.

    Raises:
        LeftOut: others that were begun, and are not committed, lie between.
        StoreError: the mark could not be left.
    """
    partition = position_key(lane)[0]
    for _ in range(TRIES_MAX):
        # In this order: what is committed in between has passed the mark, not the other way round.
        known = begun_of(await store.get(Get((partition, BEGUN_SORT_KEY))))
        committed = position_of(await store.get(Get(position_key(lane))))
        first = next((one for one in positions if one > committed), None)
        if first is None:
            return
        mark = joined(known, committed, Begun(first, positions[-1]))
        if mark == known:
            return
        if isinstance(await store.write(Put(begun_item(lane, mark), _still(known))), Applied):
            return
    raise Unreachable(f"the mark of lane {lane} could not be written in {TRIES_MAX} tries")


def begun_item(lane: str, begun: Begun) -> Item:
    """Return the item of a lane's mark."""
    return {
        "pk": {"S": position_key(lane)[0]},
        "sk": {"S": BEGUN_SORT_KEY},
        "first": {"S": begun.first},
        "last": {"S": begun.last},
    }


def begun_of(item: Item | None) -> Begun | None:
    """Read a lane's mark; None for no item.

    Raises:
        DamagedItem: it has no two positions.
    """
    if item is None:
        return None
    first, last = (item.get(name, {}).get("S") for name in Begun._fields)
    if not (isinstance(first, str) and isinstance(last, str)):
        raise damaged(item, "a mark needs its first and its last position")
    return Begun(first, last)


def _still(known: Begun | None) -> Condition:
    if known is None:
        return Absent()
    return AllOf(tuple(Equals(name, {"S": getattr(known, name)}) for name in Begun._fields))
