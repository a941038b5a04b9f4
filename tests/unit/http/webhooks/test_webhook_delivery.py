"""Webhooks of entries and of crossings, delivered from the feed of a table in memory."""

from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Self

import pytest
from prometheus_client import CollectorRegistry
from support.hooks import Receiver, Sending, hook_of
from support.shared_items import put_shared

from ledger.core.amounts import EXACT
from ledger.core.errors import FeedBehind, LeaseLost, StoreError
from ledger.core.values import Entry, Leg
from ledger.http.webhooks.events import HookEvent, of_entry
from ledger.http.webhooks.progress_items import HookPosition, ProgressItems
from ledger.http.webhooks.sender import EventSender
from ledger.http.webhooks.worker import PAGE_MAX
from ledger.reads.feed.page import FeedPage
from ledger.session.book import Book
from ledger.session.ledger import Ledger, store_here
from ledger.testing import MemoryGlobalTable

REGIONS = ("us-east-1", "eu-west-1")


class Died(BaseException):
    """A process ended."""


class World:
    """A table, a receiver, and what a worker keeps."""

    def __init__(self, *answers: int) -> None:
        merging = {"fold_min": 1, "scan_every": 0}
        self.table = MemoryGlobalTable(REGIONS, compactor=merging, books=["book/*"])
        self.receiver = Receiver(list(answers) or [200])
        self.sending = Sending(self.receiver)
        self.stack = AsyncExitStack()
        self.home: Ledger

    async def __aenter__(self) -> Self:
        self.home = await self.stack.enter_async_context(self.table.ledger())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stack.aclose()

    @property
    def kept(self) -> ProgressItems:
        """What the webhook keeps."""
        return ProgressItems(store_here(self.home), "erp")

    def worker(self, **fields: Any) -> Any:
        """Return the delivery as a worker that just began."""
        return self.sending.delivery(self.home, hook_of(**fields), self.table)

    async def dead(self) -> list[str]:
        """Return the ids of the dead letters."""
        return [letter.event.id async for letter in self.kept.dead()]


CROSSINGS = {"on": "crossings", "counters": "stock-*", "below": 10, "rearm": 20}


async def test_each_entry_is_an_event_in_order() -> None:
    """From when the webhook is new on; those that match; late and merged ones too."""
    async with World() as world, world.table.ledger("eu-west-1") as away:
        await world.home.record("a", 0)
        world.table.clock.pass_by(1)
        worker = world.worker(counters="a*")
        await worker.step()
        assert not world.receiver.requests
        late = await away.record("a", 1, note="late")
        for change in (2, 3):
            await world.home.record("a", change)
        await world.home.record("other", 9)
        await world.table.merge()
        await worker.step()
        bodies = world.receiver.bodies
        assert [body["data"]["change"] for body in bodies] == ["2", "3", "1"]
        assert bodies[2]["type"] == "entry.recorded"
        assert bodies[2]["data"] | {"id": late.id, "note": "late"} == bodies[2]["data"]
        await worker.step()
        assert len(world.receiver.requests) == 3
        assert len({*world.receiver.ids}) == 3


async def test_changes_that_share_an_item_are_events_of_their_own() -> None:
    """Of one amount twice, too; all of an item are in one page, however many a page has."""
    async with World() as world:
        worker = world.worker()
        await worker.step()
        store, parts = store_here(world.home), ["7"] * (PAGE_MAX + 20)
        made = await put_shared(store, "a", " ".join(parts), world.table.clock.now())
        await worker.step()
        assert [body["data"]["id"] for body in world.receiver.bodies] == [one.id for one in made]
        assert [body["data"]["change"] for body in world.receiver.bodies] == parts
        assert len({*world.receiver.ids}) == len(parts)


async def test_a_transfer_is_an_event_with_its_legs() -> None:
    """Those of an account alone, if the webhook is for one; metadata of any entry is in it."""
    async with World() as world:
        book = Book("book/shop", world.home)
        worker = world.worker(account="customer/alice")
        await worker.step()
        for account in ("customer/alice", "customer/bob", "customer/alice"):
            await book.transfer(
                [("cash", "EUR", -5), (account, "EUR", 5)], metadata={"order": "17"}
            )
        await world.home.record("stock", 1, metadata={"order": "18"})
        await worker.step()
        first, second = world.receiver.bodies
        assert first["data"]["metadata"] == {"order": "17"}
        assert (
            first["data"]["legs"]
            == second["data"]["legs"]
            == [
                {"account": "cash", "asset": "EUR", "amount": "-5"},
                {"account": "customer/alice", "asset": "EUR", "amount": "5"},
            ]
        )
        assert len({*world.receiver.ids}) == 2


def test_two_transfers_of_one_id_are_two_events() -> None:
    """As of a key that two regions used at once: a receiver drops no event as a repeat."""
    legs = (Leg("cash", "EUR", Decimal(-5)), Leg("customer/alice", "EUR", Decimal(5)))
    one = Entry("book/shop", "id", Decimal(0), legs=legs)
    other = replace(
        one, legs=tuple(leg._replace(amount=EXACT.multiply(leg.amount, 2)) for leg in legs)
    )
    assert of_entry("erp", one).id != of_entry("erp", other).id
    assert of_entry("erp", one).id == of_entry("erp", replace(one, region="eu-west-1")).id


async def test_a_worker_that_died_repeats_under_the_same_ids() -> None:
    """What it sent and had not noted; then both go on from there."""
    async with World() as world:
        await world.worker().step()
        await world.home.record("a", 1)
        dying = world.worker()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ProgressItems, "move", _fail)
            with pytest.raises(Died):
                await dying.step()
        await world.worker().step()
        first, second = world.receiver.ids
        assert first == second
        await world.worker().step()
        assert len(world.receiver.ids) == 2


async def _fail(*_: object, **__: object) -> None:
    raise Died


async def test_a_worker_whose_lease_was_over_moves_nothing() -> None:
    """Its position is another's by then."""
    async with World() as world:
        former, now = world.worker(), world.worker()
        await former.step()
        await now.step()
        await world.home.record("a", 1)
        await now.step()
        await world.home.record("a", 2)
        with pytest.raises(LeaseLost):
            await former.step()
        await now.step()
        assert [body["data"]["change"] for body in world.receiver.bodies].count("2") == 2


async def test_what_is_not_taken_is_a_dead_letter() -> None:
    """While the receiver is down each further event is tried once, so nothing piles up."""
    async with World(500) as world:
        worker = world.worker()
        await worker.step()
        for change in (1, 2, 3):
            await world.home.record("a", change)
        await worker.step()
        assert len(world.receiver.requests) == 12
        assert {*await world.dead()} == {*world.receiver.ids}
        world.receiver.answers = [500, 200]
        await world.home.record("a", 4)
        await worker.step()
        world.receiver.answers = [500, 200]
        await world.home.record("a", 5)
        await worker.step()
        await world.home.record("a", 6)
        await worker.step()
        assert len(await world.dead()) == 5
        assert world.receiver.bodies[-1]["data"]["change"] == "6"


async def test_410_disables_until_it_is_enabled() -> None:
    """In whatever process; then it goes on from the event that was answered so."""
    async with World(410) as world:
        worker = world.worker()
        await worker.step()
        await world.home.record("a", 1)
        await world.home.record("a", 7)
        await worker.step()
        assert "410" in ((await world.kept.position()).disabled or "")
        await world.home.record("a", 2)
        await worker.step()
        await world.worker().step()
        assert len(world.receiver.requests) == 1
        world.receiver.answers = [200]
        await world.kept.enable(await world.kept.position(), stamp="s")
        await worker.step()
        changes = [body["data"]["change"] for body in world.receiver.bodies]
        assert changes == ["1", "1", "7", "2"]
        assert await world.dead() == []


async def test_metrics_say_what_is_disabled_and_how_far_the_others_came() -> None:
    """Of a page that more follows: until when its last entry was made."""
    async with World() as world:

        def shown(name: str) -> float | None:
            labels = {"webhook": "erp"}
            return world.sending.registry.get_sample_value(f"ledger_webhook_{name}", labels)

        worker = world.worker()
        await worker.step()
        assert shown("disabled") == 0
        made = world.table.clock.now().timestamp()
        for _ in range(PAGE_MAX):
            await world.home.record("a", 1)
        world.table.clock.pass_by(30)
        await world.home.record("a", 1)
        await worker.step()
        assert shown("reached_timestamp_seconds") == pytest.approx(made, abs=1)
        world.receiver.answers = [410]
        await worker.step()
        assert shown("disabled") == 1
        await world.kept.enable(await world.kept.position(), stamp="s")
        world.receiver.answers = [200]
        await worker.step()
        await worker.step()
        assert shown("disabled") == 0
        now = world.table.clock.now().timestamp()
        assert shown("reached_timestamp_seconds") == pytest.approx(now, abs=5)


async def test_a_process_that_takes_over_shows_how_far_the_last_one_came() -> None:
    """Before it has delivered anything, and though it cannot."""
    async with World() as world:
        await world.worker().step()
        left = world.table.clock.now().timestamp()
        world.table.clock.pass_by(3600)
        world.sending.registry = CollectorRegistry()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ledger, "feed_page", _fail)
            with pytest.raises(Died):
                await world.worker().step()
        shown = world.sending.registry.get_sample_value
        labels = {"webhook": "erp"}
        assert shown("ledger_webhook_reached_timestamp_seconds", labels) == pytest.approx(
            left, abs=2
        )


async def test_410_of_a_crossing_leaves_it_due() -> None:
    """It is sent once the webhook is enabled."""
    async with World(410) as world:
        await world.worker(**CROSSINGS).step()
        await world.home.record("stock-7", 9)
        await world.worker(**CROSSINGS).step()
        assert "410" in ((await world.kept.position()).disabled or "")
        world.receiver.answers = [200]
        await world.kept.enable(await world.kept.position(), stamp="s")
        await world.worker(**CROSSINGS).step()
        await world.worker(**CROSSINGS).step()
        assert [body["data"]["number"] for body in world.receiver.bodies] == [1, 1]


async def test_a_new_webhook_begins_once() -> None:
    """Where the first worker saw it, though that died before it had delivered anything."""
    async with World() as world:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ledger, "feed_page", _fail)
            with pytest.raises(Died):
                await world.worker().step()
        world.table.clock.pass_by(5)
        await world.home.record("a", 1)
        world.table.clock.pass_by(60)
        await world.worker().step()
        assert [body["data"]["change"] for body in world.receiver.bodies] == ["1"]
        assert (await world.kept.position()).cursor


async def test_a_new_webhook_that_nobody_delivered_for_a_day_is_told() -> None:
    """It had no page yet, so no cursor that is too old."""
    async with World() as world:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ledger, "feed_page", _fail)
            with pytest.raises(Died):
                await world.worker().step()
        world.table.clock.pass_by(24 * 3600)
        await world.worker().step()
        count = world.sending.registry.get_sample_value
        assert count("ledger_webhook_behind_total", {"webhook": "erp"}) == 1


async def test_two_changes_under_one_key_are_two_events() -> None:
    """A receiver that acts once per id takes the one that is kept in the end, too."""
    async with World() as world, world.table.ledger("eu-west-1") as away:
        worker = world.worker()
        await worker.step()
        at = world.table.clock.now()
        await world.home.record("a", 5, key="k", at=at)
        world.table.clock.pass_by(1)
        await away.record("a", 7, key="k", at=at)
        await worker.step()
        world.table.replicate()
        await worker.step()
        assert [body["data"]["change"] for body in world.receiver.bodies] == ["5", "7"]
        assert len({*world.receiver.ids}) == 2


async def test_what_follows_a_cursor_too_old_begins_an_hour_before_the_last_page() -> None:
    """So that nothing that the stream still has is left out."""
    async with World() as world:
        await world.worker().step()
        saved = (await world.kept.position()).saved
        seen: list[Any] = []
        page = Ledger.feed_page

        async def noted(self: Ledger, *args: Any, **named: Any) -> Any:
            if named.get("after"):
                raise FeedBehind("too old")
            seen.append(named["since"])
            return await page(self, *args, **named)

        world.table.clock.pass_by(600)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ledger, "feed_page", noted)
            await world.worker().step()
        assert saved is not None
        assert seen == [saved - timedelta(hours=1)]


async def test_a_crossing_that_is_not_kept_holds_the_page() -> None:
    """Another worker had begun to keep it: the position does not pass what led to it."""
    async with World() as world:
        worker = world.worker(**CROSSINGS)
        await worker.step()
        before = (await world.kept.position()).cursor
        await world.home.record("stock-7", 9)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ProgressItems, "put_due", _fail)
            with pytest.raises(Died):
                await world.worker(**CROSSINGS).step()
        with pytest.raises(StoreError, match="is not kept yet"):
            await worker.step()
        assert (await world.kept.position()).cursor == before


async def test_a_crossing_that_was_begun_is_told_though_its_entry_is_gone() -> None:
    """As after a day without a worker: the stream has nothing that leads to it any more."""

    async def nothing(*_: object, **__: object) -> FeedPage:
        return FeedPage((), "cursor", more=False)

    async with World() as world:
        await world.worker(**CROSSINGS).step()
        await world.home.record("stock-7", 9)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ProgressItems, "put_due", _fail)
            with pytest.raises(Died):
                await world.worker(**CROSSINGS).step()
        world.table.clock.pass_by(120)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ledger, "feed_page", nothing)
            await world.worker(**CROSSINGS).step()
        assert [body["data"]["number"] for body in world.receiver.bodies] == [1]


async def test_an_event_is_kept_as_due_once() -> None:
    """Kept again it stays as it was."""
    async with World() as world:
        for body in (b"1", b"2"):
            await world.kept.put_due(HookEvent("msg_1", body))
        assert [event.body async for event in world.kept.due()] == [b"1"]


async def test_a_position_whose_answer_was_lost_is_moved() -> None:
    """A put on condition that is refused, since it was done before."""
    async with World() as world:
        moved = await world.kept.move(HookPosition(), HookPosition(cursor="c"), stamp="s")
        assert await world.kept.move(HookPosition(), HookPosition(cursor="c"), stamp="s") == moved
        with pytest.raises(LeaseLost):
            await world.kept.move(HookPosition(), HookPosition(cursor="d"), stamp="t")


async def test_a_crossing_is_an_event_once() -> None:
    """However many entries and workers there are; the next one once the total came back."""
    async with World() as world:
        workers = [world.worker(**CROSSINGS) for _ in range(2)]
        await workers[0].step()
        for change in (25, -16, -1, -1):
            await world.home.record("stock-7", change)
            world.table.clock.pass_by(1)
            await world.worker(**CROSSINGS).step()
        await world.home.record("stock-7", 20)
        await world.worker(**CROSSINGS).step()
        await world.home.record("stock-7", -20)
        await world.worker(**CROSSINGS).step()
        shown = [(body["type"], body["data"]["number"]) for body in world.receiver.bodies]
        assert shown == [("total.crossed", 1), ("total.crossed", 2)]
        first = world.receiver.bodies[0]["data"]
        assert (first["counter"], first["side"], first["bound"], first["total"]) == (
            *("stock-7", "below", "10"),
            "9",
        )


async def test_a_crossing_outlives_the_worker_that_decided_it() -> None:
    """Before it was kept, and before it was sent."""
    async with World() as world:
        await world.worker(**CROSSINGS).step()
        await world.home.record("stock-7", 9)
        dying = world.worker(**CROSSINGS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ProgressItems, "put_due", _fail)
            with pytest.raises(Died):
                await dying.step()
        world.table.clock.pass_by(120)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(EventSender, "send", _fail)
            with pytest.raises(Died):
                await world.worker(**CROSSINGS).step()
        assert not world.receiver.requests
        await world.worker(**CROSSINGS).step()
        await world.worker(**CROSSINGS).step()
        assert len(world.receiver.requests) == 1


async def test_a_day_without_a_worker_is_told() -> None:
    """What the stream still has is delivered, and a metric says that some may be lost."""
    async with World() as world:
        await world.worker().step()
        await world.home.record("a", 1)
        stream = world.table._world.streams["us-east-1"]
        stream.roll(0)
        stream.roll(1)
        await world.table.pass_time(25 * 3600)
        await world.home.record("a", 2)
        await world.worker().step()
        assert [body["data"]["change"] for body in world.receiver.bodies] == ["2"]
        count = world.sending.registry.get_sample_value
        assert count("ledger_webhook_behind_total", {"webhook": "erp"}) == 1
