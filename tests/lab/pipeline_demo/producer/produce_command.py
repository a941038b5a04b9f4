"""`lab produce`: write the demo's records, or a file's, at a steady rate."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Annotated

import typer
from rich.text import Text

from lab.pipeline_demo.options import PipelineDemoOptions
from lab.pipeline_demo.producer.steady_sender import Producer
from lab.pipeline_demo.producer.targets import Outgoing, open_target
from lab.pipeline_demo.traffic import Traffic
from ledger.commands.live import with_display
from ledger.commands.options import PipelineOptions
from ledger.commands.outputs import Force, check_output, write_output
from ledger.core import amounts
from ledger.core.errors import InvalidInput
from ledger.pipeline.core.record_adapter import form_of
from ledger.runtime.clock import Clock, SystemClock, system_random
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import new_console
from ledger.runtime.loops import run_on_loop
from ledger.runtime.output import print_json, say
from ledger.runtime.signals import Signalled, ignore, stopped_by_signals
from ledger.settings import Settings

ENDLESS = 10**12
"""Records of a producer that only a signal ends."""
TRADES_MAX = 100_000

app = new_app()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedOptions:
    """The records that are written, and how fast."""

    rate: Annotated[
        float, typer.Option(min=0, help="Records a second, by the clock; 0: as fast as taken.")
    ] = 500.0
    count: Annotated[int, typer.Option(min=0, help="Records to write; 0: until a signal.")] = 20_000
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 7
    file: Annotated[
        Path | None,
        typer.Option(help="Write the lines of this file instead.", exists=True, dir_okay=False),
    ] = None
    totals: Annotated[
        Path | None,
        typer.Option(help="Write the totals that the records make, as JSON.", dir_okay=False),
    ] = None
    force: Force = False

    def check(self, target: str) -> None:
        """Check what would show only once records are written.

        Raises:
            InvalidInput: it cannot be done.
            LedgerError: the file of totals exists.
        """
        rate, file = self.rate, self.file
        if not math.isfinite(rate):
            raise InvalidInput(
                f"--rate {rate}: records a second are a number, 0 for as fast as taken"
            )
        if file is not None and self.totals is not None:
            raise InvalidInput("--totals is of generated records: --file has others")
        if file is not None and file.suffix.lower() == ".gz":
            raise InvalidInput(
                f"--file {file}: lines are written as they are read: unpack it first"
            )
        if file is not None and Path(target).exists() and file.samefile(target):
            raise InvalidInput(f"--file {file}: it is the file to write to as well")
        if self.totals is not None:
            check_output(self.totals, force=self.force)


@app.command()
@spread_options
def produce(
    target: Annotated[
        str,
        typer.Argument(help="A file to append to; kinesis://STREAM, sqs://QUEUE, kafka://... ."),
    ],
    *,
    options: ProducedOptions,
    region: Annotated[
        str | None, typer.Option(help="Region of the target.", show_default="the settings' home")
    ] = None,
    common: PipelineOptions,
) -> None:
    """Write records to a stream, a queue, a topic or a file, at a steady rate, to try a pipeline.

    The records are those of `lab pipeline-demo`: versions of trades, of which 5 % come twice,
    5 % late and 0.1 % malformed. The pipeline that reads them needs in its settings the fields
    TradeID, Version, Value (and Timestamp), and categories such as risk/{Hierarchy.RiskType}. With
    the same seed and count the same records are written again, and change no total.

    Records that the target refuses for now are sent again, and counted. SIGINT and SIGTERM end it
    once what is begun has been taken; --totals is of what was written.
    """
    options.check(target)
    settings = common.settings()
    place = settings.home if region is None else region
    settings.region(place)
    clock = SystemClock()
    randomness = Random(options.seed)  # noqa: S311 (repeatable)
    traffic = Traffic(options_of(options.count, options.seed), randomness)
    records = (
        lines_of(options.file, settings, options.count)
        if options.file
        else generated(traffic, clock)
    )
    producer, came = run_on_loop(_produce(target, settings, place, records, options.rate, clock))
    done = producer.sent
    if common.as_json:
        print_json(
            [
                {
                    "target": target,
                    "records": done.records,
                    "seconds": done.seconds,
                    "refused": done.refused,
                }
            ]
        )
    else:
        say(
            f"{done.records:,} records written to {target} in {done.seconds:,.1f} s:"
            f" {done.per_second:,.0f} a second; {done.refused:,} refused and sent again"
        )
    if options.totals is not None:
        write_totals(options.totals, traffic)
    if came.number and options.count:
        raise typer.Exit(came.status)


def options_of(count: int, seed: int) -> PipelineDemoOptions:
    """Return what makes as many of the demo's messages."""
    return PipelineDemoOptions(
        messages=count or ENDLESS, trades_max=TRADES_MAX, regions=1, seed=seed
    )


def generated(traffic: Traffic, clock: Clock) -> Iterator[Outgoing]:
    """Yield the demo's messages by the keys of their trades, each with the time of now."""
    traffic.now = clock.now().isoformat(timespec="milliseconds")
    for message in traffic.messages():
        yield Outgoing(f"0-{message.trade:08d}", message.line)
        traffic.now = clock.now().isoformat(timespec="milliseconds")


def lines_of(file: Path, settings: Settings, count: int) -> Iterator[Outgoing]:
    """Yield a file's lines, by the ids of their records, or by their numbers where none is read."""
    form = form_of(settings) if settings.pipeline.is_configured else None
    with file.open("rb") as lines:
        for number, line in enumerate(lines):
            if number == count and count:
                return
            if line.strip():
                found = form.read(line) if form else None
                yield Outgoing((found.id if found else "") or f"{number}", line)


def write_totals(file: Path, traffic: Traffic) -> None:
    """Write the totals of what was sent, as JSON.

    Raises:
        LedgerError: the file cannot be written.
    """
    found: dict[str, Decimal] = dict(traffic.expected())
    text = json.dumps({name: amounts.to_text(total) for name, total in found.items()}, indent=2)
    write_output(file, f"{text}\n", force=True)  # checked before


async def _produce(
    target: str,
    settings: Settings,
    region: str,
    records: Iterator[Outgoing],
    rate: float,
    clock: Clock,
) -> tuple[Producer, Signalled]:
    async with open_target(target, settings, region) as opened:
        producer = Producer(
            target=opened,
            records=records,
            rate=rate,
            clock=clock,
            randomness=system_random(),
        )

        def shown() -> str:
            done = producer.sent
            return (
                f"{done.records:,} records written, {done.per_second:,.0f} a second;"
                f" {done.refused:,} refused"
            )

        async with stopped_by_signals(lambda _: producer.stop(), ignore) as came:
            await with_display(
                producer.run,
                new_console(err=True),
                panel=lambda: Text(shown()),
                line=shown,
            )
        return producer, came
