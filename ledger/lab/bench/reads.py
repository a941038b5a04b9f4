"""The ledger's reads, measured as its users call them."""

from ledger.core.errors import LedgerError
from ledger.lab.bench.measuring import Measured
from ledger.lab.bench.rounds import Round
from ledger.lab.bench.stub_pages import counter_name, expected_total
from ledger.ledger import Ledger


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

        return await round_.measure(work, kind="read")
