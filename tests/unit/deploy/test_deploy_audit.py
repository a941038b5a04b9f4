"""What `ledger pipeline audit`, `mend`, `rebuild`, `reset` may do, held against what they ask."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from support.lanes import lane_worker
from support.ledgers import make_services
from support.permissions import (
    HOME,
    OTHER,
    SETTINGS,
    Call,
    Recorder,
    RecordingStore,
    assert_just_enough,
)
from support.pipelines import CATEGORIES, FIELDS, deliveries, message

from ledger.administration.templates import Role, policy
from ledger.core.entry import entry_id, entry_item
from ledger.core.errors import AccessDenied
from ledger.core.values import Entry
from ledger.pipeline.auditing.audit import Audit
from ledger.pipeline.auditing.mend import Mend
from ledger.pipeline.auditing.rebuild import StateRebuild
from ledger.pipeline.auditing.reset import Reset
from ledger.pipeline.core.items import STATE_PREFIX
from ledger.settings import Settings
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import FaultCall, FaultyStore, Raises
from ledger.store.writes import Action, Outcome, Rejected

AT = datetime(2026, 1, 1, tzinfo=UTC)


class OvertakenStore(RecordingStore):
    """A store whose first rewriting of a state finds that another was faster."""

    is_overtaken = False

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction, but for that one."""
        if actions[0].key[0].startswith(STATE_PREFIX) and not self.is_overtaken:
            self.is_overtaken = True
            return Rejected(found={0: None})
        return await super().transact(actions, token=token)


def of_totals(totals: str) -> Settings:
    """Return settings of a pipeline whose records have a home in each region."""
    return SETTINGS.replace(
        pipeline={
            "fields": FIELDS,
            "categories": CATEGORIES,
            "home": {"field": "TradeID", "regions": {"E*": OTHER, "*": HOME}},
            "reduce_every": 0,
            "totals": totals,
        }
    )


async def leave_open(recorder: Recorder, settings: Settings) -> list[str]:
    """Let a lane of each region die before it commits; return them."""
    lanes = []
    for region in (HOME, OTHER):
        stores = {name: recorder.store(name) for name in (HOME, OTHER)}
        dying = {name: FaultyStore(store, killed_in_a_commit) for name, store in stores.items()}
        lane = f"{settings.pipeline.totals}-{region}"
        records = [message(f"{place}-{lane}", 1, 5) for place in "ET"]
        given: dict[str, Any] = {"lane": lane, "region": region, "settings": settings}
        await lane_worker(deliveries(records), stores, **given).run()
        with suppress(AccessDenied):
            more = [message(f"{place}-{lane}", 2, 7) for place in "ET"]
            await lane_worker(deliveries([*records, *more]), dying, **given).run()
        lanes.append(f"{region}/{lane}")
    return lanes


def killed_in_a_commit(call: FaultCall) -> Raises | None:
    """Let each transaction be a worker's last request."""
    return Raises(AccessDenied("killed")) if call.operation == "transact" else None


def damage(recorder: Recorder) -> None:
    """Record what no state says in a category of theirs."""
    item = entry_item(Entry("risk/Delta", str(entry_id(AT, 7)), Decimal(5)))
    recorder.table.set(("risk/Delta", item["sk"]["S"]), item)


async def audit_and_mend(recorder: Recorder, settings: Settings) -> None:
    """Audit, mend what differs, close lanes that others still write, and rebuild all states."""
    lanes = await leave_open(recorder, settings)
    recorder.calls.clear()
    stores = {
        region: OvertakenStore(MemoryStore(region, recorder.table), recorder.calls)
        for region in (HOME, OTHER)
    }
    services = make_services()
    commit_left = [
        Mend(stores, settings, lane=lane, closes=True, services=services) for lane in lanes
    ]
    assert not (await Audit(stores, settings, services=services).run()).differences
    assert [(await mend.run_lane()).records for mend in commit_left] == [2, 2]
    damage(recorder)
    assert (await Audit(stores, settings, services=services).run()).differences
    assert await Mend(stores, settings, services=services).run_totals()
    assert not (await Audit(stores, settings, services=services).run()).differences
    pipeline = settings.pipeline.model_copy(update={"categories": CATEGORIES[:1]})
    rebuilt = await StateRebuild(
        stores, settings.replace(pipeline=pipeline), services=services
    ).run()
    assert rebuilt.rewritten == rebuilt.records
    await Reset(stores, settings, services=services).run()
    assert not [name for name in recorder.table.partitions if name.startswith(STATE_PREFIX)]


async def test_an_audit_has_just_enough() -> None:
    """Every call of these tasks is allowed, in any region, and nothing beyond."""
    calls: list[Call] = []
    for totals in ("sums", "entries"):
        recorder = Recorder()
        await audit_and_mend(recorder, of_totals(totals))
        calls += recorder.calls
    assert_just_enough(Role.AUDIT, calls, [HOME, OTHER])


@pytest.mark.parametrize("partition", ["~contract", "~lease", "~import", "~scan", "~count~0~c"])
def test_an_audit_writes_nothing_of_others(partition: str) -> None:
    """It reads everything, and writes states, lanes and totals alone."""
    document = policy(SETTINGS, Role.AUDIT)
    for action in ("PutItem", "UpdateItem", "DeleteItem"):
        assert not Call(action, HOME, (partition,)).is_allowed(document)
    assert not Call("DeleteItem", HOME, ("risk/Delta",)).is_allowed(document)
    assert Call("PutItem", OTHER, ("risk/Delta",)).is_allowed(document)
