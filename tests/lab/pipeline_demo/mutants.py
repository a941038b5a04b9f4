"""Mutants of the pipeline: rules broken on purpose, to show that the demo finds each.

The simulated world breaks more of them (`tests/support/pipeline_mutants.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import count
from typing import Any
from unittest.mock import patch

from ledger.pipeline.core import plans
from ledger.pipeline.core.category_sums import Changes
from ledger.pipeline.core.items import MapItem, map_item_of
from ledger.pipeline.core.lane_state import LaneState
from ledger.pipeline.core.plans import MapPlan, ReducePlan
from ledger.pipeline.core.records import Record
from ledger.pipeline.core.transitions import State
from ledger.pipeline.stages import map_stage, reduce_stage, state_batch
from ledger.store.writes import Delete, Put

_plan_map, _plan_reduce = plans.plan_map, plans.plan_reduce
_numbers = count()


def _always(record: Record, state: State | None) -> bool:
    """Take every record for the newest: the last that arrives wins."""
    del record, state
    return True


def _unconditional_map(
    lane: str, known: LaneState, upto: str, changes: Changes, pipeline: str = ""
) -> MapPlan | None:
    """Commit wherever the lane is, under a name of its own: a repeated batch counts again."""
    plan = _plan_map(lane, known, upto, changes, pipeline)
    if plan is None:
        return None
    moved, *parts = (put.item for put in plan.actions)
    named = [{**item, "sk": {"S": f"{item['sk']['S']}{next(_numbers)}"}} for item in parts]
    actions = (Put(moved), *map(Put, named))
    return MapPlan(plan.state, tuple(map(map_item_of, named)), actions, f"{next(_numbers)}")


def _unconditional_reduce(items: Sequence[MapItem], **facts: Any) -> ReducePlan:
    """Delete map items whether they are there or not, without a token that lasts."""
    plan = _plan_reduce(items, **facts)
    added = plan.actions[: len(plan.actions) - len(items)]
    deletes = (Delete(item.key) for item in items)
    return replace(plan, actions=(*added, *deletes), token=f"{next(_numbers)}")


MUTANTS: Mapping[str, Callable[[], AbstractContextManager[object]]] = {
    "no-version": lambda: patch.object(state_batch, "is_newer", _always),
    "no-hash": lambda: patch.object(map_stage, "plan_map", _unconditional_map),
    "no-token": lambda: patch.object(reduce_stage, "plan_reduce", _unconditional_reduce),
}
"""Which rule is broken, and how to break it for a while."""
