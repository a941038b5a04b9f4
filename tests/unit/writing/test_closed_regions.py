"""A region that is about to be added, or to leave, is observed and not written to."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from support.clock import FakeClock
from support.contracts import REGIONS, make_terms
from support.ledgers import AWAY, HOME, LOCAL, SOUTH, seeded

from ledger.core.contract import stricter
from ledger.core.errors import ContractConflict
from ledger.settings import Settings
from ledger.store.memory import MemoryStore
from ledger.writing.plan import Change
from ledger.writing.writer import Writer

OLD = make_terms()
PENDING = stricter(OLD, replace(OLD, regions=(HOME, AWAY)))
SETTINGS = Settings(regions=dict.fromkeys(REGIONS, LOCAL)).under(PENDING, home=HOME)
CHANGE = Change("c", 1)


def writer_in(region: str) -> tuple[Writer, MemoryStore]:
    """Return a writer of a region under a pending change of the regions."""
    store = MemoryStore(region)
    clock = FakeClock(instant=True)
    return Writer(store, settings=SETTINGS, clock=clock, randomness=seeded()), store


@pytest.mark.parametrize(
    "write",
    [
        lambda writer: writer.record(CHANGE),
        lambda writer: writer.record_many([CHANGE, CHANGE]),
        lambda writer: writer.record_together([CHANGE, Change("d", 1)]),
    ],
    ids=["one", "many", "together"],
)
async def test_nothing_is_written_in_it(write: Callable[[Writer], Awaitable[object]]) -> None:
    """The message says why; the other regions write on."""
    writer, store = writer_in(SOUTH)
    with pytest.raises(ContractConflict, match=f"region {SOUTH} is not written to"):
        await write(writer)
    assert list(store.table.items()) == []
    writer, store = writer_in(AWAY)
    await write(writer)
    assert list(store.table.items())


async def test_nothing_is_repeated_in_it() -> None:
    """An entry of before the announcement is no exception: the wait counts on that."""
    entry = await writer_in(AWAY)[0].record(CHANGE)
    with pytest.raises(ContractConflict, match="not written to"):
        await writer_in(SOUTH)[0].retry([entry], together=False)
