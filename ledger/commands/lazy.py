"""Commands that are imported when they are used; help lists them by a table, without importing."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

EVERYDAY = "Commands"
LABORATORY = "Laboratory"


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command, or a group of them, that `module` makes as its `app`.

    `about` is the first paragraph of its own help, repeated here so that listing the commands
    imports none of them.
    """

    name: str
    module: str
    about: str
    heading: str = EVERYDAY

    def load(self) -> Any:
        """Import the module and return its command."""
        command = typer.main.get_command(import_module(self.module).app)
        command.name = self.name
        return command


class PlaceholderCommand(TyperCommand):
    """Stands for a lazy command in its group; the callback returns the command itself."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse the arguments with the command itself, which then runs."""
        command = cast("Callable[[], Any]", self.callback)()
        return command.make_context(info_name, args, parent=parent, **extra)


class HeadedGroup(TyperGroup):
    """A group whose help lists the commands under headings, each with its first paragraph."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 (typer's signature)
        """Write the lists of commands, in columns of the same width."""
        widest = max(map(len, self.commands))
        for heading, commands in groupby(self.commands.values(), key=_heading):
            with formatter.section(heading):
                formatter.write_dl(
                    [(str(one.name).ljust(widest), first_paragraph(one.help)) for one in commands]
                )


def _heading(command: Any) -> str:
    return command.rich_help_panel or EVERYDAY


def first_paragraph(text: str | None) -> str:
    """Return the first paragraph of a help text in one line."""
    return " ".join((text or "").partition("\n\n")[0].split())


def add_lazily(app: typer.Typer, *commands: LazyCommand) -> None:
    """Add commands to a group without importing them."""
    for command in commands:
        add = app.command(
            command.name,
            cls=PlaceholderCommand,
            help=command.about,
            rich_help_panel=command.heading,
        )
        add(command.load)
