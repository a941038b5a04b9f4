"""The layout of a counter: the kind of its items, and how many there are.

It is kept in one item for each counter. Each change of it has a number, the revision; the items of
the shards carry the revision they belong to, and every write to one is conditional on it::

    announce   the layout's item: pending = the new one      if the revision is n, nothing pending
    freeze     each shard: layout = -(n + 1)                 if it is less; writes are refused now
    read       all shards, which cannot change any more
    finish     one transaction: revision n + 1; each shard its portion, and layout = n + 1

A caller that meets a frozen shard does the rest, so a process may end between any two steps. A
request of an old layout is refused whenever it arrives, as no revision comes again. Items of shards
are therefore never deleted: those that are no longer used stay frozen, with a value of 0.

Revision 0 is that of items without the attribute: of new counters.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from ledger.core import amounts
from ledger.core.entry import AttributeValue, Item, Key, damaged, number_of
from ledger.core.errors import AmountOverflow, DamagedItem, InvalidInput
from ledger.core.keys import COUNT_PREFIX
from ledger.primitives.counters.thresholds import VALUE, ThresholdPart, Thresholds
from ledger.store import writes
from ledger.store.conditions import AllOf, AnyOf, Compares, Condition, Equals, Has, Not
from ledger.store.writes import TRANSACTION_ACTIONS_MAX

_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]")
LAYOUT = "layout"
"""Sort key of a layout's item; in the item of a shard, the attribute with its revision."""
MOVES = "moves"
"""Attribute of a shard: how often pieces were moved between the shards of this revision."""
SHARDS_MAX = TRANSACTION_ACTIONS_MAX - 4
"""One transaction finishes a change of layout: all items, old and new, and the layout's own."""
EARLIER_MAX = 4
"""How many earlier numbers of shards are remembered, to find a token's earlier shard."""
KINDS = ("sum", "optimistic", "history", "slots")
KIND_METHODS: Mapping[str, str] = {
    "sum": "atomic, atomic-once, client-token or marker",
    "optimistic": "optimistic",
    "history": "history",
    "slots": "slots",
}


class Shape(NamedTuple):
    """The kind of a counter's items, how many there are, and the region that writes them.

    No `region`: of a counter used without a `Table`, or asked for without one.
    """

    kind: str
    shards: int
    region: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a counter is stored; `pending` is the shape that a change under way will give it.

    `earlier` are numbers of shards that tokens were placed by before, the latest first.
    """

    kind: str
    shards: int
    revision: int = 0
    earlier: tuple[int, ...] = ()
    pending: Shape | None = None
    region: str = ""
    handed: int = 0
    """When the region took it over from another, in seconds since 1970; 0 if it never did."""

    @property
    def shape(self) -> Shape:
        """Kind, number of shards, and region."""
        return Shape(self.kind, self.shards, self.region)

    def all_limits(self, whole: Thresholds) -> list[Thresholds]:
        """Return each shard's part of the thresholds."""
        return [whole.part(shard, self.shards) for shard in range(self.shards)]

    def parts(self, whole: Thresholds, shares: Mapping[int, Decimal]) -> list[ThresholdPart]:
        """Return what each shard's item is to be changed by, within its part of the thresholds."""
        return [
            ThresholdPart(shard, change, whole.part(shard, self.shards), self.revision)
            for shard, change in shares.items()
        ]

    def changed(self, shape: Shape, *, at: int = 0) -> "Layout":
        """Return the layout after this one; `at` is when, for one that another region writes."""
        earlier = [shards for shards in (self.shards, *self.earlier) if shards != shape.shards]
        return Layout(
            shape.kind,
            shape.shards,
            self.revision + 1,
            tuple(dict.fromkeys(earlier))[:EARLIER_MAX],
            region=shape.region,
            handed=self.handed if shape.region == self.region else at,
        )


class LayoutMoved(Exception):
    """A write was refused since the layout it knew is not, or not for long, the table's.

    Nothing of it is written, nor will be, unless `doubt` names what may have been before.
    """

    def __init__(self, doubt: str | None = None) -> None:
        super().__init__(doubt)
        self.doubt = doubt


def shard_key(name: str, shard: int, kind: str) -> Key:
    """Return the key of a shard's item: each has its own partition."""
    return f"{COUNT_PREFIX}~{shard}~{name}", kind


def layout_key(name: str) -> Key:
    """Return the key of the layout's item."""
    return f"{COUNT_PREFIX}~shards~{name}", LAYOUT


def layout_item(name: str, layout: Layout) -> Item:
    """Return the item of a layout."""
    partition, sort_key = layout_key(name)
    return {"pk": {"S": partition}, "sk": {"S": sort_key}, **_attributes(layout)}


def layout_of(item: Item) -> Layout:
    """Return the layout that an item holds.

    Raises:
        DamagedItem: it is not in our form.
    """
    try:
        pending = item.get("pending")
        return Layout(
            item["kind"]["S"],
            int(number_of(item, "shards")),
            int(number_of(item, "revision")),
            tuple(int(one["N"]) for one in item["earlier"]["L"]),
            None if pending is None else _shape_of(pending["M"]),
            _region_of(item),
            _whole(item, "handed"),
        )
    except (KeyError, ValueError, TypeError):
        raise damaged(item, "it is not in the form of a counter's layout") from None


def revision_of(item: Item | None) -> int:
    """Return the revision that a shard's item belongs to; below 0, it is frozen before that."""
    return _whole(item, LAYOUT)


def moves_of(item: Item | None) -> int:
    """Return how often pieces were moved between this shard and the others."""
    return _whole(item, MOVES)


def stands(attribute: str, number: int) -> Condition:
    """Return the condition that a number of an item, 0 where it is missing, is this one."""
    return Equals(attribute, {"N": str(number)}) if number else Not(Has(attribute))


def both(one: Condition, other: Condition | None) -> Condition:
    """Return the condition that both are true."""
    return one if other is None else AllOf((one, other))


def is_readable(item: Item | None, revision: int) -> bool:
    """Return whether an item holds a value of this revision, frozen at its end or not."""
    return revision_of(item) in (revision, -(revision + 1))


def is_missing(items: Iterable[Item | None], layout: Layout) -> bool:
    """Return whether an item of a layout, read after the layout, is of a layout before.

    One transaction turns all of them, so only replication shows the layout without its items.
    """
    revisions = set(map(revision_of, items)) - {layout.revision}
    return any(abs(revision) <= layout.revision for revision in revisions)


def value_of(item: Item | None) -> Decimal:
    """Return the value of an item; one that is not there is 0."""
    return number_of(item, VALUE) if item is not None and VALUE in item else Decimal(0)


def counted(
    name: str, layout: Layout, items: Mapping[Key, Item | None], *, region: str = ""
) -> list[Decimal]:
    """Return the values that count in this region, of all items that a change of layout touches.

    Items outside of the layout are empty where they were emptied. In another region such an item
    may not have arrived, and shows a value that is counted elsewhere by now::

        us-east-1   8 shards made 2: shard 5 emptied ── hand over ──> layout, shards 0 and 1
                                       shard 5 ────────────────────────────> later, or lost

    So only the items of the layout count there. In a region that alone has written the counter the
    others may hold a value of another kind: of another tool, or of a first change elsewhere.
    """
    is_complete = not layout.handed and layout.region in {"", region}
    keys = items if is_complete else shard_keys(name, layout.shape)
    return [value_of(items[key]) for key in keys]


def announcement(name: str, layout: Layout, shape: Shape) -> writes.Update:
    """Return the write that begins a change of layout, if none is under way."""
    return writes.Update(
        layout_key(name),
        set={"pending": _shape_value(shape)},
        condition=AllOf((_at(layout.revision), Not(Has("pending")))),
    )


def claim(name: str, region: str) -> writes.Update:
    """Return the write that names the region of a counter that has none yet."""
    return writes.Update(
        layout_key(name),
        set={"region": {"S": region}},
        condition=AllOf((Has("kind"), Not(Has("region")))),
    )


def freeze(key: Key, revision: int) -> writes.Update:
    """Return the write after which a shard takes no change of this revision or an earlier one."""
    frozen = revision + 1
    older = AllOf(
        (
            Compares(LAYOUT, ">", {"N": str(-frozen)}),
            Compares(LAYOUT, "<", {"N": str(frozen)}),
        )
    )
    return writes.Update(
        key,
        set={LAYOUT: {"N": str(-frozen)}},
        condition=AnyOf((Not(Has(LAYOUT)), older)),
    )


def finishing(
    name: str,
    layout: Layout,
    frozen: Mapping[Key, Item | None],
    *,
    at: int = 0,
    region: str = "",
) -> list[writes.Action]:
    """Return the transaction that finishes a change now, given all items of both shapes, frozen.

    A sum that 38 digits cannot hold is left where it is: the counter then keeps its shards.
    """
    shape = layout.pending or layout.shape
    try:
        total = amounts.total(counted(name, layout, frozen, region=region))
        after, touched = layout.changed(shape, at=at), list(frozen)
        values = portions(total, shape.shards)
    except AmountOverflow:
        kept = layout.shape._replace(region=shape.region)
        after, touched = layout.changed(kept, at=at), shard_keys(name, layout.shape)
        values = [value_of(frozen[key]) for key in touched]
    new = dict(zip(shard_keys(name, after.shape), values, strict=True))
    turned = writes.Update(
        layout_key(name),
        set=_attributes(after),
        remove=("pending",),
        condition=AllOf((_at(layout.revision), Has("pending"))),
    )
    return [turned, *(_settled(key, new.get(key), after, frozen[key]) for key in touched)]


def shard_keys(name: str, shape: Shape) -> list[Key]:
    """Return the keys of all items of a shape."""
    return [shard_key(name, shard, shape.kind) for shard in range(shape.shards)]


def portions(total: Decimal, shards: int) -> list[Decimal]:
    """Return the even portions of a value, in whole units as far as it has them."""
    return [amounts.whole_portion(total, shard, shards) for shard in range(shards)]


def checked_change(name: str, layout: Layout, shape: Shape) -> None:
    """Raise unless the layout can be changed so.

    Raises:
        InvalidInput: slots stay as they are, or one transaction cannot change that many items.
    """
    is_moved_only = layout.shape[:2] == shape[:2]
    if "slots" in (layout.kind, shape.kind) and not is_moved_only:
        raise InvalidInput(
            f"counter {name!r}: a set of slots keeps its method and its {layout.shards} shard(s),"
            f" got {KIND_METHODS[shape.kind]!r} with {shape.shards}"
        )
    items = max(layout.shards, shape.shards)
    if shape.kind != layout.kind:
        items = layout.shards + shape.shards
    if items > SHARDS_MAX:
        raise InvalidInput(
            f"counter {name!r}: one transaction changes a layout, of up to {SHARDS_MAX} items;"
            f" from {layout.shards} of kind {layout.kind!r} to {shape.shards} of kind"
            f" {shape.kind!r} there are {items}"
        )


def _settled(key: Key, value: Decimal | None, after: Layout, frozen: Item | None) -> writes.Update:
    """Return what becomes of one item: a shard of the new layout, or one no longer used."""
    if value is None:
        # Frozen for the next change already: who still knows the layout before must not take what
        # is left for a value that was frozen at its end.
        nothing = {VALUE: {"N": "0"}} if value_of(frozen) else {}
        return writes.Update(key, set={**nothing, LAYOUT: {"N": str(-after.revision - 1)}})
    return writes.Update(
        key,
        set={VALUE: {"N": amounts.to_text(value)}, LAYOUT: {"N": str(after.revision)}},
        remove=(MOVES,),
        condition=Equals(LAYOUT, {"N": str(-after.revision)}),
    )


def _at(revision: int) -> Condition:
    return Equals("revision", {"N": str(revision)})


def _attributes(layout: Layout) -> dict[str, AttributeValue]:
    return {
        "kind": {"S": layout.kind},
        "shards": {"N": str(layout.shards)},
        "revision": {"N": str(layout.revision)},
        "earlier": {"L": [{"N": str(shards)} for shards in layout.earlier]},
        **({"region": {"S": layout.region}} if layout.region else {}),
        **({"handed": {"N": str(layout.handed)}} if layout.handed else {}),
    }


def _shape_value(shape: Shape) -> AttributeValue:
    region = {"region": {"S": shape.region}} if shape.region else {}
    return {"M": {"kind": {"S": shape.kind}, "shards": {"N": str(shape.shards)}, **region}}


def _shape_of(value: Item) -> Shape:
    return Shape(value["kind"]["S"], int(value["shards"]["N"]), _region_of(value))


def _region_of(item: Item) -> str:
    return str(item.get("region", {}).get("S", ""))


def _whole(item: Item | None, attribute: str) -> int:
    if item is None or attribute not in item:
        return 0
    try:
        return int(number_of(item, attribute))
    except (DamagedItem, ValueError):
        raise damaged(item, f"{attribute} is not a whole number") from None


def checked_shards(shards: int) -> int:
    """Return a number of shards.

    Raises:
        InvalidInput: it is not a whole number, or not within 1 to `SHARDS_MAX`.
    """
    whole = isinstance(shards, int) and not isinstance(shards, bool)
    if not (whole and 1 <= shards <= SHARDS_MAX):
        raise InvalidInput(f"shards must be a whole number from 1 to {SHARDS_MAX}, got {shards!r}")
    return shards


def checked_region(region: object) -> None:
    """Return if a counter may belong to a region of this name.

    Raises:
        InvalidInput: no region has such a name, so no process could go on writing there.
    """
    if not isinstance(region, str) or not _REGION.fullmatch(region):
        raise InvalidInput(f"region must be a name such as eu-west-1, got {region!r:.80}")


def kind_among(kinds: Sequence[str], wanted: str) -> str | None:
    """Return which of the kinds found in the table a caller uses; None if there are none."""
    return wanted if wanted in kinds else next(iter(kinds), None)
