"""Commands of many options: help shows the common ones, `--help-all` the advanced ones too."""

from typing import Any

import typer
from typer.core import TyperCommand

ADVANCED = "Advanced"
"""The `rich_help_panel` of an option that only `--help-all` shows."""
HELP_ALL = "--help-all"


class PagedCommand(TyperCommand):
    """A command whose advanced options are listed by `--help-all` only."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._advanced: list[Any] = [
            param for param in self.params if getattr(param, "rich_help_panel", None) == ADVANCED
        ]
        self._show_advanced(is_shown=False)

    def _show_advanced(self, *, is_shown: bool) -> None:
        for option in self._advanced:
            option.hidden = not is_shown
        count = len(self._advanced)
        self.epilog = None if is_shown else f"{HELP_ALL} shows {count} advanced options as well."

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, or show the whole help if that is asked for."""
        if HELP_ALL in args:
            self._show_advanced(is_shown=True)
            typer.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)
