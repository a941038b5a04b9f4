"""One day: processes in each region spend from a budget as demand comes and goes.

The library's own code runs over a global table in memory: what is written arrives elsewhere a
second later at the latest, processes crash and are started again, compactors do their passes, and a
region may be cut off. Beside it the same demand is held against a fixed share of each region, as
an item per region with a condition would.
"""

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random

import anyio
from prometheus_client import CollectorRegistry

from compactor import Compactor
from ledger.budgets.balance import in_flight
from ledger.budgets.calendar import window_of
from ledger.budgets.rights import Holder, Rights
from ledger.budgets.rights_items import read_rights
from ledger.budgets.spend_request import Granted
from ledger.core.amounts import EXACT, of_text, total_wide
from ledger.core.budget_rules import BudgetRule
from ledger.core.errors import LedgerError
from ledger.runtime.metrics import summed
from ledger.runtime.services import Services
from ledger.table import Table
from ledger.testing import MemoryGlobalTable

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1", "sa-east-1")
BUDGET = "quota"
DAY_SECONDS = 86_400
HOUR_SECONDS = 3_600
SWING = 0.9
"""How far demand of a region swings around its mean in a day, each region at another hour."""
CUT_SECONDS = 10 * HOUR_SECONDS, 4 * HOUR_SECONDS
"""When a region is cut off, and for how long."""
PROCESSES = 3
CRASH_SECONDS = 4 * HOUR_SECONDS
"""How often each process crashes: what it held comes back once its entries were read."""
PASS_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """What a day is like; `rate` is the mean of all regions together, in spends of 1 a second.

    `part` is the limit as a part of the demand, of the day or, with `hourly` windows, of each hour.
    `weights` are how demand is divided between the regions. With `cut` the region of most demand is
    cut off for four hours, from ten o'clock on.
    """

    name: str
    part: Decimal
    weights: Sequence[int] = (1, 1, 1, 1)
    hourly: bool = False
    cut: bool = False
    rate: float = 2.0
    seconds: int = DAY_SECONDS
    seed: int = 7

    @property
    def limit(self) -> int:
        """The limit of the budget, or of each of its windows."""
        seconds = HOUR_SECONDS if self.hourly else self.seconds
        return int(EXACT.multiply(EXACT.multiply(self.part, of_text(repr(self.rate))), seconds))

    def demand(self, region: int, second: int) -> float:
        """Return the mean number of spends in a region in a second of the day."""
        weight = self.weights[region] / sum(self.weights)
        turn = 2 * math.pi * (second / DAY_SECONDS + region / len(REGIONS))
        return self.rate * weight * (1 + SWING * math.sin(turn))

    def is_cut(self, region: int, second: int) -> bool:
        """Return whether a region is cut off."""
        first = min(CUT_SECONDS[0], self.seconds // 3)
        is_largest = region == self.weights.index(max(self.weights))
        return self.cut and is_largest and first <= second < first + CUT_SECONDS[1]


@dataclass(slots=True)
class Figures:
    """What became of a day's spends.

    `here` were answered by what the region had, without another region; `elsewhere` were refused
    while there was as much in all regions together. `most` is the most that was spent of a limit:
    of the budget, or of one window. `static` would be refused by fixed shares.
    """

    spends: int = 0
    granted: int = 0
    refused: int = 0
    fetched: int = 0
    elsewhere: int = 0
    transfers: int = 0
    writes: int = 0
    most: int = 0
    static: int = 0
    spent: dict[str, int] = field(default_factory=dict)

    @property
    def here(self) -> int:
        """Spends that were answered without another region."""
        return self.spends - self.fetched

    def per_spend(self, count: int) -> float:
        """Return a count as a part of all spends."""
        return count / max(1, self.spends)


class DayRun:
    """One run of a day."""

    def __init__(self, day: Day) -> None:
        self.day = day
        self.figures = Figures()
        self._random = Random(day.seed)  # noqa: S311 (repeatable, and nothing secret)
        rule = {"window": "hour"} if day.hourly else {}
        self._world = MemoryGlobalTable(REGIONS, seed=day.seed, budgets={BUDGET: rule})
        self._rule = BudgetRule(window="hour" if day.hourly else "none")
        self._registries: list[CollectorRegistry] = []
        self._owed = [0.0] * len(REGIONS)
        self._shares: dict[tuple[str, int], int] = {}
        self._sent: dict[tuple[str, Holder, Holder], Decimal] = {}
        self._versions: dict[tuple[str, Holder], int] = {}
        self._looked: tuple[int, bool] = (-1, False)

    async def run(self) -> Figures:
        """Run the day; figures are exact, and the same for a seed."""
        async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
            processes = [[self._table(region) for _ in range(PROCESSES)] for region in REGIONS]
            for table in (table for process in processes for table in process):
                await stack.enter_async_context(table)
            await processes[0][0].budget(BUDGET).create(self.day.limit)
            self._world.replicate()
            tasks.start_soon(self._compact)
            for second in range(self.day.seconds):
                await self._second(second, processes, stack)
            tasks.cancel_scope.cancel()
        self.figures.most = max(self.figures.spent.values(), default=0)
        self.figures.writes = sum(self._versions.values())
        for registry in self._registries:
            self.figures.fetched += int(summed(registry, "ledger_budget_fetches_total"))
        return self.figures

    def _table(self, region: str) -> Table:
        registry = CollectorRegistry()
        self._registries.append(registry)
        return self._world.table(region, registry=registry)

    async def _compact(self) -> None:
        world, number = self._world, 0
        while True:
            number += 1
            job = Compactor(
                world.settings,
                stores={region: world.store(region) for region in REGIONS},
                services=Services.of(
                    clock=world.clock,
                    randomness=Random(number),  # noqa: S311 (as above)
                ),
                owner=f"pass-{number}",
                contract=True,
            )
            await job.run_once()
            await world.clock.sleep(PASS_SECONDS)

    async def _second(
        self, second: int, processes: list[list[Table]], stack: AsyncExitStack
    ) -> None:
        for place, region in enumerate(REGIONS):
            if self.day.is_cut(place, second) != self.day.is_cut(place, second - 1):
                if self.day.is_cut(place, second):
                    self._world.isolate(region)
                else:
                    self._world.heal()
            for number in range(PROCESSES):
                if self._crashes(place, number, second):
                    self._world.crash(processes[place][number])
                    await processes[place][number].close()
                    processes[place][number] = self._table(region)
                    await stack.enter_async_context(processes[place][number])
            for _ in range(self._drawn(place, second)):
                await self._spend(place, second, self._random.choice(processes[place]))
        await self._look()
        self._world.replicate()
        await self._world.clock.advance(1)

    @staticmethod
    def _crashes(place: int, number: int, second: int) -> bool:
        offset = (place * PROCESSES + number + 1) * CRASH_SECONDS // (len(REGIONS) * PROCESSES + 1)
        return second % CRASH_SECONDS == offset

    def _drawn(self, place: int, second: int) -> int:
        """Return how many spends come in a region in a second: on average its demand."""
        self._owed[place] += self.day.demand(place, second) * 2 * self._random.random()
        count = int(self._owed[place])
        self._owed[place] -= count
        return count

    async def _spend(self, place: int, second: int, table: Table) -> None:
        figures = self.figures
        figures.spends += 1
        counter = window_of(BUDGET, self._rule, self._world.clock.now()).counter
        self._spend_static(counter, place)
        try:
            outcome = await table.budget(BUDGET).spend(1)
        except LedgerError:
            outcome = None
        if isinstance(outcome, Granted):
            figures.granted += 1
            figures.spent[counter] = figures.spent.get(counter, 0) + 1
            return
        figures.refused += 1
        figures.elsewhere += await self._is_anywhere(counter, second)

    def _spend_static(self, counter: str, place: int) -> None:
        key = (counter, place)
        left = self._shares.setdefault(key, self.day.limit // len(REGIONS))
        self._shares[key] = max(0, left - 1)
        self.figures.static += not left

    async def _is_anywhere(self, counter: str, second: int) -> bool:
        """Return whether all regions together have as much as one spend, or it is on its way."""
        if self._looked[0] != second:
            items = {holder: rights async for holder, rights in self._own(counter)}
            free = total_wide(
                max(Decimal(0), EXACT.add(rights.available, in_flight(holder, items)))
                for holder, rights in items.items()
            )
            self._looked = (second, free >= 1)
        return self._looked[1]

    async def _own(self, counter: str) -> AsyncIterator[tuple[Holder, Rights]]:
        """Yield each holder's item as its own region has it."""
        for region in REGIONS:
            for holder, rights in (await read_rights(self._world.store(region), counter)).items():
                if holder.region == region:
                    yield holder, rights

    async def _look(self) -> None:
        """Count the transfers, and the writes of rights, of this second."""
        counter = window_of(BUDGET, self._rule, self._world.clock.now()).counter
        async for holder, rights in self._own(counter):
            self._versions[counter, holder] = rights.version
            for to, amount in rights.sent.items():
                key = counter, holder, to
                if self._sent.get(key) != amount:
                    self._sent[key] = amount
                    self.figures.transfers += 1
