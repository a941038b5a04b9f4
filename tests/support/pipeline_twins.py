"""Broken rules of the pipeline: what each negative twin puts in place of production code."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from itertools import count
from unittest.mock import patch

from ledger.pipeline import map_stage, plans, reduce_stage, state_stage, sums, transitions
from ledger.pipeline.items import MapItem, map_item_of
from ledger.pipeline.plans import MapPlan, ReducePlan
from ledger.pipeline.records import Record
from ledger.pipeline.sums import Changes
from ledger.pipeline.transitions import State
from ledger.settings import Settings
from ledger.store.port import Delete, Put

_plan_map, _plan_reduce, _advanced = plans.plan_map, plans.plan_reduce, transitions.advanced
_numbers = count()


def _always(record: Record, state: State | None) -> bool:
    """Take every record for the newest: the last that arrives wins."""
    del record, state
    return True


def _unconditional_map(lane: str, after: str, upto: str, changes: Changes) -> MapPlan | None:
    """Commit wherever the lane is, under a name of its own: a repeated batch counts again."""
    plan = _plan_map(lane, after, upto, changes)
    if plan is None:
        return None
    moved, *parts = (put.item for put in plan.actions)
    named = [{**item, "sk": {"S": f"{item['sk']['S']}{next(_numbers)}"}} for item in parts]
    actions = (Put(moved), *map(Put, named))
    return MapPlan(upto, tuple(map(map_item_of, named)), actions, f"{next(_numbers)}")


def _unconditional_reduce(
    items: Sequence[MapItem], *, region: str, settings: Settings, now: datetime
) -> ReducePlan:
    """Delete map items whether they are there or not, without a token that lasts."""
    plan = _plan_reduce(items, region=region, settings=settings, now=now)
    entries = plan.actions[: len(plan.entries)]
    deletes = (Delete(item.key) for item in items)
    return replace(plan, actions=(*entries, *deletes), token=f"{next(_numbers)}")


def _overwritten_before(
    state: State | None, record: Record, *, lane: str, position: str, committed: dict[str, str]
) -> State:
    """Measure a change from an image that was never committed, and forget how it came to be."""
    new = _advanced(state, record, lane=lane, position=position, committed=committed)
    own = {at: one for at, one in new.open.get(lane, {}).items() if at == position}
    return replace(new, open={**new.open, lane: own})


def _joined(
    state: State | None, record: Record, *, lane: str, position: str, committed: dict[str, str]
) -> State:
    """Keep one open transition of a lane, from its first uncommitted image to its newest."""
    new = _advanced(state, record, lane=lane, position=position, committed=committed)
    own = new.open.get(lane, {})
    joined = {max(own): sums.total(own.values())} if own else {}
    return replace(new, open={**new.open, lane: joined})


def _others_forgotten(
    state: State | None, record: Record, *, lane: str, position: str, committed: dict[str, str]
) -> State:
    """Drop what other lanes changed, committed or not."""
    new = _advanced(state, record, lane=lane, position=position, committed=committed)
    return replace(new, open={name: one for name, one in new.open.items() if name == lane})


TWINS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "no version condition": lambda: patch.object(state_stage, "is_newer", _always),
    "no hash or position in map": lambda: patch.object(map_stage, "plan_map", _unconditional_map),
    "no token or existence in reduce": lambda: patch.object(
        reduce_stage, "plan_reduce", _unconditional_reduce
    ),
    "before from an uncommitted image": lambda: patch.object(
        state_stage, "advanced", _overwritten_before
    ),
    "open transitions joined": lambda: patch.object(state_stage, "advanced", _joined),
    "other lanes' transitions forgotten": lambda: patch.object(
        state_stage, "advanced", _others_forgotten
    ),
}
"""Which rule is broken, and how to break it for a while."""
