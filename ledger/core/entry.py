"""Entries and net changes, and their form as DynamoDB items.

An item is a mapping from attribute names to DynamoDB's attribute values (`{"S": "eu-west-1"}`,
`{"N": "2.5"}`, `{"B": b"..."}`), as in the low-level client's requests and answers.

Pure: no clock, no randomness, no I/O.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from ledger.core import amounts, books, ids, keys, transfers
from ledger.core.errors import DamagedItem, InvalidAmount, InvalidEntry
from ledger.core.ids import EPOCH, MICROSECOND, MICROSECONDS_MAX, EntryId, EntryIds
from ledger.core.values import Entry, Leg, NetChange, Spending
from ledger.core.visible import is_visible

AttributeValue = Mapping[str, Any]
Item = Mapping[str, AttributeValue]
Key = tuple[str, str]

ITEM_BYTES_MAX = 400 * 1024
"""DynamoDB's limit of one item, attribute names and values together."""
NOTE_BYTES_MAX = ITEM_BYTES_MAX - 2 * 1024
"""In UTF-8; all else in an entry stays below 2 KB, but for its metadata, and a transfer's legs."""
ENTRY_ATTRIBUTES = (
    *("change", "region", "note", "effective", "reverses", "count", "parts"),
    *("legs", "metadata"),
)
"""Attributes that an entry can have besides its key. A net change and a sum have others, too."""
GRANT, HOLD, RESOLVED, ADJUSTED, HELD = "grant", "hold", "resolved", "adjusted", "held"
SPENDING_ATTRIBUTES = (GRANT, HOLD, RESOLVED, ADJUSTED, HELD)
"""Attributes that an entry has besides if it was spent from a budget."""
_COUNT = re.compile(r"[1-9][0-9]{0,18}", flags=re.ASCII)
FAULT = "~fault"
"""Never stored: in an item that was read, the reason why it is not trusted."""
DIGEST_BYTES = 8
"""Length of the truncated SHA-256 over a net change's other attributes."""
METADATA_NAMES_MAX = 20
METADATA_BYTES_MAX = 2_048
"""Of names and texts together, as UTF-8."""
_ACCOUNTS, _ARCHIVE = b"\xff\xfeaccount", b"\xff\xffarchive"
"""Precede parts of a digest: no text is that long."""


def key_of(item: Item) -> Key:
    """Return partition and sort key of an item."""
    return item["pk"]["S"], item["sk"]["S"]


def entry_id(at: datetime, suffix: int) -> EntryId:
    """Return the id of an aware time and a suffix.

    Raises:
        InvalidEntry: the time has no zone, or is not within the years 1970 to 9999.
    """
    if at.tzinfo is None:
        raise InvalidEntry(f"time must be an aware datetime, got {at.isoformat()} without a zone")
    microseconds = (at - EPOCH) // MICROSECOND
    if not 0 <= microseconds <= MICROSECONDS_MAX:
        raise InvalidEntry(f"time must be within the years 1970 to 9999, got {at.isoformat()}")
    return EntryId(microseconds, suffix)


def entry_item(entry: Entry) -> dict[str, AttributeValue]:
    """Return the item of an entry in its shard, the first if that is not known."""
    shard = entry.shard
    partition = keys.partition_key(entry.counter, shard) if shard else entry.counter
    item: dict[str, AttributeValue] = {
        "pk": {"S": partition},
        "sk": {"S": entry.id},
        "change": {"N": amounts.to_text(entry.change)},
    }
    if entry.region is not None:
        item["region"] = {"S": entry.region}
    if entry.note is not None:
        item["note"] = {"S": entry.note}
    if entry.effective is not None:
        item["effective"] = {"S": entry.effective.isoformat()}
    if entry.reverses is not None:
        item["reverses"] = {"S": entry.reverses}
    if entry.count != 1:
        item["count"] = {"N": str(entry.count)}
    if entry.parts:
        item.update(_parts_attribute(entry.parts))
    if entry.spending is not None:
        item.update(spending_attributes(entry.spending))
    if entry.legs:
        item["legs"] = books.legs_attribute(entry.legs)
    if entry.metadata is not None:
        item["metadata"] = {"M": {name: {"S": text} for name, text in entry.metadata.items()}}
    return item


def _parts_attribute(parts: str) -> dict[str, AttributeValue]:
    if transfers.is_text(parts):
        return {"legs": {"B": books.compressed(parts)}}
    return {"parts": {"S": parts}}


def spending_attributes(spending: Spending) -> dict[str, AttributeValue]:
    """Return what an entry's item has of the budgets that it was spent from."""
    names: list[AttributeValue] = [{"S": name} for name in spending.grants]
    attributes: dict[str, AttributeValue] = {}
    if names:
        attributes[GRANT] = names[0] if len(names) == 1 else {"L": names}
    if spending.hold is not None:
        attributes[HOLD] = {"N": str(spending.hold)}
    if spending.resolved is not None:
        attributes[RESOLVED] = {"S": spending.resolved}
    return attributes


def spending_of(item: Item) -> Spending | None:
    """Return what an entry's item says of budgets; None if nothing.

    Raises:
        DamagedItem: an attribute is of another kind.
    """
    if GRANT not in item and HOLD not in item:
        return None
    grant = item.get(GRANT, {"L": []})
    try:
        names = [grant] if "S" in grant else grant["L"]
        hold = item[HOLD]["N"] if HOLD in item else None
        return Spending(
            tuple([str(name["S"]) for name in names]),
            None if hold is None else int(hold),
            _text(item, RESOLVED),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(item, f"what it was spent from cannot be read: {error!r}") from None


def entry_of(item: Item) -> Entry:
    """Return the entry that an item holds.

    Raises:
        DamagedItem: an attribute is missing or of another kind.
    """
    partition, sort_key = key_of(item)
    place = keys.counter_of(partition)
    try:
        return Entry(
            counter=place[0] if place else partition,
            id=sort_key,
            change=number_of(item, "change"),
            region=_text(item, "region"),
            note=_text(item, "note"),
            effective=effective_of(item),
            count=count_of(item),
            shard=place[1] if place else 0,
            reverses=_text(item, "reverses"),
            spending=spending_of(item),
            parts=_parts_of(item),
            legs=() if transfers.are_shared(item) else legs_of(item),
            metadata=metadata_in(item.get("metadata")),
        )
    except ValueError as error:
        raise damaged(item, str(error)) from None


def legs_of(item: Item) -> tuple[Leg, ...]:
    """Return what an entry's item moves between accounts of a book, all that share it together.

    Raises:
        DamagedItem: the legs cannot be read, or do not sum to 0.
    """
    try:
        return transfers.legs_in(item["legs"]) if "legs" in item else ()
    except ValueError as error:
        raise damaged(item, str(error)) from None


def checked_metadata(metadata: object) -> dict[str, str]:
    """Return what a caller names of an entry, in the order of the names.

    Raises:
        InvalidEntry: it is not up to 20 texts by name, of 2 KB together, or a name is empty or has
            a character that cannot be seen.
    """
    if not isinstance(metadata, Mapping) or not 0 < len(metadata) <= METADATA_NAMES_MAX:
        raise InvalidEntry(
            f"metadata must be 1 to {METADATA_NAMES_MAX} texts by name, got {metadata!r:.200}"
        )
    for name, text in metadata.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidEntry(f"metadata must be texts by name, got {name!r:.40}: {text!r:.40}")
        if not name or not is_visible(name):
            raise InvalidEntry(f"a name of metadata must be visible characters, got {name[:40]!a}")
    try:
        size = sum(len(f"{name}{text}".encode()) for name, text in metadata.items())
    except UnicodeEncodeError:
        raise InvalidEntry("metadata cannot be encoded in UTF-8") from None
    if size > METADATA_BYTES_MAX:
        raise InvalidEntry(
            f"metadata must have at most {METADATA_BYTES_MAX:,} bytes of names and texts, got"
            f" {size:,}"
        )
    return dict(sorted(metadata.items()))


def metadata_in(attribute: AttributeValue | None) -> Mapping[str, str] | None:
    """Return what an entry's caller named; None if nothing.

    Raises:
        ValueError: it is not a map of texts.
    """
    if attribute is None:
        return None
    try:
        return {name: text["S"] for name, text in attribute["M"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"metadata cannot be read: {error!r}") from None


def _parts_of(item: Item) -> str:
    """Return the changes that share an item; empty if it is one change, or foreign.

    Raises:
        ValueError: the transfers that share it cannot be read.
    """
    if transfers.are_shared(item):
        return transfers.text_in(item["legs"]["B"])
    is_ours = "parts" in item and ids.parse(item["sk"]["S"]) is not None
    return (_text(item, "parts") or "") if is_ours else ""


def effective_of(item: Item) -> date | None:
    """Return the date from which an entry is effective; None if that is when it was made.

    Raises:
        DamagedItem: it is not a date.
    """
    text = _text(item, "effective")
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise damaged(item, str(error)) from None


def net_item(net: NetChange, partition: str) -> dict[str, AttributeValue]:
    """Return the item of a net change in a partition."""
    packed = EntryIds.of(net.merged).packed
    item: dict[str, AttributeValue] = {
        "pk": {"S": partition},
        "sk": {"S": keys.net_sort_key(net.generation)},
        "change": {"N": amounts.to_text(net.change)},
        "count": {"N": str(net.count)},
        "merged": {"B": packed},
        "version": {"S": net.version},
        "until": {"S": net.until},
        "home": {"S": net.home},
        "digest": {"B": _digest(net, partition, packed)},
    }
    if net.periods is not None:
        item["periods"] = {"S": net.periods}
    if net.archive is not None:
        item["archive"] = {"B": net.archive}
    if net.accounts is not None:
        item["accounts"] = {"B": net.accounts}
    return item


def net_of(item: Item) -> NetChange:
    """Return the net change that an item holds.

    A net change that cannot be read whole is never counted in part.

    Raises:
        DamagedItem: an attribute is missing or of another kind, `merged` is damaged, the digest is
            missing or does not match, or the signature does not, where nets are signed.
    """
    if FAULT in item:
        raise damaged(item, str(item[FAULT].get("S")))
    generation = keys.generation_of(item["sk"]["S"])
    packed = item.get("merged", {}).get("B")
    count = _count_in(item)
    version, until, home = _text(item, "version"), _text(item, "until"), _text(item, "home")
    if (
        generation is None
        or version is None
        or until is None
        or home is None
        or not isinstance(packed, bytes)
    ):
        missing = [name for name in ("version", "until", "home") if name not in item]
        wrong = ", ".join(missing) or ("sk" if generation is None else "merged")
        raise damaged(item, f"a net change must have {wrong}")
    try:
        merged = ids.unpack_all(packed)
    except ValueError as error:
        raise damaged(item, f"merged: {error}") from None
    if count < len(merged) or count != int(count):
        raise damaged(
            item,
            f"count must be a whole number of at least {len(merged)} (merged ids), got {count}",
        )
    net = NetChange(
        change=number_of(item, "change"),
        count=int(count),
        merged=merged,
        version=version,
        until=until,
        home=home,
        generation=generation,
        periods=_text(item, "periods"),
        archive=_binary(item, "archive"),
        accounts=_binary(item, "accounts"),
    )
    if "digest" not in item:
        raise damaged(item, "a net change must have digest")
    if item["digest"].get("B") != _digest(net, item["pk"]["S"], packed):
        raise damaged(item, "the digest does not match: an attribute was changed or truncated")
    return net


def _count_in(item: Item) -> int | Decimal:
    """Return the count of a net change, which may not be a whole number.

    Raises:
        DamagedItem: it is missing, or not a number.
    """
    text = item.get("count", {}).get("N")
    if isinstance(text, str) and _COUNT.fullmatch(text):  # nearly always
        return int(text)
    return number_of(item, "count")


def count_of(item: Item) -> int:
    """Return how many changes an entry counts for; 1 if a foreign `count` is not a number."""
    text = item.get("count", {}).get("N")
    return int(text) if isinstance(text, str) and _COUNT.fullmatch(text) else 1


def _digest(net: NetChange, partition: str, packed: bytes) -> bytes:
    """Return the digest that reveals a net change that was altered, or truncated between ids."""
    texts = [
        partition,
        keys.net_sort_key(net.generation),
        amounts.to_text(net.change),
        str(net.count),
        net.version,
        net.until,
        net.home,
    ]
    if net.periods is not None:
        texts.append(net.periods)
    parts = [text.encode() for text in texts]
    head = b"".join([len(part).to_bytes(2, "big") + part for part in parts])
    if net.accounts is not None:
        head += _ACCOUNTS + len(net.accounts).to_bytes(4, "big") + net.accounts
    if net.archive is not None:
        head += _ARCHIVE + net.archive
    return hashlib.sha256(head + packed).digest()[:DIGEST_BYTES]


def number_of(item: Item, name: str) -> Decimal:
    """Return the exact value of a number attribute.

    Raises:
        DamagedItem: it is missing, not a number, or has over 38 digits.
    """
    text = item.get(name, {}).get("N")
    if not isinstance(text, str):
        raise damaged(item, f"{name} must be a number (N)")
    try:
        return amounts.parse(text)
    except (InvalidAmount, ValueError) as error:
        raise damaged(item, f"{name}: {error}") from None


def checked_size(entry: Entry, size: int) -> None:
    """Refuse an entry whose item is over DynamoDB's limit of 400 KB.

    Raises:
        InvalidEntry: `size` is over the limit; nothing was written.
    """
    if size > ITEM_BYTES_MAX:
        raise InvalidEntry(
            f"entry of counter {entry.counter[:40]!r} must have at most {ITEM_BYTES_MAX:,} bytes,"
            f" got {size:,} bytes; shorten the note"
        )


def damaged(item: Item, reason: str) -> DamagedItem:
    """Return an error that names the item and the reason."""
    partition, sort_key = key_of(item)
    return DamagedItem(f"item {sort_key!r} of counter {partition!r} is damaged: {reason}")


def _text(item: Item, name: str) -> str | None:
    value = item.get(name)
    if value is None:
        return None
    text = value.get("S")
    if not isinstance(text, str):
        raise damaged(item, f"{name} must be a string (S)")
    return text


def _binary(item: Item, name: str) -> bytes | None:
    value = item.get(name)
    if value is None:
        return None
    found = value.get("B")
    if not isinstance(found, bytes):
        raise damaged(item, f"{name} must be binary (B)")
    return found
