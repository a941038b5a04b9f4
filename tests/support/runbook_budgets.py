"""The runbook of budgets: a grant that is used twice."""

import time
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from support.runbook_runs import AWAY, COUNTER, RunbookRun, Scenario

from ledger import Table
from ledger.core.entry import Item
from ledger.settings import Settings

LIMIT, SPENT = 10, 4
GRANT_SECONDS, SIGNED_SECONDS, SKEW_SECONDS = 4.0, 1.0, 0.5
ROUNDED_SECONDS = 2.0
"""Times of grants are whole seconds."""


def with_budgets(_folder: Path) -> Mapping[str, Any]:
    """Return settings whose grants are soon over, and whose signatures, too."""
    return {
        "budgets": {"*": {"grant_life": GRANT_SECONDS}},
        "signature_lifetime": SIGNED_SECONDS,
        "clock_skew": SKEW_SECONDS,
    }


async def _create(settings: Settings) -> None:
    async with Table.open(settings) as table:
        await table.budget(COUNTER).create(LIMIT)


async def _spend(run: RunbookRun) -> None:
    async with Table.open(run.settings, region=AWAY) as table:
        # On a busy machine a request may take longer than its signature lives: it is asked again.
        outcome = await table.budget(COUNTER).spend(SPENT, wait=30)
        assert outcome, outcome
        run.desk.world.set_outage(AWAY, on=True)


def _entries(run: RunbookRun) -> list[Item]:
    return [item for item in run.items(AWAY) if item["pk"]["S"] == COUNTER]


def a_grant_is_used_twice(run: RunbookRun) -> None:
    """A process ends without closing its grant, and somebody copies an entry that names it."""
    run.desk.portal.call(_create, run.settings)
    run.desk.wait_replicated()
    run.desk.portal.call(_spend, run)
    run.desk.world.set_outage(AWAY, on=False)
    run.desk.wait_replicated()
    [entry] = _entries(run)
    whole, last = entry["sk"]["S"][:-1], entry["sk"]["S"][-1]
    copy = {**entry, "sk": {"S": whole + ("0" if last != "0" else "1")}}
    run.client(AWAY).put_item(TableName=run.desk.world.table, Item=copy)
    run.desk.wait_replicated()
    run.expected[COUNTER] = Decimal(-2 * SPENT)
    time.sleep(GRANT_SECONDS + SIGNED_SECONDS + 2 * SKEW_SECONDS + ROUNDED_SECONDS)


SCENARIOS = (
    Scenario(
        runbook="budget-exceeded",
        values={"COUNTER": COUNTER, "AMOUNT": "4"},
        prepare=a_grant_is_used_twice,
        given=with_budgets,
    ),
)
