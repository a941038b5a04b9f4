"""The compactor and the replicas that DescribeTable shows."""

import pytest

from compactor import Compactor
from ledger import Ledger
from ledger.local import LocalGlobalTable

pytestmark = pytest.mark.slow

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-2")


async def test_a_replica_that_the_contract_lacks_stops_merging() -> None:
    """A contract of two regions on a table of three: nothing is merged, all else goes on."""
    async with LocalGlobalTable.start(regions=REGIONS, lag=0.01) as world:
        two = {region: {"endpoint": world.endpoints[region]} for region in REGIONS[:2]}
        short = {
            "settle": 3.0,
            "retry_horizon": 1.0,
            "observation_delay": 0.4,
            "compactor": {"fold_min": 1},
        }
        settings = world.settings(regions=two, **short)
        async with Ledger.open(settings) as ledger:
            await ledger.record("c", 1)
            report = await Compactor(settings).run_once()
            assert "has a replica in ap-southeast-2 (ACTIVE), which its contract" in report.waits
            assert not report.is_success
            assert (await ledger.total("c", max_age=0)).value == 1
        assert (await Compactor(world.settings(**short)).run_once()).is_success
