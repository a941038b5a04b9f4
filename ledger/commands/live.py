"""Work under a live display: a panel on a terminal, otherwise a plain line now and then."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from rich.console import Console, RenderableType
from rich.live import Live

from ledger.runtime.console_tables import print_line
from ledger.runtime.tasks import background_tasks

REFRESHES_PER_SECOND = 4
PLAIN_LINE_SECONDS = 5.0

Result = TypeVar("Result")


async def with_display(
    work: Callable[[], Awaitable[Result]],
    console: Console,
    *,
    panel: Callable[[], RenderableType],
    line: Callable[[], str] | None = None,
) -> Result:
    """Run the work to its end while its state is shown; its error is raised by itself."""
    async with background_tasks() as tasks:
        tasks.start_soon(_show_on, console, panel, line)
        return await work()


async def _show_on(
    console: Console, panel: Callable[[], RenderableType], line: Callable[[], str] | None
) -> None:
    if not console.is_terminal:
        while line is not None:
            await anyio.sleep(PLAIN_LINE_SECONDS)
            print_line(line(), console)
        return
    with Live(console=console, refresh_per_second=REFRESHES_PER_SECOND, transient=True) as live:
        while True:  # until cancelled
            live.update(panel())
            await anyio.sleep(1 / REFRESHES_PER_SECOND)
