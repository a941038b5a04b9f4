"""`ledger budget recount`: whatever a restore took of budgets, no more is spent than the limits."""

from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from support.ledgers import make_services
from support.tiers import few_fast

from ledger import Hold, Ledger, Table
from ledger.administration import budget_recovery
from ledger.administration.budget_recovery import Restored, restored_budgets
from ledger.budgets.rights import Holder
from ledger.contract.open_regions import OpenTable
from ledger.contract.view import ContractView
from ledger.core.entry import Item, Key
from ledger.core.errors import BudgetMissing, StateConflict
from ledger.store.reads import Scan
from ledger.store.writes import Put
from ledger.testing import MemoryGlobalTable
from ledger.testing.clock import ManualClock

HOME, WEST = "us-east-1", "eu-west-1"
BUDGET = "key/42"
Kept = Callable[[Key], bool]


def everything(_: Key) -> bool:
    """Keep each item."""
    return True


@dataclass
class Desk:
    """A table with a budget of 100 that spent 40 in the west, and what is restored of it."""

    monkeypatch: pytest.MonkeyPatch
    rule: Mapping[str, Any] = field(default_factory=dict)
    started: datetime = datetime(2026, 11, 21, 10, 58, tzinfo=UTC)
    took: float = 3_600.0

    def __post_init__(self) -> None:
        self.clock = ManualClock(self.started)
        self.world = self._new(7)

    def _new(self, seed: int) -> MemoryGlobalTable:
        settings: dict[str, Any] = {"budgets": {"key/*": dict(self.rule)}, "seed": seed}
        return MemoryGlobalTable([HOME, WEST], clock=self.clock, **settings)

    async def spends(self, table: Table, amount: int) -> None:
        """Spend in steps of 4, each in its own request."""
        for _ in range(amount // 4):
            assert await table.budget(BUDGET).spend(4)
            await self.world.pass_time(0.5)

    async def lived(self) -> None:
        """Make the budget at home, and spend 40 of it in the west."""
        async with self.world.table(HOME) as home:
            await home.budget(BUDGET).create(100)
        self.world.replicate()
        async with self.world.table(WEST) as west:
            await self.spends(west, 40)
        self.world.replicate()

    async def restored(self, kept: Kept, *, old: Mapping[Key, Item] | None = None) -> None:
        """Restore items that are kept, and older versions of some; it takes its time."""
        items = {key: item for key, item in (await self.items()).items() if kept(key)}
        await self.clock.advance(self.took)
        self.world = self._new(8)
        for item in {**items, **(old or {})}.values():
            await self.world.store(HOME).write(Put(item))
        self.world.replicate()

    async def items(self) -> dict[Key, Item]:
        """Return all that the west shows."""
        page = await self.world.store(WEST).scan(Scan())
        return {(item["pk"]["S"], item["sk"]["S"]): item for item in page.items}

    async def recount(self, budget: str | None = None, *, closed: tuple[str, ...] = ()) -> Restored:
        """Count anew, as the command does; regions that are `closed` are being taken out."""
        world = self.world

        @asynccontextmanager
        async def opened(*_: object, **__: object) -> Any:
            view = ContractView(world.store(HOME), world.settings, clock=world.clock)
            await view.open()
            yield OpenTable({region: world.store(region) for region in (HOME, WEST)}, view)

        self.monkeypatch.setattr(budget_recovery, "open_table", opened)
        opening = restored_budgets(world.settings, services=make_services(world.clock))
        async with opening as found:
            terms = replace(found.regions.terms, closed=closed)
            of_these = replace(found, regions=replace(found.regions, terms=terms))
            done = await of_these.recount(budget)
        world.replicate()
        return done

    async def drained(self, *, at: datetime | None = None) -> Decimal:
        """Spend all that is to be had in each region; return what was spent in all."""
        for region in (WEST, HOME):
            async with self.world.table(region) as table:
                number = 0
                while await table.budget(BUDGET).spend(
                    1, at=at, key=None if at is None else f"{region} {number}"
                ):
                    number += 1
            self.world.replicate()
        counter = BUDGET if not self.rule else f"{BUDGET}@{self.started:%Y-%m-%dT%H}Z"
        async with self.world.ledger(HOME) as ledger:
            return await _total(ledger, counter)


async def _total(ledger: Ledger, counter: str) -> Decimal:
    return (await ledger.total(counter, max_age=0)).value.copy_negate()


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Return a table of a budget without windows."""
    return Desk(monkeypatch)


def without(*prefixes: str) -> Kept:
    """Keep no control items of budgets whose sort keys begin so."""
    return lambda key: not (key[0].startswith("~budget~") and key[1].startswith(prefixes))


@pytest.mark.parametrize(
    "kept",
    [everything, without(f"rights#{HOME}"), without(f"rights#{WEST}"), without("rights#")],
    ids=["all", "not home's rights", "not the west's rights", "no rights"],
)
async def test_the_limit_holds_whatever_rights_were_restored(desk: Desk, kept: Kept) -> None:
    """Those of home are minted again of the limit, and what the west had is home's to send."""
    await desk.lived()
    await desk.restored(kept)
    await desk.recount()
    assert await desk.recount() == Restored({}, {})
    assert await desk.drained() == 100


async def test_an_old_view_of_a_transfer_and_a_grant_frees_nothing(desk: Desk) -> None:
    """Home shows all as free, and the west's first grant alone: the entries are of more."""
    async with desk.world.table(HOME) as home:
        await home.budget(BUDGET).create(100)
    desk.world.replicate()
    before = await desk.items()
    old = {key: item for key, item in before.items() if key[1] == f"rights#{HOME}.1/0"}
    async with desk.world.table(WEST) as west:
        await desk.spends(west, 4)
        desk.world.replicate()
        old |= {
            key: item
            for key, item in (await desk.items()).items()
            if key[1] == f"rights#{WEST}.1/0"
        }
        await desk.spends(west, 76)
    desk.world.replicate()
    await desk.restored(everything, old=old)
    assert (await desk.recount()).counted[BUDGET].keys() == {*_holders(old)}
    assert await desk.drained() == 100


def _holders(items: Mapping[Key, Item]) -> list[Any]:
    return [Holder(key[1].removeprefix("rights#").partition(".")[0]) for key in items]


async def test_rights_without_a_limit_are_made_a_budget(desk: Desk) -> None:
    """By a create with as much; with another limit it says what there is."""
    await desk.lived()
    await desk.restored(without("limit#"))
    await desk.recount()
    async with desk.world.table(HOME) as home:
        with pytest.raises(StateConflict, match=r"rights of 100 and no limit, .* a restore"):
            await home.budget(BUDGET).create(60)
        assert await home.budget(BUDGET).create(100)
    desk.world.replicate()
    assert await desk.drained() == 100


@pytest.mark.parametrize("at_home", [0, 8])
async def test_a_budget_of_which_entries_alone_are_there_is_made_again(
    desk: Desk, at_home: int
) -> None:
    """What was spent of it is a debt until then, and the next recount pays it."""
    await desk.lived()
    async with desk.world.table(HOME) as home:
        await desk.spends(home, at_home)
    desk.world.replicate()
    await desk.restored(without("limit#", "rights#"))
    await desk.recount(BUDGET)
    async with desk.world.table(HOME) as home:
        assert await home.budget(BUDGET).create(100)
    desk.world.replicate()
    paid = (await desk.recount()).counted[BUDGET]
    assert {holder.region: done.sent for holder, done in paid.items()} == {HOME: 40, WEST: 0}
    assert await desk.drained() == 100


async def test_of_a_rolling_limit_what_was_spent_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the item that it is charged to is made by the recount."""
    desk = Desk(monkeypatch, {"rolling": "24h"})
    await desk.lived()
    await desk.restored(without("limit#", "rights#"))
    await desk.recount()
    [item] = [item for key, item in (await desk.items()).items() if key[0].startswith("~budget~")]
    assert [item["bucket"], item["charged"]] == [{"N": "3600"}, {"N": "40"}]


@pytest.mark.parametrize("newer", ["limit#", "rights#"])
async def test_a_raise_of_which_one_half_was_restored_is_made_once(desk: Desk, newer: str) -> None:
    """Its repeat changes nothing."""
    await desk.lived()
    old = {
        key: item
        for key, item in (await desk.items()).items()
        if key[0].startswith("~budget~") and not key[1].startswith(newer)
    }
    async with desk.world.table(HOME) as home:
        assert (await home.budget(BUDGET).raise_limit(10, id="once")).limit == 110
    desk.world.replicate()
    await desk.restored(everything, old=old)
    assert (await desk.recount()).limits[BUDGET].target == 110
    assert await desk.recount() == Restored({}, {})
    async with desk.world.table(HOME) as home:
        assert (await home.budget(BUDGET).raise_limit(10, id="once")).limit == 110
    assert await desk.drained() == 110


async def test_a_window_that_has_ended_is_counted_while_it_can_be_spent_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The restore took four minutes; a spend under a key may be that old."""
    desk = Desk(monkeypatch, {"window": "hour", "late": 600}, took=240)
    await desk.lived()
    await desk.restored(without("rights#"))
    [counter] = (await desk.recount()).counted
    assert counter == f"{BUDGET}@2026-11-21T10Z"
    assert await desk.drained(at=desk.started + timedelta(seconds=90)) == 100


async def test_a_region_that_is_being_taken_out_gets_no_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody would spend it: what was spent there is paid by what home has."""
    desk = Desk(monkeypatch, {"window": "hour", "late": 600}, took=240)
    await desk.lived()
    await desk.restored(without("rights#"))
    await desk.recount(closed=(WEST,))
    items = await desk.items()
    [west] = [item for key, item in items.items() if key[1] == f"rights#{WEST}.1/0"]
    assert west["charged"] == {"N": "40"}
    assert "minted" not in west


async def test_one_budget_is_counted_alone(desk: Desk) -> None:
    """Others wait; of what is no budget it is said."""
    await desk.lived()
    await desk.restored(without("rights#"))
    with pytest.raises(BudgetMissing, match="nothing of a budget 'key/43' is in the table"):
        await desk.recount("key/43")
    assert [*(await desk.recount(BUDGET)).limits] == [BUDGET]
    with pytest.raises(BudgetMissing, match="matches no pattern"):
        await desk.recount("other")


async def _held(desk: Desk, west: Table) -> Hold:
    """Make the budget at home, and a hold of 40 of it in the west."""
    async with desk.world.table(HOME) as home:
        await home.budget(BUDGET).create(100)
    desk.world.replicate()
    hold = await west.budget(BUDGET).hold(40, expires=30_000)
    assert isinstance(hold, Hold)
    desk.world.replicate()
    return hold


@pytest.mark.parametrize("arrived", ["entry", "rights"])
@pytest.mark.parametrize("actual", [0, 4])
@pytest.mark.parametrize("who", few_fast(["its owner", "its owner, later", "another"], fast=1))
async def test_a_hold_of_which_one_half_was_restored_is_settled_once(
    desk: Desk, who: str, actual: int, arrived: str
) -> None:
    """What it gives back is not given back twice, nor is it charged twice."""
    async with desk.world.table(WEST) as west:
        hold = await _held(desk, west)
        if who == "its owner, later":
            await desk.world.pass_time(200)
            desk.world.replicate()
        before = await desk.items()
        async with desk.world.table(WEST) as other:
            await (other.budget(BUDGET).held(hold.entry) if who == "another" else hold).settle(
                actual
            )
            desk.world.replicate()
    desk.world.replicate()  # its owner has closed the grant
    after = await desk.items()
    assert before != after
    old = {
        key: item
        for key, item in before.items()
        if after[key] != item and key[0].startswith("~budget~") != (arrived == "rights")
    }
    assert old
    await desk.restored(everything, old=old)
    await desk.recount()
    assert await desk.recount() == Restored({}, {})
    async with desk.world.table(WEST) as west:
        await west.budget(BUDGET).held(hold.entry).settle(actual)
    await desk.world.pass_time(1_800)
    await desk.world.merge()  # a grant that is open is closed by reading
    assert await desk.drained() == 100


async def test_a_hold_that_is_resolved_meanwhile_is_not_charged_again(desk: Desk) -> None:
    """The table is at work: its item is newer than what was read of the entry."""
    async with desk.world.table(WEST) as west:
        hold = await _held(desk, west)
        await desk.world.pass_time(200)
        desk.world.replicate()
        async with desk.world.table(WEST) as other:
            store, scan = desk.world.store(WEST), desk.world.store(WEST).scan

            async def resolved_after(page: Scan) -> Any:
                found = await scan(page)
                if hold.entry.id in {item["sk"]["S"] for item in found.items}:
                    await other.budget(BUDGET).held(hold.entry).settle(4)
                    desk.world.replicate()
                return found

            with desk.monkeypatch.context() as patched:
                patched.setattr(store, "scan", resolved_after)
                done = await desk.recount()
    assert done == Restored({}, {})
