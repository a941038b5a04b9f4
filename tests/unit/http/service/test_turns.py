"""Which requests begin, and in which order."""

import asyncio
from collections.abc import Callable
from functools import partial

from ledger.http.service.turns import BEGUN_AT_ONCE, Turns


class Rounds:
    """Rounds of an event loop, and what began in them."""

    def __init__(self) -> None:
        self.due, self.begun = list[Callable[[], None]](), list[str]()
        self.turns = Turns(self.due.append)

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
