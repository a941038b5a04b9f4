"""What every command shares: where the settings are, and how an error is told in one line."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ledger.core.errors import LedgerError

FAILED = 1
INTERRUPTED = 130

Config = Annotated[
    Path | None,
    typer.Option(
        help="Settings file; else LEDGER_CONFIG, else ./regions.yaml.", show_default=False
    ),
]


def run(app: typer.Typer) -> None:
    """Run a command; a `LedgerError` becomes one line on standard error and exit status 1."""
    try:
        app()
    except LedgerError as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader (`| head`) has gone; the interpreter's own flush would complain again.
        sys.stdout = None
        sys.exit(FAILED)
