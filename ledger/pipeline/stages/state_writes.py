"""States written together: the first try of a batch's records, 25 to a request.

A version whose write was rejected, or has no known outcome, is left to a request of its own, judged
by the state that is there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ledger.core.errors import StoreError
from ledger.pipeline.core.items import state_item, state_key
from ledger.pipeline.core.records import Delivery, Record
from ledger.pipeline.core.transitions import State
from ledger.runtime.tasks import run_all
from ledger.store.conditions import Absent, AllOf, Condition, Equals, Has, Not
from ledger.store.port import Store
from ledger.store.writes import EACH_WRITES_MAX, Outcome, Put, Update, Write


@dataclass(frozen=True, slots=True)
class Due:
    """A version to be written: over the state judged by, None for none, it makes `new`."""

    record: Record
    delivery: Delivery
    state: State | None
    new: State


def still_there(state: State | None) -> Condition:
    """Return the condition that a record's state is the one judged by."""
    if state is None:
        return Absent()
    rev = Equals("rev", {"N": str(state.rev)}) if state.rev else Not(Has("rev"))
    return AllOf((Equals("version", {"N": str(state.version)}), rev))


def state_write(due: Due, pipeline: str) -> Write:
    """Return the write of a version in the form that a batch of statements can say."""
    item = state_item(due.record.id, due.new, pipeline)
    if due.state is None:
        return Put(item, Absent())
    values = {name: value for name, value in item.items() if name not in {"pk", "sk"}}
    gone = tuple(name for name, was in _optional(due.state) if was and name not in values)
    key = state_key(due.record.id, pipeline)
    return Update(key, set=values, remove=gone, condition=still_there(due.state))


def _optional(state: State) -> tuple[tuple[str, object], ...]:
    """Return what of a state may be missing in the next one, by the names of the attributes."""
    return ("counted", state.image.counted), ("fields", state.kept), ("open", state.open)


async def write_together(
    stores: Mapping[str, Store], due: Sequence[Due], *, pipeline: str, at_once: int
) -> list[tuple[Due, Outcome | StoreError]]:
    """Try to write each version once, in its home; returns the result of each.

    Raises:
        StoreError: a home refused the request.
    """
    by_home: dict[str, list[Due]] = {}
    for one in due:
        by_home.setdefault(one.record.home, []).append(one)
    parts = [
        (stores[home], ones[start : start + EACH_WRITES_MAX])
        for home, ones in by_home.items()
        for start in range(0, len(ones), EACH_WRITES_MAX)
    ]
    jobs = [partial(_written, store, part, pipeline) for store, part in parts]
    done = await run_all(jobs, at_once=at_once) if jobs else []
    return [result for part in done for result in part]


async def _written(
    store: Store, part: Sequence[Due], pipeline: str
) -> list[tuple[Due, Outcome | StoreError]]:
    try:
        answer = await store.write_each([state_write(one, pipeline) for one in part])
    except StoreError as error:
        return [(one, error) for one in part]
    return list(zip(part, answer.outcomes, strict=True))
