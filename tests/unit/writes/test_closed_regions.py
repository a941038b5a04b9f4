"""A region that is about to be added, or to leave, is observed and not written to."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio
import pytest
from support.contracts import REGIONS, make_terms
from support.ledgers import AWAY, HOME, LOCAL, SOUTH, seeded
from support.live import Live

from ledger.core.contract import stricter
from ledger.core.errors import ContractConflict
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.memory import MemoryStore
from ledger.testing.clock import ManualClock
from ledger.writes.entry_plan import Change
from ledger.writes.writer import Writer

OLD = make_terms()
PENDING = stricter(OLD, replace(OLD, regions=(HOME, AWAY)))
SETTINGS = Settings(regions=dict.fromkeys(REGIONS, LOCAL)).under(PENDING, home=HOME)
CHANGE = Change("c", 1)


def writer_in(region: str) -> tuple[Writer, MemoryStore]:
    """Return a writer of a region under a pending change of the regions."""
    store = MemoryStore(region)
    services = Services.of(clock=ManualClock(instant=True), randomness=seeded())
    return Writer(store, settings=SETTINGS, services=services), store


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


@pytest.mark.parametrize("combine", [(), ("c",)], ids=["each", "combined"])
async def test_calls_that_share_requests_hear_of_it(combine: tuple[str, ...]) -> None:
    """Each of them: the announcement may come while they wait, and what writes goes on."""
    store, clock = MemoryStore(SOUTH), ManualClock(instant=True)
    live = Live(Settings(regions=dict.fromkeys(REGIONS, LOCAL), combine=combine))
    refused: list[str] = []
    async with anyio.create_task_group() as tasks:
        writer = Writer(
            store, settings=live, services=Services.of(clock=clock, randomness=seeded())
        )
        writer.share(tasks, on_group=lambda *_: None)
        live.current = SETTINGS.under(replace(PENDING, combine=combine), home=HOME)

        async def call() -> None:
            with pytest.raises(ContractConflict, match=f"region {SOUTH} is not written to") as why:
                await writer.record(CHANGE)
            refused.append(str(why.value))

        async with anyio.create_task_group() as calls:
            for _ in range(30):
                calls.start_soon(call)
        assert len(refused) == 30
        live.current = SETTINGS.under(replace(OLD, combine=combine), home=HOME)
        assert (await writer.record(CHANGE)).counter == "c"
        writer.close()
