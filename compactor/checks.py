"""Preconditions of merging, apart from what single collections show.

Reading and writing continue meanwhile; totals stay exact, only merging waits.
"""

from collections.abc import Collection, Mapping

from ledger.administration.table_plan import REASONS
from ledger.core.clock_offset import check_offset
from ledger.core.errors import ReplicasDiffer
from ledger.store.port import Store

REPLICAS_SECONDS = 60.0
"""How long a description of the replicas is trusted during a pass; each begins with one."""
REPLICATING = frozenset({"ACTIVE", "UPDATING"})
"""The states in which a replica is read, written and replicated to.

Source: ReplicaDescription, ReplicaStatus, in the DynamoDB API Reference: ACTIVE is "ready for
use", UPDATING "being updated", as for a change of capacity; DynamoDB accepts requests meanwhile.
"""


def check_clock(stores: Mapping[str, Store], *, skew: float) -> None:
    """Refuse to merge with a clock that is off: it decides which entries have settled.

    A compactor whose clock is ahead would fold, delete and forget entries whose requests may still
    be repeated.

    Raises:
        ClockOff: by the answers of a region, by more than `skew` seconds.
    """
    for region, store in stores.items():
        check_offset(store.clock_offset, skew=skew, region=region)


def check_replicas(
    described: Mapping[str, str] | None, *, home: str, regions: Collection[str]
) -> None:
    """Refuse to merge a table whose replicas are not the regions that are observed.

    A replica that no compactor observes may still show entries that all others have deleted, and
    whose ids are then forgotten: they would count twice there. `described` are the states of the
    replicas besides `home`; None if there is no description.

    Raises:
        ReplicasDiffer: with the first difference, and what to do.
    """
    if described is None:
        return
    for region, state in described.items():
        if region not in regions:
            raise ReplicasDiffer(
                f"the table has a replica in {region} ({state}), which its contract does not name:"
                " name it by `ledger table set regions`, or remove the replica; nothing is merged"
                " meanwhile"
            )
    for region in regions:
        if region != home and region not in described:
            raise ReplicasDiffer(
                f"the table has no replica in {region}, which its contract names: add it by `ledger"
                " table create`, or, if it is lost for good, give it up by `compactor take-home"
                f" HOME --lost {region}`; nothing is merged meanwhile"
            )
    for region, state in described.items():
        if state not in REPLICATING:
            reason = REASONS.get(state, "it does not replicate yet")
            raise ReplicasDiffer(
                f"the replica in {region} is {state}: {reason}; nothing is merged meanwhile"
            )
