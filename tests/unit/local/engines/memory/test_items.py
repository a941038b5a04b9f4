import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.local.engines.memory.items import SortRange, TableItems
from ledger.local.engines.port import Image, TableKey

KEY = TableKey(("pk", "sk"), ("S", "S"))


def image(partition: str, sort: str) -> Image:
    """Give an item with this key and nothing else."""
    return {"pk": {"S": partition}, "sk": {"S": sort}}


def filled(*places: tuple[str, str]) -> TableItems:
    """Give a table that holds items with these keys."""
    items = TableItems(KEY)
    for place in places:
        items.put(place, image(*place))
    return items


def sorts(items: TableItems, **options: object) -> list[str]:
    """Give the sort keys of collection `a` in the order of a walk."""
    walk = items.query("a", **options)  # type: ignore[arg-type]  # options vary by test
    return [stored.image["sk"]["S"] for stored in walk]


def test_a_collection_is_walked_in_the_order_of_the_sort_key() -> None:
    """Items come in the order of their sort keys, whichever way they were put."""
    items = filled(("a", "3"), ("a", "1"), ("b", "9"), ("a", "2"))
    assert sorts(items) == ["1", "2", "3"]
    assert sorts(items, forward=False) == ["3", "2", "1"]


def test_a_walk_goes_on_behind_a_key_that_is_gone() -> None:
    """The start key of a page need not exist any more."""
    items = filled(("a", "1"), ("a", "2"), ("a", "3"))
    items.delete(("a", "2"))
    assert sorts(items, after=("a", "2")) == ["3"]
    assert sorts(items, after=("a", "2"), forward=False) == ["1"]


@pytest.mark.parametrize(
    ("comparison", "operands", "expected"),
    [
        ("=", ("b",), ["b"]),
        ("<", ("b",), ["a", "aa"]),
        ("<=", ("b",), ["a", "aa", "b"]),
        (">", ("b",), ["ba", "c"]),
        (">=", ("b",), ["b", "ba", "c"]),
        ("BETWEEN", ("aa", "ba"), ["aa", "b", "ba"]),
        ("BETWEEN", ("c", "a"), []),
        ("begins_with", ("a",), ["a", "aa"]),
        ("begins_with", ("b",), ["b", "ba"]),
        ("begins_with", ("x",), []),
    ],
)
def test_sort_conditions(comparison: str, operands: tuple[str, ...], expected: list[str]) -> None:
    """Each comparison of a key condition selects what DynamoDB documents."""
    items = filled(*(("a", sort) for sort in ("a", "aa", "b", "ba", "c")))
    assert sorts(items, sort=SortRange(comparison, operands)) == expected


@given(
    st.lists(st.tuples(st.text("abcdef", max_size=3), st.text("xyz", max_size=2)), max_size=60),
    st.integers(1, 9),
    st.integers(1, 4),
)
def test_segments_hold_every_item_once_and_collections_whole(
    places: list[tuple[str, str]], segments: int, page: int
) -> None:
    """A parallel scan in pages of any size sees each item once, a collection in one segment."""
    items = filled(*places)
    seen: list[tuple[str, str]] = []
    homes: dict[str, int] = {}
    for segment in range(segments):
        after = None
        while True:
            walk = items.scan(segment=segment, segments=segments, after=after)
            found = [stored.image for stored, _ in zip(walk, range(page), strict=False)]
            for item in found:
                place = (item["pk"]["S"], item["sk"]["S"])
                seen.append(place)
                assert homes.setdefault(place[0], segment) == segment
                after = place
            if not found:
                break
    assert sorted(seen) == sorted(set(places))


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.sampled_from("xyz"))))
def test_puts_and_deletes_behave_like_a_dictionary(steps: list[tuple[bool, str, str]]) -> None:
    """Whatever is put and deleted, the table holds what a plain dictionary would."""
    items = TableItems(KEY)
    model: dict[tuple[str, str], Image] = {}
    for is_put, partition, sort in steps:
        place = (partition, sort)
        if is_put:
            items.put(place, image(*place))
            model[place] = image(*place)
        else:
            items.delete(place)
            model.pop(place, None)
    assert len(items) == len(model)
    assert sorted(map(str, items.every())) == sorted(map(str, model.values()))
    assert sorts(items) == sorted(sort for partition, sort in model if partition == "a")


def test_a_query_costs_the_same_beside_many_other_items() -> None:
    """Reading one collection does not look at the 20,000 items beside it."""
    few, many = filled(("a", "1")), filled(("a", "1"))
    for number in range(20_000):
        place = (f"other{number % 500}", str(number))
        many.put(place, image(*place))

    def cost(items: TableItems) -> float:
        best = []
        for _ in range(20):
            began = time.perf_counter()
            for _ in range(50):
                assert sorts(items) == ["1"]
            best.append(time.perf_counter() - began)
        return min(best)

    assert cost(many) < 20 * cost(few)


def test_numeric_sort_keys_are_ordered_as_numbers() -> None:
    """Sort keys of type N follow their value, not their digits."""
    items = TableItems(TableKey(("pk", "sk"), ("S", "N")))
    for number in ("10", "9", "-1", "9.5"):
        item = {"pk": {"S": "a"}, "sk": {"N": number}}
        items.put(items.place(item), item)
    assert [stored.image["sk"]["N"] for stored in items.query("a")] == ["-1", "9", "9.5", "10"]


def test_a_table_without_sort_key_holds_one_item_per_key() -> None:
    """A partition key alone tells items apart."""
    items = TableItems(TableKey(("pk",), ("S",)))
    for version in ("1", "2"):
        item = {"pk": {"S": "a"}, "v": {"N": version}}
        items.put(items.place(item), item)
    assert [stored.image["v"] for stored in items.scan()] == [{"N": "2"}]
    items.delete(("a", None))
    assert len(items) == 0
