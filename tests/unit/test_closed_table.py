"""What was made of a table, once that is closed, and once it is opened anew."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from support.ledgers import HOME, make_settings, seeded
from support.pipelines import FIELDS
from support.public_calls import Made, all_made_of, calls, class_of
from support.silent import SilentStore
from support.tiers import first_of_each

from ledger import InvalidInput, LedgerError, StoreError, Table, sync
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.store.memory import MemoryStore
from ledger.store.writes import Unknown
from ledger.testing.clock import ManualClock

CALLS = calls()


def make(store: SilentStore | None = None) -> Table:
    """Return a table, to be opened, closed, and opened again over the same store."""
    settings = make_settings(
        index=("*",),
        periods={"*": {"zone": "UTC"}},
        budgets={"key/*": {"credits": True}},
        pipeline={"fields": FIELDS, "categories": ["desk/{Desk}"]},
    )
    return Table(
        settings,
        region=HOME,
        given=GivenConnections(store=store or MemoryStore(HOME)),
        services=Services.of(clock=ManualClock(instant=True), randomness=seeded()),
    )


async def made_and_closed(table: Table, folder: Path) -> Made:
    """Return all that a table makes, and close the table."""
    async with table, all_made_of(table, folder) as made:
        return made


@pytest.mark.parametrize("name", first_of_each(CALLS, kind=class_of))
async def test_what_was_made_of_a_closed_table_says_so(name: str, tmp_path: Path) -> None:
    """Every call of every kind is told as the ledger's own are: not as an outage."""
    made = await made_and_closed(make(), tmp_path)
    with pytest.raises(LedgerError) as caught:
        await CALLS[name](made)
    if not isinstance(caught.value, InvalidInput):  # a method that has no such call
        assert type(caught.value) is LedgerError
        assert "not open: use it inside `async with`" in str(caught.value)


LOST = {"LightHold.settle"}
"""Of what closing gives back: it was kept aside in memory."""


@pytest.mark.parametrize("name", first_of_each(sorted(CALLS.keys() - LOST), kind=class_of))
async def test_it_goes_on_once_the_table_is_opened_anew(name: str, tmp_path: Path) -> None:
    """Each call then does what it does for what is made of the new opening."""
    table, other = make(), make()
    made = await made_and_closed(table, tmp_path)

    async def told(made: Made) -> str:
        try:
            return type(await CALLS[name](made)).__name__
        except LedgerError as error:
            return f"{type(error).__name__}: {error}"

    async with table:
        again = await told(made)
    async with other, all_made_of(other, tmp_path) as first:
        assert again == await told(first)


async def test_a_call_under_way_ends_as_in_an_outage() -> None:
    """A change without an answer stays unknown, although its table is closed before the repeat."""
    store = SilentStore()
    table = make(store)
    await table.__aenter__()
    counter = table.counter("c", method="marker")
    await counter.add(1)
    found: list[object] = []

    async def add() -> None:
        found.append(await counter.add(1, timeout=0.2))

    async with anyio.create_task_group() as tasks:
        store.is_silent, store.answers_reads = True, True
        tasks.start_soon(add)
        await anyio.sleep(0.05)
        await table.close()
        store.is_silent = False
    assert isinstance(found[0], Unknown)


async def test_heartbeats_beside_a_closed_table_are_an_outage() -> None:
    """They fail as without a connection: the body goes on until the lease is lost."""
    table = make()
    async with table:
        lease = table.lease("job")
        held = lease.held(0)
        await held.__aenter__()
    with pytest.raises(LedgerError, match="not open"):
        await lease.look()
    with pytest.raises(StoreError, match="not open"):
        await lease._item.read()
    await held.__aexit__(None, None, None)


def test_without_async_it_is_made_anew() -> None:
    """What was made of an opening belongs to that one, whose event loop has ended."""
    table: Any = sync.Table(make())
    with table:
        made = [
            table.counter("c", method="atomic").value,
            table.counter("c").value,
            table.sequence("n").next,
            table.sequence("s", method="sort-key").highest,
            table.lease("job").look,
            table.versions().dead_letters.release,
            table.importer().run_file,
        ]
    with table:
        for call in made:
            with pytest.raises(LedgerError, match="its table or ledger was closed"):
                call(*(["x"] if call.__name__ in {"release", "run_file"} else []))
