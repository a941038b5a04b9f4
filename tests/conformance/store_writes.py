"""What every store must do with single writes, and with reads of one item."""

import anyio
import pytest
from conformance.store_items import KEY, ONE, TWO, item

from ledger.core.entry import AttributeValue
from ledger.core.errors import RequestRefused
from ledger.store.conditions import Absent, Equals
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Applied, Delete, Outcome, Put, Rejected, Update


class WritesSuite:
    """Single writes, conditions and updates."""

    async def test_an_item_put_is_there(self, store: Store) -> None:
        """A put is seen by the next consistent get, whole."""
        whole = item(change=ONE, note={"S": "né"}, merged={"B": b"\x00\xff"})
        assert await store.write(Put(whole)) == Applied()
        assert await store.get(Get(KEY)) == whole
        assert await store.get(Get(KEY, consistent=True)) == whole

    async def test_a_missing_item_is_none(self, store: Store) -> None:
        """A get of what is not there gives None, in a partition that exists and in another."""
        await store.write(Put(item()))
        assert await store.get(Get(("counter", "other"))) is None
        assert await store.get(Get(("other", "entry"))) is None

    async def test_a_put_replaces_the_whole_item(self, store: Store) -> None:
        """Attributes of the item that was there are gone after a put."""
        await store.write(Put(item(change=ONE, note={"S": "x"})))
        await store.write(Put(item(change=TWO)))
        assert await store.get(Get(KEY)) == item(change=TWO)

    async def test_what_was_stored_is_the_stores_own(self, store: Store) -> None:
        """A dict that was put can be changed by its owner without changing the table."""
        mine = dict(item(change=ONE))
        await store.write(Put(mine))
        mine["change"] = TWO
        assert await store.get(Get(KEY)) == item(change=ONE)

    @pytest.mark.parametrize(
        "value",
        [
            {"S": ""},
            {"S": "\U0001f600é\n"},
            {"B": b""},
            {"B": bytes(range(256))},
            {"BOOL": False},
            {"NULL": True},
            {"L": [{"N": "1"}, {"S": "a"}]},
            {"M": {"a": {"L": []}}},
            {"N": "0"},
            {"N": "-12.5"},
            {"N": "12345678901234567890123456789012345678"},
            {"N": "0.00001"},
        ],
        ids=ascii,
    )
    async def test_values_come_back_as_they_were(self, store: Store, value: AttributeValue) -> None:
        """Every kind of value, numbers of 38 digits included, is read as it was written."""
        await store.write(Put(item(value=value)))
        assert await store.get(Get(KEY)) == item(value=value)

    async def test_a_delete_takes_the_item_away(self, store: Store) -> None:
        """A deleted item is gone; deleting it again is no error."""
        await store.write(Put(item()))
        assert await store.write(Delete(KEY)) == Applied()
        assert await store.get(Get(KEY)) is None
        assert await store.write(Delete(KEY)) == Applied()

    async def test_an_item_over_400_kb_is_refused(self, store: Store) -> None:
        """An item over DynamoDB's limit is refused, and nothing is written."""
        with pytest.raises(RequestRefused):
            await store.write(Put(item(note={"S": "x" * (400 * 1024)})))
        assert await store.get(Get(KEY)) is None

    async def test_absent_holds_only_for_no_item(self, store: Store) -> None:
        """A put on condition that nothing is there is applied once; then it finds the first."""
        first, second = item(change=ONE), item(change=TWO)
        assert await store.write(Put(first, Absent())) == Applied()
        assert await store.write(Put(second, Absent())) == Rejected(found={0: first})
        assert await store.get(Get(KEY)) == first

    async def test_equals_holds_for_the_same_value_only(self, store: Store) -> None:
        """A put on condition of a value is applied if it is that one, and else finds the item."""
        old = item(version={"S": "1"}, change=ONE)
        await store.write(Put(old))
        new = item(version={"S": "2"})
        lost = await store.write(Put(new, Equals("version", {"S": "0"})))
        assert lost == Rejected(found={0: old})
        assert await store.write(Put(new, Equals("version", {"S": "1"}))) == Applied()
        assert await store.get(Get(KEY)) == new

    @pytest.mark.parametrize("value", [{"S": "1"}, {"N": "2"}, {"B": b"1"}], ids=ascii)
    async def test_equals_tells_kinds_apart(self, store: Store, value: AttributeValue) -> None:
        """The number 1 is neither the text 1, nor the number 2, nor the byte of the digit 1."""
        old = item(version=ONE)
        await store.write(Put(old))
        outcome = await store.write(Put(item(), Equals("version", value)))
        assert outcome == Rejected(found={0: old})

    async def test_equals_compares_numbers_by_value(self, store: Store) -> None:
        """The number 1 equals 1.0, however either was written."""
        await store.write(Put(item(version=ONE)))
        assert await store.write(Put(item(), Equals("version", {"N": "1.0"}))) == Applied()

    async def test_equals_fails_without_the_attribute_or_the_item(self, store: Store) -> None:
        """A condition on a value is false where the attribute, or the item, is not there."""
        write = Put(item(version=TWO), Equals("version", ONE))
        assert await store.write(write) == Rejected(found={0: None})
        await store.write(Put(item(change=ONE)))
        assert await store.write(write) == Rejected(found={0: item(change=ONE)})

    async def test_deletes_have_conditions_too(self, store: Store) -> None:
        """A delete whose condition is false leaves the item and returns it."""
        old = item(version=ONE)
        await store.write(Put(old))
        assert await store.write(Delete(KEY, Equals("version", TWO))) == Rejected(found={0: old})
        assert await store.get(Get(KEY)) == old
        assert await store.write(Delete(KEY, Equals("version", ONE))) == Applied()
        assert await store.write(Delete(KEY, Equals("version", ONE))) == Rejected(found={0: None})

    async def test_of_writers_at_once_one_wins(self, store: Store) -> None:
        """Of many conditional puts at the same time exactly one is applied, and stays."""
        outcomes: dict[int, Outcome] = {}

        async def attempt(number: int) -> None:
            outcomes[number] = await store.write(Put(item(n={"N": str(number)}), Absent()))

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(attempt, number)
        won = [number for number, outcome in outcomes.items() if isinstance(outcome, Applied)]
        assert len(won) == 1
        winner = item(n={"N": str(won[0])})
        assert await store.get(Get(KEY)) == winner
        assert sum(outcome == Rejected(found={0: winner}) for outcome in outcomes.values()) == 19

    async def test_an_update_makes_the_item(self, store: Store) -> None:
        """An update of what is not there begins at zero, and returns the new item."""
        update = Update(KEY, add={"change": {"N": "-2.5"}}, set={"note": {"S": "x"}})
        new = item(change={"N": "-2.5"}, note={"S": "x"})
        assert await store.write(update) == Applied(new)
        assert await store.get(Get(KEY)) == new

    async def test_an_update_adds_exactly_and_leaves_the_rest(self, store: Store) -> None:
        """Adding is exact in 38 digits; attributes that were not named stay."""
        large = "12345678901234567890123456789012345677"
        await store.write(Put(item(change={"N": large}, note={"S": "x"})))
        outcome = await store.write(Update(KEY, add={"change": ONE}, set={"by": {"S": "y"}}))
        sum_ = {"N": "12345678901234567890123456789012345678"}
        assert outcome == Applied(item(change=sum_, note={"S": "x"}, by={"S": "y"}))

    async def test_an_update_can_bring_a_number_to_zero(self, store: Store) -> None:
        """A sum of zero is the number 0."""
        await store.write(Put(item(change={"N": "0.5"})))
        outcome = await store.write(Update(KEY, add={"change": {"N": "-0.5"}}))
        assert outcome == Applied(item(change={"N": "0"}))

    async def test_updates_have_conditions_too(self, store: Store) -> None:
        """An update whose condition is false changes nothing and returns the item."""
        update = Update(KEY, set={"version": TWO}, condition=Equals("version", ONE))
        assert await store.write(update) == Rejected(found={0: None})
        assert await store.get(Get(KEY)) is None
        await store.write(Put(item(version=ONE)))
        assert await store.write(update) == Applied(item(version=TWO))
        assert await store.write(update) == Rejected(found={0: item(version=TWO)})

    async def test_adding_to_text_is_refused(self, store: Store) -> None:
        """A number cannot be added to an attribute that is none; the item stays."""
        await store.write(Put(item(change={"S": "1"})))
        with pytest.raises(RequestRefused):
            await store.write(Update(KEY, add={"change": ONE}))
        assert await store.get(Get(KEY)) == item(change={"S": "1"})

    async def test_a_sum_of_39_digits_is_refused(self, store: Store) -> None:
        """A sum that does not fit is refused, never rounded."""
        await store.write(Put(item(change={"N": "9" * 38})))
        with pytest.raises(RequestRefused):
            await store.write(Update(KEY, add={"change": {"N": "0.1"}}))
        assert await store.get(Get(KEY)) == item(change={"N": "9" * 38})

    async def test_additions_at_once_all_count(self, store: Store) -> None:
        """Many additions at the same time lose nothing within a region."""
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(store.write, Update(KEY, add={"change": ONE}))
        assert await store.get(Get(KEY)) == item(change={"N": "50"})
