"""What was decided is carried out: archived, deleted, folded, and shown in the index.

Nothing is written unless the lease is surely ours, and the fold is fenced by it. Requests are
signed within the validity of what was decided on.
"""

from collections.abc import Sequence
from dataclasses import replace

from compactor.agenda import PendingAction
from compactor.context import MergeContext
from compactor.indexer import Indexer
from compactor.memory import MergeMemory
from compactor.pass_terms import PassTerms
from compactor.plan_execution import PlanResult, apply_succession, execute_plan
from compactor.report_writer import ReportWriter
from compactor.slice_share import SliceShare
from ledger.core.contract import Validity
from ledger.core.errors import ArchiveError, StoreError
from ledger.primitives.leases.lease import Lease
from ledger.runtime.validity import signed_within
from ledger.store.writes import Check


class Executor:
    """Carries out the decisions of one pass."""

    def __init__(
        self,
        context: MergeContext,
        memory: MergeMemory,
        lease: Lease,
        *,
        terms: PassTerms,
        indexer: Indexer,
        sharing: SliceShare | None,
        notes: ReportWriter,
    ) -> None:
        self._stores = context.stores
        self._archiver = context.archiver
        self._clock = context.services.clock
        self._own = memory.own_folds
        self._repeats = memory.repeats
        self._lease = lease
        self._terms = terms
        self._indexer = indexer
        self._sharing = sharing
        self._notes = notes

    async def act(self, held: PendingAction) -> PlanResult | None:
        """Carry out a decision whose observation is `observation_delay` seconds old.

        Returns None if it is left for another visit: its archive or the table failed, which the
        pass reports, or another process leads its slice now.

        Raises:
            LeaseLost: the lease is not surely ours; nothing was written.
        """
        partition, plan = held.visit.partition, held.plan
        if not await self._is_kept(held):
            return None
        await self._lease.confirm()  # refused without the lease: deletes carry no fence
        sharing = self._sharing
        if sharing is not None and not sharing.leads(partition):
            return None
        fence = sharing.fence(partition) if sharing else (self._lease.fence(),)
        try:
            with signed_within(self._signed_until(held), self._clock):
                done = await self._apply(held, fence)
        except StoreError as error:
            self._notes.problem(error)
            return None
        self._notes.done(done, plan.folded)
        await self._index(held, done)
        self._own.take(partition)
        if done.is_folded and plan.fold is not None and not plan.is_cut:
            self._own.add(partition, held.net, plan.fold)
        return done

    async def _is_kept(self, held: PendingAction) -> bool:
        """Put what a fold names in the archive; without it nothing is done with the collection."""
        if held.archive is None or self._archiver is None:
            return True
        try:
            await self._archiver.put(held.archive)
        except ArchiveError as error:
            self._notes.archive_waits(error)
            return False
        return True

    def _signed_until(self, held: PendingAction) -> Validity | None:
        """Return until when the requests of an action may be signed."""
        if held.archive is None:
            return held.validity
        until = held.archive.signed_until
        if held.validity is None:
            left = (until - self._clock.now()).total_seconds()
            return Validity(until, self._clock.monotonic() + left)
        return replace(held.validity, until=min(until, held.validity.until))

    async def _apply(self, held: PendingAction, fence: Sequence[Check]) -> PlanResult:
        partition, more, home = held.visit.partition, held.succession, self._terms.home
        if more is None:
            return await execute_plan(home, partition, held.net, held.plan, fence=fence)
        self._repeats.add(partition, more.again, at=self._clock.monotonic())
        return await apply_succession(
            self._stores, home.region, partition, held.net, more, fence=fence
        )

    async def _index(self, held: PendingAction, done: PlanResult) -> None:
        """Let the index follow the net that was put."""
        taken_over = held.succession.take_over if held.succession else None
        fold = taken_over or held.plan.fold
        await self._indexer.folded(
            held.visit.partition, held.net, fold, is_applied=done.is_folded, rules=self._terms.rules
        )
