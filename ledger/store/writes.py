"""Writes of the port as values, and their outcomes.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal, NamedTuple, overload

from ledger.core.capacity import item_size
from ledger.core.entry import AttributeValue, Item, Key, key_of
from ledger.core.errors import InvalidInput, RequestRefused, StoreError
from ledger.core.tokens import Marker
from ledger.store.conditions import Absent, Condition

BATCH_WRITES_MAX = 25
EACH_WRITES_MAX = 25
TRANSACTION_ACTIONS_MAX = 100
REQUEST_TOKEN_CHARACTERS_MAX = 36
TOKEN_SECONDS = 600.0
"""How long DynamoDB remembers the token of a transaction, in its region."""


class Put(NamedTuple):
    """Put a whole item, replacing any that exists.

    `replaces_bytes` is the size of the existing item, if known, for cost: the larger is charged.
    `not_after` is the last time at which its request may be signed: a later one is not sent, and
    raises `SignedTooLate`. With `returns_old` a single write's `Applied` has the replaced item.
    `as_statement` is only for a put on `Absent`, alone or with others of its kind: it is sent as
    an INSERT, which a policy can allow without PutItem, and does not return an existing item.
    (A tuple, because one is made for every change, in half the time of a dataclass.)
    """

    item: Item
    condition: Condition | None = None
    replaces_bytes: int = 0
    not_after: datetime | None = None
    returns_old: bool = False
    as_statement: bool = False

    @property
    def key(self) -> Key:
        """Partition and sort key of the item."""
        return key_of(self.item)


class Delete(NamedTuple):
    """Delete an item, if it exists. `size_bytes` is its size, if known, for cost.

    (A tuple for the same reason as `Put`: one is made for every entry that was merged.)
    """

    key: Key
    condition: Condition | None = None
    size_bytes: int = 0


class Deletes(Sequence[Delete]):
    """Unconditional deletes in one partition: equal to a list of `Delete`, made on access.

    A store may render the sort keys directly, without an object for each merged entry.
    """

    __slots__ = ("partition", "sort_keys")

    def __init__(self, partition: str, sort_keys: Sequence[str]) -> None:
        self.partition = partition
        self.sort_keys = sort_keys

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.sort_keys)

    @overload
    def __getitem__(self, place: int) -> Delete: ...
    @overload
    def __getitem__(self, place: slice) -> "Deletes": ...

    def __getitem__(self, place: int | slice) -> "Delete | Deletes":
        """Return the delete at an index, or those of a slice."""
        if isinstance(place, slice):
            return Deletes(self.partition, self.sort_keys[place])
        return Delete((self.partition, self.sort_keys[place]))

    def __eq__(self, other: object) -> bool:
        """Return whether the other has the same deletes in the same order."""
        return list(self) == list(other) if isinstance(other, Deletes | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return the partition and the sort keys."""
        return f"Deletes({self.partition!r}, {self.sort_keys!r})"


@dataclass(frozen=True, slots=True)
class Update:
    """Add to attributes, set others, remove others; creates the item if it does not exist.

    `add` adds numbers, and elements to sets; `discard` removes elements from sets, and an attribute
    with its last element; `remove` names attributes. `not_after` is as in `Put`; it is not part of
    the request, so a token identifies the update regardless of it.
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
    """Write nothing; the transaction is applied only if the condition is true."""

    key: Key
    condition: Condition


@dataclass(frozen=True, slots=True)
class InTable:
    """An action on an item of another table of the same region, by its name.

    A single write, or one of a transaction; a batch is always in the store's own table.
    """

    table: str
    action: "OwnAction"

    @property
    def key(self) -> Key:
        """The key of the item in that table."""
        return self.action.key

    @property
    def condition(self) -> Condition | None:
        """The condition on the item in that table."""
        return self.action.condition


OwnWrite = Put | Delete | Update
Write = OwnWrite | InTable
BatchWrite = Put | Delete
OwnAction = OwnWrite | Check
"""An action on an item of the store's own table."""
Action = OwnAction | InTable


Reason = Literal[
    "condition",
    "threshold",
    "applied before",
    "token conflict",
    "contention",
    "size",
    "no such slot",
]
"""Why nothing was written.

- condition: a condition of the write was false; the only reason of a store;
- threshold: the value would pass `minimum` or `maximum`;
- applied before: this token's change is already counted;
- token conflict: this token stands for another change;
- contention: other writers were first in every attempt allowed;
- size: the item has no room left under DynamoDB's 400 KB;
- no such slot: the token holds no slot that could be given back.
"""


@dataclass(frozen=True, slots=True)
class Applied:
    """The write is durable in this region; a counter's, as often as its guarantees say.

    `item` is the new item after an `Update`, and the old one after a `Put` with `returns_old`.
    `value` is a counter's after the change, where its method learns it without another request.
    """

    item: Item | None = None
    value: Decimal | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class Rejected:
    """This call wrote nothing, and nothing of it can land later; `detail` is one line.

    It refers to this call only: an earlier one, Unknown under the same token, may still land.
    `found` is set by the store: it maps the position of each failed action (0 for a single write)
    to the existing item, None if there is none. `first` is the change for which the token was first
    used, if the method keeps that: for "applied before" and "token conflict".
    """

    reason: Reason = "condition"
    detail: str = ""
    found: Mapping[int, Item | None] = field(default_factory=dict, kw_only=True)
    first: Marker | None = field(default=None, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Unknown:
    """No answer: the write may have been applied, or may still be. `cause` is one line.

    Repeating a counter's change with `token` is safe within the method's guarantees; None if no
    token makes it so. `requests` were sent: more than one if the write was throttled at first.
    """

    cause: str
    token: str | None = None
    requests: int = field(default=1, compare=False, repr=False, kw_only=True)


Outcome = Applied | Rejected | Unknown
"""The outcome of one write, in the store and in everything built on it."""


@dataclass(frozen=True, slots=True)
class FinalOutcome:
    """The outcome of a repeated write's last try; `doubt` is the cause of an earlier `Unknown`.

    With a doubt, a write that is rejected now may have been applied before, or may still be.
    """

    outcome: Outcome
    doubt: str | None = None


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The outcome of a batch by position; a write in neither tuple was applied.

    `unprocessed` writes were not applied, after every try allowed; `unknown` ones may have been.
    `write_units` is DynamoDB's own count, None if it returned none; `requests` were sent.
    """

    unprocessed: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()
    cause: str = ""
    write_units: float | None = field(default=None, compare=False)
    requests: int = field(default=1, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EachOutcome:
    """The outcomes of several writes, in order.

    A `StoreError` in place of an outcome means that nothing of that write was written, nor will be.
    `Rejected.found` is empty if the store does not return the item. `write_units` is DynamoDB's own
    count, None if it returned none.
    """

    outcomes: tuple[Outcome | StoreError, ...]
    write_units: float | None = field(default=None, compare=False)


_SIGNED_BY = (Put, Update)


def placed(action: Action) -> tuple[str, OwnAction]:
    """Return the name of an action's table, "" for the store's own, and the action there."""
    return (action.table, action.action) if isinstance(action, InTable) else ("", action)


def placed_write(write: Write) -> tuple[str, OwnWrite]:
    """Return the name of a write's table, "" for the store's own, and the write there.

    Raises:
        RequestRefused: it is a check, which is allowed only in transactions.
    """
    table, action = placed(write)
    if isinstance(action, Check):
        raise RequestRefused("a check is allowed only in a transaction, together with a write")
    return table, action


def is_statement(action: Action) -> bool:
    """Return whether an action is a put that must be sent as a statement."""
    _, own = placed(action)
    return isinstance(own, Put) and own.as_statement


def checked_statements(actions: Sequence[Action]) -> None:
    """Refuse a put as a statement that is not on `Absent`, or shares a transaction with others.

    Raises:
        RequestRefused: nothing was sent.
    """
    said = [placed(action)[1] for action in actions]
    if any(map(is_statement, actions)) and not all(
        isinstance(own, Put) and own.as_statement and isinstance(own.condition, Absent)
        for own in said
    ):
        raise RequestRefused("a put as a statement must be on Absent, beside only its own kind")


def signed_by(actions: Sequence[Action]) -> datetime | None:
    """Return the last time at which a request of these actions may be signed; None for any."""
    if isinstance(actions, Deletes):
        return None
    own = [action.action if isinstance(action, InTable) else action for action in actions]
    limits = {action.not_after for action in own if isinstance(action, _SIGNED_BY)}
    limits.discard(None)
    return min(limits, default=None)  # type: ignore[type-var]


def checked_kinds(actions: object) -> Sequence[Action]:
    """Return a caller's actions.

    Raises:
        InvalidInput: they are not a sequence, or one of them is not an action.
    """
    if not isinstance(actions, Sequence) or not all(map(_is_action, actions)):
        raise InvalidInput(f"actions must be a list of actions, got {actions!r:.80}")
    for action in actions:
        if not _has_form(action):
            raise InvalidInput(
                "an action must have a key of two strings, and attribute values such as {'N': '7'},"
                f" got {action!r:.200}"
            )
        if isinstance(action, InTable) and not (isinstance(action.table, str) and action.table):
            raise InvalidInput(f"table of an action must be a name, got {action.table!r:.80}")
    return actions


def checked_request_token(token: object) -> None:
    """Check a caller's token of a transaction.

    Source: Amazon DynamoDB API Reference, TransactWriteItems.

    Raises:
        InvalidInput: it is neither None nor a string of 1 to 36 characters.
    """
    is_token = isinstance(token, str) and 1 <= len(token) <= REQUEST_TOKEN_CHARACTERS_MAX
    if token is not None and not (is_token and str(token).isascii()):
        raise InvalidInput(
            f"token must be 1 to {REQUEST_TOKEN_CHARACTERS_MAX} characters of ASCII,"
            f" got {token!r:.80}"
        )


def _has_form(action: Action) -> bool:
    """Return whether an action's key is two strings, and its attributes have DynamoDB's forms."""
    own = action.action if isinstance(action, InTable) else action
    try:
        partition, sort_key = own.key
        parts: list[Item] = [{"pk": {"S": partition}, "sk": {"S": sort_key}}]
        if isinstance(own, Put):
            parts.append(own.item)
        if isinstance(own, Update):
            parts += [own.add, own.set, own.discard, {name: {"S": ""} for name in own.remove}]
        for part in parts:
            item_size(part)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return False
    return bool(partition and sort_key and own.key == (partition, sort_key))


def _is_action(action: object) -> bool:
    return isinstance(action.action if isinstance(action, InTable) else action, OwnAction)


def checked_actions(actions: Sequence[Action], most: int) -> None:
    """Raise for a request that DynamoDB would refuse: too many actions, or two on one item.

    Raises:
        RequestRefused: nothing was sent.
    """
    if not 1 <= len(actions) <= most:
        raise RequestRefused(f"a request must have 1 to {most} actions, got {len(actions)}")
    different = {*actions.sort_keys} if isinstance(actions, Deletes) else {a.key for a in actions}
    if len(different) == len(actions):
        return
    if len({(placed(action)[0], action.key) for action in actions}) < len(actions):
        raise RequestRefused("the actions of a request must be on different items, got two on one")
