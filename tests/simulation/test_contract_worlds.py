"""Worlds whose processes go through the table's contract while operators change it."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from conformance.test_world import sim_store
from proof.simulator.clocks import START
from proof.simulator.loop import VirtualLoop, run
from proof.simulator.randomness import stream
from proof.simulator.run import run_seed
from proof.simulator.scenario import draw
from proof.simulator.terms import is_contracted
from proof.simulator.world import World

from ledger.core.contract import Validity
from ledger.core.errors import ContractStale
from ledger.runtime.validity import signed_within
from ledger.store.reads import Get
from ledger.store.writes import Put

SEEDS = [seed for seed in range(200) if is_contracted(seed)]
REFUSING = 10
"""Of its processes an application and a compactor start with a file that says otherwise."""
HOME = "us-east-1"


def test_changes_of_every_kind_are_drawn() -> None:
    """Durations that grow or shrink, those of reads, shards, the home, what is combined."""
    plans = [draw(seed).contract for seed in SEEDS]
    changes = [(plan.first, change) for plan in plans if plan for change in plan.changes]
    assert {name for _, change in changes for name in change.values} == {
        "settle",
        "retry_horizon",
        "observation_delay",
        "read_deadline",
        "shards",
        "home",
        "combine",
    }
    settles = [
        (first.settle, change.values["settle"])
        for first, change in changes
        if "settle" in change.values
    ]
    assert {before < after for before, after in settles} == {True, False}


def test_changes_come_into_force() -> None:
    """An operator announces, waits and brings into force, in a world with crashes."""
    trace = "\n".join(run_seed(64, is_traced=True).trace)
    assert "put ~contract" in trace
    assert ": in force" in trace


def test_files_that_say_otherwise_are_drawn() -> None:
    """Terms of the first contract, other durations, shards and homes, and a region less."""
    plans = [plan for seed in SEEDS if (plan := draw(seed).contract)]
    wrong = [(plan.files.right, file) for plan in plans for file in plan.files.wrong]
    said = {
        frozenset(file.model_fields_set - right.model_fields_set)
        for right, file in wrong
        if len(file.regions) == len(right.regions)
    }
    assert {"settle", "retry_horizon"} in said
    assert {"observation_delay", "read_deadline"} in said
    assert {"shards"} in said
    assert {"home"} in said
    assert any(len(file.regions) < len(right.regions) for right, file in wrong)


@pytest.mark.slow
def test_processes_with_another_file_are_refused() -> None:
    """Applications and compactors, which then start with the right one."""
    trace = run_seed(REFUSING, is_traced=True).trace
    lines = [line for line in trace if "in the contract" in line]
    assert {line.split()[1].split("-")[0] for line in lines} >= {"app", "compactor"}


@pytest.mark.parametrize("kind", ["read", "write"])
def test_nothing_is_sent_after_the_validity_around_it(kind: str) -> None:
    """As the store on DynamoDB does, at the moment of signing."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        world = World((HOME,), loop=loop, randomness=stream(1, "world"))
        store = sim_store(world, HOME)
        clock = store._process.clock
        item = {"pk": {"S": "a"}, "sk": {"S": "b"}, "change": {"N": "1"}}
        call: dict[str, Callable[[], Awaitable[object]]] = {
            "read": lambda: store.get(Get(("a", "b"))),
            "write": lambda: store.write(Put(item)),
        }
        young = Validity(START + timedelta(seconds=60), clock.monotonic() + 60)
        with signed_within(young, clock):
            await call[kind]()
        await asyncio.sleep(61)
        steps = world.steps
        with signed_within(young, clock), pytest.raises(ContractStale):
            await call[kind]()
        assert world.steps == steps

    run(main)


def test_process_freezes_before_its_next_write() -> None:
    """Once, after its look at the clock and before the request is signed; reads go on."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        store = sim_store(World((HOME,), loop=loop, randomness=stream(1, "world")), HOME)
        store._process.freeze_before_entry(500.0)
        await store.get(Get(("a", "b")))
        assert loop.time() < 1.0
        item = {"pk": {"S": "a"}, "sk": {"S": "b"}, "change": {"N": "1"}}
        await store.write(Put(item))
        written = loop.time()
        assert 500.0 <= written < 502.0
        await store.write(Put(item))
        assert loop.time() < written + 1.0

    run(main)
