"""Runbooks of what somebody with a writer's or an operator's rights did: nets, the contract."""

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml
from support.runbook_merging import KEY_OPTION, item_key, replicated, scenario_of_item
from support.runbook_regions import remove, unprotect, without
from support.runbook_restoring import RESTORED, restore, wait
from support.runbook_runs import AWAY, COUNTER, HOME, THIRD, RunbookRun, Scenario, with_changes

from ledger.core.contract import DURATIONS
from ledger.core.contract_item import CONTRACT_PARTITION
from ledger.core.entry import Item, net_item
from ledger.core.fold import collect

NET, FORGED = "~net#0001", "~net#9999"
KEY = f"k1 {base64.b64encode(bytes(range(32))).decode()}\n"


def _forged(run: RunbookRun, *, generation: int) -> Item:
    """Return a net of a writer's making, whole and with a right digest."""
    items = [item for item in run.items(HOME) if item["pk"]["S"] == COUNTER]
    net = collect(items).net
    assert net is not None
    return net_item(replace(net, change=Decimal(10**6), generation=generation), COUNTER)


def _put(run: RunbookRun, item: Item) -> None:
    run.client(AWAY).put_item(TableName=run.desk.world.table, Item=item)
    run.desk.wait_replicated()


def a_net_of_no_generation(run: RunbookRun) -> None:
    """A writer puts a net that would count alone."""
    with_changes(run)
    _put(run, _forged(run, generation=9999))


def with_keys(folder: Path) -> Mapping[str, Any]:
    """Return settings with a key file that signs nets, and is required."""
    file = folder / "keys"
    file.write_text(KEY, encoding="utf-8")
    return {"signatures": {"keys": str(file), "required": True}}


def a_net_put_over(run: RunbookRun) -> None:
    """A writer replaces the net that is there."""
    with_changes(run)
    run.items_then = run.items(HOME)
    run.values["TIME"] = datetime.now(UTC).isoformat()
    _put(run, _forged(run, generation=1))


def get_former(run: RunbookRun) -> str:
    """Read the net of then."""
    found = run.client(HOME).get_item(TableName=RESTORED, Key=item_key(run))
    return json.dumps(found["Item"], default=str)


def copy_item(run: RunbookRun) -> None:
    """Put the net of then into the table."""
    found = run.client(HOME).get_item(TableName=RESTORED, Key=item_key(run))
    run.client(HOME).put_item(TableName=run.desk.world.table, Item=found["Item"])


def a_contract_is_gone(run: RunbookRun) -> None:
    """A table that lost a region, and merged since, loses its contract."""
    with_changes(run)
    unprotect(run, THIRD)
    remove(run, THIRD, through=HOME)
    without(run, THIRD)
    taken = run.command("compactor take-home HOME --lost LOST --confirm LOST")
    assert taken.status == 0, taken
    for _ in range(3):
        run.settle()
        run.run_pass()
    run.desk.wait_replicated()
    assert [item for item in run.items(AWAY) if item["sk"]["S"] == "~net#0002"]
    for item in run.items(HOME):
        if item["pk"]["S"] == CONTRACT_PARTITION:
            key = {name: item[name] for name in ("pk", "sk")}
            run.client(HOME).delete_item(TableName=run.desk.world.table, Key=key)
    run.desk.wait_replicated()


def write_former(run: RunbookRun) -> None:
    """Write the settings with the durations that the contract had."""
    folder = run.desk.folder
    text = (folder / "regions.yaml").read_text(encoding="utf-8")
    durations = run.settings.model_dump(mode="json", include=set(DURATIONS))
    (folder / "former.yaml").write_text(text + yaml.safe_dump(durations), encoding="utf-8")


SCENARIOS = (
    scenario_of_item(
        "net-forged",
        FORGED,
        HOME,
        prepare=a_net_of_no_generation,
        skipped=frozenset({"It was put over the right one"}),
    ),
    Scenario(
        runbook="net-forged",
        name="put over the right one",
        values={"COUNTER": COUNTER, "ITEM": NET, "REGION": HOME, "RESTORED": RESTORED},
        prepare=a_net_put_over,
        foreign={
            "aws dynamodb restore-table-to-point-in-time --region REGION --source-table-name ledger"
            " --target-table-name RESTORED --restore-date-time TIME": restore,
            "aws dynamodb wait table-exists --region REGION --table-name RESTORED": wait,
            "aws dynamodb get-item --region REGION --table-name RESTORED --consistent-read"
            f" {KEY_OPTION} --query Item > net.json": get_former,
            "aws dynamodb put-item --region REGION --table-name ledger --item file://net.json": (
                copy_item
            ),
        },
        events={"the net has replicated": replicated},
        skipped=frozenset({"Do"}),
        given=with_keys,
    ),
    Scenario(
        runbook="contract-lost",
        values={"COUNTER": COUNTER, "HOME": HOME, "LOST": THIRD},
        prepare=a_contract_is_gone,
        events={"former.yaml has the values as they were": write_former},
    ),
)
