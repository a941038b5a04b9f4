"""Segments: the entries of one fold, whole, and their links to earlier ones.

A segment is a header and a line for each entry, JSON Lines. Its digest covers the header's content
and each entry; its chain is SHA-256(chain of the previous segment + digest), and the head of the
chain is in the net change of the collection. For a note the digest covers only SHA-256(salt +
note), so a note can be erased with its salt without breaking the chain: without the salt the rest
reveals nothing.

Pure: no clock, no randomness, no I/O.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import Any

import orjson

from ledger.core import amounts, books, ids, keys, transfers
from ledger.core.archive_pointers import (
    CHAIN_BYTES,
    ArchiveState,
    Pointer,
    PointerPlace,
    followed,
    pack_pointers,
    unpack_pointers,
)
from ledger.core.entry import Item, count_of, entry_item, metadata_in
from ledger.core.errors import ArchiveDamaged
from ledger.core.fold import COPIES
from ledger.core.ids import EPOCH, MICROSECOND
from ledger.core.values import Entry, Leg, NetChange

SALT_BYTES = 16
_OWN = {"pk", "sk", "change", "count"}
_TEXTS = ("region", "effective", "note", "reverses")
_ERASED = "gone"
NOTE_DIGEST_CHARACTERS = 32
"""The length of a salt: the rest of an erased note must not take more room than the note."""


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of a segment; `note_digest` is SHA-256(salt + note), cut to 32 hexadecimal digits.

    `note` and `salt` are None if there was no note, or if it was erased. `other` has further
    attributes, in DynamoDB's JSON.
    """

    id: str
    change: Decimal
    region: str | None = None
    effective: str | None = None
    count: int = 1
    note: str | None = None
    salt: str | None = None
    note_digest: str | None = None
    reverses: str | None = None
    other: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_erased(self) -> bool:
        """Whether it had a note that was erased."""
        return self.note is None and self.note_digest is not None

    @property
    def parts(self) -> str:
        """The changes that share the item, as `ledger.core.parts` writes them."""
        if transfers.are_shared(self.other):
            return transfers.text_in(self._legs["B"])
        return str(self.other.get("parts", {}).get("S", ""))

    @property
    def legs(self) -> tuple[Leg, ...]:
        """What it moves between accounts, all transfers that share the item together."""
        return transfers.legs_in(self._legs) if self._legs else ()

    @property
    def _legs(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.other.get("legs", {})
        return _from_json(found) if transfers.are_shared(self.other) else found

    def digest(self) -> bytes:
        """Return the digest of everything but the note itself."""
        parts = [
            self.id,
            amounts.to_text(self.change),
            self.region,
            self.effective,
            self.count,
            self.note_digest,
            self.reverses,
            self.other,
        ]
        return hashlib.sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).digest()

    def entry(self, counter: str, shard: int) -> Entry:
        """Return it as an entry of its counter."""
        effective = None if self.effective is None else date.fromisoformat(self.effective)
        parts = self.parts
        return Entry(
            counter=counter,
            id=self.id,
            change=self.change,
            region=self.region,
            note=self.note,
            effective=effective,
            count=self.count,
            shard=shard,
            reverses=self.reverses,
            parts=parts,
            legs=() if transfers.is_text(parts) else self.legs,
            metadata=metadata_in(self.other.get("metadata")),
        )


@dataclass(frozen=True, slots=True)
class Segment:
    """The entries of one fold of a collection, in the order of their ids.

    `base_change` and `base_count` are what was merged before the archive began, up to `since`;
    `change` and `count` the net's with this fold, as `accounts`, if it is a book's; `version` is
    that net's.
    """

    partition: str
    number: int
    previous: bytes
    version: str
    since: str
    base_change: Decimal
    base_count: int
    change: Decimal
    count: int
    pointers: tuple[Pointer, ...]
    lines: tuple[Line, ...]
    accounts: bytes | None = None
    _digest: bytes = field(default=b"", init=False, repr=False, compare=False)
    """Cached after the first use: it takes longer than all the rest."""

    @property
    def first(self) -> int:
        """The earliest time of an entry, in microseconds since 1970."""
        return microseconds(self.lines[0].id)

    @property
    def last(self) -> int:
        """The latest time of an entry, in microseconds since 1970."""
        return microseconds(self.lines[-1].id)

    @property
    def balances(self) -> books.Accounts:
        """The balances of a book with this fold; none of another counter."""
        return {} if self.accounts is None else books.unpacked(self.accounts)

    @property
    def before_balances(self) -> books.Accounts:
        """The balances of a book before this fold."""
        return books.before(self.balances, (line.legs for line in self.lines))

    @property
    def before_change(self) -> Decimal:
        """The net's sum before this fold."""
        changes = [line.change.copy_negate() for line in self.lines]
        return amounts.total_wide([self.change, *changes])

    def digest(self) -> bytes:
        """Return the digest of header and entries."""
        if not self._digest:
            head = orjson.dumps(self.said(), option=orjson.OPT_SORT_KEYS)
            whole = hashlib.sha256(head + b"".join(line.digest() for line in self.lines))
            object.__setattr__(self, "_digest", whole.digest())
        return self._digest

    def chain(self) -> bytes:
        """Return the hash of this segment and all before it."""
        return hashlib.sha256(self.previous + self.digest()).digest()

    def said(self) -> dict[str, Any]:
        """Return the content of the header, without digest and chain."""
        return {
            "partition": self.partition,
            "segment": self.number,
            "previous": self.previous.hex(),
            "version": self.version,
            "since": self.since,
            "base": {"change": amounts.to_text(self.base_change), "count": self.base_count},
            "change": amounts.to_text(self.change),
            "count": self.count,
            "pointers": base64.b64encode(pack_pointers(self.pointers)).decode(),
            "entries": len(self.lines),
            **({} if self.accounts is None else {"accounts": _binary(self.accounts)}),
        }

    def entries(self) -> list[Entry]:
        """Return its entries."""
        place = keys.counter_of(self.partition)
        counter, shard = place or (self.partition, 0)
        return [line.entry(counter, shard) for line in self.lines]


def segment_of(
    partition: str,
    before: ArchiveState,
    items: Sequence[Item],
    salts: Sequence[bytes],
    *,
    fold: NetChange,
) -> Segment:
    """Return the segment of a fold: whole items in the order of their ids, a salt for each.

    `fold` is the net that it makes.
    """
    lines = tuple(_line(item, salt) for item, salt in zip(items, salts, strict=True))
    return Segment(
        partition=partition,
        number=before.number + 1,
        previous=before.chain,
        version=fold.version,
        since=before.since,
        base_change=before.base_change,
        base_count=before.base_count,
        change=fold.change,
        count=fold.count,
        pointers=before.pointers,
        lines=lines,
        accounts=fold.accounts,
    )


def head_with(
    before: ArchiveState, segment: Segment, place: PointerPlace, *, settled: int
) -> ArchiveState:
    """Return the net's head once this segment, at a place, follows the earlier ones."""
    return followed(
        before,
        place,
        segment.chain(),
        first=segment.first,
        last=segment.last,
        settled=settled,
    )


def microseconds(sort_key: str) -> int:
    """Return the time of an id of ours, in microseconds since 1970."""
    return (ids.moment_of(sort_key) - EPOCH) // MICROSECOND


def to_lines(segment: Segment) -> bytes:
    """Return a segment as JSON Lines, the header first."""
    header = {
        **segment.said(),
        "digest": segment.digest().hex(),
        "chain": segment.chain().hex(),
    }
    return b"".join(
        orjson.dumps(each) + b"\n" for each in (header, *map(_line_values, segment.lines))
    )


def of_lines(text: bytes, what: str) -> Segment:
    """Return the segment that `to_lines` wrote, its digest and chain checked.

    Raises:
        ArchiveDamaged: it cannot be read, or was changed; `what` names it.
    """
    try:
        header, *rows = map(orjson.loads, text.splitlines())
        segment = Segment(
            partition=header["partition"],
            number=int(header["segment"]),
            previous=bytes.fromhex(header["previous"]),
            version=header["version"],
            since=header["since"],
            base_change=amounts.parse(header["base"]["change"]),
            base_count=int(header["base"]["count"]),
            change=amounts.parse(header["change"]),
            count=int(header["count"]),
            pointers=unpack_pointers(base64.b64decode(header["pointers"], validate=True)),
            lines=tuple(map(_line_of, rows)),
            accounts=_of_base64(header.get("accounts")),
        )
        is_whole = segment.said() == {name: header[name] for name in segment.said()}
        is_ours = (segment.digest().hex(), segment.chain().hex()) == (
            header["digest"],
            header["chain"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArchiveDamaged(f"{what} is damaged: it cannot be read: {error!r}") from None
    if not (is_whole and is_ours and segment.lines and len(segment.previous) == CHAIN_BYTES):
        raise ArchiveDamaged(f"{what} is damaged: its digest is not that of what it holds")
    return segment


def item_of(line: Line, partition: str) -> Item:
    """Return the item of an entry, with all that it said, in its collection."""
    counter, shard = keys.counter_of(partition) or (partition, 0)
    other = {name: _from_json(value) for name, value in line.other.items()}
    return {**entry_item(line.entry(counter, shard)), **other}


def erased(segment: Segment, entries: set[str]) -> Segment:
    """Return a segment without the notes of some entries; digest and chain are the same."""
    lines = tuple(
        replace(line, note=None, salt=None) if line.id in entries else line
        for line in segment.lines
    )
    return replace(segment, lines=lines)


def _line(item: Item, salt: bytes) -> Line:
    known = {name: text for name in _TEXTS if (text := item.get(name, {}).get("S")) is not None}
    taken = {*known, *_OWN, COPIES}
    other = {name: value for name, value in item.items() if name not in taken}
    note = known.get("note")
    return Line(
        id=item["sk"]["S"],
        change=amounts.parse(item["change"]["N"]),
        region=known.get("region"),
        effective=known.get("effective"),
        count=count_of(item),
        note=note,
        salt=None if note is None else salt.hex(),
        note_digest=None if note is None else _note_digest(salt, note),
        reverses=known.get("reverses"),
        other=orjson.loads(orjson.dumps(other, default=_binary)),
    )


def _binary(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    raise TypeError(f"{value!r} has no form as JSON")


def _from_json(attribute: Mapping[str, Any]) -> dict[str, Any]:
    """Return an attribute as DynamoDB has it: an archive has bytes as text."""
    ((kind, value),) = attribute.items()
    if kind == "B":
        return {kind: base64.b64decode(value, validate=True)}
    if kind == "BS":
        return {kind: [base64.b64decode(each, validate=True) for each in value]}
    if kind == "M":
        return {kind: {name: _from_json(each) for name, each in value.items()}}
    return {kind: [_from_json(each) for each in value] if kind == "L" else value}


def _of_base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


def _note_digest(salt: bytes, note: str) -> str:
    return hashlib.sha256(salt + note.encode()).hexdigest()[:NOTE_DIGEST_CHARACTERS]


def _line_values(line: Line) -> dict[str, Any]:
    values: dict[str, Any] = {"id": line.id, "change": amounts.to_text(line.change)}
    for name in ("region", "effective", "note", "salt", "reverses"):
        if (value := getattr(line, name)) is not None:
            values[name] = value
    if line.count != 1:
        values["count"] = line.count
    if line.note_digest is not None and line.note is None:
        values[_ERASED] = line.note_digest
    if line.other:
        values["other"] = line.other
    return values


def _line_of(text: Mapping[str, Any]) -> Line:
    note, salt = text.get("note"), text.get("salt")
    digest = text.get(_ERASED)
    if note is not None:
        digest = _note_digest(bytes.fromhex(salt or ""), note)
    line = Line(
        id=text["id"],
        change=amounts.parse(text["change"]),
        region=text.get("region"),
        effective=text.get("effective"),
        count=text.get("count", 1),
        note=note,
        salt=salt,
        note_digest=digest,
        reverses=text.get("reverses"),
        other=text.get("other", {}),
    )
    if _line_values(line) != text:
        raise ValueError(f"line {text!r} has fields that an entry does not have")
    return line
