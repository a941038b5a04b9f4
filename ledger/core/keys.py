"""The keys of the table: counter ids, shards of a collection, reserved keys.

Everything that begins with `~` is the ledger's own: partition keys of shards, leases, imports,
scan cursors, records of passes, the doctor's probes, the index, descriptions, budgets, sequences,
versions, watches and webhooks, and the sort key of a net change, which sorts after every entry.

Pure: no clock, no randomness, no I/O.
"""

import re
import unicodedata
from functools import lru_cache

from ledger.core.errors import InvalidCounter, InvalidEntry, InvalidInput
from ledger.core.visible import unclear_in

COUNTER_BYTES_MAX = ID_BYTES_MAX = 1024
RESERVED = "~"
LEASE_PARTITION = "~lease"
LEASE_PREFIX = "~lease~"
IMPORT_PARTITION = "~import"
SCAN_PARTITION = "~scan"
PASS_PARTITION = "~pass"  # noqa: S105 (a pass of the compactor)
"""The compactor's last passes: informational, no decision depends on it."""
DOCTOR_PARTITION = "~doctor"
"""Where `ledger doctor` reads and tries to write missing items, and puts its probes."""
COUNT_PREFIX = "~count"
"""Partitions of single-item counters, and of the markers of their changes."""
EXPIRES = "~expires"
"""The attribute that the table's time to live uses: seconds since 1970.

Only markers, counts of failures, records of passes, probes of the doctor and, at their caller's
choice, tombstones have it. If an entry, a net change, a lease, a number or another version expired,
a total or a guarantee would be wrong; so the name is reserved, and no other attribute may have it.
"""
SEQUENCE_PREFIX = "~sequence~"
REVERSE_PREFIX = "~reverse~"
"""Partitions of the records of reversals, one per counter."""
RECONCILE_PREFIX = "~reconcile~"
"""Partitions of the records of physical counts, one per counter."""
RECONCILE_LATEST_PREFIX = "~reconcile-latest~"
VERSION_PREFIX = "~version~"
WATCH_PREFIX = "~watch~"
WEBHOOK_PREFIX = "~webhook~"
"""Partitions of webhooks' items, one per webhook."""
DESCRIPTION_PREFIX = "~description~"
"""Partitions of descriptions, one per counter."""
BUDGET_PREFIX = "~budget~"
"""Partitions of the control items of budgets, one per counter."""
NET_PREFIX = "~net#"
GENERATION_MAX = 9999
"""The highest generation of net changes: four digits, so that sort keys ascend with them.

A table begins with generation 1; each loss of a region begins the next.
"""
GENERATIONS_KEPT = 32
"""Generations whose sort key is cached: nearly every net of a table has the same."""

_SLICE = re.compile(r".*/slice/[0-9]+/[0-9]{4}", flags=re.DOTALL | re.ASCII)
_SHARD = re.compile(r"~([1-9][0-9]{0,3})~(.+)", flags=re.DOTALL | re.ASCII)
_NET = re.compile(r"~net#([0-9]{4})", flags=re.ASCII)


def slice_sort_key(lease: str, number: int, slices: int) -> str:
    """Return the sort key, under `LEASE_PARTITION`, of the leader of a slice of compaction."""
    return f"{lease}/slice/{slices}/{number:04d}"


def is_slice(sort_key: str) -> bool:
    """Return whether an item under `LEASE_PARTITION` is not a lease, but names a slice's leader."""
    return _SLICE.fullmatch(sort_key) is not None


def checked_counter(counter: object, what: str = "counter") -> str:
    """Return `counter` if it is a counter id, or follows its rules; errors call it `what`.

    Raises:
        InvalidCounter: not a str of 1 to 1,024 bytes of UTF-8 without control characters, or it
            begins with `~`.
    """
    if not isinstance(counter, str):
        raise InvalidCounter(f"{what} must be a string, got {counter!r} ({type(counter).__name__})")
    # Nearly every counter is plain; checking rule by rule takes five times as long.
    plain = counter.isascii() and counter.isprintable() and 0 < len(counter) <= COUNTER_BYTES_MAX
    return counter if plain and counter[0] != RESERVED else _checked_text(counter, what)


def _checked_text(counter: str, what: str) -> str:
    if not counter:
        raise InvalidCounter(f"{what} must have 1 to 1,024 bytes, got ''")
    if counter.startswith(RESERVED):
        raise InvalidCounter(f"{what} must not begin with '~', which is reserved, got {counter!r}")
    try:
        size = len(counter.encode())
    except UnicodeEncodeError:
        raise InvalidCounter(f"{what} must be encodable in UTF-8, got {counter!r}") from None
    if size > COUNTER_BYTES_MAX:
        raise InvalidCounter(
            f"{what} must have 1 to 1,024 bytes, got {size:,} bytes: {counter[:40]!r}..."
        )
    if not counter.isprintable() and any(unicodedata.category(sign) == "Cc" for sign in counter):
        raise InvalidCounter(f"{what} must not contain control characters, got {counter!r}")
    return counter


def checked_id(entry: object, what: str = "entry") -> str:
    """Return `entry` if it can be the id of an entry, of another writer's too; errors call it so.

    A sort key has 1 to 1,024 bytes. Source: Amazon DynamoDB Developer Guide, "Constraints in Amazon
    DynamoDB" (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html).

    Raises:
        InvalidEntry: it is none.
    """
    try:
        if isinstance(entry, str) and 0 < len(entry.encode()) <= ID_BYTES_MAX:
            return entry
    except UnicodeEncodeError:
        pass
    raise InvalidEntry(f"{what} must be an id of 1 to 1,024 bytes of UTF-8, got {entry!r:.100}")


def checked_new_counter(counter: object, what: str = "counter") -> str:
    """Return `counter` if it may be created: a counter id that is unambiguous to the eye.

    Each text has one spelling (Unicode Standard Annex 15, form C), and no character is invisible.
    Other ids, as another tool may write them, can still be read, reversed and reconciled. Errors
    call it `what`.

    Raises:
        InvalidCounter: as `checked_counter`; or it is not in form C, or has a character that cannot
            be seen (`ledger.core.visible`).
    """
    checked = checked_counter(counter, what)
    return checked if checked.isascii() else _checked_spelling(checked, what)


def _checked_spelling(counter: str, what: str) -> str:
    if not unicodedata.is_normalized("NFC", counter):
        raise InvalidCounter(
            f"{what} must be in Unicode's normal form C (NFC), got {_escaped(counter)}"
        )
    if (unclear := unclear_in(counter)) is not None:
        raise InvalidCounter(
            f"{what} must not contain invisible characters, such as {unclear!a}, got"
            f" {_escaped(counter)}"
        )
    return counter


def _escaped(counter: str) -> str:
    return ascii(counter[:40]) + ("..." if counter[40:] else "")


def checked_own_partition(partition: str) -> str:
    """Return the partition key of a caller's own item.

    Raises:
        InvalidInput: it begins with `~`, which is reserved for the ledger's own items.
    """
    if partition.startswith(RESERVED):
        raise InvalidInput(
            f"the item's partition must not begin with {RESERVED!r}, got {partition!r}"
        )
    return partition


def partition_key(counter: str, shard: int) -> str:
    """Return the partition key of one shard of a counter; shard 0 is the counter id itself."""
    return counter if shard == 0 else f"~{shard}~{counter}"


def shard_of(suffix: int, shards: int) -> int:
    """Return the shard of an entry; it follows from the id, so every retry writes to the same."""
    return suffix % shards


def counter_of(partition: str) -> tuple[str, int] | None:
    """Return counter and shard of a partition key; None for the ledger's own partitions."""
    if not partition.startswith(RESERVED):
        return partition, 0
    found = _SHARD.fullmatch(partition)
    return (found[2], int(found[1])) if found else None


@lru_cache(GENERATIONS_KEPT)
def net_sort_key(generation: int) -> str:
    """Return the sort key of the net change of a generation.

    Raises:
        InvalidInput: not 1 to 9,999.
    """
    if not 1 <= generation <= GENERATION_MAX:
        raise InvalidInput(f"a generation must be 1 to {GENERATION_MAX:,}, got {generation}")
    return f"{NET_PREFIX}{generation:04d}"


def generation_of(sort_key: str) -> int | None:
    """Return the generation of a net change's sort key, 1 to 9,999; None if it is not one."""
    return _generation_in(sort_key) if sort_key.startswith(NET_PREFIX) else None


@lru_cache(GENERATIONS_KEPT)  # nearly every net has the same
def _generation_in(sort_key: str) -> int | None:
    found = _NET.fullmatch(sort_key)
    return int(found[1]) or None if found else None
