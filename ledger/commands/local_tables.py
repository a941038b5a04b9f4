"""Which of the running local tables a command of `ledger local` acts on, and the state of each.

Each table that `ledger local up` runs has its control URL in a file of its own; one that was killed
leaves a file behind, and does not answer.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.text import Text

from ledger.core.errors import LocalTableError
from ledger.local.global_table import LocalGlobalTable
from ledger.local.status import problems
from ledger.runtime.console_tables import Column, Grid, new_console, number, print_grid, print_line
from ledger.runtime.output import print_json, printable, say
from ledger.settings import Settings
from ledger.settings.sources import DEFAULT_FILE
from ledger.settings.variables import CONFIG_VARIABLE

_REGIONS_VARIABLE = "LEDGER_REGIONS"
Place = tuple[str | None, int | None]


def remember(world: LocalGlobalTable) -> Path | None:
    """Store a table's control URL for the other commands; if that fails they need --control-url."""
    path = _folder() / f"{urlsplit(world.control_url).port}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"control_url": world.control_url}), encoding="utf-8")
    except OSError as error:
        say(f"the other commands will need --control-url: {error}", err=True)
        return None
    return path


def forget(path: Path | None) -> None:
    """Delete what `remember` stored."""
    if path is not None:
        path.unlink(missing_ok=True)


def running_table(control_url: str | None, config: Path | None) -> LocalGlobalTable:
    """Return the table at a control URL, else that of the settings, else the one started last.

    The last is for settings without endpoints, and is reported then.

    Raises:
        SettingsError: the settings are wrong.
        LocalTableError: there is no such table, or none at the settings' endpoints.
    """
    if control_url is not None:
        return LocalGlobalTable.connect(control_url)
    wanted = _wanted(config)
    for world in _running():
        if not wanted:
            say(f"the table started last, --control-url {world.control_url}:", err=True)
            return world
        if wanted & {_place(url) for url in world.endpoints.values()}:
            return world
    if wanted:
        host, port = min(wanted, key=str)
        raise LocalTableError(
            f"no running local global table has an endpoint of the settings, such as {host}:{port}:"
            " start one with `ledger local up`, name another file with --config, or give a"
            " --control-url"
        )
    raise LocalTableError(
        "no running local global table was found: start one with `ledger local up`, or give its"
        " --control-url"
    )


def _wanted(config: Path | None) -> frozenset[Place]:
    """Return where the settings in force reach their regions; nothing if there are no settings."""
    is_given = config or os.environ.get(CONFIG_VARIABLE) or DEFAULT_FILE.exists()
    if not is_given and not any(name.startswith(_REGIONS_VARIABLE) for name in os.environ):
        return frozenset()
    regions = Settings.load(config).regions.values()
    return frozenset(_place(region.endpoint) for region in regions if region.endpoint)


def _place(url: str) -> Place:
    parts = urlsplit(url)
    return "127.0.0.1" if parts.hostname == "localhost" else parts.hostname, parts.port


def _running() -> Iterator[LocalGlobalTable]:
    """Yield the tables that answer, the last started first."""
    with suppress(OSError):
        for path in sorted(_folder().glob("*.json"), key=_started, reverse=True):
            with suppress(OSError, ValueError, KeyError, TypeError, LocalTableError):
                url = json.loads(path.read_text(encoding="utf-8"))["control_url"]
                yield LocalGlobalTable.connect(str(url))


def _started(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it has ended in the meantime
        return 0.0


def _folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local/state") / "ledger" / "local"


RESTARTS_SHOWN_MAX = 3
"""How many of a region's last restarts are shown."""


def print_local_table(world: LocalGlobalTable, *, as_json: bool) -> bool:
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
