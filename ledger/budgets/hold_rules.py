"""How a hold is resolved: settled for what it came to, voided, or expired, once.

A hold is an entry that counts at once, for the amount held. It is resolved by one update of that
item, in its region, on condition that it exists and is not resolved: so it is settled once, however
late a second comes, and no clock decides. Who may write what beside it:

- its owner, while the grant is open and by a request signed in time (`Spending.until`): the entry
  alone. A difference goes back to the grant's remainder once the update is known to be applied;
  what it comes to more is taken from the remainder first.
- anybody else, or the owner later: one transaction with the rights item (`charge_apart`) of each
  grant that the entry names. While the grant is open the difference is kept apart, as its owner
  knows only what was held; after that it is charged.

An expired hold counts until somebody resolves it: that delays rights, and sells none twice.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from ledger.budgets import rolling_limits
from ledger.budgets.amount_rules import check_settled
from ledger.budgets.grant_allowance import quantum_of
from ledger.budgets.rights import NO_GRANT, GrantName, Holder, LateCharge, Rights, noted, write_of
from ledger.budgets.rights_plan import TooFewRights, adjust
from ledger.budgets.spend_record import (
    Resolution,
    SpendRecord,
    as_read,
    change_of,
    spend_attributes,
)
from ledger.core import amounts
from ledger.core.entry import ADJUSTED, HELD, HOLD, RESOLVED, Key
from ledger.core.errors import InvalidAmount, InvalidInput, StateConflict
from ledger.core.ids import EPOCH
from ledger.store.conditions import AllOf, Condition, Equals, Has, Not
from ledger.store.writes import Put, Update


@dataclass(frozen=True, slots=True)
class HoldResolution:
    """A hold as it is resolved; `difference` is what it came to more than was held, or below 0."""

    before: SpendRecord
    after: SpendRecord

    @property
    def difference(self) -> Decimal:
        """What is to be charged more, below 0 if less."""
        return amounts.total((self.after.amount, self.before.amount.copy_negate()))

    @property
    def is_within_held(self) -> bool:
        """Whether it came to neither more nor anything finer than what was held, and checked."""
        held, amount = self.before.amount, self.after.amount
        return amount <= held and quantum_of(amount) >= quantum_of(held)

    def check(self, limit: Decimal) -> None:
        """Check that it can be charged to a budget of this limit, the highest that is known.

        Raises:
            AmountOverflow: as `amount_rules.check_settled`.
        """
        if not self.is_within_held:
            check_settled(self.after.amount, self.before.amount, limit)


@dataclass(frozen=True, slots=True)
class SeparateCharge:
    """A hold as it is resolved, and the rights items that are written with it, as its grants."""

    resolved: HoldResolution
    items: tuple[Rights, ...]


def settle(hold: SpendRecord, actual: Decimal) -> HoldResolution:
    """Resolve a hold for what it came to, 0 or more, at any time before it is resolved.

    Raises:
        StateConflict: the entry is not an open hold.
        InvalidAmount: the amount is below 0.
    """
    if actual < 0:
        raise InvalidAmount(f"a hold settles for 0 or more, got {amounts.to_text(actual)}")
    return _resolved(hold, actual, "settled")


def void(hold: SpendRecord) -> HoldResolution:
    """Resolve a hold for nothing.

    Raises:
        StateConflict: the entry is not an open hold.
    """
    return _resolved(hold, Decimal(0), "void")


def expire(hold: SpendRecord, date: int, *, captures: bool = False) -> HoldResolution | None:
    """Resolve a hold whose expiry is past by its region's `Date`; None if it is not.

    `captures` if an expired hold counts for what was held; else for nothing.

    Raises:
        StateConflict: the entry is not an open hold.
    """
    resolved = _resolved(hold, hold.amount if captures else Decimal(0), "expired")
    return resolved if hold.hold is not None and hold.hold < date else None


def extend(hold: SpendRecord, expires: int) -> SpendRecord:
    """Return a hold with a later expiry; written by `extension_of`.

    Raises:
        StateConflict: the entry is not an open hold.
        InvalidInput: it would expire earlier.
    """
    _check_open(hold)
    if hold.hold is not None and expires < hold.hold:
        raise InvalidInput(earlier_than(hold.hold, expires))
    return replace(hold, hold=expires)


def earlier_than(expires: int, asked: int) -> str:
    """Say that a hold cannot be extended to an earlier time, both in whole seconds since 1970."""
    now, got = (f"{EPOCH + timedelta(seconds=at):%Y-%m-%dT%H:%M:%SZ}" for at in (expires, asked))
    return f"a hold is extended to a later expiry than {now}, got {got}"


def update_of(key: Key, resolved: HoldResolution) -> Update:
    """Return the update of the entry that resolves a hold; the item must be as it was read.

    The amount that was held is part of the condition: the difference rests on it. So are the grants
    (`spend_record.as_read`), and the expiry of one that expires, since it may have been extended.
    """
    before, after = resolved.before, resolved.after
    attributes = spend_attributes(after)
    conditions: list[Condition] = [_open(), *as_read(before)]
    if after.resolved == "expired":
        conditions.append(Equals(HOLD, {"N": str(before.hold)}))
    written = {name: attributes[name] for name in (RESOLVED, ADJUSTED, HELD) if name in attributes}
    return Update(
        key, set={"change": change_of(after.amount), **written}, condition=AllOf(tuple(conditions))
    )


def extension_of(key: Key, hold: SpendRecord, expires: int) -> Update:
    """Return the update of the entry that extends a hold, if it is open and was not extended since.

    Else the shorter of two extensions at once could end what the other was told.

    Raises:
        As `extend`.
    """
    later = extend(hold, expires)
    as_before = Equals(HOLD, {"N": str(hold.hold)})
    condition = AllOf((as_before, Not(Has(RESOLVED))))
    return Update(key, set={HOLD: {"N": str(later.hold)}}, condition=condition)


def charge_apart(
    resolved: HoldResolution,
    items: Mapping[str, Rights],
    *,
    now: float,
    over: bool = False,
    gone: Collection[Holder] = (),
) -> SeparateCharge | TooFewRights:
    """Return what is written, in one transaction, to resolve a hold by another than its owner.

    `items` are the rights items of its grants, by budget ("" is the entry's own), read strongly
    consistent in the entry's region; of a holder that is `gone`, whose rights are minted again,
    one that remains, read in its own region, for an entry that all remaining regions show alike.
    The entry notes the versions that they get, so a reader of it can tell whether an item has the
    charge; the items note the entry (`Rights.resolved`): after a restore it can be told the other
    way, too.
    For more than was held each must have as much available, or `over` charges it anyway, where the
    cost was incurred. `now` is in seconds since 1970: of a rolling limit what is charged now counts
    from now on, and what was held before the window gives nothing back.

    Raises:
        InvalidInput: the item of a grant is missing.
        AmountOverflow: a sum does not fit in 38 digits.
    """
    changed: list[Rights] = []
    written: list[GrantName] = []
    for name in resolved.before.grants:
        rights = items.get(name.budget)
        if rights is None or name.holder not in {rights.holder, *gone}:
            raise InvalidInput(f"hold {resolved.before.id} is resolved with the item of {name}")
        version = name.version if rights.holder == name.holder else NO_GRANT
        difference = LateCharge(resolved.difference, int(now))
        has_left = rolling_limits.has_left(rights, resolved.before.id, difference.at)
        held = resolved.before.amount if version else Decimal(0)
        after = adjust(rights, version, difference.amount, held=held, over=over, has_left=has_left)
        if isinstance(after, TooFewRights):
            return after
        late = noted(rights.resolved, {resolved.before.id: difference})
        changed.append(rolling_limits.dated(replace(after, resolved=late), now))
        written.append(GrantName(after.holder, after.version, name.budget))
    entry = replace(resolved.after, adjusted=tuple(written), held=resolved.before.amount)
    return SeparateCharge(replace(resolved, after=entry), tuple(changed))


def apart_writes(
    key: Key, apart: SeparateCharge, items: Mapping[str, Rights], counter: str
) -> list[Put | Update]:
    """Return the transaction that resolves a hold of a counter; `items` are as they were read."""
    writes: list[Put | Update] = [update_of(key, apart.resolved)]
    for name, after in zip(apart.resolved.after.grants, apart.items, strict=True):
        writes.append(write_of(items[name.budget], after, name.budget or counter))
    return writes


def _resolved(hold: SpendRecord, amount: Decimal, how: Resolution) -> HoldResolution:
    _check_open(hold)
    return HoldResolution(hold, replace(hold, amount=amount, resolved=how))


def _check_open(hold: SpendRecord) -> None:
    if not hold.is_open_hold:
        state = f"was resolved ({hold.resolved})" if hold.resolved else "is not a hold"
        raise StateConflict(f"entry {hold.id} {state}")


def _open() -> Condition:
    return AllOf((Has(HOLD), Not(Has(RESOLVED))))
