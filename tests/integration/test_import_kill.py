"""`python -m ledger import` as a process of its own, killed and stopped at chosen transactions."""

import csv
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from subprocess import PIPE
from typing import Any

import anyio
import pytest

from ledger.core import amounts
from ledger.core.contract_item import CONTRACT_PARTITION
from ledger.core.entry import entry_of
from ledger.core.hints import HINT_PARTITIONS
from ledger.core.keys import IMPORT_PARTITION
from ledger.core.parts import expanded
from ledger.local import Fault, LocalGlobalTable
from ledger.settings import Settings
from ledger.store.connections import open_store
from ledger.store.reads import Scan
from ledger.writes.imports.batches import batch_number
from ledger.writes.imports.file_format import BATCH_ROWS

pytestmark = pytest.mark.slow

HOME, OTHER = "us-east-1", "eu-west-1"
SAMPLE = Path(str(files("ledger.demo") / "bank-changes.csv"))
COLUMNS = ("--counter", "account", "--counter-format", "account-{}")
OPTIONS = (*COLUMNS, "--note", "kind", "--effective", "date")
PLAIN = (*COLUMNS, "--note", "", "--effective", "")
COMBINED = ("account-*",)
TRANSACTION = "TransactWriteItems"
SCAN_PAGES_MAX = 1_000


@dataclass
class Trap:
    """Sends a signal to the importer as its n-th transaction arrives, and says what becomes of it.

    The transaction at hand is carried out if `fault` is None: then the process is dead, or asked
    to stop, before it can know.
    """

    process: int = 0
    signal: Signals | None = None
    countdown: int = 0
    fault: Fault | None = None

    def set(self, number: Signals, *, at: int, fault: Fault | None = None) -> None:
        """Set the trap for the next process."""
        self.signal, self.countdown, self.fault = number, at, fault

    def __call__(self, _region: str, operation: str, _body: Mapping[str, Any]) -> Fault | None:
        """Choose the fault of a request."""
        if operation != TRANSACTION or self.signal is None:
            return None
        self.countdown -= 1
        if self.countdown > 0:
            return None
        number, self.signal = self.signal, None
        os.kill(self.process, number)
        return self.fault


@dataclass
class Desk:
    """A local global table, its settings in a file, and the trap."""

    world: LocalGlobalTable
    settings: Settings
    config: Path
    trap: Trap = field(default_factory=Trap)

    async def run(
        self, *arguments: str, stdin: bytes = b"", command: str = "import"
    ) -> tuple[int, str, str]:
        """Run a command to its end, whatever that is; return status, output and errors."""
        line = [sys.executable, "-m", "ledger", command, *arguments]
        process = await anyio.open_process(
            [*line, "--config", str(self.config)], stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        async with process:
            self.trap.process = process.pid
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            await process.stdin.send(stdin)
            await process.stdin.aclose()
            said = [b"".join([part async for part in process.stdout])]
            said.append(b"".join([part async for part in process.stderr]))
            status = await process.wait()
        return status, said[0].decode(), said[1].decode()

    async def table(self, region: str) -> tuple[dict[str, Decimal], int, int]:
        """Return what a region shows: sums of counters, changes, markers of batches."""
        sums: dict[str, Decimal] = {}
        changes = markers = 0
        scan = Scan()
        async with open_store(self.settings, region) as store:
            for _page in range(SCAN_PAGES_MAX):
                page = await store.scan(scan)
                for item in page.items:
                    if item["pk"]["S"] == IMPORT_PARTITION:
                        markers += batch_number(item) is not None
                        continue
                    if item["pk"]["S"] in {CONTRACT_PARTITION, *HINT_PARTITIONS}:
                        continue
                    for entry in expanded(entry_of(item)):
                        changes += 1
                        sums[entry.counter] = sums.get(entry.counter, Decimal(0)) + entry.change
                if page.after is None:
                    return sums, changes, markers
                scan = scan.next(page)
        raise AssertionError(f"over {SCAN_PAGES_MAX} pages")

    async def markers(self) -> int:
        """Return how many batches are in the home region."""
        return (await self.table(HOME))[2]


@asynccontextmanager
async def desk(directory: Path, combine: Sequence[str] = ()) -> AsyncIterator[Desk]:
    """Start a local global table of two regions and write its settings."""
    trap = Trap()
    async with LocalGlobalTable.start(regions=[HOME, OTHER], fault=trap, lag=0.01) as world:
        world.settings(combine=combine)
        regions = "".join(
            f"  {name}: {{endpoint: '{url}'}}\n" for name, url in world.endpoints.items()
        )
        config = directory / "regions.yaml"
        config.write_text(f"table: {world.table}\nhome: {HOME}\nregions:\n{regions}")
        yield Desk(world, Settings.load(config), config, trap)


def truth(path: Path) -> tuple[dict[str, Decimal], int]:
    """Return the exact sum of each account, and the number of rows, worked out apart."""
    sums: dict[str, Decimal] = {}
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        name = f"account-{row['account']}"
        sums[name] = sums.get(name, Decimal(0)) + Decimal(row["change"])
    return sums, len(rows)


@pytest.mark.parametrize(("combine", "options"), [((), OPTIONS), (COMBINED, PLAIN)])
async def test_killed_again_and_again_each_row_is_counted_once(
    tmp_path: Path, combine: Sequence[str], options: Sequence[str]
) -> None:
    """Kill -9 at three transactions, applied or not, then lost answers: the exact sums.

    Also where rows share items.
    """
    sums, rows = truth(SAMPLE)
    batches = -(-rows // BATCH_ROWS)
    async with desk(tmp_path, combine) as bank:
        seen = 0
        for at, fault in ((1, None), (6, Fault.ERROR_500), (9, Fault.LOST_ANSWER)):
            bank.trap.set(SIGKILL, at=at, fault=fault)
            status, said, _errors = await bank.run(str(SAMPLE), *options)
            assert (status, said) == (-SIGKILL, "")
            now = await bank.markers()
            assert seen <= now < batches
            seen = now
        assert seen > 0
        bank.world.faults(Fault.LOST_ANSWER, probability=0.3, operations=[TRANSACTION])
        status, said, errors = await bank.run(str(SAMPLE), *options)
        assert status == 0, errors
        assert f"in {counted(seen)} already there" in said
        bank.world.faults(None)
        await bank.world.wait_replicated()
        for region in (HOME, OTHER):
            assert await bank.table(region) == (sums, rows, batches)


def counted(batches: int) -> str:
    """Return how the summary says this many batches."""
    return "1 batch" if batches == 1 else f"{batches} batches"


async def test_terminated_it_stops_between_batches_and_is_finished_later(tmp_path: Path) -> None:
    """SIGTERM lets the batches in flight end and says how to finish, which standard input does."""
    sums, rows = truth(SAMPLE)
    content = SAMPLE.read_bytes()  # noqa: ASYNC240 (a small file)
    async with desk(tmp_path) as bank:
        bank.trap.set(SIGTERM, at=3)
        status, said, errors = await bank.run(str(SAMPLE), *OPTIONS)
        assert status == 128 + SIGTERM
        assert "rows left" in said
        assert "run the same command again to finish: nothing is counted twice" in errors
        done = await bank.markers()
        assert 0 < done < -(-rows // BATCH_ROWS)
        status, said, errors = await bank.run("-", "--format", "csv", *OPTIONS, stdin=content)
        assert status == 0, errors
        assert f"in {counted(done)} already there" in said
        found, entries, _markers = await bank.table(HOME)
        assert (found, entries) == (sums, rows)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("account,change\n1,2\n1,x\n", "1 of 2 rows break a rule, the first on line 3"),
        ("id,amount\n1,2\n", "the file has no column 'account' for the counter"),
        ("", "the file is empty"),
    ],
)
async def test_a_refusal_is_one_line_and_writes_nothing(
    tmp_path: Path, content: str, error: str
) -> None:
    """Bad input ends with status 1 and one line of error, no traceback, and an empty table."""
    path = tmp_path / "bad.csv"
    path.write_text(content)
    async with desk(tmp_path) as bank:
        status, said, errors = await bank.run(str(path), "--counter", "account")
        assert (status, said) == (1, "")
        last = errors.splitlines()[-1]
        assert last.startswith("error: ")
        assert error in last
        assert "Traceback" not in errors
        assert await bank.table(HOME) == ({}, 0, 0)


async def test_other_columns_are_refused_after_a_real_import(tmp_path: Path) -> None:
    """The balance instead of the change, on the same bytes: refused, and nothing is counted."""
    path = tmp_path / "changes.csv"
    path.write_text("counter,change,balance\na,1.50,10\n")
    async with desk(tmp_path) as bank:
        assert (await bank.run(str(path)))[0] == 0
        status, _said, errors = await bank.run(str(path), "--change", "balance")
        assert status == 1
        assert "this file was imported before as" in errors
        found, _entries, _markers = await bank.table(HOME)
        assert found == {"a": amounts.parse("1.50")}


async def test_an_export_of_rows_that_shared_items_is_imported_row_by_row(tmp_path: Path) -> None:
    """It has a line for each row, whose ids an import does not ask for: every row twice."""
    exported = tmp_path / "exported.csv"
    async with desk(tmp_path, COMBINED) as bank:
        assert (await bank.run(str(SAMPLE), *PLAIN))[0] == 0
        found, changes, _markers = await bank.table(HOME)
        assert (found, changes) == truth(SAMPLE)
        arguments = ("--format", "csv", "--output", str(exported))
        assert (await bank.run(*arguments, command="export"))[0] == 0
        assert (await bank.run(str(exported)))[0] == 0
        again, changes_again, _markers = await bank.table(HOME)
        assert again == {name: 2 * total for name, total in found.items()}
        assert changes_again == 2 * changes
