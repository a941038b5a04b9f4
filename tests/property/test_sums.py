"""Sums taken from texts a page at a time equal a naive sum of fractions, whatever the items are.

The naive one knows nothing of pages, of plain numbers or of sums kept for later: it looks at each
distinct item once, as the design says.
"""

import itertools
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache

from hypothesis import event, given
from hypothesis import strategies as st
from support.damage import COUNTER, assert_named, number_in, odd_numbers, short_texts
from support.strategies import any_amounts, entry_ids, money

from ledger.core import amounts, ids, keys
from ledger.core.entry import Item, net_item
from ledger.core.errors import AmountOverflow, DamagedItem
from ledger.core.fold import Collection, at_once, collect, stamp_of
from ledger.core.ids import EntryId
from ledger.core.values import NetChange


@cache
def texts() -> st.SearchStrategy[str]:
    """Numbers as our writer and as others write them: whole, with a point, padded, or odd."""
    return st.one_of(
        st.integers(-(10**6), 10**6).map(str),
        money().map(amounts.to_text),
        st.from_regex(r"[-+]?[0-9]{1,22}(\.[0-9]{1,22})?", fullmatch=True),
        any_amounts().map(str),
        st.sampled_from(["1,2", "1,-2", "-0", "+5", " 7 ", "1e3", "1_0", "", "00012", ".5", "5."]),
    )


@cache
def changes() -> st.SearchStrategy[dict[str, str]]:
    """What an item has under `change`."""
    plain = texts().map(lambda text: {"N": text})
    odd = odd_numbers().map(dict)
    return st.one_of(plain, plain, plain, plain, plain, plain, odd, st.just({"S": "1"}))


# Made once: making a strategy again at every draw takes longer than drawing from it.
PLAIN = money().map(lambda number: {"N": amounts.to_text(number)})
LARGE = st.one_of(money(), any_amounts())
IDS = st.lists(entry_ids(), max_size=5, unique=True)
FOREIGN = st.lists(
    short_texts().filter(lambda key: key != "" and key[0] != "~" and ids.parse(key) is None),
    max_size=2,
    unique=True,
)


@st.composite
def nets(draw: st.DrawFn, candidates: Sequence[EntryId], *, version: str = "v") -> Item:
    """A net that names some of these entries and others that are gone."""
    merged = draw(st.sets(st.sampled_from(candidates))) if candidates else set()
    merged |= set(draw(IDS)[:2])
    generation = draw(st.integers(1, 3))
    change = draw(LARGE)
    net = NetChange(change, len(merged), tuple(sorted(merged)), version, "", "home", generation)
    return net_item(net, COUNTER)


@st.composite
def collections(draw: st.DrawFn) -> list[Item]:
    """A collection in the order of its sort keys: entries, foreign items, none or some nets."""
    entries = draw(IDS)
    others = draw(FOREIGN)
    drawn = draw(st.sampled_from([changes(), PLAIN]))
    items: list[Item] = [
        {"pk": {"S": COUNTER}, "sk": {"S": key}, "change": draw(drawn)}
        for key in [*map(str, entries), *others]
    ]
    bare = set(draw(FOREIGN)) - set(others)
    items += [{"pk": {"S": COUNTER}, "sk": {"S": key}} for key in bare]
    found = draw(st.lists(nets(entries), max_size=2, unique_by=lambda item: str(item["sk"]["S"])))
    return sorted([*items, *found], key=lambda item: item["sk"]["S"].encode())


def naive(items: Sequence[Item]) -> tuple[Fraction, int] | Item:
    """Return the sum over what these items say and how many are not merged, or the damaged one."""
    total, merged, entries = Fraction(0), set[bytes](), dict[str, Fraction]()
    found = [item for item in items if item["sk"]["S"].startswith(keys.NET_PREFIX)]
    for item in items:
        if item in found or ("change" not in item and ids.parse(item["sk"]["S"]) is None):
            continue
        number = number_in(item, "change")
        if number is None:
            return item
        entries[item["sk"]["S"]] = number
    if found:
        highest = max(found, key=lambda item: item["sk"]["S"])
        total += Fraction(Decimal(highest["change"]["N"]))
        packed = highest["merged"]["B"]
        merged = {packed[start : start + 16] for start in range(0, len(packed), 16)}
    left = {
        key: number
        for key, number in entries.items()
        if (one := ids.parse(key)) is None or one.pack() not in merged
    }
    return total + sum(left.values(), Fraction(0)), len(left)


def in_pages(items: Sequence[Item], borders: Sequence[int]) -> list[Sequence[Item]]:
    """Cut the items into pages, empty ones too."""
    cuts = [0, *sorted(border % (len(items) + 1) for border in borders), len(items)]
    return [items[start:end] for start, end in itertools.pairwise(cuts)]


@given(collections(), st.lists(st.integers(0, 50), max_size=4), st.data())
def test_a_sum_is_the_naive_one_or_names_the_damaged_item(
    items: list[Item], borders: list[int], data: st.DataObject
) -> None:
    """In any order and pages: the exact sum, the first damaged item, or over 38 digits."""
    arrived = data.draw(st.permutations(items))
    expected = naive(arrived)
    folded = Collection(partition=COUNTER)
    bare = data.draw(st.booleans())
    try:
        for page in in_pages(arrived, borders):
            folded.add([_without_partition(item) for item in page] if bare else page)
        total = folded.total()
    except DamagedItem as error:
        event("damaged")
        assert isinstance(expected, dict)
        assert_named(error, expected)
    except AmountOverflow:
        event("overflow")
        assert not isinstance(expected, dict)
    else:
        event("sum")
        assert not isinstance(expected, dict)
        assert (Fraction(total), folded.unmerged().entries) == expected
        assert total == collect(items).total()


def _without_partition(item: Item) -> Item:
    return {name: value for name, value in item.items() if name != "pk"}


@given(collections(), st.lists(st.integers(0, 50), max_size=4), st.data())
def test_what_is_kept_as_a_sum_changes_nothing(
    items: list[Item], borders: list[int], data: st.DataObject
) -> None:
    """Keys given up for a sum at any page, and below any key: the same, if the net stayed the same.

    If it did not, no total is given.
    """
    if isinstance(naive(items), dict):
        return
    whole = collect(items)
    other = data.draw(nets([], version="w").map(lambda item: collect([item]).net))
    expected = data.draw(st.sampled_from([whole.net, whole.net, whole.net, other, None]))
    folded, condensed = Collection(), False
    for page in in_pages(items, borders):
        folded.add(page)
        if data.draw(st.booleans()):
            upto = data.draw(
                st.none() | st.sampled_from([item["sk"]["S"] for item in items] or [""])
            )
            at_once(folded.condense(expected, upto=upto))
            condensed = True
            assert folded.kept == 0 or upto is not None
    assert folded.is_sound == (not condensed or stamp_of(expected) == stamp_of(whole.net))
    if folded.is_sound:
        left, right = folded.unmerged(), whole.unmerged()
        assert (left.change, left.entries) == (right.change, right.entries)
    else:
        event("another net")


@given(st.lists(texts(), max_size=8))
def test_plain_texts_are_amounts(found: list[str]) -> None:
    """What is taken for plain without a closer look is what `parse` reads, one by one."""
    if amounts.are_plain(found):
        event("plain")
        exact = [amounts.parse(text) for text in found]
        assert Fraction(amounts.total_plain(found)) == sum(map(Fraction, exact), Fraction(0))
    for text in found:
        if amounts.are_plain([text]):
            amounts.parse(text)
