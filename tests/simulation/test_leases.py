"""Leases in the deterministic world: a crowd of contenders in storms, holders that are paused.

::

    holder 1   acquire, epoch 4 ── read 7 ── paused past its lease ──────────── write 8: too late
    holder 2                                   acquire, epoch 5 ── read 7 ── write 8

Each holder reads a number and writes the next one, by no condition but its lease. So every write
that was not alone shows: a number comes twice, or an older epoch after a newer one.
"""

from dataclasses import dataclass, field
from functools import partial

import pytest
from proof.simulator import loop
from support.clients import FAULTY, Client, Clients, together
from support.ledgers import HOME

from ledger.core.entry import Item, Key
from ledger.core.errors import LeaseLost, StoreError
from ledger.primitives.leases import Lease, LeaseGrant, LeaseTerms
from ledger.store.reads import Get
from ledger.store.writes import Applied, Outcome, Put, Unknown

pytestmark = pytest.mark.slow

TERMS = LeaseTerms(lease_seconds=8.0, heartbeat_seconds=2.0, polls_per_heartbeat=1)
CONTENDERS, MANY_CONTENDERS = 200, 600
PAUSED_ONE_IN = 8
PAUSED_SECONDS = 30.0
REPEATS_MAX, TURNS_MAX = 20, 50
NUMBER: Key = ("number", "of all")


@dataclass
class Witness:
    """Notes every write of the number in the home region: which, and under which epoch."""

    written: list[tuple[int, int]] = field(default_factory=list)

    def arrived(self, region: str, key: Key, item: Item | None) -> None:
        """Take in a write of the number."""
        if (region, key) == (HOME, NUMBER) and item is not None:
            self.written.append((int(item["number"]["N"]), int(item["epoch"]["N"])))

    def changed(self, region: str, partition: str) -> None:
        """Nothing to take in."""

    @property
    def is_exclusive(self) -> bool:
        """Whether each write knew all before it, and epochs only grew."""
        epochs = [epoch for _, epoch in self.written]
        numbers = [number for number, _ in self.written]
        return numbers == list(range(1, len(numbers) + 1)) and epochs == sorted(set(epochs))


async def write_once(
    client: Client, lease: Lease, held: LeaseGrant, *, fenced: bool, pause: bool
) -> None:
    """Read the number and write the next one, paused in between or not."""
    item = await client.store.get(Get(NUMBER))
    number = int(item["number"]["N"]) if item else 0
    lease.check()
    if pause:
        client.process._awake_at = client.process.local + PAUSED_SECONDS
        await client.clock.sleep(0)
    partition, sort_key = NUMBER
    following = {"number": {"N": str(number + 1)}, "epoch": {"N": str(held.epoch)}}
    put = Put({"pk": {"S": partition}, "sk": {"S": sort_key}, **following})
    for _ in range(REPEATS_MAX):
        outcome: Outcome = Unknown("not tried")
        try:
            if fenced:
                outcome = await lease.transact([put], token=f"{lease.owner} {held.epoch}")
            else:
                outcome = await client.store.write(put)
        except StoreError:
            continue
        if isinstance(outcome, Applied):
            return


async def crowd(seed: int, contenders: int, *, fenced: bool) -> list[tuple[int, int]]:
    """Let them all contend until each has had its turn; return the writes, judged."""
    clients, witness = Clients(seed=seed, faults=FAULTY), Witness()
    clients.world.observers.append(witness)

    async def contend(number: int) -> None:
        client = clients.client(f"contender {number}")
        lease = Lease(
            client.store,
            "number",
            owner=f"contender {number}",
            terms=TERMS,
            services=client.services,
        )
        for turn in range(TURNS_MAX):
            try:
                async with lease.held() as held:
                    assert isinstance(held, LeaseGrant)
                    pause = turn == 0 and number % PAUSED_ONE_IN == 0
                    await write_once(client, lease, held, fenced=fenced, pause=pause)
                    return
            except (LeaseLost, StoreError):
                continue

    await together([partial(contend, number) for number in range(contenders)])
    assert witness.is_exclusive or not fenced, witness.written
    return witness.written


@pytest.mark.parametrize("seed", [2])
def test_a_crowd_writes_one_at_a_time(seed: int) -> None:
    """Of hundreds, in storms, some paused past their lease: with the fence each write is alone."""
    written = loop.run(partial(crowd, seed, CONTENDERS, fenced=True))
    assert len(written) > CONTENDERS / 2


@pytest.mark.long
@pytest.mark.parametrize("seed", [10, 11, 12])
def test_a_larger_crowd_writes_one_at_a_time(seed: int) -> None:
    """The same of more, from more seeds."""
    assert loop.run(partial(crowd, seed, MANY_CONTENDERS, fenced=True))


def test_mutant_without_the_fence_paused_holders_write_over_others() -> None:
    """The same crowd without the fence: a number comes twice, and older epochs after newer ones."""
    written = loop.run(partial(crowd, 1, CONTENDERS, fenced=False))
    numbers, epochs = zip(*written, strict=True)
    assert len(set(numbers)) < len(numbers)
    assert list(epochs) != sorted(epochs)
