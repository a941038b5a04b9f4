"""What every store must do with puts that are sent as statements."""

import pytest
from conformance.store_items import KEY, ONE, TWO, fill, item, query_keys

from ledger.core.errors import RequestRefused
from ledger.store.conditions import Absent
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Action, Applied, Check, Put, Rejected


def inserted(name: str) -> Put:
    """Return a put of a new item as a statement."""
    return Put(item(("counter", name), change=ONE), Absent(), as_statement=True)


class InsertsSuite:
    """Puts as statements: alone, several to a request, and in a transaction."""

    async def test_an_insert_writes_once(self, store: Store) -> None:
        """It writes where nothing is, and replaces nothing: what is in its way is not told."""
        first = item(
            change=ONE,
            note={"S": "it's"},
            effective={"S": "2026-11-24"},
            count=TWO,
            parts={"S": "-0.5 1.5"},
        )
        assert await store.write(Put(first, Absent(), as_statement=True)) == Applied()
        again = await store.write(Put(item(change=TWO), Absent(), as_statement=True))
        assert again == Rejected(found={0: None})
        assert await store.get(Get(KEY)) == first

    async def test_each_insert_has_an_outcome_of_its_own(self, store: Store) -> None:
        """Among several, one that finds an item is rejected, and the others are applied."""
        await fill(store, [item(("counter", "b"), change=TWO)])
        answer = await store.write_each([inserted(name) for name in "abc"])
        assert [type(outcome) for outcome in answer.outcomes] == [Applied, Rejected, Applied]
        assert await store.get(Get(("counter", "b"))) == item(("counter", "b"), change=TWO)
        assert await query_keys(store) == ["a", "b", "c"]

    async def test_inserts_of_a_transaction_are_all_or_none(self, store: Store) -> None:
        """One that finds an item keeps the others from being written, and says which it was."""
        assert await store.transact([inserted("a"), inserted("b")]) == Applied()
        outcome = await store.transact([inserted("c"), inserted("b")])
        assert outcome == Rejected(found={1: None})
        assert await query_keys(store) == ["a", "b"]

    @pytest.mark.parametrize("place", [0, 1])
    async def test_no_insert_is_sent_with_another_action(self, store: Store, place: int) -> None:
        """A transaction of statements has nothing that a statement cannot say."""
        actions: list[Action] = [inserted("a"), Check(("counter", "b"), Absent())]
        with pytest.raises(RequestRefused):
            await store.transact([actions[place], actions[1 - place]])
        assert await query_keys(store) == []

    async def test_an_insert_has_no_condition_of_its_own(self, store: Store) -> None:
        """A put that would replace an item is refused rather than sent as a put."""
        with pytest.raises(RequestRefused):
            await store.write(Put(item(change=ONE), as_statement=True))
        assert await store.get(Get(KEY)) is None
