from decimal import Decimal
from typing import Any

import pytest
from support.ledgers import HOME

from ledger.core import keys
from ledger.core.capacity import item_size
from ledger.core.entry import Item, key_of
from ledger.core.errors import DamagedItem, InvalidInput
from ledger.pipeline.core.category_sums import CategorySums
from ledger.pipeline.core.items import (
    MAP_LAST,
    MAP_PREFIX,
    lane_id,
    map_item,
    map_item_of,
    position_key,
    state_item,
    state_key,
    state_of,
)
from ledger.pipeline.core.transitions import State

STATE = State(
    version=10**37,
    image=CategorySums(Decimal("-1.5"), ("a", "b")),
    home=HOME,
    open={"us-east-1/lane": {"01": {"a": Decimal("0.1")}, "02": {"b": Decimal(-7)}}},
    kept='{"a":1}',
)


def test_a_state_is_read_as_it_was_written() -> None:
    """Version, value, categories, home and open transitions come back exactly."""
    item = state_item("T1", STATE)
    assert key_of(item) == state_key("T1")
    assert state_of(item) == STATE
    bare = State(0, CategorySums(Decimal(0), ("c",)), HOME, {})
    assert "open" not in state_item("T1", bare)
    assert state_of(state_item("T1", bare)) == bare


def test_a_usual_state_is_within_a_write_unit() -> None:
    """Three levels, positions as Kinesis has them, and two open transitions fit in 1 KB."""
    categories = tuple(f"risk/Delta/EMEA/desk-{number}-of-the-bank" for number in range(3))
    changes = dict.fromkeys(categories, Decimal("123456.78"))
    lane = "us-east-1/shardId-000000000012"
    open_ = {lane: {f"{number:056d}": changes for number in (1, 2)}}
    kept = '{"Hierarchy":{"RiskType":"Delta","Region":"EMEA","Desk":"desk-0-of-the-bank"}}'
    state = State(12, CategorySums(Decimal("123456.78"), categories), HOME, open_, 12, kept)
    assert item_size(state_item("TRADE-00012345678", state)) <= 1024


@pytest.mark.parametrize(
    "changed",
    [
        {"version": {"S": "1"}},
        {"version": {"N": "1.5"}},
        {"value": {"N": "much"}},
        {"categories": {"S": "a"}},
        {"home": {"N": "1"}},
        {"fields": {"M": {}}},
        {"open": {"L": []}},
        {"open": {"M": {"lane": {"S": "x"}}}},
        {"open": {"M": {"lane": {"M": {"01": {"S": "x"}}}}}},
        {"open": {"M": {"lane": {"M": {"01": {"M": {"a": {"S": "1"}}}}}}}},
        {"open": {"M": {"lane": {"M": {"01": {"M": {"a": {"N": "x"}}}}}}}},
    ],
)
def test_a_damaged_state_is_never_taken_for_another(changed: dict[str, Any]) -> None:
    """An attribute of another kind is an error that names the item."""
    with pytest.raises(DamagedItem, match="T1"):
        state_of({**state_item("T1", STATE), **changed})


def test_map_items_lie_between_their_bounds() -> None:
    """A Query between the bounds finds every map item of a lane, and not its position."""
    item = map_item("us-east-1/x", "f" * 64, 12, {"a": Decimal(3)})
    partition, sort_key = key_of(item)
    assert partition == position_key("us-east-1/x")[0]
    assert MAP_PREFIX < sort_key < MAP_LAST < position_key("us-east-1/x")[1]
    found = map_item_of(item)
    assert (found.key, found.changes) == ((partition, sort_key), {"a": Decimal(3)})
    assert found.size_bytes == item_size(item)


def test_damaged_sums_are_told() -> None:
    """A map item whose sums cannot be read is an error: nothing is counted in part."""
    item = map_item("us-east-1/x", "f" * 64, 0, {"a": Decimal(3)})
    damaged: list[Item] = [{**item, "sums": {"S": "3"}}, {key: item[key] for key in ("pk", "sk")}]
    for one in damaged:
        with pytest.raises(DamagedItem):
            map_item_of(one)


@pytest.mark.parametrize("text", ["1", "1~x", "~1~x", "state", "é", "a/b"])
def test_no_reader_takes_them_for_a_counter(text: str) -> None:
    """Partitions of the pipeline are the ledger's own: no counter, no shard of one."""
    for partition in (
        state_key(text)[0],
        position_key(lane_id(HOME, text))[0],
        state_key(text, "name")[0],
        position_key(lane_id(HOME, text), "name")[0],
    ):
        assert keys.counter_of(partition) is None


@pytest.mark.parametrize("name", ["", "x" * 600])
def test_a_lane_has_a_name(name: str) -> None:
    """An empty name, or one that keys cannot hold, is refused."""
    with pytest.raises(InvalidInput, match="lane"):
        lane_id(HOME, name)
