"""Running one seed to its end or to its first violation."""

import asyncio
import gc
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import localcontext
from functools import partial

import anyio

from compactor import leadership
from ledger.budgets import lost_stake
from ledger.core import books, contract
from ledger.core.amounts import EXACT
from ledger.core.contract import seconds_to_wait
from ledger.writes import asked_parts
from proof.simulator import loop
from proof.simulator.archive import ArchiveAudit
from proof.simulator.auditor import Auditor, Violation
from proof.simulator.book_plan import bounds_of
from proof.simulator.budget_audit import BudgetRules
from proof.simulator.budgets import (
    ROLLING,
    ROLLING_SECONDS,
    has_wrong_clocks,
    let_through,
)
from proof.simulator.hint_audit import HintAudit
from proof.simulator.index_audit import IndexAudit
from proof.simulator.losses import Loss
from proof.simulator.period_audit import PeriodAudit
from proof.simulator.randomness import stream
from proof.simulator.scenario import Scenario, draw
from proof.simulator.supervisor import Supervisor
from proof.simulator.workload import Workload
from proof.simulator.world import World, WorldFacts

SERVER_SKEW_SECONDS = 1.0
_LAG_LOOK_SECONDS = 30.0
_LOGS = ("compactor", "ledger")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one seed.

    `steps` are requests served and items arrived, `checks` whole collections compared, `reads`
    answers of the production reader checked; `trace` is filled only on request.
    """

    seed: int
    steps: int
    checks: int
    reads: int
    virtual_seconds: float
    violation: Violation | None
    trace: tuple[str, ...] = ()

    @property
    def is_caught(self) -> bool:
        """Whether a promise was broken: so a mutant is caught, and not by a crash of its own."""
        return self.violation is not None and not self.violation.is_error


def run_seed(seed: int, *, is_traced: bool = False) -> Result:
    """Run the world of a seed, whose audits never round; `mutants` activates a mutant around it."""
    scenario = draw(seed)
    worlds = (
        *(_quiet(), _no_garbage(), _arriving(scenario.loss)),
        *(_listing(scenario.listed_max), _booking(*bounds_of(seed))),
    )
    with localcontext(EXACT), ExitStack() as stack:
        for world in worlds:
            stack.enter_context(world)
        return loop.run(partial(_run, scenario, is_traced=is_traced))


async def _run(scenario: Scenario, *, is_traced: bool) -> Result:
    ended = anyio.Event()
    world = World(
        scenario.regions,
        loop=asyncio.get_running_loop(),
        randomness=stream(scenario.seed, "world"),
        facts=WorldFacts(scenario.lag, scenario.staleness, SERVER_SKEW_SECONDS),
        page_items_max=scenario.page_items_max,
        is_traced=is_traced,
    )
    world.note(lambda: f"regions {', '.join(scenario.regions)}; profile: {scenario.profile}")
    periods = PeriodAudit(scenario.settings)
    archive = ArchiveAudit(keeps=bool(scenario.settings.archive), loses=scenario.loss is not None)
    index = IndexAudit(
        scenario.settings.index,
        has_one_home=scenario.has_one_home,
        loses=scenario.loss is not None,
    )
    auditor = Auditor(
        world,
        found=ended.set,
        periods=periods,
        archive=archive,
        index=index,
        hints=HintAudit(settle=scenario.settle, is_calm=scenario.is_calm),
        budgets=_budget_rules(scenario),
        accounts_max=bounds_of(scenario.seed)[0],
        now=world.loop.time,
    )
    auditor.books.fold_max = scenario.settings.compactor.fold_max
    async with anyio.create_task_group() as tasks:
        workload = Workload(Supervisor(scenario, world, auditor, tasks))
        tasks.start_soon(workload.run, ended)
        await ended.wait()
        world.end()
        tasks.cancel_scope.cancel()
    return Result(
        seed=scenario.seed,
        steps=world.steps,
        checks=auditor.checks,
        reads=auditor.reads,
        virtual_seconds=world.loop.time(),
        violation=auditor.violation,
        trace=tuple(world.trace),
    )


def _budget_rules(scenario: Scenario) -> BudgetRules:
    """Return the rules of its budgets; where the contract changes, none of how long steps wait."""
    terms = scenario.settings.terms
    return BudgetRules(
        limits={} if scenario.budgets is None else scenario.budgets.limits,
        lets_through=let_through(scenario.seed),
        rolling={ROLLING: ROLLING_SECONDS} if has_wrong_clocks(scenario.seed) else {},
        step_wait=seconds_to_wait(terms, terms) if scenario.contract is None else None,
    )


@contextmanager
def _arriving(loss: Loss | None) -> Iterator[None]:
    """Let what was lost be reclaimed, and made again, once nothing of it arrives any more.

    A day is more than worlds are long. Compactors go by a day, as they are.
    """
    before = lost_stake.ARRIVED_SECONDS, contract.REMEMBERED_SECONDS
    if loss is not None:
        arriving = loss.arrives_until - max(loss.removed.values())
        lost_stake.ARRIVED_SECONDS = contract.REMEMBERED_SECONDS = arriving
    try:
        yield
    finally:
        lost_stake.ARRIVED_SECONDS, contract.REMEMBERED_SECONDS = before


@contextmanager
def _listing(changes: int) -> Iterator[None]:
    """Let so many changes of a list with a key share an item.

    A total shows of 36 changes whether it counts them, so no list here has the product's hundred.
    """
    before = asked_parts.LISTED_MAX
    asked_parts.LISTED_MAX = changes
    try:
        yield
    finally:
        asked_parts.LISTED_MAX = before


@contextmanager
def _booking(accounts_max: int, accounts_open: int) -> Iterator[None]:
    """Let the balances of a net have so many bytes, and open no account from so many on."""
    before = books.ACCOUNTS_BYTES_MAX, books.ACCOUNTS_BYTES_OPEN
    if accounts_max:
        books.ACCOUNTS_BYTES_MAX, books.ACCOUNTS_BYTES_OPEN = accounts_max, accounts_open
    try:
        yield
    finally:
        books.ACCOUNTS_BYTES_MAX, books.ACCOUNTS_BYTES_OPEN = before


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence logs of expected faults, and measure the lag rarely: each measurement costs steps."""
    logs = [logging.getLogger(name) for name in _LOGS]
    before = leadership.FIRST_WAIT_SECONDS, leadership.LONGEST_WAIT_SECONDS
    leadership.FIRST_WAIT_SECONDS = leadership.LONGEST_WAIT_SECONDS = _LAG_LOOK_SECONDS
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
        leadership.FIRST_WAIT_SECONDS, leadership.LONGEST_WAIT_SECONDS = before


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Collect garbage between seeds instead of hundreds of times within one."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
