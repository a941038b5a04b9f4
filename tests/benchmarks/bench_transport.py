"""Measure what one request costs the client over each transport: batches of 25 puts, small queries.

    python tests/benchmarks/bench_transport.py --seconds 1 --rounds 5 --loop asyncio

A stub endpoint answers in a process of its own. The transports take turns, and the median over the
rounds is shown: CPU time of this process for a request through the whole store, with its retries,
signatures and metrics. Read the ratios.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import median
from time import perf_counter, process_time
from typing import Annotated

import typer
from lab.bench.control import running_stub
from lab.bench.stub_pages import counter_name
from lab.harness.processes import spare_cores

from ledger.runtime.loops import run_on_loop
from ledger.runtime.metrics import Metrics
from ledger.settings import Settings
from ledger.settings.fields import TransportName
from ledger.store.connections import open_store
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.writes import BATCH_WRITES_MAX, Put

REGION = "us-east-1"
TRANSPORTS: tuple[TransportName, ...] = ("aiobotocore", "lean")
AT_ONCE = 8
ENTRIES = 10
PUTS = [
    Put(
        {
            "pk": {"S": f"customer{number}-balance"},
            "sk": {"S": f"2026-11-21T06:50:01.{number:06}Z#4f1d2c3b5a697887"},
            "change": {"N": "3"},
            "region": {"S": REGION},
        }
    )
    for number in range(BATCH_WRITES_MAX)
]

Request = Callable[[Store], Awaitable[object]]
REQUESTS: dict[str, Request] = {
    "batch of 25": lambda store: store.write_batch(PUTS),
    f"query of {ENTRIES}": lambda store: store.query(Query(counter_name(ENTRIES))),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one round: CPU seconds of this process for each request, and requests a second."""

    cpu_seconds: float
    per_second: float


async def measure(
    stub_core: int | None, seconds: float, rounds: int
) -> dict[tuple[str, str], Cost]:
    """Return the median cost by request and transport."""
    costs: dict[tuple[str, str], list[Cost]] = {}
    async with AsyncExitStack() as stack:
        stub = await stack.enter_async_context(running_stub(core=stub_core))
        stores: dict[str, Store] = {}
        for transport in TRANSPORTS:
            regions = {REGION: {"endpoint": stub.url}}
            settings = Settings(home=REGION, regions=regions, transport=transport)
            opening = open_store(settings, REGION, metrics=Metrics())
            stores[transport] = await stack.enter_async_context(opening)
        for _ in range(rounds + 1):  # the first warms up
            for name, request in REQUESTS.items():
                for carried, store in stores.items():
                    cost = await _round(store, request, seconds)
                    costs.setdefault((name, carried), []).append(cost)
    return {key: _median(those[1:]) for key, those in costs.items()}


def _median(those: list[Cost]) -> Cost:
    return Cost(
        cpu_seconds=median(cost.cpu_seconds for cost in those),
        per_second=median(cost.per_second for cost in those),
    )


async def _round(store: Store, request: Request, seconds: float) -> Cost:
    done, started, cpu = 0, perf_counter(), process_time()

    async def caller() -> None:
        nonlocal done
        while perf_counter() - started < seconds:
            await request(store)
            done += 1

    await asyncio.gather(*(caller() for _ in range(AT_ONCE)))
    return Cost((process_time() - cpu) / done, done / (perf_counter() - started))


def main(
    seconds: Annotated[float, typer.Option(help="Of one round of one transport.")] = 1.0,
    rounds: Annotated[int, typer.Option(help="How often each takes its turn.", min=1)] = 5,
    loop: Annotated[str | None, typer.Option(help="asyncio or uvloop.")] = None,
) -> None:
    """Measure both transports in turns and print what a request costs."""
    client_core, stub_core = spare_cores()
    if client_core is not None:
        os.sched_setaffinity(0, {client_core})
    costs = run_on_loop(measure(stub_core, seconds, rounds), loop=loop)
    for name in REQUESTS:
        baseline = costs[name, TRANSPORTS[0]].cpu_seconds
        for transport in TRANSPORTS:
            cost = costs[name, transport]
            typer.echo(
                f"{name:12} {transport:12} {cost.cpu_seconds * 1e6:7.0f} us of CPU,"
                f" {cost.per_second:7.0f} requests/s, {baseline / cost.cpu_seconds:5.1f} times"
            )


if __name__ == "__main__":
    typer.run(main)
