"""What every ledger must do, whichever way it is reached: one test for each behaviour.

A subclass gives the `way`: an async context of a ledger over a `MemoryGlobalTable` with some
settings, be it the library's, the plain one's, or that of a client of the service.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, ClassVar

import pytest

from ledger.core.errors import (
    AmountOverflow,
    InvalidAmount,
    InvalidCounter,
    InvalidEntry,
    InvalidInput,
    KeyConflict,
    LedgerError,
    OutcomeUnknown,
    RetryHorizonPassed,
    StateConflict,
    UntimedKey,
)
from ledger.core.ids import sort_key, suffix_of
from ledger.core.values import Entry
from ledger.testing import MemoryGlobalTable
from ledger.writes.entry_plan import Change

NAMES = [
    "stock",
    "shop/eu-west-1/shoes",
    "a b+c%2Fd?e=f&g#h",
    ".",
    "..",
    "a/../b",
    "größe-日本-🙂",
    '"quoted"',
]
START = datetime(2026, 11, 21, tzinfo=UTC)
KEYS = ["order-17", '"quoted"', "größe 🙂", " padded ", "01ARZ3NDEKTSV4RRFFQ69G5FAV"]


@dataclass(frozen=True, slots=True)
class Made:
    """A ledger of the home region, and the table behind it; `ledger` is awaited."""

    ledger: Any
    table: MemoryGlobalTable

    def ago(self, **spans: float) -> datetime:
        """Return a time so long ago."""
        return self.table.clock.now() - timedelta(**spans)


Make = Callable[..., AbstractAsyncContextManager[Made]]


class LedgerSuite:
    """Every behaviour; see the module."""

    way: ClassVar[Make]

    @pytest.fixture
    def make(self) -> Make:
        """Return what opens a ledger over a table with these settings."""
        return self.way

    async def test_what_was_recorded_is_in_the_total(self, make: Make) -> None:
        """At once, each change once, exactly."""
        async with make() as one:
            for change in (5, Decimal("-2.25"), 10**20, Decimal("1E-10"), 0):
                entry = await one.ledger.record("stock", change)
                assert (entry.counter, entry.change, entry.count) == ("stock", change, 1)
                assert (entry.region, entry.repeated) == ("us-east-1", False)
            total = await one.ledger.total("stock", max_age=0)
            assert total.value == Decimal("100000000000000000002.7500000001")
            assert (total.counter, total.region, total.entries) == ("stock", "us-east-1", 5)
            assert total.as_of <= total.ended

    @pytest.mark.parametrize("name", NAMES)
    async def test_a_counter_may_have_any_name(self, make: Make, name: str) -> None:
        """Its changes, history, description and lists are its own."""
        async with make(index=("*",)) as one:
            entry = await one.ledger.record(name, 3, note="größe 🙂")
            assert (await one.ledger.total(name, max_age=0)).value == 3
            assert list(await one.ledger.totals([name], max_age=0)) == [name]
            assert [found async for found in one.ledger.history(name)] == [entry]
            assert await one.ledger.describe(name, {"kind": "x"}) == {"kind": "x"}
            assert await one.ledger.description(name) == {"kind": "x"}

    async def test_an_entry_keeps_what_it_was_given(self, make: Make) -> None:
        """Note and effective date come back, from the call and from the history."""
        async with make() as one:
            entry = await one.ledger.record(
                "stock", Decimal("1.50"), note='a "note"\n', effective=date(2026, 11, 1)
            )
            assert (entry.note, entry.effective) == ('a "note"\n', date(2026, 11, 1))
            assert [found async for found in one.ledger.history("stock")] == [entry]

    @pytest.mark.parametrize("key", KEYS)
    async def test_a_repeat_under_a_key_counts_once(self, make: Make, key: str) -> None:
        """And returns the entry that was there, said to be `repeated`."""
        async with make() as one:
            at = one.ago(seconds=3)
            first = await one.ledger.record("stock", 2, key=key, at=at)
            again = await one.ledger.record("stock", 2, key=key, at=at)
            assert (first.repeated, again.repeated) == (False, True)
            assert again == first
            assert first.at == at
            assert (await one.ledger.total("stock", max_age=0)).value == 2

    async def test_a_key_stands_for_one_change(self, make: Make) -> None:
        """Another change under it is refused, with both."""
        async with make() as one:
            at = one.ago(seconds=3)
            await one.ledger.record("stock", 2, key="order-17", at=at)
            with pytest.raises(KeyConflict) as caught:
                await one.ledger.record("stock", 3, key="order-17", at=at, note="other")
            found = caught.value.theirs
            assert [caught.value.ours.change, found and found.change] == [3, 2]
            assert (caught.value.outcome, caught.value.retryable) == ("not_applied", False)
            assert (await one.ledger.total("stock", max_age=0)).value == 2

    async def test_calls_without_a_key_are_changes_of_their_own(self, make: Make) -> None:
        """Equal ones too; in the history they are in the order in which they were made."""
        async with make() as one:
            made = []
            for _ in range(5):
                made.append(await one.ledger.record("stock", 1))
                one.table.clock.pass_by(0.000_001)
            assert len({entry.id for entry in made}) == 5
            assert [found async for found in one.ledger.history("stock")] == made
            assert (await one.ledger.total("stock", max_age=0)).value == 5

    @pytest.mark.parametrize(
        ("asked", "kind"),
        [
            ({"counter": "", "change": 1}, InvalidCounter),
            ({"counter": "~stock", "change": 1}, InvalidCounter),
            ({"counter": "a\nb", "change": 1}, InvalidCounter),
            ({"counter": 7, "change": 1}, InvalidCounter),
            ({"counter": "e\u0301", "change": 1}, InvalidCounter),
            ({"counter": "stock", "change": 1.5}, InvalidAmount),
            ({"counter": "stock", "change": "1"}, InvalidAmount),
            ({"counter": "stock", "change": Decimal("NaN")}, InvalidAmount),
            ({"counter": "stock", "change": 10**38 + 1}, AmountOverflow),
            ({"counter": "stock", "change": 10**38}, AmountOverflow),
            ({"counter": "stock", "change": Decimal("1E-39"), "note": "n"}, AmountOverflow),
            ({"counter": "stock", "change": 1, "key": "order-17"}, UntimedKey),
            ({"counter": "stock", "change": 1, "key": ""}, InvalidEntry),
            (
                {"counter": "stock", "change": 1, "at": datetime(2026, 11, 21, tzinfo=UTC)},
                InvalidEntry,
            ),
            ({"counter": "stock", "change": 1, "note": 5}, InvalidEntry),
            ({"counter": "stock", "change": 1, "note": "\ud800"}, InvalidEntry),
            ({"counter": "stock", "change": 1, "note": "x" * 500_000}, InvalidEntry),
            ({"counter": "stock", "change": 1, "effective": "2026-11-21"}, InvalidEntry),
            ({"counter": "stock", "change": 1, "timeout": 0}, InvalidInput),
        ],
    )
    async def test_what_breaks_a_rule_is_refused(
        self, make: Make, asked: Mapping[str, Any], kind: type[LedgerError]
    ) -> None:
        """By its class, and nothing is written."""
        async with make() as one:
            with pytest.raises(kind) as caught:
                await one.ledger.record(**asked)
            assert type(caught.value) is kind
            assert (caught.value.outcome, caught.value.retryable) == ("not_applied", False)
            assert (await one.ledger.total("stock", max_age=0)).changes == 0

    async def test_past_the_retry_horizon_a_change_is_refused(self, make: Make) -> None:
        """With the entry that it would have been."""
        async with make() as one:
            with pytest.raises(RetryHorizonPassed) as caught:
                await one.ledger.record("stock", 1, key="order-17", at=one.ago(hours=1))
            assert caught.value.entry is not None
            assert [caught.value.entry.counter, caught.value.entry.change] == ["stock", 1]
            assert caught.value.outcome == "unknown"

    async def test_many_are_recorded_in_order(self, make: Make) -> None:
        """Changes and pairs, keyed ones and others."""
        async with make() as one:
            asked = [("stock", 1), Change("votes", 2, note="n"), ("stock", 3)]
            entries = await one.ledger.record_many(asked)
            assert [(entry.counter, entry.change) for entry in entries] == [
                ("stock", 1), ("votes", 2), ("stock", 3),
            ]  # fmt: skip
            found = await one.ledger.totals(["votes", "stock"], max_age=0)
            assert {name: total.value for name, total in found.items()} == {"votes": 2, "stock": 4}
            assert await one.ledger.record_many([]) == []

    async def test_of_many_totals_one_that_does_not_fit_is_an_error(self, make: Make) -> None:
        """Which names its counter; the others are read without it."""
        async with make() as one:
            await one.ledger.record_many([("a", 10**37), ("b", 2), ("a", Decimal("1E-38"))])
            with pytest.raises(AmountOverflow, match="'a'") as caught:
                await one.ledger.totals(["b", "a"], max_age=0)
            assert (caught.value.outcome, caught.value.retryable) == ("not_applied", False)
            assert list(await one.ledger.totals(["b"], max_age=0)) == ["b"]

    async def test_of_many_those_that_were_there_are_told(self, make: Make) -> None:
        """In the order asked, among others, with and without keys."""
        async with make() as one:
            keyed = [Change("a", 1, key=f"order-{n}", at=one.ago(seconds=3)) for n in range(30)]
            first = await one.ledger.record_many(keyed[:28])
            again = await one.ledger.record_many([("b", 2), *keyed, keyed[0]])
            assert [each.repeated for each in first] == [False] * 28
            assert [each.repeated for each in again] == [False, *[True] * 28, False, False, True]
            assert again[1:29] == first
            (alone,) = await one.ledger.record_many(keyed[:1])
            assert alone.repeated

    async def test_many_are_checked_before_any_is_sent(self, make: Make) -> None:
        """One that breaks a rule lets none through."""
        async with make() as one:
            with pytest.raises(InvalidAmount):
                await one.ledger.record_many([("stock", 1), ("stock", 1.5)])
            with pytest.raises(AmountOverflow):
                await one.ledger.record_many([("stock", 1), ("stock", 10**38)])
            assert (await one.ledger.total("stock", max_age=0)).changes == 0

    async def test_changes_together_are_written_all_or_none(self, make: Make) -> None:
        """A conflict of one refuses all."""
        async with make() as one:
            at = one.ago(seconds=3)
            together = [Change("a", -1, key="move-1", at=at), Change("b", 1, key="move-1", at=at)]
            entries = await one.ledger.record_together(together)
            again = await one.ledger.record_together([*together, Change("d", 1)])
            assert again[:2] == entries
            assert [each.repeated for each in (*entries, *again)] == [
                False,
                False,
                True,
                True,
                False,
            ]
            with pytest.raises(KeyConflict):
                await one.ledger.record_together([("c", 1), Change("a", 7, key="move-1", at=at)])
            found = await one.ledger.totals(["a", "b", "c"], max_age=0)
            assert [total.value for total in found.values()] == [-1, 1, 0]
            with pytest.raises(InvalidEntry):
                await one.ledger.record_together([("a", 1)] * 101)

    async def test_a_retry_counts_once(self, make: Make) -> None:
        """Whether the entries are there or not."""
        async with make() as one:
            now = one.table.clock.now()
            written = await one.ledger.record("stock", 2, key="order-17", at=now)
            there = replace(written, key="order-17")
            id_ = sort_key(now, suffix_of("stock", "order-18"))
            lost = Entry("stock", id_, Decimal(5), key="order-18")
            for together, repeated in ((False, False), (True, True), (False, True)):
                found = await one.ledger.retry([there, lost], together=together)
                assert [each.id for each in found] == [there.id, lost.id]
                assert [each.repeated for each in found] == [True, repeated]
            assert (await one.ledger.total("stock", max_age=0)).value == 7
            with pytest.raises(InvalidInput):
                await one.ledger.retry([OutcomeUnknown("x", entries=[there])])

    async def test_an_entry_is_reversed_once(self, make: Make) -> None:
        """Repeated, the first reversal is returned; another note is refused."""
        async with make() as one:
            entry = await one.ledger.record("stock", Decimal("2.50"))
            with pytest.raises(StateConflict, match="not shown alike") as early:
                await one.ledger.reverse(entry, note="returned")
            assert early.value.retryable
            one.table.replicate()
            day = date(2026, 11, 1)
            reversal = await one.ledger.reverse(entry, note="returned", effective=day)
            again = await one.ledger.reverse(entry, note="returned")
            assert (reversal.change, reversal.reverses) == (Decimal("-2.50"), entry.id)
            assert reversal.effective == day
            assert again == reversal
            assert (reversal.repeated, again.repeated) == (False, True)
            with pytest.raises(InvalidInput):
                await one.ledger.reverse(entry, note="other")
            with pytest.raises(InvalidInput):
                await one.ledger.reverse(entry, effective=date(2026, 11, 2))
            with pytest.raises(InvalidInput):
                await one.ledger.reverse(reversal)
            assert (await one.ledger.total("stock", max_age=0)).value == 0

    async def test_a_count_corrects_once(self, make: Make) -> None:
        """By its token; another count under it is refused."""
        async with make() as one:
            await one.ledger.record("stock", 7)
            done = await one.ledger.reconcile("stock", counted=5, reason="count", token="t-1")
            again = await one.ledger.reconcile("stock", counted=5, reason="count", token="t-1")
            assert (done.change, done.total, done.counted) == (-2, 7, 5)
            assert again == done
            assert (done.repeated, again.repeated) == (False, True)
            with pytest.raises(InvalidInput):
                await one.ledger.reconcile("stock", counted=6, token="t-1")
            one.table.clock.pass_by(0.001)
            unnamed = await one.ledger.reconcile("stock", counted=9)
            assert unnamed.change == 4
            assert (await one.ledger.total("stock", max_age=0)).value == 9

    async def test_a_total_can_be_that_of_a_moment(self, make: Make) -> None:
        """By when changes were made, or are effective."""
        async with make() as one:
            await one.ledger.record("stock", 1, effective=date(2026, 11, 1))
            one.table.clock.pass_by(60)
            await one.ledger.record("stock", 2)
            before = await one.ledger.total("stock", at=one.ago(seconds=30))
            assert (before.value, before.at) == (1, one.ago(seconds=30))
            found = await one.ledger.total("stock", at=date(2026, 11, 2), effective=True)
            assert found.value == 1
            assert (await one.ledger.total("stock", steady=True)).steady
            for wrong in ({"max_age": -1}, {"steady": True, "max_age": 5}, {"effective": True}):
                with pytest.raises(InvalidInput):
                    await one.ledger.total("stock", **wrong)

    async def test_a_total_may_be_from_the_cache(self, make: Make) -> None:
        """If it is young enough."""
        async with make() as one:
            await one.ledger.total("stock", max_age=0)
            await one.ledger.record("stock", 1)
            old = await one.ledger.total("stock", max_age=60)
            assert (old.value, old.cached) == (0, True)
            assert (await one.ledger.total("stock", max_age=0)).value == 1

    async def test_totals_are_in_the_order_asked(self, make: Make) -> None:
        """Each name once, as many as are asked for."""
        async with make() as one:
            names = [f"counter-{number}-{'x' * 40}" for number in range(250)]
            found = await one.ledger.totals([*names, *names[:3]], max_age=0)
            assert list(found) == names
            assert await one.ledger.totals([]) == {}
            with pytest.raises(InvalidInput):
                await one.ledger.totals("stock")

    async def test_a_history_has_bounds(self, make: Make) -> None:
        """Times and ids, both left out; and as many pages as it takes."""
        async with make() as one:
            made = []
            for number in range(7):
                made.append(await one.ledger.record("stock", number))
                one.table.clock.pass_by(1)
            assert all(before.id < after.id for before, after in pairwise(made))

            async def between(**bounds: Any) -> list[Entry]:
                return [entry async for entry in one.ledger.history("stock", **bounds)]

            assert await between() == made
            assert await between(after=made[1].id, before=made[4].id) == made[2:4]
            assert await between(after=made[1].at, before=made[4].at) == made[2:4]
            with pytest.raises(InvalidEntry):
                await between(after="nothing")
            with pytest.raises(InvalidEntry):
                await between(after=datetime(2026, 11, 21))  # noqa: DTZ001 (that is the point)

    async def test_sums_by_period_are_kept(self, make: Make) -> None:
        """By hour, of several counters; where none are kept that is said."""
        async with make(periods={"api/*": {"hours": 72, "days": 62}}) as one:
            await one.ledger.record("api/a", 2)
            await one.ledger.record("api/b", 3)
            found = await one.ledger.periods("api/a", by="hour", since=one.ago(hours=2))
            assert (found.counter, found.by, found.total) == ("api/a", "hour", 2)
            assert sum(period.value for period in found.periods) + found.opening == 2
            both = await one.ledger.periods_many(["api/b", "api/a"], by="day")
            assert {name: each.closing for name, each in both.items()} == {"api/b": 3, "api/a": 2}
            with pytest.raises(InvalidInput):
                await one.ledger.periods("stock", by="hour")
            with pytest.raises(InvalidInput):
                await one.ledger.periods("api/a", by="week")

    async def test_counters_are_listed_and_ranked(self, make: Make) -> None:
        """By prefix, page by page, with what they are described by."""
        async with make(index=("*",), compactor={"fold_min": 1, "scan_every": 0}) as one:
            for place, name in enumerate(["shop/a", "shop/b", "shop/c", "votes"], 1):
                await one.ledger.record(name, place)
            described = {"colour": "red", "size": Decimal("1.5"), "count": 7, "sold": True}
            assert await one.ledger.describe("shop/a", described) == described
            await one.table.merge()
            listed = [counter async for counter in one.ledger.counters("shop/", described=True)]
            assert [(each.counter, each.value) for each in listed] == [
                ("shop/a", 1), ("shop/b", 2), ("shop/c", 3),
            ]  # fmt: skip
            assert [each.description for each in listed] == [described, {}, {}]
            found = [counter async for counter in one.ledger.counters("", after="shop/a", limit=2)]
            assert [each.counter for each in found] == ["shop/b", "shop/c"]
            exact = [counter async for counter in one.ledger.counters("votes", exact=True)]
            assert exact[0].is_exact
            best = await one.ledger.top("shop/", 2)
            assert [each.counter for each in best] == ["shop/c", "shop/b"]
            least = await one.ledger.top("", 1, smallest=True, exact=True)
            assert [(each.counter, each.is_exact) for each in least] == [("shop/a", True)]
            with pytest.raises(InvalidInput):
                await one.ledger.top("shop/", 0)
            with pytest.raises(InvalidInput):
                [counter async for counter in one.ledger.counters(limit=0)]

    async def test_a_prefix_that_is_not_indexed_is_refused(self, make: Make) -> None:
        """The contract says which are."""
        async with make(index=("shop/*",)) as one:
            with pytest.raises(InvalidInput):
                [counter async for counter in one.ledger.counters("votes/")]

    async def test_a_description_keeps_types(self, make: Make) -> None:
        """Numbers, text that looks like them, and truth; None removes, and the rest stays."""
        async with make() as one:
            given = {"number": 5, "text": "5", "fine": Decimal("5.50"), "yes": True}
            found = await one.ledger.describe("stock", given)
            assert found == given
            assert {name: type(value) for name, value in found.items()} == {
                "number": int, "text": str, "fine": Decimal, "yes": bool,
            }  # fmt: skip
            assert "text" not in await one.ledger.describe("stock", {"text": None})
            assert (await one.ledger.description("stock"))["fine"] == Decimal("5.5")
            assert await one.ledger.description("other") == {}
            for wrong in ({}, {"x": 1.5}, {"x": "y" * 3_000}, {5: "x"}):
                with pytest.raises(InvalidInput):
                    await one.ledger.describe("stock", wrong)

    async def test_nothing_works_while_it_is_closed(self, make: Make) -> None:
        """Neither writing nor reading, but closing does."""
        async with make() as one:
            await one.ledger.close()
            with pytest.raises(LedgerError):
                await one.ledger.record("stock", 1)
            with pytest.raises(LedgerError):
                await one.ledger.total("stock")
            await one.ledger.close()

    async def test_the_feed_has_each_entry_in_one_page(self, make: Make) -> None:
        """In the order of arrival, from a cursor or a time on, by prefix or by name."""
        async with make() as one:
            for counter, change in (("a/1", 1), ("b", 2), ("a/2", 3)):
                await one.ledger.record(counter, change, note="n")
            pages = [await one.ledger.feed_page("a/", limit=1)]
            while pages[-1].entries:
                pages.append(await one.ledger.feed_page("a/", after=pages[-1].cursor, limit=1))
            found = [entry for page in pages for entry in page.entries]
            assert sorted(entry.counter for entry in found) == ["a/1", "a/2"]
            assert {entry.note for entry in found} == {"n"}
            named = await one.ledger.feed_page(counters=["b"], since=one.ago(hours=1))
            assert [entry.change for entry in named.entries] == [2]
            assert not (await one.ledger.feed_page(since=one.ago(hours=-1))).entries
            async for page in one.ledger.feed("a/"):
                assert len(page.entries) == 2
                break

    @pytest.mark.parametrize(
        "asked",
        [
            {"after": "x"},
            {"limit": 0},
            {"limit": 1_001},
            {"prefix": "~"},
            {"counters": []},
            {"counters": "a"},
            {"since": datetime(2026, 11, 21)},  # noqa: DTZ001 (as a caller might)
        ],
    )
    async def test_a_feed_from_nowhere_is_refused(self, make: Make, asked: Any) -> None:
        """With the rule."""
        async with make() as one:
            with pytest.raises(InvalidInput):
                await one.ledger.feed_page(**asked)
