"""One round of a case, in a process of its own: warm up, measure, compare sums."""

import gc
from collections.abc import Awaitable, Callable, Mapping
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
BUSIEST = "busiest partition, times even"
WARM_SHARE = 0.25
"""Time to warm up, as a share of the seconds measured."""


@dataclass(frozen=True, slots=True)
class Task:
    """What the process of one round does."""

    run: str
    """Where the code is: "module:function" within this package."""
    seconds: float
    options: Mapping[str, Any]
    stub_url: str | None = None
    loop: str | None = None


class Endpoint(Protocol):
    """What requests are sent to, and what it counts."""

    url: str

    def reset(self, *, service_seconds: float = 0.0, counts_partitions: bool = False) -> None:
        """Forget everything; from now on answer after this time, and count by partition or not."""

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
    ) -> Measured:
        """Run callers in a closed loop; the sums must be what was acknowledged.

        Units are those that the ledger counted in `registry`, or `units_per_change` for a client
        that counts none.

        Raises:
            LedgerError: what arrived is not what was acknowledged.
        """
        meter = self._start(counts_partitions=self.options.get("counts_partitions", False))
        run = partial(load.closed, work, meter, callers=callers)
        found, _ = await self._measure(run, meter, kind)
        if units_per_change is not None:
            found = replace(found, units=found.work * units_per_change)
        return found

    async def measure_offered(
        self, work: load.Work, *, calls_per_second: float, calls_max: int, service_seconds: float
    ) -> Measured:
        """Offer calls at a fixed rate, and measure how long each takes.

        Raises:
            LedgerError: what arrived is not what was acknowledged.
        """
        meter = self._start(service_seconds=service_seconds)
        run = partial(
            load.offered, work, meter, calls_per_second=calls_per_second, calls_max=calls_max
        )
        found, rejected = await self._measure(run, meter)
        offered = {"offered_per_second": calls_per_second, "rejected": float(rejected)}
        return replace(found, extra={**found.extra, **offered})

    def units(self, kind: str) -> float:
        """Return the units that the ledger has counted so far, "read" or "write"."""
        return summed(self.registry, "ledger_consumed_units_total", kind=kind)

    def check_sum(self, acknowledged: int) -> Arrived:
        """Return what has arrived, the sum of which must be what was acknowledged.

        Raises:
            LedgerError: it is not.
        """
        arrived = self.stub.arrived()
        if arrived.sum != acknowledged:
            raise LedgerError(
                f"the stub received changes of {arrived.sum} in sum,"
                f" {acknowledged} were acknowledged"
            )
        return arrived

    def _start(self, **answering: Any) -> Meter:
        if self.options.get("tune_gc", False):
            tune_gc()
        self.stub.reset(**answering)
        return Meter()

    async def _measure(
        self, run: Callable[..., Awaitable[int]], meter: Meter, kind: str = "write"
    ) -> tuple[Measured, int]:
        """Warm up, then measure; return what `run` returned as well."""
        await run(seconds=min(WARM_SECONDS_MAX, WARM_SHARE * self.seconds))
        gc.collect()
        before, units = self.stub.arrived(), self.units(kind)
        meter.begin()
        result = await run(seconds=self.seconds)
        found = meter.end()
        arrived = self.check_sum(meter.amount) if kind == "write" else self.stub.arrived()
        measured = replace(
            found,
            requests=arrived.requests_total - before.requests_total,
            units=self.units(kind) - units,
            stub_cpu_seconds=arrived.cpu_seconds - before.cpu_seconds,
            extra=_spread(arrived) | {"items": float(arrived.items - before.items)},
        )
        return measured, result


def _spread(arrived: Arrived) -> dict[str, float]:
    """Return how far the busiest partition is above its even share; nothing if not counted."""
    counts = arrived.partitions.values()
    return {BUSIEST: max(counts) * len(counts) / sum(counts)} if counts else {}
