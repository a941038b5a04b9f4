"""Watches on the local global table: kills around a delivery, and how soon a crossing is noticed.

`pytest -s -m slow tests/integration/test_watching_on_local.py -k delay` prints the delays.
"""

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL
from time import monotonic
from typing import Any

import anyio
import pytest
import support.watching_reader
import yaml
from prometheus_client import CollectorRegistry
from support.killing import Trap, running
from support.watching_reader import COUNTER, NAME

from compactor import Compactor
from ledger import Ledger, Settings
from ledger.core.watches import Phase, state_key, state_of
from ledger.local import Fault, LocalGlobalTable
from ledger.runtime.metrics import summed
from ledger.runtime.tasks import background_tasks
from ledger.store.connections import open_store
from ledger.store.reads import Get

HOME, AWAY = "us-east-1", "eu-west-1"
REPEAT_SECONDS = 0.5
CLOCK_SKEW_SECONDS = 0.5
POLL_SECONDS = 0.02
SECONDS_MAX = 60.0
LAG_SECONDS = 0.2
MAX_AGE_SECONDS = 0.5
PASS_SECONDS = 1.0
SETTLE_SECONDS = 3.0
CROSSINGS = 8

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def written(settings: Settings, path: Path) -> Path:
    """Write settings to a file."""
    path.write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
    return path


@pytest.mark.parametrize("region", [HOME, AWAY])
@pytest.mark.parametrize("fault", [None, Fault.ERROR_500])
@pytest.mark.parametrize("at", [1, 2])
async def test_a_reader_killed_around_a_delivery_leaves_it_to_the_next(
    tmp_path: Path, at: int, fault: Fault | None, region: str
) -> None:
    """Kill -9 at the decision or the confirmation, applied or not: one crossing, never lost."""
    trap, noted = Trap(), tmp_path / "noted"
    async with LocalGlobalTable.start(regions=[HOME, AWAY], lag=0.02, fault=trap) as world:
        settings = world.settings(settle=4.0, clock_skew=CLOCK_SKEW_SECONDS)
        config = written(settings, tmp_path / "regions.yaml")
        async with Ledger.open(settings) as ledger:
            await ledger.record(COUNTER, 9)
        await world.wait_replicated()
        script = str(support.watching_reader.__file__)
        words = [sys.executable, script, str(config), region, str(noted), str(REPEAT_SECONDS)]
        trap.set("PutItem", at=at, fault=fault)
        async with running(words, tmp_path) as killed:
            trap.process = killed.process.pid
            assert await killed.ends() == -SIGKILL, killed.said()
        for _ in range(2):
            await anyio.sleep(REPEAT_SECONDS + CLOCK_SKEW_SECONDS)
            async with running(words, tmp_path) as following:
                assert await following.ends() == 0, following.said()
        state = await state_at_home(settings)
    assert (state.phase, state.number) == (Phase.DELIVERED, 1)
    lines = noted.read_text(encoding="utf-8").splitlines()
    # The confirmation that did not arrive leaves the crossing open: it is delivered again.
    is_repeated = at == 2 and fault is not None
    assert [line.split()[0] for line in lines] == [f"{NAME}#1#{COUNTER}"] * (1 + is_repeated)
    is_taken_over = is_repeated or (at == 1 and fault is None)
    assert lines[-1].split()[1:] == ["9", str(is_taken_over)]


async def state_at_home(settings: Settings) -> Any:
    """Return the state of the watch as the home region has it."""
    async with open_store(settings, HOME) as store:
        return state_of(await store.get(Get(state_key(NAME, COUNTER))))


Numbers = Callable[[], int]


@dataclass(slots=True)
class Measured:
    """How long after the change was acknowledged each crossing was delivered, in seconds."""

    seconds: list[float] = field(default_factory=list)

    def said(self, what: str) -> str:
        """Return the delays in one line."""
        middle = statistics.median(self.seconds)
        return f"{what}: median {middle:.2f} s, longest {max(self.seconds):.2f} s"


async def measured(
    ledger: Ledger, settings: Settings, delivered: Numbers, *, crossings: int
) -> Measured:
    """Cross the bound so many times, each time once the watch is armed again."""
    found = Measured()
    await ledger.record(COUNTER, 25)
    for number in range(1, crossings + 1):
        await ledger.record(COUNTER, -16)
        begun = monotonic()
        with anyio.fail_after(SECONDS_MAX):
            while delivered() < number:  # noqa: ASYNC110 (another task or process does it)
                await anyio.sleep(POLL_SECONDS)
            found.seconds.append(monotonic() - begun)
            await ledger.record(COUNTER, 16)
            while (await state_at_home(settings)).phase is not Phase.ARMED:  # noqa: ASYNC110
                await anyio.sleep(POLL_SECONDS)
        assert delivered() == number
    return found


async def by_a_reader(place: str) -> Measured:
    """Measure a process that asks for the total all the time; changes are made elsewhere."""
    came: list[str] = []
    async with (
        LocalGlobalTable.start(regions=[HOME, AWAY], lag=LAG_SECONDS) as world,
        background_tasks() as tasks,
    ):
        settings = world.settings(cache={"max_age": MAX_AGE_SECONDS})
        async with (
            Ledger.open(settings, region=place) as reader,
            Ledger.open(settings, region=AWAY) as writer,
        ):
            reader.watch(
                "stock-*", below=10, rearm=20, name=NAME, call=lambda one: came.append(one.id)
            )
            tasks.start_soon(read_on, reader)
            found = await measured(writer, settings, lambda: len(came), crossings=CROSSINGS)
            tasks.cancel_scope.cancel()
    assert len(set(came)) == len(came) == CROSSINGS
    return found


async def read_on(ledger: Ledger) -> None:
    """Ask for the total until cancelled."""
    while True:
        await ledger.total(COUNTER)
        await anyio.sleep(POLL_SECONDS)


async def by_the_compactor(counters: str, *, settle: float, crossings: int) -> Measured:
    """Measure a compactor that does a pass each second; no process reads the total."""
    registry = CollectorRegistry()
    async with (
        LocalGlobalTable.start(regions=[HOME, AWAY], lag=LAG_SECONDS) as world,
        background_tasks() as tasks,
    ):
        settings = world.settings(
            settle=settle,
            observation_delay=0.5,
            compactor={"fold_min": 1},
            watches={NAME: {"counters": counters, "below": 10, "rearm": 20}},
        )
        compactor = Compactor(settings, registry=registry)
        tasks.start_soon(compactor.run_every, PASS_SECONDS)

        def delivered() -> int:
            return int(summed(registry, "ledger_crossings_total", watch=NAME))

        plain = settings.replace(watches={})
        async with Ledger.open(plain, region=AWAY) as writer:
            found = await measured(writer, settings, delivered, crossings=crossings)
        tasks.cancel_scope.cancel()
    return found


async def test_the_delay_of_a_reader() -> None:
    """Each crossing once, in the home and elsewhere: the age of its cache, and replication."""
    for place in (HOME, AWAY):
        found = await by_a_reader(place)
        print(found.said(f"reader in {place}, max_age {MAX_AGE_SECONDS} s, lag {LAG_SECONDS} s"))


async def test_the_delay_of_the_compactor() -> None:
    """Each crossing once: a counter that is named by the next pass, a pattern once it settled."""
    named = await by_the_compactor(COUNTER, settle=60.0, crossings=CROSSINGS)
    print(named.said(f"compactor, counter named, a pass each {PASS_SECONDS} s"))
    pattern = await by_the_compactor("stock-*", settle=SETTLE_SECONDS, crossings=3)
    settings = f"settle {SETTLE_SECONDS} s, a pass each {PASS_SECONDS} s"
    print(pattern.said(f"compactor, pattern, {settings}"))
