"""A steady overload: far more callers than the endpoint can serve, for minutes, and the memory."""

import asyncio
from dataclasses import replace
from time import perf_counter

from ledger.lab.bench import load
from ledger.lab.bench.cases import COUNTERS, LEAN, Case
from ledger.lab.bench.measuring import Measured, Meter, memory_bytes
from ledger.lab.bench.rounds import Round
from ledger.lab.bench.stub_pages import REGION
from ledger.lab.bench.writes import opened, recording

CALLERS = 20_000
"""Twice what the queue holds by default: half of them wait for room in it."""
SERVICE_SECONDS = 0.05
SAMPLES = 60
"""Samples of the memory, over the whole time."""
OVERLOAD = Case(
    "overload",
    "overload",
    "overload:hold",
    options={"callers": CALLERS, "counters": COUNTERS, "settings": LEAN},
)


async def hold(round_: Round) -> Measured:
    """Record by all callers without a pause, and sample the memory."""
    options, meter = round_.options, Meter()
    round_.stub.reset(service_seconds=SERVICE_SECONDS)
    async with opened(round_) as ledger:
        watching = asyncio.create_task(_watch(round_, round_.seconds / SAMPLES))
        work = recording(ledger, options)
        await load.closed(work, meter, callers=options["callers"], seconds=round_.seconds)
        found = meter.end()
        watching.cancel()
        samples = await watching
    return replace(
        found,
        requests=round_.check_sum(meter.amount).requests_total,
        units=round_.units("write"),
        extra={**_flatness(samples["MB"]), "queued, most": max(samples["queued"])},
        samples=samples,
    )


async def _watch(round_: Round, pause_seconds: float) -> dict[str, list[float]]:
    """Sample the memory, and the entries that wait to be sent, until cancelled."""
    started, value = perf_counter(), round_.registry.get_sample_value
    samples: dict[str, list[float]] = {"seconds": [], "MB": [], "queued": []}
    try:
        while True:
            await asyncio.sleep(pause_seconds)
            samples["seconds"].append(perf_counter() - started)
            samples["MB"].append(memory_bytes() / 2**20)
            samples["queued"].append(value("ledger_queued_entries", {"region": REGION}) or 0.0)
    except asyncio.CancelledError:
        return samples


def _flatness(samples: list[float]) -> dict[str, float]:
    """Compare the first and the last fifth of the samples taken after the first tenth."""
    steady = samples[len(samples) // 10 :]
    part = max(1, len(steady) // 5)
    first, last = steady[:part], steady[-part:]
    return {
        "MB, first fifth": sum(first) / len(first),
        "MB, last fifth": sum(last) / len(last),
        "MB, most": max(steady),
    }
