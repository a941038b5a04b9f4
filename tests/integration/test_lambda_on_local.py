"""The compactor's Lambda handler on the local global table."""

from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread
import pytest

from compactor.aws_lambda import handler
from ledger import Ledger
from ledger.local import LocalGlobalTable

pytestmark = pytest.mark.slow

REGIONS = ["us-east-1", "eu-west-1"]
CHANGES = 30
PASSES_MAX = 20


@dataclass
class LambdaContext:
    """What Lambda hands in."""

    function_name: str = "compactor"

    def get_remaining_time_in_millis(self) -> int:
        """Give Lambda's longest time."""
        return 900_000


async def test_invocations_merge_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invoked again and again with a settings file, the function merges and deletes all entries."""
    async with LocalGlobalTable.start(regions=REGIONS, lag=0.01, seed=7) as world:
        settings = world.settings(
            settle=3.0, observation_delay=0.2, retry_horizon=1.0, compactor={"fold_min": 1}
        )
        config = tmp_path / "regions.yaml"
        config.write_text(settings.model_dump_json(), encoding="utf-8")
        monkeypatch.setenv("LEDGER_CONFIG", str(config))
        for region in REGIONS:
            async with Ledger.open(settings, region=region) as ledger:
                await ledger.record_many([("balance", 1)] * CHANGES)
        await world.wait_replicated()
        await anyio.sleep(settings.settle)

        led, deleted = True, 0
        for _ in range(PASSES_MAX):
            report = await anyio.to_thread.run_sync(handler, {}, LambdaContext())
            led, deleted = led and bool(report["led"]), deleted + int(str(report["deleted"]))
            await world.wait_replicated()
            if deleted == 2 * CHANGES:
                break
        assert (led, deleted) == (True, 2 * CHANGES)
        for region in REGIONS:
            async with Ledger.open(settings, region=region) as ledger:
                total = await ledger.total("balance")
                assert total.value == 2 * CHANGES
                assert total.entries == 0
