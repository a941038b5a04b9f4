"""The port to the table: every request is a frozen value of `reads` or `writes`.

Every part of the ledger reads and writes one region's table through a `Store`, and in no other way.
A write has one of three outcomes:

- `Applied`: it is durable in this region;
- `Rejected`: its condition was false; nothing was written;
- `Unknown`: no answer, or a 5xx. It may have been applied, or not, or may still be applied, by a
  request that is still in flight. Repeating it is up to the caller
  (`ledger.store.retrier`).

A request that is known not to have been applied (throttling, transaction conflicts, connections
never made, unprocessed items of a batch) is repeated by the store itself within a bound, and then
raises a `StoreError`: a call that raised a `StoreError` has written nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from ledger.core.clock_offset import ClockOffset
from ledger.core.entry import Item
from ledger.store.reads import FoundItems, Get, Page, Query, Scan
from ledger.store.retry import RetryBudget
from ledger.store.writes import Action, BatchOutcome, BatchWrite, EachOutcome, Outcome, Write


class Store(Protocol):
    """One region's table.

    Reads are repeated by the store within its bound, then raise `Unreachable` or `Throttled`.
    Any method may raise `AccessDenied`, `TableMissing` or `RequestRefused`.
    """

    @property
    def region(self) -> str:
        """The region that this store reads and writes."""

    @property
    def retry_budget(self) -> RetryBudget:
        """The budget of repeats, shared by the store and its callers."""

    @property
    def clock_offset(self) -> ClockOffset | None:
        """How far this machine's clock is ahead of the region's; None if unknown."""

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do up to 25 unconditional writes of different items, each on its own."""

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do up to 25 conditional writes of different items, each on its own, in any order.

        One request carries all that a batch of statements can express: a put on `Absent`, an update
        that sets, and removes at most one attribute, of an item that its condition demands, and a
        delete without a condition. The others take a request each, as do those that were denied as
        statements, or refused together. `Applied` has no item. A put `as_statement` is sent as a
        statement or not at all.
        """

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do up to 100 actions on different items, all or none, in this region.

        An action `InTable` is on an item of another table of the region; `write`, `write_each`,
        `get`, `get_each` and `scan` also reach other tables, no other method does.

        `token` makes repeats within ten minutes harmless, in this region. Puts `as_statement` must
        not share a transaction with other kinds of actions.
        """

    async def get(self, get: Get) -> Item | None:
        """Read one item; None if it is missing."""

    async def get_each(self, gets: Sequence[Get]) -> FoundItems:
        """Read up to 100 different items in one request, each as consistent as any of its table."""

    async def query(self, query: Query) -> Page:
        """Read one page of a partition."""

    async def scan(self, scan: Scan) -> Page:
        """Read one page of one segment of the table."""

    async def replicas(self) -> Mapping[str, str] | None:
        """Return the state of the table's replica in each other region, in AWS's words.

        None if there is no such description, as in memory.
        """

    async def close(self) -> None:
        """Close the connections; the store must not be used afterwards."""
