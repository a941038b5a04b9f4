"""Each change of a rights item: what it is after it, or why it may not be made.

Every function takes an item as it was read, which must be there (`create` makes it, with its share:
made by anything else it would never get it), and returns it as it is after one write, its version
one higher; `rights.write_of` makes the request, on condition of the version read. So a plan that
comes late, or twice, changes nothing, and the process that lost the race reads and plans again.
Where it may not be made, a function returns why: `TooFewRights` of rights, or `GrantGone`, the
grant.

**Grants.** A process takes an amount (`take`), spends under it by entries that name the grant, and
closes it (`close`): what was spent is charged, the rest is available again. An outcome that is
unknown closes nothing: as unused it would be sold twice, as used it would never come back. The
grant shrinks to what may have been spent, and is closed later by reading (`reclaim`): once no
request that names it can land any more, its entries are what was spent.

    take ──> open ── close, all known ─────────────> closed
               │                                        ^
               └── shrink, or crash ──> open ── reclaim ┘

**Transfers.** The giver adds to what it ever sent to a holder (`send`); the taker sets what it
has taken to what its own region shows as sent (`take_up`). Nothing else is written, so nothing is
to be cleaned up, and a repeat does nothing.

`proof.simulator.explorer.limits` runs these functions in every order of events, and shows what
breaks without each rule.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Decimal

from ledger.budgets.amount_rules import GROWTH_DIGITS
from ledger.budgets.raise_ids import remember_raise
from ledger.budgets.rights import (
    GRANTS_MAX,
    Grant,
    Holder,
    LateCharge,
    Rights,
    added,
    following,
    noted,
    without,
)
from ledger.core import amounts
from ledger.core.errors import AmountOverflow, InvalidInput

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class TooFewRights:
    """There is less available than was asked for; `available` may be below 0."""

    available: Decimal


@dataclass(frozen=True, slots=True)
class GrantGone:
    """The grant is not open any more: it was closed, by its owner or by reading."""

    version: int


@dataclass(frozen=True, slots=True)
class Crowded:
    """The item has as many open grants as it may: some have to be closed by reading first."""

    grants: int


Refusal = TooFewRights | GrantGone | Crowded


@dataclass(frozen=True, slots=True)
class SpendPlan:
    """What the owner of a grant knows of it: the most that its entries may come to.

    `is_sure` if it knows of each of these entries that it was applied, and none has a key. What was
    definitely not applied was given back, and is not in `amount`. What gives rights back (a refund)
    counts once it is known to be applied, and under a key never: another region may credit it, too.
    Of it open holds keep `held`, as far as it knows. `resolved` are holds that it resolved of late,
    by id: they are in `amount` as resolved.
    """

    amount: Decimal
    is_sure: bool
    held: Decimal = _ZERO
    resolved: Mapping[str, LateCharge] = field(default_factory=dict)


def create(holder: Holder, minted: Decimal, *, bucket: int = 0) -> Rights:
    """Return the first version of an item, with its share; the write's condition is its absence.

    `bucket` is of a rolling limit, in seconds.
    """
    return Rights(holder, version=1, minted=amounts.within_range(minted), bucket=bucket)


def take(
    rights: Rights, amount: Decimal, *, since: int, expires: int, token: str, counter: str = ""
) -> Rights | TooFewRights | Crowded:
    """Grant an amount; the grant is named by the version that is returned.

    Times are in whole seconds since 1970, of the region's own `Date`: `since` rounded down, as is
    `expires`. No answer to the write: read again, and `granted_to` tells whether it was made.
    `counter` is of a grant of a bundle: whose entries will name it. An amount of 0 is that of a
    credit grant (`credit_rules`), which is there to be had whatever is available.

    Raises:
        InvalidInput: the amount is below 0, or it expires before it begins.
    """
    if amount < 0:
        raise InvalidInput(f"a grant has 0 or more, got {amounts.to_text(amount)}")
    if expires <= since:
        raise InvalidInput(f"a grant must expire after it begins ({since}), got {expires}")
    if amount and rights.available < amount:
        return TooFewRights(rights.available)
    if len(rights.grants) >= GRANTS_MAX:
        return Crowded(len(rights.grants))
    grant = Grant(amount, since, expires, token, counter)
    grants = {**rights.grants, rights.version + 1: grant}
    return following(rights, grants=grants)


def granted_to(rights: Rights, token: str) -> int | None:
    """Return the version of the open grant of this token; None if there is none."""
    return next((v for v, grant in rights.grants.items() if grant.token == token), None)


def close(rights: Rights, version: int, spent: SpendPlan) -> Rights | GrantGone:
    """Close a grant, or shrink it to what was spent if an outcome is unknown.

    It may have shrunk already: then what was unknown is known by now. What holds were adjusted by
    is charged with what was spent, which is as the owner knows it.

    Raises:
        InvalidInput: more was spent than the grant has.
    """
    grant = rights.grants.get(version)
    if grant is None:
        return GrantGone(version)
    if spent.amount > grant.amount:
        raise InvalidInput(
            f"what was spent under grant {rights.holder}/{version} must be at most {grant.amount},"
            f" got {spent.amount}"
        )
    if spent.is_sure:
        charged = (spent.amount, rights.adjusted.get(version, _ZERO))
        released = rights.released.get(version, _ZERO).copy_negate()
        closed = _closed(rights, version, *charged, held=amounts.total((spent.held, released)))
        return replace(closed, resolved=noted(rights.resolved, spent.resolved))
    shrunk = {**rights.grants, version: replace(grant, amount=max(_ZERO, spent.amount))}
    return following(rights, grants=shrunk)


def top_up(
    rights: Rights, version: int, amount: Decimal, *, expires: int
) -> Rights | TooFewRights | GrantGone:
    """Let a grant go on: larger by an amount, 0 or more, and until a later time.

    A process that closes it by reading meanwhile loses by the version; a grant that was closed
    stays so.

    Raises:
        InvalidInput: the amount is below 0, or it would end earlier.
        AmountOverflow: the grant does not fit in 38 digits.
    """
    grant = rights.grants.get(version)
    if grant is None:
        return GrantGone(version)
    if amount < 0 or expires < grant.expires:
        raise InvalidInput(
            f"a grant goes on with 0 or more until {grant.expires} or later, got"
            f" {amounts.to_text(amount)} until {expires}"
        )
    is_of_credits = not (amount or grant.amount)  # it goes on whatever is owed
    if rights.available < amount and not is_of_credits:
        return TooFewRights(rights.available)
    grown = replace(grant, amount=amounts.total((grant.amount, amount)), expires=expires)
    return replace(rights, version=rights.version + 1, grants={**rights.grants, version: grown})


def charge(rights: Rights, amount: Decimal) -> Rights:
    """Charge what was spent without a grant, while none could be had.

    To be written in one transaction with the marks of the entries (`fail_open`).
    """
    return following(rights, charged=_charged(rights, amount))


Step = Callable[[Rights], "Rights | Refusal | None"]


def in_one_write(rights: Rights, steps: Iterable[Step]) -> "Rights | Refusal":
    """Return an item after several changes that are written together, each on those before it.

    A step that changes nothing returns None, or what it was given; the first that may not be made
    ends it. Without a change the item is returned as it was. One that is made by the first step and
    changed by others is written as version 2.
    """
    version, after = rights.version, rights
    for step in steps:
        # Each sees the version that was read: the one that is written is one higher, once.
        done = step(replace(after, version=version))
        if done is None:
            continue
        if not isinstance(done, Rights):
            return done
        if version == 0 and done.version:
            version, after = done.version, done
        else:
            after = done if done.version > version else replace(done, version=after.version)
    return after


def is_over(grant: Grant, date: int, *, signature_lifetime: float, clock_skew: float) -> bool:
    """Return whether no request that names a grant can land any more.

    `date` is the `Date` of a first answer of the grant's region, in whole seconds since 1970, asked
    for before rights and entries are read.
    """
    return date > grant.expires + signature_lifetime + clock_skew


def reclaim(
    rights: Rights, version: int, shown: Decimal, *, held: Decimal = _ZERO
) -> Rights | GrantGone:
    """Close a grant that is over by what its entries come to (`spend_record.charge_of`).

    Of that open holds keep `held` (`spend_record.held_of`).

    `rights` must have been read strongly consistent in the grant's region once it was over, and the
    entries after it, strongly consistent there, too. What was adjusted is not added: entries show
    it. A sum above the grant's amount is charged as it is: then `excess_of` says how far the grant
    was used twice, and nothing is granted until that is paid off.
    """
    return (
        _closed(rights, version, shown, held=held)
        if version in rights.grants
        else GrantGone(version)
    )


def excess_of(rights: Rights, version: int, shown: Decimal) -> Decimal:
    """Return how much more was spent under an open grant than it has, if it was used twice."""
    adjusted = rights.adjusted.get(version, _ZERO)
    granted = amounts.total_wide((rights.grants[version].amount, adjusted))
    return max(_ZERO, amounts.total_wide((shown, granted.copy_negate())))


def adjust(
    rights: Rights,
    version: int,
    difference: Decimal,
    *,
    held: Decimal = _ZERO,
    over: bool = False,
    has_left: bool = False,
) -> Rights | TooFewRights:
    """Charge what a hold came to more (below 0: less) than was held, under a grant of this item.

    `held` is what was, if this item was charged for it; below 0 it is held again. To be written in
    one transaction with the hold's entry. While the grant is open the difference
    is kept apart: a close by reading finds it in the entry. `over` charges also what is not there.
    If the hold has left the window of a rolling limit (`has_left`) less gives nothing back: what
    was held has come back already, or will.

    Raises:
        AmountOverflow: a sum does not fit in 38 digits.
    """
    if difference > 0 and rights.available < difference and not over:
        return TooFewRights(rights.available)
    if version in rights.grants:
        return following(
            rights,
            adjusted=added(rights.adjusted, version, difference),
            released=added(rights.released, version, held),
        )
    after = following(
        rights,
        charged=amounts.total((rights.charged, difference)),
        held=held_with(rights, held.copy_negate()),
    )
    if has_left and difference < 0:
        return replace(after, returned=amounts.total((rights.returned, difference)))
    return after


def send(rights: Rights, to: Holder, amount: Decimal) -> Rights | TooFewRights:
    """Send rights to another holder.

    Raises:
        InvalidInput: the amount is not above 0, or the holder is its own, or lost.
        AmountOverflow: the sum sent does not fit in 38 digits.
    """
    _check_positive(amount)
    if to == rights.holder or to in rights.cut:
        raise InvalidInput(f"{rights.holder} sends to another holder that is not lost, got {to}")
    if rights.available < amount:
        return TooFewRights(rights.available)
    return following(rights, sent=added(rights.sent, to, amount))


def pay(rights: Rights, to: Holder, debt: Decimal) -> Rights | None:
    """Send another holder what it owes, as far as it is available; None for its own, or of none.

    Raises:
        As `send`.
    """
    amount = min(debt, rights.available)
    if to == rights.holder or amount <= 0:
        return None
    sent = send(rights, to, amount)
    assert isinstance(sent, Rights)  # noqa: S101 (there is as much)
    return sent


def take_up(rights: Rights, giver: Rights) -> Rights | None:
    """Take up what a giver's item, any version of it, shows as sent; None if that is nothing new.

    Also None if the giver is lost and was cut off. Whether it is lost is else for the contract to
    say: from a region that is not among its regions nothing is taken up.
    """
    shown = giver.sent.get(rights.holder, _ZERO)
    if shown <= rights.taken.get(giver.holder, _ZERO) or giver.holder in rights.cut:
        return None
    return following(rights, taken={**rights.taken, giver.holder: shown})


def raise_limit(rights: Rights, amount: Decimal, raise_id: str, *, now: int) -> Rights | None:
    """Mint rights for a raise; None if this item has done so already.

    Before a repeat the items of all holders are looked through for its id (`raise_ids.is_made`):
    home may have moved since. One by 0 is of a budget that is made by it.

    Raises:
        InvalidInput: the amount is below 0.
        StateConflict: it was raised too often of late (`raise_ids`).
        AmountOverflow: the sum minted does not fit in 38 digits.
    """
    if amount < 0:
        raise InvalidInput(f"a raise is by 0 or more, got {amounts.to_text(amount)}")
    if raise_id in rights.raises:
        return None
    minted = amounts.total((rights.minted, amount))
    raises, raised = remember_raise(rights.raises, rights.raised, raise_id, amount, now)
    return following(rights, minted=minted, raises=raises, raised=raised)


def mint(rights: Rights, amount: Decimal) -> Rights:
    """Mint rights of a limit of which one half was there alone, of a lost home or by a restore.

    Raises:
        InvalidInput: the amount is not above 0.
        AmountOverflow: the sum minted does not fit in 38 digits.
    """
    _check_positive(amount)
    return following(rights, minted=amounts.total((rights.minted, amount)))


def lower_limit(rights: Rights, target: Decimal, others: tuple[Rights, ...] = ()) -> Rights | None:
    """Retire what is available at home of what is above the target; None if nothing can be.

    `others` are the items of all other holders, each read strongly consistent in its region. What
    is still above the target then is to be sent home (`above`) and retired by another call: until
    then the limit is at most what is minted less what is retired.

    Raises:
        AmountOverflow: the sum retired does not fit in 38 digits.
    """
    amount = min(rights.available, above(target, (rights, *others)))
    if amount <= 0:
        return None
    retired = amounts.total((rights.retired, amount))
    return following(rights, retired=retired)


def highest_limit(limit: Decimal, items: Iterable[Rights]) -> Decimal:
    """Return the highest limit that these items are known to have had, at least this one."""
    return max(limit, *(item.minted for item in items), _ZERO)


def limit_of(items: tuple[Rights, ...]) -> Decimal:
    """Return the limit that holds now: what all holders minted less what they retired.

    What was minted again of a lost holder's is in that holder's own item as well.
    """
    again = (max(_ZERO, amount) for item in items for amount in item.reclaimed.values())
    less = amounts.total_wide((*(item.retired for item in items), *again))
    return amounts.total_wide((*(item.minted for item in items), less.copy_negate()))


def above(target: Decimal, items: tuple[Rights, ...]) -> Decimal:
    """Return by how much the limit of these items is above a target; 0 if it is not."""
    return max(_ZERO, amounts.total_wide((limit_of(items), target.copy_negate())))


def note_demand(rights: Rights, *, rate: Decimal, want: Decimal) -> Rights:
    """Return an item with other figures of demand, for a write that is made anyway.

    The version is as it was: a lone note of it is no write that anything rests on.
    """
    return replace(rights, rate=rate, want=want)


def ask(rights: Rights, *, rate: Decimal, want: Decimal) -> Rights:
    """Say what is wanted by a write of its own, for others to see."""
    return replace(rights, version=rights.version + 1, rate=rate, want=want)


def _closed(rights: Rights, version: int, *charged: Decimal, held: Decimal) -> Rights:
    return following(
        rights,
        charged=_charged(rights, *charged),
        held=held_with(rights, held),
        grants=without(rights.grants, version),
        adjusted=without(rights.adjusted, version),
        released=without(rights.released, version),
    )


def held_with(rights: Rights, *more: Decimal) -> Decimal:
    """Return what open holds keep, with more; of a rolling limit it is unknown what comes back.

    Raises:
        AmountOverflow: it does not fit in 38 digits.
    """
    return _ZERO if rights.bucket else amounts.total((rights.held, *more))


def _charged(rights: Rights, *more: Decimal) -> Decimal:
    """Return what is charged with more, so that a grant can be closed whatever was spent under it.

    A sum of over 38 digits is rounded up, to what still fits in sums a million times as large: what
    is not spent of the last of these digits stays charged.
    """
    charged = amounts.total_wide((rights.charged, *more))
    try:
        return amounts.within_range(charged)
    except AmountOverflow:
        first = max(charged.adjusted(), rights.minted.adjusted())
        last = amounts.power_of_ten(first + 1 + GROWTH_DIGITS - amounts.DIGITS_MAX)
        return amounts.within_range(charged.quantize(last, ROUND_CEILING, amounts.PROPORTION))


def _check_positive(amount: Decimal) -> None:
    if amount <= 0:
        raise InvalidInput(f"an amount of rights must be above 0, got {amounts.to_text(amount)}")
