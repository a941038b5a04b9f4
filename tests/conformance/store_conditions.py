"""What every store must do with conditions of every kind, with sets, and with what was there."""

import pytest
from conformance.store_items import KEY, item

from ledger.core.entry import AttributeValue
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
    Shorter,
)
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Applied, Check, Put, Rejected, Update

WHOLE = item(
    number={"N": "10"},
    text={"S": "m"},
    texts={"SS": ["a", "b"]},
    numbers={"NS": ["1", "2.5"]},
    list={"L": [{"S": "x"}, {"N": "7"}]},
)
THERE = Has("pk")

TRUE: list[Condition] = [
    Has("number"),
    Not(Has("other")),
    Not(Absent()),
    Compares("number", "<", {"N": "10.5"}),
    Compares("number", "<=", {"N": "10"}),
    Compares("number", ">", {"N": "9"}),
    Compares("number", ">=", {"N": "1e1"}),
    Compares("text", "<", {"S": "n"}),
    Compares("text", ">=", {"S": "m"}),
    Contains("texts", {"S": "a"}),
    Contains("numbers", {"N": "2.5"}),
    Contains("list", {"S": "x"}),
    Contains("list", {"N": "7"}),
    Shorter("texts", 3),
    Shorter("list", 3),
    Not(Shorter("texts", 2)),
    AllOf((THERE, Equals("number", {"N": "10"}))),
    AnyOf((Absent(), Equals("number", {"N": "10"}))),
    AllOf((AnyOf((Absent(), THERE)), Not(Equals("text", {"S": "x"})))),
]
FALSE: list[Condition] = [
    Absent(),
    Has("other"),
    Compares("number", "<", {"N": "10"}),
    Compares("number", ">", {"N": "10"}),
    Compares("number", ">", {"N": "10.00001"}),
    Compares("text", "<", {"S": "m"}),
    Compares("other", "<", {"N": "1"}),
    Compares("other", ">=", {"N": "0"}),
    Contains("texts", {"S": "c"}),
    Contains("numbers", {"N": "2"}),
    Contains("list", {"S": "7"}),
    Contains("other", {"S": "a"}),
    Shorter("texts", 2),
    Not(THERE),
    AllOf((THERE, Absent())),
    AnyOf((Absent(), Has("other"))),
    Not(AnyOf((THERE, Absent()))),
]


class ConditionsSuite:
    """Conditions, sets, removed attributes and old images."""

    @pytest.mark.parametrize("condition", TRUE, ids=repr)
    async def test_a_true_condition_lets_a_write_through(
        self, store: Store, condition: Condition
    ) -> None:
        """A write under a condition that is true of the item is applied."""
        await store.write(Put(WHOLE))
        assert await store.write(Put(item(), condition)) == Applied()

    @pytest.mark.parametrize("condition", FALSE, ids=repr)
    async def test_a_false_condition_lets_nothing_through(
        self, store: Store, condition: Condition
    ) -> None:
        """A write under a condition that is false of the item changes nothing."""
        await store.write(Put(WHOLE))
        assert isinstance(await store.write(Put(item(), condition)), Rejected)
        assert await store.get(Get(KEY)) is not None
        assert (await store.get(Get(KEY)) or {}).get("number") == {"N": "10"}

    @pytest.mark.parametrize(
        "condition",
        [Has("pk"), Compares("a", "<", {"N": "1"}), Contains("a", {"S": "x"})],
        ids=repr,
    )
    async def test_of_nothing_only_absence_is_true(
        self, store: Store, condition: Condition
    ) -> None:
        """Where there is no item a condition on its attributes is false, and its negation true."""
        assert isinstance(await store.write(Put(item(), condition)), Rejected)
        assert await store.write(Put(item(), Not(condition))) == Applied()

    @pytest.mark.parametrize(
        "condition", [Compares("number", "<", {"S": "9"}), Shorter("other", 5)], ids=repr
    )
    async def test_a_condition_on_what_has_no_such_kind_is_false(
        self, store: Store, condition: Condition
    ) -> None:
        """A number compared with text, and the size of what is not there, are not less."""
        await store.write(Put(WHOLE))
        assert isinstance(await store.write(Put(item(), condition)), Rejected)

    async def test_a_put_can_ask_for_what_it_replaced(self, store: Store) -> None:
        """With `returns_old` the item that was there comes back, None if there was none."""
        first, second = item(change={"N": "1"}), item(change={"N": "2"})
        assert await store.write(Put(first, returns_old=True)) == Applied(None)
        assert await store.write(Put(second, returns_old=True)) == Applied(first)

    @pytest.mark.parametrize("kind", ["SS", "NS"])
    async def test_elements_are_added_to_a_set(self, store: Store, kind: str) -> None:
        """Adding to a set makes it, and each element is in it once."""
        await store.write(Update(KEY, add={"slots": {kind: ["1", "2"]}}))
        outcome = await store.write(Update(KEY, add={"slots": {kind: ["2", "3"]}}))
        assert isinstance(outcome, Applied)
        assert outcome.item is not None
        assert sorted(outcome.item["slots"][kind]) == ["1", "2", "3"]

    @pytest.mark.parametrize("kind", ["SS", "NS"])
    async def test_an_element_is_added_if_it_is_not_there(self, store: Store, kind: str) -> None:
        """An element added on condition that the set has none such is added once."""
        letter = kind[0]
        for number in ("1", "2"):
            absent = Not(Contains("slots", {letter: number}))
            add = Update(KEY, add={"slots": {kind: [number]}}, condition=absent)
            assert isinstance(await store.write(add), Applied)
            assert isinstance(await store.write(add), Rejected)
        found = await store.get(Get(KEY))
        assert found is not None
        assert sorted(found["slots"][kind]) == ["1", "2"]

    async def test_a_rejected_transaction_leaves_a_set_as_it_was(self, store: Store) -> None:
        """If another action of its transaction is rejected, nothing is added to a set."""
        await store.write(Update(KEY, add={"slots": {"SS": ["1"]}}))
        add = Update(KEY, add={"slots": {"SS": ["2"]}})
        never = Check((KEY[0], "another"), Not(Absent()))
        assert isinstance(await store.transact([add, never]), Rejected)
        assert await store.get(Get(KEY)) == item(slots={"SS": ["1"]})

    @pytest.mark.parametrize("kind", ["SS", "NS"])
    async def test_elements_are_taken_out_of_a_set(self, store: Store, kind: str) -> None:
        """What is discarded is out of the set, there or not; with the last goes the attribute."""
        await store.write(Update(KEY, add={"slots": {kind: ["1", "2"]}}))
        outcome = await store.write(Update(KEY, discard={"slots": {kind: ["2", "3"]}}))
        assert isinstance(outcome, Applied)
        assert (outcome.item or {})["slots"] == {kind: ["1"]}
        await store.write(Update(KEY, discard={"slots": {kind: ["1"]}}))
        await store.write(Update(KEY, discard={"slots": {kind: ["1"]}}))
        assert await store.get(Get(KEY)) == item()

    async def test_attributes_are_removed(self, store: Store) -> None:
        """An update takes attributes away beside what it sets, whether or not they are there."""
        await store.write(Put(item(a={"S": "1"}, b={"S": "2"})))
        await store.write(Update(KEY, set={"c": {"S": "3"}}, remove=("a", "missing")))
        found: dict[str, AttributeValue] = dict(await store.get(Get(KEY)) or {})
        assert found == item(b={"S": "2"}, c={"S": "3"})
