"""Credits of budgets: what counts, what can be spent when, and what a repeat does."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import anyio
import pytest

from ledger import Table
from ledger.budgets import credit_grants, credit_rules
from ledger.budgets.amount_rules import CREDITED_FINEST, CREDITED_MAX
from ledger.budgets.budget import Hold
from ledger.budgets.credit_keeper import LATE_SECONDS
from ledger.budgets.grant_allowance import IDLE_SECONDS, ROTATE_SECONDS
from ledger.budgets.grant_closing import RegionViews
from ledger.budgets.lost_stake import ARRIVED_SECONDS
from ledger.budgets.reclaim import reclaim_lost
from ledger.budgets.rights import GRANTS_MAX, Holder, Rights, rights_item
from ledger.budgets.rights_items import read_rights
from ledger.budgets.spend_request import Granted
from ledger.core.errors import (
    AmountOverflow,
    BudgetMissing,
    InvalidAmount,
    InvalidEntry,
    InvalidInput,
    KeyConflict,
    OutcomeUnknown,
    StateConflict,
    Unreachable,
)
from ledger.store.writes import Action, Outcome, Put, Unknown, Write
from ledger.testing import MemoryGlobalTable
from ledger.testing.clock import START

EAST, WEST = "us-east-1", "eu-west-1"
STOCK = "stock/7"
NO_CREDITS: dict[str, dict[str, object]] = {
    "day/*": {"window": "day"},
    "span/*": {"rolling": "24h"},
    "open/*": {"on_outage": "allow"},
}


@asynccontextmanager
async def opened(
    limit: int = 0, **rule: object
) -> AsyncIterator[tuple[MemoryGlobalTable, Table, Table]]:
    """Open a table of two regions in memory, with a budget that takes credits."""
    rules = {"stock/*": {"credits": "on", **rule}, "key/*": {}, **NO_CREDITS}
    world = MemoryGlobalTable([EAST, WEST], budgets=rules)
    async with world.table(EAST) as east, world.table(WEST) as west:
        await east.budget(STOCK).create(limit)
        world.replicate()
        yield world, east, west


async def shown(world: MemoryGlobalTable, region: str = EAST) -> Rights:
    """Return a region's rights item, as it shows it."""
    return (await read_rights(world.store(region), STOCK))[Holder(region)]


async def test_a_credit_counts_at_once_and_is_spent_once_all_show_it() -> None:
    """In the region that made it, and by rights that it sends in any other."""
    async with opened() as (world, east, west):
        stock = west.budget(STOCK)
        credited = await stock.credit(5)
        assert [credited.entry.change, credited.is_spendable] == [5, False]
        assert (await west.ledger.total(STOCK, max_age=0)).value == 5
        await world.pass_time(3)
        assert not await stock.spend(1)
        world.replicate()
        await world.pass_time(3)
        assert await stock.spend(2)
        assert await east.budget(STOCK).spend(3)
        assert not await stock.spend(1)
        assert not await east.budget(STOCK).spend(1)


async def test_a_repeat_with_its_key_credits_nothing_more() -> None:
    """Whether it waits, was taken in, or was made in another region."""
    async with opened() as (world, east, west):
        stock = east.budget(STOCK)

        async def delivered(table: Table) -> tuple[bool, bool]:
            credited = await table.budget(STOCK).credit(5, key="delivery-1", at=START)
            return credited.entry.repeated, credited.is_spendable

        assert await delivered(east) == (False, False)
        assert await delivered(east) == (True, False)
        world.replicate()
        assert await delivered(west) == (True, False)
        await world.pass_time(3)
        assert await delivered(east) == (True, True)
        await world.pass_time(3)
        assert await delivered(east) == (True, True)
        with pytest.raises(KeyConflict, match=r"change 6 credited to .*change 5 credited to"):
            await stock.credit(6, key="delivery-1", at=START)
        with pytest.raises(KeyConflict, match=r"change -5 spent from .*change 5 credited to"):
            await stock.spend(5, key="delivery-1", at=START)
        await world.pass_time(2 * IDLE_SECONDS)
        rights = await shown(world)
        assert [rights.available, rights.charged, rights.grants] == [5, -5, {}]
        world.replicate()
        assert await delivered(west) == (True, True)


async def test_under_a_key_in_two_regions_at_once_it_counts_once() -> None:
    """The copy that loses is never taken in, and its grant is closed by reading."""
    async with opened() as (world, east, west):
        for table in (east, west):
            await table.budget(STOCK).credit(5, key="delivery-1", at=START)
        await world.pass_time(3)
        world.replicate()
        await world.pass_time(2 * IDLE_SECONDS)
        free = [(await shown(world, region)).available for region in (EAST, WEST)]
        assert sorted(free) == [0, 5]
        left = [len((await shown(world, region)).grants) for region in (EAST, WEST)]
        assert sorted(left) == [0, 1]
        await world.pass_time(3_600)
        await world.merge()
        rights = [await shown(world, region) for region in (EAST, WEST)]
        under_way = [sum(one.sent.values()) - sum(one.taken.values()) for one in rights]
        assert sum(one.available for one in rights) + sum(under_way) == 5
        assert not any(one.grants for one in rights)
        assert (await east.ledger.total(STOCK, max_age=0)).value == 5


async def test_nothing_is_taken_in_while_a_region_cannot_be_read() -> None:
    """It counts meanwhile; once the region is back it can be spent."""
    async with opened() as (world, east, _west):
        stock = east.budget(STOCK)
        world.isolate(WEST)
        await stock.credit(5)
        await world.pass_time(10)
        assert not await stock.spend(1)
        assert (await east.ledger.total(STOCK, max_age=0)).value == 5
        assert "credited, and free once every region shows it: 5" in await stock.explain()
        world.heal()
        world.replicate()
        await world.pass_time(10)
        assert await stock.spend(5)


async def test_a_state_says_what_this_process_credited_and_cannot_be_spent() -> None:
    """One of this budget, and one of all; not what another process credited."""
    async with opened() as (world, east, west):
        for table, key in ((east, "delivery-1"), (east, "delivery-1"), (west, "delivery-2")):
            await table.budget(STOCK).credit(5, key=key, at=START)
        await east.budget(STOCK).credit(2)
        assert [(await table.budget(STOCK).state()).waiting for table in (east, west)] == [7, 5]
        assert [state.waiting async for state in east.all_budgets()] == [7]
        world.replicate()
        await world.pass_time(3)
        assert [(await table.budget(STOCK).state()).waiting for table in (east, west)] == [0, 0]


async def test_an_outage_leaves_two_grants_open_however_long_it_is() -> None:
    """Else one each five minutes would stay in the item, until all are closed by reading."""
    async with opened() as (world, east, _west):
        stock = east.budget(STOCK)
        world.isolate(WEST)
        for _ in range(60):
            await stock.credit(1)
            await world.pass_time(ROTATE_SECONDS / 6)
        assert len((await shown(world)).grants) == 2
        world.heal()
        world.replicate()
        await world.pass_time(10)
        assert await stock.spend(60)


async def test_what_a_process_left_is_taken_in_by_the_close_of_its_grant() -> None:
    """By reading, once every region shows it and nothing of its grant can land."""
    async with opened() as (world, east, west):
        await east.budget(STOCK).credit(5)
        world.crash(east)
        world.replicate()
        await world.pass_time(10)
        assert not await west.budget(STOCK).spend(1)
        await world.pass_time(3_600)
        await world.merge()
        assert await west.budget(STOCK).spend(5)
        assert not await west.budget(STOCK).spend(1)


async def test_one_that_closes_in_time_leaves_nothing_open() -> None:
    """It takes in what every region shows, and closes its grant with that."""
    async with opened() as (world, _east, west):
        async with world.table(EAST) as other:
            await other.budget(STOCK).credit(5)
            world.replicate()
        rights = await shown(world)
        assert [rights.available, rights.grants] == [5, {}]
        world.replicate()
        assert await west.budget(STOCK).spend(5)


async def test_a_debt_is_no_reason_to_take_no_credit() -> None:
    """What a settled hold came to more is paid by what is credited next."""
    async with opened(5) as (world, east, _west):
        stock = east.budget(STOCK)
        hold = await stock.hold(5, expires=600)
        assert isinstance(hold, Hold)
        assert await hold.settle(9, over=True)
        await stock.credit(4)
        await world.pass_time(ROTATE_SECONDS / 6)
        await stock.credit(6)
        world.replicate()
        await world.pass_time(5)
        assert await stock.spend(6)
        assert not await stock.spend(1)
        assert (await east.ledger.total(STOCK, max_age=0)).value == -5


async def test_a_credit_without_an_answer_is_taken_in_if_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And a repeat of the call with its key credits nothing more."""
    async with opened() as (world, east, _west):
        stock, store = east.budget(STOCK), world.store(EAST)
        await stock.credit(1)
        write = store.write

        async def unanswered(action: Write) -> Outcome:
            await write(action)
            return Unknown("lost")

        with monkeypatch.context() as patched:
            patched.setattr(store, "write", unanswered)
            with pytest.raises(OutcomeUnknown):
                await stock.credit(5, key="delivery-1", at=START, timeout=0.1)
        world.replicate()
        await world.pass_time(5)
        assert (await stock.credit(5, key="delivery-1", at=START)).is_spendable
        assert (await shown(world)).available == 6


async def test_a_process_keeps_so_many_credits_in_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the others the grant is closed by reading, with all that it credited."""
    monkeypatch.setattr(credit_grants, "WAITING_MAX", 2)
    async with opened() as (world, east, _west):
        stock = east.budget(STOCK)
        for _ in range(3):
            await stock.credit(1)
        world.replicate()
        await world.pass_time(2 * IDLE_SECONDS)
        rights = await shown(world)
        assert [rights.available, len(rights.grants)] == [2, 1]
        await world.pass_time(3_600)
        await world.merge()
        assert (await shown(world)).available == 3


async def test_so_many_keys_are_put_under_a_grant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is kept in mind as long as the grant is: the next ones have another."""
    monkeypatch.setattr("ledger.budgets.credit_keeper.KEYED_MAX", 1)
    async with opened() as (world, east, _west):
        for number in range(2):
            await east.budget(STOCK).credit(1, key=f"{number}", at=world.clock.now())
            await world.pass_time(40)
        world.replicate()
        await world.pass_time(5)
        assert await east.budget(STOCK).spend(2)


async def test_an_item_that_is_full_of_grants_takes_no_credit() -> None:
    """The caller is told why; nothing is credited."""
    async with opened() as (world, east, _west):
        async with world.table(EAST) as other:
            await other.budget(STOCK).credit(1)
        [grant] = [*(await shown(world)).grants.values()]
        full = Rights(
            Holder(EAST), GRANTS_MAX + 1, grants=dict.fromkeys(range(1, GRANTS_MAX + 1), grant)
        )
        await world.store(EAST).write(Put(rights_item(full, STOCK)))
        with pytest.raises(Unreachable, match="400 grants of this region are open"):
            await east.budget(STOCK).credit(1)


@pytest.mark.parametrize(
    ("amount", "error"),
    [
        (0, InvalidAmount),
        (-1, InvalidAmount),
        (Decimal("NaN"), InvalidAmount),
        (Decimal("1e-10"), AmountOverflow),
        (10**22 + 1, AmountOverflow),
        (10**30, AmountOverflow),
        (Decimal("1e37"), AmountOverflow),
    ],
)
async def test_amounts_that_cannot_be_added_up_are_refused(
    amount: int | Decimal, error: type[Exception]
) -> None:
    """Multiples of 10^-9 are credited, up to 10^22, and spent as fine as that."""
    async with opened() as (world, east, _west):
        stock = east.budget(STOCK)
        with pytest.raises(error):
            await stock.credit(amount)
        await stock.credit(CREDITED_MAX)
        await stock.credit(Decimal("1e-9"))
        world.replicate()
        await world.pass_time(5)
        assert await stock.spend(Decimal("1e-9"))
        with pytest.raises(AmountOverflow):
            await stock.spend(Decimal("1e-10"))
        hold = await stock.hold(1, expires=600)
        assert isinstance(hold, Hold)
        with pytest.raises(AmountOverflow):
            await hold.settle(Decimal("1e-10"))


@pytest.mark.parametrize("limit", [10**22 + 1, Decimal("1e37"), Decimal("1e-30")])
async def test_a_limit_is_in_the_bounds_of_credits(limit: int | Decimal) -> None:
    """A total has the digits of both; where no credits are taken it is not."""
    async with opened() as (_world, east, _west):
        rule = r"multiple of 1E-9, up to 1E\+22, where a budget takes credits; got"
        with pytest.raises(AmountOverflow, match=rule):
            await east.budget("stock/8").create(limit)
        with pytest.raises(AmountOverflow, match=rule):
            await east.budget(STOCK).raise_limit(limit, id="r")
        assert (await east.budget(STOCK).state()).limit == 0
        await east.budget("stock/8").create(CREDITED_MAX)
        await east.budget(STOCK).raise_limit(CREDITED_FINEST, id="r")
        await east.budget("key/8").create(limit)


async def test_a_budget_whose_pattern_has_no_credits_takes_none() -> None:
    """Its limit is raised."""
    async with opened() as (_world, east, _west):
        await east.budget("key/1").create(5)
        with pytest.raises(InvalidInput, match="credits:on"):
            await east.budget("key/1").credit(5)
        for name in ("day/1", "span/1"):
            with pytest.raises(InvalidInput, match="limits a time"):
                await east.budget(name).credit(5)
        with pytest.raises(InvalidInput, match="credits need `on_outage:refuse`"):
            await east.budget("open/1").credit(5)
        with pytest.raises(BudgetMissing):
            await east.budget("stock/8").credit(5)
        with pytest.raises(BudgetMissing):
            await east.budget("other").credit(5)
        with pytest.raises(InvalidEntry, match="at belongs to a key"):
            await east.budget(STOCK).credit(5, at=START)
        with pytest.raises(InvalidEntry):
            await east.budget(STOCK).credit(5, note="\ud800")
        with pytest.raises(InvalidInput, match="wait"):
            await east.budget(STOCK).credit(5, wait=-1)


async def test_a_call_may_wait_until_it_can_be_spent() -> None:
    """So what came back is on sale as soon as the call returns; or the wait is over."""
    async with opened() as (world, east, _west):
        results: list[bool] = []

        async def credit(wait: float) -> None:
            results.append((await east.budget(STOCK).credit(5, wait=wait)).is_spendable)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(credit, 60.0)
            await world.pass_time(5)
            assert results == []
            world.replicate()
            await world.pass_time(5)
        world.isolate(WEST)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(credit, 3.0)
            await world.pass_time(5)
        assert results == [True, False]


@pytest.mark.parametrize("is_shown", [True, False])
async def test_a_reclaim_mints_no_more_than_was_said_to_be_at_stake(*, is_shown: bool) -> None:
    """What was credited and can be spent is in the number, what waits is named beside it."""
    async with opened(10) as (world, east, west):
        await west.budget(STOCK).credit(100)
        if is_shown:
            world.replicate()
        await world.pass_time(3)
        world.replicate()
        state = await east.budget(STOCK).state()
        lines = await east.budget(STOCK).explain()
    there = next(one for one in state.regions if one.region == WEST)
    assert there.at_stake == (100 if is_shown else 0)
    waiting = 0 if is_shown else 100
    assert f"at most {there.at_stake} at stake, and what was credited there and is not" in lines
    spent = "spent, less what was credited: -100 charged" if is_shown else "credited: 0 charged"
    assert spent in lines
    gone = {"regions": (EAST,), "lost": (WEST,), "given_up_at": world.clock.now(), "generation": 2}
    terms = replace(world.settings.terms, **gone)  # type: ignore[arg-type]
    await world.clock.advance(ARRIVED_SECONDS + 3_600)
    regions = RegionViews({EAST: world.store(EAST)}, terms, world.clock)
    [found] = (await reclaim_lost(regions, WEST, STOCK)).values()
    assert int(found.amount) == int(there.at_stake) + waiting


# Reversals.


async def test_the_reversal_of_a_spend_gives_its_rights_back_once() -> None:
    """It is a credit of home, whichever region spent."""
    async with opened() as (world, east, west):
        await west.budget(STOCK).credit(5)
        world.replicate()
        await world.pass_time(5)
        granted = await west.budget(STOCK).spend(5)
        assert isinstance(granted, Granted)
        world.replicate()
        back = await east.ledger.reverse(granted.entry)
        again = await east.ledger.reverse(granted.entry)
        assert [back.change, again.id, again.repeated] == [5, back.id, True]
        assert not await east.budget(STOCK).spend(1)
        world.replicate()
        await world.pass_time(5)
        assert await east.budget(STOCK).spend(5)
        assert not await east.budget(STOCK).spend(1)
        assert (await east.ledger.total(STOCK, max_age=0)).value == 0


async def test_a_credit_is_not_reversed() -> None:
    """It may be spent by now: a spend withdraws it if it is there."""
    async with opened() as (world, east, _west):
        credited = await east.budget(STOCK).credit(5)
        world.replicate()
        with pytest.raises(StateConflict, match="withdraw it by a spend"):
            await east.ledger.reverse(credited.entry)


async def test_of_a_bundle_each_budget_with_credits_gets_its_rights_back() -> None:
    """Its entry is in the first; the others have a limit, of which nothing comes back."""
    async with opened() as (world, east, _west):
        await east.budget("key/1").create(9)
        await east.budget(STOCK).credit(5)
        world.replicate()
        await world.pass_time(5)
        both = east.budgets(["key/1", STOCK])
        granted = await both.spend(5)
        assert isinstance(granted, Granted)
        world.replicate()
        await east.ledger.reverse(granted.entry)
        world.replicate()
        await world.pass_time(5)
        assert await east.budget(STOCK).spend(5)
        assert not await east.budget("key/1").spend(5)
        await world.pass_time(2 * IDLE_SECONDS)
        assert (await shown(world)).grants == {}


async def test_each_budget_with_credits_of_a_bundle_takes_in_what_comes_back() -> None:
    """Its entry names a grant of each, so it shows in every region as it was put."""
    async with opened() as (world, east, _west):
        names = [STOCK, "stock/8", "stock/9"]
        for name in names[1:]:
            await east.budget(name).create(0)
        for name in names:
            await east.budget(name).credit(5)
        world.replicate()
        await world.pass_time(5)
        granted = await east.budgets(names).spend(5)
        assert isinstance(granted, Granted)
        world.replicate()
        await east.ledger.reverse(granted.entry)
        assert (await east.budget("stock/9").state()).waiting == 5
        world.replicate()
        await world.pass_time(5)
        for name in names:
            assert await east.budget(name).spend(5)
            assert not await east.budget(name).spend(1)
            assert (await east.budget(name).state()).waiting == 0


async def test_what_a_pass_took_in_waits_no_more() -> None:
    """A process that could not take it in looks again, once it has waited for long."""
    async with opened() as (world, east, _west):
        await east.budget(STOCK).credit(5)
        world.isolate(WEST)
        await world.pass_time(2 * LATE_SECONDS)
        assert (await east.budget(STOCK).state()).waiting == 5
        rights = await shown(world)
        (version,) = rights.grants
        closed = credit_rules.take_in(rights, version, Decimal(5))
        assert closed is not None
        closed = credit_rules.close_credits(closed, version)
        assert closed is not None
        await world.store(EAST).write(Put(rights_item(closed, STOCK)))
        await world.pass_time(5)
        assert (await east.budget(STOCK).state()).waiting == 0


@pytest.mark.parametrize("is_there", [False, True])
async def test_a_reversal_without_an_answer_is_taken_in_if_it_is_there(
    monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    """If it is known not to be, its grant is closed by its owner's count."""
    async with opened(5) as (world, east, _west):
        granted = await east.budget(STOCK).spend(5)
        assert isinstance(granted, Granted)
        world.replicate()
        store = world.store(EAST)
        transact = store.transact

        async def fails(actions: Sequence[Action], *, token: str | None = None) -> Outcome:
            if not is_there:
                raise Unreachable("nothing was sent")
            await transact(actions, token=token)
            return Unknown("lost")

        with monkeypatch.context() as patched:
            patched.setattr(store, "transact", fails)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(world.pass_time, 60)
                with pytest.raises(OutcomeUnknown if is_there else Unreachable):
                    await east.ledger.reverse(granted.entry)
        world.replicate()
        await world.pass_time(5)
        assert bool(await east.budget(STOCK).spend(5)) is is_there
        await world.pass_time(2 * IDLE_SECONDS)
        assert (await shown(world)).grants == {}


async def test_what_paid_for_a_spend_is_known_from_the_archive(tmp_path: Path) -> None:
    """So its reversal gives its rights back at any age."""
    rules = {"stock/*": {"credits": "on"}}
    merging = {"fold_min": 1, "scan_every": 0}
    world = MemoryGlobalTable(
        [EAST, WEST], budgets=rules, archive=[f"file://{tmp_path}"], compactor=merging
    )
    async with world.table(EAST) as east:
        stock = east.budget(STOCK)
        await stock.create(1)
        granted = await stock.spend(1)
        assert isinstance(granted, Granted)
        for _ in range(30):
            await stock.credit(1)
        await world.pass_time(2 * IDLE_SECONDS)
        assert await world.merge() > 0
        back = await east.ledger.reverse(granted.entry)
        assert back.spending is not None
        world.replicate()
        await world.pass_time(5)
        assert await stock.spend(31)
