"""Runbooks of merging, replication and items: what is behind, and what is wrong."""

import json
from collections.abc import Mapping
from typing import Any

from support.runbook_runs import AWAY, COUNTER, HOME, THIRD, Act, RunbookRun, Scenario, with_changes

from ledger.core.entry import Item


def nothing_merged(run: RunbookRun) -> None:
    """Many changes, and no compactor."""
    for region in run.settings.regions:
        run.record(region, COUNTER, *range(1, 40))
    run.settle()


def start_service(run: RunbookRun) -> None:
    """Start another process of the compactor."""
    run.start("compactor", "run", "--every", "500ms")


def all_is_merged(run: RunbookRun) -> None:
    """Wait until the service has merged all, and has nothing left to do.

    While deletes replicate there is nothing to do either, and ids to forget once they have.
    """

    def is_idle() -> bool:
        return "would do nothing" in run.command("compactor plan COUNTER").out

    def stays_idle() -> bool:
        if not is_idle():
            return False
        run.sleep(2.0)
        return is_idle()

    run.wait_until(stays_idle)


def one_region_is_behind(run: RunbookRun) -> None:
    """Hold what is on its way to a region; a pass has led before."""
    with_changes(run)
    run.values["OLDER"] = f"{run.expected[COUNTER]}"
    run.desk.world.pause(HOME, THIRD)
    run.record(HOME, COUNTER, 7)
    run.values["TOTAL"] = f"{run.expected[COUNTER]}"


def it_catches_up(run: RunbookRun) -> None:
    """Let it replicate."""
    run.desk.world.heal_all()
    run.desk.wait_replicated()


BAD_ITEM = "2026-01-01T00:00:00.000000Z#00000000000000bd"


def an_item_was_put(run: RunbookRun) -> None:
    """Another tool puts what looks like an entry, with a text for an amount."""
    with_changes(run)
    item: Item = {"pk": {"S": COUNTER}, "sk": {"S": BAD_ITEM}, "change": {"S": "five"}}
    run.client(AWAY).put_item(TableName=run.desk.world.table, Item=item)
    run.desk.wait_replicated()


def item_key(run: RunbookRun) -> dict[str, Any]:
    """Return the key of the item that the page is about."""
    return {"pk": {"S": COUNTER}, "sk": {"S": run.values["ITEM"]}}


def get_item(run: RunbookRun) -> str:
    """Read the item."""
    client = run.client(run.values["REGION"])
    found = client.get_item(TableName=run.desk.world.table, Key=item_key(run))
    return json.dumps(found["Item"], default=str)


def delete_item(run: RunbookRun) -> None:
    """Delete the item."""
    client = run.client(run.values["REGION"])
    client.delete_item(TableName=run.desk.world.table, Key=item_key(run))


KEY_OPTION = '--key \'{"pk": {"S": "COUNTER"}, "sk": {"S": "ITEM"}}\''
LOOK_AND_DELETE: Mapping[str, Act] = {
    "aws dynamodb get-item --region REGION --table-name ledger --consistent-read"
    f" {KEY_OPTION}": get_item,
    f"aws dynamodb delete-item --region REGION --table-name ledger {KEY_OPTION}": delete_item,
}


def a_wrong_change(run: RunbookRun) -> None:
    """One entry that should not be there, not merged yet."""
    run.record(HOME, COUNTER, 3)
    run.record(AWAY, COUNTER, 4)
    run.record(AWAY, COUNTER, 500, counts=False)
    run.desk.wait_replicated()
    (wrong,) = (item for item in run.items(HOME) if item.get("change") == {"N": "500"})
    run.values["ENTRY"] = wrong["sk"]["S"]


def replicated(run: RunbookRun) -> None:
    """Wait until all has replicated."""
    run.desk.wait_replicated()


def scenario_of_item(runbook: str, item: str, region: str, **options: Any) -> Scenario:
    """Return the scenario of a page on which an item of the counter is looked at, and deleted."""
    values = {"COUNTER": COUNTER, "ITEM": item, "REGION": region}
    return Scenario(
        runbook=runbook,
        values=values,
        foreign=LOOK_AND_DELETE,
        events={"it has replicated": replicated},
        **options,
    )


SCENARIOS = (
    Scenario(
        runbook="backlog-growing",
        values={"COUNTER": COUNTER},
        prepare=nothing_merged,
        foreign={"kubectl -n ledger scale deployment/ledger-compactor --replicas=2": start_service},
        events={"entries go on being merged": all_is_merged},
    ),
    Scenario(
        runbook="lag-high",
        values={"BEHIND": THIRD, "COUNTER": COUNTER},
        prepare=one_region_is_behind,
        events={"replication catches up": it_catches_up},
    ),
    scenario_of_item("bad-item", BAD_ITEM, THIRD, prepare=an_item_was_put),
    Scenario(
        runbook="wrong-change",
        values={"COUNTER": COUNTER, "WHY": "twice", "TRUE_TOTAL": "7", "COUNT_NAME": "case-1"},
        prepare=a_wrong_change,
        events={"it has replicated": replicated},
    ),
)
