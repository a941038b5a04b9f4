"""Kill -9 of a compactor between any two steps of its writes to table and archive."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import pytest
import support.killed_compactor
from support.commands import environment
from support.killed_compactor import ENDED, KILLED
from support.killing import write_settings
from support.worlds import open_ledgers, totals

from ledger.administration.archive.check import ArchiveCheck, ArchiveFault, archived_in
from ledger.administration.archive.cleanup import SWEPT_AGE, sweep
from ledger.core.entry import entry_id, entry_item
from ledger.core.keys import LEASE_PARTITION
from ledger.core.values import Entry
from ledger.local import LocalGlobalTable
from ledger.reads.archive.places.opening import ReplicatedPlace, open_places
from ledger.runtime.clock import SystemClock
from ledger.session.ledger import Ledger
from ledger.store.connections import open_stores
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.writes import Delete, Put

REGIONS = ["us-east-1", "eu-west-1"]
HOME = REGIONS[0]
ENTRIES = 3
AGO = timedelta(minutes=5)
"""Entries are as old when they are written, so none waits to settle."""
STEPS_MAX = 200
BUCKET, BUCKET_REGION = "kept-entries", "eu-west-1"
TIMES: dict[str, Any] = {
    "settle": 2.0,
    "retry_horizon": 0.5,
    "observation_delay": 0.12,
    "read_deadline": 0.1,
    "transport": "lean",
    "compactor": {"fold_min": 1, "lease": 60, "heartbeat": 5, "scan_every": 0},
}


@dataclass(slots=True)
class Trial:
    """A table in a process of its own, the program that compacts it, and what was written."""

    world: LocalGlobalTable
    program: "subprocess.Popen[str]"
    stores: dict[str, Store]
    ledgers: dict[str, Ledger]
    places: ReplicatedPlace
    written: dict[str, list[str]] = field(default_factory=dict)

    async def write(self, counter: str) -> None:
        """Write entries that have settled, each through another region than the one before."""
        made = []
        for number in range(ENTRIES):
            at = datetime.now(UTC) - AGO + number * timedelta(seconds=1)
            region = REGIONS[number % len(REGIONS)]
            one = Entry(counter, str(entry_id(at, number)), Decimal(10**number), region, "a note")
            await self.stores[region].write(Put(entry_item(one)))
            made.append(one.id)
        self.written[counter] = made
        await self.world.wait_replicated()

    async def compact(self, at: int) -> str:
        """Run a compactor that is killed at a step, 0 for none; returns how it ended."""
        assert self.program.stdin is not None
        assert self.program.stdout is not None
        self.program.stdin.write(f"{at}\n")
        self.program.stdin.flush()
        ended = await anyio.to_thread.run_sync(self.program.stdout.readline)
        await self._free()
        await self.world.wait_replicated()
        return ended.strip()

    async def _free(self) -> None:
        """Delete the lease of what was killed, rather than wait until it has run out."""
        home = self.stores[HOME]
        for held in (await home.query(Query(LEASE_PARTITION))).items:
            await home.write(Delete((LEASE_PARTITION, held["sk"]["S"])))

    async def check(self, counter: str) -> None:
        """Check total and history in each region against what was written."""
        expected = Decimal(sum(10**number for number in range(ENTRIES)))
        assert await totals(self.ledgers, counter) == dict.fromkeys(REGIONS, expected)
        for ledger in self.ledgers.values():
            found = [entry async for entry in ledger.history(counter)]
            assert [entry.id for entry in found] == self.written[counter]
            assert {entry.note for entry in found} == {"a note"}

    async def verify(self) -> ArchiveCheck:
        """Check the whole archive, as `ledger verify --archive` does."""
        wrong: list[ArchiveFault] = []
        check = ArchiveCheck(self.stores, HOME, self.places, wrong.append)
        await check.whole(archived_in(self.stores[HOME]))
        assert wrong == []
        entries = ENTRIES * len(self.written) * len(self.places.places)
        assert (check.entries, check.collections) == (entries, len(self.written))
        return check

    async def swept(self) -> None:
        """Check that what is left over is what `sweep` finds, and that nothing else goes."""
        left = (await self.verify()).left_over
        names = [name async for name in self.places.names()]
        later = SystemClock().now() + 2 * SWEPT_AGE
        found = await sweep(self.stores, self.places, home=HOME, now=later)
        assert (found.left_over, found.removed) == (left, left)
        assert left > 0
        kept = [name async for name in self.places.names()]
        assert {*kept} < {*names}
        assert (await self.verify()).left_over == 0
        for counter in self.written:
            await self.check(counter)


@asynccontextmanager
async def a_trial(folder: Path, urls: list[str], **variables: str) -> AsyncIterator[Trial]:
    """Start a table, and the program that compacts it."""
    async with LocalGlobalTable.spawn(regions=REGIONS, lag=0.005, jitter=0.01) as world:
        settings = world.settings(**TIMES, archive=urls)
        config = write_settings(settings, folder / "regions.yaml")
        async with (
            open_stores(settings) as stores,
            open_ledgers(settings) as ledgers,
            open_places(urls, clock=SystemClock()) as places,
        ):
            with started(config, folder, variables) as program:
                yield Trial(world, program, dict(stores), ledgers, places)


@contextmanager
def started(
    config: Path, folder: Path, variables: dict[str, str]
) -> "Iterator[subprocess.Popen[str]]":
    """Start the program; it ends with the block."""
    with (folder / "log").open("w") as log:
        program = subprocess.Popen(
            [sys.executable, str(support.killed_compactor.__file__), str(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=folder,
            env=environment(folder, **variables),
        )
        with program:
            yield program


async def kill_at_each_step(trial: Trial) -> int:
    """Kill a compactor at each step, each on a counter of its own; returns how many steps."""
    for at in range(1, STEPS_MAX):
        counter = f"kept-{at}"
        await trial.write(counter)
        ended = await trial.compact(at)
        await trial.check(counter)
        if ended == ENDED:
            return at - 1
        assert ended == KILLED, ended
        assert await trial.compact(0) == ENDED
        await trial.check(counter)
    raise AssertionError(f"over {STEPS_MAX} steps")


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_killed_at_each_step_on_files(tmp_path: Path) -> None:
    """Whatever step it is, each entry is counted and kept once, in two folders and each region."""
    urls = [f"file://{tmp_path / name}" for name in ("one", "two")]
    async with a_trial(tmp_path, urls) as trial:
        assert await kill_at_each_step(trial) > 12
        await trial.swept()


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Run moto's S3 in a thread, with a bucket; returns the variables that lead to it."""
    import boto3  # noqa: PLC0415 (of another extra)
    from moto.server import ThreadedMotoServer  # noqa: PLC0415

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    variables = {
        "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": BUCKET_REGION,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    client: Any = boto3.client("s3", region_name=BUCKET_REGION)
    where = {"LocationConstraint": BUCKET_REGION}
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration=where)
    yield variables
    server.stop()


@pytest.mark.long
@pytest.mark.tools("moto_server")
@pytest.mark.timeout(300)
async def test_killed_at_each_step_on_s3(tmp_path: Path, s3: dict[str, str]) -> None:
    """The same on a bucket, where a put that got no answer may have arrived."""
    async with a_trial(tmp_path, [f"s3://{BUCKET}/ledger"], **s3) as trial:
        assert await kill_at_each_step(trial) > 8
        await trial.swept()
