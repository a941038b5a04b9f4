"""One round of a case, in a process of its own: warm up, measure, compare sums."""

import gc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from lab.bench import load
from lab.bench.control import StubControl
from lab.bench.measurement import Measured, Meter
from lab.bench.stub_pages import REGION
from ledger.core.errors import LedgerError
from ledger.runtime.gc import tune_gc
from ledger.runtime.metrics import summed
from ledger.settings import Settings

WARM_SECONDS_MAX = 1.0
WARM_SHARE = 0.25
"""Time to warm up, as a share of the seconds measured."""


@dataclass(frozen=True, slots=True)
class Task:
    """What the process of one round does."""

    run: str
    """Where the code is: "module:function" within this package."""
    seconds: float
    options: Mapping[str, Any]
    stub_url: str = ""


def warm_seconds(seconds: float) -> float:
    """Return how long to warm up before so many seconds are measured."""
    return min(WARM_SECONDS_MAX, WARM_SHARE * seconds)


class Round:
    """What a case runs with."""

    def __init__(self, task: Task) -> None:
        self.seconds = task.seconds
        self.options = task.options
        self.registry = CollectorRegistry()
        self.stub = StubControl(task.stub_url)

    def settings(self, **overrides: Any) -> Settings:
        """Return the case's settings, their one region being the stub."""
        regions = {REGION: {"endpoint": self.stub.url}}
        return Settings(
            home=REGION, regions=regions, **{**self.options.get("settings", {}), **overrides}
        )

    async def measure(
        self, work: load.Work, *, kind: str = "write", units_per_change: float | None = None
    ) -> Measured:
        """Warm up, then put on the case's load; the sums must be what was acknowledged.

        The load is so many `callers`, or `calls_per_second`. Units are those that the ledger
        counted in `registry`, or `units_per_change` for a client that counts none.

        Raises:
            LedgerError: what arrived is not what was acknowledged, or no call ended in time.
        """
        if self.options.get("tune_gc", False):
            tune_gc()
        self.stub.reset(service_seconds=self.options.get("service_seconds", 0.0))
        meter = Meter()
        run = self._load(work, meter)
        await run(seconds=warm_seconds(self.seconds))
        gc.collect()
        before, units = self.stub.arrived(), self.units(kind)
        meter.begin()
        await run(seconds=self.seconds)
        found = meter.end()
        if not found.work:
            raise LedgerError(f"no call ended in {self.seconds:g} s: give it more by --seconds")
        arrived = self.stub.arrived()
        if arrived.sum != meter.amount:
            raise LedgerError(
                f"the stub received changes of {arrived.sum} in sum,"
                f" {meter.amount} were acknowledged"
            )
        units = self.units(kind) - units
        return replace(
            found,
            requests=arrived.requests - before.requests,
            items=arrived.items - before.items,
            units=units if units_per_change is None else found.work * units_per_change,
            stub_cpu_seconds=arrived.cpu_seconds - before.cpu_seconds,
        )

    def units(self, kind: str) -> float:
        """Return the units that the ledger has counted so far, "read" or "write"."""
        return summed(self.registry, "ledger_consumed_units_total", kind=kind)

    def _load(self, work: load.Work, meter: Meter) -> "partial[Any]":
        rate = self.options.get("calls_per_second")
        if rate:
            return partial(load.offered, work, meter, calls_per_second=rate, calls_max=rate)
        return partial(load.closed, work, meter, callers=self.options.get("callers", 1))
