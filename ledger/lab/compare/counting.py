"""One region: concurrent writers, writes without an answer, and what a lone writer pays."""

from ledger.lab.compare.ground import Ground
from ledger.lab.compare.report import Alone, Counted, Options
from ledger.lab.compare.workload import Cast, Spent, share

ALONE_CHANGES = 10


async def count(ground: Ground, method: str, options: Options) -> Counted:
    """Let the writers make all changes at home, and see what is kept.

    A first change, sure to arrive and not counted here, makes the items that a method needs.
    """
    cast = Cast(ground, method, "count", options.seed, lost=options.lost)
    await cast.writer("first", is_sure=True).add(1)
    before = Spent.of(ground)
    writers = [cast.writer(f"writer {place}") for place in range(options.writers)]
    await share(writers, options.changes)
    spent, told = Spent.of(ground).since(before), cast.told
    return Counted(
        changes=options.changes,
        applied=told.applied,
        unknown=told.unknown,
        rejected=told.all_rejected,
        refused=told.refused,
        value=await cast.value() - 1,
        requests=sum(one.losing.writes for one in writers) + int(spent.repeats),
        write_units=spent.write_units,
        read_units=spent.read_units,
        p50_milliseconds=told.milliseconds(50),
        p99_milliseconds=told.milliseconds(99),
    )


async def alone(ground: Ground, method: str, options: Options) -> Alone:
    """Return what a change costs where nothing goes wrong and nobody else writes."""
    writer = Cast(ground, method, "alone", options.seed).writer("writer")
    await writer.add(1)  # the first one may have to make its items
    before = Spent.of(ground)
    for _ in range(ALONE_CHANGES):
        await writer.add(1)
    spent = Spent.of(ground).since(before)
    return Alone(spent.write_units / ALONE_CHANGES, spent.read_units / ALONE_CHANGES)
