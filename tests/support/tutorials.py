"""The programs of the pages about budgets, on three regions of a local global table."""

import runpy
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from support.examples import examples

from ledger.demo.harness.options import REGIONS, LabOptions
from ledger.demo.harness.table import TestTable, open_table
from ledger.session.assembly import GivenConnections
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.table import Table
from ledger.testing.replicas import CutStore

THREE = REGIONS[:3]


def program(page: str, folder: Path) -> dict[str, Any]:
    """Return what the program of a page defines, without running it."""
    (example,) = (one for one in examples() if one.page == page)
    script = folder / "program.py"
    script.write_text(example.code, encoding="utf-8")
    return runpy.run_path(str(script))


KEY = SimpleNamespace(api_key="42")
Call = Callable[[str, float], Awaitable[bool]]
"""Calls a model under a number, at a cost; False: rejected."""


def calling(page: dict[str, Any], gateway: Any) -> Call:
    """Return what calls a model through the gateway of a page, as the proxy does."""

    async def call(number: str, cost: float) -> bool:
        try:
            await page["call"](gateway, number, cost)
        except page["BudgetExceeded"]:
            return False
        return True

    return call


def adding(table: Table, limit: int = 10) -> Call:
    """Return the control: looks at a counter in its region before a call, adds to it after."""

    async def call(_number: str, cost: float) -> bool:
        if (await table.ledger.total("spend/42", max_age=0)).value >= limit:
            return False
        await table.ledger.record("spend/42", Decimal(str(cost)))
        return True

    return call


async def spend_all(calls: Sequence[Call], most: int) -> int:
    """Call through each gateway in turn; return how many calls were made."""
    return sum([await calls[n % len(calls)](f"call-{n}", 1.0) for n in range(most)])


async def begin(gateway: Any, *numbers: str) -> int:
    """Begin calls that do not end; return how many were let through."""
    for number in numbers:
        await gateway.async_pre_call_hook(KEY, None, {"litellm_call_id": number}, "acompletion")
    return len(gateway.held)


async def spent(table: Table) -> Decimal:
    """Return what the key has spent and holds, as the region of this table shows it."""
    return -(await table.ledger.total("key/42", max_age=0)).value


@dataclass(slots=True)
class Regions:
    """Three regions, a process in each by default; a region can be cut off, a process can die."""

    table: TestTable
    stack: AsyncExitStack
    isolated: set[str] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    opened: int = 0

    @property
    def settings(self) -> Settings:
        """The settings of the table."""
        return self.table.settings

    async def open(self, region: str) -> tuple[Table, int]:
        """Open a table of a region, as another process would; the number is for `kill`."""
        self.opened += 1
        number = self.opened
        opened = Table(
            self.settings,
            region=region,
            given=GivenConnections(
                store=CutStore(self.table.stores[region], lambda: number in self.dead),
                others={
                    name: self._reached(region, name, number) for name in THREE if name != region
                },
            ),
        )
        return await self.stack.enter_async_context(opened), number

    def _reached(self, region: str, name: str, number: int) -> Store:
        return CutStore(
            self.table.stores[name],
            lambda: number in self.dead or bool({region, name} & self.isolated),
        )

    def kill(self, number: int) -> None:
        """Let nothing more that a process sends arrive."""
        self.dead.add(number)

    def cut(self, region: str) -> None:
        """Let a region neither replicate nor be reached from others."""
        self.table.isolate(region)
        self.isolated.add(region)

    async def heal(self) -> None:
        """Reach all again, and wait until everything has arrived."""
        self.isolated.clear()
        await self.table.heal()


@asynccontextmanager
async def three_regions(engine: str, **settings: Any) -> AsyncIterator[Regions]:
    """Start a local global table of three regions."""
    async with (
        open_table(LabOptions(engine=engine, lag=0.02, jitter=0.05), THREE, **settings) as table,
        AsyncExitStack() as stack,
    ):
        yield Regions(table, stack)
