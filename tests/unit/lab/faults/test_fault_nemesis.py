"""The nemesis: only what changes is changed, and in the end no fault is left."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lab.chaos.run import ChaosOptions
from lab.faults.nemesis import Nemesis
from lab.faults.report import FaultProgress
from lab.faults.schedule import NO_FAULTS, Conditions, FaultSchedule, ScheduledFault
from lab.harness.processes import ManagedProcess

from ledger.demo.harness.checker import TaggedChecker
from ledger.local import Fault, LocalGlobalTable
from ledger.local.front.faults import FaultRule
from ledger.testing.clock import ManualClock

EAST, WEST = "us-east-1", "eu-west-1"
OPTIONS = ChaosOptions(lag=0.05, jitter=0.3)
RULE = FaultRule(Fault.HANG, 0.5, frozenset({"Query"}), frozenset({EAST}))


class FakeTable:
    """A table whose control requests are noted."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        status = {"regions": (EAST, WEST), "endpoints": {}, "control_url": "", "table": "ledger"}
        self.world = LocalGlobalTable(self._control, status)

    def _control(self, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append((name, body))
        return {"faults_by_kind": {"hang": 3}}

    def take(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return what was asked since the last time."""
        asked, self.asked = self.asked, []
        return asked


class FakeProcess(ManagedProcess):
    """A process that keeps what was done to it, and when."""

    def __init__(self, name: str, clock: ManualClock) -> None:
        super().__init__(name, [], log=Path())
        self.done: list[tuple[str, float]] = []
        self._clock = clock
        self._is_away = False

    def kill(self, restart_seconds: float) -> bool:
        """Be killed."""
        self.done.append((f"kill {restart_seconds:g}", self._clock.monotonic()))
        return True

    def restart(self, restart_seconds: float) -> bool:
        """Be asked to end."""
        self.done.append((f"restart {restart_seconds:g}", self._clock.monotonic()))
        return True

    def suspend(self, *, with_clock: bool = False) -> bool:
        """Be suspended, unless it is already."""
        if self._is_away:
            return False
        self._is_away = True
        self.done.append(("suspend" if with_clock else "stall", self._clock.monotonic()))
        return True

    def set_clock(self, ahead_seconds: float) -> None:
        """Have a wrong clock, or a right one again."""
        self.done.append((f"clock {ahead_seconds:+g}", self._clock.monotonic()))

    def resume(self) -> None:
        """Go on."""
        self._is_away = False
        self.done.append(("resume", self._clock.monotonic()))


def a_progress() -> FaultProgress:
    """Return the progress of a run that is about to begin."""
    return FaultProgress(OPTIONS, TaggedChecker(), ManualClock(instant=True))


async def test_a_schedule_is_injected_at_its_moments() -> None:
    """Cuts begin and heal, a kill has its time, a stall inside another is no fault of its own."""
    table, clock = FakeTable(), ManualClock(instant=True)
    progress = FaultProgress(OPTIONS, TaggedChecker(), clock)
    process = FakeProcess("compactor-0", clock)
    nemesis = Nemesis(table.world, {"compactor-0": process}, progress, clock=clock)
    cut = Conditions(cut=frozenset({(EAST, WEST)}))
    faults = (
        ScheduledFault(1.0, 3.0, "cut", "it", cut),
        ScheduledFault(2.0, 6.0, "stall compactor", "compactor-0", process="compactor-0"),
        ScheduledFault(3.0, 5.0, "stall compactor", "compactor-0", process="compactor-0"),
        ScheduledFault(7.0, 11.0, "kill compactor", "compactor-0", process="compactor-0"),
    )
    started = clock.monotonic()
    await nemesis.run(FaultSchedule(1, 8.0, faults))
    done = [(what, at - started) for what, at in process.done]
    assert done == [("stall", 2.0), ("resume", 6.0), ("kill 4", 7.0)]
    assert [name for name, _ in table.take()] == ["pause", "heal"]
    assert clock.monotonic() - started == 8.0
    assert progress.process_faults == {"stall compactor": 1, "kill compactor": 1}
    assert len(progress.events) == 3


async def test_conditions_change_by_the_difference_alone() -> None:
    """Links are paused and healed, lag and faults set, each only when it changes."""
    table, progress = FakeTable(), a_progress()
    nemesis = Nemesis(table.world, {}, progress, clock=progress.clock)
    one = {"source": EAST, "target": WEST}
    other = {"source": WEST, "target": EAST}
    await nemesis.apply(Conditions(frozenset({(EAST, WEST), (WEST, EAST)}), (), 1.5))
    assert table.take() == [("pause", other), ("pause", one), ("lag", {"lag": 0.05, "jitter": 1.5})]
    assert progress.links_cut == 2
    await nemesis.apply(Conditions(frozenset({(EAST, WEST)}), (RULE,), 1.5))
    rule = {"kind": "hang", "probability": 0.5, "operations": ["Query"], "regions": [EAST]}
    assert table.take() == [("heal", other), ("fault", {"rules": [rule]})]
    await nemesis.apply(NO_FAULTS)
    usual = {"lag": 0.05, "jitter": 0.3}
    assert table.take() == [("heal", one), ("lag", usual), ("fault", {"rules": []})]
    await nemesis.apply(NO_FAULTS)
    assert table.take() == []
    assert progress.links_cut == 0


async def test_a_process_is_suspended_with_its_clock_and_restarted_with_a_wrong_one() -> None:
    """A wrong clock begins with a start of the process, and ends while it runs."""
    table, clock = FakeTable(), ManualClock(instant=True)
    progress = FaultProgress(OPTIONS, TaggedChecker(), clock)
    process = FakeProcess("writer-1", clock)
    nemesis = Nemesis(table.world, {"writer-1": process}, progress, clock=clock)
    wrong = ScheduledFault(4.0, 6.0, "clock of a writer", "it", process="writer-1", ahead=-700.0)
    faults = (ScheduledFault(1.0, 3.0, "suspend writer", "it", process="writer-1"), wrong)
    started = clock.monotonic()
    await nemesis.run(FaultSchedule(1, 8.0, faults))
    assert [(what, at - started) for what, at in process.done] == [
        ("suspend", 1.0),
        ("resume", 3.0),
        ("kill 0", 4.0),
        ("clock -700", 4.0),
        ("clock +0", 6.0),
    ]
    assert progress.process_faults == {"suspend writer": 1, "clock of a writer": 1}


async def test_a_process_is_asked_to_end_and_comes_back() -> None:
    """It is the process that ends: nothing is left to be done for it."""
    table, clock = FakeTable(), ManualClock(instant=True)
    progress = FaultProgress(OPTIONS, TaggedChecker(), clock)
    process = FakeProcess("a-0", clock)
    nemesis = Nemesis(table.world, {"a-0": process}, progress, clock=clock)
    fault = ScheduledFault(1.0, 3.0, "restart instance", "a-0", process="a-0")
    await nemesis.run(FaultSchedule(1, 4.0, (fault,)))
    assert [what for what, _ in process.done] == ["restart 2"]
    assert progress.process_faults == {"restart instance": 1}


async def test_the_clock_of_a_region_is_set_wrong_and_right_again() -> None:
    """Of two faults of one region the one that lasts longer is left, then none."""
    table, progress = FakeTable(), a_progress()
    nemesis = Nemesis(table.world, {}, progress, clock=progress.clock)
    await nemesis.apply(Conditions(clocks=((WEST, 30.0),)))
    assert table.take() == [("clock", {"region": WEST, "seconds": 30.0})]
    await nemesis.apply(NO_FAULTS)
    assert table.take() == [("clock", {"region": WEST, "seconds": 0.0})]


async def test_faults_are_counted_by_the_table() -> None:
    """What was injected so far is the table's own count."""
    table, progress = FakeTable(), a_progress()
    await Nemesis(table.world, {}, progress, clock=progress.clock).count_faults()
    assert progress.faults == {"hang": 3}
