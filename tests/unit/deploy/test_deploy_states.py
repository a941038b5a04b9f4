"""A table of the states' own: in the template, and what the roles of a pipeline may do there."""

from contextlib import suppress

from support.forgets import dated
from support.lanes import lane_worker
from support.ledgers import make_services
from support.permissions import HOME, OTHER, SETTINGS, Recorder
from support.pipelines import CATEGORIES, FIELDS, deliveries, message

from ledger.administration.templates import Role, policy
from ledger.administration.templates.table import table_template
from ledger.core.errors import AccessDenied
from ledger.pipeline.auditing.audit import Audit
from ledger.pipeline.auditing.forget import Forget
from ledger.pipeline.auditing.move import Move
from ledger.store.wrappers.faults import FaultCall, FaultyStore, Raises
from ledger.testing.clock import ManualClock

OWN = "money-states"
GROUP = {"fields": FIELDS, "categories": CATEGORIES, "reduce_every": 0}
BEFORE = SETTINGS.replace(pipeline=GROUP)
AFTER = SETTINGS.replace(pipeline={**GROUP, "state_table": OWN})


def killed_in_a_transaction(call: FaultCall) -> Raises | None:
    """Let the first transaction be a process's last request."""
    return Raises(AccessDenied("killed")) if call.operation == "transact" else None


async def test_states_of_a_table_of_their_own_are_within_the_policies() -> None:
    """A lane that moves states, a move and an audit are allowed all, and nobody else is let in."""
    recorder = Recorder()
    stores = {region: recorder.store(region) for region in (HOME, OTHER)}
    raws = [message(f"T{number}", 1, 5) for number in range(4)]
    await lane_worker(deliveries(raws), stores, region=HOME, settings=BEFORE).run()
    await recorder.read_contract(HOME)
    recorder.calls.clear()
    services = make_services()
    dying = {region: FaultyStore(one, killed_in_a_transaction) for region, one in stores.items()}
    with suppress(AccessDenied):
        await Move(dying, AFTER, services=services).run()
    by_audit, recorder.calls[:] = [*recorder.calls], []
    more = [message(f"T{number}", 2, 7) for number in (0, 8, 9)]
    await lane_worker(deliveries([*raws, *more]), stores, region=HOME, settings=AFTER).run()
    by_lane, recorder.calls[:] = [*recorder.calls], []
    assert (await Move(stores, AFTER, services=services).run()).records == 3
    assert not (await Audit(stores, AFTER, services=services).run()).differences
    by_audit += recorder.calls
    for role, calls in ((Role.PIPELINE, by_lane), (Role.AUDIT, by_audit)):
        assert [call for call in calls if not call.is_allowed(policy(AFTER, role))] == []
        assert [call for call in calls if not call.is_allowed(policy(BEFORE, role))]
        assert OWN in {call.table for call in calls}
    for role in set(Role) - {Role.PIPELINE, Role.AUDIT, Role.ADMINISTRATOR}:
        assert OWN not in str(policy(AFTER, role))
    for statement in policy(AFTER, Role.ADMINISTRATOR)["Statement"][:2]:
        assert len(statement["Resource"]) == 4  # two tables in two regions


async def test_to_forget_states_is_within_the_policy_of_audits() -> None:
    """Every call of a run that forgets states is allowed to who audits."""
    recorder = Recorder()
    stores = {region: recorder.store(region) for region in (HOME, OTHER)}
    given = {**GROUP, "fields": {**FIELDS, "time": "At"}, "keep_states": "1h"}
    settings = SETTINGS.replace(pipeline=given)
    raws = [dated(f"T{number}", 1, 5, 90_000) for number in range(3)]
    await lane_worker(deliveries(raws), stores, region=HOME, settings=settings).run()
    recorder.calls.clear()
    clock = ManualClock(instant=True)
    done = await Forget(stores, settings, services=make_services(clock)).run()
    assert done.records == len(raws)
    document = policy(settings, Role.AUDIT)
    assert [call for call in recorder.calls if not call.is_allowed(document)] == []


def test_states_have_tables_of_their_own_where_the_settings_name_them() -> None:
    """They are like the other in all but the name, one for all pipelines that name it."""
    several = AFTER.replace(pipelines={"a": {**GROUP, "state_table": OWN}, "b": {**GROUP}})
    assert table_template(several).keys() == table_template(AFTER).keys()
    resources = table_template(several)["Resources"]
    assert resources.keys() == {"Table", "StateTable"}
    assert resources["StateTable"]["Properties"].pop("TableName") == OWN
    assert resources["Table"]["Properties"].pop("TableName") == "money"
    assert resources["StateTable"] == resources["Table"]
    two = AFTER.replace(pipelines={"a": {**GROUP, "state_table": "a-states"}})
    assert {"StateTable", "StateTable1"} <= table_template(two)["Resources"].keys()
