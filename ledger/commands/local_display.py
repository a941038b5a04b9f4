"""The state of a local global table on the terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ledger.local.global_table import LocalGlobalTable
from ledger.local.status import problems

RESTARTS_SHOWN_MAX = 3
"""The last restarts of a region that are shown."""


def show(world: LocalGlobalTable) -> bool:
    """Print the state of a table, and return whether something is wrong with it."""
    state = world.status()
    wrong = problems(state)
    console = Console()
    for region in _regions(state):
        console.print(region, highlight=False)
    console.print(_links(state))
    for line in (*_settings(state), *_restarts(state)):
        console.print(line, highlight=False, soft_wrap=True)
    for problem in wrong:
        console.print(f"[red]wrong:[/red] {escape(problem)}", highlight=False, soft_wrap=True)
    return bool(wrong)


def _regions(state: Mapping[str, Any]) -> Iterator[str]:
    for name, url in state["endpoints"].items():
        line = f"{escape(name)}  {escape(url)}"
        if name in state["unavailable"]:
            line += "  unavailable"
        elif name in state["outages"]:
            line += "  outage"
        yield line


def _links(state: Mapping[str, Any]) -> Table:
    shown = Table(box=box.SIMPLE)
    for heading in ("from", "to", "state", "items in flight"):
        shown.add_column(heading, justify="right" if heading.startswith("items") else "left")
    for pair, queued in state["queued"].items():
        source, target = pair.split(" ")
        shown.add_row(escape(source), escape(target), state["states"][pair], str(queued))
    return shown


def _settings(state: Mapping[str, Any]) -> Iterator[str]:
    yield (
        f"engine {state['engine']}, lag {state['lag']:g} s, jitter {state['jitter']:g} s; "
        f"{state['applied']} items applied, {state['dropped']} superseded by a later write"
    )
    for name, seconds in state["clocks"].items():
        yield f"clock of {escape(name)}: {seconds:+g} s"
    for rule in state["fault_rules"]:
        operations = ", ".join(rule["operations"]) or "all operations"
        regions = ", ".join(rule["regions"]) or "all regions"
        injected = state["faults_by_kind"].get(rule["kind"], 0)
        yield escape(
            f"fault {rule['kind']} in {rule['probability']:.0%} of {operations} in {regions}; "
            f"{injected} injected"
        )


def _restarts(state: Mapping[str, Any]) -> Iterator[str]:
    for region, restarts in state["restarts"].items():
        for restart in restarts[-RESTARTS_SHOWN_MAX:]:
            keys = ", ".join(restart["lost_keys"])
            yield escape(
                f"{region} was started again at {restart['back_at']} ({restart['reason']}): "
                f"{restart['filled']} items filled in again, {restart['lost']} lost"
                + (f", such as {keys}" if keys else "")
            )
