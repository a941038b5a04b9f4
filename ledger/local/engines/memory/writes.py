"""Writes, alone or in a transaction, decided before anything is written.

Every write is first turned into an `Intent`: the item before, the item after, and whether its
condition held. The caller then commits all intents or none, so there is nothing to undo. No two
actions of a transaction may name one item, so each sees exactly the state before the transaction,
and nothing has to be copied.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.core.capacity import item_size, write_units
from ledger.local.engines import values
from ledger.local.engines.memory.expressions.conditions import Condition, condition
from ledger.local.engines.memory.expressions.placeholders import Placeholders
from ledger.local.engines.memory.expressions.syntax import Steps
from ledger.local.engines.memory.expressions.updates import update as update_expression
from ledger.local.engines.memory.items import Place, Stored, TableItems
from ledger.local.engines.port import ApiError, Image, ItemChange, Unfit, invalid


def refuse_legacy(body: Mapping[str, Any], fields: Iterable[str]) -> None:
    """Refuse the parameters that expressions replaced in 2014.

    Raises:
        ApiError: ValidationException.
    """
    for name in fields:
        if name in body:
            raise invalid(
                f"{name} is not supported by the local global table: use an expression instead"
            )


def check_choice(body: Mapping[str, Any], name: str, allowed: Sequence[str]) -> None:
    """Refuse a field whose value is not one of those allowed.

    Raises:
        ApiError: ValidationException.
    """
    if body.get(name) is not None and body[name] not in allowed:
        raise invalid(
            f"1 validation error detected: Value '{body[name]}' at '{name[0].lower()}{name[1:]}' "
            f"failed to satisfy constraint: Member must satisfy enum value set: "
            f"[{', '.join(allowed)}]"
        )


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

    def commit(self) -> tuple[ItemChange, ...]:
        """Write it, and return the change; None if nothing changed."""
        if not self.writes or self.old == self.after:
            return ()
        if self.after is None:
            self.items.delete(self.place)
        else:
            self.items.put(self.place, self.after, self.size)
        return (ItemChange(self.table, self.key, self.after),)


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


TRANSACTION_BYTES_MAX = 4 * 1024 * 1024

_PLANS: Mapping[str, Callable[[str, TableItems, Mapping[str, Any]], Intent]] = {
    "Put": put,
    "Delete": delete,
    "Update": update,
    "ConditionCheck": check,
}


def plan(
    actions: Sequence[Mapping[str, Any]],
    tables: Callable[[Mapping[str, Any]], tuple[str, TableItems]],
) -> list[Intent]:
    """Work out every action of a transaction against the state before it.

    Raises:
        ApiError: ValidationException, or TransactionCanceledException with a reason per action.
    """
    outcomes = [_outcome(action, tables) for action in actions]
    if any(reason["Code"] != "None" for _, reason in outcomes):
        raise cancelled([reason for _, reason in outcomes])
    intents = [intent for intent, _ in outcomes if intent is not None]
    if sum(intent.size for intent in intents) > TRANSACTION_BYTES_MAX:
        raise invalid("Collection size of the items in the transaction exceeds 4 MB")
    return intents


def cancelled(reasons: Sequence[Mapping[str, Any]]) -> ApiError:
    """Return DynamoDB's TransactionCanceledException."""
    codes = ", ".join(str(reason["Code"]) for reason in reasons)
    return ApiError(
        "TransactionCanceledException",
        f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]",
        extra={"CancellationReasons": list(reasons)},
    )


def _outcome(
    action: Mapping[str, Any], tables: Callable[[Mapping[str, Any]], tuple[str, TableItems]]
) -> tuple[Intent | None, dict[str, Any]]:
    ((kind, body),) = action.items()
    name, items = tables(body)
    try:
        intent = _PLANS[kind](name, items, body)
    except Unfit as error:
        return None, {"Code": "ValidationError", "Message": error.message}
    if intent.holds:
        return intent, {"Code": "None"}
    reason: dict[str, Any] = {
        "Code": "ConditionalCheckFailed",
        "Message": "The conditional request failed",
    }
    if body.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and intent.old is not None:
        reason["Item"] = intent.old
    return intent, reason
