"""The nemesis: only what changes is changed, and in the end no fault is left."""

from collections.abc import Mapping
from typing import Any

from ledger.lab.chaos.nemesis import Nemesis
from ledger.lab.chaos.report import ChaosOptions, ChaosProgress
from ledger.lab.chaos.schedule import NO_FAULTS, Conditions
from ledger.local import Fault, LocalGlobalTable
from ledger.local.front.faults import FaultRule
from ledger.runtime.clock import SystemClock

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


async def test_conditions_change_by_the_difference_alone() -> None:
    """Links are paused and healed, lag and faults set, each only when it changes."""
    table, progress = FakeTable(), ChaosProgress(options=OPTIONS)
    nemesis = Nemesis(table.world, {}, progress, clock=SystemClock())
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


async def test_faults_are_counted_by_the_table() -> None:
    """What was injected so far is the table's own count."""
    table, progress = FakeTable(), ChaosProgress(options=OPTIONS)
    await Nemesis(table.world, {}, progress, clock=SystemClock()).count_faults()
    assert progress.faults == {"hang": 3}
