"""The permissions of a compactor in a table that lost a region."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from support.permissions import HOME, OTHER, SETTINGS, Recorder, RecordingStore, granted

from compactor.job import Compactor
from ledger.administration.templates import Role, policy
from ledger.core.contract_item import Contract, contract_item, contract_key
from ledger.core.entry import entry_id, entry_item, net_item
from ledger.core.fold import COPIES
from ledger.core.values import Entry, NetChange
from ledger.store.memory import MemoryStore, MemoryTable

AT = datetime(2026, 1, 1, tzinfo=UTC)
"""Long settled, and older than any `fold_age`."""


async def test_after_a_loss_the_compactor_needs_the_recovery_beside_its_own() -> None:
    """What arrived in one region alone is found, put again, merged and deleted there."""
    recorder = Recorder()
    contract = Contract(terms=replace(SETTINGS.terms, lost=("mars-1",)))
    apart = {HOME: recorder.table, OTHER: MemoryTable()}
    id_ = str(entry_id(AT, 7))
    item = entry_item(Entry("left", id_, Decimal(5)))
    named = entry_item(Entry("named", id_, Decimal(5)))
    net = NetChange(Decimal(5), 1, (entry_id(AT, 7),), "v1", id_, HOME, generation=2)
    for region, table in apart.items():
        table.set(contract_key(generation=1), contract_item(contract))
        table.set(("named", "~net#0002"), net_item(net, "named"))
        if region == OTHER:
            table.set(("left", id_), item)
            table.set(("named", id_), named)
    stores = {
        region: RecordingStore(MemoryStore(region, table), recorder.calls)
        for region, table in apart.items()
    }
    compactor = Compactor(SETTINGS, stores=stores, contract=True)
    for _ in range(6):
        await compactor.run_once()
    assert apart[OTHER].get(("named", id_)) is None
    again = apart[OTHER].get(("left", id_))
    assert again is not None
    assert COPIES in again
    await stores[OTHER].replicas()  # as a reclaim of budgets asks each region
    own, more = policy(SETTINGS, Role.COMPACTOR), policy(SETTINGS, Role.RECOVERY)
    needed = {call.place for call in recorder.calls if not call.is_allowed(own)}
    assert all(call.is_allowed(own) or call.is_allowed(more) for call in recorder.calls)
    assert needed == {(action, OTHER) for action in granted(Role.RECOVERY, OTHER)}
