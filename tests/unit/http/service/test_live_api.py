"""`GET /v1/live` over a ledger in memory: how often a stream looks, and that it is heard."""

from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from support.serving import Served, served
from support.tokens import token_header

from ledger.http.service import answers
from ledger.http.service.access.access import FileAccess
from ledger.http.service.context import LOOKS_AT_ONCE, Context
from ledger.testing import MemoryGlobalTable

FOLLOWED_SECONDS = 60


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the moments of the looks of streams."""
    found: list[float] = []
    read = answers.readable_totals

    async def looked(*given: Any, clock: Any, **named: Any) -> Any:
        found.append(clock.monotonic())
        return await read(*given, clock=clock, **named)

    monkeypatch.setattr("ledger.http.service.api.live.readable_totals", looked)
    return found


async def followed(
    service: Served, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], every: float
) -> str:
    """Return what a stream says in a minute, in which no time goes by but in its pauses."""
    end = service.table.clock.monotonic() + FOLLOWED_SECONDS

    async def pause(context: Context, seconds: float) -> None:
        service.table.clock.pass_by(seconds)
        if service.table.clock.monotonic() >= end:
            context.leave()

    monkeypatch.setattr(Context, "pause", pause)
    answer = await service.http.get(f"/v1/live?id=shop%2Fa&every={every}", headers=headers)
    assert answer.status_code == 200
    return answer.text


@pytest.mark.parametrize(("rate", "most"), [(0.5, 31), (2.0, 121), (None, 601)])
async def test_each_look_of_a_stream_counts_against_the_callers_rate(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    looks: list[float],
    rate: float | None,
    most: int,
) -> None:
    """One that there is no room for comes later, and the stream goes on."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    headers = token_header(path, table, "read", rate=rate)
    async with served(table, access=FileAccess(path, table.clock)) as service:
        await followed(service, monkeypatch, headers, every=0.1)
        assert most - 2 <= len(looks) <= most


async def test_a_stream_looks_as_often_as_it_was_asked_to(
    monkeypatch: pytest.MonkeyPatch, looks: list[float]
) -> None:
    """Whatever it says in between."""
    async with served() as service:
        await followed(service, monkeypatch, {}, every=20)
    assert [moment - looks[0] for moment in looks] == [0, 20, 40]


@pytest.mark.parametrize(("rate", "every"), [(None, 60), (0.02, 1)])
async def test_a_stream_that_seldom_looks_is_still_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: float | None, every: float
) -> None:
    """A comment each 15 seconds, so that no proxy or client takes the connection for dead."""
    table, path = MemoryGlobalTable(["us-east-1"]), tmp_path / "tokens.json"
    headers = token_header(path, table, "read", rate=rate)
    async with served(table, access=FileAccess(path, table.clock)) as service:
        said = await followed(service, monkeypatch, headers, every=every)
    assert said.count(": nothing new\n\n") == 3


async def test_looks_of_streams_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """One read may be what all of them wait for."""
    told, turn, may_end = Counter[int](), 0, anyio.Event()

    async def readable(*_: Any, **__: Any) -> Any:
        told[turn] += 1
        return {}, {}

    async def pause(context: Context, _: float) -> None:
        await may_end.wait()
        context.leave()

    monkeypatch.setattr("ledger.http.service.api.live.readable_totals", readable)
    monkeypatch.setattr(Context, "pause", pause)
    async with served() as service, anyio.create_task_group() as tasks:
        for _ in range(5 * LOOKS_AT_ONCE):
            tasks.start_soon(service.http.get, "/v1/live?id=a")
        while told.total() < 5 * LOOKS_AT_ONCE:
            await anyio.lowlevel.checkpoint()
            turn += 1
        may_end.set()
    assert max(told.values()) <= LOOKS_AT_ONCE
