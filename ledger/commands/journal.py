"""Transfers as plain text accounting, which hledger and Ledger read.

::

    2026-11-29 (2026-11-29T06:50:00.000000Z#0a1b2c3d4e5f6071) order 17
        cash  -12.5 EUR
        customer/alice  12.5 EUR

The date is the one from which the transfer is effective, else that of its id, in UTC. In a journal
two spaces end the name of an account, so a run of spaces becomes one, and those at both ends are
left out. An apostrophe is put before a name that a journal would take for something else by its
first character: a posting that need not balance, a mark, or a comment.

Pure: no clock, no randomness, no I/O.
"""

import re
from datetime import date

from ledger.core.errors import InvalidInput
from ledger.core.values import Entry

_TAKEN_FOR_OTHERS = re.compile(r"'*[(\[<*!;]")
_LETTERS = re.compile(r"[A-Za-z]+")


def transaction_of(entry: Entry) -> str:
    """Return a transfer as a transaction, with the empty line after it.

    Raises:
        InvalidInput: the transfer has no date, or an asset has no form in a journal.
    """
    code = re.sub(r"[()]", "_", _plain(entry.id))
    head = f"{_date_of(entry).isoformat()} ({code}) {_plain(entry.note or '')}".rstrip()
    legs = [
        f"    {account_text(leg.account)}  {leg.amount:f} {asset_text(leg.asset)}"
        for leg in entry.legs
    ]
    return "\n".join([head, *legs, "", ""])


def _date_of(entry: Entry) -> date:
    if entry.effective is not None:
        return entry.effective
    if entry.at is None:
        raise InvalidInput(
            f"transfer {entry.id!r} of {entry.counter!r} has no date: no time is in its id, and it"
            " is not effective from a date"
        )
    return entry.at.date()


def account_text(account: str) -> str:
    """Return the name of an account as a journal has it."""
    name = " ".join(account.split()) or "'"
    return f"'{name}" if _TAKEN_FOR_OTHERS.match(name) else name


def asset_text(asset: str) -> str:
    """Return an asset as a journal has it: in double quotes unless it is of letters.

    Raises:
        InvalidInput: it has a double quote or a semicolon, which no quotes hold.
    """
    if '"' in asset or ";" in asset:
        raise InvalidInput(f'asset {asset!r} has no form in a journal: it has a " or a ;')
    return asset if _LETTERS.fullmatch(asset) else f'"{asset}"'


def _plain(text: str) -> str:
    """Return a text in one line, without what begins a comment."""
    seen = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(seen.replace(";", ",").split())
