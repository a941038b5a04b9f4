"""Entries that a call makes once, and their records: reversals, and corrections by counts.

Such an entry says itself which call made it: it has the id of the entry that it reverses, or the
token of its count, and the suffix of its own id is a hash of that. So the entry is the proof that
the call was made, in whichever region, and in table, net or archive. The time in its id is when it
was written: it would change totals of the past, and be merged at once, if it were older.

Its *record* is a copy of the entry under the name of the call. It commits with the entry, so that
two calls at home make one entry, and it leads to the entry once that is merged. It proves nothing:
replicated by itself it may be late, lost or alone. But the compactor merges such an entry only once
every region shows its record, and puts it where it is missing. So where a region has no record the
entry is in no net.

Pure: no clock, no randomness, no I/O.
"""

from ledger.core import ids, keys
from ledger.core.entry import ENTRY_ATTRIBUTES, Item, Key, key_of

REVERSES = "reverses"
TOKEN, COUNTED, COUNTED_AT = "token", "counted", "counted_at"
ATTRIBUTES = ("pk", "sk", *ENTRY_ATTRIBUTES, TOKEN, COUNTED, COUNTED_AT)
"""The attributes of such an entry, its keys among them."""
NAMED_IN = (REVERSES, TOKEN)
"""Those that name the call."""
ENTRY, SHARD = "entry", "shard"
RECORD_ATTRIBUTES = (*ATTRIBUTES, ENTRY, SHARD)
_PREFIXES = {REVERSES: keys.REVERSE_PREFIX, TOKEN: keys.RECONCILE_PREFIX}


def reversal_key(counter: str, entry_id: str) -> Key:
    """Return the key of the record of an entry's reversal."""
    return f"{keys.REVERSE_PREFIX}{counter}", entry_id


def count_key(counter: str, token: str) -> Key:
    """Return the key of the record of a correction by the count with a token."""
    return f"{keys.RECONCILE_PREFIX}{counter}", token


def suffix_of(key: Key) -> int:
    """Return the suffix of the id of the entry that has its record under a key."""
    return ids.suffix_of(*key)


def record_key(item: Item) -> Key | None:
    """Return the key of the record of an entry; None if no such call made it.

    What another writer gave such an attribute has another suffix: it is an entry as any other.
    """
    sort_key = item["sk"]["S"]
    place = keys.counter_of(item["pk"]["S"])
    name = next((name for name in NAMED_IN if name in item), None)
    if name is None or place is None or ids.parse(sort_key) is None:
        return None
    said = item[name].get("S")
    if not isinstance(said, str):
        return None
    key = f"{_PREFIXES[name]}{place[0]}", said
    return key if ids.suffix_in(sort_key) == suffix_of(key) else None


def record_of(item: Item) -> Item:
    """Return the record of such an entry.

    Raises:
        ValueError: no such call made it.
    """
    key, place = record_key(item), keys.counter_of(item["pk"]["S"])
    if key is None or place is None:
        raise ValueError(f"no call that is made once made the entry {item['sk']['S']!r}")
    own = {"pk": {"S": key[0]}, "sk": {"S": key[1]}}
    return {**item, **own, ENTRY: item["sk"], SHARD: {"N": str(place[1])}}


def leads_to(record: Item | None, key: Key) -> bool:
    """Return whether a record is there, and is that of the entry with a key."""
    item = None if record is None else entry_in(record)
    return item is not None and key_of(item) == key


def entry_in(record: Item) -> Item | None:
    """Return the entry that a record was made of; None if it was made of none."""
    partition, _ = key_of(record)
    shard = _shard_in(record)
    prefix = next((prefix for prefix in _PREFIXES.values() if partition.startswith(prefix)), None)
    if shard is None or prefix is None or not isinstance(record.get(ENTRY, {}).get("S"), str):
        return None
    kept = {name: value for name, value in record.items() if name not in {ENTRY, SHARD}}
    own = keys.partition_key(partition.removeprefix(prefix), shard)
    item: Item = {**kept, "pk": {"S": own}, "sk": record[ENTRY]}
    return item if record_key(item) == key_of(record) else None


def without_note(record: Item) -> Item:
    """Return a record without the note of its entry."""
    return {name: value for name, value in record.items() if name != "note"}


def _shard_in(record: Item) -> int | None:
    text = record.get(SHARD, {}).get("N", "")
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else None
