"""A net change of a generation that the table's contract does not have is refused, not counted."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from support.archiving import ArchivedWorld
from support.ledgers import HOME, WEST, make_ledger, make_settings, net
from support.live import Live

from ledger.core.contract import Terms
from ledger.core.contract_item import Contract
from ledger.core.entry import Item
from ledger.core.errors import DamagedItem
from ledger.reads.collection import read_known_net, read_net
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.store.memory import MemoryStore

FORGED = ("counter", "~net#9999")
REFUSED = (
    r"item '~net#9999' of counter 'counter' in [a-z0-9-]+ is damaged: a net change of generation"
    r" 9999, and the table's contract is of 1"
)
SETTINGS = make_settings()


def forged(change: int = 1_000_000, generation: int = 9999) -> Item:
    """Return a net change, whole and with its digest, that no home of the table wrote."""
    return net("counter", change, [], version="forged", generation=generation, count=7)


READS: dict[str, Callable[[Ledger], Awaitable[object]]] = {
    "total": lambda ledger: ledger.total("counter", max_age=0),
    "steady": lambda ledger: ledger.total("counter", steady=True),
    "several": lambda ledger: ledger.totals(["counter", "other"], max_age=0),
    "reconcile": lambda ledger: ledger.reconcile("counter", counted=3),
}


@pytest.mark.parametrize("way", READS)
@pytest.mark.parametrize("overrides", [{}, {"consistent_reads": False}, {"shards": {"*": 3}}])
async def test_a_forged_net_changes_no_total(way: str, overrides: dict[str, Any]) -> None:
    """11 never becomes 1,000,011: whatever asks for the total gets an error that names the item."""
    store = MemoryStore(HOME)
    async with make_ledger(store, **overrides) as ledger:
        await ledger.record("counter", 11)
        await READS[way](ledger)
        store.table.set(FORGED, forged())
        with pytest.raises(DamagedItem, match=REFUSED):
            await READS[way](ledger)
        store.table.set(FORGED, None)
        assert (await ledger.total("counter", max_age=0)).value in {11, 3}


async def test_a_long_collection_and_a_continued_one_refuse_it_too() -> None:
    """Where sums are kept in place of sort keys, and between reads, the net is checked as well."""
    store = MemoryStore(HOME, page_items_max=2)
    one_region = Settings(regions={HOME: {}}, read_keys_max=3, cache={"incremental": True})
    async with Ledger(one_region, region=HOME, given=GivenConnections(store=store)) as ledger:
        await ledger.record_many([("counter", 1)] * 11)
        assert (await ledger.total("counter", max_age=0)).value == 11
        store.table.set(FORGED, forged())
        with pytest.raises(DamagedItem, match=REFUSED):
            await ledger.total("counter", max_age=0)
        store.table.set(FORGED, None)
        assert (await ledger.total("counter", max_age=0)).value == 11


async def test_what_rests_on_an_archive_refuses_it() -> None:
    """History, late calls and reversals of what is merged go by no archive that it would name."""
    archived = ArchivedWorld()
    at = archived.world.clock.now()
    async with archived.ledger(HOME) as ledger:
        entry = await ledger.record("counter", 3, key="k", at=at)
        await archived.merge()
        archived.world.regions.replicas[HOME].table.set(FORGED, forged())
        with pytest.raises(DamagedItem, match=REFUSED):
            _ = [each async for each in ledger.history("counter")]
        with pytest.raises(DamagedItem, match=REFUSED):
            await ledger.record("counter", 3, key="k", at=at)
        with pytest.raises(DamagedItem, match=REFUSED):
            await ledger.reverse(entry)
        archived.world.regions.replicas[HOME].table.set(FORGED, None)
        assert [each.id async for each in ledger.history("counter")] == [entry.id]


def lost(*regions: str) -> Terms:
    """Return the terms of a table that lost regions."""
    return replace(SETTINGS.terms, lost=regions)


@pytest.mark.parametrize(
    ("contract", "highest"),
    [
        (Contract(terms=lost()), 1),
        (Contract(terms=lost(WEST)), 2),
        (Contract(terms=lost(), coming=lost(WEST)), 2),
        (Contract(terms=lost(WEST), coming=lost(WEST, HOME)), 3),
        (Contract(terms=lost(), coming=lost(WEST), generation=2), 2),
        (Contract(terms=lost(), generation=4), 4),
    ],
)
def test_the_highest_generation_is_that_in_force_or_announced(
    contract: Contract, highest: int
) -> None:
    """As soon as a loss is in force its nets are made, while views of the announcement are used."""
    assert contract.obeyed.generation_max == highest


async def test_outside_of_a_validity_the_contract_is_read_before_a_net_is_refused() -> None:
    """What began under an older contract takes a net of the next once it knows of the loss."""
    store = MemoryStore(HOME)
    store.table.set(("counter", "~net#0002"), forged(5, generation=2))
    after = SETTINGS.under(replace(SETTINGS.terms, generation=2), home=HOME)
    live = Live(SETTINGS, after)
    found = await read_known_net(store, "counter", live)
    assert (found, live.renewals) == (await read_net(store, "counter"), 1)
    assert await read_known_net(store, "counter", live) == found
    assert live.renewals == 1
    with pytest.raises(DamagedItem):
        await read_known_net(store, "counter", Live(SETTINGS))
