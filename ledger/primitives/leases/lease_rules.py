"""The rules of a lease: its record in the table, its terms, and watching another's record.

::

    holder     send at t0 ── write lands ── answer        t0 + lease - margin      t0 + lease
               │             │                            │ lost: stops acting     │
    contender  │             │    answer to a read        │                        │   seen + lease
               │             │    │ seen: counts from here│                        │   │ may take it

A contender counts from the answer to the read that first showed it a record version number (rvn).
That read was served after the write of the rvn landed, which was after the holder sent it; and the
holder counts from before it sent. Both count the same `lease_seconds`, each on its own monotonic
clock, so the contender's count ends last. That the rvn stayed the same in between is not guessed
from reads: taking the lease is conditional on it. The margin pays for clocks that run at slightly
different rates.

A suspended machine may stop its monotonic clock. For a contender that is harmless: it counts too
little, and waits longer. A clock that goes on in the meantime is right as well, since the holder
had that time for its heartbeats; wall time is not, since a step forward would make it too long. A
holder that counted too little would act when its lease is over: it counts the larger of monotonic
and wall time (`ElapsedTime`), and a wall clock that is set forward costs it the lease, no more. A
holder that stalls between its check and its write is stopped by none of this, only by the fence:
the epoch, checked in the write's transaction.

Source: the judgement by an unchanged record version number and the local monotonic clock is that
of Amazon's DynamoDB lock client.

Pure: no clock, no randomness, no I/O.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ledger.core import amounts, keys
from ledger.core.capacity import item_size
from ledger.core.entry import ITEM_BYTES_MAX, AttributeValue, Item, Key, damaged, number_of
from ledger.core.errors import InvalidInput, SettingsError
from ledger.store.conditions import AllOf, Equals
from ledger.store.writes import Check

LEASE_SECONDS_MAX = 86_400.0
HEARTBEATS_PER_LEASE_MIN = 2
MARGIN_SHARE_MAX = 0.5
NO_OWNER = ""
OWN_SORT_KEY = "lease"
OWN_BYTES_MAX = 8 * 1024
"""Room besides the data, for key, owner and the rest."""
PARTITION_BYTES_MAX, SORT_KEY_BYTES_MAX = 2048, 1024
"""Source: Amazon DynamoDB Developer Guide, "Quotas": partition key and sort key length."""
_BEGIN_OF_TIME = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of a lease's item.

    `rvn` is new at each write; `epoch` grows with each change of owner (`next_epoch`). `owner` is
    empty after a release. `data` is what holders stored with it. `since` is when its last owner
    took it, by that owner's wall clock: for people, nothing is judged by it; None if the item does
    not say. The item lies under `partition`, with `name` as its sort key.
    """

    name: str
    owner: str
    rvn: str
    lease_seconds: float
    epoch: int
    home: str
    data: Item = field(default_factory=dict, hash=False)
    partition: str = keys.LEASE_PARTITION
    since: datetime | None = None

    @property
    def key(self) -> Key:
        """Partition and sort key of its item."""
        return self.partition, self.name

    @property
    def title(self) -> str:
        """The name of a lease in its own partition; of another, its key."""
        if self.key == (f"{keys.LEASE_PREFIX}{self._own_name}", OWN_SORT_KEY):
            return self._own_name
        return f"{self.partition} {self.name}"

    @property
    def _own_name(self) -> str:
        return self.partition.removeprefix(keys.LEASE_PREFIX)

    @property
    def released(self) -> bool:
        """Whether its last owner has given it back."""
        return self.owner == NO_OWNER


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How long a lease lasts and how it is kept.

    `margin_share` of the lease is given up at its end for clocks of different rates: two clocks may
    differ by that share. While waiting, the lease is looked at `polls_per_heartbeat` times in each
    `heartbeat_seconds`.

    Raises:
        SettingsError: the terms contradict each other.
    """

    lease_seconds: float = 30.0
    heartbeat_seconds: float = 10.0
    margin_share: float = 0.1
    polls_per_heartbeat: int = 5

    def __post_init__(self) -> None:
        for name in ("lease_seconds", "heartbeat_seconds", "margin_share", "polls_per_heartbeat"):
            if not isinstance(value := getattr(self, name), int | float):
                raise SettingsError(f"{name} must be a number, got {value!r}")
        if not 0 < self.lease_seconds <= LEASE_SECONDS_MAX:
            raise SettingsError(
                f"lease_seconds must be over 0 and at most {LEASE_SECONDS_MAX:g},"
                f" got {self.lease_seconds:g}"
            )
        most = self.lease_seconds / HEARTBEATS_PER_LEASE_MIN
        if not 0 < self.heartbeat_seconds <= most:
            raise SettingsError(
                f"heartbeat_seconds must be over 0 and at most {most:g} (half of lease_seconds), so"
                f" that one lost heartbeat does not cost the lease, got {self.heartbeat_seconds:g}"
            )
        if not 0 <= self.margin_share < MARGIN_SHARE_MAX:
            raise SettingsError(
                f"margin_share must be from 0 to under {MARGIN_SHARE_MAX:g},"
                f" got {self.margin_share:g}"
            )
        if self.polls_per_heartbeat < 1:
            raise SettingsError(
                f"polls_per_heartbeat must be 1 or more, got {self.polls_per_heartbeat}"
            )

    @property
    def margin_seconds(self) -> float:
        """How long before its end the holder stops."""
        return self.lease_seconds * self.margin_share

    @property
    def poll_seconds(self) -> float:
        """How long a waiting contender sleeps between two looks, at most."""
        return self.heartbeat_seconds / self.polls_per_heartbeat


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """The lease is ours, under this epoch; `data` is what the holder before us left with it."""

    key: Key
    owner: str
    epoch: int
    data: Item = field(default_factory=dict, hash=False)

    def fence(self) -> Check:
        """Return the action that lets a transaction stand only while this holding is current."""
        return Check(self.key, holds_on(self.owner, self.epoch))


@dataclass(frozen=True, slots=True)
class NotHeld:
    """The lease is not ours.

    `owner` held it when last read (empty: none, and our attempt to take it is not known to have
    succeeded); it can be taken in `left_seconds` unless a heartbeat comes. `data` is what is
    stored with it.
    """

    key: Key
    owner: str
    epoch: int
    left_seconds: float
    data: Item = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class LeaseWatch:
    """What a contender has observed of a lease: the record, and since when it shows this rvn.

    Times are the contender's own monotonic seconds, taken when the answer to the read came.
    """

    record: LeaseRecord | None = None
    since: float = -math.inf

    def observe(self, record: LeaseRecord | None, *, at: float) -> "LeaseWatch":
        """Return the watch after a look at time `at`: an unchanged rvn is counted on from before.

        Between two equal rvns there was no other: an rvn is never written twice.
        """
        if record is not None and self.record is not None and record.rvn == self.record.rvn:
            return LeaseWatch(record, self.since)
        return LeaseWatch(record, at)

    def left_seconds(self, *, now: float) -> float:
        """Return how long the lease must still stay unchanged before it may be taken; 0 for now.

        It may be taken if it was never held, if it was released, or if its rvn has stayed the
        same for the whole of the `lease_seconds` that its owner declared.
        """
        if self.record is None or self.record.released:
            return 0.0
        return max(0.0, self.since + self.record.lease_seconds - now)


def holds_on(owner: str, epoch: int) -> AllOf:
    """Return the condition that a holding is current.

    The epoch changes exactly when the owner does, and when a released lease is taken again by the
    same owner. Of an item that was deleted and made again by a process whose clock is behind, the
    epoch begins lower and may come to an old one again: that owner's name is another's then.
    """
    return AllOf((Equals("epoch", {"N": str(epoch)}), Equals("owner", {"S": owner})))


def next_epoch(seen: LeaseRecord | None, *, highest: int, now: datetime) -> int:
    """Return the epoch under which to take a lease: above the one shown, and `highest` seen before.

    A new item begins at the time in milliseconds. So an item that was deleted and made again goes
    on above what it had, since owners change less than once in a millisecond, as long as the clock
    of its maker is not behind that of the earlier one's maker by more than the earlier one lived.
    """
    if seen is not None:
        return max(seen.epoch, highest) + 1
    return max((now - _BEGIN_OF_TIME) // timedelta(milliseconds=1), highest + 1)


def checked_terms(terms: object) -> LeaseTerms:
    """Return `terms` if they are those of a lease.

    Raises:
        InvalidInput: they are something else.
    """
    if not isinstance(terms, LeaseTerms):
        raise InvalidInput(f"terms of a lease must be LeaseTerms, got {terms!r:.80}")
    return terms


def lease_key(name: str) -> Key:
    """Return the key of a compactor's lease."""
    return keys.LEASE_PARTITION, name


def own_key(name: str) -> Key:
    """Return the default key of a lease: in its own partition, which IAM can distinguish.

    Raises:
        InvalidCounter: the name breaks a rule of counter ids.
    """
    return f"{keys.LEASE_PREFIX}{keys.checked_new_counter(name, 'name of a lease')}", OWN_SORT_KEY


def checked_key(key: Key) -> Key:
    """Return a key that a lease may have.

    Raises:
        InvalidInput: it is not two texts within DynamoDB's limits, or it is in the collection of a
            counter, where it would be a damaged entry.
    """
    if not _is_key(key):
        raise InvalidInput(
            "key of a lease must be partition and sort key, texts of 1 to"
            f" {PARTITION_BYTES_MAX:,} and {SORT_KEY_BYTES_MAX:,} bytes, got {key!r}"
        )
    if keys.counter_of(key[0]) is not None:
        raise InvalidInput(
            f"key of a lease must not be among the entries of a counter: begin its partition with"
            f" {keys.LEASE_PREFIX!r}, got {key!r}"
        )
    return key


def _is_key(key: object) -> bool:
    match key:
        case (str(partition), str(sort_key)):
            sizes = _bytes_of(partition), _bytes_of(sort_key)
            return 0 < sizes[0] <= PARTITION_BYTES_MAX and 0 < sizes[1] <= SORT_KEY_BYTES_MAX
        case _:
            return False


def _bytes_of(text: str) -> int:
    """Return the size of a text, 0 for one that is not encodable in UTF-8."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0


def checked_owner(owner: object, name: str) -> str:
    """Return the name of an owner.

    Raises:
        InvalidInput: it is not a text that is encodable in UTF-8, or empty.
    """
    if not isinstance(owner, str) or (owner and not _bytes_of(owner)):
        raise InvalidInput(f"owner of lease {name!r} must be a text, got {owner!r}")
    if owner == NO_OWNER:
        raise InvalidInput(f"owner of lease {name!r} must not be empty: that means released")
    return owner


def checked_wait(wait_seconds: object) -> float:
    """Return how long to wait for a lease, without end for None.

    Raises:
        InvalidInput: it is not a number from 0.
    """
    if wait_seconds is None:
        return math.inf
    is_number = isinstance(wait_seconds, int | float) and not isinstance(wait_seconds, bool)
    if not is_number or not float(wait_seconds) >= 0:  # type: ignore[arg-type]
        raise InvalidInput(f"wait_seconds must be a number from 0, or None, got {wait_seconds!r}")
    return float(wait_seconds)  # type: ignore[arg-type]


def checked_data(data: Mapping[str, AttributeValue]) -> Item:
    """Return the data to be stored with a lease.

    Raises:
        InvalidInput: it is not a map of DynamoDB's attribute values, or the item would be over
            DynamoDB's limit of 400 KB.
    """
    try:
        item_size({"data": {"M": data}})
    except (AttributeError, TypeError, ValueError):
        raise InvalidInput(
            "data must be a map of attribute values, such as {'page': {'N': '7'}},"
            f" got {data!r}"
        ) from None
    if (size := item_size({"data": {"M": data}}) + OWN_BYTES_MAX) > ITEM_BYTES_MAX:
        raise InvalidInput(
            f"data must make an item of at most {ITEM_BYTES_MAX:,} bytes, got {size:,}"
        )
    return data


def record_item(record: LeaseRecord) -> dict[str, AttributeValue]:
    """Return the item of a lease."""
    item: dict[str, AttributeValue] = {
        "pk": {"S": record.partition},
        "sk": {"S": record.name},
        "owner": {"S": record.owner},
        "rvn": {"S": record.rvn},
        "lease_seconds": {"N": amounts.to_text(amounts.of_text(repr(record.lease_seconds)))},
        "epoch": {"N": str(record.epoch)},
        "home": {"S": record.home},
    }
    if record.data:
        item["data"] = {"M": record.data}
    if record.since is not None:
        item["since"] = {"S": record.since.isoformat()}
    return item


def record_of(item: Item) -> LeaseRecord:
    """Read a lease from its item; unknown attributes are left alone.

    Raises:
        DamagedItem: an attribute is missing or of another kind, `rvn` is empty, `lease_seconds`
            is not over 0 and up to a day, or `epoch` is not a whole number from 1.
    """
    texts = {name: item.get(name, {}).get("S") for name in ("owner", "rvn", "home")}
    wrong = [name for name, text in texts.items() if not isinstance(text, str)]
    if wrong:
        raise damaged(item, f"a lease needs {', '.join(wrong)} as text (S)")
    if not texts["rvn"]:
        raise damaged(item, "rvn is empty")
    data = item.get("data", {"M": {}}).get("M")
    if not isinstance(data, Mapping):
        raise damaged(item, "the data of a lease must be a map (M)")
    seconds = float(number_of(item, "lease_seconds"))
    if not 0 < seconds <= LEASE_SECONDS_MAX:
        raise damaged(item, f"lease_seconds {seconds:g} is not over 0, up to {LEASE_SECONDS_MAX:g}")
    epoch = number_of(item, "epoch")
    if not amounts.is_whole(epoch) or epoch < 1:
        raise damaged(item, f"epoch {epoch} is not a whole number from 1")
    return LeaseRecord(
        name=item["sk"]["S"],
        owner=str(texts["owner"]),
        rvn=str(texts["rvn"]),
        lease_seconds=seconds,
        epoch=int(epoch),
        home=str(texts["home"]),
        data=data,
        partition=item["pk"]["S"],
        since=_since_of(item),
    )


def _since_of(item: Item) -> datetime | None:
    """Return when the owner took it; None if no time can be read, which is informational."""
    try:
        since = datetime.fromisoformat(item["since"]["S"])
    except (KeyError, TypeError, ValueError):
        return None
    return since if since.tzinfo is not None else None
