"""The stream of a table in memory: shards that close and have children, records that pass out."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import count
from zlib import crc32

from ledger.core.entry import Item
from ledger.reads.feed.cursors import KEPT_SECONDS, behind, unknown_record
from ledger.reads.feed.port import FIRST, Arrival, Shard, ShardListing, ShardRead
from ledger.reads.feed.reader import readable_entry_in
from ledger.runtime.clock import Clock

PAGE_RECORDS_MAX = 1_000


@dataclass(slots=True)
class _Log:
    """One shard: the numbers of its records, and the entries among them."""

    shard: Shard
    numbers: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
    closed_at: float | None = None
    gone: int = 0
    """The number of the last record that has passed out; 0 if none has."""

    def trim(self, oldest: float) -> None:
        """Let what is older pass out."""
        if cut := bisect_left(self.times, oldest):
            self.gone = self.numbers[cut - 1]
            del self.numbers[:cut], self.times[:cut]
            self.arrivals = [arrival for arrival in self.arrivals if arrival.number > self.gone]


class MemoryStream:
    """Everything that happened to the items of one region, as DynamoDB Streams show it.

    Items are spread over `lineages` of shards by their partition keys. A shard is closed once it
    has `shard_records_max` records, and has passed out of the stream a day after that, by `clock`;
    so has each record a day after it came.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        lineages: int = 2,
        shard_records_max: int = 10_000,
        page_records_max: int = PAGE_RECORDS_MAX,
    ) -> None:
        self._name = name
        self._clock = clock
        self._records_max = shard_records_max
        self._page_max = page_records_max
        self._last = 0
        self._names = count()
        self._logs: dict[str, _Log] = {}
        self._open = [self._begun(None) for _ in range(lineages)]

    def changed(self, key: tuple[str, str], before: Item | None, now: Item | None) -> None:
        """Take in a change of an item, in the order in which the region applied them."""
        lineage = crc32(key[0].encode()) % len(self._open)
        if len(self._open[lineage].numbers) >= self._records_max:
            self.roll(lineage)
        self._last += 1
        log, number = self._open[lineage], self._last
        log.numbers.append(number)
        log.times.append(self._time())
        entry = readable_entry_in(before, now)
        if entry is not None:
            log.arrivals.append(Arrival(number, self._clock.now(), entry))

    def roll(self, lineage: int = 0) -> None:
        """Close the open shard of a lineage; a child goes on."""
        ended = self._open[lineage]
        ended.closed_at = self._time()
        self._open[lineage] = self._begun(ended.shard.id)

    async def listing(self, *, is_fresh: bool = False) -> ShardListing:  # noqa: ARG002 (always is)
        """Return the shards that have not passed out."""
        self._trim()
        return ShardListing(self._name, [log.shard for log in self._logs.values()])

    async def read(self, shard: str, after: int) -> ShardRead:
        """Return the records of a shard after a number."""
        self._trim()
        if after > self._last:
            raise unknown_record(shard)
        log = self._logs.get(shard)
        if log is None or 0 <= after < log.gone or (after == FIRST and log.gone):
            raise behind()
        first = bisect_right(log.numbers, after)
        numbers = log.numbers[first : first + self._page_max]
        last = numbers[-1] if numbers else None
        arrivals = [
            arrival
            for arrival in log.arrivals
            if numbers and numbers[0] <= arrival.number <= numbers[-1]
        ]
        is_whole = first + len(numbers) == len(log.numbers)
        return ShardRead(arrivals, last, is_closed=is_whole and log.closed_at is not None)

    def _begun(self, parent: str | None) -> _Log:
        shard = Shard(f"shardId-{next(self._names):020d}", parent)
        log = self._logs[shard.id] = _Log(shard)
        return log

    def _time(self) -> float:
        return self._clock.monotonic()

    def _trim(self) -> None:
        oldest = self._time() - KEPT_SECONDS
        gone = [
            name
            for name, log in self._logs.items()
            if log.closed_at is not None and log.closed_at < oldest
        ]
        for name in gone:
            del self._logs[name]
        for log in self._logs.values():
            log.trim(oldest)
