"""The index on the embedded local global table: three regions, shards, orders, the sync face."""

from decimal import Decimal

import anyio
import pytest

from compactor import Compactor
from ledger import Ledger, Listed, Settings
from ledger import sync as plain
from ledger.local import LocalGlobalTable

pytestmark = pytest.mark.slow

REGIONS = ["us-east-1", "eu-west-1", "ap-southeast-2"]
VALUES = {"votes/é": 3, "votes/Z": -4, "votes/\U0001f600": 9, "votes/\ufb01": 9, "votes/a b": 0}
INDEX = ("votes/*", "wide/*")
PASSES_MAX = 20


def settings_of(world: LocalGlobalTable, *, settle: float = 2.0) -> Settings:
    """Return settings with short times and an index."""
    return world.settings(
        settle=settle,
        observation_delay=0.2,
        compactor={"fold_min": 1, "scan_every": 0},
        index=INDEX,
        shards={"wide/*": 4},
    )


async def merged(settings: Settings, world: LocalGlobalTable, changes: int) -> None:
    """Merge until the index of home counts so many changes, and it has replicated."""
    found: list[Listed] = []
    for _ in range(PASSES_MAX):
        await Compactor(settings).run_once()
        async with Ledger.open(settings) as home:
            found = [counter async for counter in home.counters("votes/")]
            found += [counter async for counter in home.counters("wide/")]
        if sum(listed.count for listed in found) == changes:
            await world.wait_replicated()
            return
        await anyio.sleep(0.3)
    raise AssertionError(f"the index counts {found}")


@pytest.mark.timeout(120)
async def test_counters_are_listed_alike_in_every_region() -> None:
    """By prefix in bytes order, shards summed, the top with its ties; young counters by name."""
    async with LocalGlobalTable.start(regions=REGIONS, lag=0.02) as world:
        settings = settings_of(world)
        for place, (counter, value) in enumerate(VALUES.items()):
            async with Ledger.open(settings, region=REGIONS[place % 3]) as ledger:
                await ledger.record(counter, value - 1)
                await ledger.record(counter, 1)
        async with Ledger.open(settings, region=REGIONS[1]) as ledger:
            await ledger.record_many([("wide/w", 1)] * 40)
        await world.wait_replicated()
        await anyio.sleep(settings.settle)
        await merged(settings, world, 2 * len(VALUES) + 40)
        settings = settings_of(world, settle=3600.0)  # what is written now stays young
        async with Ledger.open(settings, region=REGIONS[2]) as ledger:
            await ledger.record("votes/young", 5)
            await ledger.describe("votes/young", {"owner": "team-7"})
        await world.wait_replicated()
        await Compactor(settings).run_once()
        await world.wait_replicated()

        ordered = sorted([*VALUES, "votes/young"], key=str.encode)
        for region in REGIONS:
            async with Ledger.open(settings, region=region) as ledger:
                found = [listed async for listed in ledger.counters("votes/", described=True)]
                assert [listed.counter for listed in found] == ordered
                assert {listed.counter: listed.value for listed in found} == {
                    **VALUES,
                    "votes/young": 0,
                }
                assert [listed.counter for listed in found if listed.description] == ["votes/young"]
                (wide,) = [listed async for listed in ledger.counters("wide/")]
                assert (wide.value, wide.count) == (Decimal(40), 40)
                top = [listed.counter for listed in await ledger.top("votes/", 3)]
                assert top == ["votes/\ufb01", "votes/\U0001f600", "votes/é"]
                exact = await ledger.top("votes/", 3, exact=True)
                assert [(listed.counter, listed.value) for listed in exact][2] == (
                    "votes/young",
                    Decimal(5),
                )
                (young,) = [listed async for listed in ledger.counters("votes/young", exact=True)]
                assert young.value == 5

        def page() -> list[str]:
            with plain.Ledger.open(settings, region=REGIONS[1]) as ledger:
                first = [counter.counter for counter in ledger.counters("votes/", limit=2)]
                assert ledger.description("votes/young") == {"owner": "team-7"}
                assert len(ledger.top("votes/", 2)) == 2
                return first + [
                    counter.counter for counter in ledger.counters("votes/", after=first[-1])
                ]

        assert await anyio.to_thread.run_sync(page) == ordered
