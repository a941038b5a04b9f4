"""A steady overload: far more callers than the endpoint can serve, for minutes, and the memory."""

import asyncio
from dataclasses import replace
from time import perf_counter

from ledger.core.errors import LedgerError
from ledger.lab.bench import load
from ledger.lab.bench.cases import COUNTERS, LEAN, Case
from ledger.lab.bench.control import running_stub
from ledger.lab.bench.measuring import Measured, Meter, memory_bytes
from ledger.lab.bench.processes import cores
from ledger.lab.bench.rounds import Round
from ledger.lab.bench.runner import Sizes, Tell, run_round
from ledger.lab.bench.stub_pages import REGION
from ledger.lab.bench.writes import opened, recording

CALLERS = 20_000
"""Twice what the queue holds by default: half of them wait for room in it."""
SERVICE_SECONDS = 0.05
SAMPLES = 60
"""Of the memory, over the whole time."""
SECONDS_A_MINUTE = 60.0


async def hold(round_: Round) -> Measured:
    """Let all callers record without a pause, and look at the memory now and then."""
    options, meter = round_.options, Meter()
    round_.stub.reset(service_seconds=SERVICE_SECONDS)
    async with opened(round_) as ledger:
        watching = asyncio.create_task(_watch(round_, round_.seconds / SAMPLES))
        work = recording(ledger, options)
        await load.closed(work, meter, callers=options["callers"], seconds=round_.seconds)
        found = meter.end()
        watching.cancel()
        samples = await watching
    arrived = round_.stub.arrived()
    if arrived.sum != meter.amount:
        raise LedgerError(f"the stub received {arrived.sum}, {meter.amount} were acknowledged")
    return replace(
        found,
        requests=arrived.requests_total,
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
    """Compare the first and the last fifth of what was sampled after the first tenth."""
    steady = samples[len(samples) // 10 :]
    part = max(1, len(steady) // 5)
    first, last = steady[:part], steady[-part:]
    return {
        "MB, first fifth": sum(first) / len(first),
        "MB, last fifth": sum(last) / len(last),
        "MB, most": max(steady),
    }


def measure_overload(sizes: Sizes, minutes: float, *, tell: Tell) -> Measured:
    """Run the overload in a process of its own against a stub with a slow service."""
    client, stub_core = cores() if sizes.pin else (None, None)
    options = {"callers": CALLERS, "counters": COUNTERS, "settings": LEAN}
    case = Case("overload", "overload", "overload:hold", options=options)
    seconds = sizes.seconds if sizes.is_quick else minutes * SECONDS_A_MINUTE
    tell(f"overload for {seconds:,.0f} s")
    with running_stub(core=stub_core) as stub:
        return run_round(case, replace(sizes, seconds=seconds), stub, core=client)
