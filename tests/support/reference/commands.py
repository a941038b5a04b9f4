"""The page of all commands, from their help texts."""

from collections.abc import Iterator
from typing import Any

import typer
from support.reference.tables import row

import compactor.cli
import ledger.commands.main

HEAD = """\
# Commands

Each command explains its options by `--help`. `--json` prints one object a line, with amounts as
text. No command replaces a file without `--force`. Exit status 0 is success, 1 a failure, 2 a wrong
command line. From a clone, `python -m lab` has the programs that measure and disturb the ledger.

A command works in the region of `--region`, else of LEDGER_REGION, else of AWS_REGION if the table
has that region, else in the home region.

| command | does |
|---|---|
"""
_NO_BRACES = str.maketrans("", "", "{}")


def page() -> str:
    """Return the page: every command of both programs, a row each."""
    programs = {"ledger": ledger.commands.main.app, "compactor": compactor.cli.app}
    rows = (row for name, app in programs.items() for row in _rows(name, _command(app)))
    return HEAD + "".join(rows)


def _command(app: typer.Typer) -> Any:
    return typer.main.get_command(app)


def _rows(name: str, command: Any) -> Iterator[str]:
    # A command that is imported when it is used stands for another.
    loaded = command.load() if hasattr(command, "load") else command
    below = getattr(loaded, "commands", {})
    if not below:
        about = loaded.help.partition("\n\n")[0]
        yield row(f"`{' '.join((name, *_arguments(loaded)))}`", about)
    for key in below:
        yield from _rows(f"{name} {key}", below[key])


def _arguments(command: Any) -> list[str]:
    _options, *arguments = command.collect_usage_pieces(typer.Context(command))
    names = (one.upper().translate(_NO_BRACES) for one in arguments)
    return [name.replace("......", "...") for name in names]
