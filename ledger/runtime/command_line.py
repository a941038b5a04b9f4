"""What all commands share: how they are built, the settings option, errors in one line."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup

from ledger.core.errors import LedgerError

FAILED = 1
INTERRUPTED = 130

Config = Annotated[
    Path | None,
    typer.Option(
        help="Settings file; else LEDGER_CONFIG, else ./regions.yaml.", show_default=False
    ),
]


def new_app(
    *,
    name: str | None = None,
    about: str | None = None,
    cls: type[TyperGroup] = TyperGroup,
    add_completion: bool = False,
) -> typer.Typer:
    """Return an app without commands.

    Help is plain text, wrapped to the terminal, because drawing it with rich imports rich.
    """
    return typer.Typer(
        name=name,
        help=about,
        cls=cls,
        no_args_is_help=True,
        add_completion=add_completion,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def run(app: typer.Typer) -> None:
    """Run a command; what goes wrong becomes one line on standard error and an exit status.

    A `LedgerError` ends with 1, a command line that cannot be understood with 2.
    """
    try:
        status = app(standalone_mode=False)  # else typer draws a box of lines round its errors
    except typer.TyperException as error:
        _complain(_usage(error))
        sys.exit(error.exit_code)
    except LedgerError as error:
        _complain(str(error))
        sys.exit(FAILED)
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("interrupted\n")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader (`| head`) has gone; the interpreter's own flush would complain again.
        sys.stdout = None
        sys.exit(FAILED)
    sys.exit(status if isinstance(status, int) else 0)


def _complain(text: str) -> None:
    if text:
        sys.stderr.write(f"error: {' '.join(text.split())}\n")


def _usage(error: typer.TyperException) -> str:
    """Say what is wrong with the command line; nothing where typer has just shown the help."""
    text = error.format_message()
    context = getattr(error, "ctx", None)
    return f"{text.rstrip('.')}; see {context.command_path} --help" if text and context else text
