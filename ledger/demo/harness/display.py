"""What a run shows while it goes on: a panel on a terminal, plain lines elsewhere."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import anyio
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.text import Text

from ledger.commands.live import with_display
from ledger.demo.harness.report import ReportFiles, RunReport, Section, finish, render
from ledger.runtime.console_tables import new_console

BAR_CHARACTERS = 60

Result = TypeVar("Result")
OnStep = Callable[[str], None]
"""Called with each step of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayView:
    """What is shown at one moment; `sections` and `notes` need a panel."""

    title: str
    phase: str
    figures: Sequence[tuple[str, str]] = ()
    progress: tuple[int, int] | None = None
    """How much is done, and of how much."""
    sections: Sequence[Section] = ()
    status: Text | None = None
    """How the checks stand."""
    notes: Sequence[Text] = ()


class ShownRun(Protocol):
    """A run that can be watched: `progress.view` returns what is shown now."""

    progress: Any

    async def run(self) -> RunReport:
        """Run to the end, and report."""


async def run_shown(
    work: Callable[[], Awaitable[Result]],
    console: Console,
    view: Callable[[], DisplayView],
) -> Result:
    """Run the work to its end under a live display; its error is raised alone, not in a group."""
    return await with_display(
        work,
        console,
        panel=lambda: panel(view()),
        line=lambda: line(view()),
    )


def run_and_report(run: ShownRun, files: ReportFiles) -> None:
    """Run to the end under a live display, and end the command with the run's report."""
    console = new_console()
    report = anyio.run(run_shown, run.run, console, run.progress.view)
    finish(report, console, files)


def panel(view: DisplayView) -> Panel:
    """Return the live panel."""
    parts: list[RenderableType] = [Text(view.phase, style="bold")]
    if view.progress is not None:
        done, total = view.progress
        parts.append(ProgressBar(total=total, completed=min(done, total), width=BAR_CHARACTERS))
    if view.figures:
        parts.append(render(Section(rows=view.figures)))
    parts += [render(section) for section in view.sections]
    parts += [view.status] if view.status is not None else []
    return Panel(Group(*parts, *view.notes), title=view.title, expand=False)


def line(view: DisplayView) -> str:
    """Return the same in one plain line."""
    figures = [f"{name}: {value}" for name, value in view.figures]
    status = [view.status.plain] if view.status is not None else []
    return "; ".join([view.phase, *figures, *status])


def checked(reads: int, wrong: int) -> Text:
    """Return how many reads were checked, and how many of them were wrong."""
    return Text(
        f"reads checked: {reads:,}, wrong: {wrong:,}", style="bold red" if wrong else "green"
    )
