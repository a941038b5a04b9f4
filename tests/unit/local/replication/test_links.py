import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from ledger.local.engines.port import ItemChange
from ledger.local.replication.links import RETRY_SECONDS_MAX, Link, LinkHold, doubled
from ledger.local.replication.stamps import Shipment, Stamp

WAIT_SECONDS = 20.0


def shipment(name: str) -> Shipment:
    """Give the change of an item with this name."""
    key = {"pk": {"S": name}}
    return Shipment(ItemChange("ledger", key, key), (name,), Stamp(1, "us-east-1"), 1)


class Target:
    """A region that takes what is delivered to it, but for the items that it refuses."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.taken: list[str] = []
        self.tries = 0
        self.happened = asyncio.Condition()

    async def deliver(self, source: str, target: str, shipments: Sequence[Shipment]) -> None:
        """Take all of these or none."""
        del source, target
        names = [item.token[0] for item in shipments]
        async with self.happened:
            self.tries += 1
            self.happened.notify_all()
        await asyncio.sleep(0)
        if self.refused.intersection(names):
            raise OSError(f"cannot take {names}")
        self.taken += names

    async def until_tries(self, tries: int) -> None:
        """Wait until this many deliveries were tried."""
        async with asyncio.timeout(WAIT_SECONDS), self.happened:
            await self.happened.wait_for(lambda: self.tries >= tries)


@asynccontextmanager
async def running(link: Link) -> AsyncIterator[None]:
    """Let a link deliver."""
    task = asyncio.ensure_future(link.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def link_to(target: Target) -> Link:
    """Give a link without delays."""
    deliver = target.deliver
    return Link("us-east-1", "eu-west-1", deliver=deliver, delay=lambda: 0.0, retry_first=0.0)


async def test_an_item_that_fails_holds_up_no_other_and_is_kept() -> None:
    """All but the bad item of a batch arrive; it is shown, tried again, and arrives at last."""
    target = Target()
    target.refused = {"bad"}
    link = link_to(target)
    for name in ("before", "bad", "after"):
        link.push(shipment(name))
    async with running(link):
        await target.until_tries(10)
        assert target.taken == ["before", "after"]
        (failure,) = link.failures
        assert failure.shipment.token == ("bad",)
        assert failure.error == "cannot take ['bad']"
        assert failure.tries > 1
        assert (link.waiting, link.idle) == (1, False)
        link.push(shipment("later"))
        await target.until_tries(target.tries + 3)
        assert target.taken == ["before", "after", "later"]
        target.refused.clear()
        async with asyncio.timeout(WAIT_SECONDS):
            await link.until_idle()
    assert target.taken == ["before", "after", "later", "bad"]
    assert not link.failures


async def test_what_is_held_while_items_go_alone_stays_in_order() -> None:
    """A link that is held after a failure keeps all that it has, and delivers it when released."""
    target = Target()
    target.refused = {"a", "b", "c"}
    link = link_to(target)
    for name in ("a", "b", "c"):
        link.push(shipment(name))
    async with running(link):
        await target.until_tries(2)
        await link.hold(LinkHold.UNAVAILABLE)
        tries = target.tries
        assert (tries, link.waiting) == (2, 3)
        target.refused.clear()
        link.release(LinkHold.PAUSED)
        await asyncio.sleep(0)
        assert target.tries == tries, "another reason holds it still"
        link.release(LinkHold.UNAVAILABLE)
        async with asyncio.timeout(WAIT_SECONDS):
            await link.until_idle()
    assert sorted(target.taken) == ["a", "b", "c"]


async def test_what_is_being_applied_is_on_its_way() -> None:
    """An item counts until the other region has it, also while that region's lock is awaited."""
    lock = asyncio.Lock()
    begun = asyncio.Event()

    async def deliver(source: str, target: str, shipments: Sequence[Shipment]) -> None:
        del source, target, shipments
        begun.set()
        async with lock:
            pass

    link = Link("us-east-1", "eu-west-1", deliver=deliver, delay=lambda: 0.0)
    link.push(shipment("a"))
    async with running(link):
        async with lock:
            await begun.wait()
            assert (link.waiting, link.idle) == (1, False)
            assert link.shipments == [shipment("a")]
        await link.until_idle()
        assert (link.waiting, link.idle) == (0, True)


async def test_a_hold_waits_for_the_delivery_under_way() -> None:
    """Nothing arrives once it returns: what was being delivered has arrived."""
    begun, going = asyncio.Event(), asyncio.Event()
    arrived: list[str] = []

    async def deliver(source: str, target: str, shipments: Sequence[Shipment]) -> None:
        del source, target
        begun.set()
        await going.wait()
        arrived.extend(item.token[0] for item in shipments)

    link = Link("us-east-1", "eu-west-1", deliver=deliver, delay=lambda: 0.0)
    link.push(shipment("a"))
    async with running(link), asyncio.timeout(WAIT_SECONDS):
        await begun.wait()
        asyncio.get_running_loop().call_soon(going.set)
        await link.hold(LinkHold.PAUSED)
        assert arrived == ["a"]


async def test_an_error_beside_delivery_ends_no_link() -> None:
    """Whatever fails once an item has arrived, later items arrive too."""
    target = Target()
    failures = [OSError("the disk is full")]

    def rested() -> None:
        if failures:
            raise failures.pop()

    link = Link("us-east-1", "eu-west-1", deliver=target.deliver, delay=lambda: 0.0, rested=rested)
    async with running(link):
        for name in ("a", "b"):
            link.push(shipment(name))
            async with asyncio.timeout(WAIT_SECONDS):
                await link.until_idle()
    assert not failures
    assert target.taken == ["a", "b"]


@pytest.mark.parametrize(
    ("tries", "seconds"), [(1, 0.05), (2, 0.1), (5, 0.8), (8, 5.0), (9999, 5.0)]
)
def test_waits_double_up_to_a_bound(tries: int, seconds: float) -> None:
    """However long something fails, it is tried again within the bound."""
    assert doubled(tries, first=0.05, most=RETRY_SECONDS_MAX) == seconds
