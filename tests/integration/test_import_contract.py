"""Imports go by the table's contract: through its home, with the markers of every region."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from support.contracts import announce

from ledger import ImportRefused, RegionUnreadable, Table
from ledger.local import LocalGlobalTable
from ledger.local.front.faults import Fault
from ledger.session.ledger import live_settings
from ledger.settings import Settings
from ledger.writes.imports import Form, StopSign
from ledger.writes.imports.source import open_source
from ledger.writes.imports.survey import survey

pytestmark = pytest.mark.slow

HOME, AWAY = "us-east-1", "eu-west-1"
ROWS = 300


@pytest.fixture
async def world() -> AsyncIterator[LocalGlobalTable]:
    """A table of two regions."""
    async with LocalGlobalTable.start(regions=[HOME, AWAY], lag=0.01, jitter=0.01) as world:
        yield world


@pytest.fixture
def changes(tmp_path: Path) -> Path:
    """A file of 300 changes of one counter, four batches."""
    file = tmp_path / "changes.csv"
    file.write_text("counter,change\n" + "total,1\n" * ROWS, encoding="utf-8")
    return file


@asynccontextmanager
async def opened(settings: Settings, region: str) -> AsyncIterator[Table]:
    """Open a table by settings that say nothing of what the contract holds."""
    reach = Settings(table=settings.table, regions=settings.regions)
    async with Table.open(reach, region=region) as table:
        yield table


async def begin(table: Table, changes: Path) -> None:
    """Begin an import in every region, and stop before its first batch."""
    stop = StopSign()
    with open_source(str(changes)) as source:
        surveyed = await survey(source, Form(), live_settings(table.ledger).current, stop=stop)
        assert surveyed is not None
        stop.ask()
        report = await table.importer(stop=stop).run(source, surveyed)
    assert report.batches == 0


async def test_through_two_homes_while_nothing_replicates(
    world: LocalGlobalTable, changes: Path
) -> None:
    """Begun through one home, finished through another that has none of it yet: each row once."""
    settings, stop = world.settings(), StopSign()
    async with opened(settings, HOME) as table:
        await begin(table, changes)
        await world.wait_replicated()
        world.pause(HOME, AWAY)
        begun = await table.importer(stop=stop, on_batch=lambda _: stop.ask()).run_file(changes)
    moved = world.settings(home=AWAY)
    async with opened(moved, AWAY) as table:
        ended = await table.importer().run_file(changes)
        assert begun is not None
        assert ended is not None
        assert begun.rows > 0
        assert (ended.rows, ended.rows_there) == (ROWS - begun.rows, begun.rows)
        world.heal_all()
        await world.wait_replicated()
        assert (await table.ledger.total("total", max_age=0)).value == Decimal(ROWS)


async def test_through_the_old_home_after_a_move(world: LocalGlobalTable, changes: Path) -> None:
    """Settings that still name the old home do not decide: the contract does."""
    settings = world.settings(home=AWAY)
    async with opened(settings, HOME) as table:
        with pytest.raises(ImportRefused, match=f"home region {AWAY}, not {HOME}"):
            await table.importer().run_file(changes)


async def test_without_a_region_nothing_is_imported(world: LocalGlobalTable, changes: Path) -> None:
    """A region that cannot be read might show markers: the import waits for it."""
    async with opened(world.settings(request_timeout=0.5), HOME) as table:
        importer = table.importer()
        world.faults(Fault.ERROR_500, regions=[AWAY])
        with pytest.raises(RegionUnreadable, match=AWAY):
            await importer.run_file(changes)
        assert (await table.ledger.total("total", max_age=0)).entries == 0
        world.faults(None)
        assert await importer.run_file(changes)


async def test_while_the_home_moves_nothing_is_imported(world: LocalGlobalTable) -> None:
    """A move of the home that is pending refuses imports, whichever home is asked."""
    settings = world.settings()
    await announce(settings, replace(settings.terms, home=AWAY))
    for region in (HOME, AWAY):
        async with opened(settings, region) as table:
            with pytest.raises(ImportRefused, match="home region is being moved"):
                table.importer()
