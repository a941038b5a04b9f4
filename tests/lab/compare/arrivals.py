"""An open loop: changes arrive at a rate of their own, whether or not the earlier ones are done.

A change that is not applied is made again: a caller that wants it counted cannot do less.

In a closed loop (`parts.contend`) a writer waits for its answer, so no more changes can wait than
there are writers. Callers of a service do not wait for each other: if more changes arrive than
leave, those that wait grow without end. On the model, in virtual time.
"""

from itertools import cycle
from random import Random

import anyio
from proof.simulator.randomness import stream

from lab.compare.figures import ARRIVING_SECONDS, LEDGER_COMBINED, Backlog
from lab.compare.options import CompareOptions
from lab.compare.participants import Client, Participants
from lab.harness.model import Model
from ledger.store.writes import Applied

AGAIN_SECONDS = 1.0
"""After which a caller makes a change again that was not applied."""
CLIENTS = 100
"""Processes that the changes arrive at."""
PER_SECOND = (100, 400, 1_200)
"""The last is more than a partition takes, of a unit each."""
METHODS_MEASURED = (
    *("atomic", "optimistic", "marker", "marker-sharded", "collection"),
    LEDGER_COMBINED,
)


async def arrive(model: Model, method: str, per_second: int, options: CompareOptions) -> Backlog:
    """Let changes of one counter arrive for a while, and count those that wait half-way and then.

    The moments are drawn (a Poisson process): the same for every method.
    """
    async with Participants(model, method, f"arriving-{per_second}", options.seed) as participants:
        await participants.add_first()
        return await _arrive(participants, per_second)


async def _arrive(participants: Participants, per_second: int) -> Backlog:
    clients = cycle(participants.clients(CLIENTS))
    arrived, done = [0, 0], [0, 0]  # half-way, and now
    moments = _moments(stream(participants.seed, f"arriving {per_second}"), per_second)
    start = anyio.current_time()

    async def change(client: Client) -> None:
        token = client.token()
        while not await client.add(1, token):  # cut off with the run
            await client.clock.sleep(AGAIN_SECONDS)
        done[1] += 1

    async with anyio.create_task_group() as tasks:
        for moment in moments:
            if moment > ARRIVING_SECONDS / 2 and not arrived[0]:
                arrived[0], done[0] = arrived[1], done[1]
            await anyio.sleep_until(start + moment)
            tasks.start_soon(change, next(clients))
            arrived[1] += 1
        await anyio.sleep_until(start + ARRIVING_SECONDS)
        waiting, applied = arrived[1] - done[1], participants.answers.counts[Applied]
        tasks.cancel_scope.cancel()
    return Backlog(
        arriving_per_second=per_second,
        waiting_half_way=arrived[0] - done[0],
        waiting=waiting,
        useful_per_second=applied / ARRIVING_SECONDS,
    )


def _moments(randomness: Random, per_second: int) -> list[float]:
    """Return when changes arrive, in seconds from the beginning."""
    moments, now = [], randomness.expovariate(per_second)
    while now < ARRIVING_SECONDS:
        moments.append(now)
        now += randomness.expovariate(per_second)
    return moments
