"""What holds for every legal value: round trips, orders, exact sums, totals."""

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.strategies import (
    any_amounts,
    counters,
    entries,
    entry_ids,
    foreign_keys,
    moments,
    money,
    nets,
    texts,
)

from ledger.core import amounts, ids, keys
from ledger.core.capacity import item_size, read_units, write_units
from ledger.core.entry import Item, entry_id, entry_item, entry_of, net_item, net_of
from ledger.core.errors import AmountOverflow, InvalidAmount
from ledger.core.fold import Collection, collect
from ledger.core.ids import EntryId, EntryIds
from ledger.core.values import Entry, NetChange

# Amounts.


@given(any_amounts())
@example(Decimal("9.9999999999999999999999999999999999999E+125"))
@example(Decimal("-1E-130"))
def test_every_legal_amount_survives_its_text(amount: Decimal) -> None:
    """An amount written for DynamoDB and read again is the same number, and legal."""
    assert amounts.exact(amount) == amount
    assert amounts.parse(amounts.to_text(amount)) == amount


@given(any_amounts(), st.integers(0, 30))
def test_equal_amounts_are_written_alike(amount: Decimal, zeros: int) -> None:
    """Trailing zeros leave no trace in the text."""
    last_place = int(amount.as_tuple().exponent) - zeros
    padded = amount.quantize(Decimal((0, (1,), last_place)), context=amounts.EXACT)
    assert amounts.to_text(padded) == amounts.to_text(amount)


@given(st.lists(any_amounts(), max_size=30), st.randoms(use_true_random=False))
def test_a_sum_is_exact_whatever_the_order(addends: list[Decimal], shuffle: random.Random) -> None:
    """A sum equals the sum of fractions; in another order it is the same, or the same error."""
    expected = sum((Fraction(addend) for addend in addends), Fraction(0))
    other = list(addends)
    shuffle.shuffle(other)
    try:
        result = amounts.total(addends)
    except AmountOverflow:
        with pytest.raises(AmountOverflow):
            amounts.total(other)
        assert not _fits(expected)
        return
    assert Fraction(result) == expected
    assert amounts.total(other) == result


def _fits(number: Fraction) -> bool:
    """Tell by integers alone whether a number has up to 38 digits within DynamoDB's range."""
    scaled = number * 10**500
    assert scaled.denominator == 1
    digits = str(abs(scaled.numerator)).rstrip("0")
    places = len(str(abs(scaled.numerator))) - 1 - 500
    return len(digits) <= 38 and (number == 0 or -130 <= places <= 125)


@given(
    st.integers(min_value=10**38, max_value=10**39 - 1).filter(lambda n: n % 10),
    st.integers(-168, 87),
)
def test_a_39th_digit_is_refused(digits: int, last_place: int) -> None:
    """39 significant digits are refused wherever the point stands."""
    with pytest.raises(AmountOverflow):
        amounts.exact(Decimal(digits).scaleb(last_place, amounts.EXACT))


@given(st.floats() | st.booleans() | st.text() | st.none() | st.complex_numbers())
def test_nothing_but_int_and_decimal_is_an_amount(value: object) -> None:
    """No float, boolean or text passes for an amount."""
    with pytest.raises(InvalidAmount):
        amounts.exact(value)


@given(st.text())
def test_text_is_an_amount_or_a_clear_error(text: str) -> None:
    """Any text is read as a legal amount or refused with an error of ours, never another."""
    try:
        number = amounts.parse(text)
    except (InvalidAmount, AmountOverflow):
        return
    assert amounts.exact(number) == number


# Ids.


def sort_keys() -> st.SearchStrategy[str]:
    """Ids, what looks like one, two with a comma between, and anything else."""
    like_ids = st.from_regex(ids._FORM, fullmatch=True)
    ours = entry_ids().map(str)
    two = st.tuples(ours, ours).map(",".join)
    return st.one_of(ours, like_ids, two, st.text(max_size=50))


def shown_entries() -> st.SearchStrategy[dict[str, str]]:
    """Entries of few ids with few changes, as texts that may differ and be the same number."""
    few = st.integers(0, 5).map(lambda place: str(EntryId(place, place)))
    return st.dictionaries(few, st.sampled_from(["1", "1.0", "2", "-1", "0", "-0.0"]), max_size=6)


@given(entry_ids(), entry_ids())
def test_ids_keys_and_packed_ids_have_one_order(one: EntryId, two: EntryId) -> None:
    """Ids, sort keys by their bytes, packed ids, and (time, suffix) sort alike."""
    order = one < two
    assert (str(one).encode() < str(two).encode()) == order
    assert (one.pack() < two.pack()) == order
    assert ((one.at, one.suffix) < (two.at, two.suffix)) == order


@given(entry_ids())
def test_an_id_survives_its_sort_key_and_its_packed_form(entry: EntryId) -> None:
    """An id read from its sort key, or from its 16 bytes, is the same id."""
    assert ids.parse(str(entry)) == entry
    assert ids.unpack_all(entry.pack()) == (entry,)


@given(moments(), st.integers(0, 2**64 - 1))
def test_an_id_keeps_its_time_to_the_microsecond(at: datetime, suffix: int) -> None:
    """The time told by an id is the one it was made with, in UTC."""
    entry = entry_id(at, suffix)
    assert entry.at == at.astimezone(UTC)
    assert entry.suffix == suffix


@given(st.one_of(st.text(), st.from_regex(ids._FORM, fullmatch=True)))
def test_a_sort_key_that_is_read_is_written_the_same(sort_key: str) -> None:
    """No two sort keys stand for one id: what parses is written back letter by letter."""
    entry = ids.parse(sort_key)
    assert entry is None or str(entry) == sort_key


@given(counters(), texts(), counters(), texts())
def test_derived_suffixes_depend_on_counter_and_key_alone(
    counter: str, key: str, other_counter: str, other_key: str
) -> None:
    """The same call gives the same suffix; another counter or key gives another."""
    suffix = ids.suffix_of(counter, key)
    assert suffix == ids.suffix_of("".join(list(counter)), "".join(list(key)))
    assert 0 <= suffix < 2**64
    same = (counter, key) == (other_counter, other_key)
    assert (ids.suffix_of(other_counter, other_key) == suffix) == same


@given(st.lists(entry_ids(), max_size=30))
def test_packing_forgets_order_and_doubles_only(found: list[EntryId]) -> None:
    """Packed and unpacked, a list of ids is the sorted set of them."""
    assert ids.unpack_all(ids.pack_all(found)) == tuple(sorted(set(found)))
    assert ids.pack_all(found) == ids.pack_all(reversed(found + found))


@given(st.sets(entry_ids(), min_size=1, max_size=20), st.data())
def test_cut_doubled_or_unsorted_bytes_are_refused(
    found: set[EntryId], data: st.DataObject
) -> None:
    """Bytes that lost a part, hold an id twice, or are out of order never pass for ids."""
    packed = ids.pack_all(found)
    cut = data.draw(st.integers(1, len(packed) - 1).filter(lambda at: at % 16))
    with pytest.raises(ValueError, match="multiple of 16 bytes"):
        ids.unpack_all(packed[:cut])
    parts = [packed[start : start + 16] for start in range(0, len(packed), 16)]
    double = data.draw(st.sampled_from(parts))
    with pytest.raises(ValueError, match="ascending"):
        ids.unpack_all(b"".join(sorted([*parts, double])))
    if len(parts) > 1:
        other = data.draw(st.permutations(parts).filter(lambda order: list(order) != parts))
        with pytest.raises(ValueError, match="ascending"):
            ids.unpack_all(b"".join(other))


@given(st.binary(max_size=64))
def test_any_bytes_are_ids_or_an_error(packed: bytes) -> None:
    """Whatever bytes are there, what is read from them is written back the same."""
    try:
        found = ids.unpack_all(packed)
    except ValueError:
        return
    assert ids.pack_all(found) == packed
    assert [ids.parse(str(entry)) for entry in found] == list(found)


@given(st.lists(sort_keys(), max_size=8))
def test_ours_are_those_that_parse(found: list[str]) -> None:
    """One pattern over all sort keys says the same as one after the other, commas or not."""
    assert ids.ours(found) == [key for key in found if ids.parse(key) is not None]


@given(st.lists(entry_ids(), max_size=8), st.lists(entry_ids(), max_size=8), st.slices(8))
def test_packed_ids_are_a_sequence_of_ids(
    found: list[EntryId], others: list[EntryId], places: slice
) -> None:
    """However they were made, packed ids are the sorted tuple of the ids."""
    expected, packed = tuple(sorted(set(found))), EntryIds.of(found)
    by_keys = EntryIds.of_sort_keys(map(str, found))
    assert packed == by_keys == ids.unpack_all(packed.packed) == expected
    assert hash(packed) == hash(by_keys)
    assert (packed == EntryIds.of(others)) == (expected == tuple(sorted(set(others))))
    assert packed.sort_keys == by_keys.sort_keys == tuple(map(str, expected))
    assert (tuple(packed), len(packed)) == (expected, len(expected))
    assert tuple(packed[place] for place in range(len(packed))) == expected
    assert packed[places] == expected[places]


@given(moments(), entry_ids())
def test_earliest_parts_ids_by_their_time(at: datetime, entry: EntryId) -> None:
    """The ids of before, and they alone, are below the least sort key of a time."""
    assert (str(entry) < ids.earliest(at)) == (entry.at < at)


# Collections.


@given(
    st.lists(st.tuples(shown_entries(), st.booleans()), min_size=2, max_size=4),
)
def test_what_is_alike_is_so_by_its_numbers(drawn: list[tuple[dict[str, str], bool]]) -> None:
    """Entries that all show with the same number are alike, as texts and as numbers, mixed too."""
    views = [view for view, _ in drawn]
    first, *others = made = [_collection(view) for view in views]
    for one, (view, is_parsed) in zip(made, drawn, strict=True):
        assert not is_parsed or len(one.entries) == len(view)
    everywhere = set.intersection(*(set(view) for view in views))
    same = {key for key in everywhere if len({Decimal(view[key]) for view in views}) == 1}
    assert first.alike([first, *others]) == [key for key in views[0] if key in same]
    assert first.sort_keys == views[0].keys()
    assert first.sum_of(same) == sum((Decimal(views[0][key]) for key in same), Decimal(0))


def _collection(view: Mapping[str, str]) -> Collection:
    parts = [{"sk": {"S": key}, "change": {"N": text}} for key, text in view.items()]
    collection = Collection(partition="counter")
    collection.add(parts)
    return collection


# Items.


@given(entries(), st.integers(0, 9999))
def test_an_entry_survives_its_item(entry: Entry, shard: int) -> None:
    """An entry read from its own item, in any shard, is the same entry."""
    assert entry_of(entry_item(replace(entry, shard=shard))) == entry


@given(nets(), counters())
def test_a_net_change_survives_its_item(net: NetChange, counter: str) -> None:
    """A net change read from its own item is the same net change."""
    assert net_of(net_item(net, counter)) == net


@given(counters(), st.integers(0, 9999))
def test_counter_and_shard_survive_the_partition_key(counter: str, shard: int) -> None:
    """Any counter in any shard is told by its partition key alone."""
    assert keys.checked_counter(counter) == counter
    assert keys.counter_of(keys.partition_key(counter, shard)) == (counter, shard)


@given(st.text())
def test_any_text_is_a_counter_in_shard_0_or_refused(text: str) -> None:
    """What is accepted as a counter id never looks like a shard or a reserved partition."""
    try:
        keys.checked_counter(text)
    except ValueError:
        return
    assert keys.counter_of(text) == (text, 0)


@given(entry_ids(), st.integers(1, keys.GENERATION_MAX))
def test_net_changes_come_last(entry: EntryId, generation: int) -> None:
    """Every net change sorts after every entry, by bytes."""
    assert str(entry).encode() < keys.net_sort_key(generation).encode()


# Totals.


@st.composite
def collections(draw: st.DrawFn) -> tuple[list[Item], Decimal]:
    """Any collection at a moment of its life, with its true sum.

    Some entries are merged and deleted, some merged and still visible, some are not merged, some
    are foreign; nets of lower generations and items without a change lie beside.
    """
    changes = draw(st.dictionaries(entry_ids(), money(), max_size=12))
    stages = {entry: draw(st.sampled_from(["new", "merged", "deleted"])) for entry in changes}
    merged = tuple(sorted(entry for entry, stage in stages.items() if stage != "new"))
    foreign = draw(st.dictionaries(foreign_keys(), money(), max_size=4))
    items: list[Item] = [
        entry_item(Entry("a", str(entry), changes[entry]))
        for entry, stage in stages.items()
        if stage != "deleted"
    ]
    items += [entry_item(Entry("a", key, change)) for key, change in foreign.items()]
    generation = draw(st.integers(1, 5))
    if merged:
        kept = draw(st.booleans()) or any(stages[entry] == "merged" for entry in merged)
        change = sum((changes[entry] for entry in merged), Decimal(0))
        shown = merged if kept else ()
        net = NetChange(change, len(merged), shown, "v", "", "home", generation)
        items.append(net_item(net, "a"))
        lower = draw(st.sets(st.integers(1, 5), max_size=2))
        items += [
            net_item(NetChange(Decimal(9), 1, (), "v", "", "gone", old), "a")
            for old in lower
            if old < generation
        ]
    others = draw(st.sets(foreign_keys(), max_size=2)) - set(foreign)
    items += [{"pk": {"S": "a"}, "sk": {"S": key}} for key in others]
    return items, sum([*changes.values(), *foreign.values()], Decimal(0))


def _pages(items: Sequence[Item], borders: Sequence[int]) -> list[Sequence[Item]]:
    cuts = [0, *sorted(border % (len(items) + 1) for border in borders), len(items)]
    return [items[start:end] for start, end in itertools.pairwise(cuts)]


@given(collections(), st.lists(st.integers(0, 50), max_size=5), st.data())
def test_a_total_is_the_sum_over_distinct_changes(
    collection: tuple[list[Item], Decimal], borders: list[int], data: st.DataObject
) -> None:
    """Whatever is merged, deleted or doubled, in any order and pages, each change counts once."""
    items, truth = collection
    again = data.draw(st.lists(st.sampled_from(items), max_size=3)) if items else []
    arrived = data.draw(st.permutations(items + again))
    folded = Collection()
    for page in _pages(arrived, borders):
        folded.add(page)
    assert folded.total() == truth
    assert folded.total() == collect(items).total()


# Billing units.


@given(entries(), st.integers(0, 99))
def test_costs_follow_from_the_size(entry: Entry, shard: int) -> None:
    """Units grow with the size, transactions cost double, and a unit is never begun for nothing."""
    size = item_size(entry_item(replace(entry, shard=shard)))
    units = write_units(size)
    assert (units - 1) * 1024 < size <= units * 1024
    assert write_units(size, transactional=True) == 2 * units
    assert read_units(size, consistent=True) == 2 * read_units(size, consistent=False)
    assert (read_units(size, consistent=True) - 1) * 4096 < size
