"""The port to the table: operations as frozen values, outcomes of writes, conditions.

Every part of the ledger reads and writes one region's table through a `Store` and through nothing
else. A write ends in one of three ways:

- `Applied`: it is durable in this region;
- `Rejected`: its condition was false; nothing was written;
- `Unknown`: no answer, or a 5xx. It may have been applied, may not have been, and may yet be: a
  request that is still in flight can land later. Repeating it is the caller's choice.

What is known not to have been applied is repeated by the store itself, within a bound (throttling,
transaction conflicts, connections never made, unprocessed items of a batch), and after that raised
as a `StoreError`: no `StoreError` raised by a write leaves anything written by that call.
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal, NamedTuple, Protocol

from ledger.core.entry import AttributeValue, Item, Key, key_of
from ledger.core.errors import RequestRefused

_OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
BATCH_WRITES_MAX = 25
TRANSACTION_ACTIONS_MAX = 100
TOKEN_SECONDS = 600.0
"""How long DynamoDB knows the token of a transaction, in its region."""


@dataclass(frozen=True, slots=True)
class Absent:
    """The item is not there."""


@dataclass(frozen=True, slots=True)
class Equals:
    """The item is there and this attribute has this value."""

    attribute: str
    value: AttributeValue


@dataclass(frozen=True, slots=True)
class Has:
    """The item is there and has this attribute."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Compares:
    """The item is there, and this attribute's number or text stands so to the value's."""

    attribute: str
    operator: Literal["<", "<=", ">", ">="]
    value: AttributeValue


@dataclass(frozen=True, slots=True)
class Contains:
    """The item is there, and this attribute is a set or list with the value in it."""

    attribute: str
    value: AttributeValue


@dataclass(frozen=True, slots=True)
class Shorter:
    """The item is there, and this attribute, a set or list, has fewer than `size` elements."""

    attribute: str
    size: int


@dataclass(frozen=True, slots=True)
class Not:
    """The condition is false; so it is of what is not there, for all but `Absent`."""

    condition: "Condition"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every one of these conditions is true."""

    conditions: tuple["Condition", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of these conditions is true."""

    conditions: tuple["Condition", ...]


Condition = Absent | Equals | Has | Compares | Contains | Shorter | Not | AllOf | AnyOf


def holds(condition: Condition | None, item: Item | None) -> bool:  # noqa: C901, PLR0911 (one line a kind)
    """Tell whether a condition is true of the item that is there, or of its absence."""
    present = item or {}
    match condition:
        case None:
            return True
        case Absent():
            return item is None
        case Equals(attribute, value):
            return _same(present.get(attribute), value)
        case Has(attribute):
            return attribute in present
        case Compares(attribute, relation, value):
            return _compares(present.get(attribute), relation, value)
        case Contains(attribute, value):
            return _contains(present.get(attribute, {}), value)
        case Shorter(attribute, size):
            return attribute in present and _length(present[attribute]) < size
        case Not(inner):
            return not holds(inner, item)
        case AllOf(conditions):
            return all(holds(one, item) for one in conditions)
        case AnyOf(conditions):
            return any(holds(one, item) for one in conditions)


def _compares(found: AttributeValue | None, relation: str, value: AttributeValue) -> bool:
    """Compare two numbers by their value, or two texts by their bytes; other kinds never hold."""
    ((kind, content),) = value.items()
    if found is None or kind not in found:
        return False
    one, other = (
        Decimal(text) if kind == "N" else text.encode() for text in (found[kind], content)
    )
    return bool(_OPERATORS[relation](one, other))


def _contains(found: AttributeValue, value: AttributeValue) -> bool:
    if "L" in found:
        return any(_same(one, value) for one in found["L"])
    ((kind, content),) = value.items()
    elements = found.get(f"{kind}S", ())
    return any(_same({kind: one}, {kind: content}) for one in elements)


def _length(found: AttributeValue) -> int:
    """Return how many elements a set or list has; of text, how many bytes."""
    ((kind, content),) = found.items()
    return len(content.encode() if kind == "S" else content)


def _same(one: AttributeValue | None, other: AttributeValue) -> bool:
    """Compare as DynamoDB does: numbers by their value, not by how they are written."""
    if one is not None and "N" in one and "N" in other:
        return Decimal(one["N"]) == Decimal(other["N"])
    return one == other


class Put(NamedTuple):
    """Put a whole item in place of whatever is there.

    `replaces_bytes` is the size of what is there, if known, for cost: the larger is charged.
    `not_after` is until when its request may be signed: one that would be signed later is not
    sent, and its outcome is `Unknown`. With `returns_old` a single write's `Applied` has the item
    that was replaced. (A tuple, since it is made in half the time of a dataclass, once for every
    change.)
    """

    item: Item
    condition: Condition | None = None
    replaces_bytes: int = 0
    not_after: datetime | None = None
    returns_old: bool = False

    @property
    def key(self) -> Key:
        """Partition and sort key of the item."""
        return key_of(self.item)


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an item; no error if it is not there. `size_bytes` is its size, if known, for cost."""

    key: Key
    condition: Condition | None = None
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Update:
    """Add to attributes, set and remove others; makes the item if it is not there.

    To `add` a number adds it, to `add` a set adds its elements, to `discard` a set takes its
    elements out, and the attribute away with the last; `remove` names attributes. `not_after` as
    in `Put`; it is no part of the request, so a token stands for the update at any time.
    """

    key: Key
    add: Mapping[str, AttributeValue] = field(default_factory=dict)
    set: Mapping[str, AttributeValue] = field(default_factory=dict)
    discard: Mapping[str, AttributeValue] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    condition: Condition | None = None
    not_after: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing; the transaction stands only if the condition is true."""

    key: Key
    condition: Condition


Write = Put | Delete | Update
BatchWrite = Put | Delete
Action = Put | Delete | Update | Check


@dataclass(frozen=True, slots=True)
class Applied:
    """The write is durable in this region.

    `item` is the new item after an `Update`, and the old one after a `Put` that asked for it.
    """

    item: Item | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A condition was false, so nothing was written.

    `found` maps the position of each failed action (0 for a single write) to the item that was
    there, None for no item.
    """

    found: Mapping[int, Item | None]


@dataclass(frozen=True, slots=True)
class Unknown:
    """No answer: the write may have been applied, or may yet be. `cause` is one line."""

    cause: str


Outcome = Applied | Rejected | Unknown


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of a batch, by position; what is in neither list was applied.

    `unprocessed` were not written, after every try allowed; `unknown` may have been. `write_units`
    is DynamoDB's own count, None where it gave none.
    """

    unprocessed: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()
    cause: str = ""
    write_units: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a Query or Scan; `after` is where the next begins, None at the end.

    `read_units` is DynamoDB's own count where it was asked for: with a projection the size of
    what was read cannot be told from what came back.
    """

    items: Sequence[Item]
    after: Key | None = None
    read_units: float | None = None


class Store(Protocol):
    """One region's table.

    Reads are repeated by the store within its bound, then raise `Unreachable` or `Throttled`.
    Any method may raise `AccessDenied`, `TableMissing` or `RequestRefused`.
    """

    @property
    def region(self) -> str:
        """The region that this store reads and writes."""

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do up to 25 unconditional writes of different items, each on its own."""

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do up to 100 actions on different items, all or none, in this region.

        `token` makes repeats within ten minutes harmless, in this region.
        """

    async def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        """Read one item, None if it is not there."""

    async def query(
        self,
        partition: str,
        *,
        consistent: bool = True,
        after: Key | None = None,
        first: str | None = None,
        last: str | None = None,
        attributes: Sequence[str] = (),
        limit: int | None = None,
        descending: bool = False,
    ) -> Page:
        """Read one page of a partition in ascending, or descending, order of sort keys.

        `first` and `last` bound the sort keys, both included. `attributes` names what comes back;
        empty for everything.
        """

    async def scan(
        self,
        *,
        segment: int = 0,
        segments: int = 1,
        after: Key | None = None,
        attributes: Sequence[str] = (),
        limit: int | None = None,
    ) -> Page:
        """Read one page of one segment of the table, eventually consistent.

        All items of a partition lie in one segment and follow each other. `attributes` names
        what comes back; empty for everything.
        """

    async def close(self) -> None:
        """Give back connections; the store is not used afterwards."""


_SIGNED_BY = (Put, Update)


def signed_by(actions: Sequence[Action]) -> datetime | None:
    """Return until when a request of these actions may be signed, None for any time."""
    limits = {action.not_after for action in actions if isinstance(action, _SIGNED_BY)}
    limits.discard(None)
    return min(limits, default=None)  # type: ignore[type-var]


def checked_actions(actions: Sequence[Action], most: int) -> None:
    """Refuse a request that DynamoDB would refuse: too many actions, or two on one item.

    Raises:
        RequestRefused: nothing was sent.
    """
    if not 1 <= len(actions) <= most:
        raise RequestRefused(f"{len(actions)} actions in one request: the limit is 1 to {most}")
    if len({action.key for action in actions}) < len(actions):
        raise RequestRefused("two actions of one request are on the same item")
