"""What every store must do with several writes in one request."""

import uuid
from decimal import Decimal

import anyio
import pytest
from conformance.store_items import KEY, ONE, TWO, fill, item, query_keys, query_pages

from ledger.core.entry import Item, key_of
from ledger.core.errors import RequestRefused
from ledger.store.conditions import (
    Absent,
    AllOf,
    AnyOf,
    Compares,
    Condition,
    Contains,
    Equals,
    Has,
    Not,
)
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import (
    BATCH_WRITES_MAX,
    EACH_WRITES_MAX,
    TRANSACTION_ACTIONS_MAX,
    Applied,
    BatchOutcome,
    BatchWrite,
    Check,
    Delete,
    Outcome,
    Put,
    Rejected,
    Update,
)

SAME = Equals("version", ONE)
CONDITIONS: list[tuple[Condition, bool]] = [
    (SAME, True),
    (Equals("version", {"S": "1"}), False),
    (Equals("missing", ONE), False),
    (AllOf((SAME, Not(Has("rev")))), True),
    (AllOf((SAME, Not(Has("note")))), False),
    (AllOf((SAME, Has("note"))), True),
    (AllOf((SAME, Has("rev"))), False),
    (AnyOf((Equals("version", TWO), Has("note"))), True),
    (AnyOf((Equals("version", TWO), Has("rev"))), False),
    (AllOf((Has("note"), AnyOf((Equals("version", TWO), SAME)))), True),
    (Compares("version", "<", TWO), True),
    (AnyOf((Compares("version", "<", ONE), AllOf((SAME, Compares("version", "<=", ONE))))), True),
    (AnyOf((Compares("version", "<", ONE), AllOf((SAME, Compares("version", "<", ONE))))), False),
    (Compares("version", ">=", TWO), False),
    (Contains("tags", {"S": "a"}), True),
    (Not(SAME), False),
]
"""Of an item with version 1, a note and tags, and no rev."""


def new_token() -> str:
    """Return a token that no other test uses: tokens are known across tables."""
    return str(uuid.uuid4())


class GroupsSuite:
    """Batches and transactions."""

    async def test_a_batch_puts_and_deletes(self, store: Store) -> None:
        """A batch of 25 puts and deletes is applied, whatever was there."""
        old = [item(("counter", f"old {number}")) for number in range(5)]
        await fill(store, old)
        new = [item(("counter", f"new {number}"), change=ONE) for number in range(18)]
        replaced = item(("counter", "old 0"), change=TWO)
        puts: list[BatchWrite] = [Put(one) for one in [*new, replaced]]
        gone = [*(key_of(one) for one in old[1:]), ("counter", "never"), ("other", "x")]
        assert await store.write_batch([*puts, *map(Delete, gone)]) == BatchOutcome()
        shown = [found async for page in query_pages(store) for found in page]
        assert shown == sorted([*new, replaced], key=lambda one: key_of(one)[1])

    @pytest.mark.parametrize("number", [0, BATCH_WRITES_MAX + 1])
    async def test_a_batch_has_1_to_25_writes(self, store: Store, number: int) -> None:
        """A batch of none or of 26 is refused before anything is written."""
        writes = [Put(item(("counter", str(place)))) for place in range(number)]
        with pytest.raises(RequestRefused):
            await store.write_batch(writes)
        assert await query_keys(store) == []

    async def test_each_write_has_an_outcome_of_its_own(self, store: Store) -> None:
        """Of several writes those whose condition is true are applied, and the others are not."""
        old = item(("counter", "old"), version=ONE, note={"S": "to be removed"})
        await fill(store, [old, item(("counter", "gone"))])
        taken, new = item(("counter", "old 2"), change=ONE), item(("counter", "new"), change=TWO)
        await fill(store, [taken])
        answer = await store.write_each(
            [
                Put(new, Absent()),
                Put(item(("counter", "old 2"), change=TWO), Absent()),
                Update(key_of(old), set={"version": TWO}, remove=("note",), condition=SAME),
                Update(("counter", "never"), set={"version": TWO}, condition=SAME),
                Delete(("counter", "gone")),
                Delete(("counter", "not there")),
            ]
        )
        kinds = [type(outcome) for outcome in answer.outcomes]
        assert kinds == [Applied, Rejected, Applied, Rejected, Applied, Applied]
        shown = [found async for page in query_pages(store) for found in page]
        assert shown == [new, item(("counter", "old"), version=TWO), taken]

    async def test_each_keeps_conditions(self, store: Store) -> None:
        """An update among several is applied where its condition is true, and nowhere else."""
        old: Item = {"version": ONE, "note": {"S": "x"}, "tags": {"SS": ["a"]}}
        places = [("counter", f"{place:02d}") for place in range(len(CONDITIONS))]
        await fill(store, [item(place, **old) for place in places])
        answer = await store.write_each(
            [
                Update(place, set={"change": ONE}, condition=condition)
                for place, (condition, _) in zip(places, CONDITIONS, strict=True)
            ]
        )
        outcomes = zip(CONDITIONS, answer.outcomes, strict=True)
        wrong = [
            (condition, outcome)
            for (condition, holds), outcome in outcomes
            if not isinstance(outcome, Applied if holds else Rejected)
        ]
        assert wrong == []
        changed = [found async for page in query_pages(store) for found in page]
        assert ["change" in one for one in changed] == [holds for _, holds in CONDITIONS]

    async def test_each_stores_what_it_was_given(self, store: Store) -> None:
        """Every kind of value, and a name that is a word of the language, comes back as it was."""
        values: Item = {
            "value": {"N": "-12345678901234567890123456789012345.678"},
            "open": {"M": {"lane": {"M": {"it's at": {"N": "1"}}}}},
            "select": {"S": "it's"},
            "categories": {"SS": ["a", "b"]},
        }
        new = [item(("counter", name), **values) for name in ("a", "b")]
        answer = await store.write_each([Put(one, Absent()) for one in new])
        assert answer.outcomes == (Applied(), Applied())
        assert [found async for page in query_pages(store) for found in page] == new
        quoted = [Update(key_of(one), set={"it's": ONE}, condition=Has("select")) for one in new]
        assert (await store.write_each(quoted)).outcomes == (Applied(), Applied())

    @pytest.mark.parametrize("number", [0, EACH_WRITES_MAX + 1])
    async def test_each_has_1_to_25_writes(self, store: Store, number: int) -> None:
        """None or 26 are refused before anything is written."""
        with pytest.raises(RequestRefused):
            await store.write_each([Put(item(("counter", str(one)))) for one in range(number)])
        assert await query_keys(store) == []

    async def test_a_write_that_is_refused_leaves_the_others(self, store: Store) -> None:
        """An item over 400 KB is an error in its place; the other writes are done."""
        large = item(("counter", "large"), note={"S": "x" * (400 * 1024)})
        small = [item(("counter", name)) for name in ("a", "b")]
        answer = await store.write_each([Put(one, Absent()) for one in (large, *small)])
        assert isinstance(answer.outcomes[0], RequestRefused)
        assert answer.outcomes[1:] == (Applied(), Applied())

    async def test_a_batch_names_an_item_once(self, store: Store) -> None:
        """Two writes of one item in a batch are refused, nothing is written."""
        with pytest.raises(RequestRefused):
            await store.write_batch([Put(item()), Delete(KEY)])
        assert await store.get(Get(KEY)) is None

    async def test_a_transaction_does_all(self, store: Store) -> None:
        """A transaction whose conditions hold puts, deletes, updates and checks."""
        keys = [("counter", name) for name in ("put", "delete", "update", "check")]
        await fill(store, [item(key, version=ONE) for key in keys[1:]])
        outcome = await store.transact(
            [
                Put(item(keys[0], change=ONE), Absent()),
                Delete(keys[1], Equals("version", ONE)),
                Update(keys[2], add={"version": ONE}, set={"note": {"S": "x"}}),
                Check(keys[3], Equals("version", ONE)),
            ]
        )
        assert outcome == Applied()
        assert await store.get(Get(keys[0])) == item(keys[0], change=ONE)
        assert await store.get(Get(keys[1])) is None
        assert await store.get(Get(keys[2])) == item(keys[2], version=TWO, note={"S": "x"})
        assert await store.get(Get(keys[3])) == item(keys[3], version=ONE)

    async def test_a_transaction_does_none(self, store: Store) -> None:
        """With two of five conditions false nothing is written; both are told by position."""
        keys = [("counter", name) for name in ("a", "b", "c", "d", "e")]
        before = [item(key, version=ONE) for key in keys[1:]]
        await fill(store, before)
        outcome = await store.transact(
            [
                Put(item(keys[0], change=ONE), Equals("version", ONE)),
                Put(item(keys[1], change=ONE), Equals("version", ONE)),
                Delete(keys[2]),
                Check(keys[3], Equals("version", TWO)),
                Update(keys[4], add={"version": ONE}),
            ]
        )
        assert outcome == Rejected(found={0: None, 3: before[2]})
        shown = [found async for page in query_pages(store) for found in page]
        assert shown == before

    async def test_a_check_of_absence(self, store: Store) -> None:
        """A transaction can rest on an item not being there."""
        other = ("other", "marker")
        check = Check(other, Absent())
        assert await store.transact([Put(item(change=ONE)), check]) == Applied()
        await store.write(Put(item(other)))
        assert await store.transact([Delete(KEY), check]) == Rejected(found={1: item(other)})
        assert await store.get(Get(KEY)) == item(change=ONE)

    async def test_a_transaction_of_100_actions(self, store: Store) -> None:
        """100 actions in a transaction are applied together."""
        items = [item(("counter", f"{number:03}")) for number in range(TRANSACTION_ACTIONS_MAX)]
        assert await store.transact([Put(one, Absent()) for one in items]) == Applied()
        assert len(await query_keys(store)) == TRANSACTION_ACTIONS_MAX
        outcome = await store.transact([Put(one, Absent()) for one in items])
        assert outcome == Rejected(found=dict(enumerate(items)))

    @pytest.mark.parametrize("number", [0, TRANSACTION_ACTIONS_MAX + 1])
    async def test_a_transaction_has_1_to_100_actions(self, store: Store, number: int) -> None:
        """A transaction of none or of 101 is refused before anything is written."""
        actions = [Put(item(("counter", str(place)))) for place in range(number)]
        with pytest.raises(RequestRefused):
            await store.transact(actions)
        assert await query_keys(store) == []

    async def test_a_transaction_names_an_item_once(self, store: Store) -> None:
        """Two actions on one item are refused, nothing is written."""
        with pytest.raises(RequestRefused):
            await store.transact([Put(item()), Check(KEY, Absent())])
        assert await store.get(Get(KEY)) is None

    async def test_a_transaction_adds_within_a_bound(self, store: Store) -> None:
        """As a reduce does: no addition beyond 38 digits, no second one for what is deleted."""
        waiting, added = ("lane", "waits"), "since.trades.7"  # a name that has dots
        room = Not(Compares("value", ">=", {"N": "9999999999999999999999.5"}))
        add = {"value": {"N": "4999999999999999999999.000000000000001"}, added: ONE}
        reduce = (Update(KEY, add=add, condition=room), Delete(waiting, Has("sums")))
        found: Item | None = None
        for number in (1, 2, 3):
            await store.write(Put(item(waiting, sums={"M": {"it's": ONE}})))
            assert await store.transact(reduce) == Applied()
            found = await store.get(Get(KEY))
            assert found is not None
            assert found[added] == {"N": str(number)}
            no_room: dict[int, Item | None] = {0: found} if number == 3 else {}
            assert await store.transact(reduce) == Rejected(found={**no_room, 1: None})
        assert found is not None
        assert Decimal(found["value"]["N"]) == Decimal("14999999999999999999997.000000000000003")
        await store.write(Put(item(waiting, sums={"M": {}})))
        assert await store.transact(reduce) == Rejected(found={0: found})
        assert await store.get(Get(waiting)) is not None

    async def test_transactions_at_once_are_whole(self, store: Store) -> None:
        """Of many transactions at the same time each is seen in all of its items or in none."""
        keys = [("counter", str(number)) for number in range(4)]
        outcomes: list[Outcome] = []

        async def add() -> None:
            actions = [Update(key, add={"change": ONE}) for key in keys]
            outcomes.append(await store.transact(actions))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(add)
        assert outcomes == [Applied()] * 20
        for key in keys:
            assert await store.get(Get(key)) == item(key, change={"N": "20"})

    async def test_a_token_makes_a_repeat_harmless(self, store: Store) -> None:
        """A transaction repeated with its token is applied once, and answered as applied."""
        token, actions = new_token(), [Update(KEY, add={"change": ONE})]
        assert await store.transact(actions, token=token) == Applied()
        assert await store.transact(actions, token=token) == Applied()
        assert await store.get(Get(KEY)) == item(change=ONE)
        assert await store.transact(actions, token=new_token()) == Applied()
        assert await store.get(Get(KEY)) == item(change=TWO)

    async def test_a_token_stands_for_one_transaction(self, store: Store) -> None:
        """A token used for another transaction is refused, nothing is written."""
        token = new_token()
        await store.transact([Update(KEY, add={"change": ONE})], token=token)
        with pytest.raises(RequestRefused):
            await store.transact([Update(KEY, add={"change": TWO})], token=token)
        assert await store.get(Get(KEY)) == item(change=ONE)
