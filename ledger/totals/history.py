"""A counter's entries in the order of their ids, page by page, over all shards."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta

from ledger.core import ids, keys
from ledger.core.entry import entry_id, entry_of
from ledger.core.errors import InvalidEntry
from ledger.core.values import Entry
from ledger.store.port import Store
from ledger.store.reads import Get, Query

Bound = datetime | str | None
_MICROSECOND = timedelta(microseconds=1)
_RULE = "bound must be an aware datetime or an entry id"


async def history(
    store: Store,
    counter: str,
    *,
    shards: int,
    after: Bound,
    before: Bound,
    consistent: bool,
    page_size: int | None = None,
) -> AsyncIterator[Entry]:
    """Yield the entries between two bounds, both excluded; see `Ledger.history`."""
    first, last = _first(after), _last(before)
    for bound in (after, before):
        if isinstance(bound, str) and ids.parse(bound) is None:
            await _check_known(store, counter, shards, bound)
    if first is not None and last is not None and first.encode() > last.encode():
        return  # an empty range; DynamoDB would refuse the request
    streams = [
        _shard(store, keys.partition_key(counter, shard), first, last, consistent, page_size)
        for shard in range(shards)
    ]
    async for entry in _merged(streams):
        if entry.id not in (after, before):
            yield entry


async def _shard(
    store: Store,
    partition: str,
    first: str | None,
    last: str | None,
    consistent: bool,  # noqa: FBT001 (one of six arguments passed through)
    page_size: int | None,
) -> AsyncIterator[Entry]:
    query = Query(partition, consistent=consistent, first=first, last=last, limit=page_size)
    while True:
        page = await store.query(query)
        for item in page.items:
            if "change" in item and not item["sk"]["S"].startswith(keys.NET_PREFIX):
                yield entry_of(item)
        if page.after is None:
            return
        query = query.next(page)


async def _merged(streams: Sequence[AsyncIterator[Entry]]) -> AsyncIterator[Entry]:
    """Yield the entries of ordered streams in order, buffering one of each."""
    heads = {place: await anext(stream, None) for place, stream in enumerate(streams)}
    while True:
        waiting = {place: head for place, head in heads.items() if head is not None}
        if not waiting:
            return
        place = min(waiting, key=lambda place: (waiting[place].id, place))
        yield waiting[place]
        heads[place] = await anext(streams[place], None)


async def _check_known(store: Store, counter: str, shards: int, bound: str) -> None:
    """Refuse a bound in another form than ours, unless an entry of another writer has it as id.

    Such text, a time without its end for one, would be compared character by character.
    """
    for shard in range(shards):
        if await store.get(Get((keys.partition_key(counter, shard), bound))) is not None:
            return
    raise InvalidEntry(f"{_RULE}, and no entry of counter {counter!r} has the id {bound!r}")


def _first(after: Bound) -> str | None:
    if not isinstance(after, datetime):
        return _checked_id(after)
    return str(entry_id(_moved(after, _MICROSECOND), 0))


def _last(before: Bound) -> str | None:
    if not isinstance(before, datetime):
        return _checked_id(before)
    return str(entry_id(_moved(before, -_MICROSECOND), 2**ids.SUFFIX_BITS - 1))


def _moved(bound: datetime, by: timedelta) -> datetime:
    try:
        return bound + by
    except OverflowError:
        raise InvalidEntry(
            f"time must be within the years 1970 to 9999, got {bound.isoformat()}"
        ) from None


def _checked_id(bound: object) -> str | None:
    if bound is None or (isinstance(bound, str) and bound):
        return bound
    raise InvalidEntry(f"{_RULE}, got {bound!r}")
