from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import decimals

from ledger.core.amounts import portion, total_wide
from ledger.core.entry import Item
from ledger.core.errors import DamagedItem, InvalidInput
from ledger.primitives.counters.layout import (
    EARLIER_MAX,
    LAYOUT,
    SHARDS_MAX,
    Layout,
    Shape,
    checked_change,
    finishing,
    freeze,
    is_readable,
    layout_item,
    layout_of,
    portions,
    revision_of,
    shard_key,
    shard_keys,
    stands,
)
from ledger.primitives.counters.thresholds import Thresholds
from ledger.store.conditions import holds
from ledger.store.writes import TRANSACTION_ACTIONS_MAX, Update

AMOUNTS = decimals(0, 10**6, places=3)
REVISIONS = st.integers(0, 5)


def shard_item(revision: int) -> Item:
    """Return the item of a shard with this revision, 0 for none."""
    partition, sort_key = shard_key("c", 0, "sum")
    item = {"pk": {"S": partition}, "sk": {"S": sort_key}, "value": {"N": "5"}}
    return {**item, LAYOUT: {"N": str(revision)}} if revision else item


@pytest.mark.parametrize(
    "layout",
    [
        Layout("sum", 1),
        Layout("history", 8, 3, (4, 2)),
        Layout("sum", 6, 0, (), Shape("optimistic", 2)),
    ],
)
def test_a_layout_is_read_as_it_was_written(layout: Layout) -> None:
    """With what is pending, if a change is under way."""
    item = dict(layout_item("c", layout))
    if layout.pending is not None:
        kind, shards, _ = layout.pending
        item["pending"] = {"M": {"kind": {"S": kind}, "shards": {"N": str(shards)}}}
    assert layout_of(item) == layout


def test_revisions_that_are_no_numbers_are_damage() -> None:
    """They are not taken for 0."""
    with pytest.raises(DamagedItem, match="layout"):
        revision_of({**shard_item(0), LAYOUT: {"S": "x"}})
    with pytest.raises(DamagedItem, match="layout"):
        revision_of({**shard_item(0), LAYOUT: {"N": "x"}})


@given(found=st.integers(-6, 6), revision=REVISIONS)
def test_a_write_of_one_revision_meets_no_other(found: int, revision: int) -> None:
    """Its condition holds for the items of that revision, not frozen, and no others."""
    assert holds(stands(LAYOUT, revision), shard_item(found)) == (found == revision)


@given(found=st.integers(-6, 6), revision=REVISIONS)
def test_what_is_frozen_stays_frozen(found: int, revision: int) -> None:
    """A freeze takes what is of its revision or before, and never what is of a later one."""
    condition = freeze(shard_key("c", 0, "sum"), revision).condition
    assert holds(condition, shard_item(found)) == (abs(found) <= revision)
    assert holds(condition, None)


@given(revision=REVISIONS)
def test_what_is_left_over_is_not_read(revision: int) -> None:
    """An item no longer used is readable by no layout before, which would take it for its value."""
    layout = Layout("sum", 2, revision, (), Shape("sum", 1))
    keys = shard_keys("c", layout.shape)
    frozen = {key: shard_item(-(revision + 1)) for key in keys}
    after = [update for update in finishing("c", layout, frozen)[1:] if isinstance(update, Update)]
    left = int(after[1].set[LAYOUT]["N"])
    assert not any(is_readable(shard_item(left), before) for before in range(revision + 1))
    assert after[1].set["value"] == {"N": "0"}
    assert after[0].set["value"] == {"N": "10"}


def test_the_largest_change_is_one_transaction() -> None:
    """All items, old and new, and the layout's own; beyond, it is refused before it begins."""
    layout = Layout("sum", 1, 2, (), Shape("sum", SHARDS_MAX))
    frozen = {key: shard_item(-3) for key in shard_keys("c", Shape("sum", SHARDS_MAX))}
    assert len(finishing("c", layout, frozen)) < TRANSACTION_ACTIONS_MAX
    checked_change("c", layout, Shape("sum", SHARDS_MAX))
    checked_change("c", Layout("sum", 48), Shape("history", 48))
    for before, after in (
        (Shape("sum", 49), Shape("history", 48)),
        (Shape("sum", 97), Shape("sum", 1)),
    ):
        with pytest.raises(InvalidInput, match="up to 96 items"):
            checked_change("c", Layout(before.kind, before.shards), after)


def test_earlier_numbers_are_remembered_the_latest_first() -> None:
    """Each once, and only some: a token is looked for where each of them placed it."""
    layout = Layout("history", 1)
    for shards in (2, 3, 2, 5, 6, 7):
        layout = layout.changed(Shape("history", shards))
    assert layout.earlier == (6, 5, 2, 3)
    assert len(layout.earlier) == EARLIER_MAX
    assert layout.revision == 6


@given(value=AMOUNTS, more=AMOUNTS, shards=st.integers(1, 9), negative=st.booleans())
def test_portions_within_a_bound_are_within_its_parts(
    value: Decimal, more: Decimal, shards: int, *, negative: bool
) -> None:
    """No shard passes its part where the whole does not pass the whole, whatever the fractions."""
    if negative:
        value, more = value.copy_negate(), more.copy_negate()
    bound = total_wide((value, more))
    whole = Thresholds(minimum=bound) if negative else Thresholds(maximum=bound)
    held = portions(value, shards)
    parts = [whole.part(shard, shards) for shard in range(shards)]
    assert total_wide(held) == value
    assert total_wide(part.minimum or part.maximum or Decimal(0) for part in parts) == bound
    for one, part in zip(held, parts, strict=True):
        assert part.minimum is None or one >= part.minimum
        assert part.maximum is None or one <= part.maximum


def test_plain_portions_would_pass_a_bound() -> None:
    """The reason for whole units: 99.5 in tenths, beside a bound of 100 in ones, lets 101.6 in."""
    held = [portion(Decimal("99.5"), shard, 8) for shard in range(8)]
    parts = [portion(Decimal(100), shard, 8) for shard in range(8)]
    assert total_wide(map(max, held, parts)) == Decimal("101.6")
