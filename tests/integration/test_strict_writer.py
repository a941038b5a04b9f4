"""A strict writer on the local global table, where every other way of writing is denied."""

from contextlib import suppress
from decimal import Decimal
from typing import Any

import anyio
import pytest

from compactor import Compactor
from ledger import KeyConflict, Ledger, OutcomeUnknown, Settings, StoreError
from ledger.local import Fault, LocalGlobalTable
from ledger.runtime.clock import SystemClock

HOME, AWAY = REGIONS = ["us-east-1", "eu-west-1"]
DENIED = ["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"]
FAULTS = (Fault.LOST_ANSWER, Fault.ERROR_500, Fault.THROTTLE, Fault.UNPROCESSED, Fault.CONFLICT)


STATEMENTS = ["BatchExecuteStatement", "ExecuteTransaction"]


def strict(world: LocalGlobalTable, **overrides: Any) -> Settings:
    """Return the settings of a strict writer."""
    return world.settings(writer={"strict": True}, **overrides)


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["lean", "aiobotocore"])
async def test_every_way_of_recording_needs_inserts_alone(transport: str) -> None:
    """Alone, shared, many, with keys and together, over either transport, and their repeats."""
    now = SystemClock().now()
    async with LocalGlobalTable.start(regions=REGIONS, lag=0.02) as world:
        world.faults(Fault.DENIED, operations=DENIED)
        async with Ledger.open(strict(world, transport=transport), region=AWAY) as ledger:
            await ledger.record("a", 3, note='it\'s a "note"')
            async with anyio.create_task_group() as calls:
                for number in range(60):
                    calls.start_soon(ledger.record, "b", number)
            await ledger.record_many([("c", number) for number in range(60)])
            for _ in range(2):
                await ledger.record("d", 1, key="k", at=now)
                await ledger.record_together([("d", -5), ("e", 5)])
            with pytest.raises(KeyConflict):
                await ledger.record("d", 2, key="k", at=now)
            shown = await ledger.totals(list("abcde"), max_age=0)
        assert [int(shown[name].value) for name in "abcde"] == [3, 1770, 1770, -9, 10]


@pytest.mark.timeout(120)
@pytest.mark.slow
async def test_what_fails_on_the_way_is_counted_once() -> None:
    """Of lost answers, errors, throttling and conflicts each change is there once, if at all."""
    reported = list[Decimal]()

    async def record(ledger: Ledger, first: int) -> None:
        with suppress(OutcomeUnknown, StoreError):
            reported.append((await ledger.record("a", first)).change)
        with suppress(OutcomeUnknown, StoreError):
            together = await ledger.record_together([("a", first + 1), ("b", -first)])
            reported.append(together[0].change)

    async with LocalGlobalTable.start(regions=REGIONS, lag=0.02) as world:
        settings = strict(world).replace(write_deadline=5.0, request_timeout=1.0)
        async with Ledger.open(settings, region=AWAY) as ledger:
            for number, kind in enumerate(FAULTS):
                world.faults(kind, probability=0.3, operations=STATEMENTS)
                async with anyio.create_task_group() as calls:
                    for each in range(40):
                        calls.start_soon(record, ledger, 1 + 2 * (40 * number + each))
            world.faults(None)
            there = [entry.change async for entry in ledger.history("a")]
            total = await ledger.total("a", max_age=0)
    assert len(there) == len(set(there))
    assert set(reported) <= set(there)
    assert total.value == sum(there)
    assert len(reported) > 100


@pytest.mark.slow
async def test_what_a_strict_writer_records_is_merged() -> None:
    """Its entries are entries like any other."""
    async with LocalGlobalTable.start(regions=REGIONS, lag=0.02) as world:
        settings = strict(world, settle=1.5, observation_delay=0.2, compactor={"fold_min": 1})
        async with Ledger.open(settings, region=AWAY) as ledger:
            await ledger.record_many([("a", 1)] * 30)
        await world.wait_replicated()
        await anyio.sleep(settings.settle)
        merged = 0
        for _ in range(20):
            merged += (await Compactor(settings).run_once()).merged
            if merged:
                break
            await anyio.sleep(0.2)
        assert merged == 30
        await world.wait_replicated()
        async with Ledger.open(settings, region=AWAY) as ledger:
            assert (await ledger.total("a", max_age=0)).value == 30
