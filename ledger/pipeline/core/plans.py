"""What map and reduce write.

A map commit puts a batch's map items and moves the lane's position, on condition that it is where
the batch begins. Reduce puts one ledger entry per category and deletes the map items that they add
up, on condition that those are there::

    reduce 1   [entries, delete m1, m2] ------ no answer ------> lands: m1 and m2 are gone, rejected
    reduce 2         [other entries, delete m1, m2] applied

So it does not matter how often a map item is reduced, by whom, with which others, or how late a
request arrives: one of them counts. Which is why an entry can take the time of its own attempt, as
all entries must: none is signed later than the retry horizon of its id.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ledger.core import ids
from ledger.core.capacity import item_size
from ledger.core.contract import Validity
from ledger.core.entry import Item, Key
from ledger.core.tokens import request_token
from ledger.core.values import Entry
from ledger.pipeline.core.items import MapItem, map_item, map_item_of, position_key
from ledger.pipeline.core.lane_state import LaneState, lane_item, still
from ledger.pipeline.core.sums import Changes, digest, divided, place_of, total
from ledger.settings import Settings
from ledger.store.conditions import Absent, Has
from ledger.store.writes import TRANSACTION_ACTIONS_MAX, Action, Delete, Put
from ledger.writing.plan import Change, plan

MAP_BYTES_MAX = 2 * 1024 * 1024
"""Of the map items of one batch: half of what a transaction may hold."""


@dataclass(frozen=True, slots=True)
class MapPlan:
    """The transaction that commits a batch; `state` is the lane's then."""

    state: LaneState
    items: tuple[MapItem, ...]
    actions: tuple[Put, ...]
    token: str


@dataclass(frozen=True, slots=True)
class ReducePlan:
    """The transaction that adds map items to the totals; the deletes follow the entries."""

    entries: tuple[Entry, ...]
    items: tuple[MapItem, ...]
    actions: tuple[Action, ...]
    token: str

    def left(self, found: Mapping[int, Item | None]) -> list[MapItem]:
        """Return the map items that were still there when a condition failed."""
        first = len(self.entries)
        return [item for place, item in enumerate(self.items, first) if place not in found]


def plan_map(
    lane: str, known: LaneState, upto: str, changes: Changes, pipeline: str = ""
) -> MapPlan | None:
    """Plan the commit of what a lane's positions up to this one change; None if it is too much.

    The same positions give the same map items, since what they change is settled by then.
    """
    parts = divided(changes)
    if parts is None:
        return None
    name = digest(position_key(lane, pipeline)[0], known.position, upto, changes)
    made = [
        map_item(lane, name, number, part, pipeline, audit=known.audit)
        for number, part in enumerate(parts)
    ]
    if sum(map(item_size, made)) > MAP_BYTES_MAX:
        return None
    state = replace(known.moved(upto), rev=known.rev + 1)
    item = lane_item(lane, state, pipeline)
    puts = (Put(one, Absent()) for one in made)
    token = request_token(name, repr(state))
    return MapPlan(state, tuple(map(map_item_of, made)), (Put(item, still(known)), *puts), token)


def grouped(items: Iterable[MapItem]) -> list[list[MapItem]]:
    """Group map items so that the reduce of each group fits in one transaction.

    Those that begin with the same categories come together: they have most of them in common.
    """
    groups: list[list[MapItem]] = []
    known: set[str] = set()
    for item in sorted(items, key=_first_place):
        known |= item.changes.keys()
        if not groups or len(known) + len(groups[-1]) + 1 > TRANSACTION_ACTIONS_MAX:
            groups.append([])
            known = set(item.changes)
        groups[-1].append(item)
    return groups


def plan_reduce(
    items: Sequence[MapItem],
    *,
    region: str,
    settings: Settings,
    now: datetime,
    validity: Validity | None = None,
) -> ReducePlan:
    """Plan to add map items of one group to the totals, with entries of this moment.

    `validity` bounds the signature of what rests on these settings.
    """
    keys = sorted(item.key for item in items)
    name = request_token(*(part for key in keys for part in key))
    changes = total(item.changes for item in items)
    planned = [
        plan(
            Change(category, change),
            region=region,
            settings=settings,
            now=now,
            suffix=ids.suffix_of(category, name),
            until=None if validity is None else validity.until,
        )
        for category, change in changes.items()
    ]
    deletes = (Delete(item.key, Has("sums"), item.size_bytes) for item in items)
    return ReducePlan(
        tuple(change.entry for change in planned),
        tuple(items),
        (*(change.put for change in planned), *deletes),
        request_token(name, now.isoformat()),
    )


def _first_place(item: MapItem) -> tuple[int, Key]:
    return min(map(place_of, item.changes), default=0), item.key
