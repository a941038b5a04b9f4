"""The ledger's reads, measured as its users call them."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from lab.bench.load import Work
from lab.bench.measurement import Measured, memory_bytes
from lab.bench.rounds import Round
from lab.bench.stub_pages import MERGED_TOTAL, counter_name, expected_total, merged_name
from ledger.core.errors import LedgerError
from ledger.reads.total import Total
from ledger.session.ledger import Ledger


async def total(round_: Round) -> Measured:
    """Read one counter's total again and again, never from the cache."""
    entries = round_.options["entries"]
    name = counter_name(entries)
    async with Ledger.open(round_.settings(), registry=round_.registry) as ledger:

        async def work(_: int) -> tuple[int, int]:
            found = await ledger.total(name, max_age=0)
            if found.value != expected_total(entries):
                raise LedgerError(f"read {found.value} instead of {expected_total(entries)}")
            return entries, 0

        found = await round_.measure(work, kind="read")
    return replace(found, extra={"MB resident": memory_bytes() / 2**20})


async def each(round_: Round) -> Measured:
    """Read merged totals, one a call, never from the cache."""
    counters = round_.options["counters"]
    async with Ledger.open(round_.settings(), registry=round_.registry) as ledger:

        async def work(number: int) -> tuple[int, int]:
            found = await ledger.total(merged_name(number % counters), max_age=0)
            _check(found)
            return 1, 0

        return await round_.measure(work, kind="read")


async def cached(round_: Round) -> Measured:
    """Read merged totals that the cache has, one a call."""
    names = [merged_name(number) for number in range(round_.options["counters"])]
    async with Ledger.open(round_.settings(), registry=round_.registry) as ledger:
        await ledger.totals(names)

        return await round_.measure(_each_of(names, ledger.total), kind="read")


async def looked_up(round_: Round) -> Measured:
    """Call an async function that looks a total up in a dict, and does nothing else."""
    names = [merged_name(number) for number in range(round_.options["counters"])]
    async with Ledger.open(round_.settings(), registry=round_.registry) as ledger:
        totals = await ledger.totals(names)

    async def total(name: str) -> Total:
        return totals[name]

    return await round_.measure(_each_of(names, total), kind="read")


def _each_of(names: Sequence[str], total: Callable[[str], Awaitable[Total]]) -> Work:
    """Return work that asks for each of these totals in turn: one call would take no time."""

    async def work(_: int) -> tuple[int, int]:
        for name in names:
            _check(await total(name))
        return len(names), 0

    return work


async def many(round_: Round) -> Measured:
    """Read many merged totals a call, never from the cache."""
    names = [merged_name(number) for number in range(round_.options["counters"])]
    async with Ledger.open(round_.settings(), registry=round_.registry) as ledger:

        async def work(_: int) -> tuple[int, int]:
            found = await ledger.totals(names, max_age=0)
            for total in found.values():
                _check(total)
            return len(found), 0

        return await round_.measure(work, kind="read")


def _check(found: Total) -> None:
    if found.value != MERGED_TOTAL:
        raise LedgerError(f"{found.counter} is {found.value} instead of {MERGED_TOTAL}")
