"""Kill -9 of writers and compactors, as processes of their own: nothing is lost or doubled."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from signal import SIGKILL, SIGTERM
from typing import Any

import anyio
import pytest
import support.keyed_writer
from support.killing import Trap, compactor_words, running, write_settings
from support.ledgers import seeded
from support.worlds import counted_items, entries_left, is_net, merge_all, open_ledgers, totals

from compactor import Compactor
from compactor.observation import lease_name
from ledger.core.entry import entry_of
from ledger.demo.harness.digit_tags import CHANGES_MAX
from ledger.demo.harness.probes import Probe
from ledger.local import Fault, LocalGlobalTable
from ledger.primitives.leases.lease_rules import LeaseRecord, lease_key, record_of
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.store.connections import open_store, open_stores
from ledger.store.reads import Get, Query

REGIONS = ["us-east-1", "eu-west-1"]
CHANGES = 60
PROBES = 12
WRITE_PAUSE_SECONDS = 0.1
READ_PAUSE_SECONDS = 0.06
MERGE_SECONDS_MAX = 60.0
POLL_SECONDS = 0.05
SHORT: dict[str, Any] = {
    "settle": 4.0,
    "observation_delay": 1.0,
    "retry_horizon": 1.5,
    "compactor": {"lease": 1.0, "heartbeat": 0.3, "fold_min": 1, "fold_max": 12, "fold_age": 0},
}
PATIENT = {"lease": 3600, "heartbeat": 0.3}
CONTRACT_QUERIES = 1
"""Before it leads, a compactor reads the contract."""
LONG_LEASE_SECONDS = 15.0
"""Longer than any stall of a loaded machine, so that a leader that lives keeps its lease."""
LONG_LEASE = {**SHORT, "compactor": {**SHORT["compactor"], "lease": LONG_LEASE_SECONDS}}
REQUESTS = ("TransactWriteItems", "BatchWriteItem", "Scan", "GetItem", "UpdateItem")


@dataclass(slots=True)
class Place:
    """A local global table whose requests can be trapped, its settings, and their file."""

    world: LocalGlobalTable
    settings: Settings
    config: Path
    trap: Trap = field(default_factory=Trap)

    def compactor(self, *arguments: str) -> list[str]:
        """Return the words that start `compactor run`."""
        return compactor_words(self.config, *arguments)

    async def lease(self) -> LeaseRecord | None:
        """Return the lease as the home region shows it."""
        async with open_store(self.settings, self.settings.home) as store:
            item = await store.get(Get(lease_key(lease_name(self.settings))))
        return None if item is None else record_of(item)


@asynccontextmanager
async def a_place(folder: Path, **overrides: Any) -> AsyncIterator[Place]:
    """Start a local global table of two regions and write its settings."""
    trap = Trap()
    async with LocalGlobalTable.start(regions=REGIONS, lag=0.02, jitter=0.1, fault=trap) as world:
        settings = world.settings(**overrides)
        yield Place(world, settings, write_settings(settings, folder / "regions.yaml"), trap)


def writer_words(place: Place, start: datetime, noted: Path, kind: str) -> list[str]:
    """Return the words that start the writer."""
    script = support.keyed_writer.__file__
    words = [str(place.config), REGIONS[1], start.isoformat(), str(CHANGES), kind, str(noted)]
    return [sys.executable, script, *words]


async def write_and_kill(place: Place, folder: Path, kind: str, *, kills: int) -> set[str]:
    """Run the writer, killed at some puts, then to its end; returns what was acknowledged."""
    randomness = seeded(7)
    start, noted = datetime.now(UTC), folder / "acknowledged"
    words = writer_words(place, start, noted, kind)
    for number in range(kills):
        fault = Fault.ERROR_500 if number % 2 else None
        place.trap.set("PutItem", at=randomness.randint(1, CHANGES), fault=fault)
        async with running(words, folder) as writer:
            place.trap.process = writer.process.pid
            assert await writer.ends() == -SIGKILL, writer.said()
    acknowledged = set(noted.read_text(encoding="utf-8").splitlines()) if noted.exists() else set()
    async with running(words, folder) as writer:
        assert await writer.ends() == 0, writer.said()
    await place.world.wait_replicated()
    return acknowledged


@pytest.mark.slow
async def test_a_writer_killed_again_and_again_counts_each_change_once(tmp_path: Path) -> None:
    """The same calls by new processes after kill -9: each once, none acknowledged is missing."""
    async with a_place(tmp_path) as place:
        acknowledged = await write_and_kill(place, tmp_path, "keyed", kills=4)
        assert place.trap.seen > CHANGES, "nothing was repeated"
        async with open_stores(place.settings) as stores:
            for store in stores.values():
                items = [
                    item for name in support.keyed_writer.COUNTERS
                    for item in (await store.query(Query(name))).items
                ]  # fmt: skip
                entries = [entry_of(item) for item in items]
                assert sorted(entry.change for entry in entries) == list(range(1, CHANGES + 1))
                assert acknowledged <= {f"{entry.counter} {entry.id}" for entry in entries}


@pytest.mark.slow
async def test_without_keys_the_same_kills_count_changes_twice(tmp_path: Path) -> None:
    """The mutant: calls repeated without a key are new changes, which is what the keys prevent."""
    async with a_place(tmp_path) as place:
        await write_and_kill(place, tmp_path, "free", kills=1)
        async with open_ledgers(place.settings) as ledgers:
            shown = await totals(ledgers, support.keyed_writer.COUNTERS[0])
        assert all(total > sum(range(1, CHANGES + 1, 3)) for total in shown.values())


@dataclass(slots=True)
class Watch:
    """Writers that go on and readers that check every total, until told to stop."""

    place: Place
    probes: list[Probe] = field(
        default_factory=lambda: [Probe(f"probe-{number}") for number in range(PROBES)]
    )
    wrong: list[str] = field(default_factory=list)
    reads: int = 0
    stopped: bool = False

    async def write_on(self, ledger: Ledger, randomness: Random) -> None:
        """Write probe changes in one region, on new probes once the others are full."""
        while not self.stopped:
            open_ones = [probe for probe in self.probes if probe.written < CHANGES_MAX]
            if not open_ones:
                open_ones = [Probe(f"probe-{len(self.probes)}")]
                self.probes += open_ones
            probe = randomness.choice(open_ones)
            following = probe.next_change()
            assert following is not None
            await ledger.record(probe.counter, following[1])
            probe.acknowledge(ledger.region, following[0])
            await anyio.sleep(WRITE_PAUSE_SECONDS)

    async def read_on(self, ledger: Ledger, randomness: Random) -> None:
        """Check probe after probe in one region."""
        while True:  # until cancelled
            await self.check(ledger, randomness.choice(self.probes))
            await anyio.sleep(READ_PAUSE_SECONDS)

    async def check(self, ledger: Ledger, probe: Probe) -> None:
        """Read a probe and judge its total."""
        read = probe.begin_read(ledger.region)
        total = await ledger.total(probe.counter, max_age=0)
        complaint = probe.end_read(read, total.value)
        self.reads += 1
        self.wrong += [complaint] if complaint else []


async def kill_compactors(place: Place, folder: Path, kills: int, randomness: Random) -> None:
    """Start compactor after compactor, each killed at a request drawn at random."""
    for number in range(kills):
        fault = randomness.choice((None, Fault.ERROR_500))
        operation = randomness.choice(REQUESTS[:2] if number % 3 else REQUESTS)
        place.trap.set(operation, at=randomness.randint(1, 8), fault=fault)
        words = place.compactor("--every", "200ms")
        async with running(words, folder, f"killed-{number}") as compactor:
            place.trap.process = compactor.process.pid
            assert await compactor.ends() == -SIGKILL, compactor.said()


async def kill_while_all_goes_on(place: Place, folder: Path, kills: int, seed: int) -> Watch:
    """Kill compactors while writers write and readers read; then let one finish the merging."""
    watch = Watch(place)
    async with open_ledgers(place.settings) as ledgers, anyio.create_task_group() as tasks:
        for number, ledger in enumerate(ledgers.values()):
            tasks.start_soon(watch.write_on, ledger, seeded(seed + number))
            tasks.start_soon(watch.read_on, ledger, seeded(seed - number))
        await kill_compactors(place, folder, kills, seeded(seed))
        watch.stopped = True
        async with running(place.compactor("--every", "200ms"), folder, "last") as compactor:
            with anyio.fail_after(MERGE_SECONDS_MAX):
                while await entries_left(place.settings):  # noqa: ASYNC110 (a process does it)
                    await anyio.sleep(POLL_SECONDS)
            compactor.process.send_signal(SIGTERM)
            assert await compactor.ends() == 0, compactor.said()
        await place.world.wait_replicated()
        tasks.cancel_scope.cancel()
    return watch


async def check_all_is_merged_and_exact(watch: Watch) -> None:
    """Check that every region shows one net change per probe, with the exact sum."""
    place = watch.place
    async with open_ledgers(place.settings) as ledgers, open_stores(place.settings) as stores:
        for probe in watch.probes:
            shown = await totals(ledgers, probe.counter)
            assert shown == dict.fromkeys(shown, probe.expected_total())
        for store in stores.values():
            items = await counted_items(store)
            assert all(map(is_net, items))
            assert len(items) == sum(bool(probe.written) for probe in watch.probes)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kills", "seed"),
    [(4, 7), (20, 11), (20, 23)],
)
@pytest.mark.timeout(900)
async def test_killed_compactors_leave_no_read_wrong(tmp_path: Path, kills: int, seed: int) -> None:
    """Kill -9 at random requests: every read exact all along, and all merged in the end."""
    async with a_place(tmp_path, **SHORT) as place:
        watch = await kill_while_all_goes_on(place, tmp_path, kills, seed)
        assert watch.wrong == []
        assert watch.reads > kills
        await check_all_is_merged_and_exact(watch)
        lease = await place.lease()
        assert lease is not None
        assert lease.released


async def record(place: Place, changes: int) -> None:
    """Record ones for a counter in each region, and wait until all have settled."""
    async with open_ledgers(place.settings) as ledgers:
        for ledger in ledgers.values():
            await ledger.record_many([("balance", 1)] * changes)
    await place.world.wait_replicated()
    await anyio.sleep(place.settings.settle)


async def until(condition: Any) -> None:
    """Wait until an asynchronous condition holds."""
    with anyio.fail_after(MERGE_SECONDS_MAX):
        while not await condition():  # noqa: ASYNC110 (other processes bring it about)
            await anyio.sleep(POLL_SECONDS)


async def merged(place: Place) -> bool:
    """Tell whether the home region shows no entries."""
    return not await entries_left(place.settings)


@pytest.mark.slow
async def test_a_killed_head_is_replaced_by_the_one_that_shares(tmp_path: Path) -> None:
    """Two share the slices; after SIGKILL one leads all, under the very next epoch."""
    async with a_place(tmp_path, **LONG_LEASE) as place:
        words = place.compactor("--every", "200ms")
        async with running(words, tmp_path, "first") as first:
            await first.says("leading (")
            before = await place.lease()
            assert before is not None
            async with running(words, tmp_path, "second") as second:
                await second.says(
                    "not the head: another instance has the lease"
                    f" ({owner(before)}, epoch {before.epoch})"
                )
                await second.says("leads 32 of 64 slices")
                status, said = await run_to_end(place, tmp_path, "status")
                assert status == 0, said
                assert f"32 slices are led by {owner(before)}" in said
                assert said.count("32 slices are led by") == 2
                await record(place, 5)
                await until(partial(merged, place))
                assert "leading (" not in second.said()
                await first.kill()
                await second.says("leading (")
                after = await place.lease()
                assert after is not None
                assert (after.epoch, after.owner != owner(before)) == (before.epoch + 1, True)
                assert f"leading ({after.owner}, epoch {after.epoch})" in second.said()
                await second.says("leads 64 of 64 slices")
                await record(place, 5)
                await until(partial(merged, place))
        await exact(place, 20)


def owner(lease: LeaseRecord | None) -> str:
    """Return who holds a lease that is there."""
    assert lease is not None
    assert lease.owner
    return lease.owner


async def exact(place: Place, expected: int) -> None:
    """Check the total in every region."""
    await place.world.wait_replicated()
    async with open_ledgers(place.settings) as ledgers:
        shown = await totals(ledgers, "balance")
    assert shown == dict.fromkeys(REGIONS, expected)


async def run_to_end(place: Place, folder: Path, *words: str) -> tuple[int, str]:
    """Run a compactor command to its end; return its status and what it said."""
    command = [sys.executable, "-m", "compactor", *words, "--config", str(place.config)]
    async with running(command, folder, "once") as once:
        return await once.ends(), once.said()


@pytest.mark.slow
async def test_terminated_it_stops_between_steps_and_gives_the_lease_back(tmp_path: Path) -> None:
    """SIGTERM in the midst of a hold of an hour: exit 0, no owner, and the next leads at once."""
    async with a_place(tmp_path, **SHORT) as place:
        await record(place, 3)
        held_long = {**SHORT, "observation_delay": 3600, "contract_life": 7200}
        patient = place.world.settings(**{**held_long, "compactor": PATIENT})
        write_settings(patient, place.config)
        words = compactor_words(place.config, "--every", "1h")
        place.trap.set("Query", at=0)
        async with running(words, tmp_path) as held:
            await held.says("leading (")
            await until(partial(_queries, place, len(REGIONS) + CONTRACT_QUERIES))
            status, said = await run_to_end(place, tmp_path, "run", "--once", "--wait", "0")
            assert status == 0
            leader = owner(await place.lease())
            assert f"another instance leads ({leader}); nothing was done" in said
            held.process.send_signal(SIGTERM)
            assert await held.ends() == 0, held.said()
            assert "SIGTERM: stopping after this step" in held.said()
        lease = await place.lease()
        assert lease is not None
        assert lease.released
        write_settings(place.world.settings(**LONG_LEASE), place.config)
        status, said = await run_to_end(place, tmp_path, "run", "--once", "--wait", "0")
        assert (status, f"epoch {lease.epoch + 1})" in said) == (0, True), said
        await merge_all(place.world, Compactor(place.world.settings(**LONG_LEASE)))
        await exact(place, 6)


async def _queries(place: Place, number: int) -> bool:
    return place.trap.seen >= number


@pytest.mark.long
async def test_the_home_moves_and_merging_goes_on_there(tmp_path: Path) -> None:
    """After `move-home` the old settings are refused in one line, and the new ones lead on."""
    old, new = REGIONS
    async with a_place(tmp_path, **LONG_LEASE) as place:
        await record(place, 4)
        await merge_all(place.world, Compactor(place.settings))
        status, said = await run_to_end(place, tmp_path, "move-home", new)
        assert status == 0, said
        assert f"the home is {new} now" in said
        await place.world.wait_replicated()

        status, said = await run_to_end(place, tmp_path, "run", "--once")
        last = said.splitlines()[-1]
        assert status == 1
        assert last.startswith(f"error: home is {old!r} in the settings, {new!r} in the contract")
        assert "Traceback" not in said

        moved = Place(place.world, place.settings.replace(home=new), tmp_path / "new.yaml")
        write_settings(moved.settings, moved.config)
        status, said = await run_to_end(moved, tmp_path, "status")
        assert status == 0, said
        assert new in said
        await record(moved, 4)
        await merge_all(moved.world, Compactor(moved.settings))
        await exact(moved, 16)
        async with open_stores(moved.settings) as stores:
            for store in stores.values():
                (net,) = (await store.query(Query("balance"))).items
                assert net["home"] == {"S": new}
