"""Net changes as accidents leave them: whole, or an error that names them; never counted in part.

The digest finds all damage, and a net without one is damaged. So that the other checks are seen to
work as well, damaged nets are sealed again: with the digest of what they say now.
"""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damage import COUNTER, assert_named, damaged, mutated, number_in
from support.strategies import entry_ids, money

from ledger.core import ids, keys
from ledger.core.entry import Item, entry_item, net_item, net_of
from ledger.core.errors import AmountOverflow, DamagedItem
from ledger.core.fold import collect
from ledger.core.ids import EntryId
from ledger.core.periods import Periods, to_text
from ledger.core.signatures import NetKey, NetKeys
from ledger.core.values import Entry, NetChange

COUNT_DIGITS_MAX = 400
KEYS = NetKeys((NetKey("k1", bytes(range(32))),), required=True)


@st.composite
def merged_collections(draw: st.DrawFn) -> tuple[dict[str, Any], list[Item]]:
    """A net and the entries around it: merged and visible, merged and gone, not merged."""
    changes = draw(st.dictionaries(entry_ids(), money(), min_size=1, max_size=6))
    made = sorted(changes)
    merged = tuple(entry_id for entry_id in made if draw(st.booleans())) or tuple(made[:1])
    change = sum((changes[entry_id] for entry_id in merged), Decimal(0))
    count = len(merged) + draw(st.integers(0, 3))
    periods = draw(st.sampled_from((None, to_text(Periods("UTC")))))
    until = str(merged[-1])
    net = NetChange(change, count, merged, "v", until, "us-east-1", periods=periods)
    shown = [entry_id for entry_id in made if entry_id not in merged or draw(st.booleans())]
    return net_item(net, COUNTER), [
        entry_item(Entry(COUNTER, str(entry_id), changes[entry_id])) for entry_id in shown
    ]


def sealed(net: Item) -> Item:
    """Return a net with the digest of what it says now, if it can be told."""
    try:
        merged = ids.unpack_all(net["merged"]["B"])
        version, until, home = (net[name]["S"] for name in ("version", "until", "home"))
        count = Decimal(net["count"]["N"])
        if count.adjusted() > COUNT_DIGITS_MAX:  # no digits would do in any memory
            return net
        generation = keys.generation_of(net["sk"]["S"]) or 0
        change, periods = Decimal(net["change"]["N"]), net.get("periods", {"S": None})["S"]
        said = NetChange(change, int(count), merged, version, until, home, generation, periods)
        return {**net, "digest": net_item(said, COUNTER)["digest"]}
    except (KeyError, ValueError, TypeError, ArithmeticError):
        return net


def said_by(net: Item, entries: list[Item]) -> Fraction | None:
    """Tell the total that these items stand for, None if the net is not to be believed."""
    change, count, packed = number_in(net, "change"), number_in(net, "count"), net.get("merged", {})
    merged = packed.get("B")
    if change is None or count is None or merged is None or count.denominator != 1:
        return None
    parts = [merged[start : start + 16] for start in range(0, len(merged), 16)]
    texts_there = all("S" in net.get(name, {}) for name in ("version", "until", "home"))
    if parts != sorted(set(parts)) or len(merged) % 16 or not texts_there or count < len(parts):
        return None
    return change + sum(
        (
            number_in(item, "change") or Fraction(0)
            for item in entries
            if EntryId.pack(_id_of(item)) not in parts
        ),
        Fraction(0),
    )


def _id_of(item: Item) -> EntryId:
    found = ids.parse(item["sk"]["S"])
    assert found is not None
    return found


def assert_taken_at_its_word(net: Item, entries: list[Item]) -> None:
    """Check that the total is what the items say, or that the net is named as damaged."""
    expected = said_by(net, entries)
    try:
        total = collect([*entries, net]).total()
    except DamagedItem as error:
        assert_named(error, net)
    except AmountOverflow:
        assert expected is not None
    else:
        assert Fraction(total) == expected


@given(merged_collections(), st.data())
def test_a_net_damaged_in_any_field_is_never_counted_in_part(
    collection: tuple[dict[str, Any], list[Item]], data: st.DataObject
) -> None:
    """One attribute lost or replaced: the net is named, or counts as what it says now."""
    net, entries = collection
    name, broken = data.draw(damaged(net))
    assert_taken_at_its_word(sealed(broken), entries)
    if name not in broken:
        with pytest.raises(DamagedItem):
            net_of(broken)


@given(merged_collections(), st.data())
def test_merged_bytes_of_any_content_are_refused_or_ids(
    collection: tuple[dict[str, Any], list[Item]], data: st.DataObject
) -> None:
    """Ids flipped, cut, moved, doubled or made up: the net is named, or they are other ids."""
    net, entries = collection
    packed = net["merged"]["B"]
    broken = data.draw(st.one_of(mutated(packed), st.binary(max_size=64), st.just(packed * 2)))
    assert_taken_at_its_word(sealed({**net, "merged": {"B": broken}}), entries)


@given(merged_collections(), st.data())
def test_a_net_with_its_digest_is_whole_or_named(
    collection: tuple[dict[str, Any], list[Item]], data: st.DataObject
) -> None:
    """Whatever one attribute became, a cut at the border of an id too, the net is named."""
    net = collection[0]
    packed = net["merged"]["B"]
    cut = st.integers(0, len(packed) // 16 - 1).map(lambda ids: packed[: 16 * ids])
    bytes_broken = st.one_of(mutated(packed), st.binary(max_size=64), cut)
    others = bytes_broken.map(lambda broken: ("merged", {**net, "merged": {"B": broken}}))
    name, broken = data.draw(st.one_of(damaged(net), others))
    try:
        found = net_of(broken)
    except DamagedItem as error:
        assert_named(error, broken)
    else:
        assert found == net_of(net)
        assert name in ("change", "count") or broken == net


@given(merged_collections(), st.data())
def test_merged_bytes_cut_within_an_id_or_doubled_are_refused(
    collection: tuple[dict[str, Any], list[Item]], data: st.DataObject
) -> None:
    """Part of an id, or all of them twice, is never read as a shorter or longer list."""
    net, entries = collection
    packed = net["merged"]["B"]
    cut = data.draw(st.integers(1, len(packed) - 1).filter(lambda length: length % 16))
    for broken in (packed[:cut], packed[cut:], packed * 2, packed + packed[-16:]):
        item = {**net, "merged": {"B": broken}}
        with pytest.raises(DamagedItem, match="merged") as caught:
            collect([*entries, item])
        assert_named(caught.value, item)


@given(merged_collections(), st.integers(0, 6))
def test_a_net_that_counts_fewer_than_it_names_is_refused(
    collection: tuple[dict[str, Any], list[Item]], count: int
) -> None:
    """A count below the number of ids shows that one of the two is damaged."""
    net, _ = collection
    named = len(net["merged"]["B"]) // 16
    item = sealed({**net, "count": {"N": str(count)}})
    if count >= named:
        assert net_of(item).count == count
        return
    with pytest.raises(DamagedItem, match="count") as caught:
        net_of(item)
    assert_named(caught.value, item)


@given(merged_collections(), st.from_regex(r"~net#[0-9]{0,5}[x#]?", fullmatch=True))
def test_a_net_under_any_key_is_a_generation_or_named(
    collection: tuple[dict[str, Any], list[Item]], sort_key: str
) -> None:
    """Whatever begins like a net is one of a generation of four digits, or named as damaged."""
    net, entries = collection
    item = sealed({**net, "sk": {"S": sort_key}})
    if keys.generation_of(sort_key) is None:
        with pytest.raises(DamagedItem) as caught:
            collect([*entries, item])
        assert_named(caught.value, item)
    else:
        assert keys.net_sort_key(net_of(item).generation) == sort_key


@given(merged_collections(), st.data())
def test_a_signed_net_is_the_same_or_refused(
    collection: tuple[dict[str, Any], list[Item]], data: st.DataObject
) -> None:
    """Whatever one attribute became, and whatever digest was put for it: who has no key signs none.

    The order of attributes is nothing: DynamoDB gives them in any.
    """
    signed = KEYS.signed(collection[0])
    shuffled = dict(data.draw(st.permutations(list(signed.items()))))
    assert KEYS.signed(shuffled) == signed
    assert KEYS.checked(shuffled, COUNTER) is shuffled
    _, broken = data.draw(damaged(signed))
    made = sealed(broken)
    if KEYS.fault(made) is None:
        assert net_of(made) == net_of(signed)
    else:
        with pytest.raises(DamagedItem):
            net_of(KEYS.checked(made, COUNTER))
