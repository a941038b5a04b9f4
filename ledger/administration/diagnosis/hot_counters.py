"""A sample of the table: its hot counters, by the newest hints and a few pages; what waits there.

One entry in a hundred leaves a hint, so a hot counter has left some. The pages of the table are of
random segments, and show the collections with most entries. Of each candidate the newest entries
are read, for the times in their sort keys; all reads are eventually consistent, at home.

===================== ======================================================
read                  costs, in read units
===================== ======================================================
the hints             0.5 for each of four queries
a page of the table   128, for 1 MB
a candidate           3 for 200 entries; of one that looks hot 70 for 5,000
===================== ======================================================
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from random import Random

from ledger.administration.diagnosis.hot_collection import (
    UNITS_PER_ENTRY,
    HotCollection,
    HotSample,
    rate_of,
)
from ledger.administration.diagnosis.merge_backlog import SampledKeys
from ledger.administration.diagnosis.permission_trials import DENIED_CODES
from ledger.administration.diagnosis.region_client import NotingTransport
from ledger.administration.estimate import PARTITION_WRITES, SHARD_SHARE
from ledger.core import keys
from ledger.core.entry import Key
from ledger.core.hints import HINT_PARTITIONS, hint_of
from ledger.runtime.clock import Clock
from ledger.runtime.foreign import FOREIGN, error_code
from ledger.settings import Settings
from ledger.store.dynamodb.requests import query_request, scan_request
from ledger.store.reads import Query, Scan

HINTS_PER_PARTITION = 10
ENTRIES_PER_PAGE_MIN = 200
"""The number of items in these pages from which a collection is a candidate."""
CANDIDATES_MAX = 40
LOOK_ENTRIES = 200
CLOSER_LOOK_ENTRIES = 5_000
"""Ten seconds at 500 entries a second; beyond that a collection is hot anyway."""
UNITS_PER_PAGE = 128.0
"""Read units of a page of 1 MB, eventually consistent."""
SEGMENTS = (10_000, 100, 1)
"""Numbers of segments, of each of which one is drawn while pages are left: large tables show a page
in the first, small ones are read whole by the last."""
_SAMPLED = ("pk", "sk", "merged")
SUSPECT_RATE = 0.5 * SHARD_SHARE * PARTITION_WRITES / UNITS_PER_ENTRY
"""Entries a second, over however short a time, that trigger a closer look."""
SUSPECT_SPAN_SECONDS_MIN = 0.1


async def hot_collections(
    transport: NotingTransport, settings: Settings, *, clock: Clock, randomness: Random, pages: int
) -> HotSample:
    """Return the collections that were looked at, busiest first.

    A role that may not scan sees those that hints name. Errors are botocore's, as the transport's.
    """
    found = dict.fromkeys(await _hinted(transport, settings))
    unseen, keys_seen = "", SampledKeys()
    try:
        found |= dict.fromkeys(await _scanned(transport, settings, randomness, pages, keys_seen))
    except FOREIGN as error:
        if error_code(error) not in DENIED_CODES:
            raise
        pages, unseen = 0, "Scan is denied, so no page of the table was sampled"
    candidates = list(found)[:CANDIDATES_MAX]
    rates = [await _looked_at(transport, settings, clock, candidate) for candidate in candidates]
    busiest = sorted(filter(None, rates), key=lambda one: -one.rate)
    return HotSample(busiest, pages, unseen, keys_seen.unmerged(settings, now=clock.now()))


async def _hinted(transport: NotingTransport, settings: Settings) -> list[str]:
    names: list[str] = []
    for partition in HINT_PARTITIONS:
        query = Query(partition, descending=True, limit=HINTS_PER_PARTITION, consistent=False)
        answer = await transport.send("query", query_request(query, settings.table))
        hints = map(hint_of, answer["Items"])
        names += [hint.counter for hint in hints if hint is not None]
    return names


async def _scanned(
    transport: NotingTransport,
    settings: Settings,
    randomness: Random,
    pages: int,
    seen: SampledKeys,
) -> Sequence[str]:
    """Return the collections with many items in a budget of pages; of a small table, all.

    `seen` takes the keys.
    """
    left, counts = pages * UNITS_PER_PAGE, Counter[str]()
    for segments in SEGMENTS:
        after: Key | None = None
        segment = randomness.randrange(segments)
        while left > 0:
            scan = Scan(attributes=_SAMPLED, segment=segment, segments=segments, after=after)
            answer = await transport.send("scan", scan_request(scan, settings.table))
            left -= float(answer["ConsumedCapacity"]["CapacityUnits"])
            counts.update(str(item["pk"]["S"]) for item in answer["Items"])
            seen.add(answer["Items"])
            last = answer.get("LastEvaluatedKey")
            if last is None:
                break
            after = (last["pk"]["S"], last["sk"]["S"])
        else:
            if after is not None:
                seen.leave_out(after[0])
    return [name for name, count in counts.most_common() if count >= ENTRIES_PER_PAGE_MIN]


async def _looked_at(
    transport: NotingTransport, settings: Settings, clock: Clock, partition: str
) -> HotCollection | None:
    place = keys.counter_of(partition)
    if place is None:
        return None
    rated = partial(rate_of, now=clock.now(), recent_seconds=settings.settle)
    newest = await _newest(transport, settings, partition, LOOK_ENTRIES)
    if rated(newest, span_seconds_min=SUSPECT_SPAN_SECONDS_MIN) >= SUSPECT_RATE:
        newest = await _newest(transport, settings, partition, CLOSER_LOOK_ENTRIES)
    return HotCollection(place[0], partition, rated(newest), settings.shards_max(place[0]))


async def _newest(
    transport: NotingTransport, settings: Settings, partition: str, entries: int
) -> list[str]:
    query = Query(partition, descending=True, limit=entries, attributes=("sk",), consistent=False)
    answer = await transport.send("query", query_request(query, settings.table))
    return [str(item["sk"]["S"]) for item in answer["Items"]]
