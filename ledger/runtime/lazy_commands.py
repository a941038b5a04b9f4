"""Commands that are imported when they are used; help lists them by a table, without importing."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import typer
from typer.core import TyperCommand

from ledger.runtime.command_line import COMMANDS


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command, or a group of them, that `module` defines as its `app`.

    `about` repeats the first paragraph of its own help, so that listing the commands does not
    import them.
    """

    name: str
    module: str
    about: str
    heading: str = COMMANDS

    def load(self) -> Any:
        """Import the module and return its command."""
        command = typer.main.get_command(import_module(self.module).app)
        command.name = self.name
        return command


class PlaceholderCommand(TyperCommand):
    """Stands for a lazy command in its group; the callback returns the command itself."""

    def load(self) -> Any:
        """Return the command itself."""
        return cast("Callable[[], Any]", self.callback)()

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse the arguments with the command itself, which then runs."""
        return self.load().make_context(info_name, args, parent=parent, **extra)


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
