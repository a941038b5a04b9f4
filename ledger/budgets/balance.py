"""Who sends rights to whom: by demand, with hysteresis, from what one region shows of all items.

Each holder's *goal* is its part of what is free anywhere, 80 % by rate and 20 % equal, so that one
that has sold nothing yet can begin. Every `PERIOD_SECONDS` a holder that has more than 1.25 of
its goal sends what is above the goal to those that have less than half of theirs. One that had to
refuse says what it wants (`want`), and gets what it lacks of its goal at once, of each giver at
most half of what that has; but the last piece whole, from one that wants nothing itself. Without
hysteresis rights go to and fro. What a holder was charged more than it had (a hold settled over
the limit, a spend let through) others pay first, each its part of it.

It decides nothing but where rights lie: views may be old, and differ.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Collection, Iterable, Mapping
from decimal import ROUND_DOWN, ROUND_UP, Decimal

from ledger.budgets.rights import Holder, Rights
from ledger.core import amounts
from ledger.core.amounts import PROPORTION

PERIOD_SECONDS = 30.0
BY_RATE = Decimal("0.8")
"""Of what is free, how much is shared by rate; the rest in equal parts."""
SURPLUS_ABOVE = Decimal("1.25")
"""Of its goal: above it a holder gives."""
NEEDY_BELOW = Decimal("0.5")
"""Of its goal: below it a holder gets."""
WANTED_PART = Decimal("0.5")
"""Of what a giver has, the most that it sends to one that wants."""

_ZERO = Decimal(0)


def free(items: Mapping[Holder, Rights]) -> dict[Holder, Decimal]:
    """Return what each holder may still grant, with what is on its way to it; at least 0.

    What others have taken of it counts as theirs, though its item is shown as it was before: else
    rights would count twice, and all together come to more than the limit. If that is more than the
    holder shows, it had it of another that is shown as it was before, too: of whom most is shown.
    """
    shown = {
        holder: amounts.total_wide(
            (
                max(_ZERO, amounts.total_wide((item.available, in_flight(holder, items)))),
                _unseen(holder, items).copy_negate(),
            )
        )
        for holder, item in items.items()
    }
    lacking = amounts.total_wide(max(_ZERO, amount.copy_negate()) for amount in shown.values())
    for holder in sorted(shown, key=lambda one: (shown[one].copy_negate(), one)):
        less = min(lacking, max(_ZERO, shown[holder]))
        shown[holder] = amounts.total_wide((max(_ZERO, shown[holder]), less.copy_negate()))
        lacking = amounts.total_wide((lacking, less.copy_negate()))
    return shown


def elsewhere(items: Mapping[Holder, Rights], here: Decimal) -> Decimal:
    """Return what these holders may still grant, less what one of them has here; at least 0."""
    return max(_ZERO, amounts.total_wide((*free(items).values(), here.copy_negate())))


def in_flight(to: Holder, items: Mapping[Holder, Rights]) -> Decimal:
    """Return what others sent to a holder, and it has not taken up, as these items show it."""
    taken = items[to].taken if to in items else {}
    under_way = (
        amounts.total_wide((item.sent.get(to, _ZERO), taken.get(giver, _ZERO).copy_negate()))
        for giver, item in items.items()
    )
    return amounts.total_wide(max(_ZERO, amount) for amount in under_way)


def debts(
    items: Mapping[Holder, Rights], *, lost: Collection[Holder] = ()
) -> dict[Holder, Decimal]:
    """Return what holders were charged, or have given, more than they have; those that owe.

    What is on its way to them counts as theirs. Of a `lost` one others may have taken what no
    version of its item that arrived shows as sent.
    """
    found = {}
    for holder in sorted(items):
        unseen = _unseen(holder, items) if holder in lost else _ZERO
        has = (items[holder].available, in_flight(holder, items), unseen.copy_negate())
        found[holder] = amounts.total_wide(has).copy_negate()
    return {holder: owed for holder, owed in found.items() if owed > 0}


def _unseen(giver: Holder, items: Mapping[Holder, Rights]) -> Decimal:
    """Return what others have taken of a holder that its item does not show as sent."""
    sent = items[giver].sent
    more = (
        amounts.total_wide((item.taken.get(giver, _ZERO), sent.get(to, _ZERO).copy_negate()))
        for to, item in items.items()
    )
    return amounts.total_wide(max(_ZERO, amount) for amount in more)


def goals(items: Mapping[Holder, Rights]) -> dict[Holder, Decimal]:
    """Return each holder's part of what is free anywhere; rounded down, so at most all of it."""
    total = amounts.total_wide(free(items).values())
    rates = amounts.total_wide(item.rate for item in items.values())
    equal = PROPORTION.divide(Decimal(1), Decimal(len(items)))
    found = {}
    for holder, item in items.items():
        by_rate = PROPORTION.divide(item.rate, rates) if rates else equal
        rest = PROPORTION.multiply(PROPORTION.subtract(Decimal(1), BY_RATE), equal)
        weight = PROPORTION.add(PROPORTION.multiply(BY_RATE, by_rate), rest)
        found[holder] = PROPORTION.multiply(total, weight)
    return found


def transfers(
    me: Holder, items: Mapping[Holder, Rights], *, quantum: Decimal
) -> dict[Holder, Decimal]:
    """Return what a holder sends now, to whom; together at most what it has.

    `items` are those that its region shows, its own among them; holders that are lost, leave or
    may not be sent to are left out. Amounts are multiples of `quantum`, a power of ten: the
    smallest piece that is ever spent, so that no region is left with a part of one.
    """
    mine = max(_ZERO, items[me].available)
    if owed := {holder: debt for holder, debt in debts(items).items() if holder != me}:
        return _paid(owed, mine, items, quantum)
    goal, has = goals(items), free(items)
    lacks = {
        holder: max(_ZERO, PROPORTION.subtract(goal[holder], has[holder]))
        for holder in items
        if holder != me
    }
    wanted = {
        holder: min(lacks[holder], PROPORTION.multiply(mine, WANTED_PART))
        for holder in sorted(lacks)
        if items[holder].want > 0
    }
    sent = _within(wanted, mine, quantum) or _last_piece(wanted, items[me], quantum)
    left = amounts.total_wide((mine, amounts.total_wide(sent.values()).copy_negate()))
    if left <= PROPORTION.multiply(goal[me], SURPLUS_ABOVE):
        return sent
    needy = {
        holder: lacks[holder]
        for holder in sorted(lacks)
        if holder not in sent and has[holder] < PROPORTION.multiply(goal[holder], NEEDY_BELOW)
    }
    return {**sent, **_within(needy, PROPORTION.subtract(left, goal[me]), quantum)}


def _paid(
    owed: Mapping[Holder, Decimal],
    mine: Decimal,
    items: Mapping[Holder, Rights],
    quantum: Decimal,
) -> dict[Holder, Decimal]:
    """Return what one holder pays of debts: its part by what it has, rounded up to a quantum."""
    part = PROPORTION.divide(mine, amounts.total_wide(free(items).values()) or Decimal(1))
    paid: dict[Holder, Decimal] = {}
    for one, debt in owed.items():
        left = amounts.total_wide((mine, amounts.total_wide(paid.values()).copy_negate()))
        whole = PROPORTION.multiply(min(Decimal(1), part), debt)
        share = whole.quantize(quantum, ROUND_UP, PROPORTION)
        if (amount := min(share, left)) > 0:
            paid[one] = amount
    return paid


def quantum_of(items: Iterable[Rights]) -> Decimal:
    """Return the smallest piece that these items show: a power of ten, at most 1.

    Of the limit, grants, what was charged and what was moved; what is finer is not known yet.
    """
    shown = (
        number
        for item in items
        for number in (
            *(item.minted, item.retired, item.charged, *item.sent.values(), *item.taken.values()),
            *(grant.amount for grant in item.grants.values()),
        )
    )
    exponents = (int(number.as_tuple().exponent) for number in shown)
    return amounts.power_of_ten(min(0, min(exponents, default=0)))


def _last_piece(
    wanted: Mapping[Holder, Decimal], mine: Rights, quantum: Decimal
) -> dict[Holder, Decimal]:
    """Return one piece for the one that lacks most, if the giver has one and wants none itself."""
    most = max(wanted, key=lambda one: wanted[one], default=None)
    if most is None or not wanted[most] or mine.want > 0 or mine.available < quantum:
        return {}
    return {most: quantum}


def _within(
    asked: Mapping[Holder, Decimal], most: Decimal, quantum: Decimal
) -> dict[Holder, Decimal]:
    """Return what each is given, in proportion if there is not enough; nothing below a quantum."""
    total = amounts.total_wide(asked.values())
    if total <= 0:
        return {}
    part = min(Decimal(1), PROPORTION.divide(most, total))
    given = {
        one: PROPORTION.multiply(amount, part).quantize(quantum, ROUND_DOWN, PROPORTION)
        for one, amount in asked.items()
    }
    return {one: amount for one, amount in given.items() if amount > 0}
