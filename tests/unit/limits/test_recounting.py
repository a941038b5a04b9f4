"""Budgets counted anew after a restore: nothing that was spent or moved can be spent again."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.budgets import (
    AT_HOME,
    AT_SOUTH,
    AT_WEST,
    changed,
    granted,
    put_rights,
    regions_of,
    shown_rights,
    spend_item,
)
from support.compacting import World
from support.ledgers import HOME, WEST

from ledger.core.errors import BudgetUndecided, StateConflict
from ledger.limits import plan
from ledger.limits.recounting import Named, named_newer, recount, recount_budget
from ledger.limits.rights import Account, GrantName, Rights
from ledger.limits.spends import Spend, charge_of
from ledger.store.writes import Rejected
from ledger.testing.clock import START

ZERO = Decimal(0)


async def recounted(
    world: World, made: dict[Account, Rights | None] | None = None
) -> dict[Account, int]:
    """Count the budget anew; return what was charged, by account, where anything was changed."""
    regions = regions_of(world)
    items = (shown_rights(world.regions, account) for account in (AT_HOME, AT_WEST))
    versions = {"counter": {item.account: item.version for item in items}}
    spends = await named_newer(regions, versions)
    found = await recount_budget(regions, "counter", spends, made or {})
    world.regions.deliver()
    return {account: int(done.charged) for account, done in found.items()}


def restored(*, west: Rights | None = None) -> World:
    """Return a world of two regions' rights as a restore took them."""
    world = World()
    put_rights(world.regions, granted(AT_HOME, 10, at=START))
    put_rights(world.regions, west or granted(AT_WEST, at=START, minted=50))
    world.regions.deliver()
    return world


async def test_what_was_spent_under_later_grants_is_charged_once() -> None:
    """No new grant has the name of one that was used."""
    world = restored()
    west = shown_rights(world.regions, AT_WEST)
    names = (AT_WEST, west.version + 1), (AT_WEST, west.version + 4), (AT_HOME, 2)
    for number, (account, version) in enumerate(names, start=3):
        at = START + timedelta(seconds=number)
        world.regions.put(WEST, spend_item(number, GrantName(account, version), at=at))
    world.regions.deliver()
    assert await recounted(world) == {AT_WEST: 7}
    after = shown_rights(world.regions, AT_WEST)
    assert [after.charged, after.version] == [west.charged + 7, west.version + 5]
    assert after.available == west.available - 7
    assert await recounted(world) == {}


async def test_what_others_have_taken_is_sent() -> None:
    """Else both could spend it."""
    world = restored()
    home = changed(shown_rights(world.regions, AT_HOME), taken={AT_WEST: Decimal(5)})
    put_rights(world.regions, home)
    world.regions.deliver()
    assert await recounted(world) == {AT_WEST: 0}
    assert shown_rights(world.regions, AT_WEST).sent == {AT_HOME: Decimal(5)}
    assert await recounted(world) == {}


async def test_a_bundle_is_charged_to_each_budget_that_it_names() -> None:
    """Its entry is one, in another counter."""
    world = restored()
    name = GrantName(AT_WEST, 9, "counter")
    world.regions.put(WEST, spend_item(6, GrantName(AT_WEST, 3), name, at=START, counter="team"))
    world.regions.deliver()
    assert await recounted(world) == {AT_WEST: 6}


async def test_an_account_without_an_item_makes_it() -> None:
    """With its share of the window, less what was spent of it."""
    world = restored()
    world.regions.put(HOME, spend_item(6, GrantName(AT_SOUTH, 2), at=START))
    world.regions.deliver()
    share = plan.create(AT_SOUTH, Decimal(20))
    assert await recounted(world, {AT_SOUTH: share}) == {AT_SOUTH: 6}
    made = shown_rights(world.regions, AT_SOUTH)
    assert [made.minted, made.charged, made.version] == [20, 6, 3]


@pytest.mark.parametrize("by", ["entry", "taker"])
async def test_a_share_that_is_not_decided_is_not_left_out(by: str) -> None:
    """An item made without it could never have it; what was spent of it is not free."""
    world = restored()
    if by == "taker":
        home = shown_rights(world.regions, AT_HOME)
        put_rights(world.regions, changed(home, taken={AT_SOUTH: Decimal(5)}))
    else:
        world.regions.put(HOME, spend_item(6, GrantName(AT_SOUTH, 2), at=START))
    world.regions.deliver()
    with pytest.raises(BudgetUndecided, match=r"ap-southeast-2.*`ledger budget confirm`, then run"):
        await recounted(world, {AT_SOUTH: None})


async def test_one_that_is_not_decided_and_not_spent_of_waits_for_nothing() -> None:
    """Whoever spends makes it once that is in force."""
    assert await recounted(restored(), {AT_SOUTH: None}) == {}


async def test_an_account_that_nothing_but_entries_name_is_counted() -> None:
    """As one of a region that is written no more."""
    world = restored()
    world.regions.put(HOME, spend_item(6, GrantName(AT_SOUTH, 2), at=START))
    world.regions.deliver()
    assert await recounted(world) == {AT_SOUTH: 6}


async def test_nobody_may_write_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was counted is not what there is."""
    world = restored()
    world.regions.put(WEST, spend_item(3, GrantName(AT_WEST, 9), at=START))
    world.regions.deliver()

    async def raced(_: object) -> Rejected:
        return Rejected("condition")

    monkeypatch.setattr(world.regions.replicas[WEST], "write", raced)
    with pytest.raises(StateConflict, match="nobody may spend before all is counted"):
        await recounted(world)


def test_a_hold_that_was_charged_apart_later_counts() -> None:
    """Its grant was closed before; what it came to more is in a version that is not there."""
    item = replace(granted(AT_WEST, at=START, minted=50), charged=Decimal(4), version=7)
    settled = Spend("id", Decimal(6), (GrantName(AT_WEST, 3, "b"),), 1, "settled")
    later = replace(settled, adjusted=(GrantName(AT_WEST, 8, "b"),))
    assert recount(item, Named((settled,), {}), "b", 0.0) is None
    after = recount(item, Named((later,), {}), "b", 0.0)
    assert after is not None
    assert [after.charged, after.version] == [10, 9]


Event = tuple[int, str, int]
EVENTS = st.lists(
    st.tuples(
        st.integers(0, 1), st.sampled_from(["take", "spend", "close", "send"]), st.integers(1, 5)
    ),
    min_size=4,
    max_size=25,
)


@given(EVENTS, st.tuples(st.integers(0, 8), st.integers(0, 8)))
@example([(0, "send", 5), (1, "send", 1)], (9, 0))
def test_whatever_items_were_restored_what_is_left_is_left(
    events: list[Event], back: tuple[int, int]
) -> None:
    """All entries are there, and of each item any version: the limit less what was spent."""
    accounts = (AT_HOME, AT_WEST)
    history = [[plan.create(AT_HOME, Decimal(60))], [plan.create(AT_WEST, Decimal(40))]]
    spends: list[Spend] = []
    for place, kind, amount in events:
        item = history[place][-1]
        after = happened(item, history[1 - place][-1], kind, Decimal(amount), spends)
        if isinstance(after, Rights) and after != item:
            history[place].append(after)
    shown = [
        versions[max(0, len(versions) - 1 - n)] for versions, n in zip(history, back, strict=True)
    ]
    counted = []
    for item, other in zip(shown, reversed(shown), strict=True):
        named = Named(tuple(spends), {other.account: other.taken.get(item.account, ZERO)})
        counted.append(recount(item, named, "b", 0.0) or item)
    spent = sum(spend.amount for spend in spends)
    under_way = sum(
        max(ZERO, giver.sent.get(taker.account, ZERO) - taker.taken.get(giver.account, ZERO))
        for giver, taker in zip(counted, reversed(counted), strict=True)
    )
    left = sum(closed(item, spends).available for item in counted)
    assert left + under_way == 100 - spent
    assert {item.account for item in counted} == {*accounts}


def happened(
    item: Rights, other: Rights, kind: str, amount: Decimal, spends: list[Spend]
) -> object:
    """Return an item after something happened to it, or what was not possible."""
    if kind == "take":
        return plan.take(item, amount, since=0, expires=60, token="t")
    if kind == "send":
        return plan.send(plan.take_up(item, other) or item, other.account, amount)
    for version, grant in item.grants.items():
        name = GrantName(item.account, version, "b")
        used = charge_of(spends, name)
        if kind == "spend" and used + amount <= grant.amount:
            spends.append(Spend(f"{len(spends)}", amount, (name,)))
            return item
        if kind == "close":
            return plan.reclaim(item, version, used)
    return item


def closed(item: Rights, spends: list[Spend]) -> Rights:
    """Return an item whose grants were closed by their entries."""
    for version in item.grants:
        after = plan.reclaim(
            item, version, charge_of(spends, GrantName(item.account, version, "b"))
        )
        assert isinstance(after, Rights)
        item = after
    return item
