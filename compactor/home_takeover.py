"""Moving the home away from a region that is lost for good, or dropping a lost region.

An operator's decision, never automatic: a region that comes back unchanged must not find its table
merged by others. So nothing is done while any remaining region still lists the lost one among the
table's replicas; afterwards nothing that it wrote replicates, and a region that is added again
later is a new, empty replica.

::

    OLD removed from the replicas ──> contract of the next generation, through NEW ──> wait ──>
    in force ──> compactors of NEW take over collection by collection (`compactor.succession`)
"""

from collections.abc import Iterable, Sequence

from ledger.administration.table_plan import DROPPED_BY_ITSELF
from ledger.contract.contract_writer import POLL_SECONDS, ContractWriter
from ledger.contract.wait_report import Report
from ledger.core.contract_item import Contract
from ledger.core.errors import ContractChangeRefused, InvalidInput
from ledger.runtime.clock import Clock
from ledger.settings import Settings
from ledger.store.connections import open_stores
from ledger.store.port import Store


def at_stake(lost: Sequence[str]) -> str:
    """Return what an operator must know before regions are given up."""
    return (
        f"{', '.join(lost)}: given up for good. What was acknowledged there and has not arrived in"
        " another region is lost, and record_together may have arrived in part. Stop its writers"
        " first: nothing that they still write will ever count."
    )


def without_lost(settings: Settings, target: str, lost: Sequence[str]) -> Settings:
    """Return the settings of the remaining regions.

    Raises:
        InvalidInput: the target is lost, too, or not in the settings.
    """
    remaining = {name: reach for name, reach in settings.regions.items() if name not in lost}
    if target not in remaining:
        raise InvalidInput(f"the new home must be one of {', '.join(remaining)}, got {target!r}")
    return settings.elsewhere(regions=remaining, home=target)


async def check_removed(stores: Iterable[Store], table: str, lost: Sequence[str]) -> None:
    """Check that no remaining region lists a lost one among the table's replicas.

    Raises:
        ContractChangeRefused: one does, or is still deleting it.
        StoreError: one cannot be asked.
    """
    for store in stores:
        listed = await store.replicas() or {}
        if still := [name for name in lost if name in listed]:
            name, region = still[0], store.region
            raise ContractChangeRefused(
                f"{region} still lists {name} among the replicas of table {table}"
                f" ({listed[name]}): {_how(name, listed[name], region, table)}; run this again once"
                " it is gone in every region"
            )


def _how(name: str, state: str, region: str, table: str) -> str:
    """Return how a lost replica in this state gets out of the table."""
    if state in DROPPED_BY_ITSELF:
        return "DynamoDB takes it out by itself 20 hours after it became inaccessible"
    return (
        f"remove it first, in AWS by `aws dynamodb update-table --region {region} --table-name"
        f' {table} --replica-updates \'[{{"Delete": {{"RegionName": "{name}"}}}}]\'`. Where that is'
        f" refused because the replica is protected from deletion, or because {name} does not"
        f" answer, disable the region for the account (`aws account disable-region --region-name"
        f" {name}`): DynamoDB takes the replica out 20 hours later, protected or not. A region that"
        " every account has cannot be disabled: see deploy/runbooks/home-lost.md"
    )


async def take_home(
    remaining: Settings,
    target: str,
    lost: Sequence[str],
    *,
    clock: Clock,
    report: Report,
    poll_seconds: float = POLL_SECONDS,
) -> Contract:
    """Bring a contract into force that names the new home and no longer the lost region.

    Raises:
        ContractChangeRefused: a remaining region lists a lost one among the replicas, or another
            operator took over.
        StoreError: a remaining region cannot be read or written; run it again.
    """
    async with open_stores(remaining, clock=clock) as stores:
        await check_removed(stores.values(), remaining.table, lost)
        writer = ContractWriter(stores, clock=clock, report=report, poll_seconds=poll_seconds)
        return await writer.take_over(target, lost=lost)
