"""`ledger table`: create, inspect and delete the global table."""

import sys
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from ledger.administration.contract_changes import first_values
from ledger.administration.table import (
    TIMEOUT_SECONDS,
    Patience,
    Report,
    TableProgress,
    TableState,
    create_table,
    delete_table,
    table_state,
)
from ledger.administration.table_plan import TableStep, TableView, base_of, check, replica_problems
from ledger.administration.warm_throughput import WarmThroughput
from ledger.commands import contract
from ledger.commands import contract as sign
from ledger.core.errors import InvalidInput, TableMissing
from ledger.runtime.command_line import AsJson, Config, new_app
from ledger.runtime.console_tables import Column, Grid, new_console, print_grid
from ledger.runtime.output import print_json, say
from ledger.settings import Settings

app = new_app(about="Create, inspect and delete the global table.")

Markers = Annotated[
    bool, typer.Option("--markers", help="The markers' own table, `marker_table` of the settings.")
]
States = Annotated[
    bool,
    typer.Option("--states", help="The tables of pipelines' states, their `state_table`."),
]
Timeout = Annotated[float, typer.Option(min=0, help="Maximum seconds to wait.")]


@app.command()
def create(
    *,
    config: Config = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    warm: Annotated[
        str | None,
        typer.Option(
            metavar="WRITES[,READS]",
            help="Warm throughput in units a second; charged, and never lowered.",
            show_default="4000,12000, as AWS begins",
        ),
    ] = None,
    first: contract.FirstValues = None,
    markers: Markers = False,
    states: States = False,
    as_json: AsJson = False,
) -> None:
    """Create the table with a replica in every region, or complete a partly created one.

    Then write its contract: what must be equal in all processes, from the settings and --set. Safe
    to run again at any time: it changes nothing if the table is complete, and a contract is only
    compared with the settings. Tables of markers and of states have no contract; markers always
    have time to live.
    """
    settings = Settings.load(config, **first_values(first or ()))
    for chosen in _chosen(settings, markers=markers, states=states):
        with _bar() as bar:
            state = create_table(
                chosen,
                patience=Patience(timeout_seconds=timeout),
                report=_shown(bar),
                warm=None if warm is None else WarmThroughput.parse(warm),
            )
        _say_taken(state, as_json=as_json)
    if not (markers or states):
        contract.established(settings, as_json=as_json)


@app.command()
def status(
    config: Config = None,
    *,
    markers: Markers = False,
    states: States = False,
    as_json: AsJson = False,
) -> None:
    """Show the table in every region; exit with 1 if anything is missing or does not replicate."""
    option = " --markers" if markers else " --states" if states else ""
    shown = [
        _is_whole(table_state(chosen), option, as_json=as_json)
        for chosen in _chosen(Settings.load(config), markers=markers, states=states)
    ]
    if not all(shown):
        raise typer.Exit(1)


def _is_whole(state: TableState, option: str, *, as_json: bool) -> bool:
    """Show a table in every region; returns whether it is complete and replicates everywhere.

    Raises:
        TableMissing: it exists in no region.
    """
    if as_json:
        print_json([_fields(state)])
    else:
        print_grid(_as_grid(state))
    for error in state.errors.values():
        say(f"error: {error}", err=True)
    if not state.errors and base_of(state.views) is None:
        raise TableMissing(
            f"table {state.table} does not exist in any region:"
            f" create it with `ledger table create{option}`"
        )
    base = base_of(state.views)
    if base and base.warm and not as_json:
        say(f"warm throughput of each replica, a second: {base.warm}")
    broken = replica_problems(state.views)
    for problem in broken:
        say(f"problem: {problem}", err=as_json)
    if broken or state.errors:
        return False
    check(state.table, state.views)
    for step in state.left:
        say(f"missing: {step}", err=as_json)
    return not state.left


def _chosen(settings: Settings, *, markers: bool, states: bool) -> list[Settings]:
    """Return the settings of each table that the options name: without any, the table itself.

    Raises:
        InvalidInput: both options are given.
        SettingsError: the settings name no such table.
    """
    if markers and states:
        raise InvalidInput("--markers and --states name different tables: give one of them")
    if states:
        return [settings.for_states(table) for table in settings.state_tables or (None,)]
    return [settings.for_markers() if markers else settings]


@app.command()
def delete(
    *,
    config: Config = None,
    confirm: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="The table's name, in place of the prompt."),
    ] = None,
    timeout: Timeout = TIMEOUT_SECONDS,
    markers: Markers = False,
    states: States = False,
    as_json: AsJson = False,
) -> None:
    """Delete the table and all its data in every region, even if it is protected from deletion.

    If there are several tables of states, --confirm chooses one.
    """
    settings = Settings.load(config)
    if states:
        several = len(settings.state_tables) > 1
        settings = settings.for_states(confirm if several else None)
    settings = settings.for_markers() if markers else settings
    _confirm(settings, confirm)
    with _bar() as bar:
        state = delete_table(
            settings, patience=Patience(timeout_seconds=timeout), report=_shown(bar)
        )
    _say_taken(state, as_json=as_json)


app.command("sign")(sign.sign_net_changes)
app.command("adopt")(contract.adopt)
app.command("show")(contract.show_contract)
app.command("set")(contract.set_value)


def _confirm(settings: Settings, confirm: str | None) -> None:
    """Check that the table's name was given, or ask for it.

    Raises:
        InvalidInput: another name was given, or no name and standard input is not a terminal.
    """
    if confirm is None and sys.stdin.isatty():
        regions = ", ".join(settings.regions)
        say(f"This deletes table {settings.table} and all its data in {regions}.")
        confirm = typer.prompt("Type the table's name to continue", default="", show_default=False)
    if confirm is None:
        raise InvalidInput(f"nothing was deleted: confirm with --confirm {settings.table}")
    if confirm != settings.table:
        raise InvalidInput(
            f"nothing was deleted: --confirm must be {settings.table!r}, got {confirm!r}"
        )


def _bar() -> ProgressBar:
    console = new_console(err=True)
    return ProgressBar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _shown(bar: ProgressBar) -> Report:
    task = bar.add_task("reading every region", total=None)
    said: set[TableStep] = set()

    def report(progress: TableProgress) -> None:
        bar.update(
            task,
            description=escape(str(progress)),
            completed=progress.done,
            total=progress.total,
        )
        # Without a terminal, as in the log of a build, each step is one line.
        if not bar.console.is_terminal and progress.step not in said:
            said.add(progress.step)
            say(str(progress.step), err=True)

    return report


def _fields(state: TableState) -> dict[str, Any]:
    return {
        "table": state.table,
        "home": state.home,
        "regions": state.views,
        "errors": {region: str(error) for region, error in state.errors.items()},
        "problems": list(map(str, replica_problems(state.views))),
        "missing": state.left,
    }


def _say_taken(state: TableState, *, as_json: bool) -> None:
    if as_json:
        print_json([{"table": state.table, "done": state.taken}])
        return
    if not state.taken:
        say(f"table {state.table}: nothing to do")
    for step in state.taken:
        say(f"done: {step}")


def _as_grid(state: TableState) -> Grid:
    headings = ("region", "state", "stream", "recovery", "protection", "billing")
    rows: list[tuple[str, ...]] = []
    base = base_of(state.views)
    for region, view in state.views.items():
        name = f"{region} (home)" if region == state.home else region
        if view is None:
            missing = "unreadable" if region in state.errors else "missing"
            rows.append((name, missing, "", "", "", ""))
        else:
            rows.append((name, *_cells(view, base)))
    return Grid(list(map(Column, headings)), rows, title=f"table {state.table}")


def _cells(view: TableView, base: TableView | None) -> tuple[str, ...]:
    status = view.status
    if base and view is not base and view.active:
        status = base.replicas.get(view.region, "no replica")
    return (
        status,
        "on" if view.stream else "off",
        "on" if view.recovery else "off",
        "on" if view.protected else "off",
        "on-demand" if view.billing == "PAY_PER_REQUEST" else view.billing.lower(),
    )
