"""Pages of an answer: each ends after so many items, or bytes, so that none costs much.

Items are encoded one by one as they are read: other requests go on between the reads.
"""

from collections.abc import AsyncIterable, Callable
from typing import TypeVar

import orjson

from ledger.http.wire.values import Fields
from ledger.reads.feed.page import BYTES_MAX

Item = TypeVar("Item")


async def page_of(
    items: AsyncIterable[Item], limit: int, *, fields: Callable[[Item], Fields], by: str
) -> tuple[list[orjson.Fragment], str | None]:
    """Return a page as JSON, and the field `by` of its last item, if others follow it.

    It has `limit` items at most, and ends with the one by which it has `BYTES_MAX` bytes.
    """
    found, size = list[orjson.Fragment](), 0
    last: str | None = None
    async for item in items:
        if len(found) >= limit or size >= BYTES_MAX:
            return found, last
        shown = fields(item)
        found.append(orjson.Fragment(text := orjson.dumps(shown)))
        size, last = size + len(text), shown[by]
    return found, None
