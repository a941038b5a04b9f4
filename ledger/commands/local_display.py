"""The state of a local global table on the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from ledger.local.global_table import LocalGlobalTable
from ledger.local.status import problems
from ledger.runtime.console_tables import Column, Grid, new_console, number, print_grid, print_line
from ledger.runtime.output import print_json, printable, say

RESTARTS_SHOWN_MAX = 3
"""How many of a region's last restarts are shown."""


def show(world: LocalGlobalTable, *, as_json: bool) -> bool:
    """Print the state of a table, and return whether something is wrong with it."""
    state = world.status()
    wrong = problems(state)
    if as_json:
        print_json([{**state, "problems": wrong}])
        return bool(wrong)
    for region in _regions(state):
        say(region)
    console = new_console()
    print_grid(_links(state), console)
    for line in (*_settings(state), *_restarts(state)):
        say(line)
    for problem in wrong:
        print_line(Text.assemble(("wrong:", "red"), " ", printable(problem)), console)
    return bool(wrong)


def _regions(state: Mapping[str, Any]) -> Iterator[str]:
    for name, url in state["endpoints"].items():
        line = f"{name}  {url}"
        if name in state["unavailable"]:
            line += "  unavailable"
        elif name in state["lost"]:
            line += "  lost"
        elif name in state["outages"]:
            line += "  outage"
        yield line


def _links(state: Mapping[str, Any]) -> Grid:
    columns = (Column("from"), Column("to"), Column("state"), number("items in flight"))
    rows = [
        (*pair.split(" "), state["states"][pair], str(queued))
        for pair, queued in state["queued"].items()
    ]
    return Grid(columns, rows)


def _settings(state: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"engine {state['engine']}, lag {state['lag']:g} s, jitter {state['jitter']:g} s; "
        f"{state['applied']} items applied, {state['dropped']} superseded by a later write"
    )
    for name, seconds in state["clocks"].items():
        yield f"clock of {name}: {seconds:+g} s"
    for rule in state["fault_rules"]:
        operations = ", ".join(rule["operations"]) or "all operations"
        regions = ", ".join(rule["regions"]) or "all regions"
        injected = state["faults_by_kind"].get(rule["kind"], 0)
        yield (
            f"fault {rule['kind']} in {rule['probability']:.0%} of {operations} in {regions}; "
            f"{injected} injected"
        )


def _restarts(state: Mapping[str, Any]) -> Iterator[str]:
    for region, restarts in state["restarts"].items():
        for restart in restarts[-RESTARTS_SHOWN_MAX:]:
            keys = ", ".join(restart["lost_keys"])
            yield (
                f"{region} was started again at {restart['back_at']} ({restart['reason']}): "
                f"{restart['filled']} items filled in again, {restart['lost']} lost"
                + (f", such as {keys}" if keys else "")
            )
