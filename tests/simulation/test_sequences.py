"""Sequences in the deterministic world: many clients, lost answers, crashes, two regions."""

import math
from collections import Counter
from contextlib import suppress
from functools import partial
from random import Random

import anyio
import pytest
from proof.simulator import loop
from support.clients import FAULTY, Client, Clients, together
from support.ledgers import AWAY, HOME
from support.numbering import LossCounter, Taken, appending, counting

from ledger.core.entry import Item
from ledger.core.errors import StoreError
from ledger.primitives.sequences import (
    MaybeNumbered,
    Numbered,
    SortKeySequence,
    sort_key_of,
)
from ledger.primitives.sequences.numbers import content_of
from ledger.store.reads import Get
from ledger.store.writes import Put

CLIENTS, EACH = 5, 4
SEEDS = range(12)
MANY_SEEDS = range(1000, 1400)
SETTLED_SECONDS = 120.0
"""Later than any request can land."""
PARTITION = "~sequence~s"


def items_of(clients: Clients, region: str = HOME) -> list[Item]:
    """Return the numbered items of a region in order."""
    items = clients.world.replicas[region].table.partitions.get(PARTITION, {})
    return [items[key] for key in sorted(items) if key != "counter"]


def numbers_of(items: list[Item]) -> list[int]:
    """Return the numbers of items."""
    return [int(item["sk"]["S"]) for item in items]


async def append_through_storms(seed: int, after_race: str, *, consistent: bool) -> None:
    """Let clients append in a storm, one of them dying at any moment, and judge what is there."""
    clients, taken = Clients(seed=seed, faults=FAULTY), Taken()

    async def work(name: str) -> None:
        client = appending(clients.client(name), after_race=after_race, consistent=consistent)
        for number in range(EACH):
            await taken.append(client, f"{name}/{number}")

    async def dies(name: str) -> None:
        with anyio.CancelScope() as life:
            moment = Random(f"{seed}/death").uniform(0, 5)  # noqa: S311 (repeatable)
            clients.world.loop.call_later(moment, life.cancel)
            await work(name)

    works = [partial(work, f"client {number}") for number in range(CLIENTS)]
    await together([*works, partial(dies, "mortal")])
    await anyio.sleep(SETTLED_SECONDS)
    items = items_of(clients)
    assert numbers_of(items) == list(range(1, len(items) + 1)), "a gap"
    kept = [content_of(item)["content"]["S"] for item in items]
    assert len(set(kept)) == len(kept), "one content under two numbers"
    assert {one: kept[number - 1] for one, number in taken.of_content.items()} == {
        one: one for one in taken.of_content
    }, "a number that was given to another, or to no one"
    assert not taken.refused & set(kept), "refused, and there all the same"
    assert set(kept) <= taken.started


@pytest.mark.parametrize("after_race", ["query", "add_one"])
@pytest.mark.parametrize("consistent", [True, False])
def test_by_sort_key_there_are_no_gaps(after_race: str, *, consistent: bool) -> None:
    """In storms, with a client that dies at any moment: no gap, no item twice, no number twice."""
    for seed in SEEDS:
        loop.run(partial(append_through_storms, seed, after_race, consistent=consistent))


@pytest.mark.slow
@pytest.mark.parametrize("after_race", ["query", "add_one"])
@pytest.mark.parametrize("consistent", [True, False])
def test_by_sort_key_there_are_no_gaps_at_length(after_race: str, *, consistent: bool) -> None:
    """The same over hundreds of seeds."""
    for seed in MANY_SEEDS:
        loop.run(partial(append_through_storms, seed, after_race, consistent=consistent))


async def append_many_through_storms(seed: int) -> None:
    """Let tasks of three processes append one or several at once, some cancelled, and judge."""
    clients = Clients(seed=seed, faults=FAULTY)
    answers: dict[str, int] = {}
    draws = Random(f"{seed}/many")  # noqa: S311 (repeatable)

    async def work(client: SortKeySequence, name: str, count: int, life_seconds: float) -> None:
        contents: list[Item] = [{"content": {"S": f"{name}/{part}"}} for part in range(count)]
        with anyio.move_on_after(life_seconds), suppress(StoreError):
            outcome = await client.append_many(contents)
            while isinstance(outcome, MaybeNumbered):
                outcome = await client.append_many(contents, resume=outcome)
            if isinstance(outcome, Numbered):
                assert outcome.count == count
                answers[name] = outcome.number

    works = []
    for process in range(3):
        client = appending(clients.client(f"process {process}"))
        for task in range(5):
            life = draws.uniform(0, 3) if task == 0 else math.inf
            works.append(partial(work, client, f"{process}/{task}", draws.randint(1, 4), life))
    await together(works)
    await anyio.sleep(SETTLED_SECONDS)
    items = items_of(clients)
    assert numbers_of(items) == list(range(1, len(items) + 1)), "a gap"
    kept = [content_of(item)["content"]["S"] for item in items]
    assert len(set(kept)) == len(kept), "one content under two numbers"
    for content in kept:
        name, _, part = content.rpartition("/")
        first = kept.index(f"{name}/0")
        assert kept[first + int(part)] == content, "a part of a call, or not in its order"
        assert answers.get(name, first + 1) == first + 1
    assert {f"{name}/0" for name in answers} <= set(kept)


def test_several_are_put_all_or_none() -> None:
    """In storms, from queues with cancelled calls: no gap, and each call's contents in a row."""
    for seed in SEEDS:
        loop.run(partial(append_many_through_storms, seed))


@pytest.mark.slow
def test_several_are_put_all_or_none_at_length() -> None:
    """The same over hundreds of seeds."""
    for seed in MANY_SEEDS:
        loop.run(partial(append_many_through_storms, seed))


async def count_through_storms(seed: int, block: int) -> None:
    """Let clients take numbers in a storm and compare what is missing with what they state."""
    clients, taken = Clients(seed=seed, faults=FAULTY), Taken()
    workers = [clients.client(f"client {number}") for number in range(CLIENTS)]
    losses = [LossCounter(worker.store, block=block) for worker in workers]
    sequences = [
        counting(worker, block=block, store=lost)
        for worker, lost in zip(workers, losses, strict=True)
    ]

    async def work(number: int) -> None:
        for _ in range(EACH):
            await taken.take(sequences[number])

    await together([partial(work, number) for number in range(CLIENTS)])
    await anyio.sleep(SETTLED_SECONDS)
    assert taken.numbers
    assert max(Counter(taken.numbers).values()) == 1, "a number twice"
    counter = clients.world.replicas[HOME].table.get((PARTITION, "counter"))
    assert counter is not None
    missing = int(counter["number"]["N"]) - len(taken.numbers)
    leased = sum(lost.taken for lost in losses) - len(taken.numbers)
    assert leased <= missing <= leased + sum(lost.unanswered for lost in losses)


@pytest.mark.parametrize("block", [1, 10])
def test_by_counter_no_number_is_given_twice(block: int) -> None:
    """In storms no number is given twice, and no more are missing than the clients state."""
    for seed in SEEDS:
        loop.run(partial(count_through_storms, seed, block))


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 10])
def test_by_counter_no_number_is_given_twice_at_length(block: int) -> None:
    """The same over hundreds of seeds."""
    for seed in MANY_SEEDS:
        loop.run(partial(count_through_storms, seed, block))


def test_mutant_two_regions_give_the_same_number_twice() -> None:
    """Clients of two regions get the same numbers from the counter, until replication shows one."""

    async def main() -> None:
        clients, taken = Clients(), Taken()
        for region in (HOME, AWAY):
            await taken.take(counting(clients.client(region, region)))
        assert taken.numbers == [1, 1]

    loop.run(main)


def test_mutant_two_regions_lose_an_item() -> None:
    """Items of two regions under the same number: once replicated, one of them is nowhere."""

    async def main() -> None:
        clients, taken = Clients(), Taken()
        for region in (HOME, AWAY):
            await taken.append(appending(clients.client(region, region)), f"item of {region}")
        assert taken.of_content == {f"item of {HOME}": 1, f"item of {AWAY}": 1}
        await anyio.sleep(SETTLED_SECONDS)
        for region in (HOME, AWAY):
            (item,) = items_of(clients, region)
            assert content_of(item) == {"content": {"S": f"item of {AWAY}"}}

    loop.run(main)


def test_mutant_two_regions_do_not_know_each_others_tokens() -> None:
    """A token used in two regions at once has two numbers: conditions see one region only."""

    async def main() -> None:
        clients = Clients()
        here, away = (clients.client(region, region) for region in (HOME, AWAY))
        await counting(away).next()
        for region, number in ((here, 1), (away, 2)):
            assert await counting(region).next(token="order-17") == Numbered(number)
        for region in (here, away):
            assert await appending(region).append({}, token="order-17") == Numbered(1)

    loop.run(main)


def test_mutant_without_the_condition_items_are_overwritten() -> None:
    """Clients that put without a condition overwrite each other's items in one region already."""

    async def main() -> None:
        clients = Clients()

        async def work(client: Client) -> None:
            sequence = appending(client)
            for _ in range(EACH):
                key = sort_key_of(await sequence.highest() + 1)
                await client.store.write(Put({"pk": {"S": PARTITION}, "sk": {"S": key}}))

        await together(
            [partial(work, clients.client(f"client {number}")) for number in range(CLIENTS)]
        )
        assert len(items_of(clients)) < CLIENTS * EACH

    loop.run(main)


def test_mutant_reading_and_adding_one_gives_a_number_twice() -> None:
    """Clients that read the counter and write it back, in place of `ADD`, give a number twice."""

    async def main() -> None:
        clients = Clients()
        given: list[int] = []

        async def work(client: Client) -> None:
            key = (PARTITION, "counter")
            for _ in range(EACH):
                item = await client.store.get(Get(key))
                number = int(item["number"]["N"]) + 1 if item else 1
                place = {"pk": {"S": key[0]}, "sk": {"S": key[1]}}
                await client.store.write(Put({**place, "number": {"N": str(number)}}))
                given.append(number)

        await together(
            [partial(work, clients.client(f"client {number}")) for number in range(CLIENTS)]
        )
        assert len(set(given)) < len(given)

    loop.run(main)
