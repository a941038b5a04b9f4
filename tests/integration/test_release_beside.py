"""A table that processes of two releases work on: an upgrade, and a way back."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from lab.harness.config import without_terms, write_config
from support import older_process
from support.commands import environment
from support.history import BEFORE_BOOKS, BEFORE_PARTS, unpacked
from support.worlds import SHORT_TERMS, entries_left, merge_all

from compactor import Compactor
from ledger.core import ids
from ledger.core.values import Entry
from ledger.demo.harness.options import REGIONS, LabOptions
from ledger.demo.harness.table import TestTable, open_table
from ledger.session.book import Book
from ledger.session.ledger import Ledger

pytestmark = [pytest.mark.slow, pytest.mark.tools("history")]

HOME, AWAY = REGIONS[:2]
CALLS = [Decimal(10**number) for number in range(12)]
LIST = [("hot", 2 * 10**number) for number in range(6)]
THEIRS = [3 * 10**number for number in range(12)]
LEGS = [("cash", "EUR", -5), ("customer/1", "EUR", 5)]
PASSES_MAX = 40


@dataclass(frozen=True, slots=True)
class Older:
    """Runs steps of an older release."""

    package: Path
    config: Path
    folder: Path

    async def do(self, step: str, *arguments: str, region: str = HOME) -> Any:
        """Do a step in a process of its own; return what it saw."""
        ran = await self._ran(step, *arguments, region=region)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    async def refusal(self, step: str, *arguments: str, region: str = HOME) -> str:
        """Do a step that fails; return the last line of what is said."""
        ran = await self._ran(step, *arguments, region=region)
        assert ran.returncode != 0, ran.stdout
        return [line for line in ran.stderr.splitlines() if "Error" in line or "Needed" in line][-1]

    async def _ran(
        self, step: str, *arguments: str, region: str
    ) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, older_process.__file__, str(self.config), region, step, *arguments]
        run = partial(
            subprocess.run,
            words,
            capture_output=True,
            text=True,
            env=environment(self.folder, PYTHONPATH=str(self.package)),
            check=False,
        )
        return await to_thread.run_sync(run)

    async def merge_all(self, table: TestTable) -> None:
        """Run passes until nothing is left to merge."""
        for _ in range(PASSES_MAX):
            assert (await self.do("merge"))["is_success"]
            await table.wait_replicated()
            if not await entries_left(table.settings):
                return
        raise AssertionError(f"still merging after {PASSES_MAX} passes")


@asynccontextmanager
async def two_releases(
    folder: Path, commit: str = BEFORE_PARTS, **terms: Any
) -> AsyncIterator[tuple[TestTable, dict[str, Ledger], Older]]:
    """Open a table with an archive for both: this release, and that of a commit."""
    archive = f"file://{folder / 'archive'}"
    chosen = {**SHORT_TERMS, "archive": [archive], "combine": ["hot"], **terms}
    async with open_table(LabOptions(), (HOME, AWAY), **chosen) as table:
        config = write_config(without_terms(table.settings), folder / "older")
        with config.open("a", encoding="utf-8") as file:
            file.write("combine: [hot]\n")  # which the older one has in its settings
        older = Older(unpacked(commit, folder / "package"), config, folder)
        yield table, await table.ledgers(), older


async def written(ledger: Ledger) -> list[Entry]:
    """Record changes by calls that come together, and a list with a key."""
    entries = list[Entry]()

    async def record(change: Decimal) -> None:
        entries.append(await ledger.record("hot", change))

    async with anyio.create_task_group() as tasks:
        for change in CALLS:
            tasks.start_soon(record, change)
    entries += await ledger.record_many(LIST, key="list", at=datetime.now(UTC))
    return sorted(entries, key=lambda entry: entry.id)


async def history(ledger: Ledger) -> list[tuple[str, Decimal, int]]:
    """Return id, amount and count of each entry of the counter."""
    return [(entry.id, entry.change, entry.count) async for entry in ledger.history("hot")]


async def test_what_the_older_release_merges_and_archives_stays_whole(tmp_path: Path) -> None:
    """Its totals are equal before and after; each change is in the archive under its own id.

    It shows an item as one entry that stands for several changes.
    """
    async with two_releases(tmp_path) as (table, ledgers, older):
        entries = await written(ledgers[HOME])
        await table.wait_replicated()
        total = sum(entry.change for entry in entries)
        items = {ids.split(entry.id)[0] for entry in entries}
        for region in (HOME, AWAY):
            assert await older.do("total", "hot", region=region) == str(total)
        shown = await older.do("history", "hot", region=AWAY)
        assert {id_ for id_, _, _ in shown} == items
        assert sum(count for _, _, count in shown) == len(entries)
        await older.merge_all(table)
        for region, ledger in ledgers.items():
            assert (await ledger.total("hot", max_age=0)).value == total
            assert await history(ledger) == [(entry.id, entry.change, 1) for entry in entries]
            assert await older.do("total", "hot", region=region) == str(total)


async def test_both_releases_write_and_this_one_merges(tmp_path: Path) -> None:
    """One entry of the older one stands for several calls, and stays so.

    It reads the archive of this one.
    """
    async with two_releases(tmp_path) as (table, ledgers, older):
        assert await older.do("record", "hot", *map(str, THEIRS), region=AWAY) == len(THEIRS)
        entries = await written(ledgers[HOME])
        await table.wait_replicated()
        total = sum(THEIRS) + sum(entry.change for entry in entries)
        assert await older.do("total", "hot") == str(total)
        await merge_all(table.world, Compactor(table.settings))
        for region, ledger in ledgers.items():
            assert await older.do("total", "hot", region=region) == str(total)
            found = await history(ledger)
            assert sum(change for _, change, _ in found) == total
            ours = {entry.id: (entry.change, 1) for entry in entries}
            shared = {id_: (change, count) for id_, change, count in found}
            assert ours.items() <= shared.items()
            assert sum(count for _, count in shared.values()) == len(THEIRS) + len(entries)
            assert any(count > 1 for _, count in shared.values())
            shown = await older.do("history", "hot", region=region)
            assert sum(Decimal(change) for _, change, _ in shown) == total


@pytest.mark.parametrize(
    "terms", [{"books": ["book/*"]}, {"budgets": {"key/*": {"credits": True}}}]
)
async def test_a_table_of_a_later_format_is_refused_whole(
    tmp_path: Path, terms: dict[str, Any]
) -> None:
    """The older release does not read, write or merge where it could lose legs or credits."""
    async with two_releases(tmp_path, BEFORE_BOOKS, **terms) as (table, ledgers, older):
        if "books" in terms:
            await Book("book/shop", ledgers[AWAY]).transfer(LEGS)
        await ledgers[AWAY].record("hot", 5)
        await table.wait_replicated()
        before = await entries_left(table.settings)
        for words in (("total", "hot"), ("record", "hot", "1"), ("history", "hot"), ("merge",)):
            said = await older.refusal(*words, region=AWAY)
            assert "UpgradeNeeded" in said
            assert "format 2, this release knows up to 1" in said
        assert await entries_left(table.settings) == before
        await merge_all(table.world, Compactor(table.settings))
        for ledger in ledgers.values():
            assert (await ledger.total("hot", max_age=0)).value == 5
            if "books" in terms:
                balances = await Book("book/shop", ledger).balances(max_age=0)
                assert balances.assets == {"EUR": {"cash": -5, "customer/1": 5}}


@pytest.mark.parametrize("who", ["this", "older"])
async def test_without_books_both_releases_work_on_one_table(tmp_path: Path, who: str) -> None:
    """Either merges what both have written; metadata, which the older one does not know, stays."""
    async with two_releases(tmp_path, BEFORE_BOOKS) as (table, ledgers, older):
        assert await older.do("record", "hot", *map(str, THEIRS), region=AWAY) == len(THEIRS)
        entries = await written(ledgers[HOME])
        named = await ledgers[AWAY].record("hot", 7, metadata={"order": "17"})
        await table.wait_replicated()
        total = sum(THEIRS) + sum(entry.change for entry in entries) + 7
        assert await older.do("total", "hot") == str(total)
        if who == "older":
            await older.merge_all(table)
        else:
            await merge_all(table.world, Compactor(table.settings))
        for region, ledger in ledgers.items():
            assert (await ledger.total("hot", max_age=0)).value == total
            assert await older.do("total", "hot", region=region) == str(total)
            shown = await older.do("history", "hot", region=region)
            assert sum(Decimal(change) for _, change, _ in shown) == total
            found = {entry.id: entry async for entry in ledger.history("hot")}
            assert sum(entry.change for entry in found.values()) == total
            assert found[named.id].metadata == {"order": "17"}
