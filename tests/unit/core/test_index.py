"""The index: its keys and their order, states and which replaces which, prefixes, the top."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import product

import pytest

from ledger.core.entry import AttributeValue
from ledger.core.errors import DamagedItem, InvalidCounter, InvalidInput
from ledger.core.index import (
    COUNTER_BYTES_MAX,
    INDEX_PARTITIONS,
    ONLY_LISTED,
    IndexState,
    Listed,
    TopList,
    attributes_of,
    bounds,
    checked_prefix,
    counter_in,
    covers,
    index_key,
    index_place,
    listed_of,
    state_of,
)
from ledger.core.values import NetChange

AT = datetime(2026, 11, 24, 8, 0, 0, tzinfo=UTC)


def item(
    counter: str, state: IndexState, *, shard: int = 0, generation: int = 1, at: datetime = AT
) -> dict[str, AttributeValue]:
    """Return the index item of a collection."""
    key = index_key(f"~{shard}~{counter}" if shard else counter, generation)
    assert key is not None
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}, **attributes_of(state, at)}


def state(count: int, value: int = 0, *, generation: int = 1) -> IndexState:
    """Return a state."""
    return IndexState(generation, count, Decimal(value))


def test_shards_lie_right_behind_their_counter() -> None:
    """In bytes order no other counter comes between a counter's shards, of all generations."""
    names = ["a", "a ", "a!", "a0", "a/b", "aa", "b", "a\u00e9", "a\U0001f600"]
    places = list(product(names, (0, 1, 10, 9999), (1, 2, 9999)))
    keys = {}
    for name, shard, generation in places:
        key = index_key(f"~{shard}~{name}" if shard else name, generation)
        assert key is not None
        assert index_place(key[1]) == (name, shard, generation)
        keys[key[1]] = name
    ordered = [keys[sort_key] for sort_key in sorted(keys, key=str.encode)]
    assert ordered == [name for name in sorted(names, key=str.encode) for _ in range(12)]


@pytest.mark.parametrize("numbers", ["", "x", "1\x1f2\x1f3", "\x1f", "-1"])
def test_a_foreign_sort_key_is_no_index_item(numbers: str) -> None:
    """What another tool put there is told from an item of the index."""
    assert index_place(f"c\x1f{numbers}") is None
    with pytest.raises(DamagedItem, match="sk must be a counter, its shard and a generation"):
        listed_of([{**item("c", state(3)), "sk": {"S": f"c\x1f{numbers}"}}])


def test_the_item_of_the_highest_generation_counts() -> None:
    """Shard by shard, whatever was put later under a key of before."""
    found = [
        item("c", state(9, 90)),
        item("c", state(3, 5, generation=2), generation=2),
        item("c", state(4, 40), shard=1),
        item("c", ONLY_LISTED, shard=1, generation=3),
        item("c", state(5, 50), shard=1, generation=2),
    ]
    for some in (found, found[::-1]):
        listed = listed_of(some)
        assert (listed.counter, listed.value, listed.count) == ("c", Decimal(5), 3)


def test_all_shards_of_a_counter_lie_in_one_partition() -> None:
    """So one reader of one partition sums them."""
    keys = [index_key(name, 1) for name in ("visits", "~1~visits", "~37~visits")]
    keys.append(index_key("~1~visits", 2))
    assert len({key[0] for key in keys if key is not None}) == 1
    assert {counter_in(key[1]) for key in keys if key is not None} == {"visits"}


def test_counters_are_spread_over_all_partitions() -> None:
    """Write throughput is that of several partitions."""
    found = [index_key(f"counter-{number}", 1) for number in range(100)]
    assert {key[0] for key in found if key is not None} == set(INDEX_PARTITIONS)


@pytest.mark.parametrize(
    "partition",
    ["~lease", "~index-0", "~description~a", "a\x1f0001", "x" * (COUNTER_BYTES_MAX + 1)],
)
def test_what_is_no_counter_or_too_long_is_not_listed(partition: str) -> None:
    """Reserved keys, foreign keys with control characters, and ids without room for a shard."""
    assert index_key(partition, 1) is None
    longest = index_key(f"~9999~{'x' * COUNTER_BYTES_MAX}", 9999)
    assert longest is not None
    assert len(longest[1].encode()) == 1024


def test_an_item_says_the_state_it_was_made_of() -> None:
    """State to item and back."""
    one = IndexState(2, 8, Decimal("-1.50"))
    assert state_of(item("c", one)) == one


def test_the_state_of_a_net_is_its_generation_count_and_change() -> None:
    """Without a net a counter is only listed."""
    net = NetChange(Decimal(7), 3, (), "v", "", "us-east-1", generation=4)
    assert IndexState.of(net) == IndexState(4, 3, Decimal(7))
    assert IndexState.of(None) == ONLY_LISTED


@pytest.mark.parametrize(
    ("mine", "there", "expected"),
    [
        (state(3), None, True),
        (ONLY_LISTED, None, True),
        (state(3), ONLY_LISTED, True),
        (ONLY_LISTED, state(3), False),
        (ONLY_LISTED, ONLY_LISTED, False),
        (state(4), state(3), True),
        (state(3), state(4), False),
        (state(3, 7), state(3, 7), False),
        (state(3, 7), state(3, 8), True),
        (state(1, generation=2), state(9, generation=1), True),
        (state(9, generation=1), state(1, generation=2), False),
    ],
)
def test_a_state_replaces_an_older_one(
    mine: IndexState, there: IndexState | None, *, expected: bool
) -> None:
    """By generation, then count; one of the same count that says another value is wrong."""
    assert mine.replaces(there) is expected


def test_shards_are_summed() -> None:
    """A counter's value and count are those of all shards, as of the earliest of them."""
    early = AT - timedelta(hours=1)
    found = listed_of([item("c", state(3, 5)), item("c", state(2, -7), shard=1, at=early)])
    assert found == Listed("c", Decimal(-2), 5, early)


@pytest.mark.parametrize("name", ["value", "count", "generation", "as_of"])
def test_an_item_without_an_attribute_is_damaged(name: str) -> None:
    """What was edited by hand is not taken for something else."""
    whole = item("c", state(3, 5))
    del whole[name]
    with pytest.raises(DamagedItem):
        listed_of([whole])


@pytest.mark.parametrize(
    ("patterns", "prefix", "expected"),
    [
        (("usage/*",), "usage/", True),
        (("usage/*",), "usage/acme", True),
        (("usage/*",), "usage", False),
        (("usage/*",), "", False),
        (("*",), "", True),
        (("votes", "usage/*"), "votes", False),
        (("votes/*", "usage/*"), "votes/1", True),
        (("us?ge/*",), "usage/", True),
        (("usage/[*",), "usage/[", True),
        ((), "usage/", False),
    ],
)
def test_a_prefix_is_covered_by_a_pattern_that_matches_all_that_begin_so(
    patterns: tuple[str, ...], prefix: str, *, expected: bool
) -> None:
    """A pattern that ends otherwise than in * covers none."""
    assert covers(patterns, prefix) is expected


def test_a_prefix_that_is_not_indexed_is_named_with_the_patterns() -> None:
    """The error says what is asked for, what there is, and the command."""
    with pytest.raises(
        InvalidInput, match=r"'us' .* has 'votes/\*', 'usage/\*' .*set index 'us\*'"
    ):
        checked_prefix("us", ("votes/*", "usage/*"))
    with pytest.raises(InvalidInput, match="has nothing"):
        checked_prefix("", ())


@pytest.mark.parametrize("prefix", ["~a", "a\n", 7, None])
def test_a_prefix_follows_the_rules_of_counters(prefix: object) -> None:
    """No counter begins otherwise."""
    with pytest.raises(InvalidCounter, match="prefix must"):
        checked_prefix(prefix, ("*",))


@pytest.mark.parametrize(
    ("prefix", "after", "expected"),
    [
        ("", None, (None, None)),
        ("a", None, ("a", "b")),
        ("a/", "a/x", ("a/x ", "a0")),
        ("\ud7ff", None, ("\ud7ff", "\ue000")),
        ("a\U0010ffff", None, ("a\U0010ffff", "b")),
        ("\U0010ffff", None, ("\U0010ffff", None)),
        ("", "x" * 1024, ("x" * 1024, None)),
    ],
)
def test_bounds_hold_the_prefix_and_begin_behind_a_counter(
    prefix: str, after: str | None, expected: tuple[str | None, str | None]
) -> None:
    """The last bound is the least text that does not begin with the prefix."""
    assert bounds(prefix, after) == expected


def listed(counter: str, value: int) -> Listed:
    """Return a listed counter."""
    return Listed(counter, Decimal(value), 1, AT)


def best(values: dict[str, int], count: int, *, smallest: bool = False) -> list[str]:
    """Return the best counters of some values."""
    found = TopList(count, smallest=smallest)
    for counter, value in values.items():
        found.add(listed(counter, value))
    return [one.counter for one in found.found()]


def test_the_best_are_the_largest_or_smallest_in_order() -> None:
    """Negative values are less than 0 for both."""
    values = {"a": 3, "b": -5, "c": 0, "d": 10, "e": -1}
    assert best(values, 2) == ["d", "a"]
    assert best(values, 2, smallest=True) == ["b", "e"]
    assert best(values, 9) == ["d", "a", "c", "e", "b"]


@pytest.mark.parametrize("smallest", [False, True])
def test_of_equal_values_the_first_is_the_better(*, smallest: bool) -> None:
    """So the answer is one, whatever is kept in between."""
    values = dict.fromkeys("abcdef", 1)
    assert best(values, 3, smallest=smallest) == ["a", "b", "c"]
