"""Broken rules of the pipeline: those of the demo, and what else each mutant replaces."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from unittest.mock import patch

from lab.pipeline_demo import mutants

from ledger.core.sums import SumPlace
from ledger.pipeline.core import category_sums, plans, transitions
from ledger.pipeline.core.records import Record
from ledger.pipeline.core.transitions import State
from ledger.pipeline.stages import state_stage

_advanced = transitions.advanced


def _overwritten_before(
    state: State | None,
    record: Record,
    *,
    lane: str,
    position: str,
    committed: dict[str, str],
    at: datetime | None = None,
) -> State:
    """Measure a change from an image that was never committed, and forget how it came to be."""
    new = _advanced(state, record, lane=lane, position=position, committed=committed, at=at)
    own = {at: one for at, one in new.open.get(lane, {}).items() if at == position}
    return replace(new, open={**new.open, lane: own})


def _joined(
    state: State | None,
    record: Record,
    *,
    lane: str,
    position: str,
    committed: dict[str, str],
    at: datetime | None = None,
) -> State:
    """Keep one open transition of a lane, from its first uncommitted image to its newest."""
    new = _advanced(state, record, lane=lane, position=position, committed=committed, at=at)
    own = new.open.get(lane, {})
    joined = {max(own): category_sums.total(own.values())} if own else {}
    return replace(new, open={**new.open, lane: joined})


def _others_forgotten(
    state: State | None,
    record: Record,
    *,
    lane: str,
    position: str,
    committed: dict[str, str],
    at: datetime | None = None,
) -> State:
    """Drop what other lanes changed, committed or not."""
    new = _advanced(state, record, lane=lane, position=position, committed=committed, at=at)
    return replace(new, open={name: one for name, one in new.open.items() if name == lane})


def _one_item_of_all(region: str, epoch: int, slot: int = 0) -> SumPlace:
    """Let every region add to the same sum item."""
    del region
    return SumPlace("all", epoch, slot)


MUTANTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "no version condition": mutants.MUTANTS["no-version"],
    "no hash or position in map": mutants.MUTANTS["no-hash"],
    "no token or existence in reduce": mutants.MUTANTS["no-token"],
    "two regions on one sum item": lambda: patch.object(plans, "SumPlace", _one_item_of_all),
    "before from an uncommitted image": lambda: patch.object(
        state_stage, "advanced", _overwritten_before
    ),
    "open transitions joined": lambda: patch.object(state_stage, "advanced", _joined),
    "other lanes' transitions forgotten": lambda: patch.object(
        state_stage, "advanced", _others_forgotten
    ),
}
"""Which rule is broken, and how to break it for a while."""
