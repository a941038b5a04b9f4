"""States written, and read, together: 25 to a write, 100 to a read.

::

    not remembered, most new     put --+-- applied
    not remembered, many known   read -+-> put or update --+-- applied
    remembered                   update --+-- rejected: the item that is there, or read it --+
                                    ^     `-- unknown: read it ------------------------------+
                                    +--------------------------------------------------------+

A version that is still not written after `ROUNDS_MAX` of these, and one that could not be sent or
read, is left to requests of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

from ledger.core.errors import StoreError
from ledger.pipeline.core.items import state_item, state_key, state_of
from ledger.pipeline.core.records import Delivery, Record
from ledger.pipeline.core.state_places import StatePlaces
from ledger.pipeline.core.transitions import State
from ledger.runtime.tasks import run_all
from ledger.store.conditions import Absent, AllOf, Condition, Equals, Has, Not
from ledger.store.port import Store
from ledger.store.reads import EACH_GETS_MAX
from ledger.store.writes import EACH_WRITES_MAX, Outcome, OwnWrite, Put, Update

ROUNDS_MAX = 3
"""The first try finds a record's state, if it was not known; the others meet other lanes."""
TOGETHER_MIN = 2
"""Versions of a batch that share a request."""
LOOK_SHARE = 1 / 6
"""Of the records that are not remembered, those with a state, from where reading first is cheaper.

A read costs a fifth of a write (Amazon DynamoDB pricing, on demand): first it costs 1/5 for each,
behind a refused put 6/5 for each that has a state.
"""
_FADES = 0.5
"""The weight of earlier batches against the last one."""


@dataclass(frozen=True, slots=True)
class Todo:
    """A version in a batch, and the state to judge it by, which `look` says to read."""

    record: Record
    delivery: Delivery
    state: State | None
    look: bool = False


class Strangers:
    """Records that were not remembered: how many of them had a state, lately."""

    def __init__(self) -> None:
        self._met = 0.0
        self._known = 0.0

    @property
    def are_known(self) -> bool:
        """Whether so many had one that it is to be read before the first try."""
        return self._known > LOOK_SHARE * self._met

    def meet(self, met: int, known: int) -> None:
        """Take in those of a batch."""
        if met:
            self._met = self._met * _FADES + met
            self._known = self._known * _FADES + known


@dataclass(frozen=True, slots=True)
class Due:
    """A version to be written: over the state judged by, None for none, it makes `new`."""

    record: Record
    delivery: Delivery
    state: State | None
    new: State
    until: datetime | None = None
    """When its request may be signed at the latest."""


def still_there(state: State | None) -> Condition:
    """Return the condition that a record's state is the one judged by."""
    if state is None:
        return Absent()
    rev = Equals("rev", {"N": str(state.rev)}) if state.rev else Not(Has("rev"))
    return AllOf((Equals("version", {"N": str(state.version)}), rev))


def state_write(due: Due, pipeline: str) -> OwnWrite:
    """Return the write of a version in the form that a batch of statements can say."""
    item = state_item(due.record.id, due.new, pipeline)
    if due.state is None:
        return Put(item, Absent(), not_after=due.until)
    values = {name: value for name, value in item.items() if name not in {"pk", "sk"}}
    gone = tuple(name for name, was in _optional(due.state) if was and name not in values)
    key = state_key(due.record.id, pipeline)
    there = still_there(due.state)
    return Update(key, set=values, remove=gone, condition=there, not_after=due.until)


def _optional(state: State) -> tuple[tuple[str, object], ...]:
    """Return what of a state may be missing in the next one, by the names of the attributes."""
    return ("counted", state.image.counted), ("fields", state.kept), ("open", state.open)


async def write_together(
    stores: Mapping[str, Store],
    due: Sequence[Due],
    *,
    pipeline: str,
    places: StatePlaces,
    at_once: int,
) -> list[tuple[Due, Outcome | StoreError]]:
    """Try to write each version once, in its home; returns the result of each.

    Raises:
        StoreError: a home refused the request.
    """
    parts = _parts(due, EACH_WRITES_MAX)
    jobs = [partial(_written, stores[home], part, pipeline, places) for home, part in parts]
    done = await run_all(jobs, at_once=at_once) if jobs else []
    return [result for part in done for result in part]


async def _written(
    store: Store, part: Sequence[Due], pipeline: str, places: StatePlaces
) -> list[tuple[Due, Outcome | StoreError]]:
    try:
        answer = await store.write_each(
            [places.write(state_write(pending, pipeline)) for pending in part]
        )
    except StoreError as error:
        return [(pending, error) for pending in part]
    return list(zip(part, answer.outcomes, strict=True))


async def read_together(
    stores: Mapping[str, Store],
    todo: Sequence[Todo],
    *,
    pipeline: str,
    places: StatePlaces,
    at_once: int,
) -> list[tuple[Todo, bool]]:
    """Read the state of each version, in its home; returns which could not be read, False.

    Raises:
        DamagedItem: an item is not a state.
    """
    parts = _parts(todo, EACH_GETS_MAX)
    jobs = [partial(_read, stores[home], part, pipeline, places) for home, part in parts]
    done = await run_all(jobs, at_once=at_once) if jobs else []
    return [result for part in done for result in part]


async def _read(
    store: Store, part: Sequence[Todo], pipeline: str, places: StatePlaces
) -> list[tuple[Todo, bool]]:
    keys = [state_key(pending.record.id, pipeline) for pending in part]
    try:
        found = await store.get_each(list(map(places.get, keys)))
    except StoreError:
        return [(pending, False) for pending in part]
    return [
        (Todo(one.record, one.delivery, state_of(item) if item else None), True)
        for one, item in zip(part, found.items, strict=True)
    ]


Brought = TypeVar("Brought", Due, Todo)


def _parts(ones: Sequence[Brought], most: int) -> list[tuple[str, list[Brought]]]:
    """Return what goes in one request, with its home."""
    by_home: dict[str, list[Brought]] = {}
    for one in ones:
        by_home.setdefault(one.record.home, []).append(one)
    return [
        (home, those[start : start + most])
        for home, those in by_home.items()
        for start in range(0, len(those), most)
    ]
