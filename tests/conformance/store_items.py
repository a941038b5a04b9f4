"""Items, pages and batches for the suite of stores."""

from collections.abc import AsyncIterator, Iterable

from ledger.core.entry import AttributeValue, Item, Key, key_of
from ledger.store.port import Store
from ledger.store.reads import Query, Scan
from ledger.store.writes import BATCH_WRITES_MAX, BatchOutcome, Put

KEY: Key = ("counter", "entry")
PAGES_MAX = 1000
ONE, TWO = {"N": "1"}, {"N": "2"}


def item(key: Key = KEY, **attributes: AttributeValue) -> Item:
    """Return an item with these attributes."""
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}, **attributes}


async def query_pages(
    store: Store, *, first: str | None = None, last: str | None = None, limit: int | None = None
) -> AsyncIterator[list[Item]]:
    """Yield every page of the partition `counter`."""
    query = Query("counter", first=first, last=last, limit=limit)
    for _ in range(PAGES_MAX):
        page = await store.query(query)
        yield list(page.items)
        if page.after is None:
            return
        query = query.next(page)
    raise AssertionError(f"the query does not end after {PAGES_MAX} pages")


async def query_keys(
    store: Store, *, first: str | None = None, last: str | None = None, limit: int | None = None
) -> list[str]:
    """Return the sort keys of the partition `counter`, in the order in which they come."""
    pages = query_pages(store, first=first, last=last, limit=limit)
    return [key_of(found)[1] async for page in pages for found in page]


async def scan_items(
    store: Store,
    *,
    segment: int = 0,
    segments: int = 1,
    limit: int | None = None,
    attributes: tuple[str, ...] = (),
) -> list[Item]:
    """Return every item of a segment, in the order in which they come."""
    found: list[Item] = []
    scan = Scan(segment=segment, segments=segments, limit=limit, attributes=attributes)
    for _ in range(PAGES_MAX):
        page = await store.scan(scan)
        found += page.items
        if page.after is None:
            return found
        scan = scan.next(page)
    raise AssertionError(f"the scan does not end after {PAGES_MAX} pages")


async def fill(store: Store, items: Iterable[Item]) -> None:
    """Put these items, in batches."""
    left = list(items)
    while left:
        batch, left = left[:BATCH_WRITES_MAX], left[BATCH_WRITES_MAX:]
        assert await store.write_batch([Put(one) for one in batch]) == BatchOutcome()
