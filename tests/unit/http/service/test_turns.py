"""Which requests begin, and in which order."""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from ledger.core.errors import NotSent
from ledger.http.service.turns import BEGUN_AT_ONCE, Slots
from ledger.runtime.call_deadlines import LATE_AT_ONCE, NEVER
from ledger.runtime.tasks import Turns


class Rounds:
    """Rounds of an event loop, and what began in them."""

    def __init__(self) -> None:
        self.due, self.begun = list[Callable[[], None]](), list[str]()
        self.turns = Turns(self.due.append, BEGUN_AT_ONCE)

    def ask(self, address: str, times: int) -> None:
        """Ask so many times from an address."""
        for _ in range(times):
            self.turns.enter(address, partial(self.begun.append, address))

    def next(self) -> list[str]:
        """Return what begins in the next round."""
        self.begun.clear()
        due, self.due[:] = [*self.due], []
        for call in due:
            call()
        return [*self.begun]


def test_a_few_begin_at_once() -> None:
    """The others begin in the rounds after it."""
    rounds = Rounds()
    rounds.ask("a", 2 * BEGUN_AT_ONCE + 1)
    assert len(rounds.begun) == BEGUN_AT_ONCE
    assert [len(rounds.next()) for _ in range(3)] == [BEGUN_AT_ONCE, 1, 0]


def test_each_address_has_its_turn() -> None:
    """One that asks once waits for no more than one request of each other address."""
    rounds = Rounds()
    rounds.ask("a", 100)
    rounds.ask("b", 1)
    rounds.ask("c", 2)
    assert rounds.next() == ["a", "b", "c", "a", "c", *["a"] * (BEGUN_AT_ONCE - 5)]


def test_once_all_have_begun_nothing_is_called_any_more() -> None:
    """An idle service has no rounds of its own; the next request begins at once."""
    rounds = Rounds()
    rounds.ask("a", 1)
    assert rounds.next() == []
    assert rounds.due == []
    rounds.ask("a", 1)
    assert rounds.begun == ["a"]


async def test_who_waits_for_a_turn_has_it_in_order() -> None:
    """One that has gone holds up nobody."""
    rounds = Rounds()
    rounds.ask("a", BEGUN_AT_ONCE)
    gone, *left = [asyncio.create_task(rounds.turns.turn("a")) for _ in range(3)]
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    assert not any(task.done() for task in left)
    rounds.next()
    await asyncio.gather(*left)


async def test_slots_are_taken_in_order_and_never_lost() -> None:
    """Not by one whose time is over, nor by one that is cancelled as it gets its slot."""
    loop = asyncio.get_running_loop()
    slots, now = Slots(1, Turns(loop.call_soon, LATE_AT_ONCE)), loop.time()
    await slots.enter(NEVER)
    late = asyncio.create_task(slots.enter(now + 0.01))
    gone, next_, last = [asyncio.create_task(slots.enter(NEVER)) for _ in range(3)]
    with pytest.raises(NotSent):
        await late
    slots.leave()
    gone.cancel()
    await next_
    assert not last.done()
    slots.leave()
    await last
    slots.leave()
    async with slots.until():
        waits = asyncio.create_task(slots.enter(NEVER))
        await asyncio.sleep(0)
        assert not waits.done()
    await waits


async def test_waits_for_a_slot_that_end_together_end_a_few_in_each_round() -> None:
    """Each tells its caller; thousands in one round would hold up all others."""
    loop, turn = asyncio.get_running_loop(), 0
    slots = Slots(1, Turns(loop.call_soon, LATE_AT_ONCE))
    ended = Counter[int]()

    async def wait(end: float) -> None:
        with pytest.raises(NotSent):
            await slots.enter(end)
        ended[turn] += 1

    await slots.enter(NEVER)
    waits = [asyncio.create_task(wait(loop.time() + 0.05)) for _ in range(5 * LATE_AT_ONCE)]
    while not all(one.done() for one in waits):
        await asyncio.sleep(0)
        turn += 1
    assert max(ended.values()) <= LATE_AT_ONCE
