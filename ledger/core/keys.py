"""Where things lie in the table: counter ids, shards of a collection, reserved keys.

Everything that begins with `~` is the ledger's own: partition keys of shards, leases, imports,
scan cursors, sequences and versions, and the sort key of a net change, which sorts after every
entry.

Pure: no clock, no randomness, no I/O.
"""

import re
import unicodedata

from ledger.core.errors import InvalidCounter

COUNTER_BYTES_MAX = 1024
RESERVED = "~"
LEASE_PARTITION = "~lease"
LEASE_PREFIX = "~lease~"
IMPORT_PARTITION = "~import"
SCAN_PARTITION = "~scan"
COUNT_PREFIX = "~count"
"""Of counters with one item, and of the markers of their changes."""
EXPIRES = "~expires"
"""The attribute that the table's time to live goes by: seconds since 1970.

Only markers have it. An entry, a net change, a lease, a number or a version that expired would take
its part of a total, or a promise, with it; so it is reserved, and nothing else may be named so.
"""
SEQUENCE_PREFIX = "~sequence~"
VERSION_PREFIX = "~version~"
NET_PREFIX = "~net#"
GENERATION_MAX = 9999

_SHARD = re.compile(r"~([1-9][0-9]{0,3})~(.+)", flags=re.DOTALL | re.ASCII)
_NET = re.compile(r"~net#([0-9]{4})", flags=re.ASCII)


def checked_counter(counter: object) -> str:
    """Return `counter` if it is a counter id.

    Raises:
        InvalidCounter: not a str of 1 to 1,024 bytes of UTF-8 without control characters, or it
            begins with `~`.
    """
    if not isinstance(counter, str):
        raise InvalidCounter(f"counter {counter!r} is a {type(counter).__name__}, not a str")
    # Nearly every counter is plain; the rules one by one take five times as long.
    plain = counter.isascii() and counter.isprintable() and 0 < len(counter) <= COUNTER_BYTES_MAX
    return counter if plain and counter[0] != RESERVED else _checked_text(counter)


def _checked_text(counter: str) -> str:
    if not counter:
        raise InvalidCounter("counter '' is empty: a counter id has 1 to 1,024 bytes")
    if counter.startswith(RESERVED):
        raise InvalidCounter(f"counter {counter!r} begins with '~', which is reserved")
    try:
        size = len(counter.encode())
    except UnicodeEncodeError:
        raise InvalidCounter(f"counter {counter!r} cannot be written in UTF-8") from None
    if size > COUNTER_BYTES_MAX:
        raise InvalidCounter(
            f"counter {counter[:40]!r}... has {size} bytes: a counter id has 1 to 1,024 bytes"
        )
    if not counter.isprintable() and any(unicodedata.category(sign) == "Cc" for sign in counter):
        raise InvalidCounter(f"counter {counter!r} holds a control character")
    return counter


def partition_key(counter: str, shard: int) -> str:
    """Return the partition key of one shard of a counter; shard 0 is the counter id itself."""
    return counter if shard == 0 else f"~{shard}~{counter}"


def shard_of(suffix: int, shards: int) -> int:
    """Return the shard of an entry: fixed by its id, so that every retry reaches the same one."""
    return suffix % shards


def counter_of(partition: str) -> tuple[str, int] | None:
    """Return counter and shard of a partition key; None for the ledger's own partitions."""
    if not partition.startswith(RESERVED):
        return partition, 0
    found = _SHARD.fullmatch(partition)
    return (found[2], int(found[1])) if found else None


def net_sort_key(generation: int) -> str:
    """Return the sort key of the net change of a generation, 1 to 9,999."""
    return f"{NET_PREFIX}{generation:04d}"


def generation_of(sort_key: str) -> int | None:
    """Return the generation of a net change's sort key; None if it is not one."""
    found = _NET.fullmatch(sort_key)
    return int(found[1]) if found else None
