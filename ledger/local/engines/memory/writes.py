"""Writes to single items, decided before anything is written.

Every write, alone or inside a transaction, is first turned into an `Intent`: the item before, the
item after, and whether its condition held. The caller then commits all intents or none, so
there is nothing to undo.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ledger.core.capacity import item_size, write_units
from ledger.local.engines import values
from ledger.local.engines.memory.expressions.binding import Placeholders
from ledger.local.engines.memory.expressions.conditions import Condition, condition
from ledger.local.engines.memory.expressions.trees import Steps
from ledger.local.engines.memory.expressions.updates import update as update_expression
from ledger.local.engines.memory.items import Place, Stored, TableItems
from ledger.local.engines.memory.requests import check_choice, refuse_legacy
from ledger.local.engines.port import Change, Image, invalid

_LEGACY = ("Expected", "ConditionalOperator", "AttributeUpdates")


@dataclass(frozen=True, slots=True)
class Intent:
    """The effect of one write on one item.

    `after` is None for an item that will not be there; `size` its size in bytes; `targets` are the
    paths that an update changes. A condition check alone has `writes` False.
    """

    table: str
    items: TableItems
    key: Image
    place: Place
    before: Stored | None
    after: Image | None
    size: int
    holds: bool
    writes: bool
    targets: tuple[Steps, ...]

    @property
    def old(self) -> Image | None:
        """The item before the write."""
        return self.before.image if self.before else None

    def units(self, *, transactional: bool = False) -> int:
        """Return the write units: the larger of the item before and after counts."""
        old_size = self.before.size if self.before else 0
        return write_units(max(old_size, self.size), transactional=transactional)

    def commit(self) -> tuple[Change, ...]:
        """Write it, and return the change; None if nothing changed."""
        if not self.writes or self.old == self.after:
            return ()
        if self.after is None:
            self.items.delete(self.place)
        else:
            self.items.put(self.place, self.after, self.size)
        return (Change(self.table, self.key, self.after),)


def _intent(
    table: str,
    items: TableItems,
    key: Image,
    *,
    after: Image | None,
    condition: Condition | None,
    before: Stored | None,
    writes: bool = True,
    targets: tuple[Steps, ...] = (),
) -> Intent:
    place = items.place(key)
    size = item_size(after) if after is not None else 0
    old = before.image if before else None
    holds = condition is None or condition.holds(old)
    return Intent(table, items, key, place, before, after, size, holds, writes, targets)


def _check_write(body: Mapping[str, Any]) -> None:
    refuse_legacy(body, _LEGACY)
    check_choice(body, "ReturnValuesOnConditionCheckFailure", ("ALL_OLD", "NONE"))


def _condition(
    body: Mapping[str, Any], items: TableItems, placeholders: Placeholders
) -> Condition | None:
    what = "ConditionExpression"
    return condition(what, body.get(what), placeholders, items.key)


def put(table: str, items: TableItems, body: Mapping[str, Any]) -> Intent:
    """Plan a Put of a whole item.

    Raises:
        ApiError: ValidationException.
    """
    _check_write(body)
    placeholders = Placeholders.of(body)
    wanted = _condition(body, items, placeholders)
    placeholders.check_all_used()
    after = values.item(body["Item"])
    values.check_key(items.key, after, whole_item=True)
    key = items.key.of(after)
    intent = _intent(
        table, items, key, after=after, condition=wanted, before=items.get(items.place(key))
    )
    values.check_size(intent.size)
    return intent


def delete(table: str, items: TableItems, body: Mapping[str, Any]) -> Intent:
    """Plan a Delete.

    Raises:
        ApiError: ValidationException.
    """
    _check_write(body)
    placeholders = Placeholders.of(body)
    wanted = _condition(body, items, placeholders)
    placeholders.check_all_used()
    key = checked_key(items, body["Key"])
    return _intent(
        table, items, key, after=None, condition=wanted, before=items.get(items.place(key))
    )


def check(table: str, items: TableItems, body: Mapping[str, Any]) -> Intent:
    """Plan a ConditionCheck, which writes nothing.

    Raises:
        ApiError: ValidationException.
    """
    placeholders = Placeholders.of(body)
    wanted = _condition(body, items, placeholders)
    if wanted is None:
        raise invalid("A ConditionCheck needs a ConditionExpression")
    placeholders.check_all_used()
    key = checked_key(items, body["Key"])
    before = items.get(items.place(key))
    old = before.image if before else None
    return _intent(table, items, key, after=old, condition=wanted, before=before, writes=False)


def update(table: str, items: TableItems, body: Mapping[str, Any]) -> Intent:
    """Plan an Update: the new item is worked out only if the condition holds.

    Raises:
        ApiError: ValidationException.
    """
    _check_write(body)
    placeholders = Placeholders.of(body)
    wanted = _condition(body, items, placeholders)
    changes = None
    if body.get("UpdateExpression") is not None:
        changes = update_expression(body["UpdateExpression"], placeholders)
    placeholders.check_all_used()
    key = checked_key(items, body["Key"])
    before = items.get(items.place(key))
    after: Image = dict(before.image) if before else dict(key)
    if wanted is not None and not wanted.holds(before.image if before else None):
        changes = None
    if changes is not None:
        changes.check_keys(items.key)
        after = changes.apply(after)
    intent = _intent(
        table,
        items,
        key,
        after=after,
        condition=wanted,
        before=before,
        targets=changes.targets if changes else (),
    )
    values.check_size(intent.size, update=True)
    return intent


def checked_key(items: TableItems, wire: Mapping[str, Any]) -> Image:
    """Return a bare key in its checked form.

    Raises:
        ApiError: ValidationException.
    """
    key = values.item(wire)
    values.check_key(items.key, key, whole_item=False)
    return key
