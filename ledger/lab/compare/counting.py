"""One region: concurrent clients with answers lost, a lone client, and contention."""

from functools import partial

from ledger.lab.compare.figures import Alone, Counted, Point
from ledger.lab.compare.options import CompareOptions
from ledger.lab.compare.participants import Client, ComparedTable, Participants, share, spent
from ledger.runtime.tasks import run_all

ALONE_CHANGES = 10
CONTENDERS = ("atomic", "optimistic", "history", "marker", "atomic-sharded", "collection")
WRITERS = (1, 2, 4, 8, 16, 32, 64)
WRITERS_QUICK = (1, 4, 16, 64)
SECONDS, SECONDS_QUICK = 1.0, 0.4
CHANGES_MAX = 10_000
"""Bound on the changes of one client under contention."""


async def count(table: ComparedTable, method: str, options: CompareOptions) -> Counted:
    """Make all changes at home by concurrent clients, and compare what is kept."""
    participants = Participants(table, method, "count", options.seed, lost=options.lost)
    await participants.add_first()
    before, clients = spent(table), participants.clients(options.writers)
    await share(clients, options.changes)
    taken, answers = spent(table, before), participants.answers
    return Counted(
        changes=options.changes,
        applied=answers.applied,
        unknown=answers.unknown,
        rejected=answers.rejected,
        refused=answers.refused,
        value=await participants.value() - 1,
        requests=sum(client.loss.writes for client in clients) + int(taken.retries),
        write_units=taken.write_units,
        read_units=taken.read_units,
        p50_milliseconds=1e3 * answers.latencies.p50,
        p99_milliseconds=1e3 * answers.latencies.p99,
    )


async def count_alone(table: ComparedTable, method: str, options: CompareOptions) -> Alone:
    """Return what a change costs without faults and without other clients."""
    client = Participants(table, method, "alone", options.seed).client("writer")
    await client.add(1)  # the first one may have to create its items
    before = spent(table)
    for _ in range(ALONE_CHANGES):
        await client.add(1)
    taken = spent(table, before)
    return Alone(taken.write_units / ALONE_CHANGES, taken.read_units / ALONE_CHANGES)


async def contend(
    table: ComparedTable, method: str, writers: int, options: CompareOptions
) -> Point:
    """Add for a while with many clients, each as fast as it is answered."""
    seconds = SECONDS_QUICK if options.quick else SECONDS
    participants = Participants(table, method, f"contention-{writers}", options.seed)
    await participants.add_first()
    before, clients = spent(table), participants.clients(writers)
    deadline = table.clock.monotonic() + seconds
    jobs = [partial(_add_until, client, deadline) for client in clients]
    useful = sum(await run_all(jobs, at_once=writers))
    answers = participants.answers
    requests = sum(client.loss.writes for client in clients) + spent(table, before).retries
    repeated = max(0.0, 1 - answers.calls / requests) if requests else 0.0
    return Point(writers, useful / seconds, repeated, 1 - answers.applied / answers.calls)


async def _add_until(client: Client, deadline: float) -> int:
    """Add until the deadline; return how many changes were applied by then."""
    useful = 0
    for _ in range(CHANGES_MAX):
        if client.clock.monotonic() >= deadline:
            break
        if await client.add(1) and client.clock.monotonic() <= deadline:
            useful += 1
    return useful
