"""The hints of one pass: which counters they name, and which of them are no longer needed.

A hint stays in the table, and leads every pass to its counter, until visits of all the counter's
collections have found nothing left to do. So a leader that dies, or does only one pass, keeps
nothing in memory that its successor would miss. All hints here are ripe: writers no longer leave
them, so deleting one loses no later hint.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial

from ledger.core import keys
from ledger.core.hints import HINT_PARTITIONS, Hint, hint_of
from ledger.runtime.tasks import run_all
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.writes import Delete
from ledger.writes.hint_writer import write_all

PAGES_MAX = 100
"""Pages of ripe hints that one pass reads per partition; a page holds some 10,000 hints."""


class HintBook:
    """The ripe hints of a pass, by what they name: a counter, or one shard by its partition key.

    `shards_of` returns how many shards a counter has.
    """

    def __init__(self, shards_of: Callable[[str], int]) -> None:
        self._shards_of = shards_of
        self._hints: dict[str, list[Hint]] = {}
        self._open: dict[str, set[str]] = {}
        self._served: list[Hint] = []
        self._asked: dict[str, datetime] = {}

    def __len__(self) -> int:
        return len(self._hints)

    def __contains__(self, counter: object) -> bool:
        return counter in self._hints

    def add(self, hint: Hint, partitions: Iterable[str] = ()) -> None:
        """Add a hint, in the order of time; by default it is for every collection that it names."""
        counter = hint.counter
        if hint.asked:
            self._asked[counter] = max(hint.ripe, self._asked.get(counter, hint.ripe))
        if counter not in self._open:
            self._open[counter] = set(partitions or self.named_by(hint))
            self._hints[counter] = []
        # One of several hints is enough to lead the next pass here; one that was asked about wins.
        kept, *others = sorted(
            [hint, *self._hints[counter]], key=lambda one: one.asked, reverse=True
        )
        self._served += others
        self._hints[counter] = [kept]

    def named_by(self, hint: Hint) -> list[str]:
        """Return the collections that a hint names: one shard, or all of a counter."""
        name = hint.counter
        if name.startswith(keys.RESERVED):
            return [name]
        return [keys.partition_key(name, shard) for shard in range(self._shards_of(name))]

    def partitions(self) -> list[str]:
        """Return the collections to visit, oldest hints first, each once."""
        every = (partition for name in self._open for partition in sorted(self._open[name]))
        return list(dict.fromkeys(every))

    def asked_until(self, partition: str) -> datetime | None:
        """Return up to which time keys of a collection were asked about; None if none were."""
        place = keys.counter_of(partition)
        names = {partition, place[0]} if place is not None else {partition}
        return max((self._asked[name] for name in names if name in self._asked), default=None)

    def finish(self, partition: str) -> None:
        """Mark a collection as finished: nothing is left to do there."""
        place = keys.counter_of(partition)
        for name in {partition, place[0]} if place is not None else ():
            left = self._open.get(name)
            if left is None:
                continue
            left.discard(partition)
            if not left:
                self._served += self._hints.pop(name, [])

    def take_served(self) -> list[Hint]:
        """Return the hints that are no longer needed, each once."""
        served, self._served = self._served, []
        return served


async def read_hints(
    store: Store, *, last: str, places: Sequence[str] = HINT_PARTITIONS
) -> tuple[list[Hint], int]:
    """Return the hints in some partitions up to a sort key, oldest first, and how many pages.

    Raises:
        StoreError: they cannot be read.
    """
    jobs = [partial(_read_partition, store, partition, last) for partition in places]
    read = await run_all(jobs, at_once=max(1, len(jobs)))
    hints = sorted((hint for found, _ in read for hint in found), key=lambda hint: hint.sort_key)
    return hints, sum(pages for _, pages in read)


async def _read_partition(store: Store, partition: str, last: str) -> tuple[list[Hint], int]:
    found: list[Hint] = []
    query = Query(partition, last=last)
    for pages in range(1, PAGES_MAX + 1):
        page = await store.query(query)
        found += [hint for item in page.items if (hint := hint_of(item)) is not None]
        if page.after is None:
            return found, pages
        query = query.next(page)
    return found, PAGES_MAX


async def delete_hints(store: Store, hints: Sequence[Hint]) -> bool:
    """Delete hints; return whether all are known to be deleted.

    Raises:
        StoreError: DynamoDB failed.
    """
    gone = [Delete((hint.partition, hint.sort_key), size_bytes=1) for hint in hints]
    return await write_all(store, gone)
