"""From a change to an entry and the item to put; time and random bits are arguments.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import repeat, zip_longest
from typing import NamedTuple

from ledger.core import amounts, ids, keys
from ledger.core.capacity import item_size
from ledger.core.durations import spoken
from ledger.core.entry import (
    NOTE_BYTES_MAX,
    Item,
    checked_metadata,
    checked_size,
    entry_id,
    entry_item,
    entry_of,
)
from ledger.core.errors import (
    ContractChangeRefused,
    InvalidEntry,
    KeyConflict,
    RetryHorizonPassed,
    UntimedKey,
)
from ledger.core.own_keys import own_keys, own_suffix
from ledger.core.parts import Gathered, part_texts
from ledger.core.tokens import no_hyphens, one_spelling, time_of_key
from ledger.core.transfers import is_text
from ledger.core.values import Entry, Spending, quickly_made, same_call
from ledger.core.visible import unclear_in
from ledger.settings import Settings
from ledger.store.conditions import Absent
from ledger.store.writes import Put
from ledger.writes.book_rules import check_book, check_not_book, checked_transfer

KEY_BYTES_MAX = 1024
SPANS_KEPT = 8
"""Retry horizons of different settings in one process, as time spans."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Change:
    """A change to be recorded.

    `key` and `at` together make the id the same in every call and region; a UUIDv7 or a ULID as
    key carries its `at`. `note` is free text, `effective` the date to which the change applies, if
    it is not the day of writing; `metadata` up to 20 texts by name. With `legs` it is a transfer in
    a book: they are of account, asset and amount, and `change` is 0.
    """

    counter: str
    change: int | Decimal
    note: str | None = None
    effective: date | None = None
    key: str | None = None
    at: datetime | None = None
    legs: Sequence[tuple[str, str, int | Decimal]] | None = None
    metadata: Mapping[str, str] | None = field(default=None, hash=False)

    @property
    def is_plain(self) -> bool:
        """Whether the change is only an amount."""
        return self.legs is None and self.says_nothing

    @property
    def says_nothing(self) -> bool:
        """Whether the change is only an amount, or only the legs of a transfer."""
        is_new = self.key is None and self.at is None
        return is_new and self.note is None and self.effective is None and not self.metadata


class PlannedEntry(NamedTuple):
    """An entry and its item.

    `latest` is the retry horizon of its id, or the end of validity of the process's view of the
    contract: no request for it is signed later. (A tuple because one is made for every change, in
    half the time that a dataclass takes.)
    """

    entry: Entry
    item: Item
    latest: datetime
    keyed: bool = False

    @property
    def put(self) -> Put:
        """The write that makes it durable, once."""
        return Put(self.item, condition=Absent(), not_after=self.latest)

    @property
    def is_conditional(self) -> bool:
        """Whether it must not be put again over what is there: another's, or one resolved since.

        Of any other entry what is there is the same.
        """
        spending = self.entry.spending
        return self.keyed or (spending is not None and spending.is_resolvable)


GroupedChange = tuple[str, Decimal, int, str]
"""An item that is planned with others: counter, change, how many changes it has, and their text if
they share it. (A bare tuple because one is made for every change.)
"""


def grouped_parts(gathered: Gathered) -> GroupedChange:
    """Return the changes that share an item, as they are planned."""
    return gathered.counter, gathered.change, gathered.size, gathered.text


def batch_puts(planned: Sequence[PlannedEntry]) -> list[Put]:
    """Return the writes for a batch, without conditions: the same item again changes nothing."""
    return [Put(item, None, 0, latest) for _, item, latest, _ in planned]


def plan_entry(
    change: Change,
    *,
    region: str,
    settings: Settings,
    now: datetime,
    suffix: int | str,
    until: datetime | None = None,
    spending: Spending | None = None,
) -> PlannedEntry:
    """Check a change and fix its id; `until` bounds the signature besides the retry horizon.

    `suffix` is that of the id where the caller names no key, or the key that the id follows from
    then. `spending` is what pays for it, if it is spent from a budget.

    Raises:
        InvalidInput: a value breaks a rule; the message names both.
        ContractChangeRefused: a pending change of the contract decides its shard.
    """
    counter = keys.checked_counter(change.counter)
    amount, key = amounts.exact(change.change), None
    if keyed := change.key is not None:
        key = one_spelling(checked_key(change.key))
        suffix = ids.suffix_of(counter, key)
        made = entry_id(time_of(counter, key, change.at), suffix)
        at, shards = made.at, _shards_keyed(counter, made.at, settings)
    elif change.at is None:
        at, shards = now, settings.shards_now(counter, now)
        if isinstance(suffix, str):
            key, suffix = suffix, own_suffix(counter, suffix, amount)
    else:
        raise at_without_key(counter)
    entry = Entry(
        counter,
        ids.sort_key(at, suffix),
        amount,
        region,
        None if change.note is None else checked_note(change.note),
        None if change.effective is None else checked_date(change.effective),
        shard=keys.shard_of(suffix, shards),
        spending=spending,
        key=key,
        legs=checked_transfer(change.legs, counter, amount, settings),
        metadata=checked_metadata(change.metadata) if change.metadata else None,
    )
    if keyed:
        check_horizon(entry, at, settings=settings, now=now)
    return _planned(entry, at, settings=settings, keyed=keyed, until=until)


def plan_group(
    changes: Sequence[GroupedChange],
    *,
    region: str,
    settings: Settings,
    now: datetime,
    bits: int,
    until: datetime | None = None,
    has_own_keys: bool = False,
) -> list[PlannedEntry]:
    """Fix the ids of entries that are written together: one time, and suffixes in their order.

    Counters and changes must be checked already. `bits` holds 64 random bits for each entry; with
    `has_own_keys` 128, the key from which its id follows, so that their order is any.
    """
    latest = _earlier(now + _span(settings.retry_horizon), until)
    planned = []
    is_sharded = bool(settings.shards)
    made: Iterable[tuple[str, str | None]]
    if has_own_keys:
        made = _own_ids(changes, now, bits)
    else:
        made = zip(ids.sort_keys(now, bits, len(changes)), repeat(None), strict=False)
    for (counter, change, size, parts), (id_, key) in zip(changes, made, strict=True):
        shard = 0
        if is_sharded:
            shard = keys.shard_of(ids.suffix_in(id_), settings.shards_now(counter, now))
        entry = Entry(counter, id_, change, region, None, None, size, shard, key=key, parts=parts)
        planned.append(PlannedEntry(entry, entry_item(entry), latest))
    return planned


def _own_ids(
    changes: Sequence[GroupedChange], now: datetime, bits: int
) -> Iterator[tuple[str, str]]:
    for one, key in zip(changes, own_keys(bits, len(changes)), strict=True):
        yield ids.sort_key(now, own_suffix(one[0], key, *one[1:])), key


def replan(
    entry: Entry,
    *,
    region: str,
    settings: Settings,
    now: datetime,
    until: datetime | None = None,
) -> PlannedEntry:
    """Plan to write an entry again, under the id and in the shard that it has.

    Raises:
        ContractChangeRefused: its shard is not known, and a pending change decides it.
        InvalidEntry: the id is not in the ledger's form.
        RetryHorizonPassed: too late to repeat it.
    """
    entry_id = ids.parse(entry.id)
    if entry_id is None:
        raise InvalidEntry(f"entry {entry.id!r} has an id that the ledger did not make")
    shard, shards_max = entry.shard, settings.shards_max(entry.counter)
    if shard is None:
        shards = _shards_keyed(entry.counter, entry_id.at, settings)
        shard = keys.shard_of(entry_id.suffix, shards)
    elif shard not in range(shards_max):
        raise InvalidEntry(
            f"entry {entry.id} must be in a shard of {entry.counter!r}, 0 to {shards_max - 1},"
            f" got {shard!r}: no total would count it"
        )
    legs = checked_transfer(entry.legs or None, entry.counter, entry.change, settings)
    if is_text(entry.parts):
        check_book(entry.counter, settings)
    elif not legs:
        check_not_book(entry.counter, settings)
    metadata = None if entry.metadata is None else checked_metadata(entry.metadata)
    entry = replace(entry, region=entry.region or region, shard=shard, legs=legs, metadata=metadata)
    if entry.spending is not None and entry.spending.until is None:
        raise InvalidEntry(
            f"entry {entry.id} was spent from a budget: only the call that made it knows until when"
            " it may be repeated; repeat that, with its key"
        )
    spending = entry.spending
    if spending and spending.is_resolvable and spending.region not in {None, region}:
        what = f"entry {entry.id} was let through in"
        if not spending.is_over:
            what = f"hold {entry.id} is paid for by rights of"
        raise InvalidEntry(
            f"{what} {spending.region}, so it is repeated there alone, not in {region}: it may have"
            " been resolved there"
        )
    check_horizon(entry, entry_id.at, settings=settings, now=now)
    return _planned(entry, entry_id.at, settings=settings, keyed=True, until=until)


def _shards_keyed(counter: str, at: datetime, settings: Settings) -> int:
    """Return the number of shards for an id that another process may have chosen too."""
    shards = settings.shards_at(counter, at)
    if shards is None:
        raise ContractChangeRefused(
            f"counter {counter!r}: its number of shards at {at.isoformat()} is being changed:"
            " repeat the call once the change is in force (`ledger table show`)"
        )
    return shards


def _planned(
    entry: Entry, at: datetime, *, settings: Settings, keyed: bool, until: datetime | None
) -> PlannedEntry:
    item = entry_item(entry)
    if entry.note is not None:  # everything else in an entry stays below some 2 KB
        checked_size(entry, item_size(item))
    if entry.spending is not None and entry.spending.until is not None:
        until = entry.spending.until if until is None else min(until, entry.spending.until)
    return PlannedEntry(entry, item, _earlier(at + _span(settings.retry_horizon), until), keyed)


def _earlier(horizon: datetime, until: datetime | None) -> datetime:
    return horizon if until is None or horizon < until else until


@lru_cache(SPANS_KEPT)
def _span(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def check_horizon(entry: Entry, at: datetime, *, settings: Settings, now: datetime) -> None:
    """Refuse an id that is too old to repeat, or further in the future than clock skew explains.

    Raises:
        RetryHorizonPassed: older than `retry_horizon`.
        InvalidEntry: further ahead than `clock_skew`.
    """
    age = (now - at).total_seconds()
    if age > settings.retry_horizon:
        raise RetryHorizonPassed(
            f"entry {entry.id} is {spoken(age)} old, past the retry horizon of"
            f" {spoken(settings.retry_horizon)}: it may have been merged, so writing it again could"
            f" count it twice; the clock shows {now.isoformat()}",
            entry=entry,
        )
    if -age > settings.clock_skew:
        raise InvalidEntry(
            f"entry {entry.id} is {spoken(-age)} ahead of the clock, more than clock_skew"
            f" ({spoken(settings.clock_skew)}); the clock shows {now.isoformat()}"
        )


def distinct(planned: Iterable[PlannedEntry]) -> list[PlannedEntry]:
    """Keep one of each id in each counter.

    Raises:
        KeyConflict: the same id twice with different content.
    """
    kept: dict[tuple[str, str], PlannedEntry] = {}
    for change in planned:
        other = kept.setdefault((change.entry.counter, change.entry.id), change)
        if not same_call(change.entry, other.entry):
            raise conflict(change.entry, other.entry)
    return list(kept.values())


def entries_written(planned: Iterable[PlannedEntry], found: Iterable[Entry]) -> list[Entry]:
    """Return the entries of a call, in order; those `found` in the table as found."""
    there = {(entry.counter, entry.id): entry for entry in found}
    entries = [change.entry for change in planned]
    return [there.get((entry.counter, entry.id), entry) for entry in entries] if there else entries


def confirm_entry(ours: Entry, found: Item) -> Entry:
    """Return the entry found under our id, if it is the same change.

    Raises:
        KeyConflict: it is another change.
    """
    theirs = entry_of(found)
    if not same_call(ours, theirs):
        raise conflict(ours, theirs)
    return replace(theirs, repeated=True)


def conflict(ours: Entry, theirs: Entry) -> KeyConflict:
    """Return the error that names both changes."""
    return KeyConflict(
        f"counter {ours.counter!r} id {ours.id}: refused {_described(ours, theirs)},"
        f" since the same key already stands for {_described(theirs, ours)}",
        ours=ours,
        theirs=theirs,
    )


def latest_repeat(planned: Sequence[PlannedEntry]) -> datetime:
    """Return when the first of these ids reaches the retry horizon."""
    return min(change.latest for change in planned)


def _described(entry: Entry, other: Entry) -> str:
    """Return what an entry says, and of the changes that share its item where they first differ."""
    parts = [f"change {amounts.to_text(entry.change)}"]
    parts += [f"note {entry.note[:40]!r}"] if entry.note is not None else []
    parts += [f"effective {entry.effective}"] if entry.effective is not None else []
    parts += [f"in {entry.count} parts"] if entry.count != 1 else []
    parts += [_first_difference(entry, other)] if entry.legs != other.legs else []
    parts += ["with other metadata"] if entry.metadata != other.metadata else []
    texts = enumerate(zip_longest(part_texts(entry), part_texts(other), fillvalue=""))
    differing = next((pair for pair in texts if pair[1][0] != pair[1][1]), None)
    parts += (
        [f"of which {differing[0]:03d} is {differing[1][0] or 'none':.200}"] if differing else []
    )
    if (spending := entry.spending) is not None:
        kind = "held from" if spending.hold is not None else "spent from"
        kind = "credited to" if entry.change > 0 else kind
        parts.append(f"{kind} {', '.join(name or entry.counter for name in spending.budgets)}")
    return " ".join(parts)


def _first_difference(entry: Entry, other: Entry) -> str:
    """Return the first leg of a transfer that another does not have."""
    leg = next((leg for leg in entry.legs if leg not in other.legs), None)
    return f"moving {amounts.to_text(leg.amount)} {leg.asset} to {leg.account!r}" if leg else ""


def checked_key(key: object, *, what: str = "key") -> str:
    """Return `key` if it can name a change; `what` is its name in messages.

    Raises:
        InvalidEntry: not a str of 1 to 1,024 bytes of UTF-8, or a character of it cannot be seen.
    """
    if not isinstance(key, str) or not key:
        raise InvalidEntry(
            f"{what} must be a non-empty string of up to {KEY_BYTES_MAX} bytes of UTF-8,"
            f" got {key!r}"
        )
    if _utf8_bytes(what, key) > KEY_BYTES_MAX:
        raise InvalidEntry(f"{what} {key[:40]!r}... is over {KEY_BYTES_MAX} bytes")
    if (unclear := unclear_in(key)) is not None:
        raise InvalidEntry(
            f"{what} must not contain invisible characters, such as {unclear!a}, got {key[:40]!a}"
        )
    return key


def time_of(counter: str, key: str, at: object) -> datetime:
    """Return the time that makes the id with a key: `at`, by default the one in the key.

    Raises:
        InvalidEntry: there is none, or it is not a time.
    """
    if at is None and (carried := time_of_key(key)) is not None:
        return carried
    if at is None:
        raise UntimedKey(
            f"change of {counter!r}: key {key[:40]!r} needs at, the time chosen with it"
            " and the same at each try; a UUIDv7 or a ULID as key carries its own"
            f"{no_hyphens(key)}"
        )
    if not isinstance(at, datetime):
        raise InvalidEntry(f"at must be an aware datetime, got {at!r}")
    return at


def at_without_key(counter: str) -> InvalidEntry:
    """Return the error of a change that has a time and no key."""
    return InvalidEntry(
        f"change of {counter!r}: at belongs to a key, and with it makes the id: give both, or"
        " neither"
    )


def checked_note(note: object) -> str:
    """Return a note that can be stored.

    Raises:
        InvalidEntry: it is not a string, not UTF-8, or too long.
    """
    if not isinstance(note, str):
        raise InvalidEntry(f"note must be a string, got {note!r}")
    if (size := _utf8_bytes("note", note)) > NOTE_BYTES_MAX:
        raise InvalidEntry(
            f"note {note[:40]!r} must have at most {NOTE_BYTES_MAX:,} bytes, got {size:,} bytes"
        )
    return note


def checked_date(effective: object) -> date:
    """Return an effective date.

    Raises:
        InvalidEntry: it is not a date, or has a time of day.
    """
    if isinstance(effective, datetime):
        raise InvalidEntry(f"effective must be a date without a time of day, got {effective}")
    if isinstance(effective, date):
        return effective
    raise InvalidEntry(f"effective must be a date, got {effective!r}")


def _utf8_bytes(what: str, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InvalidEntry(f"{what} {text[:40]!r} cannot be encoded in UTF-8") from None
