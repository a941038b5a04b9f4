"""The ledger's reads, measured as its users call them."""

from dataclasses import replace

from ledger.core.errors import LedgerError
from ledger.lab.bench.measuring import Measured
from ledger.lab.bench.rounds import Round
from ledger.lab.bench.stub_pages import counter_name, expected_total
from ledger.ledger import Ledger


async def total(round_: Round) -> Measured:
    """Read one counter's total again and again, never from the cache."""
    entries, shards = round_.options["entries"], round_.options.get("shards", 1)
    name = counter_name(entries)
    settings = round_.settings(
        shards={name: shards},
        read_deadline=60,
        observation_delay=61,
        request_timeout=60,
        **round_.options.get("settings", {}),
    )
    async with Ledger.open(settings, registry=round_.registry) as ledger:

        async def work(_: int) -> tuple[int, int]:
            found = await ledger.total(name, max_age=0)
            _check(found.value, shards * expected_total(entries))
            return shards * entries, 0

        return await round_.measure(work, callers=1, kind="read")


async def totals(round_: Round) -> Measured:
    """Read the totals of many counters, all in one call or each in its own."""
    counters, entries = round_.options["counters"], round_.options["entries"]
    names = [counter_name(entries, number) for number in range(counters)]
    at_once = round_.options["at_once"]
    settings = round_.settings(**round_.options.get("settings", {}))
    async with Ledger.open(settings, registry=round_.registry) as ledger:

        async def work(_: int) -> tuple[int, int]:
            if at_once:
                found = await ledger.totals(names, max_age=0)
                values = [one.value for one in found.values()]
            else:
                values = [(await ledger.total(name, max_age=0)).value for name in names]
            for value in values:
                _check(value, expected_total(entries))
            return counters, 0

        measured = await round_.measure(work, callers=1, kind="read")
        return replace(measured, extra={"entries_each": float(entries)})


def _check(found: object, expected: int) -> None:
    if found != expected:
        raise LedgerError(f"a total of {found} instead of {expected}")
