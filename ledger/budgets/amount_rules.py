"""Which amounts a budget can spend, so that every sum that its items will have fits in 38 digits.

Pure: no clock, no randomness, no I/O.
"""

from decimal import Decimal

from ledger.core import amounts
from ledger.core.errors import AmountOverflow, InvalidAmount

GROWTH_DIGITS = 6
"""By how many digits the sums of an item may outgrow the limit, of the 38 that there are."""
SETTLED_DIGITS = 3
"""By how many digits what a hold comes to may outgrow the limit: a thousand such still fit."""
CREDITED_MAX, CREDITED_FINEST = amounts.power_of_ten(22), amounts.power_of_ten(-9)
"""Of amounts, and of the limit, of a budget that takes credits: as whose limit its spends are
checked, so that multiples of the one up to the other fit."""


def fits(finest: Decimal, limit: Decimal) -> bool:
    """Return whether sums of such pieces, up to a million times the limit, have 38 digits."""
    try:
        amounts.total((amounts.scaled(limit, GROWTH_DIGITS), finest, limit))
    except AmountOverflow:
        return False
    return True


def _above_0(amount: object, what: str) -> Decimal:
    number = amounts.addend(amount)
    if number <= 0:
        raise InvalidAmount(f"{what} must be above 0, got {amounts.to_text(number)}")
    return number


def checked_amount(amount: object, limit: Decimal, what: str = "amount") -> Decimal:
    """Return an amount above 0 that a budget of this limit can spend, exactly.

    `limit` is the highest that the budget is known to have had.

    Raises:
        InvalidAmount: not an int or Decimal, not finite, or not above 0.
        AmountOverflow: sums of such amounts up to a million times the limit have over 38 digits, so
            a grant that was spent so might never be closed.
    """
    number = _above_0(amount, what)
    widest = max(limit, number)
    if not fits(number, widest):
        grown = amounts.scaled(widest, GROWTH_DIGITS)
        first = amounts.total_wide((grown, number, limit)).adjusted()
        finest = amounts.power_of_ten(first + 1 - amounts.DIGITS_MAX)
        beside = f" beside a limit of {amounts.to_text(limit)}" if limit >= number else ""
        raise AmountOverflow(
            f"{what} must be a multiple of {finest:E}{beside}: sums must fit in"
            f" {amounts.DIGITS_MAX} digits; got {amounts.to_text(number)}"
        )
    return number


def checked_credit(amount: object) -> Decimal:
    """Return an amount above 0 that a budget can be credited, exactly.

    Raises:
        InvalidAmount: not an int or Decimal, not finite, or not above 0.
        AmountOverflow: above 10^22, or no multiple of 10^-9: the total would not fit in 38 digits
            beside others, and a credit that is spent cannot be reversed.
    """
    number = _above_0(amount, "a credit")
    check_credited(number, "a credit")
    return number


def check_credited(number: Decimal, what: str) -> None:
    """Check an amount, or a limit, of a budget that takes credits.

    Raises:
        AmountOverflow: as `checked_credit`.
    """
    if number > CREDITED_MAX or not fits(number, CREDITED_MAX):
        raise AmountOverflow(
            f"{what} must be a multiple of {CREDITED_FINEST:E}, up to {CREDITED_MAX:E}, where a"
            f" budget takes credits; got {amounts.to_text(number)}"
        )


def check_settled(amount: Decimal, held: Decimal, limit: Decimal) -> None:
    """Check that what a hold of this amount comes to can be charged to a budget, exactly.

    `limit` is the highest that the budget is known to have had.

    Raises:
        AmountOverflow: it is too fine, as in `checked_amount`, or over a thousand times the limit.
    """
    widest = max(limit, held)
    most = amounts.scaled(widest, SETTLED_DIGITS)
    if amount > most:
        raise AmountOverflow(
            f"a hold settles for at most {10**SETTLED_DIGITS:,} times the limit of its budget,"
            f" {amounts.to_text(most)}; got {amounts.to_text(amount)}"
        )
    checked_amount(amount, widest, "what a hold settles for")
