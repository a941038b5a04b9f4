"""`ledger doctor`: what is wrong with a table in every region, and what to do about it.

Settings, credentials, table, replicas, contract, clock, permissions, lag, the compactor's passes,
hot counters, throttling: each is checked separately, with its own time limit, so a check that fails
or hangs hides nothing else.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import anyio
import anyio.to_thread
import typer
from rich.text import Text

from compactor.status import passes_seen
from ledger.administration.diagnosis import region_findings, table_findings
from ledger.administration.diagnosis.all_findings import findings_of
from ledger.administration.diagnosis.diagnosis import CheckState, Diagnosis, DoctorCheck, in_order
from ledger.administration.diagnosis.hot_collection import HotSample
from ledger.administration.diagnosis.hot_counters import hot_collections
from ledger.administration.diagnosis.identity import known_regions
from ledger.administration.diagnosis.lag_probe import probe_lag
from ledger.administration.diagnosis.observations import FailedLook, LagObservation
from ledger.administration.diagnosis.observer import FleetObservation, look_at_all
from ledger.administration.diagnosis.region_client import (
    Looks,
    RegionClients,
    ask_region,
    look_within,
)
from ledger.administration.templates import Role
from ledger.commands.regions import checked_region
from ledger.core.errors import InvalidInput, LedgerError, SettingsError
from ledger.runtime.clock import SystemClock, system_random
from ledger.runtime.command_line import FAILED, AsJson, Config, new_app
from ledger.runtime.console_tables import Column, Grid, print_grid, prose
from ledger.runtime.foreign import FOREIGN
from ledger.runtime.output import print_json, printable, say
from ledger.runtime.tasks import run_all
from ledger.settings import Settings
from ledger.settings.sources import read_sources

SECONDS_MAX = 15.0
"""Time limit of each look; a region that hangs is waited for once, not for each look in turn."""
LEAST_SECONDS, MOST_SECONDS = 1.0, 300.0
NUMBER_BITS = 64
Found = TypeVar("Found")

app = new_app()


@app.command()
def doctor(
    *,
    role: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE",
            help=f"Whose permissions to try: {', '.join(Role)}; repeatable.",
            show_default="reader, and writer or strict-writer",
        ),
    ] = None,
    region: Annotated[
        str | None, typer.Option(help="Region to look at.", show_default="all")
    ] = None,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe", help="Measure lag: writes an item in each region, and deletes it again."
        ),
    ] = False,
    sample: Annotated[
        int,
        typer.Option(
            min=0, max=100, help="Pages of the table to search for hot counters, 128 units each."
        ),
    ] = 1,
    timeout: Annotated[float, typer.Option(help="Maximum seconds of each look.")] = SECONDS_MAX,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Check settings, credentials, table, clock, permissions and more, each line with what to do.

    Writes nothing without --probe: permissions are tried by requests that change nothing even if
    they are allowed, for a few units in each region. Exits with 1 if something is a problem;
    warnings, and what could not be looked at, do not fail.
    """
    asked = [_role(name) for name in role or ()]
    if not LEAST_SECONDS <= timeout <= MOST_SECONDS:
        raise InvalidInput(
            f"--timeout must be {LEAST_SECONDS:g} to {MOST_SECONDS:g} seconds, got {timeout:g}"
        )
    if probe and region is not None:
        raise InvalidInput("--probe measures between regions: give it without --region")
    try:
        source = _source(config)
        settings = Settings.load(config)
    except SettingsError as error:
        do = "correct the file or the variable in the message: regions.yaml explains each setting"
        found = [
            Diagnosis(DoctorCheck.SETTINGS, "", CheckState.PROBLEM, text, do)
            for text in error.problems
        ]
        _show(found, title="settings", as_json=as_json)
        raise typer.Exit(FAILED) from None
    if region is not None:
        checked_region(settings, "--region", region)
    writer = Role.STRICT_WRITER if settings.writer.strict else Role.WRITER
    roles = asked or [Role.READER, writer]
    asking = _Doctor(settings, source, roles, region, probe, sample, timeout)
    found = anyio.run(asking.findings)
    _show(found, title=f"table {settings.table}", as_json=as_json)
    if any(finding.state is CheckState.PROBLEM for finding in found):
        raise typer.Exit(FAILED)


def _role(name: str) -> Role:
    if name not in set(Role):
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(Role)}", param_hint="--role")
    return Role(name)


def _source(config: Path | None) -> str:
    """Return where the settings come from: the file, and the variables that override it.

    Raises:
        SettingsError: as `Settings.load`.
    """
    sources = read_sources(Settings, config, {})
    variables = ", ".join(sorted(sources.variables))
    parts = [sources.file or "", f"variables for {variables}" if variables else ""]
    return " and ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class _Doctor:
    settings: Settings
    source: str
    roles: Sequence[Role]
    region: str | None
    probe: bool
    sample: int
    seconds_max: float

    async def findings(self) -> list[Diagnosis]:
        """Look at everything, and judge it; each region is opened once."""
        number = system_random().getrandbits(NUMBER_BITS)
        async with RegionClients() as opening:
            return await self._found(Looks(SystemClock(), number, self.seconds_max, opening))

    async def _found(self, looks: Looks) -> list[Diagnosis]:
        seen = await look_at_all(self.settings, looks, roles=self.roles, only=self.region)
        more: list[Callable[[], Awaitable[Any]]] = [
            partial(passes_seen, seen.settings, clock=looks.clock),
            partial(self._hot, seen, looks),
            partial(anyio.to_thread.run_sync, known_regions),
        ]
        jobs = [partial(self._looked, seen, other) for other in more]
        passes, hot, known = await run_all(jobs, at_once=len(jobs))
        probed = await self._probed(seen, looks) if self.probe else None
        sampled = self.region or seen.settings.home
        lags = partial(region_findings.lag_findings, probed, passes, seconds_max=self.seconds_max)
        return in_order(
            [
                *table_findings.settings_findings(
                    self.settings,
                    source=self.source,
                    known=None if isinstance(known, FailedLook) else known,
                    contract=seen.contract,
                ),
                *_key_file_findings(self.settings.signatures.keys),
                *findings_of(seen),
                *lags(regions=seen.settings.regions),
                *region_findings.compactor_findings(passes),
                *region_findings.unmerged_findings(hot, region=sampled, now=looks.clock.now()),
                *region_findings.hot_findings(hot, region=sampled),
            ]
        )

    async def _looked(
        self, seen: FleetObservation, look: Callable[[], Awaitable[Found]]
    ) -> Found | FailedLook:
        return await look_within(
            look,
            region=seen.settings.home,
            table=self.settings.table,
            seconds_max=self.seconds_max,
        )

    async def _hot(self, seen: FleetObservation, looks: Looks) -> HotSample:
        region = self.region or seen.settings.home
        async with ask_region(seen.settings, region, seen.notes[region], looks) as transport:
            return await hot_collections(
                transport,
                seen.settings,
                clock=looks.clock,
                randomness=system_random(),
                pages=self.sample,
            )

    async def _probed(self, seen: FleetObservation, looks: Looks) -> list[LagObservation]:
        async with AsyncExitStack() as stack:
            transports = {}
            for region, notes in seen.notes.items():
                opening = ask_region(seen.settings, region, notes, looks)
                with suppress(*FOREIGN, LedgerError):  # the line of its table reports why
                    transports[region] = await stack.enter_async_context(opening)
            return await probe_lag(
                transports,
                table=self.settings.table,
                clock=looks.clock,
                number=looks.number,
                seconds_max=self.seconds_max,
            )


def _key_file_findings(path: str | None) -> Iterator[Diagnosis]:
    with suppress(OSError):  # one that cannot be read fails each region's line
        if path is not None:
            yield from table_findings.key_file_findings(path, Path(path).stat().st_mode)


def _show(found: Sequence[Diagnosis], *, title: str, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    columns = (Column("check"), Column("region"), Column("state"), prose("what, and what to do"))
    rows = [
        (finding.check, finding.region or "all", finding.state, _said(finding)) for finding in found
    ]
    print_grid(Grid(columns, rows, title=title))
    counts = Counter(finding.state for finding in found)
    named = {
        CheckState.PROBLEM: "problems",
        CheckState.WARNING: "warnings",
        CheckState.UNKNOWN: "unknown",
    }
    say(", ".join(f"{name}: {counts[state]}" for state, name in named.items()))


def _said(one: Diagnosis) -> Text:
    """Return a finding and what to do in one cell, so that they stay together."""
    lines = [one.what, *([f"to do: {one.do}"] if one.do else [])]
    return Text("\n".join(map(printable, lines)))
