"""What passes do for budgets: grants closed, entries folded after that, rights moved, alarms."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import anyio
import pytest
from support.budgets import (
    AT_HOME,
    AT_SOUTH,
    AT_WEST,
    LIFE,
    granted,
    limited_settings,
    put_rights,
    seconds,
    shown_rights,
    spend_item,
    whole,
)
from support.compacting import SETTLE, Instance, World
from support.ledgers import HOME, SOUTH

from compactor.budgets import Later
from compactor.discovery.scan import Finder
from compactor.observe import observe
from compactor.pass_terms import rules_of
from compactor.preview import explained
from ledger.core.entry import Item
from ledger.core.errors import Unreachable
from ledger.limits.plan import create, send
from ledger.limits.rights import GrantName, Rights
from ledger.primitives.leases.state import LeaseGrant
from ledger.store.wrappers.faults import Raises
from ledger.testing.clock import START

GRANT = GrantName(AT_HOME, 2)
LATE = LIFE + 5
"""After which a grant is over, in a world without measured clocks, and a bit more."""


def limited(world: World, *, on_expiry: str = "void", **overrides: Any) -> Instance:
    """Start a compactor of a table in which "counter" has a budget."""
    return world.instance(settings=limited_settings(on_expiry=on_expiry, **overrides))


def spent(world: World, *items: Item, minted: int = 100) -> None:
    """Let home grant 10 at the start, and write entries of it there, deliver all."""
    put_rights(world.regions, granted(AT_HOME, 10, at=START, minted=minted))
    for item in items:
        world.regions.put(HOME, item)
        change = Decimal(item["change"]["N"])
        world.sum["counter"] = world.sum.get("counter", Decimal(0)) + change
    world.regions.deliver()


def spends(count: int = 4) -> list[Item]:
    """Return entries of 1 each that name home's first grant."""
    return [spend_item(1, GRANT, at=START, suffix=place) for place in range(count)]


async def test_entries_are_folded_after_their_grant_is_closed() -> None:
    """Settled entries wait for it; the pass that closes it does not fold them, the next does."""
    world = World()
    spent(world, *spends())
    one = limited(world)
    await world.clock.advance(SETTLE + 1)
    report = await world.run_once(one)
    assert (report.merged, report.grants_open, report.grants_closed) == (0, 1, 0)
    await world.clock.advance(LATE)
    report = await world.run_once(one)
    assert (report.merged, report.grants_open, report.grants_closed) == (0, 0, 1)
    assert "1 grants closed by their entries" in report.sentence()
    assert not report.is_idle
    assert shown_rights(world.regions, AT_HOME).charged == 4
    merged = []
    for _ in range(3):
        report = await world.run_once(one)
        assert report.grants_closed == 0
        assert world.is_right()
        merged.append(report.merged)
    assert merged == [4, 0, 0]
    assert not world.shown(SOUTH).entries
    assert shown_rights(world.regions, AT_HOME, by=SOUTH).charged == 4


async def test_a_region_that_has_not_heard_of_the_closing_holds_up_the_fold() -> None:
    """Were home lost then, that region would take the grant for unused."""
    world = World()
    spent(world, *spends())
    await world.clock.advance(LATE + SETTLE)
    world.regions.pause(HOME, SOUTH)
    one = limited(world)
    for _ in range(2):
        report = await world.run_once(one)
        assert report.merged == 0
    assert shown_rights(world.regions, AT_HOME).charged == 4
    world.regions.heal()
    world.regions.deliver()
    assert (await world.run_once(one)).merged == 4


async def test_a_grant_without_entries_is_found_by_the_search() -> None:
    """A process took it and died: no entry leads there, and it comes back."""
    world = World()
    spent(world)
    await world.clock.advance(LATE)
    report = await world.run_once(limited(world))
    assert report.grants_closed == 1
    assert shown_rights(world.regions, AT_HOME).available == 100


@pytest.mark.parametrize("page_items", [1, 1000])
async def test_rights_on_their_way_are_found_by_the_search(page_items: int) -> None:
    """Whoever asked for them is gone: they are taken up, on whichever pages both items are."""
    world = World()
    for replica in world.regions.replicas.values():
        replica.page_items_max = page_items
    sent = send(granted(AT_HOME, at=START), AT_WEST, Decimal(30))
    assert isinstance(sent, Rights)
    put_rights(world.regions, sent)
    put_rights(world.regions, create(AT_WEST, Decimal(0)))
    world.regions.deliver()
    await world.run_once(limited(world))
    assert shown_rights(world.regions, AT_WEST).taken == {AT_HOME: 30}


async def test_a_grant_is_closed_in_time_without_another_search() -> None:
    """A process that has seen it open looks again once it is over."""
    world = World()
    spent(world, *spends())
    one = limited(world, scan_every=10_000)
    await world.clock.advance(SETTLE + 1)
    assert (await world.run_once(one, search=True)).grants_open == 1
    for item in spends():
        world.regions.set(HOME, ("counter", item["sk"]["S"]), None)
    world.regions.deliver()

    async def passes() -> int:
        async with one.compactor._candidate() as candidate:
            outcome = await candidate.acquire(wait_seconds=99, stop=anyio.Event())
            assert isinstance(outcome, LeaseGrant)
            async with candidate.leading() as grant:
                first = await candidate.run_pass(grant, stop=anyio.Event(), searches_now=True)
                assert first.grants_open == 1
                await world.clock.sleep(LATE)
                later = await candidate.run_pass(grant, stop=anyio.Event())
                return later.grants_closed

    assert await world.drive(passes) == [1]


def test_what_is_to_be_looked_at_later_is_bounded() -> None:
    """What finds no place is led to by its entries, or the search."""
    later = Later(budgets_max=2)
    for place, counter in enumerate(("a", "b", "c")):
        later.note(counter, float(place))
    assert later.due(5.0) == ["a", "b"]
    assert later.due(0.0) == ["a"]
    later.note("a", None)
    later.note("b", 9.0)
    later.note("c", 1.0)
    assert later.due(5.0) == ["c"]


async def test_a_grant_that_was_used_twice_raises_an_alarm() -> None:
    """In the report, its sentence, and a metric; the pass succeeds."""
    world = World()
    spent(world, *(spend_item(6, GRANT, at=START, suffix=place) for place in range(3)))
    await world.clock.advance(LATE)
    one = limited(world)
    report = await world.run_once(one)
    assert report.is_success
    (alarm,) = report.alarms
    assert "us-east-1.1/0/2@counter was used twice" in alarm
    assert "come to 18, 8 more" in alarm
    assert alarm in report.sentence()
    assert one.metric("compactor_budget_grants_exceeded_total") == 1
    assert one.metric("compactor_budget_grants_closed_total", how="agreed") == 1
    assert shown_rights(world.regions, AT_HOME).available == 82


@pytest.mark.parametrize(("on_expiry", "charged"), [("void", 2), ("settle", 7)])
async def test_an_expired_hold_is_resolved_and_folded(on_expiry: str, charged: int) -> None:
    """As the rule says, once; after that the entry is merged as any other."""
    world = World()
    hold = spend_item(5, GRANT, at=START, suffix=9, hold=seconds(START) + 20)
    spent(world, *spends(2), hold)
    one = limited(world, on_expiry=on_expiry)
    await world.clock.advance(LATE + SETTLE)
    reports = [await world.run_once(one) for _ in range(5)]
    assert sum(report.holds_expired for report in reports) == 1
    assert one.metric("compactor_budget_holds_expired_total") == 1
    assert sum(report.merged for report in reports) == 3
    world.sum["counter"] = Decimal(-charged)
    assert world.is_right()
    assert shown_rights(world.regions, AT_HOME).charged == charged


async def test_rights_move_between_regions_while_passes_go_on() -> None:
    """What one pass sends the next takes up, through each region's own endpoint."""
    world = World()
    put_rights(world.regions, granted(AT_HOME, 10, at=START, minted=310))
    for account in (AT_WEST, AT_SOUTH):
        put_rights(world.regions, granted(account, at=START, minted=0))
    for item in spends():
        world.regions.put(HOME, item)
    world.regions.deliver()
    await world.clock.advance(SETTLE + 1)
    one = limited(world)
    sent = [(await world.run_once(one)).transfers for _ in range(3)]
    assert sent == [2, 0, 0]
    items = [shown_rights(world.regions, each) for each in (AT_HOME, AT_WEST, AT_SOUTH)]
    assert sum(whole(*(item.available for item in items))) == 300
    assert all(item.available >= 99 for item in items)
    assert one.metric("compactor_budget_transfers_total", action="sent") == 2
    assert one.metric("compactor_budget_transfers_total", action="taken") == 2


async def test_a_region_that_is_away_holds_up_its_own_budgets_alone() -> None:
    """Nothing is sent to it, and grants of others wait for its view of their entries."""
    world = World()
    spent(world, *spends(), minted=310)
    put_rights(world.regions, granted(AT_WEST, at=START, minted=0))
    put_rights(world.regions, granted(AT_SOUTH, at=START, minted=0))
    world.regions.deliver()
    await world.clock.advance(LATE)
    one = limited(world)
    one.faults[SOUTH] = lambda call: (
        Raises(Unreachable("gone")) if call.operation == "query" else None
    )
    report = await world.run_once(one)
    assert report.unreadable == SOUTH
    assert (report.grants_closed, report.grants_waiting, report.transfers) == (0, 1, 1)
    assert set(shown_rights(world.regions, AT_HOME).sent) == {AT_WEST}
    assert sum("budgets in ap-southeast-2" in problem for problem in report.problems) == 1


async def test_what_cannot_be_read_of_one_budget_holds_up_no_other() -> None:
    """It is a problem of that budget, and named."""
    world = World()
    spent(world, *spends())
    put_rights(world.regions, granted(AT_HOME, 5, at=START), "team")
    broken = {"pk": {"S": "~budget~team"}, "sk": {"S": "rights#broken"}, "version": {"N": "1"}}
    world.regions.put(HOME, broken)
    world.regions.deliver()
    await world.clock.advance(LATE)
    report = await world.run_once(limited(world))
    assert report.grants_closed == 1
    assert [problem for problem in report.problems if "'team'" in problem]


async def test_the_search_reads_grants_only_where_there_are_budgets() -> None:
    """And finds those alone that are over."""
    world = World()
    spent(world)
    settings = limited_settings()
    rules = rules_of(settings)

    async def found(after: float, rules_now: Any = rules) -> list[str]:
        now = START.fromtimestamp(START.timestamp() + after, START.tzinfo)
        finder = Finder(
            world.regions.replicas[HOME],
            rules=rules_now,
            now=now,
            segments=1,
            pages_max=9,
            stop=anyio.Event(),
        )
        return (await finder.find(None)).due

    assert await found(LIFE + 2) == []
    assert await found(LIFE + 3) == ["counter"]
    assert await found(LIFE + 3, replace(rules, budgets=())) == []


async def test_a_preview_says_what_waits_for_a_grant() -> None:
    """Entries that every region shows alike, and that are not folded all the same."""
    world = World()
    spent(world, *spends())
    await world.clock.advance(SETTLE + 1)
    settings = limited_settings()
    rules = rules_of(settings)
    observed = await observe(
        world.regions.replicas,
        "counter",
        home=HOME,
        clock=world.clock,
        with_items=rules.needs_items("counter"),
        with_rights=rules.has_budget("counter"),
    )
    found = explained(observed, rules, settings, now=world.clock.now())
    assert (found.settled, found.folds) == (4, 0)
    (reason,) = found.reasons
    assert reason.startswith("4 settled entries wait for the grants that paid for them")
