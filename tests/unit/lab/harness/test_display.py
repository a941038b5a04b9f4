"""The live display: the same facts in a panel and in a line."""

import io

import anyio
import pytest
from rich.console import Console
from rich.text import Text

from ledger.commands import live
from ledger.demo.harness.display import DisplayView, checked, line, panel, run_shown
from ledger.demo.harness.report import Section

VIEW = DisplayView(
    title="ledger thing",
    phase="writing",
    figures=[("elapsed", "3 s"), ("merged", "5")],
    progress=(1, 4),
    sections=[Section(columns=("region", "entries"), rows=[("us-east-1", "7")])],
    status=checked(1200, 1),
    notes=[Text("cut off")],
)


def test_the_panel_shows_everything() -> None:
    """Title, phase, figures, sections, status and notes."""
    console = Console(width=100)
    with console.capture() as capture:
        console.print(panel(VIEW))
    for part in ("ledger thing", "writing", "3 s", "us-east-1", "7", "1,200, wrong: 1", "cut off"):
        assert part in capture.get()


def test_the_line_shows_phase_figures_and_status() -> None:
    """A log line without tables."""
    assert line(VIEW) == "writing; elapsed: 3 s; merged: 5; reads checked: 1,200, wrong: 1"


async def test_a_run_speaks_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run of the laboratory, the demo among them, says there how far it is."""
    monkeypatch.setattr(live, "PLAIN_LINE_SECONDS", 0.0)
    output, shown = io.StringIO(), anyio.Event()

    def view() -> DisplayView:
        shown.set()
        return VIEW

    await run_shown(shown.wait, Console(file=output, width=200), view)
    assert output.getvalue().startswith("writing; elapsed: 3 s; merged: 5;")
