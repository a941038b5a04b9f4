"""What every store must do with an item that several changes share."""

from dataclasses import replace

from support.combined import combined

from ledger.core.entry import entry_item, entry_of
from ledger.core.ids import part_id
from ledger.core.parts import expanded, text_room
from ledger.core.values import same_change
from ledger.reads.history import HistoryRange, history
from ledger.store.conditions import Absent
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Applied, BatchOutcome, Put, Rejected
from ledger.testing.clock import START

FULL = combined(START, *["1.5"] * ((text_room("counter") + 1) // len("1.5 ")))
"""As many changes as share an item of one write unit."""
SMALL = combined(START, "-0.25", 0, "0.000001", 10**30, suffix=8)


class PartsSuite:
    """Items written and read again; `store_inserts.py` has those that are sent as statements."""

    async def test_an_item_that_changes_share_is_read_as_it_was_written(self, store: Store) -> None:
        """Alone, in a transaction, in a batch: with each change, exactly."""
        items = [entry_item(replace(SMALL, id=combined(START, suffix=n).id)) for n in range(3)]
        assert await store.write(Put(items[0], Absent())) == Applied()
        assert await store.transact([Put(items[1], Absent())]) == Applied()
        assert await store.write_batch([Put(items[2])]) == BatchOutcome()
        for item in items:
            found = await store.get(Get((item["pk"]["S"], item["sk"]["S"])))
            assert found == item
            changes = [part.change for part in expanded(entry_of(found))]
            assert changes == [part.change for part in expanded(SMALL)]

    async def test_a_repeat_of_such_an_item_finds_its_changes(self, store: Store) -> None:
        """All of them, so that others of the same sum are told apart."""
        put = Put(entry_item(FULL), Absent())
        assert await store.write(put) == Applied()
        again = await store.write(put)
        assert isinstance(again, Rejected)
        found = again.found[0]
        assert found is not None
        assert same_change(entry_of(found), FULL)
        assert not same_change(entry_of(found), replace(FULL, parts=FULL.parts[::-1]))

    async def test_a_history_has_each_change_of_such_an_item(self, store: Store) -> None:
        """Over pages, and from the middle of an item."""
        for whole in (FULL, SMALL):
            await store.write(Put(entry_item(whole), Absent()))
        everything = [*expanded(FULL), *expanded(SMALL)]

        async def read(after: str | None = None) -> list[str]:
            asked = HistoryRange("counter", after=after)
            found = history(store, asked, consistent=True, page_size=1)
            return [entry.id async for entry in found]

        assert await read() == [entry.id for entry in everything]
        assert await read(part_id(FULL.id, 7)) == [entry.id for entry in everything[8:]]
