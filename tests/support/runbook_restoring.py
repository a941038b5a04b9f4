"""The runbook of a restore: DynamoDB gives the items of a moment, in one region, and no more."""

from datetime import UTC, datetime
from typing import Any

from support.runbook_calls import make_places, with_archive
from support.runbook_runs import AWAY, COUNTER, HOME, RunbookRun, Scenario

RESTORED = "ledger-restored"
KEYS = ("pk", "HASH"), ("sk", "RANGE")


def a_moment_in_merging(run: RunbookRun) -> None:
    """Copy home's items while entries are folded, not settled, or on their way.

    Afterwards something writes what should not be there, and deletes a counter.
    """
    for region in run.settings.regions:
        run.record(region, COUNTER, 3, -1)
    run.settle()
    run.run_pass()  # folded, not deleted
    run.record(AWAY, COUNTER, 5)
    run.record(HOME, "other", 2, 2)
    run.desk.wait_replicated()
    run.desk.world.pause(AWAY, HOME)
    run.record(AWAY, COUNTER, 100, counts=False)  # acknowledged, and not at home by then
    run.items_then = run.items(HOME)
    # Six entries are folded and still there: their ids are in the net, which counts them.
    assert len([item for item in run.items_then if item["pk"]["S"] == COUNTER]) == 6 + 1 + 1
    run.values["TIME"] = datetime.now(UTC).isoformat()
    run.desk.world.heal_all()
    run.record(HOME, COUNTER, 1000, counts=False)
    run.settle()
    run.run_pass()
    run.values["UNTIL"] = datetime.now(UTC).isoformat()
    run.desk.wait_replicated()
    for item in run.items(HOME):
        if item["pk"]["S"] == "other":
            key = {name: item[name] for name in ("pk", "sk")}
            run.client(HOME).delete_item(TableName=run.desk.world.table, Key=key)


def with_an_archive(run: RunbookRun) -> None:
    """The same, with places: what is folded after the moment stays in them."""
    make_places(run)
    a_moment_in_merging(run)


def restore(run: RunbookRun) -> None:
    """Make a table with the items of then: of one region, without stream, recovery, protection."""
    client = run.client(run.values["REGION"])
    client.create_table(
        TableName=RESTORED,
        KeySchema=[{"AttributeName": name, "KeyType": role} for name, role in KEYS],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in KEYS],
        BillingMode="PAY_PER_REQUEST",
    )
    for item in run.items_then:
        client.put_item(TableName=RESTORED, Item=item)


def wait(run: RunbookRun) -> None:
    """Wait until the table is there."""
    client = run.client(run.values["REGION"])
    client.get_waiter("table_exists").wait(TableName=RESTORED, WaiterConfig={"Delay": 1})


def name_it(run: RunbookRun, name: str = "restored.yaml") -> None:
    """Put the new table's name into a settings file."""
    run.write_settings(run.settings.replace(table=RESTORED), name)


def _scenario(name: str, **options: Any) -> Scenario:
    return Scenario(
        runbook="restore",
        name=name,
        values={"REGION": HOME, "RESTORED": RESTORED, "COUNTER": COUNTER},
        foreign={
            "aws dynamodb restore-table-to-point-in-time --region REGION --source-table-name ledger"
            " --target-table-name RESTORED --restore-date-time TIME": restore,
            "aws dynamodb wait table-exists --region REGION --table-name RESTORED": wait,
        },
        events={
            "restored.yaml names the new table": name_it,
            "regions.yaml is replaced": lambda run: name_it(run, "regions.yaml"),
        },
        **options,
    )


SCENARIOS = (
    _scenario("", prepare=a_moment_in_merging, skipped=frozenset({"With an archive"})),
    _scenario("with an archive", prepare=with_an_archive, given=with_archive),
)
