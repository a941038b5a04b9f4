"""How a hold is resolved: once, on condition of what was read."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from ledger.budgets import hold_rules
from ledger.budgets.hold_rules import SeparateCharge
from ledger.budgets.rights import Grant, GrantName, Holder, Rights
from ledger.budgets.rights_plan import TooFewRights
from ledger.budgets.spend_record import SpendRecord, spend_attributes
from ledger.core.entry import entry_id
from ledger.core.errors import InvalidInput
from ledger.store.conditions import holds as is_true
from ledger.testing.clock import START

HERE, THERE = Holder("us-east-1"), Holder("eu-west-1")
D = Decimal
KEY = ("key/42", "id")
NOW = 1_000_000.0
HOUR, DAY = 3_600.0, 86_400.0
HOLD = SpendRecord("id", D(5), (GrantName(HERE, 2),), hold=100)
RIGHTS = Rights(HERE, 2, D(10), grants={2: Grant(D(8), 0, 60, "me")})


def _item(spend: SpendRecord) -> dict[str, Any]:
    return {"change": {"N": str(-spend.amount)}, **spend_attributes(spend)}


@pytest.mark.parametrize(("actual", "difference"), [(3, -2), (5, 0), (7, 2), (0, -5)])
def test_a_hold_settles_for_what_it_came_to(actual: int, difference: int) -> None:
    """For less or more than was held."""
    resolved = hold_rules.settle(HOLD, D(actual))
    assert resolved.after.amount == actual
    assert resolved.after.resolved == "settled"
    assert resolved.difference == difference


def test_a_hold_is_resolved_by_one_update_of_its_entry() -> None:
    """On condition that it is there, not resolved, and counts what was read, under those grants.

    A copy of the same key that another region made may arrive between read and write: resolved, it
    would be charged where its grants are not. In the simulated worlds: seed 500026543.
    """
    update = hold_rules.update_of(KEY, hold_rules.settle(HOLD, D(3)))
    assert update.set == {"change": {"N": "-3"}, "resolved": {"S": "settled"}}
    assert is_true(update.condition, _item(HOLD))
    assert not is_true(update.condition, None)
    assert not is_true(update.condition, _item(replace(HOLD, resolved="void")))
    assert not is_true(update.condition, _item(replace(HOLD, amount=D(6))))
    assert not is_true(update.condition, _item(replace(HOLD, grants=(GrantName(THERE, 2),))))


def test_a_hold_that_was_extended_does_not_expire() -> None:
    """Whoever read the earlier expiry comes too late; a settlement does not ask for it."""
    expired = hold_rules.expire(HOLD, 101)
    assert expired is not None
    extended = _item(hold_rules.extend(HOLD, 200))
    assert not is_true(hold_rules.update_of(KEY, expired).condition, extended)
    assert is_true(hold_rules.update_of(KEY, hold_rules.void(HOLD)).condition, extended)


def test_a_hold_expires_after_its_expiry() -> None:
    """Then it counts for nothing, or for what was held."""
    assert hold_rules.expire(HOLD, 100) is None
    voided, captured = hold_rules.expire(HOLD, 101), hold_rules.expire(HOLD, 101, captures=True)
    assert voided is not None
    assert captured is not None
    assert voided.after.amount == 0
    assert captured.after.amount == 5


def test_a_hold_is_extended_unless_it_is_resolved() -> None:
    """To a later expiry alone."""
    update = hold_rules.extension_of(KEY, HOLD, 200)
    assert update.set == {"hold": {"N": "200"}}
    assert is_true(update.condition, _item(HOLD))
    assert not is_true(update.condition, _item(hold_rules.extend(HOLD, 300)))
    assert not is_true(update.condition, _item(replace(HOLD, resolved="void")))
    with pytest.raises(InvalidInput, match="later expiry than 1970-01-01T00:01:40Z"):
        hold_rules.extend(HOLD, 99)


@pytest.mark.parametrize(
    ("entry", "said"),
    [(replace(HOLD, resolved="void"), "was resolved"), (replace(HOLD, hold=None), "is not a hold")],
)
def test_only_an_open_hold_is_resolved(entry: SpendRecord, said: str) -> None:
    """The message says what it is."""
    with pytest.raises(InvalidInput, match=said):
        hold_rules.settle(entry, D(1))
    with pytest.raises(InvalidInput, match="0 or more"):
        hold_rules.settle(HOLD, D(-1))


def test_another_charges_the_difference_apart() -> None:
    """The entry names the version of the item that was written with it."""
    apart = hold_rules.charge_apart(hold_rules.settle(HOLD, D(3)), {"": RIGHTS}, now=NOW)
    assert isinstance(apart, SeparateCharge)
    assert apart.items[0].adjusted == {2: D(-2)}
    assert apart.resolved.after.adjusted == (GrantName(HERE, 3),)
    update = hold_rules.update_of(KEY, apart.resolved)
    assert update.set["adjusted"] == {"L": [{"S": "us-east-1.1/0/3"}]}


def test_more_than_was_held_needs_rights() -> None:
    """Or is charged anyway."""
    more = hold_rules.settle(HOLD, D(8))
    assert hold_rules.charge_apart(more, {"": RIGHTS}, now=NOW) == TooFewRights(D(2))
    over = hold_rules.charge_apart(more, {"": RIGHTS}, now=NOW, over=True)
    assert isinstance(over, SeparateCharge)
    assert over.items[0].available == -1


def test_each_limit_of_a_hold_is_charged() -> None:
    """All in one transaction; one that is missing is refused."""
    both = replace(HOLD, grants=(*HOLD.grants, GrantName(HERE, 7, "org/1")))
    org = Rights(HERE, 9, D(99))
    apart = hold_rules.charge_apart(
        hold_rules.settle(both, D(3)), {"": RIGHTS, "org/1": org}, now=NOW
    )
    assert isinstance(apart, SeparateCharge)
    assert [item.version for item in apart.items] == [3, 10]
    assert apart.items[1].charged == -2
    with pytest.raises(InvalidInput, match=r"us-east-1.1/0/7@org/1"):
        hold_rules.charge_apart(hold_rules.settle(both, D(3)), {"": RIGHTS}, now=NOW)


def test_a_hold_of_a_lost_holder_is_charged_where_its_rights_are() -> None:
    """Whatever grant of that item has the same version: it is charged at once."""
    grants = {2: Grant(D(1), 0, 60, "me")}
    home = Rights(THERE, 6, D(10), grants=grants)
    apart = hold_rules.charge_apart(hold_rules.settle(HOLD, D(3)), {"": home}, now=NOW, gone={HERE})
    assert isinstance(apart, SeparateCharge)
    assert apart.items[0].charged == -2
    assert apart.items[0].adjusted == {}
    with pytest.raises(InvalidInput, match="resolved with the item of"):
        hold_rules.charge_apart(hold_rules.settle(HOLD, D(3)), {"": home}, now=NOW)


@pytest.mark.parametrize(
    ("actual", "age", "charged", "returned"),
    [(1, HOUR, 1, 0), (1, DAY, 1, -4), (7, HOUR, 7, 0), (7, DAY, 7, 0)],
)
def test_a_hold_that_left_a_rolling_window_gives_nothing_back(
    actual: int, age: float, charged: int, returned: int
) -> None:
    """Less is charged, and as much less will come back; what it came to more counts anew."""
    entry = str(entry_id(START, 1))
    hold = replace(HOLD, id=entry)
    made, now = START.timestamp(), START.timestamp() + age
    buckets = {int(made // HOUR): D(5)}
    rights = replace(RIGHTS, grants={}, charged=D(5), bucket=int(HOUR), buckets=buckets)
    resolved = hold_rules.settle(hold, D(actual))
    apart = hold_rules.charge_apart(resolved, {"": rights}, now=now)
    assert isinstance(apart, SeparateCharge)
    [after] = apart.items
    assert [after.charged, after.returned] == [charged, returned]
    assert after.buckets.get(int(now // HOUR), 0) == max(actual - 5, 0)
