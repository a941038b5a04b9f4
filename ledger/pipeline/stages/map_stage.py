"""The second stage: commits what a batch changes, and with it the lane's position.

::

    worker 1  at 10   batch (10, 20] ---- commit: still at 10? ---------- no: LaneFenced
    worker 2  at 10   batch (10, 35] ----------- commit: still at 10? yes --> at 35

Positions decide what has been committed, never how it was cut: the second one starts again
at the position that is there.
"""

from collections.abc import Sequence
from dataclasses import replace

from ledger.core.errors import LaneFenced, LedgerError
from ledger.pipeline.core.items import MapItem
from ledger.pipeline.core.plans import MapPlan, plan_map
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.core.sums import total
from ledger.pipeline.metrics import StageMetrics
from ledger.pipeline.stages.lanes import Lanes
from ledger.pipeline.stages.state_stage import Prepared
from ledger.store.port import Store
from ledger.store.retrier import Retrier
from ledger.store.writes import Applied, Outcome


class MapStage:
    """Commits the batches of one lane in its own region, one after the other."""

    def __init__(
        self, lanes: Lanes, store: Store, *, retrier: Retrier, metrics: StageMetrics
    ) -> None:
        self._lanes = lanes
        self._store = store
        self._retrier = replace(retrier, on_retry=metrics.retry)
        self._metrics = metrics

    async def commit(self, batch: Prepared) -> list[MapItem]:
        """Commit a batch, in parts if it changes more than fits; returns the map items made.

        Raises:
            LaneFenced: the lane is not, or may not be, where the batch begins.
            StoreError: nothing of the rest was written, nor will be.
        """
        made: list[MapItem] = []
        after, left = batch.after, batch.deliveries
        while left:
            count, plan = self._fitting(batch, after, left)
            await self._send(after, plan)
            self._lanes.position = after = plan.upto
            made += plan.items
            left = left[count:]
        self._metrics.batch(taken=len(batch.transitions), given=len(made))
        return made

    def _fitting(
        self, batch: Prepared, after: str, left: Sequence[Delivery]
    ) -> tuple[int, MapPlan]:
        """Plan the commit of as many of these records as fit in one transaction, all if they do."""
        count = len(left)
        while count:
            upto = left[count - 1].position
            taken = (
                transition for position, transition in batch.transitions if after < position <= upto
            )
            lanes = self._lanes
            plan = plan_map(lanes.lane, after, upto, total(taken), lanes.pipeline)
            if plan is not None:
                return count, plan
            count //= 2
        raise LedgerError(f"the record at {left[0].position} changes more than a transaction holds")

    async def _send(self, after: str, plan: MapPlan) -> None:
        async def send() -> Outcome:
            if len(plan.actions) == 1:  # nothing but the position: half the price alone
                return await self._store.write(plan.actions[0])
            return await self._store.transact(plan.actions, token=plan.token)

        outcome = (await self._retrier.until_answered(send)).outcome
        if not isinstance(outcome, Applied):
            raise LaneFenced(
                f"lane {self._lanes.lane}: {type(outcome).__name__.lower()} when it was to go on"
                f" from {after or 'its beginning'}"
            )
