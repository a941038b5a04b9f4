"""The second stage: commits the changes of a batch, and with them the lane's position.

::

    worker 1  at 10   batch (10, 20] ---- commit: still at 10? ---------- no: LaneFenced
    worker 2  at 10   batch (10, 35] ----------- commit: still at 10? yes --> at 35

Positions decide what has been committed, never how it was cut: the second one starts again
at the position that is there.
"""

from collections.abc import Sequence
from dataclasses import replace

from ledger.core.errors import LaneFenced, LedgerError
from ledger.pipeline.core.category_sums import total
from ledger.pipeline.core.items import MapItem
from ledger.pipeline.core.lane_state import LaneState
from ledger.pipeline.core.plans import MapPlan, plan_map
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.metrics import StageMetrics
from ledger.pipeline.stages.lanes import TRIES_MAX, Lanes
from ledger.pipeline.stages.state_stage import Prepared
from ledger.store.port import Store
from ledger.store.retrier import Retrier
from ledger.store.writes import Applied, Outcome, Rejected


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
        left = batch.deliveries
        if self._lanes.position != batch.after:
            raise LaneFenced(f"lane {self._lanes.lane} is not at {batch.after} any more")
        while left:
            count, plan = await self._sent(batch, left)
            made += plan.items
            left = left[count:]
        self._metrics.batch(taken=len(batch.transitions), given=len(made))
        return made

    async def _sent(self, batch: Prepared, left: Sequence[Delivery]) -> tuple[int, MapPlan]:
        """Commit as many of these records as fit, once more if only an audit came in between."""
        for _ in range(TRIES_MAX):
            known, sent_at = self._lanes.known, self._lanes.now()
            count, plan = self._fitting(batch, known, left)
            outcome = await self._send(plan)
            if isinstance(outcome, Applied):
                self._lanes.took(plan.state, sent_at)
                return count, plan
            if not isinstance(outcome, Rejected):
                break
            await self._lanes.refreshed(known)
        raise LaneFenced(f"lane {self._lanes.lane} may have gone on from {known.position or '0'}")

    def _fitting(
        self, batch: Prepared, known: LaneState, left: Sequence[Delivery]
    ) -> tuple[int, MapPlan]:
        """Plan the commit of as many of these records as fit in one transaction, all if they do."""
        count = len(left)
        after = known.position
        written = replace(known, at=int(self._lanes.now().timestamp()))
        while count:
            upto = left[count - 1].position
            taken = (
                transition for position, transition in batch.transitions if after < position <= upto
            )
            lanes = self._lanes
            plan = plan_map(lanes.lane, written, upto, total(taken), lanes.pipeline)
            if plan is not None:
                return count, plan
            count //= 2
        raise LedgerError(f"the record at {left[0].position} changes more than a transaction holds")

    async def _send(self, plan: MapPlan) -> Outcome:
        async def send() -> Outcome:
            if len(plan.actions) == 1:  # only the position: half the price by itself
                return await self._store.write(plan.actions[0])
            return await self._store.transact(plan.actions, token=plan.token)

        return (await self._retrier.until_answered(send)).outcome
