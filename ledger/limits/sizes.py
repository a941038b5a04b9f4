"""How much a process asks for, and for how long: figures of the design's simulated day.

Pure: no clock, no randomness, no I/O.
"""

from decimal import ROUND_DOWN, Decimal

from ledger.core import amounts
from ledger.core.amounts import PROPORTION

AHEAD_SECONDS = 30.0
"""A grant has what is spent in this time, by the recent rate."""
FIRST_SPENDS = 10
"""How many spends the first grant has, before there is a rate."""
SPENDS_MAX = 10_000
"""How many spends like the largest of late a grant has at most."""
FREE_PART = 6
"""A grant has at most this part of what is free here, so that other processes find some."""
ROTATE_SECONDS = 300
"""How old a grant becomes: its entries are merged once it is closed."""
IDLE_SECONDS = 60.0
"""How long a grant is kept that nothing is spent under."""
REFUSAL_SECONDS = 1.0
"""For how long a refusal is repeated from memory: a raise may be seen so much later."""
_OF_RATES = amounts.context(6, ROUND_DOWN)

RATE_WEIGHT = Decimal("0.5")
"""How much the time since the last renewal counts in the rate."""


def quantum_of(amount: Decimal) -> Decimal:
    """Return the smallest piece of an amount, a power of ten: 1 of 120, 0.01 of 3.50."""
    exponent = amount.normalize(PROPORTION).as_tuple().exponent
    return amounts.power_of_ten(min(0, int(exponent)))


def rate_of(before: Decimal, spent: Decimal, seconds: float) -> Decimal:
    """Return the rate a second after so much was spent in so many seconds, rounded to 6 digits."""
    if seconds <= 0:
        return before
    recent = PROPORTION.divide(spent, amounts.of_text(repr(seconds)))
    weighed = PROPORTION.multiply(RATE_WEIGHT, recent)
    rest = PROPORTION.multiply(PROPORTION.subtract(Decimal(1), RATE_WEIGHT), before)
    return _OF_RATES.create_decimal(PROPORTION.add(weighed, rest))


def ahead_of(rate: Decimal, largest: Decimal) -> Decimal:
    """Return what a process that spends at this rate is to have, in one grant."""
    ahead = PROPORTION.multiply(rate, amounts.of_text(repr(AHEAD_SECONDS)))
    return max(ahead, PROPORTION.multiply(largest, Decimal(FIRST_SPENDS)))


def grant_size(
    wanted: Decimal,
    *,
    have: Decimal,
    rate: Decimal,
    largest: Decimal,
    available: Decimal,
    quantum: Decimal,
) -> Decimal:
    """Return how much to take where at least `wanted` is needed now, and so much is available.

    The process has some (`have`) already. `largest` is the largest spend of late; the result is a
    multiple of `quantum`, and `wanted` if there is not more.
    """
    ahead = max(Decimal(0), PROPORTION.subtract(ahead_of(rate, largest), have))
    most = min(
        PROPORTION.multiply(largest, Decimal(SPENDS_MAX)),
        PROPORTION.divide(max(Decimal(0), available), Decimal(FREE_PART)),
    )
    size = min(ahead, most).quantize(quantum, ROUND_DOWN, PROPORTION)
    return max(wanted, size)
