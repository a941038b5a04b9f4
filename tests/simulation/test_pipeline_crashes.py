"""Every step of a lane is the last one of some worker: the next goes on, and nothing is wrong."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle

import pytest
from support.lanes import lane_worker
from support.ledgers import HOME
from support.pipeline_mutants import MUTANTS
from support.pipelines import POISON, deliveries, map_items, message, shown, truth
from support.tiers import few_fast, with_slow

from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.dead_letters import DeadLetterList
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import (
    Fault,
    FaultCall,
    FaultyStore,
    Late,
    Lost,
    NeverArrived,
    Raises,
)
from ledger.testing.clock import ManualClock

STEPS_MAX = 200
RAWS = [
    message("T1", 1, 100),
    message("T2", 2, 3000, desk="B"),
    POISON,
    message("T1", 3, 70_000, desk="B"),
    message("T1", 2, 600_000),
    message("T3", 1, 5_000_000, desk="C"),
    message("T2", 3, 90_000_000, desk="A"),
    message("T3", 1, 5_000_000, desk="C"),
]
ANOTHER_LANE = deliveries([message("T1", 2, 600_000), message("T1", 4, 7), message("T3", 0, 1)])
CUTS = (3, 5, 8, 2)


class Killed(Exception):
    """The worker's process ends here."""


KINDS: dict[str, Fault] = {
    "before": Raises(Killed()),
    "after": Raises(Killed(), applied=True),
    "lost": Lost(),
    "never arrived": NeverArrived(),
    "late": Late(),
}
ENDS = {"lost", "late"}
"""Faults after which the worker is killed at its next step, with the request still in doubt."""


async def end_of(kind: str, number: int, *, second: Sequence[Delivery]) -> list[str]:
    """Let a worker's step go wrong, let others finish, and tell what is wrong in the end.

    Raises:
        StopAsyncIteration: there is no such step.
    """
    store, letters = MemoryStore(HOME), DeadLetterList()
    records = deliveries(RAWS)
    cuts = cycle(CUTS)

    def decide(call: FaultCall) -> Fault | None:
        if call.number == number:
            return KINDS[kind]
        return Raises(Killed()) if call.number > number and kind in ENDS else None

    faulty = FaultyStore(store, decide, clock=ManualClock(instant=True))
    with suppress(Killed):
        await lane_worker(records, faulty, letters=letters, batch_max=next(cuts)).run()
    if faulty.calls < number:
        raise StopAsyncIteration
    await lane_worker(second, store, lane="other", batch_max=next(cuts)).run()
    await lane_worker(records, store, letters=letters, batch_max=next(cuts)).run()
    while faulty.in_flight:
        await faulty.land()
    await lane_worker(records, store, letters=letters, batch_max=next(cuts)).run()
    wrong = (
        []
        if shown(store.table) == truth([*RAWS, *(delivery.raw for delivery in second)])
        else ["total"]
    )
    wrong += map_items(store.table)
    return wrong + ([] if {letter.raw for letter in letters.letters} == {POISON} else ["letters"])


async def wrong_ends(kind: str, second: Sequence[Delivery]) -> tuple[int, list[int]]:
    """Return how many steps there are, and those after which the end was wrong."""
    wrong = []
    for number in range(1, STEPS_MAX):
        try:
            if await end_of(kind, number, second=second):
                wrong.append(number)
        except StopAsyncIteration:
            return number - 1, wrong
    raise AssertionError("the worker never ends")


@pytest.mark.parametrize("kind", with_slow(KINDS, slow=set(KINDS) - {"lost"}))
@pytest.mark.parametrize(
    "second",
    few_fast([[], ANOTHER_LANE], fast=1),
    ids=["one lane", "another lane"],
)
async def test_any_step_may_be_the_last(kind: str, second: list[Delivery]) -> None:
    """Before a step, after it, with its answer lost or the request in flight: totals end right."""
    steps, wrong = await wrong_ends(kind, second)
    assert wrong == []
    assert steps > 10


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ("no hash or position in map", "late"),
        pytest.param("no token or existence in reduce", "late", marks=pytest.mark.slow),
        pytest.param("before from an uncommitted image", "after", marks=pytest.mark.slow),
    ],
)
async def test_mutant(rule: str, kind: str) -> None:
    """With a rule broken some step is the wrong one to end at."""
    with MUTANTS[rule]():
        assert (await wrong_ends(kind, []))[1] != []
