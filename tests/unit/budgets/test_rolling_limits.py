"""Rolling limits of programs: what was spent comes back after the window, and not before."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal

import pytest
from support.budgets import exactly

from ledger import Table
from ledger.budgets import rights_plan, rolling_limits
from ledger.budgets.rights import Holder, Rights, rights_item, rights_of
from ledger.budgets.rolling_limits import LASTING
from ledger.budgets.spend_request import Granted, Refused
from ledger.core.budget_rules import BUCKETS
from ledger.core.entry import entry_id
from ledger.core.errors import SettingsError
from ledger.testing import MemoryGlobalTable
from ledger.testing.clock import START

EAST, WEST = "us-east-1", "eu-west-1"
HOUR, DAY = 3600.0, 86_400.0
ME = Holder(EAST)


def item(**values: object) -> Rights:
    """Return an item of a rolling limit with buckets of an hour."""
    return replace(rights_plan.create(ME, Decimal(10), bucket=int(HOUR)), **values)  # type: ignore[arg-type]


@asynccontextmanager
async def opened(limit: int = 10) -> AsyncIterator[tuple[MemoryGlobalTable, Table, Table]]:
    """Open a table of two regions with a budget `key/42` of so much in any 24 hours."""
    world = MemoryGlobalTable([EAST, WEST], budgets={"key/*": {"rolling": DAY}})
    async with world.table(EAST) as east, world.table(WEST) as west:
        assert await east.budget("key/42").create(limit)
        world.replicate()
        yield world, east, west


async def test_what_was_spent_comes_back_a_day_later() -> None:
    """To the region that spent it, from where others fetch it; the total is that of all days."""
    async with opened() as (world, east, west):
        assert isinstance(await west.budget("key/42").spend(6), Granted)
        assert isinstance(await east.budget("key/42").spend(4), Granted)
        world.replicate()
        await world.clock.advance(DAY - HOUR)
        refused = await east.budget("key/42").spend(1)
        assert isinstance(refused, Refused)
        await world.clock.advance(3 * HOUR)
        world.replicate()
        state = await east.budget("key/42").state()
        assert [int(one) for one in (state.limit, state.charged, state.granted)] == [10, 0, 0]
        assert state.free == state.limit
        assert isinstance(await east.budget("key/42").spend(9), Granted)
        assert (await east.ledger.total("key/42", max_age=0)).value in {-13, -19}


def test_an_item_is_read_as_it_was_written() -> None:
    """With its buckets; another limit's has none of it."""
    rights = item(charged=Decimal(7), returned=Decimal(2), buckets={497_222: Decimal("4.5")})
    assert rights_of(rights_item(rights, "key/42")) == rights
    plain = rights_item(rights_plan.create(ME, Decimal(10)), "key/42")
    assert not {"bucket", "buckets", "returned"} & plain.keys()


def test_what_is_charged_is_dated_once() -> None:
    """In the bucket of the time at which it was; a second look changes nothing."""
    now = 10 * HOUR + 1
    dated = rolling_limits.dated(item(charged=Decimal(3)), now)
    assert dated.buckets == {10: 3}
    assert rolling_limits.dated(dated, now + HOUR) is dated
    later = rolling_limits.dated(replace(dated, charged=Decimal(5)), now + HOUR)
    assert later.buckets == {10: 3, 11: 2}


def test_what_is_charged_in_the_same_hour_is_in_one_bucket() -> None:
    """With what was in it: else that would come back later than the rest."""
    now = 10 * HOUR + 1
    rights = item(charged=Decimal(8), buckets={9: Decimal(1), 10: Decimal(3)})
    assert rolling_limits.dated(rights, now).buckets == {9: 1, 10: 7}


def test_what_is_taken_back_lowers_the_oldest_buckets() -> None:
    """And what has come back is not given again."""
    rights = item(charged=Decimal(6), buckets={10: Decimal(2), 11: Decimal(4)})
    less = rolling_limits.dated(replace(rights, charged=Decimal(3)), 12 * HOUR)
    assert less.buckets == {11: 3}
    assert less.available == 7
    gone = item(charged=Decimal(6), returned=Decimal(6))
    after = rolling_limits.dated(replace(gone, charged=Decimal(4)), 40 * HOUR)
    assert (int(after.available), int(after.returned)) == (10, 4)
    assert not after.buckets


def test_what_is_taken_back_leaves_what_lasts() -> None:
    """It was not spent: what is given back beyond the buckets had come back already."""
    rights = item(charged=Decimal(9), buckets={10: Decimal(4), LASTING: Decimal(5)})
    less = rolling_limits.dated(replace(rights, charged=Decimal(3)), 12 * HOUR)
    assert less.buckets == {LASTING: 5}
    assert (int(less.returned), int(rolling_limits.lasting(less))) == (-2, 5)
    assert rolling_limits.lasting(item()) == 0


def test_a_bucket_comes_back_after_the_window_and_the_margin() -> None:
    """Not a second before."""
    rights = item(charged=Decimal(4), buckets={10: Decimal(4)})
    due = rolling_limits.returned_by(rights, 10, 60.0)
    assert due == 35 * HOUR + 60
    assert rolling_limits.roll_forward(rights, exactly(due - 1), margin=60.0).available == 6
    back = rolling_limits.roll_forward(rights, exactly(due), margin=60.0)
    assert (int(back.available), int(back.spent)) == (10, 0)
    assert not back.buckets
    assert back.version == rights.version


def test_an_entry_has_come_back_when_its_bucket_has() -> None:
    """By the time in its id; one in another form is taken not to have, nor any of another limit."""
    entry, bucket = "1970-01-01T10:30:00.000000Z#00000000000000aa", 10
    due = rolling_limits.returned_by(item(), bucket, 60.0)
    assert rolling_limits.has_returned(item(), entry, due, margin=60.0)
    assert not rolling_limits.has_returned(item(), entry, due - 1, margin=60.0)
    assert not rolling_limits.has_returned(item(), "order-7", due, margin=60.0)
    assert not rolling_limits.has_returned(
        rights_plan.create(ME, Decimal(1)), entry, due, margin=60.0
    )


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"rolling": "10m"}, "from 24 minutes"),
        ({"rolling": "3700s"}, "24 times whole seconds"),
        ({"rolling": "24h", "window": "day"}, "any span"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused(rule: dict[str, str], message: str) -> None:
    """With the rule it breaks."""
    with pytest.raises(SettingsError, match=message):
        MemoryGlobalTable([EAST, WEST], budgets={"key/*": rule})


def test_the_margin_is_the_retry_horizon_and_four_times_the_skew() -> None:
    """`tests/property/test_rolling.py` shows why not less."""
    terms = MemoryGlobalTable().settings.terms
    assert terms.rolling_margin == terms.retry_horizon + 4 * terms.clock_skew


def test_a_hold_gives_back_until_its_entry_leaves_the_window() -> None:
    """By the time in its id: from then on what was held comes back by itself."""
    rights, made = item(), START.timestamp()
    entry = str(entry_id(START, 1))
    window = BUCKETS * rights.bucket
    assert not rolling_limits.has_left(rights, entry, made + window - 1)
    assert rolling_limits.has_left(rights, entry, made + window)
    assert rolling_limits.has_left(rights, "foreign", made)
    assert not rolling_limits.has_left(replace(rights, bucket=0), entry, made + 10 * window)
