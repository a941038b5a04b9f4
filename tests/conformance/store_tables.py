"""What every store must do with items of another table of its region."""

import pytest
from conformance.store_items import KEY, ONE, TWO, item, query_keys

from ledger.core.errors import RequestRefused
from ledger.store.conditions import Absent, Equals
from ledger.store.port import Store
from ledger.store.reads import Get, Scan
from ledger.store.writes import Action, Applied, Check, Delete, InTable, Put, Rejected, Update


class TablesSuite:
    """Transactions over two tables, and reads of single items of the other."""

    @pytest.fixture
    def other(self) -> str:
        """Return the name of an empty table beside the store's own."""
        return "other"

    async def test_a_transaction_spans_two_tables(self, store: Store, other: str) -> None:
        """One key in two tables is two items: both are written, each is read from its own."""
        actions: list[Action] = [
            Put(item(change=ONE)),
            InTable(other, Put(item(change=TWO), Absent())),
        ]
        assert await store.transact(actions) == Applied()
        assert await store.get(Get(KEY)) == item(change=ONE)
        assert await store.get(Get(KEY, table=other)) == item(change=TWO)

    async def test_another_table_is_no_part_of_the_stores_own(
        self, store: Store, other: str
    ) -> None:
        """What is written there is not seen here."""
        assert await store.transact([InTable(other, Put(item()))]) == Applied()
        assert await store.get(Get(KEY)) is None
        assert await query_keys(store) == []

    async def test_a_write_alone_goes_to_another_table(self, store: Store, other: str) -> None:
        """Its condition is judged by the item there, and what is in its way is handed back."""
        assert await store.write(InTable(other, Put(item(change=ONE), Absent()))) == Applied()
        assert await store.write(Put(item(change=TWO), Absent())) == Applied()
        refused = await store.write(InTable(other, Put(item(change=TWO), Absent())))
        assert refused == Rejected(found={0: item(change=ONE)})
        assert isinstance(
            await store.write(InTable(other, Update(KEY, add={"change": ONE}))), Applied
        )
        assert await store.get(Get(KEY, table=other)) == item(change=TWO)
        assert await store.write(InTable(other, Delete(KEY))) == Applied()
        assert await store.get(Get(KEY, table=other)) is None
        assert await store.get(Get(KEY)) == item(change=TWO)

    async def test_writes_of_one_request_go_to_two_tables(self, store: Store, other: str) -> None:
        """One key in two tables is two items, each written on its own."""
        there = InTable(other, Put(item(change=ONE), Absent()))
        answer = await store.write_each([Put(item(change=TWO), Absent()), there])
        assert answer.outcomes == (Applied(), Applied())
        update = Update(KEY, set={"change": TWO}, condition=Equals("change", ONE))
        answer = await store.write_each([update, InTable(other, update)])
        assert isinstance(answer.outcomes[0], Rejected)
        assert answer.outcomes[1] == Applied()
        assert await store.get(Get(KEY, table=other)) == item(change=TWO)

    async def test_another_table_is_scanned_alone(self, store: Store, other: str) -> None:
        """Neither sees what is in the other one."""
        await store.write(Put(item(change=ONE)))
        await store.write(InTable(other, Put(item(change=TWO))))
        assert [*(await store.scan(Scan())).items] == [item(change=ONE)]
        assert [*(await store.scan(Scan(table=other, consistent=True))).items] == [item(change=TWO)]

    async def test_reads_of_one_request_span_two_tables(self, store: Store, other: str) -> None:
        """Each read finds the item of its own table."""
        await store.transact([Put(item(change=ONE)), InTable(other, Put(item(change=TWO)))])
        found = await store.get_each([Get(KEY, table=other), Get(KEY)])
        assert found.items == [item(change=TWO), item(change=ONE)]

    async def test_a_condition_in_another_table_stops_all(self, store: Store, other: str) -> None:
        """It is false: nothing is written in either, and its item is found at its place."""
        there = item(change=ONE)
        await store.transact([InTable(other, Put(there))])
        outcome = await store.transact([Put(item()), InTable(other, Put(item(), Absent()))])
        assert outcome == Rejected(found={1: there})
        assert await store.get(Get(KEY)) is None
        assert await store.get(Get(KEY, table=other)) == there

    async def test_a_condition_here_stops_all_in_another_table(
        self, store: Store, other: str
    ) -> None:
        """The store's own condition is false: the other table stays as it was."""
        outcome = await store.transact(
            [
                InTable(other, Put(item())),
                Update(KEY, condition=Equals("change", ONE), set={"a": ONE}),
            ]
        )
        assert outcome == Rejected(found={1: None})
        assert await store.get(Get(KEY, table=other)) is None

    async def test_every_action_can_be_in_another_table(self, store: Store, other: str) -> None:
        """Checks, updates and deletes there, beside others here."""
        keys = [("counter", name) for name in "abc"]
        await store.transact([InTable(other, Put(item(key, change=ONE))) for key in keys])
        actions: list[Action] = [
            InTable(other, Check(keys[0], Equals("change", ONE))),
            InTable(other, Update(keys[1], add={"change": ONE})),
            InTable(other, Delete(keys[2])),
            Put(item()),
        ]
        assert await store.transact(actions) == Applied()
        left = [await store.get(Get(key, table=other)) for key in keys]
        assert left == [item(keys[0], change=ONE), item(keys[1], change=TWO), None]

    async def test_an_item_of_another_table_is_named_once(self, store: Store, other: str) -> None:
        """Two actions on one item are refused there as they are here."""
        twice = [InTable(other, Put(item())), InTable(other, Delete(KEY))]
        with pytest.raises(RequestRefused):
            await store.transact(twice)
        assert await store.get(Get(KEY, table=other)) is None
