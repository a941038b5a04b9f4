"""Signed net changes on the local global table: begun, required, forged, and keys that change."""

import base64
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import CliRunner

from compactor import Compactor
from ledger import DamagedItem, Ledger, Settings
from ledger.commands.main import app
from ledger.core.entry import Item, net_item
from ledger.core.fold import collect
from ledger.core.signatures import SIGNATURE
from ledger.local import LocalGlobalTable
from ledger.store.connections import open_store
from ledger.store.reads import Get, Query
from ledger.store.writes import Put

pytestmark = pytest.mark.slow

HOME, AWAY = REGIONS = ["us-east-1", "eu-west-1"]
PASSES_MAX = 40
NET = "~net#0001"
TIMES: dict[str, Any] = {
    "settle": 2.0,
    "observation_delay": 0.2,
    "compactor": {"fold_min": 1, "scan_every": 0},
}
KEY_ONE, KEY_TWO = (
    f"{name} {base64.b64encode(name.encode() * 8).decode()}" for name in ("key1", "key2")
)


def with_keys(settings: Settings, path: Path, *keys: str, required: bool = False) -> Settings:
    """Return settings with a file of these keys."""
    path.write_text("\n".join(keys), encoding="utf-8")
    return settings.replace(signatures={"keys": str(path), "required": required})


def name_keys(config: Path, keys: Path) -> None:
    """Name another file of keys in a settings file."""
    told = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**told, "signatures": {"keys": str(keys)}}), encoding="utf-8")


async def merged(settings: Settings, world: LocalGlobalTable, *counters: str) -> None:
    """Let what was recorded settle, and merge until each counter has a net in every region."""
    await world.wait_replicated()
    await anyio.sleep(settings.settle)
    plain = settings.replace(signatures={})
    for _ in range(PASSES_MAX):
        await Compactor(settings).run_once()
        await world.wait_replicated()
        async with open_store(plain, AWAY) as store:
            if all([await store.get(Get((counter, NET))) for counter in counters]):
                return
        await anyio.sleep(0.2)
    raise AssertionError(f"{counters} were not merged")


async def total(settings: Settings, counter: str) -> int:
    """Return a counter's total in the other region."""
    async with Ledger.open(settings, region=AWAY) as ledger:
        return int((await ledger.total(counter, max_age=0)).value)


async def run(config: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run `ledger table sign`; returns its exit status and what it says."""
    return await anyio.to_thread.run_sync(sign, config, *options)


def sign(config: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Run the command, in a thread: it has an event loop of its own."""
    asked = ["table", "sign", "--json", "--config", str(config), *options]
    result = CliRunner().invoke(app, asked)
    assert result.output, result.exception
    return result.exit_code, json.loads(result.stdout.splitlines()[0])


@pytest.mark.timeout(120)
async def test_signatures_from_none_to_required_and_back(tmp_path: Path) -> None:
    """Unsigned nets are read until they are signed; then none of a writer's making counts."""
    config, file = tmp_path / "regions.yaml", tmp_path / "keys"
    async with LocalGlobalTable.start(regions=REGIONS, lag=0.02) as world:
        plain = world.settings(**TIMES)
        async with Ledger.open(plain, region=HOME) as ledger:
            await ledger.record_many([("old", 5), ("old", 6)])
        await merged(plain, world, "old")
        accepting = with_keys(plain, file, KEY_ONE)
        required = with_keys(plain, file, KEY_ONE, required=True)
        async with Ledger.open(plain, region=HOME) as ledger:
            await ledger.record("new", 7)
        await merged(accepting, world, "new")
        assert [await total(accepting, counter) for counter in ("old", "new")] == [11, 7]
        assert await total(required, "new") == 7
        with pytest.raises(DamagedItem, match="it has no signature"):
            await total(required, "old")

        described = {name: {"endpoint": plain.region(name).endpoint} for name in REGIONS}
        told = {"table": plain.table, "regions": described, "signatures": {"keys": str(file)}}
        config.write_text(json.dumps(told), encoding="utf-8")
        counted = {"there": 1, "signed": 0, "left": 1, "changed": 0, "faulty": 0, "faults": []}
        assert await run(config, "--dry-run") == (1, counted)
        assert await run(config) == (0, {**counted, "signed": 1, "left": 0})
        await world.wait_replicated()
        assert [await total(required, counter) for counter in ("old", "new")] == [11, 7]
        assert await total(plain, "old") == 11

        signed = await forge(world, plain, accepting, required)
        assert (await run(config))[0] == 1
        # Put back as it was, it counts again; then the key is changed, one process after another.
        async with open_store(plain, HOME) as store:
            await store.write(Put(signed))
        await world.wait_replicated()
        await change_key(world, config, plain)
        with pytest.raises(DamagedItem, match="does not have: 'key2'"):
            await total(required, "new")


async def forge(
    world: LocalGlobalTable, plain: Settings, accepting: Settings, required: Settings
) -> Item:
    """Put nets of a writer's making in place of the one that is there; returns that."""
    async with open_store(plain, HOME) as store:
        [whole] = (await store.query(Query("old"))).items
        net = collect([whole]).net
        assert net is not None
        await store.write(Put(net_item(replace(net, change=Decimal(10**6)), "old")))
    await world.wait_replicated()
    assert await total(plain, "old") == 10**6
    with pytest.raises(DamagedItem, match="it has no signature"):
        await total(required, "old")
    async with open_store(plain, HOME) as store:
        await store.write(Put({**whole, "change": {"N": "1000000"}}))
    await world.wait_replicated()
    with pytest.raises(DamagedItem, match="wrong: written or changed without the key"):
        await total(accepting, "old")
    async with Ledger.open(plain, region=HOME) as ledger:
        await ledger.record("old", 1)
    await anyio.sleep(plain.settle)
    for _ in range(4):
        report = await Compactor(required).run_once()
    assert set(report.quarantined) == {"old"}
    return whole


async def change_key(world: LocalGlobalTable, config: Path, plain: Settings) -> None:
    """Let the second key sign, while the first is known, and then the second alone."""
    path = config.parent / "both"
    both = with_keys(plain, path, KEY_TWO, KEY_ONE, required=True)
    assert await total(both, "old") == 12
    name_keys(config, path)
    status, done = await run(config)
    assert (status, done["signed"]) == (0, 2)
    await world.wait_replicated()
    async with open_store(plain, AWAY) as store:
        item = await store.get(Get(("new", NET)))
        assert item is not None
        assert item[SIGNATURE]["B"].endswith(b"key2")
    after = with_keys(plain, config.parent / "after", KEY_TWO, required=True)
    assert [await total(after, counter) for counter in ("old", "new")] == [12, 7]
