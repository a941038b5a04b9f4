"""The writes of map and reduce.

A map commit puts a batch's map items and moves the lane's position, on condition that it is where
the batch begins. Reduce adds to the region's sum item of each category (`ledger.core.sums`) and
deletes the map items that it adds up, on condition that those are there::

    reduce 1   [add, delete m1, m2] ---------- no answer ------> lands: m1 and m2 are gone, rejected
    reduce 2         [add, delete m1, m2] applied

So it does not matter how often a map item is reduced, by whom, with which others, or how late a
request arrives: one of them counts. A sum item is added to by its own region alone, and only in
such transactions, so no write of another region can replace it.

With `pipeline.totals: entries` one ledger entry per category takes the place of the addition, with
the time of its own attempt, as all entries must: none is signed later than the retry horizon.

What an audit needs to know of its cut is written in the same transaction: map items of batches that
were committed beyond it are tagged with the audit's number, and what is added of them is added once
more to `since` (`ledger.core.sums`), or stands in an item of its own beside entries.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from ledger.core import amounts, ids
from ledger.core.contract import Validity
from ledger.core.entry import AttributeValue, Item, Key
from ledger.core.sums import SumPlace, since_name
from ledger.core.tokens import request_token
from ledger.core.values import Entry
from ledger.pipeline.core.category_sums import (
    CategorySums,
    Changes,
    digest,
    divided,
    place_of,
    total,
)
from ledger.pipeline.core.items import MapItem, map_item, map_item_of, position_key
from ledger.pipeline.core.lane_state import LaneState, lane_item, still
from ledger.pipeline.core.registry import forgotten_key, registry_partition
from ledger.settings import Settings
from ledger.store.conditions import Absent, Compares, Condition, Has, Not
from ledger.store.writes import TRANSACTION_ACTIONS_MAX, Action, Delete, Put, Update
from ledger.writes.book_rules import check_not_book
from ledger.writes.entry_plan import Change, plan_entry

MAP_BYTES_MAX = 2 * 1024 * 1024
"""Map items of one batch: half of what a transaction may hold."""
SINCE_PREFIX = "since#"
"""Suffix of the sort keys of what was added as entries since the cut of an audit."""
_PLACES_MIN = 15
"""Digits behind the point for which a sum keeps room, as values have them."""


@dataclass(frozen=True, slots=True)
class MapPlan:
    """The transaction that commits a batch; `state` is the lane's then."""

    state: LaneState
    items: tuple[MapItem, ...]
    actions: tuple[Put, ...]
    token: str


@dataclass(frozen=True, slots=True)
class ReducePlan:
    """The transaction that adds map items to the totals; the deletes are the last actions.

    It writes `entries`, or adds to the sums of `categories`, which are the first actions then.
    """

    entries: tuple[Entry, ...]
    items: tuple[MapItem, ...]
    actions: tuple[Action, ...]
    token: str
    categories: tuple[str, ...] = ()

    def left(self, found: Mapping[int, Item | None]) -> list[MapItem]:
        """Return the map items that were still there when a condition failed."""
        first = len(self.actions) - len(self.items)
        return [item for place, item in enumerate(self.items, first) if place not in found]

    def full(self, found: Mapping[int, Item | None]) -> list[str]:
        """Return the categories whose sums had no room left when a condition failed."""
        return [category for place, category in enumerate(self.categories) if place in found]


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
    items = tuple(map(map_item_of, made))
    if sum(item.size_bytes for item in items) > MAP_BYTES_MAX:
        return None
    state = replace(known.moved(upto), rev=known.rev + 1)
    item = lane_item(lane, state, pipeline)
    puts = (Put(made_item, Absent()) for made_item in made)
    token = request_token(name, repr(state))
    return MapPlan(state, items, (Put(item, still(known)), *puts), token)


def grouped(items: Iterable[MapItem]) -> list[list[MapItem]]:
    """Group map items so that the reduce of each group fits in one transaction.

    Those that begin with the same categories come together: they have most of them in common.
    """
    groups: list[list[MapItem]] = []
    known: set[str] = set()
    for item in sorted(items, key=_first_place):
        known |= item.changes.keys()
        if not groups or len(known) + len(groups[-1]) + 2 > TRANSACTION_ACTIONS_MAX:
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
    note: str = "",
) -> ReducePlan:
    """Plan to add map items of one group to the totals, at this moment.

    `validity` bounds the signature of what rests on these settings; entries get the `note`.

    Raises:
        InvalidInput: the contract says meanwhile that a category is a book.
    """
    keys = sorted(item.key for item in items)
    name = request_token(*(part for key in keys for part in key))
    changes = total(item.changes for item in items)
    for category in changes:
        check_not_book(category, settings)
    since = _since(items)
    until = None if validity is None else validity.until
    deletes = [Delete(item.key, Has("sums"), item.size_bytes) for item in items]
    token = request_token(name, now.isoformat())
    pipeline = settings.pipeline
    if pipeline.totals == "sums":
        slot = place_of(keys[0][0]) % pipeline.slots
        place = SumPlace(region, settings.terms.epoch_of(region), slot)
        by_category = _by_category(since, pipeline.name)
        named = tuple(sorted({*changes, *by_category}))
        adds = [
            _add((category, place.sort_key), changes.get(category), by_category, until)
            for category in named
        ]
        return ReducePlan((), tuple(items), (*adds, *deletes), token, named)
    planned = [
        plan_entry(
            Change(category, change, note=note or None),
            region=region,
            settings=settings,
            now=now,
            suffix=ids.suffix_of(category, name),
            until=until,
        )
        for category, change in changes.items()
    ]
    puts = [change.put for change in planned]
    puts += [
        Put(since_item(audit, added, f"{region}#{name}", pipeline.name), Absent())
        for audit, added in since.items()
    ]
    entries = tuple(change.entry for change in planned)
    return ReducePlan(entries, tuple(items), (*puts, *deletes), token)


def plan_forget(images: Iterable[CategorySums], region: str, pipeline: str = "") -> list[Update]:
    """Plan to add the images of states that are deleted to the sums of what was forgotten.

    One addition a category, the last one of how many records there are.
    """
    found = list(images)
    adds = [
        Update(
            forgotten_key(region, category, pipeline),
            add={"value": {"N": amounts.to_text(change)}},
            condition=_has_room(change),
        )
        for category, change in total(image.changes for image in found).items()
    ]
    count = {"records": {"N": str(len(found))}}
    return [*adds, Update(forgotten_key(region, pipeline=pipeline), add=count)]


def since_item(audit: int, changes: Changes, name: str, pipeline: str = "") -> Item:
    """Return the item of what one reduce has added as entries since the cut of an audit."""
    sums = {category: {"N": amounts.to_text(change)} for category, change in changes.items()}
    return {
        "pk": {"S": registry_partition(pipeline)},
        "sk": {"S": f"{SINCE_PREFIX}{audit}#{name}"},
        "sums": {"M": sums},
    }


def audit_name(audit: int, pipeline: str = "") -> str:
    """Return the name of a pipeline's audit in sum items, which several pipelines may share."""
    return f"{pipeline}.{audit}" if pipeline else f"{audit}"


def _since(items: Sequence[MapItem]) -> dict[int, Changes]:
    """Return what the map items beyond the cut of an audit add, by its number."""
    return {
        number: total(item.changes for item in items if item.audit == number)
        for number in sorted({item.audit for item in items if item.audit})
    }


def _by_category(
    since: Mapping[int, Changes], pipeline: str
) -> dict[str, dict[str, AttributeValue]]:
    """Return the attributes of each category's sum that hold what was added since a cut."""
    found: dict[str, dict[str, AttributeValue]] = {}
    for audit, changes in since.items():
        name = since_name(audit_name(audit, pipeline))
        for category, change in changes.items():
            found.setdefault(category, {})[name] = {"N": amounts.to_text(change)}
    return found


def _add(
    key: Key,
    change: Decimal | None,
    since: Mapping[str, Mapping[str, AttributeValue]],
    until: datetime | None,
) -> Update:
    """Return the addition to one sum item, refused if it had no room left for the result."""
    added = change or Decimal(0)
    numbers = {"value": {"N": amounts.to_text(added)}, "version": {"N": "1"}}
    return Update(
        key,
        add={**numbers, **since.get(key[0], {})},
        condition=_has_room(added),
        not_after=until,
    )


def _has_room(change: Decimal) -> Condition:
    """Return the condition that a sum, with this change, still fits in 38 digits.

    What DynamoDB would do with more is never left to it.
    """
    places = max(_PLACES_MIN, -int(change.as_tuple().exponent))
    size = change.copy_abs()
    limit = amounts.EXACT.subtract(amounts.power_of_ten(amounts.DIGITS_MAX - places), size)
    if change < 0:
        return Not(Compares("value", "<=", {"N": amounts.to_text(limit.copy_negate())}))
    return Not(Compares("value", ">=", {"N": amounts.to_text(limit)}))


def _first_place(item: MapItem) -> tuple[int, Key]:
    return min(map(place_of, item.changes), default=0), item.key
