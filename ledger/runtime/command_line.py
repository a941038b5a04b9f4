"""What all commands share: their construction, the settings option, errors in one line."""

import os
import sys
from collections.abc import Hashable
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer
from typer.core import TyperGroup

from ledger.core.errors import (
    AmountOverflow,
    BookFull,
    BrokenRow,
    InvalidInput,
    LedgerError,
    RetryHorizonPassed,
    StateConflict,
)
from ledger.core.urls import without_passwords
from ledger.runtime.output import say, tolerate_encodings
from ledger.runtime.program import INTERRUPTED

FAILED = 1
MISUSED = 2
_OF_THE_DATA = (AmountOverflow, BookFull, BrokenRow, RetryHorizonPassed, StateConflict)
"""Invalid input that the command line alone does not show to be invalid."""
PACKAGE = "multi-region-ledger"
COMMANDS = "Commands"
"""The heading over commands in a group's help that name no other heading."""

Config = Annotated[
    Path | None,
    typer.Option(help="Settings file.", show_default="LEDGER_CONFIG, else ./regions.yaml"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]


class HeadedGroup(TyperGroup):
    """A group whose help lists the commands under headings, each with its first paragraph."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (typer's signature)
        """Write the lists of commands, in columns of the same width."""
        widest = max(map(len, self.commands))
        for heading, commands in groupby(self.commands.values(), key=_heading):
            with formatter.section(heading):
                formatter.write_dl(
                    [
                        (str(command.name).ljust(widest), first_paragraph(command.help))
                        for command in commands
                    ]
                )


def _heading(command: Any) -> str:
    return command.rich_help_panel or COMMANDS


def first_paragraph(text: str | None) -> str:
    """Return the first paragraph of a help text in one line."""
    return " ".join((text or "").partition("\n\n")[0].split())


def new_app(
    *,
    name: str | None = None,
    about: str | None = None,
    add_completion: bool = False,
) -> typer.Typer:
    """Return an app without commands.

    Help is plain text, wrapped to the terminal, because drawing it with rich imports rich.
    """
    app = typer.Typer(
        name=name,
        help=about,
        cls=HeadedGroup,
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=True,
        add_completion=add_completion,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    if name is not None:
        app.callback(help=about)(_program)
    return app


def _print_version(asked: bool) -> None:  # noqa: FBT001 (typer's signature)
    if asked:
        from importlib.metadata import version  # noqa: PLC0415 (no other command needs it)

        say(f"{PACKAGE} {version(PACKAGE)}")
        raise typer.Exit


def _program(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Take the options of a program that has commands."""


def run(app: typer.Typer) -> None:
    """Run a command and exit; an error becomes one line on standard error and an exit status.

    An error of the command line itself, whatever table and files contain, exits with 2, and so does
    a region of --region that the settings do not have. Any other `LedgerError` exits with 1, also
    one that depends on the time or on sums in the table, and so does a refusal of the operating
    system, such as a write on a full disk.
    """
    tolerate_encodings()
    status = _status_of(app)
    try:
        sys.stdout.flush()
    except OSError as error:
        _abandon_output()
        status = status or _refused(error)
    sys.exit(status)


def _status_of(app: typer.Typer) -> int:
    """Run a command, report its error, and return its exit status."""
    try:
        status = app(standalone_mode=False)  # so that errors are reported here
    except typer.TyperException as error:
        _explain(error)
        return error.exit_code
    except LedgerError as error:
        _complain(str(error))
        is_usage = isinstance(error, InvalidInput) and not isinstance(error, _OF_THE_DATA)
        return MISUSED if is_usage else FAILED
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except OSError as error:
        return _refused(error)
    return status if isinstance(status, int) else 0


def _refused(error: OSError) -> int:
    """Report an error of the operating system; not that a reader (`| head`) is gone."""
    if not isinstance(error, BrokenPipeError):
        _complain(_refusal(error))
    return FAILED


def _refusal(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def _abandon_output() -> None:
    """Discard what standard output did not take: the interpreter's flush would raise again.

    Its buffer still holds it, so the descriptor is redirected to the null device.
    """
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _complain(text: str) -> None:
    if text:
        say(f"error: {without_passwords(' '.join(text.split()))}", err=True)


def _explain(error: typer.TyperException) -> None:
    """Report an error of the command line: the help itself if a command is missing."""
    text = error.format_message()
    context = getattr(error, "ctx", None)
    if context and text == context.get_help():
        sys.stderr.write(f"{text}\n")
    else:
        _complain(f"{text.rstrip('.')}; see {context.command_path} --help" if context else text)


class Said(Protocol):
    """A message while a command waits; messages with the same key are printed once."""

    @property
    def key(self) -> Hashable:
        """Identifies the message among earlier ones."""


class SayOnce:
    """Prints what a command waits for to standard error, each key once."""

    def __init__(self) -> None:
        self._keys: set[Hashable] = set()

    def __call__(self, waiting: Said) -> None:
        """Print it, unless a message with its key was printed."""
        if waiting.key not in self._keys:
            self._keys.add(waiting.key)
            say(str(waiting), err=True)
