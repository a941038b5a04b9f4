"""Entries as commands show them: with the legs of a transfer, and what its caller named."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ledger.core import amounts
from ledger.core.errors import InvalidEntry
from ledger.core.values import Entry, Leg
from ledger.http.wire.schemas import EntryModel


def entry_fields(entry: Entry) -> dict[str, Any]:
    """Return an entry as a JSON object, with `legs` and `metadata` if it has them."""
    found = EntryModel.fields_of(entry)
    if entry.legs:
        found["legs"] = [leg_fields(leg) for leg in entry.legs]
    if entry.metadata is not None:
        found["metadata"] = dict(entry.metadata)
    return found


def about_book(counter: str, region: str = "") -> str:
    """Return that a counter is a book, as a region shows it, and what shows its accounts."""
    where = f" in {region}" if region else ""
    command = f"ledger book balances {shlex.quote(counter)}"
    return f"{counter}{where} is a book: `{command}` shows its accounts"


def leg_fields(leg: Leg) -> dict[str, str]:
    """Return a leg as a JSON object."""
    return {
        "account": leg.account,
        "asset": leg.asset,
        "amount": amounts.to_text(leg.amount),
    }


def legs_text(legs: Sequence[Leg]) -> str:
    """Return what a transfer moves, for a reader."""
    return ", ".join(f"{leg.account} {amounts.to_text(leg.amount)} {leg.asset}" for leg in legs)


def metadata_text(metadata: Mapping[str, str] | None) -> str:
    """Return what a caller named of an entry, for a reader."""
    return ", ".join(f"{name}={text}" for name, text in (metadata or {}).items())


def metadata_of(texts: Sequence[str] | None) -> dict[str, str] | None:
    """Return what the options --metadata name; None if there are none.

    Raises:
        InvalidEntry: one is not NAME=VALUE, or a name is given twice.
    """
    found: dict[str, str] = {}
    for text in texts or ():
        name, divider, value = text.partition("=")
        if not divider:
            raise InvalidEntry(f"--metadata must be NAME=VALUE, got {text!r:.100}")
        if name in found:
            raise InvalidEntry(f"--metadata names {name!r:.100} twice")
        found[name] = value
    return found or None
