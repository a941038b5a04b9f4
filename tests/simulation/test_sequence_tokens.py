"""Tokens of sequences in the deterministic world: processes die, and begin again from the start."""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

import anyio
import pytest
from proof.simulator import loop
from support.clients import FAULTY, Client, Clients, together
from support.ledgers import HOME
from support.numbering import appending, counting
from support.tiers import few_fast

from ledger.core.entry import Item
from ledger.core.errors import StoreError
from ledger.primitives.sequences import MaybeNumbered, Numbered
from ledger.primitives.sequences.numbers import content_of

WORKERS, ORDERS, LIVES = 3, 4, 4
LIFE_SECONDS = 8.0
SEEDS = range(10)
MANY_SEEDS = range(2000, 2300)
SETTLED_SECONDS = 120.0
"""Later than any request can land."""
PARTITION = "~sequence~s"

Call = Callable[[str], Awaitable[object]]
Made = Callable[[Client], Call]


class Answers:
    """The numbers that each order got, in all lives of its process and of its twin."""

    def __init__(self) -> None:
        self.numbers: dict[str, set[int]] = defaultdict(set)

    async def ask(self, call: Call, order: str) -> None:
        """Ask until the order has a number."""
        while True:
            try:
                outcome = await call(order)
            except StoreError:
                continue
            if isinstance(outcome, Numbered):
                self.numbers[order].add(outcome.number)
                return


async def live_and_die(clients: Clients, make: Made, answers: Answers) -> None:
    """Let processes work on the same orders from the start in each of their lives."""

    async def work(name: str, orders: str, seed: str) -> None:
        for life in range(LIVES):
            with anyio.CancelScope() as scope:
                call = make(clients.client(f"{name}, life {life}"))
                if life < LIVES - 1:
                    moment = Random(f"{seed}/{life}").uniform(0, LIFE_SECONDS)  # noqa: S311 (repeatable)
                    clients.world.loop.call_later(moment, scope.cancel)
                for number in range(ORDERS):
                    await answers.ask(call, f"{orders}/{number}")

    works = [
        partial(work, f"{worker}.{twin}", f"orders {worker}", f"{clients.seed}/{worker}.{twin}")
        for worker in range(WORKERS)
        for twin in range(2)
    ]
    await together(works)
    await anyio.sleep(SETTLED_SECONDS)


def of_append(client: Client, *, with_token: bool = True) -> Call:
    """Return the call that appends an order."""
    sequence = appending(client)

    async def call(order: str) -> object:
        token = order if with_token else None
        outcome = await sequence.append({"order": {"S": order}}, token=token)
        while isinstance(outcome, MaybeNumbered) and not with_token:
            outcome = await sequence.append({"order": {"S": order}}, resume=outcome)
        return outcome

    return call


def of_next(client: Client) -> Call:
    """Return the call that takes a number for an order."""
    sequence = counting(client)
    return lambda order: sequence.next(token=order)


def of_put_next(client: Client) -> Call:
    """Return the call that puts an order under the next number."""
    sequence = counting(client)

    def call(order: str) -> Awaitable[object]:
        return sequence.put_next(partial(order_item, order), token=order)

    return call


def order_item(order: str, number: int) -> Item:
    """Return the item of an order under its number."""
    return {"pk": {"S": f"order-{number}"}, "sk": {"S": "order"}, "order": {"S": order}}


async def judge_appends(seed: int, *, with_token: bool = True) -> tuple[int, int]:
    """Return how many orders there are, and how many items; no gap in any case."""
    clients, answers = Clients(seed=seed, faults=FAULTY), Answers()
    await live_and_die(clients, partial(of_append, with_token=with_token), answers)
    found = clients.world.replicas[HOME].table.partitions[PARTITION]
    items = [found[key] for key in sorted(found)]
    assert [int(item["sk"]["S"]) for item in items] == list(range(1, len(items) + 1)), "a gap"
    kept = [content_of(item)["order"]["S"] for item in items]
    if with_token:
        assert len(kept) == len(set(kept)), "an order has two numbers"
        assert answers.numbers == {order: {kept.index(order) + 1} for order in kept}
    return len(answers.numbers), len(kept)


async def judge_numbers(seed: int) -> None:
    """Each order got one number, in every life, and no two orders the same."""
    clients, answers = Clients(seed=seed, faults=FAULTY), Answers()
    await live_and_die(clients, of_next, answers)
    given = [next(iter(numbers)) for numbers in answers.numbers.values()]
    assert all(len(numbers) == 1 for numbers in answers.numbers.values()), (
        "an order has two numbers"
    )
    assert len(set(given)) == len(given) == WORKERS * ORDERS


async def judge_put_next(seed: int) -> None:
    """Each order lies under the one number that it got, and nowhere else."""
    clients, answers = Clients(seed=seed, faults=FAULTY), Answers()
    await live_and_die(clients, of_put_next, answers)
    found = clients.world.replicas[HOME].table.partitions
    kept = {
        int(name.removeprefix("order-")): items["order"]["order"]["S"]
        for name, items in found.items()
        if name.startswith("order-")
    }
    assert len(kept) == WORKERS * ORDERS
    assert answers.numbers == {order: {number} for number, order in kept.items()}


JUDGES = [judge_appends, judge_numbers, judge_put_next]


@pytest.mark.parametrize("judge", few_fast(JUDGES, fast=1))
def test_an_order_has_one_number_whatever_dies(
    judge: Callable[[int], Awaitable[object]],
) -> None:
    """In storms, twins that die and begin again get one number for each order."""
    for seed in SEEDS:
        loop.run(partial(judge, seed))


@pytest.mark.slow
@pytest.mark.parametrize("judge", few_fast(JUDGES, fast=1))
def test_an_order_has_one_number_whatever_dies_at_length(
    judge: Callable[[int], Awaitable[object]],
) -> None:
    """The same over hundreds of seeds."""
    for seed in MANY_SEEDS:
        loop.run(partial(judge, seed))


def test_mutant_without_tokens_an_order_has_several_numbers() -> None:
    """The same processes without tokens append each order more than once."""
    orders, items = loop.run(partial(judge_appends, 1, with_token=False))
    assert orders == WORKERS * ORDERS
    assert items > orders
