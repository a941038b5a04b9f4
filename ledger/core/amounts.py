"""Exact amounts: ints and Decimals of up to 38 digits, in and out of DynamoDB's number form.

DynamoDB numbers hold 38 significant digits, magnitudes from 1E-130 to 9.99...E+125 (Amazon
DynamoDB Developer Guide, "Data types"). Sums are taken in a context wide enough for any number of
such amounts in any order, and checked once at the end: intermediate sums may be of any size.

A program may have set any decimal context: few digits, traps, small letters in exponents. Python's
operators on decimals, and methods that are given no context, calculate in that one. So every
calculation names a context of this module; a plugin of mypy
(`.ci/decimal_context.py`) refuses others.

A change to be added to a counter has narrower bounds (`addend`): 10^100 is a legal amount, but
together with any other change it would make a total that does not fit in 38 digits.

Options that are yes or no.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Collection, Iterable
from decimal import (
    ROUND_DOWN,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DecimalException,
    DivisionByZero,
    Inexact,
    InvalidOperation,
    Overflow,
)
from functools import reduce

from ledger.core.errors import AmountOverflow, InvalidAmount, InvalidInput

DIGITS_MAX = 38
EXPONENT_MIN = -130
EXPONENT_MAX = 125


def context(digits: int, rounding: str, *traps: type[DecimalException]) -> Context:
    """Return a context that is independent of `DefaultContext`, which programs may change."""
    return Context(
        prec=digits,
        rounding=rounding,
        Emin=-1000,
        Emax=1000,
        capitals=1,
        clamp=0,
        flags=[],
        traps=[InvalidOperation, DivisionByZero, Overflow, *traps],
    )


# From the last digit of the smallest amount to the first of the largest are 293 digits; the rest
# is room for the carry of more addends than a table can hold.
EXACT = context(360, ROUND_DOWN, Inexact)
"""Never rounds: what would need more digits raises."""
PROPORTION = context(2 * DIGITS_MAX, ROUND_DOWN)
"""For quotients and parts of amounts, which no number of digits holds: rounds toward 0."""
GIVEN = context(2 * DIGITS_MAX, ROUND_HALF_EVEN)
"""For functions of users: as Python's own, with the digits of any product of two amounts."""

_SURELY_FITS = 10**DIGITS_MAX
_SURELY_DIGITS = 19
_PLAIN_EXPONENT = 40
SHORT_CHARACTERS = 16
"""A million amounts whose texts are not longer, without an exponent, have a sum that fits: up to 16
digits before the point, 6 more by their number, and up to 15 after the point, 37 in all."""
_SHORT_TEXTS = 10**6
_ZERO = Decimal(0)
# Half of 38 digits on each side of the point: any number of this form is a legal amount.
_PLAIN = re.compile(r"(?:-?+[0-9]{1,19}+(?:\.[0-9]{1,19}+)?+,)*+", flags=re.ASCII)


def exact(value: object) -> Decimal:
    """Return `value` as an exact amount.

    Raises:
        InvalidAmount: not an int or Decimal, or not finite; floats are refused because they
            no longer hold the decimal that was written.
        AmountOverflow: over 38 significant digits, or outside 1E-130 to 9.99E+125.
    """
    if type(value) is int and -_SURELY_FITS < value < _SURELY_FITS:
        return Decimal(value)
    if isinstance(value, int) and not isinstance(value, bool):
        number = Decimal(value)
    elif isinstance(value, Decimal):
        number = value
    else:
        raise InvalidAmount(
            f"amount must be an int or a Decimal, got {value!r} ({type(value).__name__})"
        )
    return within_range(number)


def addend(value: object) -> Decimal:
    """Return `value` as an exact amount that may be added to a counter.

    Raises:
        InvalidAmount: as `exact`.
        AmountOverflow: as `exact`, or it has a digit beyond the 38th before or after the point.
    """
    number = exact(value)
    if not number:
        return number
    first = number.adjusted()
    # One of 0.1 or more has the last of its 38 digits at the 38th place or before.
    is_fine = first < -1 and int(number.normalize(EXACT).as_tuple().exponent) < -DIGITS_MAX
    if first >= DIGITS_MAX or is_fine:
        raise AmountOverflow(
            f"a change must have at most {DIGITS_MAX} digits before the point and {DIGITS_MAX}"
            f" after it, got {_short(number)}: its counter's total would not fit in {DIGITS_MAX}"
        )
    return number


def within_range(number: Decimal) -> Decimal:
    """Return `number` if DynamoDB can hold it exactly.

    Raises:
        InvalidAmount: not finite.
        AmountOverflow: over 38 significant digits, or outside 1E-130 to 9.99E+125.
    """
    if not number.is_finite():
        raise InvalidAmount(f"amount must be a finite number, got {as_written(number)}")
    if not number:
        return Decimal(0)
    text = as_written(number)
    if len(text) <= DIGITS_MAX and "E" not in text:  # the common case
        return number
    if not EXPONENT_MIN <= number.adjusted() <= EXPONENT_MAX:
        raise AmountOverflow(
            f"amount must be within 1E{EXPONENT_MIN} to 9.99E+{EXPONENT_MAX}, got {_short(number)}"
        )
    try:
        trimmed = number.normalize(EXACT)
    except (Inexact, InvalidOperation):
        raise AmountOverflow(
            f"amount must have at most {DIGITS_MAX} digits, got {_short(number)}"
        ) from None
    digits = len(trimmed.as_tuple().digits)
    if digits > DIGITS_MAX:
        raise AmountOverflow(
            f"amount must have at most {DIGITS_MAX} digits, got {digits} digits: {_short(number)}"
        )
    return number


def total(amounts: Iterable[Decimal]) -> Decimal:
    """Return the exact sum of amounts, the same in any order.

    Raises:
        AmountOverflow: the sum does not fit in 38 digits.
    """
    return within_range(total_wide(amounts))


def total_wide(amounts: Iterable[Decimal]) -> Decimal:
    """Return the exact sum of amounts without a range check: for running sums only."""
    return reduce(EXACT.add, amounts, _ZERO)


def scaled(number: Decimal, digits: int) -> Decimal:
    """Return a number times 10^digits, exactly, whatever the caller's decimal context is."""
    return number.scaleb(digits, EXACT)


def is_whole(number: Decimal) -> bool:
    """Return whether a finite number has no fraction."""
    return number == number.to_integral_value(ROUND_DOWN, EXACT)


def power_of_ten(exponent: int) -> Decimal:
    """Return 10^exponent, as one digit: the smallest piece of amounts that end at its place."""
    return Decimal((0, (1,), exponent))


def portion(number: Decimal, place: int, places: int) -> Decimal:
    """Return one of `places` portions of an amount; those of a whole number are whole numbers.

    The portions add up to the amount exactly; the first ones take the remainder.
    """
    number = number.normalize(EXACT)
    exponent = min(0, int(number.as_tuple().exponent))
    exponent = max(exponent, number.adjusted() - DIGITS_MAX + 1)  # each portion must be an amount
    if exponent < EXPONENT_MIN:  # its last digit alone is out of range
        return number if place == 0 else Decimal(0)
    share, rest = divmod(int(number.copy_abs().scaleb(-exponent, EXACT)), places)
    size = Decimal(share + (place < rest)).scaleb(exponent, EXACT)
    return size.copy_sign(number)


def whole_portion(number: Decimal, place: int, places: int) -> Decimal:
    """Return one of `places` portions of an amount, in whole units; one place has the fraction.

    The portions add up to the amount exactly, and each grows with the amount: of two amounts of the
    same sign the larger has no smaller portion anywhere, whatever their fractions. `portion` does
    not guarantee that. Amounts over 10^36 are divided as by `portion`.
    """
    if number.adjusted() >= DIGITS_MAX - 1:
        return portion(number, place, places)
    whole = number.to_integral_value(ROUND_DOWN, EXACT)
    share = portion(whole, place, places) if whole else _ZERO
    taker = int(whole.copy_abs()) % places
    return EXACT.add(share, EXACT.subtract(number, whole)) if place == taker else share


def parse(text: str) -> Decimal:
    """Return the amount in a text from a person or a file.

    Raises:
        InvalidAmount: not a decimal number.
        AmountOverflow: over 38 significant digits, or outside the range.
    """
    if len(text) <= _SURELY_DIGITS and text.isascii() and text.isdigit():  # the common case
        return of_text(text)
    stripped = text.strip()
    if not stripped.isascii() or "_" in stripped:
        raise InvalidAmount(f"amount must be a decimal number, got {text!r}")
    try:
        number = of_text(stripped)
    except InvalidOperation:
        raise InvalidAmount(f"amount must be a decimal number, got {text!r}") from None
    return within_range(number)


def of_text(text: str) -> Decimal:
    """Return the number of a text that is known to be one.

    Raises:
        decimal.InvalidOperation: it is not.
    """
    return Decimal(text, EXACT)


def are_plain(texts: Collection[str]) -> bool:
    """Return whether each text is certainly an amount, much faster than `parse` would.

    True for integers and decimals of up to 19 digits on each side of the point, the common case;
    False means only that each has to be checked with `parse`.

    Raises:
        TypeError: one of them is not a str.
    """
    joined = ",".join(texts) + "," if texts else ""
    # The count distinguishes two numbers from one text that contains a comma.
    return joined.count(",") == len(texts) and _PLAIN.fullmatch(joined) is not None


def total_plain(texts: Collection[str]) -> Decimal:
    """Return the exact sum of texts for which `are_plain` is true, without a range check."""
    try:
        return Decimal(sum(map(int, texts)))
    except ValueError:  # one of them has a point
        return total_wide(map(of_text, texts))


def fits(texts: Collection[str]) -> bool:
    """Return whether the sum of these texts, each of an amount, fits in 38 digits.

    Nearly always their lengths say so, much faster than their sum would.
    """
    if len(texts) <= _SHORT_TEXTS and max(map(len, texts), default=0) <= SHORT_CHARACTERS:
        joined = "".join(texts)
        if not ("E" in joined or "e" in joined):
            return True
    try:
        total(map(of_text, texts))
    except AmountOverflow:
        return False
    return True


def as_written(number: Decimal) -> str:
    """Return a number with all its digits and zeros, such as 1.50 or 1E+30."""
    return EXACT.to_sci_string(number)


def to_text(number: Decimal) -> str:
    """Return an amount as the text of a DynamoDB `N`: no trailing zeros, no exponent if short."""
    if not number:
        return "0"
    text = EXACT.to_sci_string(number)
    if len(text) <= _PLAIN_EXPONENT and "E" not in text:  # the common case
        return text.rstrip("0").rstrip(".") if "." in text else text
    trimmed = number.normalize(EXACT)
    if abs(trimmed.adjusted()) < _PLAIN_EXPONENT:
        return format(trimmed, "f")
    return as_written(trimmed)


def _short(number: Decimal) -> str:
    text = as_written(number)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text)} characters)"  # noqa: PLR2004


def check_bool(name: str, value: object) -> bool:
    """Return `value` if it is True or False.

    Raises:
        InvalidInput: it is something else; any non-empty text would count as True.
    """
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be True or False, got {value!r:.80}")
    return value
