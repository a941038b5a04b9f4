"""Which changes a book takes: transfers alone, and no other counter takes any.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Sequence
from decimal import Decimal

from ledger.core import amounts, books
from ledger.core.errors import InvalidEntry, InvalidInput
from ledger.core.values import Leg
from ledger.settings import Settings


def checked_transfer(
    legs: Sequence[tuple[str, str, int | Decimal]] | None,
    counter: str,
    amount: Decimal,
    settings: Settings,
) -> tuple[Leg, ...]:
    """Return the legs of a change, in a book; none without.

    Raises:
        InvalidInput: they break a rule, or are of no book.
    """
    if legs is None:
        return ()
    check_book(counter, settings)
    if amount:
        raise InvalidEntry(
            f"the change of a transfer in {counter!r} must be 0, got {amounts.to_text(amount)}"
        )
    return books.checked_legs(legs)


def check_book(counter: str, settings: Settings) -> None:
    """Refuse a transfer of a counter that is no book.

    Raises:
        InvalidInput: nothing was written.
    """
    if not settings.is_book(counter):
        raise InvalidInput(
            f"counter {counter!r} is no book: it matches no pattern of `books` in the table's"
            f" contract ({', '.join(settings.books) or 'there is none'})"
        )


def check_not_book(counter: str, settings: Settings) -> None:
    """Refuse a change of a book that is no transfer.

    Raises:
        InvalidInput: nothing was written.
    """
    if settings.is_book(counter):
        raise InvalidInput(
            f"{counter!r} is a book, by a pattern of `books` in the table's contract: it takes"
            " transfers between its accounts alone (Table.book)"
        )
