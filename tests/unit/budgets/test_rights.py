"""The rights item: exact sums, and what is read is what was written."""

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import decimals

from ledger.budgets import rights_plan
from ledger.budgets.amount_rules import checked_amount
from ledger.budgets.rights import (
    RESOLVED_KEPT,
    RESOLVED_SECONDS,
    Grant,
    GrantName,
    Holder,
    LateCharge,
    Rights,
    noted,
    of_late,
    rights_item,
    rights_of,
    write_of,
)
from ledger.core.amounts import EXACT, power_of_ten, scaled, total_wide
from ledger.core.capacity import item_size
from ledger.core.errors import AmountOverflow, DamagedItem, InvalidAmount, InvalidInput
from ledger.store.conditions import Absent, Equals

HERE, THERE = Holder("us-east-1"), Holder("eu-west-1", 2, 3)
COUNTER = "key/42"

amounts = decimals(0, 10**9, places=6)
signed = decimals(-(10**9), 10**9, places=6)
holders = st.builds(
    Holder,
    st.sampled_from(["us-east-1", "eu-west-1", "ap-south-1"]),
    st.integers(1, 9),
    st.integers(0, 9),
)
versions = st.integers(1, 10**12)
times = st.integers(0, 10**10)
grants = st.builds(Grant, amounts, times, times, st.text(max_size=8), st.sampled_from(["", "k/1"]))


def _sums(keys: st.SearchStrategy[Any], values: Any = amounts) -> st.SearchStrategy[Any]:
    return st.dictionaries(keys, values.filter(bool), max_size=3)


differences = st.builds(LateCharge, signed.filter(bool), times)
items = st.builds(
    Rights,
    holders,
    versions,
    minted=amounts,
    retired=amounts,
    charged=signed,
    sent=_sums(holders),
    taken=_sums(holders),
    grants=st.dictionaries(versions, grants, max_size=3),
    adjusted=_sums(versions, signed),
    resolved=st.dictionaries(st.text(min_size=1, max_size=8), differences, max_size=3),
    rate=amounts,
    want=amounts,
    cut=_sums(holders),
    raises=_sums(st.text(min_size=1, max_size=8)),
    raised=_sums(st.text(min_size=1, max_size=8)),
    reclaimed=_sums(holders, signed),
)


@given(items)
def test_what_is_read_is_what_was_written(rights: Rights) -> None:
    """Each attribute comes back, exact; what is 0 or empty takes no room."""
    assert rights_of(rights_item(rights, COUNTER)) == rights


@given(items)
def test_a_view_sums_to_what_it_says(rights: Rights) -> None:
    """What is available is what came in, less what is out."""
    income = total_wide((rights.minted, *rights.taken.values()))
    granted = (*(grant.amount for grant in rights.grants.values()), *rights.adjusted.values())
    outgo = (rights.retired, rights.charged, *granted, *rights.sent.values())
    assert rights.available == EXACT.subtract(income, total_wide(outgo))


def test_an_item_says_no_more_than_it_has_to() -> None:
    """The form of an item, by one example; nothing else rests on the notation."""
    rights = Rights(HERE, 7, Decimal(10), sent={THERE: Decimal("2.50")})
    rights = replace(rights, grants={7: Grant(Decimal(3), 100, 160, "me")})
    assert rights_item(rights, COUNTER) == {
        "pk": {"S": "~budget~key/42"},
        "sk": {"S": "rights#us-east-1.1/0"},
        "version": {"N": "7"},
        "minted": {"N": "10"},
        "sent": {"M": {"eu-west-1.2/3": {"N": "2.5"}}},
        "grants": {"M": {"7": {"L": [{"N": "3"}, {"N": "100"}, {"N": "160"}, {"S": "me"}]}}},
    }


def test_sixteen_grants_fit_in_a_write_unit() -> None:
    """So a take, a renewal or a close costs one."""
    some = {
        10**6 + n: Grant(Decimal(100), 1_790_000_000, 1_790_000_060, "8 bytes.") for n in range(16)
    }
    full = Rights(HERE, 10**6 + 16, Decimal(10**6), charged=Decimal("123456.78"), grants=some)
    assert item_size(rights_item(full, COUNTER)) < 1024


@pytest.mark.parametrize(
    "change",
    [
        {"sk": {"S": "rights#us-east-1"}},
        {"version": {"N": "0"}},
        {"version": {"S": "7"}},
        {"minted": {"S": "ten"}},
        {"sent": {"L": []}},
        {"sent": {"M": {"eu-west-1": {"N": "1"}}}},
        {"grants": {"M": {"x": {"L": []}}}},
        {"grants": {"M": {"7": {"L": [{"N": "1"}]}}}},
    ],
)
def test_an_item_that_cannot_be_read_whole_is_damaged(change: dict[str, Any]) -> None:
    """Nothing is granted by a part of it."""
    item = {**rights_item(rights_plan.create(HERE, Decimal(1)), COUNTER), **change}
    with pytest.raises(DamagedItem, match=r"readable whole|must be a number"):
        rights_of(item)


@pytest.mark.parametrize("text", ["us-east-1.1/0/7", "eu-west-1.2/3/9@org/1", "a.1/0/1@x/2/3@4"])
def test_a_name_comes_back(text: str) -> None:
    """Of a grant of another budget the counter is part of the name, whatever is in it."""
    assert str(GrantName.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "us-east-1.1/0", "us-east-1/0/7", "a.0/0/1", "a.1/0/00", "a.1/0/1@"]
)
def test_what_is_no_name_is_refused(text: str) -> None:
    """An epoch is a whole number from 1, a version one from 0, which names no grant."""
    with pytest.raises(ValueError, match="named REGION"):
        GrantName.parse(text)


def test_each_write_is_on_condition_of_what_was_read() -> None:
    """The first one on that of absence; the whole item is written."""
    first = rights_plan.create(HERE, Decimal(10))
    assert write_of(Rights(HERE), first, COUNTER).condition == Absent()
    taken = rights_plan.take(first, Decimal(3), since=0, expires=9, token="me")
    assert isinstance(taken, Rights)
    put = write_of(first, taken, COUNTER)
    assert put.condition == Equals("version", {"N": "1"})
    assert rights_of(put.item) == taken


def test_a_write_of_another_version_is_refused() -> None:
    """A plan follows what was read by one."""
    first = rights_plan.create(HERE, Decimal(10))
    with pytest.raises(InvalidInput, match="must follow version 1"):
        write_of(first, first, COUNTER)


def test_a_grant_that_has_not_arrived_is_not_closed() -> None:
    """Nor is one that is open; one that the item has no more is."""
    rights = Rights(HERE, 5, grants={4: Grant(Decimal(1), 0, 9, "me")})
    assert [rights.shows_closed(version) for version in (3, 4, 5, 6)] == [True, False, True, False]


@pytest.mark.parametrize("amount", [0, -1, 1.5, Decimal("NaN"), True])
def test_an_amount_is_above_zero_and_exact(amount: Any) -> None:
    """A float is no amount; neither is nothing."""
    with pytest.raises(InvalidAmount):
        checked_amount(amount, Decimal(10))


def test_an_amount_too_fine_for_its_limit_is_refused() -> None:
    """Else what is charged might not fit in 38 digits, and a grant could never be closed."""
    for limit, fine in ((10**20, -11), (10, -30), (10**37, 6), (99_999_999, -23)):
        finest = power_of_ten(fine)
        assert checked_amount(finest, Decimal(limit)) == finest
        with pytest.raises(AmountOverflow, match=re.escape(f"multiple of {finest:E} beside")):
            checked_amount(scaled(finest, -1), Decimal(limit))


@given(st.integers(0, 30), st.integers(0, 40))
def test_what_is_accepted_can_always_be_summed(digits: int, places: int) -> None:
    """Sums of accepted amounts, up to a million times the limit, fit in 38 digits."""
    limit, amount = Decimal(10**digits), power_of_ten(-places)
    try:
        checked_amount(amount, limit)
    except AmountOverflow:
        return
    full = Rights(HERE, 1, limit, charged=EXACT.subtract(scaled(limit, 6), amount))
    assert rights_of(rights_item(full, COUNTER)).charged == full.charged


def test_of_resolved_holds_the_last_are_named_and_none_for_long() -> None:
    """An item stays small; one that came to what was held says nothing."""
    many = {f"{at:03}": LateCharge(Decimal(-1), at) for at in range(RESOLVED_KEPT + 5)}
    kept = noted({}, many)
    assert [*kept] == [*many][5:]
    assert noted(kept, {"id": LateCharge(Decimal(0), 99)}) == kept
    last = {"id": LateCharge(Decimal(2), RESOLVED_SECONDS + 10)}
    assert [*noted(kept, last)] == [*[*many][11:], "id"]
    assert of_late(last, RESOLVED_SECONDS + 10 + RESOLVED_SECONDS) == {}
