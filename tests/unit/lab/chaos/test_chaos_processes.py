"""Processes that are struck: killed ones come back, stopped ones go on, the dead are told."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from ledger.lab.chaos.calls import Answer, Call
from ledger.lab.chaos.processes import Victim, Writer
from ledger.settings import Settings

WAIT_SECONDS_MAX = 30.0
NOTES = "import sys, time; open(sys.argv[1], 'a').write('x')\n"
LIVES = f"{NOTES}time.sleep(60)"
COUNTS = "import sys, time\nwhile True: open(sys.argv[1], 'a').write('x'); time.sleep(0.01)"
ECHO = """
import json, sys
for line in sys.stdin:
    call = json.loads(line)
    if call["changes"][0][0] == "deadly":
        sys.exit(1)
    print(json.dumps({"number": call["number"], "outcome": "acknowledged"}), flush=True)
"""


@asynccontextmanager
async def running(victim: Victim) -> AsyncIterator[None]:
    """Keep a victim running."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(victim.run)
        yield
        tasks.cancel_scope.cancel()


async def until_noted(path: Path, times: int, victim: Victim, starts: int) -> None:
    """Wait until a victim was started and has noted itself this often."""
    with anyio.fail_after(WAIT_SECONDS_MAX):
        while noted(path) < times or victim.starts < starts:  # noqa: ASYNC110 (others do it)
            await anyio.sleep(0.01)


def noted(path: Path) -> int:
    """Return how often a process has noted itself."""
    return path.stat().st_size if path.exists() else 0


def a_victim(folder: Path, script: str, complaints: list[str]) -> Victim:
    """Return a victim that runs a script which notes itself in `folder/notes`."""
    words = [sys.executable, "-c", script, str(folder / "notes")]
    return Victim("compactor-0", words, folder, complain=complaints.append)


async def test_what_is_killed_comes_back(tmp_path: Path) -> None:
    """It is started again after its time, and nobody complains."""
    complaints: list[str] = []
    victim = a_victim(tmp_path, LIVES, complaints)
    assert not victim.kill(0.0), "nothing runs yet"
    async with running(victim):
        for times in (1, 2, 3):
            await until_noted(tmp_path / "notes", times, victim, times)
            assert victim.kill(0.01)
            assert not victim.kill(0.01), "it is dead"
            assert not victim.stall()
        await until_noted(tmp_path / "notes", 4, victim, 4)
    assert victim.starts == 4
    assert complaints == []


async def test_what_ends_by_itself_is_told(tmp_path: Path) -> None:
    """The complaint has its last words, and it stays dead."""
    complaints: list[str] = []
    victim = a_victim(tmp_path, "raise SystemExit('no more')", complaints)
    with anyio.fail_after(WAIT_SECONDS_MAX):
        await victim.run()
    assert complaints == ["compactor-0 ended by itself: no more"]
    assert victim.starts == 1


async def test_what_is_stopped_stands_still_until_it_wakes(tmp_path: Path) -> None:
    """It notes nothing while stopped, and goes on where it was: it is not started again."""
    notes, victim = tmp_path / "notes", a_victim(tmp_path, COUNTS, [])
    async with running(victim):
        await until_noted(notes, 1, victim, 1)
        assert victim.stall()
        assert not victim.stall(), "it is stopped already"
        with anyio.fail_after(WAIT_SECONDS_MAX):
            # The signal needs a moment: then the size stays what it is.
            size = -1
            while size != noted(notes):
                size = noted(notes)
                await anyio.sleep(0.2)
        victim.wake()
        await until_noted(notes, size + 1, victim, 1)
        assert victim.starts == 1


async def test_what_is_stopped_can_be_killed(tmp_path: Path) -> None:
    """A stopped process dies at once, and its successor is not stopped."""
    victim = a_victim(tmp_path, LIVES, [])
    async with running(victim):
        await until_noted(tmp_path / "notes", 1, victim, 1)
        assert victim.stall()
        assert victim.kill(0.0)
        victim.wake()
        await until_noted(tmp_path / "notes", 2, victim, 2)


async def test_a_call_of_a_writer_that_dies_has_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls are answered, also several at once; one that its process dies of is not."""
    complaints: list[str] = []
    told = anyio.Event()

    def complain(text: str) -> None:
        complaints.append(text)
        told.set()

    settings = Settings(home="us-east-1", regions={"us-east-1": {}})
    writer = Writer("us-east-1", settings, tmp_path, complain=complain)
    monkeypatch.setattr(writer, "_words", [sys.executable, "-c", ECHO])
    answers: dict[int, Answer | None] = {}

    async def call(number: int, counter: str) -> None:
        answers[number] = await writer.call(Call(number, "record", ((counter, 0),)))

    async with running(writer):
        with anyio.fail_after(WAIT_SECONDS_MAX):
            async with anyio.create_task_group() as calls:
                for number in range(5):
                    calls.start_soon(call, number, "a")
            await call(5, "deadly")
            await told.wait()
    assert answers == {**{n: Answer(n, "acknowledged") for n in range(5)}, 5: None}
    assert complaints[0].startswith("writer-us-east-1 ended by itself")
