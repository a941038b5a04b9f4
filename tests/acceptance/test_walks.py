"""The four walks that the page of internals tells are those of real calls.

A walk names functions, as `Writer.add`, or `observe` with its module; classes with their module;
modules and rooms. Real calls come through all of them, in the order of the page.
"""

import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import pytest
from support.archiving import ArchivedWorld

from ledger import Granted, Settings, Table
from ledger.local import LocalGlobalTable
from ledger.testing import MemoryGlobalTable

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "ledger/docs/internals/README.md").read_text(encoding="utf-8")
STEP = re.compile(
    r"`(\w+(?:\.\w+)?)`\s\(`([\w/.]+)`\)|`([A-Z]\w*\.\w+)`|`((?:ledger|compactor)/[\w/.]+)`"
)
HOME, AWAY = "us-east-1", "eu-west-1"
LIMIT = 10

Call = tuple[str, str]
"""The module of a function, by its path, and the function with its class."""


def walk(title: str) -> list[Call]:
    """Return the steps of a walk; a module or a function that is not said is empty."""
    (text,) = re.findall(
        rf"^### {re.escape(title)}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL
    )
    found = STEP.findall(text)
    return [(module or place, name or method) for name, module, method, place in found]


@contextmanager
def traced() -> Iterator[list[Call]]:
    """Collect the calls of our own functions in this thread."""
    calls: list[Call] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename.removeprefix(f"{ROOT}/")
        if event == "call" and path.startswith(("ledger/", "compactor/")):
            calls.append((path, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def first_missing(steps: list[Call], calls: list[Call]) -> Call | None:
    """Return the first step that no call after the step before is; None if all were called."""
    left = iter(calls)
    return next((step for step in steps if not any(_is_step(call, step) for call in left)), None)


def _is_step(call: Call, step: Call) -> bool:
    (path, function), (module, name) = call, step
    return path.startswith(module) and f"{function}.".startswith(f"{name}." if name else "")


@asynccontextmanager
async def tables() -> AsyncIterator[tuple[LocalGlobalTable, Table, Table]]:
    """Open a table in two regions of a local global table, as a program does on AWS."""
    async with LocalGlobalTable.start(regions=[HOME, AWAY], lag=0.01) as local:
        settings: Settings = local.settings(budgets={"key/*": {}})
        async with (
            Table.open(settings, region=HOME) as home,
            Table.open(settings, region=AWAY) as away,
        ):
            yield local, home, away


@pytest.mark.slow
async def test_one_record() -> None:
    """A change with a key, and then a plain change."""
    async with tables() as (_, home, _):
        with traced() as calls:
            await home.ledger.record("stock/1", 1, key="a", at=datetime.now(UTC))
            await home.ledger.record("stock/1", 1)
    assert first_missing(walk("One `record`"), calls) is None


@pytest.mark.slow
async def test_one_total() -> None:
    """Of a counter with an entry."""
    async with tables() as (_, home, _):
        await home.ledger.record("stock/1", 1)
        with traced() as calls:
            await home.ledger.total("stock/1", max_age=0)
    assert first_missing(walk("One `total`"), calls) is None


@pytest.mark.slow
async def test_one_spend() -> None:
    """In a region with too few rights; and by a process that crashed, whose grant a pass closes."""
    async with tables() as (local, home, away):
        await home.budget("key/1").create(LIMIT, weights={HOME: 9, AWAY: 1})
        await local.wait_replicated()
        with traced() as calls:
            assert isinstance(await away.budget("key/1").spend(5), Granted)
    world = MemoryGlobalTable(budgets={"key/*": {}})
    async with world.table() as table:
        await table.budget("key/1").create(LIMIT)
        assert isinstance(await table.budget("key/1").spend(5), Granted)
        world.crash(table)
    with traced() as closing:
        await world.merge()
    assert first_missing(walk("One `spend`"), calls + closing) is None


async def test_one_fold() -> None:
    """The first fold of a counter, with an archive, by three passes of one process."""
    world = ArchivedWorld()
    async with world.ledger() as ledger:
        await ledger.record("stock/1", 1)
    with traced() as calls:
        await world.merge()
    assert first_missing(walk("One fold"), calls) is None


def test_a_wrong_order_is_found() -> None:
    """And a function that nobody calls."""
    calls = [("ledger/a.py", "A.b"), ("ledger/c.py", "c")]
    assert first_missing([("ledger/a.py", "A"), ("", "c")], calls) is None
    assert first_missing([("", "c"), ("", "A.b")], calls) == ("", "A.b")
    assert first_missing([("ledger/c", "a")], calls) == ("ledger/c", "a")
