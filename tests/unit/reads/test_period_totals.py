"""Sums by period as a reader shows them: the same before and after merging, and in which shard."""

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from anyio.lowlevel import checkpoint
from support.ledgers import HOME, seeded

from compactor.merge_plan import Observation, plan_merge
from compactor.pass_terms import rules_of
from ledger import Ledger
from ledger.core import amounts
from ledger.core.entry import net_item
from ledger.core.errors import InvalidInput, ReadTooSlow
from ledger.core.fold import Collection
from ledger.reads import reader
from ledger.reads.period_totals import PeriodTotals
from ledger.runtime.services import Services
from ledger.runtime.tasks import background_tasks
from ledger.session.assembly import GivenConnections
from ledger.settings import Settings
from ledger.store.memory import MemoryStore
from ledger.store.writes import Put
from ledger.testing.clock import ManualClock

USAGE = {"hours": 24, "days": 20, "months": 3}
NOW = datetime(2026, 3, 29, 12, 30, tzinfo=UTC)


class Desk:
    """A ledger of one region whose clock is set by hand, and that is merged by hand."""

    def __init__(self, **settings: Any) -> None:
        given = {"periods": {"usage/*": USAGE}, "regions": {HOME: {}}, **settings}
        self.settings = Settings(**given)
        self.store = MemoryStore(HOME)
        self.clock = ManualClock(instant=True)
        self.clock.wall = NOW
        self.random = seeded()

    async def record(self, *changes: int, at: datetime | None = None, **more: Any) -> None:
        """Record changes of usage/a at a time."""
        self.clock.wall = at.astimezone(UTC) if at else self.clock.wall
        async with self.ledger() as ledger:
            for change in changes:
                await ledger.record("usage/a", change, **more)

    async def periods(self, by: Any, counter: str = "usage/a", **more: Any) -> PeriodTotals:
        """Read the sums."""
        async with self.ledger() as ledger:
            return await ledger.periods(counter, by=by, **more)

    def ledger(self) -> Ledger:
        """Return a ledger over the store."""
        return Ledger(
            self.settings,
            region=HOME,
            given=GivenConnections(store=self.store),
            services=Services.of(clock=self.clock, randomness=self.random),
        )

    def fold(self, partition: str = "usage/a", *, after: timedelta = timedelta(0)) -> None:
        """Merge what is settled, as the compactor would."""
        self.clock.wall += after
        items = [*self.store.table.partitions.get(partition, {}).values()]
        home = Collection(partition=partition, with_dates=True)
        home.add(items)
        rules = rules_of(self.settings)
        seen = Observation(partition, home.net, {HOME: home})
        version = f"{len(items):032x}{self.clock.wall.timestamp():.0f}"
        plan = plan_merge(seen, rules, now=self.clock.wall, version=version)
        for key in plan.deletes:
            del self.store.table.partitions[partition][key]
        if plan.fold is not None:
            item = net_item(plan.fold, partition)
            self.store.table.set((partition, item["sk"]["S"]), item)


def shown(found: PeriodTotals) -> dict[str, int]:
    """Return the sums that are not 0 by their local beginnings."""
    return {
        f"{period.start:%m-%d %H:%M}": int(period.value) for period in found.periods if period.value
    }


async def test_merging_changes_no_period() -> None:
    """By hour, day and month, and the sum before them: the same whatever is merged of it."""
    desk = Desk(compactor={"fold_min": 1})
    await desk.record(1, at=NOW - timedelta(days=40))
    await desk.record(20, at=NOW - timedelta(days=3))
    await desk.record(300, 4000, at=NOW - timedelta(hours=5))
    await desk.record(50000, at=NOW)
    wanted = {
        "hour": ({"03-29 07:00": 4300, "03-29 12:00": 50000}, 21),
        "day": ({"03-26 00:00": 20, "03-29 00:00": 54300}, 1),
        "month": ({"02-01 00:00": 1, "03-01 00:00": 54320}, 0),
    }
    for merging in range(4):
        for by, (sums, opening) in wanted.items():
            since = date(2026, 3, 28) if by == "hour" else date(2026, 2 if by == "month" else 3, 1)
            found = await desk.periods(by, since=since)
            assert (merging, by, shown(found)) == (merging, by, sums)
            assert found.opening == opening
            assert found.closing == found.total == 54321
            assert all(period.is_whole for period in found.periods)
        desk.fold(after=timedelta(minutes=25))
    net = desk.store.table.partitions["usage/a"]["~net#0001"]
    assert (net["change"]["N"], "periods" in net) == ("54321", True)


async def test_periods_follow_each_other_without_a_gap() -> None:
    """The end of one is the beginning of the next, also of sums of 0 and where clocks are set."""
    desk = Desk(periods={"usage/*": {**USAGE, "zone": "Europe/Berlin"}})
    await desk.record(7, at=NOW)
    begins = {"hour": date(2026, 3, 28), "day": date(2026, 3, 1), "month": date(2025, 12, 1)}
    for by, count in (("hour", 47), ("day", 29), ("month", 4)):
        found = await desk.periods(by, since=begins[by], until=date(2026, 3, 30))
        assert (by, len(found.periods)) == (by, count)
        ends = [period.end for period in found.periods]
        assert [period.start for period in found.periods[1:]] == ends[:-1]
        assert sum(period.value for period in found.periods) == 7


async def test_a_day_is_one_of_its_zone() -> None:
    """What is made at 23:30 in Berlin counts on that day there."""
    desk = Desk(periods={"usage/*": {**USAGE, "zone": "Europe/Berlin"}})
    await desk.record(7, at=datetime(2026, 3, 28, 23, 30, tzinfo=ZoneInfo("Europe/Berlin")))
    await desk.record(1, at=datetime(2026, 3, 29, 0, 30, tzinfo=ZoneInfo("Europe/Berlin")))
    assert shown(await desk.periods("day")) == {"03-28 00:00": 7, "03-29 00:00": 1}


async def test_effective_dates_have_an_axis() -> None:
    """Late and back-dated changes are right on both, merged or not."""
    desk = Desk(periods={"usage/*": {**USAGE, "effective": True}}, compactor={"fold_min": 1})
    await desk.record(7, at=NOW, effective=date(2026, 3, 2))
    await desk.record(1, at=NOW)
    await desk.record(20, at=NOW, effective=date(2026, 5, 2))
    for _ in range(3):
        assert shown(await desk.periods("day")) == {"03-29 00:00": 28}
        found = await desk.periods("day", effective=True, until=date(2026, 5, 3))
        assert shown(found) == {"03-02 00:00": 7, "03-29 00:00": 1, "05-02 00:00": 20}
        march = await desk.periods("month", effective=True, until=date(2026, 4, 1))
        assert shown(march) == {"03-01 00:00": 8}
        assert [march.closing, march.total] == [8, 28]
        desk.fold(after=timedelta(minutes=25))


async def test_of_several_shards_the_coarsest_counts() -> None:
    """One shard may have put hours together that another still tells apart."""
    desk = Desk(shards={"usage/*": 2}, compactor={"fold_min": 1})
    for _ in range(20):
        await desk.record(1, at=NOW)
    first, second = sorted(name for name in desk.store.table.partitions if "usage" in name)
    desk.fold(first, after=timedelta(minutes=25))
    desk.fold(second)
    await desk.record(5, at=NOW + timedelta(days=3))
    desk.fold(first, after=timedelta(minutes=25))
    desk.fold(second)
    found = await desk.periods("hour")
    assert shown(found) == {"04-01 12:00": 5}
    assert found.opening == 20
    assert shown(await desk.periods("day")) == {"03-29 00:00": 20, "04-01 00:00": 5}


async def test_by_days_where_only_hours_are_kept() -> None:
    """They are the sums of their hours."""
    desk = Desk(periods={"usage/*": {"hours": 24, "days": 0, "months": 0}})
    await desk.record(7, at=NOW)
    assert shown(await desk.periods("day")) == {"03-29 00:00": 7}


async def test_hours_follow_each_other_where_clocks_are_set_by_half_an_hour() -> None:
    """On Lord Howe an hour of April has one and a half."""
    desk = Desk(periods={"usage/*": {**USAGE, "zone": "Australia/Lord_Howe"}})
    await desk.record(7, at=datetime(2026, 4, 4, 15, 45, tzinfo=UTC))
    found = await desk.periods("hour", since=date(2026, 4, 5), until=date(2026, 4, 6))
    ends = [period.end for period in found.periods]
    assert [period.start for period in found.periods[1:]] == ends[:-1]
    lengths = [
        (period.end.astimezone(UTC) - period.start.astimezone(UTC)) for period in found.periods
    ]
    assert max(lengths) == timedelta(minutes=90)
    assert sum(lengths, timedelta(0)) == timedelta(hours=24.5)
    assert sum(period.value for period in found.periods) == 7


async def test_sums_of_periods_may_have_more_digits_than_the_total() -> None:
    """They are exact all the same."""
    desk, much = Desk(), 10**38 - 1
    await desk.record(much, 3, at=NOW - timedelta(hours=2))
    await desk.record(-much, at=NOW)
    found = await desk.periods("hour", since=NOW)
    assert [found.opening, found.closing, found.total] == [much + 3, 3, 3]
    found = await desk.periods("hour", until=NOW - timedelta(hours=1))
    assert found.closing == much + 3


async def test_a_date_of_another_kind_is_none() -> None:
    """What another tool wrote as `effective` counts when the change was made."""
    desk = Desk(periods={"usage/*": {**USAGE, "effective": True}})
    await desk.record(7, at=NOW)
    (key,) = desk.store.table.partitions["usage/a"]
    item = desk.store.table.partitions["usage/a"][key]
    desk.store.table.set(("usage/a", key), {**item, "effective": {"N": "20260101"}})
    assert shown(await desk.periods("day", effective=True)) == {"03-29 00:00": 7}


async def at_moment(ledger: Ledger, **more: Any) -> Decimal:
    """Read the total of what was made, or is effective, before the next day."""
    return (await ledger.total("usage/a", at=date(2026, 3, 30), **more)).value


async def by_period(ledger: Ledger, **more: Any) -> Decimal:
    """Read the sums by day."""
    return (await ledger.periods("usage/a", by="day", **more)).total


async def now(ledger: Ledger) -> Decimal:
    """Read the total."""
    return (await ledger.total("usage/a")).value


async def counted(ledger: Ledger, at: datetime | None = None) -> Decimal:
    """Correct the total by a count that fits, and return it."""
    return (await ledger.reconcile("usage/a", counted=Decimal(0), at=at)).total


@pytest.mark.parametrize(
    "read",
    [
        now,
        partial(at_moment),
        partial(at_moment, effective=True),
        partial(by_period),
        partial(by_period, effective=True),
        counted,
        partial(counted, at=NOW + timedelta(minutes=5)),
    ],
)
@pytest.mark.parametrize("incremental", [False, True])
async def test_others_go_on_while_many_entries_are_added_up(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[Ledger], Any], *, incremental: bool
) -> None:
    """Each read adds up a portion of them at a time, and gives up a portion; none are left."""
    rules = {"usage/*": {**USAGE, "effective": True}}
    desk = Desk(periods=rules, cache={"incremental": incremental})
    changes = [*range(1, 30), Decimal("1E-30"), Decimal("-1E-30")]
    await desk.record(*changes, at=NOW)
    await desk.record(-435, at=NOW, effective=date(2026, 3, 20))
    desk.clock.wall = NOW + timedelta(minutes=10)
    monkeypatch.setattr("ledger.core.fold.PORTION", 2)
    turns, most = [0], [0]
    total_wide = amounts.total_wide

    def recorded(values: Iterable[Decimal]) -> Decimal:
        each = [*values]
        most[0] = max(most[0], len(each))
        return total_wide(each)

    async def other() -> None:
        while True:
            turns[0] += 1
            await checkpoint()

    async with desk.ledger() as ledger:
        monkeypatch.setattr(amounts, "total_wide", recorded)
        async with background_tasks() as tasks:
            tasks.start_soon(other)
            assert await read(ledger) == 0
    assert turns[0] >= len(changes) // 2
    assert most[0] <= 2 + 3  # a portion, and what it is added to


async def test_as_many_periods_as_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not one more."""
    monkeypatch.setattr("ledger.reads.period_totals.PERIODS_MAX", 24)
    desk = Desk()
    await desk.record(7, at=NOW)
    day: dict[str, Any] = {"since": date(2026, 3, 29), "until": date(2026, 3, 30)}
    assert len((await desk.periods("hour", **day)).periods) == 24
    with pytest.raises(InvalidInput, match="at most 24 periods"):
        await desk.periods("hour", **{**day, "until": datetime(2026, 3, 30, 0, 1, tzinfo=UTC)})


@pytest.mark.parametrize("shard", [0, 1])
async def test_by_effective_date_no_period_is_surely_whole_after_a_late_rule(shard: int) -> None:
    """What was merged before may have been effective on any date; in any shard."""
    desk = Desk(periods={}, shards={"usage/*": 2}, compactor={"fold_min": 1})
    for _ in range(20):
        await desk.record(1, at=NOW)
    partitions = sorted(name for name in desk.store.table.partitions if "usage" in name)
    desk.fold(partitions[shard], after=timedelta(minutes=25))
    desk.settings = desk.settings.replace(periods={"usage/*": {**USAGE, "effective": True}})
    await desk.record(1, at=NOW + timedelta(days=2))
    found = await desk.periods("day", effective=True, since=date(2026, 3, 31))
    assert [period.is_whole for period in found.periods] == [False]
    made = await desk.periods("day", since=date(2026, 3, 29))
    assert [period.is_whole for period in made.periods] == [False, True, True]


async def test_what_was_merged_before_is_said() -> None:
    """Periods up to the last change that was merged without them may lack some of it."""
    desk = Desk(periods={}, compactor={"fold_min": 1})
    await desk.record(7, at=NOW)
    desk.fold(after=timedelta(minutes=25))
    desk.settings = desk.settings.replace(periods={"usage/*": USAGE})
    await desk.record(1, at=NOW + timedelta(hours=1))
    for _ in range(3):
        found = await desk.periods("hour", since=NOW)
        assert [(int(period.value), period.is_whole) for period in found.periods][:2] == [
            (0, False),
            (1, True),
        ]
        assert [found.opening, found.total] == [7, 8]
        desk.fold(after=timedelta(minutes=25))


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"by": "week"}, "by must be one of hour, day, month, got 'week'"),
        ({"by": "day", "counter": "other"}, "no sums by period are kept of counter 'other'"),
        ({"by": "day", "effective": True}, "no sums by effective date are kept"),
        ({"by": "day", "since": "2026-03-01"}, "since must be a date or an aware datetime"),
        ({"by": "day", "since": datetime(2026, 3, 1)}, "since must be a date or an aware"),  # noqa: DTZ001
        ({"by": "hour", "since": date(2026, 3, 27)}, "by hour of .* from 2026-03-28 on: since"),
        ({"by": "day", "since": date(1950, 1, 1)}, "from 2026-03-01 on: since must not be before"),
        ({"by": "hour", "until": date(2028, 3, 27)}, "at most 1,000 periods"),
        ({"by": []}, r"by must be one of hour, day, month, got \[\]"),
        ({"by": "month", "since": date(1, 1, 1)}, "within the years 2 to 9998, got 0001-01-01"),
        ({"by": "day", "until": date(9999, 1, 1)}, "within the years 2 to 9998, got 9999-01-01"),
    ],
)
async def test_what_cannot_be_told_is_refused(asked: dict[str, Any], error: str) -> None:
    """With the value and the rule."""
    desk = Desk(compactor={"fold_min": 1})
    await desk.record(7, at=NOW)
    desk.fold(after=timedelta(minutes=25))
    with pytest.raises(InvalidInput, match=error):
        await desk.periods(**asked)


async def test_the_hour_that_comes_twice_ends_where_it_is_said() -> None:
    """A bound in the zone of the periods is a moment, not what its clock shows."""
    berlin = ZoneInfo("Europe/Berlin")
    desk = Desk(periods={"usage/*": {**USAGE, "zone": "Europe/Berlin"}})
    for number, at in enumerate(("00:10", "01:10")):  # both 2:10 there
        made = datetime.fromisoformat(f"2026-10-25T{at}+00:00")
        await desk.record(10**number, at=made)
    for fold, values in ((0, [1]), (1, [1, 10])):
        until = datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=fold)
        found = await desk.periods("hour", until=until)
        assert [int(period.value) for period in found.periods] == values
    empty = await desk.periods("hour", since=NOW, until=NOW)
    assert (empty.periods, int(empty.opening)) == ((), 0)
    with pytest.raises(InvalidInput, match="since must not be after until, got 2026"):
        await desk.periods("hour", since=NOW, until=NOW - timedelta(seconds=1))


@pytest.mark.parametrize("day", [date(1, 1, 1), date(1900, 1, 1), date(9000, 1, 1), date.max])
async def test_one_far_date_hides_no_period(day: date) -> None:
    """A change that is effective far from now is in the total, before or after what is shown."""
    desk = Desk(periods={"usage/*": {**USAGE, "effective": True}}, compactor={"fold_min": 1})
    await desk.record(7, at=NOW, effective=day)
    await desk.record(1, at=NOW)
    for _ in range(3):
        for by, place in (("day", "03-29 00:00"), ("month", "03-01 00:00")):
            found = await desk.periods(by, effective=True)
            assert shown(found)[place] == 1
            assert found.total == 8
            is_later = day > NOW.date()
            assert [found.closing, found.total - found.closing] == ([1, 7] if is_later else [8, 0])
        desk.fold(after=timedelta(minutes=25))


async def test_what_is_effective_later_is_shown_up_to_a_date() -> None:
    """By an `until` after it."""
    desk = Desk(periods={"usage/*": {**USAGE, "effective": True}})
    await desk.record(7, at=NOW, effective=date(2027, 1, 5))
    assert shown(await desk.periods("month", effective=True)) == {}
    found = await desk.periods("month", effective=True, until=date(2027, 2, 1))
    assert shown(found) == {"01-01 00:00": 7}
    assert found.closing == found.total == 7


async def test_no_hours_are_kept_by_a_rule_of_days() -> None:
    """Also before anything was merged, so that the answer does not change by merging."""
    desk = Desk(periods={"usage/*": {"hours": 0, "effective": True}}, compactor={"fold_min": 1})
    await desk.record(7, at=NOW)
    for _ in range(2):
        with pytest.raises(InvalidInput, match="no sums by hour are kept of counter 'usage/a'"):
            await desk.periods("hour")
        with pytest.raises(InvalidInput, match="they have no sums by hour"):
            await desk.periods("hour", effective=True)
        desk.fold(after=timedelta(minutes=25))


async def test_what_a_pipeline_adds_has_no_periods() -> None:
    """It is refused, not left out in silence."""
    desk = Desk()
    sum_item = {"value": {"N": "5"}, "version": {"N": "1"}}
    await desk.store.write(
        Put({"pk": {"S": "usage/a"}, "sk": {"S": f"~sum#{HOME}.1#0"}, **sum_item})
    )
    with pytest.raises(InvalidInput, match="a pipeline adds to counter 'usage/a'"):
        await desk.periods("day")


async def test_more_entries_than_are_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what helps: the collection has to be merged first."""
    monkeypatch.setattr(reader, "PERIOD_KEYS_MAX", 3)
    desk = Desk()
    desk.store = MemoryStore(HOME, page_items_max=2)
    await desk.record(*range(1, 9), at=NOW)
    with pytest.raises(ReadTooSlow, match=r"over 3 entries that are not merged"):
        await desk.periods("day")


async def test_nothing_is_shown_of_nothing() -> None:
    """A counter without a change has no first period, and no sum."""
    found = await Desk().periods("day")
    assert (found.periods, found.opening, found.total) == ((), Decimal(0), Decimal(0))
