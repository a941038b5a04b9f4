"""`ledger local`: run a global table on this machine, and disturb its replication."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
import yaml

from ledger.commands.local_tables import forget, print_local_table, remember, running_table
from ledger.commands.outputs import UnlistedForce, check_output, write_output
from ledger.core.errors import InvalidInput, LocalTableError
from ledger.local.front.faults import Fault
from ledger.local.global_table import LocalGlobalTable
from ledger.local.options import ENGINES, LocalOptions
from ledger.runtime.command_line import FAILED, AsJson, Config, new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.output import print_json, say
from ledger.runtime.signals import stopped_by_signals
from ledger.settings import Settings
from ledger.settings.fields import parse_duration

DEFAULT_REGIONS = "us-east-1,eu-west-1,ap-southeast-1"
NO_FAULT = "none"
CREDENTIALS = "AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=local"
_WRITTEN_BY_US = "# Written by `ledger local up`: the endpoints are gone once it stops.\n"

app = new_app(about="Run a DynamoDB global table on this machine.")


def _seconds(text: str | float) -> float:
    try:
        return parse_duration(text)
    except InvalidInput as error:
        raise typer.BadParameter(str(error)) from None


def _on(text: str) -> bool:
    if text not in ("on", "off"):
        raise typer.BadParameter(f"must be on or off, got {text!r}")
    return text == "on"


_Lag = typer.Option(parser=_seconds, metavar="DURATION", help="Minimum replication lag.")
_Jitter = typer.Option(parser=_seconds, metavar="DURATION", help="Maximum additional lag.")
ControlUrl = Annotated[
    str | None,
    typer.Option(
        help="Control URL printed by `ledger local up`.",
        show_default="the table at the settings' endpoints, without any the one started last",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalUpOptions:
    """The table that runs, and where its endpoints are written."""

    regions: Annotated[
        str, typer.Option(help="Comma-separated regions, the home region first.")
    ] = DEFAULT_REGIONS
    config: Annotated[
        Path | None,
        typer.Option(
            help="Take regions and table name from this settings file.", show_default=False
        ),
    ] = None
    lag: Annotated[Any, _Lag] = "50ms"
    jitter: Annotated[Any, _Jitter] = "200ms"
    seed: Annotated[int, typer.Option(help="Seed of the random delays.")] = 7
    engine: Annotated[
        str,
        typer.Option(
            help=f"One of {', '.join(ENGINES)}. Only memory is held to any request: dynoxide"
            " takes some that DynamoDB refuses, and does some otherwise, without an error."
        ),
    ] = "memory"
    ports: Annotated[
        str,
        typer.Option(
            help="Comma-separated ports, one for each region in their order.",
            show_default="free ports",
        ),
    ] = ""
    control_port: Annotated[
        int,
        typer.Option(
            min=0, max=65_535, help="Port of the control URL.", show_default="a free port"
        ),
    ] = 0
    table: Annotated[str, typer.Option(help="Table name.")] = "ledger"
    no_table: Annotated[bool, typer.Option("--no-table", help="Do not create the table.")] = False
    data: Annotated[
        Path | None,
        typer.Option(help="Keep the state in this folder.", show_default="nothing is kept"),
    ] = None
    write_config: Annotated[
        Path | None,
        typer.Option(help="Write a regions.yaml with these endpoints.", show_default=False),
    ] = None
    force: UnlistedForce = False
    as_json: AsJson = False

    def of_table(self) -> LocalOptions:
        """Return the options of the table.

        Raises:
            InvalidInput: one breaks a rule.
        """
        names, table = _split(self.regions), self.table
        if self.config is not None:
            settings = Settings.load(self.config)
            names, table = settings.home_first, settings.table
        options = LocalOptions(
            regions=names,
            lag=self.lag,
            jitter=self.jitter,
            seed=self.seed,
            engine=self.engine,
            ports=_ports(self.ports),
            control_port=self.control_port,
            table=table,
            data=self.data,
        )
        try:
            options.check()
        except LocalTableError as error:
            raise InvalidInput(str(error)) from None
        return options


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _ports(text: str) -> list[int]:
    try:
        return [int(part) for part in _split(text)]
    except ValueError:
        raise InvalidInput(f"--ports must be comma-separated whole numbers, got {text!r}") from None


@app.command()
@spread_options
def up(options: LocalUpOptions) -> None:
    """Run a global table until Ctrl-C, and print how to reach it.

    A change reaches the other regions after LAG plus a random delay of up to JITTER. With --data a
    later start with the same regions continues from there, with the items that were in flight.
    """
    table = options.of_table()
    if options.write_config is not None:
        _check_ours(options.write_config, force=options.force)
    anyio.run(_run, options, table)


async def _run(options: LocalUpOptions, table: LocalOptions) -> None:
    stop = anyio.Event()
    async with (
        stopped_by_signals(lambda _: stop.set()),
        LocalGlobalTable.start(**asdict(table), create=not options.no_table) as world,
    ):
        if options.write_config is not None:
            _write_config(options.write_config, world)
        state = remember(world)
        if options.as_json:
            print_json([_endpoints(world)])
        else:
            _print_endpoints(world, options.write_config, options.data)
        try:
            await stop.wait()
        finally:
            forget(state)
    say("stopped", err=True)


def _write_config(path: Path, world: LocalGlobalTable) -> None:
    content = {
        "table": world.table,
        "home": world.regions[0],
        "regions": {name: {"endpoint": url} for name, url in world.endpoints.items()},
    }
    text = _WRITTEN_BY_US + yaml.safe_dump(content, sort_keys=False)
    write_output(path, text, force=True)  # checked before


def _check_ours(path: Path, *, force: bool) -> None:
    """Refuse to overwrite a file that this command did not write."""
    check_output(path, force=force or _is_ours(path))


def _is_ours(path: Path) -> bool:
    ours = _WRITTEN_BY_US.encode()
    try:
        with path.open("rb") as file:
            return file.read(len(ours)) == ours
    except (OSError, ValueError):
        return False


def _endpoints(world: LocalGlobalTable) -> dict[str, Any]:
    return {
        "table": world.table,
        "home": world.regions[0],
        "endpoints": world.endpoints,
        "control_url": world.control_url,
    }


def _print_endpoints(world: LocalGlobalTable, config: Path | None, data: Path | None) -> None:
    home = world.regions[0]
    lines = [
        *(
            f"{name:<16} {url}{'  (home)' if name == home else ''}"
            for name, url in world.endpoints.items()
        ),
        f"{'control':<16} {world.control_url}",
        f"{'state':<16} {data or 'nothing is kept once this ends (--data DIR keeps it)'}",
        "",
        f"export {CREDENTIALS}",
        f"export AWS_DEFAULT_REGION={home} AWS_ENDPOINT_URL_DYNAMODB={world.endpoints[home]}",
        f"aws dynamodb describe-table --table-name {world.table}",
    ]
    if config is not None:
        lines.append(f"export LEDGER_CONFIG={config}")
    for line in (*lines, "", "Ctrl-C stops it."):
        say(line)


@app.command()
def status(
    control_url: ControlUrl = None, config: Config = None, *, as_json: AsJson = False
) -> None:
    """Show regions, links and problems; exits with 1 if there is a problem.

    Requested states are not problems: pauses, outages, clocks, faults.
    """
    if print_local_table(running_table(control_url, config), as_json=as_json):
        raise typer.Exit(FAILED)


@app.command()
def pause(
    source: str,
    target: str,
    control_url: ControlUrl = None,
    config: Config = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Hold replication from SOURCE to TARGET: one direction of a partition."""
    world = running_table(control_url, config)
    world.pause(source, target)
    print_local_table(world, as_json=as_json)


@app.command()
def heal(
    source: Annotated[str | None, typer.Argument(show_default=False)] = None,
    target: Annotated[str | None, typer.Argument(show_default=False)] = None,
    control_url: ControlUrl = None,
    config: Config = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Resume replication from SOURCE to TARGET, or everywhere if neither is given."""
    if (source is None) != (target is None):
        raise InvalidInput(f"heal requires both SOURCE and TARGET, or neither, got only {source!r}")
    world = running_table(control_url, config)
    if source is None or target is None:
        world.heal_all()
    else:
        world.heal(source, target)
    print_local_table(world, as_json=as_json)


@app.command()
def lag(
    seconds: Annotated[Any, typer.Argument(parser=_seconds, metavar="LAG")],
    jitter: Annotated[Any, _Jitter] = None,
    control_url: ControlUrl = None,
    config: Config = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Change the replication lag of all later writes."""
    world = running_table(control_url, config)
    world.set_lag(seconds, jitter)
    print_local_table(world, as_json=as_json)


@app.command(context_settings={"ignore_unknown_options": True})
def clock(
    region: str,
    seconds: float,
    control_url: ControlUrl = None,
    config: Config = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Set REGION's clock SECONDS ahead of this machine's, below 0 behind, in its answers."""
    world = running_table(control_url, config)
    world.set_clock(region, seconds)
    print_local_table(world, as_json=as_json)


@app.command()
def outage(
    region: str,
    state: Annotated[Any, typer.Argument(parser=_on, metavar="on|off")],
    control_url: ControlUrl = None,
    config: Config = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Cut REGION off: it answers 503, and nothing replicates to or from it until `off`."""
    world = running_table(control_url, config)
    world.set_outage(region, on=state)
    print_local_table(world, as_json=as_json)


@app.command()
def lose(
    region: str,
    dropped_after: Annotated[
        Any,
        typer.Option(
            parser=_seconds,
            metavar="DURATION",
            help="Disable REGION for the account, too: others drop its replica so much later. 20h"
            " in AWS.",
            show_default="never",
        ),
    ] = None,
    control_url: ControlUrl = None,
    config: Config = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Lose REGION for good: it answers nothing any more, and what was on its way is lost.

    The others list its replica still. It cannot be removed, since DynamoDB carries that out in
    REGION; only --dropped-after, as after `aws account disable-region`, lets it go.
    """
    world = running_table(control_url, config)
    world.lose(region, dropped_after=dropped_after)
    print_local_table(world, as_json=as_json)


@app.command()
def fault(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"{', '.join(Fault)}, or none.")],
    probability: Annotated[float, typer.Option(help="Share of the requests, 0 to 1.")] = 1.0,
    operations: Annotated[
        str, typer.Option(help="Comma-separated operations.", show_default="all")
    ] = "",
    regions: Annotated[str, typer.Option(help="Comma-separated regions.", show_default="all")] = "",
    control_url: ControlUrl = None,
    config: Config = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Inject a fault into requests from now on, replacing earlier ones; `none` ends all."""
    if kind != NO_FAULT and kind not in list(Fault):
        known = ", ".join([*Fault, NO_FAULT])
        raise InvalidInput(f"KIND must be one of {known}, got {kind!r}")
    world = running_table(control_url, config)
    world.faults(
        None if kind == NO_FAULT else Fault(kind),
        probability=probability,
        operations=_split(operations),
        regions=_split(regions),
    )
    print_local_table(world, as_json=as_json)


@app.command()
def reset(
    control_url: ControlUrl = None, config: Config = None, *, as_json: AsJson = False
) -> None:
    """Delete all items in all regions, and all in flight; tables and the contract stay.

    Lag, pauses, outages, clocks and faults stay as they are.
    """
    world = running_table(control_url, config)
    world.reset()
    print_local_table(world, as_json=as_json)
