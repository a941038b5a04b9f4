"""Reads of the port as values, and the page that a Query or Scan returns.

Every page of a collection, in order::

    query = Query(partition)
    while True:
        page = await store.query(query)
        ...
        if page.after is None:
            break
        query = query.next(page)

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import NamedTuple, Self

from ledger.core.entry import Item, Key
from ledger.core.errors import RequestRefused

EACH_GETS_MAX = 100
"""Source: Amazon DynamoDB API Reference, BatchGetItem."""


@dataclass(frozen=True, slots=True)
class Get:
    """Read one item, by default strongly consistent; `table` names another table of the region."""

    key: Key
    _: KW_ONLY
    consistent: bool = True
    table: str = ""


@dataclass(frozen=True, slots=True)
class FoundItems:
    """The results of several reads, in order: an item, or None if it is missing.

    `read_units` is DynamoDB's own count, None if it returned none.
    """

    items: Sequence[Item | None]
    read_units: float | None = None


class Page(NamedTuple):
    """One page of a Query or Scan; `after` is where the next begins, None at the end.

    `read_units` is DynamoDB's own count if it was asked for: with a projection the size of the
    items read cannot be derived from what is returned. (A tuple, because one is made for every
    read, in half the time.)
    """

    items: Sequence[Item]
    after: Key | None = None
    read_units: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Paged:
    """The options that Query and Scan have in common.

    The page begins after the key `after`, and has at most `limit` items. `attributes` names the
    attributes to return; empty for all of them.
    """

    after: Key | None = None
    attributes: Sequence[str] = ()
    limit: int | None = None

    def next(self, page: Page) -> Self:
        """Return the request of the page after this one.

        Raises:
            ValueError: it was the last page; the request would start over.
        """
        if page.after is None:
            raise ValueError("there is no page after the last")
        return replace(self, after=page.after)


@dataclass(frozen=True, slots=True)
class Query(_Paged):
    """Read one page of a partition in ascending, or descending, order of sort keys.

    `first` and `last` bound the sort keys, both included.
    """

    partition: str
    _: KW_ONLY
    consistent: bool = True
    first: str | None = None
    last: str | None = None
    descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan(_Paged):
    """Read one page of one segment of the table, by default eventually consistent.

    All items of a partition are in one segment, one after the other. `table` names another table of
    the region.
    """

    consistent: bool = False
    table: str = ""
    segment: int = 0
    segments: int = 1


def checked_gets(gets: Sequence[Get]) -> None:
    """Raise for a request that DynamoDB would refuse: too many reads, or two of one item.

    Raises:
        RequestRefused: nothing was sent.
    """
    if not 1 <= len(gets) <= EACH_GETS_MAX:
        raise RequestRefused(f"a request must have 1 to {EACH_GETS_MAX} reads, got {len(gets)}")
    if len({(get.table, get.key) for get in gets}) < len(gets):
        raise RequestRefused("the reads of a request must be of different items, got two of one")
