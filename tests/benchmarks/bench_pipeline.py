"""What a message costs a pipeline's worker: new records beside corrections of forgotten ones.

    python tests/benchmarks/bench_pipeline.py [--messages 20000] [--shares 0.05,0.5,1]

The first lane brings in version 1 of the records that are to be corrected; the second, which
remembers nothing, is measured: messages for each second of this process's CPU time (the table is
dynoxide, in a process of its own), and units a message. Compare with another release only by turns.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time

from lab.pipeline_demo.options import CATEGORIES, DESKS, PLACES, RISKS
from prometheus_client import CollectorRegistry

from ledger.administration.contract_changes import establish
from ledger.local.engines.dynoxide import lone_table
from ledger.pipeline.file_runs import open_stores
from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.sources.dead_letters import DeadLetterList
from ledger.pipeline.sources.files import FileSource
from ledger.pipeline.stages.worker import LanePlace, LaneWorker, PipelineMetering
from ledger.runtime.gc import tune_gc
from ledger.runtime.loops import run_on_loop
from ledger.runtime.metrics import summed
from ledger.runtime.services import Services
from ledger.settings import Settings

REGION, TABLE = "us-east-1", "ledger"
FIELDS = {"id": "TradeID", "version": "Version", "value": "Value"}
CENTS_MAX = 10**9


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one lane: messages for each second of CPU time, units a message."""

    per_cpu_second: float
    write_units: float
    read_units: float


def line(trade: int, version: int, draw: Random) -> bytes:
    """Return a message of any category."""
    risk, place, desk = draw.choice(RISKS), draw.choice(PLACES), draw.choice(DESKS)
    value = draw.randrange(-CENTS_MAX, CENTS_MAX) / 100
    return (
        f'{{"TradeID":"0-{trade:08d}","Version":{version},"Value":{value:.2f}'
        f',"Timestamp":"2026-11-23T00:00:00.000"'
        f',"Hierarchy":{{"RiskType":"{risk}","Region":"{place}","Desk":"{desk}"}}}}\n'
    ).encode()


def messages(count: int, share: float) -> tuple[list[bytes], list[bytes]]:
    """Return what comes before, and what is measured: a share of it corrects that."""
    draw, corrected = Random(7), int(count * share)  # noqa: S311 (repeatable)
    before = [line(trade, 1, draw) for trade in range(corrected)]
    after = [line(trade, 2, draw) for trade in range(corrected)]
    after += [line(count + trade, 1, draw) for trade in range(count - corrected)]
    draw.shuffle(after)
    return before, after


async def cost_of(path: Path, count: int, settings: Settings) -> Cost:
    """Bring a file of so many messages in by a lane of its own."""
    registry = CollectorRegistry()
    services = Services.of(registry=registry)
    async with open_stores(settings, REGION, services=services) as stores:
        worker = LaneWorker(
            LanePlace(REGION, path.stem),
            FileSource(path),
            stores=stores,
            settings=settings,
            dead_letters=DeadLetterList(),
            services=services,
            metering=PipelineMetering(PipelineMetrics.of(registry)),
        )
        tune_gc()
        started = process_time()
        await worker.run()
        seconds = process_time() - started
    write, read = (
        summed(registry, "ledger_consumed_units_total", kind=kind) / count
        for kind in ("write", "read")
    )
    return Cost(count / seconds, write, read)


async def measure(count: int, shares: Sequence[float]) -> dict[float, Cost]:
    """Measure each share of corrections, each on a table of its own."""
    found = {}
    for share in shares:
        async with lone_table(REGION, TABLE) as url:
            settings = Settings(
                table=TABLE,
                home=REGION,
                regions={REGION: {"endpoint": url}},
                transport="lean",
                pipeline={"fields": FIELDS, "categories": CATEGORIES, "batch_max": 1000},
            )
            await establish(settings)
            with TemporaryDirectory() as folder:
                for name, lines in zip(("before", "after"), messages(count, share), strict=True):
                    path = Path(folder) / name
                    path.write_bytes(b"".join(lines))
                    if lines:
                        found[share] = await cost_of(path, len(lines), settings)
    return found


def main() -> None:
    """Measure, and print a line for each share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--shares", default="0.05,0.5,1")
    options = parser.parse_args()
    shares = [float(share) for share in options.shares.split(",")]
    for share, cost in run_on_loop(measure(options.messages, shares)).items():
        print(
            f"{share:4.0%} corrections {cost.per_cpu_second:8,.0f} messages per CPU second,"
            f" {cost.write_units:.2f} write and {cost.read_units:.2f} read units a message"
        )


if __name__ == "__main__":
    main()
