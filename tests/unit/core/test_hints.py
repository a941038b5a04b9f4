"""Hints: the same item for the same counter and span of time, ripe once the span has settled."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core import hints, keys
from ledger.core.entry import Item, entry_id
from ledger.core.hints import HINT_PARTITIONS, Hint, hint_for, hint_of, last_sort_key, ripe_hint
from ledger.core.values import Entry
from ledger.testing.clock import START

SETTLE = 900.0
SPAN = SETTLE / 3
SECONDS = st.floats(0, 10 * SETTLE)


def made(counter: str = "counter", seconds: float = 0.0) -> Hint:
    """Return the hint for a change made so long after the start."""
    hint = hint_for(counter, START + timedelta(seconds=seconds), settle=SETTLE)
    assert hint is not None
    return hint


def is_read(hint: Hint, seconds: float) -> bool:
    """Tell whether a pass at this moment reads the hint."""
    return hint.sort_key < last_sort_key(START + timedelta(seconds=seconds), settle=SETTLE)


@given(seconds=SECONDS, later=SECONDS)
def test_property_of_one_span_all_hints_are_one_item(seconds: float, later: float) -> None:
    """Two changes of a counter leave different hints only if a border of spans is between them."""
    one, other = made(seconds=seconds), made(seconds=later)
    assert (one.item == other.item) == (one.ripe == other.ripe)
    assert abs(later - seconds) < SPAN or one.ripe != other.ripe
    assert 0 < (one.ripe - START).total_seconds() - seconds <= SPAN + 1e-6


@given(seconds=SECONDS, passed=SECONDS)
def test_property_a_hint_is_read_when_all_of_its_span_has_settled(
    seconds: float, passed: float
) -> None:
    """No pass reads a hint that may still be left again, or whose changes are too young to fold."""
    hint = made(seconds=seconds)
    if is_read(hint, seconds + passed):
        end = (hint.ripe - START).total_seconds()
        assert seconds + passed > end + SETTLE - 1e-6
        assert passed > SETTLE - 1e-6
    assert is_read(hint, seconds + SETTLE + SPAN + 0.001)


@given(counter=st.text(min_size=1, max_size=40), seconds=SECONDS)
def test_property_a_hint_comes_back_from_its_item(counter: str, seconds: float) -> None:
    """What is read is what was written, whatever the counter is called; else it is no hint."""
    hint = made(counter, seconds)
    try:
        keys.checked_counter(counter)
    except ValueError:
        assert hint_of(hint.item) is None
    else:
        assert hint_of(hint.item) == hint
        assert hint.partition in HINT_PARTITIONS


@pytest.mark.parametrize(
    "sort_key",
    [
        "",
        "counter",
        "2026-11-21T06:50:00.000000Z",
        "2026-11-21T06:50:00.000000Z#",
        "2026-11-21T06:50:00.000000Z#~lease",
        "2026-13-21T06:50:00.000000Z#counter",
        "2026-11-21T06:50:00.000000Z/counter",
    ],
)
def test_what_is_no_hint(sort_key: str) -> None:
    """Items of another form under a hint's partition key are passed by."""
    assert hint_of({"pk": {"S": HINT_PARTITIONS[0]}, "sk": {"S": sort_key}}) is None


def test_a_hint_in_the_wrong_partition_is_none() -> None:
    """A hint is deleted under the key that it was read from, so the two must agree."""
    item: Item = {**made().item, "pk": {"S": "~hint-9"}}
    assert hint_of(item) is None


def test_the_ledger_takes_hints_for_no_counter() -> None:
    """Readers, the search and the tools pass the partitions of hints by."""
    assert all(keys.counter_of(partition) is None for partition in HINT_PARTITIONS)


def test_hints_are_spread() -> None:
    """A thousand counters share the partitions about evenly."""
    places = [made(f"counter-{number}").partition for number in range(1000)]
    assert min(places.count(partition) for partition in HINT_PARTITIONS) > 200


def test_a_long_id_is_beside_the_key() -> None:
    """A sort key has room for the time and 996 bytes; of a longer name it has the digest."""
    assert len(made("c" * 996).sort_key.encode()) == 1024
    for name in ("c" * 997, "ü" * 499, "c" * 1024, keys.partition_key("c" * 1024, 9_999)):
        hint = made(name)
        assert len(hint.sort_key.encode()) < 1024
        assert hint_of(hint.item) == hint
        assert hint_of(replace(hint, asked=True).item) == replace(hint, asked=True)
    assert made("c" * 997).sort_key != made("c" * 998).sort_key


@pytest.mark.parametrize(
    "name", [None, {"S": "d" * 997}, {"S": "short"}, {"S": "~lease"}, {"N": "1"}, "c"]
)
def test_a_long_id_that_is_not_that_of_its_key_is_no_hint(name: object) -> None:
    """The two must agree, since the hint is deleted under the key that follows from its name."""
    item = {key: value for key, value in made("c" * 997).item.items() if key != "name"}
    assert hint_of(item if name is None else {**item, "name": name}) is None  # type: ignore[dict-item]


@given(seconds=SECONDS)
def test_property_a_ripe_hint_is_read_at_once(seconds: float) -> None:
    """The hint for a collection that is known to be due leads the very next pass there."""
    now = START + timedelta(seconds=seconds)
    hint = ripe_hint("counter", now, settle=SETTLE)
    assert hint is not None
    assert is_read(hint, seconds + 0.001)


def entries(count: int) -> Iterable[Entry]:
    """Return entries with random ids."""
    chance = Random(5)  # noqa: S311 (repeatable)
    for _ in range(count):
        yield Entry("c", str(entry_id(START, chance.getrandbits(64))), 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("every", "least", "most"),
    [
        (100, 400, 600),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in [(1, 50_000, 50_000), (0, 0, 0), (7, 6900, 7400)]
        ),
    ],
)
def test_one_in_so_many_entries_leaves_a_hint(every: int, least: int, most: int) -> None:
    """Of 50,000 entries the share asked for leaves one: all for 1, none for 0."""
    below = hints.ending_below(every)
    assert least <= sum(entry.id[-4:] < below for entry in entries(50_000)) <= most


def test_a_hint_that_was_asked_comes_back_as_one() -> None:
    """It is the item of an ordinary hint, and says so in an attribute that others leave alone."""
    ordinary = made()
    asked = replace(ordinary, asked=True)
    assert (asked.partition, asked.sort_key) == (ordinary.partition, ordinary.sort_key)
    assert hint_of(asked.item) == asked
    assert hint_of({**ordinary.item, "asked": {"S": "foreign"}}) == ordinary
