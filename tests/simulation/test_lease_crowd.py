"""A thousand contenders after a crash, on virtual time: how long a turn takes, and what it costs.

Each waits for the lease of a holder that died, takes it, and gives it back at once. A request takes
up to 50 ms each way, so that a turn of a single contender after another would take about 0.1 s.
"""

from dataclasses import dataclass
from functools import partial

import anyio
import pytest
from proof.simulator import loop
from support.clients import Client, Clients, together

from ledger.primitives.leases import Lease, LeaseGrant, LeaseTerms, contention
from ledger.primitives.leases.poll_pace import PollPace

FEW, MANY = 100, 1_000
TERMS = LeaseTerms()


@dataclass(frozen=True)
class Crowd:
    """What a crowd's turns took: until the first, for each after it, and their units."""

    first_seconds: float
    turn_seconds: float
    write_units: float
    read_units: float


class FixedPace(PollPace):
    """Looks at fixed intervals, as before: contenders that began together stay together."""

    def beaten(self) -> None:
        """Go on as before."""

    def pause_seconds(self, draw: float) -> float:
        """Return the same pause each time."""
        del draw
        return self.poll_seconds


async def crowd(contenders: int) -> Crowd:
    """Let them all wait for the lease of a dead holder, until each has had its turn."""
    clients = Clients()
    turns: list[float] = []

    def lease_of(client: Client, owner: str) -> Lease:
        return Lease(client.store, "job", owner=owner, terms=TERMS, services=client.services)

    async def turn(number: int) -> None:
        lease = lease_of(clients.client(f"contender {number}"), f"contender {number}")
        assert isinstance(await lease.acquire(), LeaseGrant)
        turns.append(anyio.current_time())
        await lease.release()

    await lease_of(clients.client("dead"), "dead").acquire(0)
    before = clients.units("write"), clients.units("read")
    died = anyio.current_time()
    await together([partial(turn, number) for number in range(contenders)])
    return Crowd(
        first_seconds=turns[0] - died,
        turn_seconds=(turns[-1] - turns[0]) / (contenders - 1),
        write_units=(clients.units("write") - before[0]) / contenders,
        read_units=(clients.units("read") - before[1]) / contenders,
    )


def test_a_crowd_takes_its_turns() -> None:
    """A hundred: each turn within a third of a second and four writes, two of them its own."""
    took = loop.run(partial(crowd, FEW))
    assert TERMS.lease_seconds - 0.2 < took.first_seconds < TERMS.lease_seconds + 1
    assert took.turn_seconds < 0.35
    assert took.write_units < 4
    assert took.read_units < 30


@pytest.mark.slow
def test_a_large_crowd_takes_its_turns() -> None:
    """A thousand: 0.12 s a turn, as fast as requests go, at 6.4 write and 32 read units."""
    took = loop.run(partial(crowd, MANY))
    assert took.turn_seconds < 0.14
    assert took.write_units < 7.5
    assert took.read_units < 40


@pytest.mark.slow
def test_negative_twin_at_a_fixed_pace_a_crowd_stays_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As before: 0.16 s a turn, at 13 write and 52 read units."""
    monkeypatch.setattr(contention, "PollPace", FixedPace)
    took = loop.run(partial(crowd, MANY))
    assert took.turn_seconds > 0.15
    assert took.write_units > 11
    assert took.read_units > 45
