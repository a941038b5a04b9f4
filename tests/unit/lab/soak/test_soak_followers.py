"""What follows a soak beside its load finds what is missing, doubled, or not refused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from random import Random

import anyio
import anyio.lowlevel
import httpx
import pytest
from lab.soak.followers import FeedFollower, Followers
from lab.soak.offered_load import OfferedWorkload
from lab.soak.service import URL
from support.lossy_http import cut, first
from support.soaking import REGION, Soaked, soaked

from ledger.core.values import Entry

FIRST, SECOND = (f"2026-11-21T06:50:01.123456Z#{one}" for one in ("4f1d2c3b5a697887", "0" * 16))
REFUSALS = 20


def an_entry(change: int, id_: str = FIRST) -> Entry:
    """Return an entry of counter `a`."""
    return Entry("a", id_, Decimal(change), REGION)


def acknowledge(place: Soaked, *numbers: int) -> None:
    """Let changes of counter `a` be acknowledged."""
    changes = [("a", number) for number in numbers]
    place.progress.checker.begin_call(changes)
    place.progress.checker.end_call(REGION, changes, "acknowledged", at=0.0)


async def test_a_feed_that_has_all_is_right() -> None:
    """A combined entry stands for several changes; one that comes again is no other."""
    async with soaked() as place:
        acknowledge(place, 0, 2)
        follower = FeedFollower(place.service, REGION, place.progress)
        for _ in range(2):
            follower.take(an_entry(101))
        await follower.check()
        assert place.rules == []
        assert place.progress.checked == [
            f"feed of {REGION}: all 2 changes came, each under one id"
        ]


async def test_a_feed_without_an_acknowledged_change_is_wrong() -> None:
    """It may come late, but not never."""
    async with soaked() as place:
        acknowledge(place, 0, 1)
        follower = FeedFollower(place.service, REGION, place.progress)
        follower.take(an_entry(1))
        await follower.check()
        assert place.rules == ["feed"]
        assert f"1 never came in {REGION}: first 1 of a" in place.progress.wrong[0].text


async def test_a_change_under_two_ids_is_wrong() -> None:
    """It was written twice."""
    async with soaked() as place:
        follower = FeedFollower(place.service, REGION, place.progress)
        follower.take(an_entry(1))
        follower.take(an_entry(1, SECOND))
        assert place.rules == ["feed"]


@pytest.mark.slow
async def test_a_feed_goes_on_after_what_cannot_be_had() -> None:
    """A page that is lost is asked for again, by the cursor before."""
    async with soaked(before=first(9, cut)) as place:
        follower = FeedFollower(place.service, REGION, place.progress)
        async with place.table.ledger(REGION) as ledger, anyio.create_task_group() as tasks:
            await ledger.record("a", 100)
            tasks.start_soon(follower.run)
            with anyio.fail_after(20):
                while not follower.seen:
                    await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert list(follower.seen) == [("a", 2)]
        assert place.progress.followed["feed: asked again"] > 0


@asynccontextmanager
async def followers(place: Soaked) -> AsyncIterator[tuple[Followers, httpx.AsyncClient]]:
    """Return what else asks in a region, and its client."""
    async with anyio.create_task_group() as tasks:
        workload = OfferedWorkload(
            place.progress,
            rate=1.0,
            settings=place.table.settings,
            writers={REGION: place.service},
            read_modes=(),
            tasks=tasks,
        )
        random = Random(1)  # noqa: S311 (repeatable)
        made = Followers(place.service, REGION, workload, place.progress, random, "reader")
        transport = place.service.balancer
        async with httpx.AsyncClient(base_url=URL, transport=transport) as http:
            yield made, http
        tasks.cancel_scope.cancel()


async def test_what_is_not_refused_is_wrong() -> None:
    """A service that asks for no token takes what another would refuse; the rest is refused."""
    async with soaked() as place, followers(place) as (made, http):
        for _ in range(REFUSALS):
            await made.send_one_refused(http)
        assert set(place.rules) == {"refusals"}
        assert place.progress.checker.tally() == {"refused": REFUSALS}
        assert place.progress.followed["refusals: 400"] > 0
        assert place.progress.followed["refusals: 201"] == len(place.rules)


@pytest.mark.parametrize(("total", "rules"), [(1, []), (0, []), (2, ["P1"])])
async def test_a_live_total_may_be_old_but_counts_nothing_twice(
    total: int, rules: list[str]
) -> None:
    """Of one change, acknowledged."""
    async with soaked() as place, followers(place) as (made, _):
        acknowledge(place, 0)
        made.check_live("a", Decimal(total))
        assert place.rules == rules


@pytest.mark.parametrize(("times", "rules"), [(1, []), (2, ["P1"])])
async def test_a_history_has_no_change_twice(times: int, rules: list[str]) -> None:
    """Neither on two pages nor written twice."""
    async with soaked() as place, followers(place) as (made, _):
        async with place.table.ledger(REGION) as ledger:
            for _ in range(times):
                await ledger.record("a", 100)
        await made.read_history("a")
        assert place.rules == rules
        assert place.progress.followed["histories"] == 1
