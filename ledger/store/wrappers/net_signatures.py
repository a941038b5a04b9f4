"""A store that signs net changes as they are written, and checks them as they are read.

If the settings name a key file, the stores of every process do so: no net is read without the
check, and none is written unsigned. An untrusted net is passed on marked, and refused where it
would count (`ledger.core.entry.net_of`). A page without a net costs two comparisons.

A read of only some attributes, which do not suffice to verify a signature, is passed on as it is:
totals, merging and verification read whole nets.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from ledger.core.entry import Item
from ledger.core.keys import NET_PREFIX
from ledger.core.signatures import SIGNATURE, SIGNED, NetKeys, is_net
from ledger.store.port import Store
from ledger.store.reads import FoundItems, Get, Page, Query, Scan
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import (
    Action,
    BatchOutcome,
    BatchWrite,
    EachOutcome,
    Outcome,
    Put,
    Write,
)

Given = TypeVar("Given", bound=Action)
_SCANNED = frozenset({*SIGNED, SIGNATURE})
_NEEDED = _SCANNED - {"pk"}


class NetSigningStore(ForwardingStore):
    """A `Store` whose net changes are signed and checked."""

    def __init__(self, inner: Store, keys: NetKeys) -> None:
        super().__init__(inner)
        self._keys = keys

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        return await self._inner.write(self._signed(write))

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do a batch; deletes pass unchanged."""
        if any(isinstance(write, Put) and is_net(write.item) for write in writes):
            writes = [self._signed(write) for write in writes]
        return await self._inner.write_batch(writes)

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do several conditional writes."""
        return await self._inner.write_each([self._signed(write) for write in writes])

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction."""
        return await self._inner.transact([self._signed(action) for action in actions], token=token)

    async def get(self, get: Get) -> Item | None:
        """Read one item."""
        item = await self._inner.get(get)
        return item if item is None or get.table else self._checked(item, get.key[0])

    async def get_each(self, gets: Sequence[Get]) -> FoundItems:
        """Read several items."""
        found = await self._inner.get_each(gets)
        items = [
            item if item is None or get.table else self._checked(item, get.key[0])
            for get, item in zip(gets, found.items, strict=True)
        ]
        return replace(found, items=items)

    async def query(self, query: Query) -> Page:
        """Read one page of a partition."""
        page = await self._inner.query(query)
        items = page.items
        if not items or (query.attributes and not _NEEDED.issubset(query.attributes)):
            return page
        if max(items[0]["sk"]["S"], items[-1]["sk"]["S"]) < NET_PREFIX:
            return page
        return page._replace(items=[self._checked(item, query.partition) for item in items])

    async def scan(self, scan: Scan) -> Page:
        """Read one page of one segment."""
        page = await self._inner.scan(scan)
        if scan.table or (scan.attributes and not _SCANNED.issubset(scan.attributes)):
            return page
        return page._replace(items=[self._checked(item, "") for item in page.items])

    def _signed(self, action: Given) -> Given:
        if isinstance(action, Put) and is_net(action.item):
            return action._replace(item=self._keys.signed(action.item))
        return action

    def _checked(self, item: Item, partition: str) -> Item:
        return self._keys.checked(item, partition) if is_net(item) else item
