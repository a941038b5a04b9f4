"""`Book`: double entry within one counter, each transfer one item that is whole in every region."""

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from typing import Any

from ledger.core import keys
from ledger.core.books import LEGS_MAX, checked_account
from ledger.core.errors import InvalidInput
from ledger.core.values import Entry
from ledger.reads.balances import Balances
from ledger.reads.history import Bound
from ledger.session.ledger import Ledger, live_settings, record_change
from ledger.writes.change_list import check_list
from ledger.writes.entry_plan import Change

Legs = Iterable[tuple[str, str, int | Decimal]]
"""Account, asset and amount of each leg."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A transfer to be made; the fields are those of `Book.transfer`."""

    legs: Legs
    note: str | None = None
    effective: date | None = None
    key: str | None = None
    at: datetime | None = None
    metadata: Mapping[str, str] | None = field(default=None, hash=False)

    def change(self, book: str) -> Change:
        """Return it as a change of a book's counter."""
        legs: Any = self.legs if isinstance(self.legs, Sequence) else _listed(self.legs)
        said = self.note, self.effective, self.key, self.at
        return Change(book, 0, *said, legs, self.metadata)


def _listed(legs: Legs) -> Sequence[tuple[str, str, int | Decimal]]:
    """Return legs that come one by one, of too many one more than there may be."""
    return list(islice(check_list("legs", legs), LEGS_MAX + 1))


def check_book(ledger: Ledger, name: str) -> None:
    """Refuse a counter that is no book.

    Raises:
        InvalidInput: the contract does not say that it is one.
    """
    if not live_settings(ledger).current.is_book(name):
        raise InvalidInput(
            f"{name!r} is no book: it matches no pattern of `books` in the table's contract"
        )


class Book:
    """A book: transfers of any assets between any accounts, which sum to 0.

    It is a counter that matches a pattern of `books` in the table's contract. Any number of
    regions may write it. An account is opened by the first transfer that names it. A transfer is
    one item, so no region ever shows a part of one, and each asset of the book sums to 0 in every
    read. A book has room for some 7,000 accounts with random names, up to 25,000 with others, that
    have a balance. `Ledger.reverse` reverses a transfer, `Ledger.retry` repeats one.
    """

    def __init__(self, name: str, ledger: Ledger) -> None:
        self.name: str = keys.checked_counter(name)
        self._ledger = ledger

    async def transfer(
        self,
        legs: Legs,
        *,
        key: str | None = None,
        at: datetime | None = None,
        note: str | None = None,
        metadata: Mapping[str, str] | None = None,
        effective: date | None = None,
        timeout: float | None = None,
    ) -> Entry:
        """Move amounts between accounts; durable in this region, whole, when it returns.

        2 to 100 `legs` of account, asset and amount; those of each asset sum to 0::

            await book.transfer([("cash", "EUR", -12), ("customer/alice", "EUR", 12)], key=order)

        An account has 1 to 255 bytes, an asset 1 to 32 printable ASCII characters without a space.
        `key`, `at`, `note`, `effective` and `timeout` are as in `Ledger.record`; `metadata` are up
        to 20 texts by name, of 2 KB, for whoever reads the history.

        Raises:
            Unbalanced: the legs of an asset do not sum to 0; nothing was written.
            InvalidEntry: the legs, or the metadata, break another rule; nothing was written.
            InvalidInput: the contract does not say that it is a book; nothing was written.
            BookFull: it has no room for another account; nothing was written.
            And as `Ledger.record`.
        """
        asked = Transfer(legs, note, effective, key, at, metadata).change(self.name)
        return await record_change(self._ledger, asked, timeout)

    async def transfer_many(
        self,
        transfers: Iterable[Transfer],
        *,
        key: str | None = None,
        at: datetime | None = None,
        timeout: float | None = None,
    ) -> list[Entry]:
        """Make many transfers, each independently, in batches; all are checked before any is sent.

        With a `key` and its time the call may be repeated with the same list, and each transfer
        counts once, as in `Ledger.record_many`. Then each has its legs alone, of 8 KB as JSON at
        most. They share items, up to 100 in each, so that they cost a fraction.

        Raises:
            As `transfer`, and as `Ledger.record_many`.
        """
        listed = [
            checked_transfer(one).change(self.name) for one in check_list("transfers", transfers)
        ]
        return await self._ledger.record_many(listed, key=key, at=at, timeout=timeout)

    async def balances(
        self,
        accounts: Collection[str] | None = None,
        *,
        prefix: str = "",
        at: datetime | date | None = None,
        max_age: float | None = None,
        steady: bool = False,
        timeout: float | None = None,
    ) -> Balances:
        """Return balances of these accounts, of those whose names begin with a prefix, or of all.

        A read costs the whole book, whatever is chosen. `at`, `max_age`, `steady` and `timeout` are
        as in `Ledger.total`.

        Raises:
            InvalidInput: the contract does not say that it is a book; or `accounts` is not a list
                of names that accounts can have.
            And as `Ledger.total`.
        """
        chosen = checked_choice(accounts, prefix)
        check_book(self._ledger, self.name)
        total = await self._ledger.total(
            self.name, max_age=max_age, steady=steady, at=at, timeout=timeout
        )
        if total.accounts is None:  # read before the contract said that it is a book
            total = await self._ledger.total(self.name, max_age=0, timeout=timeout)
        return Balances.of_total(total, chosen, prefix)

    async def history(
        self,
        account: str | None = None,
        *,
        after: Bound = None,
        before: Bound = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Entry]:
        """Yield the transfers in the order of their ids, or those that name an account.

        They are read as `Ledger.history` reads them: for one account the whole range, too.

        Raises:
            InvalidEntry: an account cannot have that name.
            And as `Ledger.history`.
        """
        if account is not None:
            checked_account(account)
        entries = self._ledger.history(self.name, after=after, before=before, timeout=timeout)
        async for entry in entries:
            if account is None or any(leg.account == account for leg in entry.legs):
                yield entry


def checked_choice(accounts: Collection[str] | None, prefix: object) -> frozenset[str] | None:
    """Return the accounts whose balances are asked for; None for all with a prefix.

    Raises:
        InvalidInput: they are not a list of names that accounts can have, or the prefix is no text.
    """
    if not isinstance(prefix, str):
        raise InvalidInput(f"prefix must be a text, got {prefix!r}")
    if accounts is None:
        return None
    if isinstance(accounts, str | bytes):
        raise InvalidInput(f"accounts must be a list of names, got {accounts!r:.100}")
    return frozenset(map(checked_account, check_list("accounts", accounts)))


def checked_transfer(transfer: object) -> Transfer:
    """Return what is a transfer.

    Raises:
        InvalidInput: it is not.
    """
    if not isinstance(transfer, Transfer):
        raise InvalidInput(f"a transfer must be a Transfer, got {transfer!r:.200}")
    return transfer
