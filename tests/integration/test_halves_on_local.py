"""Steady reads of another region, under lag, while transfers spread and a merge goes on: no halves.

`record_together`, which replicates item by item, is the negative control: in the same region, at
the same time, a part of its steady reads shows half of a transfer.
"""

import os
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from itertools import count

import anyio
import pytest
from support.tiers import few_fast

from compactor import Compactor
from ledger import OutcomeUnknown, ReadTooSlow, Table, Transfer
from ledger.local import LocalGlobalTable

REGIONS = ("us-east-1", "eu-west-1")
LAG, JITTER = 0.02, 0.2
TIMES = {"settle": 4.0, "retry_horizon": 1.5, "observation_delay": 1.0, "read_deadline": 0.9}
BOOK, PAIR = "book/shop", ("checking", "savings")
PAUSE_SECONDS = 0.03
SECONDS_MIN = 8.0
"""So that something settles, and is merged, while reads go on."""
READS = (400, int(os.environ.get("LEDGER_HALVES_READS", "1000")))
"""Of the book; as many of the pair."""


class Watch:
    """What readers and a compactor did, and how many of the reads showed half of a transfer."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    async def write(self, table: Table) -> None:
        """Make a transfer in a book and, by two entries together, between two counters.

        Every second one shares its item with another.
        """
        for number in count(1):
            await anyio.sleep(PAUSE_SECONDS)
            with suppress(OutcomeUnknown):  # of a busy machine: it is whole, or not there
                await self._write(table, number)
            self.seen["transfers"] += 1

    async def _write(self, table: Table, number: int) -> None:
        legs = [("cash", "EUR", -number), (f"customer/{number % 9}", "EUR", number)]
        legs += [("fees", "USD", 1), ("float", "USD", -1)]
        shared = [Transfer(legs), Transfer([("float", "USD", -1), ("till", "USD", 1)])]
        if number % 2:
            await table.book(BOOK).transfer(legs, note="by itself")
        else:
            await table.book(BOOK).transfer_many(shared)
        await table.ledger.record_together([(PAIR[0], -5), (PAIR[1], 5)])

    async def merge(self, compactor: Compactor) -> None:
        """Merge pass by pass."""
        while True:
            self.seen["folds"] += (await compactor.run_once()).folds
            await anyio.sleep(0.1)

    async def read(self, table: Table) -> None:
        """Read both once, steadily."""
        try:
            found = await table.book(BOOK).balances(max_age=0, steady=True)
            self.seen["book"] += 1
            self.seen["halves"] += any(found.total(asset) for asset in found.assets)
            pair = await table.ledger.totals(PAIR, max_age=0, steady=True)
            self.seen["pair"] += 1
            self.seen["halves of the pair"] += bool(sum(one.value for one in pair.values()))
        except ReadTooSlow:
            self.seen["too slow"] += 1


@pytest.mark.parametrize("reads", few_fast(READS, fast=1))
@pytest.mark.timeout(1800)
async def test_no_read_of_another_region_shows_half_a_transfer(
    reads: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a book none, ever; of two counters some."""
    watch = Watch()
    starting = LocalGlobalTable.start(regions=REGIONS, lag=LAG, jitter=JITTER)
    async with starting as world:
        patterns = {"books": ["book/*"], "combine": ["book/*"]}
        settings = world.settings(**TIMES, compactor={"fold_min": 1}, **patterns)
        home, away = (Table.open(settings, region=region) for region in REGIONS)
        async with home as here, away as there:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch.write, here)
                tasks.start_soon(watch.merge, Compactor(settings))
                until = anyio.current_time() + SECONDS_MIN
                while watch.seen["book"] < reads or anyio.current_time() < until:
                    await watch.read(there)
                tasks.cancel_scope.cancel()
            await world.wait_replicated()
            found = await there.book(BOOK).balances(max_age=0)
    with capsys.disabled():
        print(f"\n  {dict(watch.seen)}")
    assert watch.seen["halves"] == 0
    assert watch.seen["halves of the pair"] > 0
    assert watch.seen["folds"] > 0
    assert found.of("float", "USD") >= Decimal(-2 * watch.seen["transfers"] - 2)
    assert found.of("till", "USD") > 0
    assert found.total("EUR") == found.total("USD") == 0
