"""What passes do for budgets: grants closed, entries folded after that, rights moved, alarms."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import anyio
import pytest
from prometheus_client import CollectorRegistry
from support.archiving import URL
from support.budgets import (
    AT_HOME,
    AT_SOUTH,
    AT_WEST,
    LIFE,
    changed,
    granted,
    limited_settings,
    put_rights,
    seconds,
    shown_rights,
    spend_item,
    whole,
)
from support.compacting import SETTLE, Instance, World
from support.ledgers import HOME, SOUTH, WEST, seeded

from compactor.budget_work import BudgetSchedule, BudgetWork
from compactor.context import MergeContext
from compactor.discovery.scan import Finder
from compactor.metrics import CompactorMetrics
from compactor.observation import ReadExtent, observe
from compactor.pass_terms import PassTerms, rules_of
from compactor.preview import explain_preview
from compactor.report import CompactorReport
from ledger.budgets.limit_windows import BudgetLimit, LimitStep, limit_item
from ledger.budgets.rights import GrantName, Rights
from ledger.budgets.rights_items import read_budget
from ledger.budgets.rights_plan import create, send
from ledger.core.amounts import EXACT
from ledger.core.entry import Item
from ledger.core.errors import Unreachable
from ledger.reads.archive.access import archived_of
from ledger.reads.archive.places.memory import MemoryPlace
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.reads.archive.reader import ArchiveReader
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.port import Store
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
        world.sum["counter"] = EXACT.add(world.sum.get("counter", 0), change)
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


async def test_what_a_grant_paid_for_is_archived_once_it_is_closed() -> None:
    """Nothing is put into the archive before, and all of it then."""
    world, place = World(), MemoryPlace(URL)
    spent(world, *spends())
    settings = limited_settings().replace(archive=(URL,))
    one = world.instance(settings=settings, archive=[place])
    await world.clock.advance(SETTLE + 1)
    assert (await world.run_once(one)).is_success
    assert not place.objects
    await world.clock.advance(LATE)
    for _ in range(4):
        assert (await world.run_once(one)).is_success
        assert world.is_right()
    net = world.shown(HOME).net
    reader = ArchiveReader(ReplicatedPlace([place]))
    segments = [segment async for segment in reader.walk("counter", archived_of(net, "counter"))]
    assert [len(segment.lines) for segment in segments] == [4]
    assert not world.shown(HOME).entries


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
@pytest.mark.parametrize("is_made", [True, False])
async def test_rights_on_their_way_are_found_by_the_search(
    *, page_items: int, is_made: bool
) -> None:
    """Whoever asked for them is gone: they are taken up, on whichever pages both items are.

    Also where the region that asked had no item yet.
    """
    world = World()
    for replica in world.regions.replicas.values():
        replica.page_items_max = page_items
    sent = send(granted(AT_HOME, at=START), AT_WEST, Decimal(30))
    assert isinstance(sent, Rights)
    put_rights(world.regions, sent)
    limit = BudgetLimit(1, (LimitStep.of(100, {AT_HOME: 1}),))
    world.regions.put(HOME, limit_item(limit, "counter"))
    if is_made:
        put_rights(world.regions, create(AT_WEST, Decimal(0)))
    world.regions.deliver()
    one = limited(world)
    await world.run_once(one)
    assert shown_rights(world.regions, AT_WEST).taken == {AT_HOME: 30}
    world.regions.deliver()
    assert (await world.run_once(one)).is_idle


def budgets_of(
    world: World, stores: Mapping[str, Store], settings: Settings, later: BudgetSchedule
) -> tuple[BudgetWork, CompactorReport]:
    """Return the budgets of a pass, and its report."""
    report = CompactorReport()
    services = Services.of(clock=world.clock, randomness=seeded())
    metrics = CompactorMetrics.of(CollectorRegistry())
    context = MergeContext(stores, settings, services, metrics)
    return BudgetWork(context, PassTerms(context), report=report, later=later), report


async def look(world: World, later: BudgetSchedule, *counters: str) -> CompactorReport:
    """Look at budgets as a pass does to which its hints and search name these counters."""
    budgets, report = budgets_of(world, world.regions.replicas, limited_settings(), later)
    await budgets.keep(counters, anyio.Event())
    world.regions.deliver()
    return report


async def test_a_grant_is_closed_in_time_without_another_search() -> None:
    """A process that has seen it open looks again once it is over."""
    world, later = World(), BudgetSchedule()
    spent(world)
    assert (await look(world, later)).grants_open == 0
    assert (await look(world, later, "counter")).grants_open == 1
    world.clock.pass_by(LIFE)
    assert (await look(world, later)).grants_open == 0  # it is not looked at
    world.clock.pass_by(LATE - LIFE)
    assert (await look(world, later)).grants_closed == 1
    assert later.due(world.clock.now().timestamp()) == []


async def test_what_was_sent_is_taken_up_without_a_search() -> None:
    """In the pass after it was sent, or once it has arrived; no entry leads there any more."""
    world, later = World(), BudgetSchedule()
    put_rights(world.regions, granted(AT_HOME, at=START, minted=310))
    for holder in (AT_WEST, AT_SOUTH):
        put_rights(world.regions, granted(holder, at=START, minted=0))
    world.regions.deliver()
    world.regions.pause(HOME, SOUTH)
    assert (await look(world, later, "counter")).transfers == 2
    for _ in range(2):
        assert (await look(world, later)).transfers == 0
    taken = (AT_WEST, AT_SOUTH)
    assert whole(*(shown_rights(world.regions, each).available for each in taken)) == [103, 0]
    world.regions.heal()
    world.regions.deliver()
    for _ in range(2):
        await look(world, later)
    assert whole(*(shown_rights(world.regions, each).available for each in taken)) == [103, 103]
    assert later.due(world.clock.now().timestamp()) == []


async def test_what_failed_is_tried_again_in_the_next_pass() -> None:
    """No entry leads there, and the next search may be far."""
    world, later = World(), BudgetSchedule()
    spent(world)
    world.clock.pass_by(LATE)
    rights = shown_rights(world.regions, AT_HOME)
    key = {"pk": {"S": "~budget~counter"}, "sk": {"S": AT_HOME.sort_key}}
    world.regions.put(HOME, {**key, "grants": {"S": "?"}})
    report = await look(world, later, "counter")
    assert (report.grants_closed, len(report.problems)) == (0, 1)
    put_rights(world.regions, rights)
    world.regions.deliver()
    assert (await look(world, later)).grants_closed == 1


def test_what_is_to_be_looked_at_later_is_bounded() -> None:
    """What finds no place is led to by its entries, or the search."""
    later = BudgetSchedule(budgets_max=2)
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


@pytest.mark.parametrize("kind", ["hold", "let through", "held on"])
async def test_a_search_finds_what_is_to_be_resolved(kind: str) -> None:
    """In a budget that nothing else leads a pass to: too few entries to fold, no grant open."""
    world = World()
    put_rights(world.regions, granted(AT_HOME, at=START))
    grant = GrantName(AT_HOME, 0) if kind == "let through" else GRANT
    later = {"hold": LATE - 10, "held on": LATE + 10}.get(kind)
    hold = None if later is None else seconds(START) + later
    item = spend_item(5, grant, at=START, suffix=9, hold=hold)
    world.regions.put(HOME, item)
    world.regions.deliver()
    await world.clock.advance(LATE)
    one = limited(world, fold_min=20)
    report = await world.run_once(one)
    assert report.holds_expired == (kind == "hold")
    assert report.let_through_charged == (kind == "let through")
    assert one.metric("compactor_budget_let_through_charged_total") == (kind == "let through")
    assert report.is_idle == (kind == "held on")
    assert report.due == (kind != "held on")


async def test_what_cannot_be_charged_is_told_and_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is folded before a later pass has charged it."""
    world = World()
    put_rights(world.regions, granted(AT_HOME, at=START))
    through = GrantName(AT_HOME, 0)
    spent(world, *(spend_item(5, through, at=START, suffix=place) for place in (1, 2, 3)))
    await world.clock.advance(LATE + SETTLE)
    one = limited(world)

    async def fails(*_: object) -> int:
        raise Unreachable("down")

    with monkeypatch.context() as patched:
        patched.setattr("compactor.budget_work.charge_open", fails)
        report = await world.run_once(one)
    assert report.let_through_charged == report.merged == 0
    assert {*report.problems} == {"what was let through in 'counter': down"}
    reports = [await world.run_once(one) for _ in range(3)]
    assert [report.let_through_charged for report in reports] == [3, 0, 0]
    assert sum(report.merged for report in reports) == 3
    assert shown_rights(world.regions, AT_HOME).charged == 15


@pytest.mark.parametrize("alike", [True, False])
async def test_a_hold_of_a_lost_region_is_resolved_once_all_show_it_alike(*, alike: bool) -> None:
    """What one region does not show yet may have been settled."""
    world = World()
    home = changed(
        granted(AT_HOME, at=START),
        reclaimed={AT_WEST: Decimal(0)},
        cut={AT_WEST: Decimal(0)},
    )
    put_rights(world.regions, home)
    hold = spend_item(5, GrantName(AT_WEST, 2), at=START, hold=seconds(START) + 20)
    if not alike:
        world.regions.pause(HOME, SOUTH)
    world.regions.put(HOME, hold)
    world.regions.deliver()
    world.clock.pass_by(LATE)
    terms = replace(
        limited_settings().terms,
        regions=(HOME, SOUTH),
        lost=("eu-west-1",),
        given_up_at=START,
        generation=2,
    )
    settings = limited_settings().under(terms, home=HOME)
    stores = {region: world.regions.replicas[region] for region in (HOME, SOUTH)}
    extent = ReadExtent(with_items=True, with_rights=True)
    observed = await observe(stores, "counter", home=HOME, clock=world.clock, extent=extent)
    budgets, report = budgets_of(world, stores, settings, BudgetSchedule())
    await budgets.resolve(observed)
    assert report.holds_expired == int(alike)
    assert shown_rights(world.regions, AT_HOME).available == (105 if alike else 100)


async def test_rights_move_between_regions_while_passes_go_on() -> None:
    """What one pass sends the next takes up, through each region's own endpoint."""
    world = World()
    put_rights(world.regions, granted(AT_HOME, 10, at=START, minted=310))
    for holder in (AT_WEST, AT_SOUTH):
        put_rights(world.regions, granted(holder, at=START, minted=0))
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
    for others in ((), ("other",)):
        assert await found(LIFE + 3, replace(rules, budgets=others)) == []


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
        extent=ReadExtent(
            with_items=rules.needs_items("counter"), with_rights=rules.has_budget("counter")
        ),
    )
    found = explain_preview(observed, rules, settings, now=world.clock.now())
    assert (found.settled, found.folds) == (4, 0)
    (reason,) = found.reasons
    assert reason.startswith("4 settled entries wait for the grants that paid for them")


async def test_a_limit_that_a_lost_home_made_is_written_by_the_next() -> None:
    """From the newest that any region shows: home has got an older one, or none."""
    world = World()
    put_rights(world.regions, granted(AT_WEST, at=START, minted=0))
    made = BudgetLimit(3, (LimitStep.of(10, {AT_HOME: 1}),))
    world.regions.put(SOUTH, limit_item(made, "counter"))
    terms = replace(
        limited_settings().terms, home=WEST, regions=(WEST, SOUTH), lost=(HOME,), generation=2
    )
    settings = limited_settings().under(terms, home=WEST)
    stores = {region: world.regions.replicas[region] for region in (WEST, SOUTH)}
    budgets, report = budgets_of(world, stores, settings, BudgetSchedule())
    await budgets.keep(["counter"], anyio.Event())
    assert report.problems == []
    found = (await read_budget(stores[WEST], "counter")).limit
    assert found is not None
    assert (found.generation, found.revision, found.steps) == (2, 4, made.steps)
