"""The record of an entry that a call makes once is put where a region does not show it.

It commits with its entry, but replicates by itself: a home that is lost may leave the entry in
every region, and its record in none. Before the entry is merged every region has to show the
record, or nothing would lead to the entry from there (`ledger.core.once`).
"""

from collections.abc import Iterable

from ledger.core import once
from ledger.core.fold import COPIES
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Put
from ledger.writes.earlier_calls import as_read


async def put_records(home: Store, partition: str, sort_keys: Iterable[str]) -> None:
    """Put the records of some entries of a collection through home.

    One that is there already is put once more with a mark, or without it: DynamoDB does not
    replicate a write that changes nothing. What comes in between leaves it to the next visit.

    Raises:
        StoreError: DynamoDB failed; the next visit does it again.
    """
    for sort_key in sort_keys:
        item = await home.get(Get((partition, sort_key)))
        key = None if item is None else once.record_key(item)
        if item is None or key is None:
            continue
        there = await home.get(Get(key))
        mark = {} if there is None or COPIES in there else {COPIES: {"N": "1"}}
        await home.write(Put({**once.record_of(item), **mark}, as_read(there)))
