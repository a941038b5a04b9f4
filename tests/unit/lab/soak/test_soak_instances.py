"""Instances of a soak: when they listen, and which ends are their own."""

import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from lab.harness.processes import ProcessEnded
from lab.soak import instances
from lab.soak.instances import Instance

WAIT_SECONDS_MAX = 30.0
LISTENS = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit({status}))
print("us-east-1 is served at http://127.0.0.1:{port}", file=sys.stderr, flush=True)
time.sleep(60)
"""


def an_instance(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Instance:
    """Return an instance whose process runs a script."""
    file = folder / "x"
    one = Instance("a-0", "us-east-1", config=file, tokens=file, drain_seconds=1.0)
    monkeypatch.setattr(one, "_words", [sys.executable, "-c", script])
    return one


async def until(is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    with anyio.fail_after(WAIT_SECONDS_MAX):
        while not is_so():  # noqa: ASYNC110 (the process does it)
            await anyio.sleep(0.01)


async def test_an_instance_that_is_asked_to_end_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time it listens is a life of its own, which knows how it ended."""
    one = an_instance(tmp_path, LISTENS.format(port=4711, status=0), monkeypatch)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.run)
        await until(lambda: one.life)
        first = one.life
        assert one.restart(0.0)
        await until(lambda: one.life is not None and one.life is not first)
        second = one.life
        assert one.kill(0.0)
        tasks.cancel_scope.cancel()
    assert [(life.is_asked_to_end, life.is_killed) for life in (first, second) if life] == [
        (True, False),
        (False, True),
    ]


async def test_an_instance_that_listens_at_once_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said so before anyone looked, behind what the process before it wrote."""
    (tmp_path / "a-0.log").write_text(
        "us-east-1 is served at http://127.0.0.1:1\n", encoding="utf-8"
    )
    one = an_instance(tmp_path, LISTENS.format(port=4711, status=0), monkeypatch)
    async with one.started():
        await until(lambda: "4711" in (tmp_path / "a-0.log").read_text(encoding="utf-8"))
        with anyio.fail_after(WAIT_SECONDS_MAX):
            await one.attend()
        assert one.life is not None
        assert one.life.port == 4711


async def test_an_instance_that_ends_badly_when_asked_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drain ends with status 0."""
    one = an_instance(tmp_path, LISTENS.format(port=1, status=3), monkeypatch)
    async with one.started():
        await one.attend()
        one.restart(0.0)
        with pytest.raises(ProcessEnded, match="a-0 was asked to end, and did with status 3"):
            await one.check_killed()


async def test_an_instance_that_cannot_start_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table may not be reached: whatever starts a service tries again."""
    monkeypatch.setattr(instances, "RESTART_SECONDS", 0.0)
    one = an_instance(tmp_path, "raise SystemExit('no table')", monkeypatch)
    async with one.started():
        await one.attend()
        assert one.life is None
        await one.check_killed()
    assert one.failed_starts == 1


async def test_an_instance_that_ends_by_itself_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it has listened only the run may end it."""
    script = LISTENS.format(port=1, status=0).replace("time.sleep(60)", "time.sleep(0.2)")
    one = an_instance(tmp_path, script, monkeypatch)
    async with one.started():
        await one.attend()
        with pytest.raises(ProcessEnded, match="a-0 ended by itself"):
            await one.check_killed()
