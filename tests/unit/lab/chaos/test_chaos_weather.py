"""Weather over a table: only what changes is changed, and calm leaves nothing behind."""

from collections.abc import Mapping
from typing import Any

from ledger.lab.chaos.plan import CALM, Weather
from ledger.lab.chaos.state import Options, Progress
from ledger.lab.chaos.weather import WeatherMaker
from ledger.local import Fault, LocalGlobalTable
from ledger.local.front.faults import FaultRule

EAST, WEST = "us-east-1", "eu-west-1"
OPTIONS = Options(1, 60.0, "memory", lag=0.05, jitter=0.3)
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


async def test_weather_changes_by_the_difference_alone() -> None:
    """Links are paused and healed, lag and faults set, each only when it changes."""
    table, progress = FakeTable(), Progress(OPTIONS, lambda: 0.0)
    maker = WeatherMaker(table.world, OPTIONS, progress)
    one = {"source": EAST, "target": WEST}
    other = {"source": WEST, "target": EAST}
    await maker.become(Weather(frozenset({(EAST, WEST), (WEST, EAST)}), (), 1.5))
    assert table.take() == [("pause", other), ("pause", one), ("lag", {"lag": 0.05, "jitter": 1.5})]
    assert progress.paused == 2
    await maker.become(Weather(frozenset({(EAST, WEST)}), (RULE,), 1.5))
    rule = {"kind": "hang", "probability": 0.5, "operations": ["Query"], "regions": [EAST]}
    assert table.take() == [("heal", other), ("fault", {"rules": [rule]})]
    await maker.become(CALM)
    usual = {"lag": 0.05, "jitter": 0.3}
    assert table.take() == [("heal", one), ("lag", usual), ("fault", {"rules": []})]
    await maker.become(CALM)
    assert table.take() == []
    assert progress.paused == 0


async def test_faults_are_counted_by_the_table() -> None:
    """What was injected so far is the table's own count."""
    table, progress = FakeTable(), Progress(OPTIONS, lambda: 0.0)
    await WeatherMaker(table.world, OPTIONS, progress).look()
    assert progress.faults == {"hang": 3}
