"""Hints: small items that name the counters that the compactor should visit.

A hint says that this counter, or one shard of it, had changes some time before `ripe`. It is stored
under a reserved partition key; its sort key is that time and the counter. Both follow from an
entry's id alone, because time is divided into spans: every hint for the same counter and span, from
any region and however often written, is the same item, so last writer wins loses nothing. Once a
span ended `settle` ago, all of its entries can be merged and no new hint for it is written: the
compactor reads only the hints of such spans, and deletes them after its visits.

A hint may say that its counter was *asked* about: whether a key from before `ripe` was ever applied
(`ledger.writes.past_horizon`). Then even a few entries are merged, and a collection without entries
gets a net that records what has settled. An ordinary hint of that span may replace it: the next
call leaves another.

A name that the sort key has no room for is an attribute of the hint, and its digest is in the key.

A hint that is lost or superfluous costs time, never a total.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from zlib import crc32

from ledger.core import keys
from ledger.core.entry import Item
from ledger.core.errors import InvalidCounter

HINT_PARTITIONS = ("~hint-0", "~hint-1", "~hint-2", "~hint-3")
"""More than one, because a partition accepts 1,000 writes a second."""
NAME_BYTES_MAX = 996
"""A sort key's 1,024 bytes less the time: the digest of a longer name stands for it."""
SPANS_PER_SETTLE = 3
"""A change may wait a third longer than `settle`; shorter spans would write more hints."""

_ASKED = "asked"
_NAME = "name"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_TIME_FORM = "%Y-%m-%dT%H:%M:%S.%fZ"
_TIME_CHARACTERS = 27
_ENDINGS = 0x10000


@dataclass(frozen=True, slots=True)
class Hint:
    """`counter` may have changes to merge, made before `ripe`.

    A single shard may be named, by its partition key, in place of a counter with all its shards.
    """

    counter: str
    ripe: datetime
    asked: bool = False

    @property
    def partition(self) -> str:
        """The partition key, one of a few, chosen by the counter."""
        return HINT_PARTITIONS[crc32(self.counter.encode()) % len(HINT_PARTITIONS)]

    @property
    def sort_key(self) -> str:
        """The sort key: by time, then by counter."""
        name = self.counter
        return f"{_text(self.ripe)}#{_digest(name) if _is_long(name) else name}"

    @property
    def item(self) -> Item:
        """The whole item."""
        asked: Item = {_ASKED: {"BOOL": True}} if self.asked else {}
        name: Item = {_NAME: {"S": self.counter}} if _is_long(self.counter) else {}
        return {"pk": {"S": self.partition}, "sk": {"S": self.sort_key}, **name, **asked}


def hint_for(counter: str, at: datetime, *, settle: float) -> Hint:
    """Return the hint for a change made at a time."""
    span = max(1, timedelta(seconds=settle) // _TICK // SPANS_PER_SETTLE)
    ripe = ((at - _EPOCH) // _TICK // span + 1) * span
    return Hint(counter, _EPOCH + timedelta(microseconds=ripe))


def ripe_hint(counter: str, now: datetime, *, settle: float) -> Hint:
    """Return a hint that is ripe now, for a collection that is known to be due."""
    spans = 1 + 1 / SPANS_PER_SETTLE
    return hint_for(counter, now - timedelta(seconds=spans * settle), settle=settle)


def last_sort_key(now: datetime, *, settle: float) -> str:
    """Return the upper bound of the sort keys of hints whose changes are all of age `settle`."""
    return _text(now - timedelta(seconds=settle))


def hint_of(item: Item) -> Hint | None:
    """Return the hint that an item holds; None for a foreign item."""
    sort_key = item["sk"]["S"]
    if sort_key[_TIME_CHARACTERS : _TIME_CHARACTERS + 1] != "#":
        return None
    try:
        ripe = datetime.strptime(sort_key[:_TIME_CHARACTERS], _TIME_FORM).replace(tzinfo=UTC)
        name = item[_NAME]["S"] if _NAME in item else sort_key[_TIME_CHARACTERS + 1 :]
        place = keys.counter_of(name)
        if place is None:
            return None
        keys.checked_counter(place[0])
    except (AttributeError, KeyError, TypeError, ValueError, InvalidCounter):
        return None
    hint = Hint(name, ripe)
    if (hint.partition, hint.sort_key) != (item["pk"]["S"], sort_key):
        return None
    return replace(hint, asked=item.get(_ASKED) == {"BOOL": True})


def _is_long(name: str) -> bool:
    return len(name.encode()) > NAME_BYTES_MAX


def _digest(name: str) -> str:
    """Return a text in place of a name; no counter and no collection is called so."""
    return keys.RESERVED + sha256(name.encode()).hexdigest()


def ending_below(every: int) -> str:
    """Return the bound below which the last four hex digits of one in `every` ids are.

    Ids end in random digits, so without counting, one in `every` entries writes a hint, and every
    retry of an entry decides alike. With 0 none does.
    """
    if every <= 1:
        return "g" if every else ""
    return f"{max(1, round(_ENDINGS / every)):04x}"


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime(_TIME_FORM)
