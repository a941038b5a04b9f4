"""Moving the home: folds that name the new one, then the lease, then the table's contract.

Between the second and the third nothing is merged: the compactors of the old home find the lease
taken from them, and those of the new one wait for the contract.
"""

import anyio

from compactor.leadership import Candidate
from compactor.report import CompactorReport
from compactor.waiting import sleep_or_stop
from ledger.primitives.leases.state import LeaseGrant
from ledger.runtime.clock import Clock


async def move_all(
    leader: Candidate,
    grant: LeaseGrant,
    *,
    target: str,
    observation_delay: float,
    clock: Clock,
    stop: anyio.Event,
) -> CompactorReport:
    """Hand every collection over to `target`, then the lease itself; return the last report.

    A round of the search may take several passes, and the first pass may finish a round that
    another instance began: a whole round of our own must find nothing left to move. When stopped,
    or when a pass has problems, nothing more is handed over. Damaged collections are left as they
    are, and named in the report: the new home merges them once they are mended.
    """
    is_left = True
    left = CompactorReport()
    while True:  # each pass moves every committed collection
        report = await leader.run_pass(grant, move_to=target, stop=stop)
        for partition, reason in report.quarantined.items():
            left.quarantine(partition, reason)
        report.damaged = max(report.damaged, left.damaged)
        report.quarantined = left.quarantined
        if stop.is_set() or not report.is_success:
            return report
        is_left = is_left or report.is_moving
        if report.is_whole and not is_left:
            break
        is_left = is_left and not report.is_whole
        if report.unmoved:  # what was just written has to reach the other regions first
            await sleep_or_stop(clock, observation_delay - report.seconds, stop)
    await leader.hand_over(target)
    return report
