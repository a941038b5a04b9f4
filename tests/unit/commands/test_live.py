"""Work under a live display, on a terminal and elsewhere."""

import io
import os
import sys

import anyio
import pytest
from rich.console import Console

from ledger.commands import live
from ledger.commands.live import with_display
from ledger.runtime.console_tables import new_console


async def test_without_a_terminal_there_are_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line now and then, no panel, and the result of the work."""
    monkeypatch.setattr(live, "PLAIN_LINE_SECONDS", 0.0)
    output, told = io.StringIO(), anyio.Event()

    def line() -> str:
        told.set()
        return "so far [1]"

    async def work() -> int:
        await told.wait()
        return 7

    console = Console(file=output, width=40)
    assert await with_display(work, console, panel=lambda: "panel", line=line) == 7
    assert output.getvalue().startswith("so far [1]\n")
    assert "panel" not in output.getvalue()


async def test_on_a_terminal_there_is_a_panel() -> None:
    """The panel is drawn while the work goes on."""
    drawn = anyio.Event()

    def panel() -> str:
        drawn.set()
        return "panel"

    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=40)
    await with_display(drawn.wait, console, panel=panel)
    assert "panel" in output.getvalue()


async def test_an_error_comes_out_alone() -> None:
    """Whatever groups it was wrapped in, the first plain error is raised."""

    async def work() -> None:
        raise ExceptionGroup("two", [ExceptionGroup("one", [ValueError("wrong")])])

    with pytest.raises(ValueError, match="wrong"):
        await with_display(work, Console(file=io.StringIO()), panel=lambda: "")


async def test_a_reader_that_is_gone_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of `ledger demo | head -1`: one plain error, no exit from within a task."""
    monkeypatch.setattr(live, "PLAIN_LINE_SECONDS", 0.0)
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as pipe:  # noqa: ASYNC230, PTH123 (a descriptor)
        monkeypatch.setattr(sys, "stdout", pipe)
        with pytest.raises(BrokenPipeError):
            await with_display(
                anyio.sleep_forever, new_console(), panel=lambda: "", line=lambda: "so far 1"
            )
        monkeypatch.undo()
        null = os.open(os.devnull, os.O_WRONLY)  # what is left in its buffer goes there
        os.dup2(null, writing)
        os.close(null)
