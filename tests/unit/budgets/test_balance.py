"""Who sends rights to whom: by demand, with hysteresis."""

from dataclasses import replace
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.budgets import balance, rights_plan
from ledger.budgets.rights import Holder, Rights
from ledger.core.amounts import total_wide

A, B, C = Holder("us-east-1"), Holder("eu-west-1"), Holder("ap-south-1")
D = Decimal
ONE = D(1)


def _items(**free: tuple[int, int]) -> dict[Holder, Rights]:
    names = {"a": A, "b": B, "c": C}
    return {
        names[key]: replace(rights_plan.create(names[key], D(minted)), rate=D(rate))
        for key, (minted, rate) in free.items()
    }


def test_a_goal_is_by_rate_and_in_part_equal() -> None:
    """So a holder that has sold nothing yet can begin."""
    assert balance.goals(_items(a=(100, 3), b=(0, 1))) == {A: D(70), B: D(30)}
    assert balance.goals(_items(a=(100, 0), b=(0, 0))) == {A: D(50), B: D(50)}


def test_a_surplus_goes_to_those_below_half_of_their_goal() -> None:
    """What is above the goal, no more than they lack."""
    assert balance.transfers(A, _items(a=(100, 1), b=(0, 1)), quantum=ONE) == {B: D(50)}


@pytest.mark.parametrize(("a", "b"), [(62, 38), (74, 26)])
def test_without_need_or_surplus_nothing_is_sent(a: int, b: int) -> None:
    """That is the hysteresis: neither 1.25 of the own goal, nor below half of the other's."""
    assert balance.transfers(A, _items(a=(a, 1), b=(b, 1)), quantum=ONE) == {}


def test_who_wants_gets_what_it_lacks_at_once() -> None:
    """At most half of what the giver has, also where nobody has a surplus."""
    items = _items(a=(60, 1), b=(40, 1))
    items[B] = replace(items[B], want=D(5))
    assert balance.transfers(A, items, quantum=ONE) == {B: D(10)}
    empty = _items(a=(10, 1), b=(0, 9))
    empty[B] = replace(empty[B], want=D(5))
    assert balance.transfers(A, empty, quantum=ONE) == {B: D(5)}


def test_the_last_piece_goes_where_it_is_wanted() -> None:
    """Half of it is none; but who wants it itself keeps it."""
    items = _items(a=(1, 1), b=(0, 1))
    assert balance.transfers(A, items, quantum=ONE) == {}
    items[B] = replace(items[B], want=ONE)
    assert balance.transfers(A, items, quantum=ONE) == {B: ONE}
    items[A] = replace(items[A], want=ONE)
    assert balance.transfers(A, items, quantum=ONE) == {}


def test_what_is_on_its_way_counts_where_it_goes() -> None:
    """Else it would be sent again each time."""
    items = _items(a=(100, 1), b=(0, 1))
    sent = rights_plan.send(items[A], B, D(50))
    assert isinstance(sent, Rights)
    items[A] = sent
    assert balance.in_flight(B, items) == 50
    assert balance.transfers(A, items, quantum=ONE) == {}


def test_nothing_smaller_than_a_piece_is_sent() -> None:
    """A region with a part of one could not sell it."""
    items = _items(a=(2, 1), b=(0, 1), c=(0, 1))
    assert balance.transfers(A, items, quantum=ONE) == {}
    assert total_wide(balance.transfers(A, items, quantum=D("0.1")).values()) == D("1.2")


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 100), st.booleans()), min_size=3, max_size=3
    )
)
def test_no_more_is_sent_than_is_there(found: list[tuple[int, int, bool]]) -> None:
    """Whatever the demand, and always in whole pieces."""
    items = {
        one: replace(rights_plan.create(one, D(minted)), rate=D(rate), want=D(wants))
        for one, (minted, rate, wants) in zip((A, B, C), found, strict=True)
    }
    sent = balance.transfers(A, items, quantum=ONE)
    assert total_wide(sent.values()) <= items[A].available
    assert all(amount > 0 and amount == int(amount) for amount in sent.values())
    assert A not in sent


def test_what_a_region_was_charged_too_much_others_pay() -> None:
    """Each its part, before anything else is sent, and no more than it has."""
    items = _items(a=(30, 0), b=(10, 9), c=(0, 0))
    items[C] = replace(items[C], charged=D(6))
    assert balance.transfers(A, items, quantum=ONE) == {C: D(5)}
    assert balance.transfers(B, items, quantum=ONE) == {C: D(2)}
    assert balance.transfers(C, items, quantum=ONE) == {}
    items[C] = replace(items[C], charged=D(100))
    assert balance.transfers(B, items, quantum=ONE) == {C: D(10)}


def test_a_debt_that_is_being_paid_is_none() -> None:
    """What is on its way counts."""
    items = _items(a=(30, 0), b=(10, 0))
    items[B] = replace(items[B], charged=D(12))
    items[A] = replace(items[A], sent={B: D(2)})
    assert balance.transfers(A, items, quantum=ONE).get(B, 0) > 0  # its goal, now
    items[A] = replace(items[A], sent={B: D(1)})
    assert balance.transfers(A, items, quantum=ONE) == {B: D(1)}


def test_what_others_took_of_a_lost_holder_unseen_it_owes() -> None:
    """Its item is older than that; of one at work a view may be so for a moment."""
    items = _items(a=(10, 1), b=(0, 1), c=(0, 1))
    items[A] = replace(items[A], sent={C: D(7)})
    items[B] = replace(items[B], taken={A: D(5)})
    items[C] = replace(items[C], taken={A: D(6)})
    assert balance.debts(items) == {}
    assert balance.debts(items, lost={A}) == {A: D(2)}


def _moved(chance: Random) -> list[dict[Holder, Rights]]:
    """Return what three holders of a limit of 60 were, after each of some transfers."""
    history = [_items(a=(60, 1), b=(0, 1), c=(0, 1))]
    for _ in range(chance.randint(1, 8)):
        items = dict(history[-1])
        giver, taker = chance.sample((A, B, C), k=2)
        if (has := int(items[giver].available)) > 0:
            sent = rights_plan.send(items[giver], taker, D(chance.randint(1, has)))
            assert isinstance(sent, Rights)
            items[giver] = sent
        items[taker] = rights_plan.take_up(items[taker], items[giver]) or items[taker]
        history.append(items)
    return history


def test_no_more_than_the_limit_is_free_however_old_each_item_is() -> None:
    """What one has taken is not free where it came from, though that is shown as it was before."""
    for seed in range(200):
        chance = Random(seed)  # noqa: S311 (a simulation)
        history = _moved(chance)
        shown = {holder: chance.choice(history)[holder] for holder in (A, B, C)}
        assert total_wide(balance.free(shown).values()) <= 60, seed
        assert total_wide(balance.free(history[-1]).values()) == 60, seed
