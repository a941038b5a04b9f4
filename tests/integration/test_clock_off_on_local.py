"""A region whose clock differs from this machine's, on real connections of both transports."""

import anyio
import pytest
from prometheus_client import CollectorRegistry

from compactor import Compactor
from ledger import ClockOff, Ledger
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import SystemClock
from ledger.runtime.metrics import summed

REGIONS = ("us-east-1", "eu-west-1")
HOME, WEST = REGIONS


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["aiobotocore", "lean"])
async def test_writes_end_and_begin_again_with_the_clock(transport: str) -> None:
    """Beyond the skew writes are refused and reads are not; set right, all goes on."""
    async with LocalGlobalTable.start(regions=REGIONS, lag=0.01) as world:
        settings = world.settings(transport=transport)
        registry, now = CollectorRegistry(), SystemClock().now
        world.set_clock(HOME, -30)
        async with Ledger.open(settings, registry=registry) as ledger:
            await ledger.record("c", 1, key="k", at=now())
            assert 28 < summed(registry, "ledger_clock_offset_seconds", region=HOME) < 32
            world.set_clock(HOME, -700)
            assert (await ledger.total("c", max_age=0)).value == 1
            with pytest.raises(ClockOff, match=r"11 min (39|4[01]) s ahead of that of us-e"):
                await ledger.record("c", 1, key="k", at=now())
            with pytest.raises(ClockOff):
                await ledger.record("c", 1)
            assert 698 < summed(registry, "ledger_clock_offset_seconds", region=HOME) < 702
            world.set_clock(HOME, 0)
            assert (await ledger.total("c", max_age=0)).value == 1
            await ledger.record("c", 1)
            assert (await ledger.total("c", max_age=0)).value == 2
        assert LocalGlobalTable.connect(world.control_url).status()["clocks"] == {HOME: 0}


@pytest.mark.slow
async def test_a_compactor_waits_for_the_clock_of_any_region() -> None:
    """Before it merges it reads every region, and each tells of its clock."""
    async with LocalGlobalTable.start(regions=REGIONS, lag=0.01) as world:
        settings = world.settings(settle=1, observation_delay=0.2, compactor={"fold_min": 1})
        async with Ledger.open(settings) as ledger:
            await ledger.record("c", 1)
        await anyio.sleep(settings.settle)
        world.set_clock(WEST, 700)
        report = await Compactor(settings).run_once()
        assert "s behind that of eu-west-1" in report.waits
        assert not report.is_success
        world.set_clock(WEST, 0)
        assert (await Compactor(settings).run_once()).is_success
