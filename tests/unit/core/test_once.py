"""Entries that a call makes once: they say which call, and a record leads to them."""

from decimal import Decimal

import pytest

from ledger.core import once
from ledger.core.entry import Item, entry_item
from ledger.core.ids import EntryId, part_id
from ledger.core.reconciliation import corrected, corrected_by
from ledger.core.values import Entry
from ledger.testing.clock import START

REVERSED = str(EntryId(7, 7))
REVERSAL_KEY = once.reversal_key("c", REVERSED)
COUNT_KEY = once.count_key("c", "t")


def reversal(*, suffix: int | None = None, shard: int = 0) -> Item:
    """Return the item of a reversal."""
    chosen = once.suffix_of(REVERSAL_KEY) if suffix is None else suffix
    entry = Entry(
        "c", str(EntryId(9, chosen)), Decimal(-3), "r", "n", shard=shard, reverses=REVERSED
    )
    return entry_item(entry)


def correction() -> Item:
    """Return the item of a correction by a count."""
    entry = Entry("c", str(EntryId(9, once.suffix_of(COUNT_KEY))), Decimal(-3), "r")
    return corrected_by(entry_item(entry), "t", counted=Decimal(7), at=START)


@pytest.mark.parametrize("shard", [0, 3])
def test_a_record_leads_to_its_entry(shard: int) -> None:
    """In whichever shard it is, with all that it says."""
    item = reversal(shard=shard)
    record = once.record_of(item)
    assert (record["pk"]["S"], record["sk"]["S"]) == REVERSAL_KEY == once.record_key(item)
    assert once.entry_in(record) == item
    assert once.leads_to(record, (item["pk"]["S"], item["sk"]["S"]))
    assert not once.leads_to(record, ("c", REVERSED))
    assert not once.leads_to(None, ("c", REVERSED))


def test_each_change_of_an_item_has_a_reversal_of_its_own() -> None:
    """The record of one lies under its id, and leads to no other's."""
    found = list[tuple[Item, Item]]()
    for place in range(2):
        part = part_id(REVERSED, place)
        key = once.reversal_key("c", part)
        id_ = str(EntryId(9, once.suffix_of(key)))
        item = entry_item(Entry("c", id_, Decimal(-3), "r", reverses=part))
        assert once.record_key(item) == key == ("~reverse~c", part)
        found.append((item, once.record_of(item)))
    assert [once.entry_in(record) for _, record in found] == [item for item, _ in found]
    assert not once.leads_to(found[0][1], ("c", found[1][0]["sk"]["S"]))


def test_the_record_of_a_count_leads_to_its_correction() -> None:
    """Which says what was counted, and when."""
    item = correction()
    assert once.record_key(item) == COUNT_KEY
    assert once.entry_in(once.record_of(item)) == item
    done = corrected(item)
    assert (done.counted, done.total) == (Decimal(7), Decimal(10))
    assert (done.token, done.at) == ("t", START)


@pytest.mark.parametrize(
    "item",
    [
        reversal(suffix=8),
        {**reversal(), "reverses": {"S": str(EntryId(7, 8))}},
        {**reversal(), "reverses": {"N": "1"}},
        {**reversal(), "sk": {"S": "theirs"}},
        {**reversal(), "pk": {"S": "~lease"}},
        {name: value for name, value in reversal().items() if name != "reverses"},
    ],
)
def test_what_another_writer_calls_so_is_an_entry_as_any_other(item: Item) -> None:
    """Its id is no hash of the call that it names."""
    assert once.record_key(item) is None
    with pytest.raises(ValueError, match="made the entry"):
        once.record_of(item)


@pytest.mark.parametrize(
    "change",
    [
        {"entry": {"S": str(EntryId(9, 8))}},
        {"entry": {"N": "1"}},
        {"shard": {"N": "-1"}},
        {"shard": {"S": "0"}},
        {"sk": {"S": str(EntryId(7, 8))}},
        {"pk": {"S": "~reverse~d"}},
        {"pk": {"S": "~other~c"}},
    ],
)
def test_a_record_of_ones_own_making_leads_nowhere(change: Item) -> None:
    """It was made of no entry that the call could make."""
    assert once.entry_in({**once.record_of(reversal()), **change}) is None
