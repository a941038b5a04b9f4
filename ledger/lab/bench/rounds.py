"""One round of a case, in the process that was started for it: warm up, measure, compare sums."""

import gc
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from prometheus_client import CollectorRegistry

from ledger.core.errors import LedgerError
from ledger.lab.bench import load
from ledger.lab.bench.control import Arrived, StubControl
from ledger.lab.bench.measuring import Measured, Meter
from ledger.lab.bench.stub_pages import REGION
from ledger.runtime.gc import tune_gc
from ledger.runtime.metrics import summed
from ledger.settings import Settings

WARM_SECONDS_MAX = 1.0
WARM_SHARE = 0.25
"""Of the seconds measured, spent before on warming up."""


@dataclass(frozen=True, slots=True)
class Task:
    """What the process of one round is told."""

    run: str
    """Where the case is: "module:function" within this package."""
    seconds: float
    options: Mapping[str, Any]
    stub_url: str | None = None
    loop: str | None = None


class Endpoint(Protocol):
    """What requests go to, and what can be asked of it."""

    url: str

    def reset(self, *, service_seconds: float = 0.0, counts_partitions: bool = False) -> None:
        """Forget everything; from now on answer after this time, counting by partition or not."""

    def arrived(self) -> Arrived:
        """Return what has arrived."""


class Round:
    """What a case runs with."""

    def __init__(self, task: Task) -> None:
        self.seconds = task.seconds
        self.options = task.options
        self.registry = CollectorRegistry()
        self.stub: Endpoint = StubControl(task.stub_url or "")
        """What requests go to; a case may set another."""

    def settings(self, **overrides: Any) -> Settings:
        """Return settings whose one region is the stub."""
        return Settings(home=REGION, regions={REGION: {"endpoint": self.stub.url}}, **overrides)

    async def measure(
        self,
        work: load.Work,
        *,
        callers: int,
        kind: str = "write",
        units_per_change: float | None = None,
        service_seconds: float = 0.0,
    ) -> Measured:
        """Let callers do this work in a closed loop; the sums must be what was acknowledged.

        Units are those that the ledger counted in `registry`, or `units_per_change` of a client
        that counts none.

        Raises:
            LedgerError: something else arrived than was acknowledged.
        """
        stub, meter = self.stub, Meter()
        self._calm()
        stub.reset(
            service_seconds=service_seconds,
            counts_partitions=self.options.get("counts_partitions", False),
        )
        warm = min(WARM_SECONDS_MAX, WARM_SHARE * self.seconds)
        await load.closed(work, meter, callers=callers, seconds=warm)
        before, units = self._begin(meter, kind)
        await load.closed(work, meter, callers=callers, seconds=self.seconds)
        found = self._end(meter, before, units, kind)
        if units_per_change is not None:
            found = replace(found, units=found.work * units_per_change)
        return found

    async def measure_offered(
        self, work: load.Work, *, calls_per_second: float, calls_max: int, service_seconds: float
    ) -> Measured:
        """Offer so many calls a second, and see how long each takes.

        Raises:
            LedgerError: something else arrived than was acknowledged.
        """
        stub, meter = self.stub, Meter()
        self._calm()
        stub.reset(service_seconds=service_seconds)
        offer = partial(
            load.offered, work, meter, calls_per_second=calls_per_second, calls_max=calls_max
        )
        warm = min(WARM_SECONDS_MAX, WARM_SHARE * self.seconds)
        await offer(seconds=warm)
        before, units = self._begin(meter, "write")
        turned_away = await offer(seconds=self.seconds)
        found = self._end(meter, before, units, "write")
        offered = {"offered_per_second": calls_per_second, "turned_away": float(turned_away)}
        return replace(found, extra={**found.extra, **offered})

    def units(self, kind: str) -> float:
        """Return the units that the ledger has counted so far, "read" or "write"."""
        return summed(self.registry, "ledger_consumed_units_total", kind=kind)

    def _calm(self) -> None:
        if self.options.get("calm", False):
            tune_gc()

    def _begin(self, meter: Meter, kind: str) -> tuple[Arrived, float]:
        gc.collect()
        before = self.stub.arrived()
        units = self.units(kind)
        meter.begin()
        return before, units

    def _end(self, meter: Meter, before: Arrived, units: float, kind: str) -> Measured:
        found = meter.end()
        arrived = self.stub.arrived()
        if kind == "write" and arrived.sum != meter.amount:
            raise LedgerError(
                f"the stub received changes of {arrived.sum} in sum,"
                f" {meter.amount} were acknowledged"
            )
        return replace(
            found,
            requests=arrived.requests_total - before.requests_total,
            units=self.units(kind) - units,
            stub_cpu_seconds=arrived.cpu_seconds - before.cpu_seconds,
            extra=_spread(arrived) | {"items": float(arrived.items - before.items)},
        )


def _spread(arrived: Arrived) -> dict[str, float]:
    """Return how far the busiest partition is above its even share; nothing if not counted."""
    counts = arrived.partitions.values()
    return (
        {"busiest partition, times even": max(counts) * len(counts) / sum(counts)} if counts else {}
    )
