"""Real bank changes, merged and archived: statements, history, verify, and a table rebuilt."""

import csv
import itertools
import os
from collections import defaultdict
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from support.worlds import SHORT_TERMS, merge_all

from compactor import Compactor
from ledger.administration.archive.check import ArchiveCheck, ArchiveFault
from ledger.administration.archive.rebuild import Rebuild
from ledger.core.values import Entry
from ledger.demo.harness.options import REGIONS, LabOptions
from ledger.demo.harness.table import TestTable, open_table
from ledger.reads.archive.places.opening import open_places
from ledger.runtime.clock import SystemClock
from ledger.session.ledger import Ledger
from ledger.writes.entry_plan import Change

WHOLE = Path(__file__).parents[3] / "shared" / "data" / "bank-changes.csv"
SAMPLE = Path(__file__).parents[2] / "ledger" / "demo" / "bank-changes.csv"
ROWS = 20_000 if os.environ.get("LEDGER_WHOLE") else 1_500
AT_ONCE = 500


def rows() -> list[dict[str, str]]:
    """Return the bank's rows."""
    path = WHOLE if WHOLE.exists() and ROWS > 1_500 else SAMPLE
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))[:ROWS]


def months_of(found: list[dict[str, str]]) -> list[date]:
    """Return the first day of each month, and of the one after the last."""
    last = max(row["date"] for row in found)
    return [date(1993, month, 1) for month in range(1, int(last[5:7]) + 2)]


async def written(table: TestTable, found: list[dict[str, str]]) -> None:
    """Write every row from some region, with its bank's number as note and its date."""
    ledgers = await table.ledgers()
    for start in range(0, len(found), AT_ONCE):
        region = REGIONS[start // AT_ONCE % len(REGIONS)]
        await ledgers[region].record_many(
            [
                Change(
                    f"account-{row['account']}",
                    Decimal(row["change"]),
                    note=row["id"],
                    effective=date.fromisoformat(row["date"]),
                )
                for row in found[start : start + AT_ONCE]
            ]
        )


async def histories(ledger: Ledger, accounts: list[str]) -> dict[str, list[Entry]]:
    """Return the history of each account."""
    return {account: [entry async for entry in ledger.history(account)] for account in accounts}


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_statements_of_a_bank(tmp_path: Path) -> None:
    """Statements per account and month equal a count of the file; the archive holds all of it."""
    found, url = rows(), f"file://{tmp_path / 'archive'}"
    by_account: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in found:
        by_account[f"account-{row['account']}"].append(row)
    accounts, months = sorted(by_account), months_of(found)
    settings = {**SHORT_TERMS, "archive": [url], "periods": {"account-*": {"effective": True}}}
    clock = SystemClock()
    async with open_table(LabOptions(), REGIONS, **settings) as table:
        await written(table, found)
        await table.wait_replicated()
        await merge_all(table.world, Compactor(table.settings))
        ledger = (await table.ledgers())[REGIONS[1]]
        whole = await histories(ledger, accounts)
        for account in accounts:
            noted = {entry.note for entry in whole[account]}
            assert noted == {row["id"] for row in by_account[account]}
            before = Decimal(0)
            for month, following in itertools.pairwise(months):
                opening = await ledger.total(account, at=month, effective=True)
                closing = await ledger.total(account, at=following, effective=True)
                here = [
                    Decimal(row["change"])
                    for row in by_account[account]
                    if month.isoformat() <= row["date"] < following.isoformat()
                ]
                assert (opening.value, closing.value) == (before, before + sum(here))
                before = closing.value
            assert (await ledger.total(account, max_age=0)).value == before
        wrong: list[ArchiveFault] = []
        async with open_places([url], clock=clock) as places:
            check = ArchiveCheck(table.stores, REGIONS[0], places, wrong.append)
            await check.run(accounts)
            assert wrong == []
            assert (check.entries, check.collections) == (len(found), len(accounts))
            async with open_table(LabOptions(), REGIONS, **settings) as again:
                home = again.stores[REGIONS[0]]
                run = Rebuild(home, places, again.settings, clock.now(), Random(1))  # noqa: S311
                done = await run.run()
                assert (done.collections, done.entries) == (len(accounts), len(found))
                await again.wait_replicated()
                other = (await again.ledgers())[REGIONS[2]]
                assert await histories(other, accounts) == whole
                for account in accounts[::7]:
                    theirs = await other.periods(account, by="month", effective=True)
                    ours = await ledger.periods(account, by="month", effective=True)
                    assert (theirs.periods, theirs.opening) == (ours.periods, ours.opening)
