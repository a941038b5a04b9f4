"""The third stage: adds map items to the totals, and deletes them.

Additions and deletes stand in one transaction, on condition that the map items are there: see
`ledger.pipeline.core.plans` for why no repeat can harm, however late.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from ledger.core.errors import AmountOverflow, Unreachable
from ledger.core.values import Entry
from ledger.pipeline.core.items import MapItem
from ledger.pipeline.core.plans import ReducePlan, grouped, plan_reduce
from ledger.pipeline.metrics import StageMetrics
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.retrier import Retrier
from ledger.store.writes import Applied, Outcome, Rejected

AT_ONCE = 4
"""Transactions of one reducer in flight."""
TRIES_MAX = 20
"""Plans for one group of map items: each rejection means that others reduced some of them."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """The additions to the totals: the entries made, and the categories whose sums have grown."""

    entries: Sequence[Entry] = ()
    categories: Sequence[str] = ()


class ReduceStage:
    """Adds map items to the totals, in their region."""

    def __init__(
        self,
        store: Store,
        *,
        settings: LiveSettings,
        clock: Clock,
        retrier: Retrier,
        metrics: StageMetrics,
        note: str = "",
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._retrier = replace(retrier, on_retry=metrics.retry)
        self._metrics = metrics
        self._note = note

    async def reduce(self, items: Sequence[MapItem]) -> Reduced:
        """Add map items to the totals, each once; returns what this call has added.

        What another reducer was faster with is left out.

        Raises:
            ContractConflict: the region is not written to; see `Settings.check_written`.
            AmountOverflow: a category's sum has no room left; the map items of its group wait.
            StoreError: some are not reduced yet; they can be handed in again.
        """
        jobs = [partial(self._reduce, group) for group in grouped(items)]
        made = await run_all(jobs, at_once=AT_ONCE)
        done = Reduced(
            [entry for reduced in made for entry in reduced.entries],
            [category for reduced in made for category in reduced.categories],
        )
        if items:
            given = len(done.entries) + len(done.categories)
            self._metrics.batch(taken=len(items), given=given)
        return done

    async def _reduce(self, items: Sequence[MapItem]) -> Reduced:
        """Reduce one group of map items."""
        for tries in range(1, TRIES_MAX + 1):
            await self._settings.renew()
            settings = self._settings.current
            settings.check_written(self._store.region)
            plan = plan_reduce(
                items,
                region=self._store.region,
                settings=settings,
                now=self._clock.now(),
                validity=self._settings.validity,
                note=self._note,
            )
            outcome = (await self._retrier.until_answered(partial(self._send, plan))).outcome
            if isinstance(outcome, Applied):
                return Reduced(plan.entries, plan.categories)
            if not isinstance(outcome, Rejected):
                text = f"{len(items)} map items got no answer: {outcome.cause}"
                raise Unreachable.unanswered(text)
            left = plan.left(outcome.found)
            full = plan.full(outcome.found)
            if full and len(left) == len(items):  # else it may be full of these items
                raise AmountOverflow(
                    f"the sum of {full[0]!r} in {self._store.region} has no room left in 38 digits:"
                    " nothing was added to it"
                )
            self._metrics.leave_out("duplicate", len(items) - len(left))
            items = left
            if not items:
                return Reduced()
            await self._retrier.pause(tries)
        raise Unreachable(f"{len(items)} map items could not be reduced in {TRIES_MAX} tries")

    async def _send(self, plan: ReducePlan) -> Outcome:
        return await self._store.transact(plan.actions, token=plan.token)
