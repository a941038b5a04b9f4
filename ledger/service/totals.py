"""Totals of many counters: one that cannot be read takes nothing from the others."""

from collections.abc import Sequence

from ledger.core.errors import AmountOverflow, DamagedItem, LedgerError, NetVanished
from ledger.ledger import Ledger
from ledger.runtime.clock import Clock
from ledger.service.apart import read_apart
from ledger.totals.cache import naming
from ledger.totals.total import Total

OF_ONE_COUNTER = (AmountOverflow, DamagedItem, NetVanished)
"""Errors that say nothing of other counters; any other is that of the whole request."""
_SECONDS_MIN = 0.001


async def readable_totals(
    ledger: Ledger,
    counters: Sequence[str],
    *,
    clock: Clock,
    max_age: float | None,
    wait: float | None = None,
) -> tuple[dict[str, Total], dict[str, LedgerError]]:
    """Return the totals that can be read, in the order asked, and why each of the others cannot.

    All are read within `wait` seconds.

    Raises:
        LedgerError: as `Ledger.totals`, but for errors of one counter.
    """
    began = clock.monotonic()
    try:
        return await ledger.totals(counters, max_age=max_age, timeout=wait), {}
    except OF_ONE_COUNTER:
        pass
    left = None if wait is None else max(_SECONDS_MIN, wait - (clock.monotonic() - began))

    async def one(counter: str) -> Total:
        return await ledger.total(counter, max_age=max_age, timeout=left)

    found, errors = await read_apart(counters, one, of_one=OF_ONE_COUNTER)
    if len(found) + len(errors) == 1:
        return found, errors
    return found, {counter: naming(counter, error) for counter, error in errors.items()}
