"""From items to a total: what counts, what does not, and what cannot be read."""

import itertools
from decimal import Decimal

import pytest

from ledger.core.entry import Item, entry_item, net_item
from ledger.core.errors import AmountOverflow, DamagedItem, LedgerError
from ledger.core.fold import Collection, at_once, collect
from ledger.core.ids import EntryId
from ledger.core.sums import COPY, SumPlace
from ledger.core.values import Entry, NetChange

IDS = [EntryId(1_700_000_000_000_000 + number, number) for number in range(4)]


def entry(number: int, change: Decimal | int) -> Item:
    """Return an entry of ours."""
    return entry_item(Entry("a", str(IDS[number]), Decimal(change)))


def net(change: int, *merged: int, generation: int = 1) -> Item:
    """Return a net change that has merged these entries."""
    packed = tuple(IDS[number] for number in merged)
    return net_item(
        NetChange(Decimal(change), len(packed), packed, "v", "", "home", generation), "a"
    )


def added(
    value: int | str,
    version: int | str = 1,
    *,
    region: str = "a.b",
    epoch: int = 1,
    slot: int = 0,
    copy: bool = False,
) -> Item:
    """Return the sum item of a region, or the copy of one."""
    sort_key = f"{SumPlace(region, epoch, slot).sort_key}{COPY if copy else ''}"
    return foreign(sort_key, value=str(value), version=str(version))


def foreign(key: str, **attributes: str) -> Item:
    """Return an item of another tool."""
    numbers = {name: {"N": text} for name, text in attributes.items()}
    return {"pk": {"S": "a"}, "sk": {"S": key}, **numbers}


@pytest.mark.parametrize(
    ("items", "total"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([entry(0, 3), entry(1, -1)], 2, id="entries"),
        pytest.param([net(7)], 7, id="a net change alone"),
        pytest.param([entry(0, 3), net(7)], 10, id="an entry that is not merged"),
        pytest.param([entry(0, 3), net(7, 0)], 7, id="an entry that is merged"),
        pytest.param([entry(0, 3), entry(1, 4), net(7, 1, 2)], 10, id="one of both"),
        pytest.param([foreign("a458fc3d", change="5")], 5, id="a foreign entry"),
        pytest.param([foreign("a458fc3d", change="5"), net(7, 0)], 12, id="foreign beside net"),
        pytest.param([foreign("settings", size="5"), entry(0, 1)], 1, id="no change: not ours"),
        pytest.param([foreign("settings")], 0, id="only keys"),
        pytest.param([entry(0, 1), entry(0, 1)], 1, id="the same entry on two pages"),
        pytest.param([entry(0, 3), net(7, 0), added(5)], 12, id="a sum beside net and entries"),
        pytest.param([entry(0, 3), added(5)], 8, id="a sum and a plain entry"),
        pytest.param([added(5), added(2, region="b"), added(1, slot=1)], 8, id="several sums"),
        pytest.param([added(5), added(4, epoch=2)], 9, id="epochs of one region"),
        pytest.param([added(5), added(6, 2, copy=True)], 6, id="a copy that is newer"),
        pytest.param([added(7, 3), added(6, 2, copy=True)], 7, id="an item newer than its copy"),
        pytest.param([added(6, 2, copy=True)], 6, id="a copy alone"),
        pytest.param([net(1), net(2, generation=2)], 2, id="the highest generation"),
        pytest.param([net(2, generation=2), net(1)], 2, id="whichever comes first"),
        pytest.param(
            [entry(0, 3), net(3, 0), net(5, generation=2)], 8, id="merged by the highest only"
        ),
    ],
)
def test_each_change_counts_once(items: list[Item], total: int) -> None:
    """The total is the net change plus every entry that it does not count yet."""
    assert collect(items).total() == total


@pytest.mark.parametrize(
    "item",
    [
        pytest.param({**entry(0, 1), "change": {"S": "1"}}, id="an entry's change is text"),
        pytest.param(foreign(str(IDS[0])), id="an entry without a change"),
        pytest.param(foreign("a458", change="1" * 39), id="a foreign change of 39 digits"),
        pytest.param({**foreign("a458"), "change": {"BOOL": True}}, id="a change of no number"),
        pytest.param({**net(1), "merged": {"B": b"cut"}}, id="a net change's merged cut"),
        pytest.param(foreign("~net#0001", change="1"), id="a net change without the rest"),
        pytest.param({**net(1), "sk": {"S": "~net#x"}}, id="a net change of no generation"),
    ],
)
def test_no_total_rests_on_a_damaged_item(item: Item) -> None:
    """What should be counted and cannot be read raises, naming counter and item."""
    with pytest.raises(DamagedItem, match="'a'") as raised:
        collect([entry(1, 5), item])
    assert item["sk"]["S"] in str(raised.value)


@pytest.mark.parametrize("text", ["1,2", "1,", ",", "1_0", "", "five"])
def test_a_text_that_is_no_number_never_passes_for_one(text: str) -> None:
    """However a page is checked at once, one bad text in it is found and its item named."""
    with pytest.raises(DamagedItem, match="'b58'"):
        collect([entry(1, 5), foreign("b58", change=text), entry(2, 7)])


@pytest.mark.parametrize("odd", ["1E+2", " 100 ", "+100", "1" + "0" * 30])
def test_an_odd_number_counts_as_any_other(odd: str) -> None:
    """A page that is read item by item, before or after others, changes nothing."""
    value = int(Decimal(odd.strip()))
    pages = [[entry(0, 1), net(9, 0)], [foreign("odd", change=odd)], [entry(1, 2), entry(0, 1)]]
    for order in itertools.permutations(pages):
        collection = Collection()
        for page in order:
            collection.add(page)
        assert collection.total() == 11 + value
        assert collection.unmerged().entries == 2
        assert collection.entries == {str(IDS[0]): 1, str(IDS[1]): 2, "odd": value}


def test_items_without_a_partition_are_named_by_that_of_the_collection() -> None:
    """Read without their partition key, entries and nets are what they are with it."""
    bare: list[Item] = [
        {name: value for name, value in item.items() if name != "pk"}
        for item in (entry(0, 3), entry(1, 4), net(3, 0))
    ]
    collection = Collection(partition="a")
    collection.add(bare)
    assert collection.total() == 7
    with pytest.raises(DamagedItem, match=r"counter 'b' is damaged: the digest"):
        Collection(partition="b").add(bare)
    with pytest.raises(DamagedItem, match="'b58' of counter 'a' is damaged"):
        collection.add([{"sk": {"S": "b58"}, "change": {"S": "1"}}])


def test_a_sum_goes_with_its_net() -> None:
    """What was summed up under one net gives no total under another."""
    collection = Collection()
    collection.add([entry(0, 3), entry(1, 4)])
    at_once(collection.condense(collect([net(3, 0)]).net, upto=str(IDS[1])))
    assert collection.below is not None
    assert (collection.below.entries, collection.kept) == (0, 1)
    with pytest.raises(LedgerError, match="belongs to net"):
        collection.total()
    with pytest.raises(LedgerError, match="belongs to net"):
        at_once(collection.condense(None))
    collection.add([net(3, 0)])
    assert collection.total() == 7


def test_a_total_that_does_not_fit_is_an_error() -> None:
    """A total is never rounded."""
    with pytest.raises(AmountOverflow):
        collect([entry(0, Decimal("1E+38")), entry(1, 1)]).total()


def test_a_total_may_pass_through_values_that_do_not_fit() -> None:
    """Only the whole sum has to fit."""
    items = [entry(0, Decimal("1E+38")), entry(1, 1), entry(2, Decimal("-1E+38"))]
    assert collect(items).total() == 1


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)], ids=str)
def test_nets_that_do_not_count_are_known(order: tuple[int, ...]) -> None:
    """The generations of further nets are kept, page by page and whatever comes first."""
    items = [net(generation, generation=generation) for generation in order]
    apart = Collection(partition="a")
    for item in items:
        apart.add([item])
    for collection in (collect(items), apart):
        assert collection.total() == 3
        assert collection.outdated == {1, 2}
    assert collect(items[:1]).outdated == frozenset()


def test_a_damaged_net_that_does_not_count_is_not_read() -> None:
    """What stands for nothing cannot hide a total."""
    assert collect([{**net(1), "merged": {"S": "x"}}, net(2, generation=2)]).total() == 2


@pytest.mark.parametrize(
    "item",
    [
        added("1E+39x"),
        added(1, "0"),
        added(1, "1.5"),
        foreign("~sum#a.1#0", version="1"),
        foreign("~sum#a.1#0", value="1"),
        foreign("~sum#a.0#0", value="1", version="1"),
        foreign("~sum#a.1", value="1", version="1"),
        foreign("~sum#a.1#0#other", value="1", version="1", change="5"),
    ],
)
def test_a_sum_that_cannot_be_read_is_never_left_out(item: Item) -> None:
    """Nor is it taken for a foreign entry because it has a change."""
    with pytest.raises(DamagedItem, match="~sum#"):
        collect([entry(0, 1), item])


def test_sums_are_exact_and_their_overflow_is_an_error() -> None:
    """38 digits are what a total has; more is refused, as of entries."""
    wide = collect([added("0.000000000000001"), added("99999999999999999999999", slot=1)])
    assert wide.total() == Decimal("99999999999999999999999.000000000000001")
    assert (wide.additions, wide.sums[SumPlace("a.b", 1, 1)].version) == (2, 1)
    with pytest.raises(AmountOverflow):
        collect([entry(0, 1), added("1E+38")]).total()
