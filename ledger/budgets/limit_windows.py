"""Limits as they change: steps with a beginning, and each region's share of a window.

pk `~budget~COUNTER`, sk `limit#GENERATION`: `revision`, the steps in force that may still decide a
window, one that is announced, what windows were lowered to while they ran, and the ids of raises.
A window (`key/42@2026-11-22`) is a budget of its own: a region makes its item at its first grant,
with its share of the newest step that begins with the window, or before it. So all regions divide
the same limit, whenever each first looks. Of a window older than every step nothing is minted.

    in force ── announce ──> announced ── every region shows it ── wait ──> in force
                                 └── its time comes first ──> withdrawn, or announced for later,
                                                              each time for much later (`postponed`)

While a step is announced that would decide a window's share nothing is made: another process may
know it to be in force, or withdrawn. The wait is that of the contract's terms: after it no process
acts on a view from before the announcement. A step must begin after it, else it is withdrawn. It
may begin with the one before it, in force or announced, whose time has not come: it takes its
place.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import ROUND_DOWN, Decimal
from typing import Any

from ledger.budgets.rights import Holder, partition_of
from ledger.core import amounts, keys
from ledger.core.amounts import PROPORTION
from ledger.core.entry import AttributeValue, Item, damaged, number_of
from ledger.core.errors import InvalidAmount, InvalidInput, StateConflict
from ledger.core.ids import EPOCH
from ledger.store.conditions import Absent, Equals
from ledger.store.writes import Put

LIMIT_PREFIX = "limit#"
LOWERED_MAX = 31
"""Of how many windows it is known what they were lowered to: as many days as `late` allows."""

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class LimitStep:
    """A limit from a time on, in whole seconds since 1970; the first of a budget has none.

    `shares` are what each holder mints of it, and add up to `limit`.
    """

    limit: Decimal
    shares: Mapping[Holder, Decimal]
    since: int | None = None

    @staticmethod
    def of(
        limit: int | Decimal, weights: Mapping[Holder, int], *, since: int | None = None
    ) -> "LimitStep":
        """Return the step of a limit that holders share by weight; the shares add up exactly.

        Of a whole limit the shares are whole; the first holders, in order, take the remainder.

        Raises:
            InvalidInput: the limit is below 0, there is no holder, or a weight is below 0, or all
                are 0.
        """
        amount = amounts.exact(limit)
        if amount < 0:
            raise InvalidAmount(f"a limit must be 0 or more, got {amounts.to_text(amount)}")
        places = [holder for holder in sorted(weights) for _ in range(weights[holder])]
        if not places or min(weights.values()) < 0:
            got = ", ".join(f"{one.region}={number}" for one, number in sorted(weights.items()))
            raise InvalidInput(
                f"weights of a limit must be 0 or more, one above, got {got or 'none'}"
            )
        shares: dict[Holder, Decimal] = dict.fromkeys(sorted(weights), _ZERO)
        for place, holder in enumerate(places):
            portion = amounts.portion(amount, place, len(places))
            shares[holder] = amounts.total((shares[holder], portion))
        return LimitStep(amount, shares, since)

    def like(
        self, limit: Decimal, holders: Iterable[Holder], *, since: int | None = None
    ) -> "LimitStep":
        """Return a step of another limit that its holders share in the same proportion.

        In equal parts if there are others by now, or this one is of nothing.

        Raises:
            InvalidInput: the limit is below 0, or there is no holder.
        """
        equal = LimitStep.of(limit, dict.fromkeys(holders, 1), since=since)
        if equal.shares.keys() != self.shares.keys() or not self.limit:
            return equal
        shares = {
            holder: PROPORTION.multiply(equal.limit, PROPORTION.divide(share, self.limit))
            for holder, share in self.shares.items()
        }
        quantum = amounts.power_of_ten(min(0, int(equal.limit.as_tuple().exponent)))
        rounded = {
            one: share.quantize(quantum, ROUND_DOWN, PROPORTION) for one, share in shares.items()
        }
        rest = amounts.total((equal.limit, *(share.copy_negate() for share in rounded.values())))
        largest = max(sorted(rounded), key=lambda holder: rounded[holder])
        rounded[largest] = amounts.total((rounded[largest], rest))
        return replace(equal, shares=rounded)

    def share_of(self, holder: Holder) -> Decimal:
        """Return what a holder mints; 0 for one that was added later."""
        return self.shares.get(holder, _ZERO)

    def naming(self, holders: Iterable[Holder]) -> "LimitStep":
        """Return the step with other holders named, that have no share of it."""
        return replace(self, shares={**dict.fromkeys(holders, _ZERO), **self.shares})


@dataclass(frozen=True, slots=True)
class BudgetLimit:
    """What the limit item says: steps in force, the older first, and one that is announced.

    `shown` is when every region was found to show what is announced, in whole seconds since 1970.
    `postponed` is how often it was not confirmed in time. `lowered` is what windows were lowered to
    while they ran, with what they were raised by since, by their beginning in whole seconds since
    1970, the last `LOWERED_MAX` of them. Others keep what they began with.
    `raises` are what windows were raised by, by the id of the raise, `raised` when that was.
    `opened_by` is the id of the raise that made it: each window's share has that; empty if nothing
    made it but a limit of 0, None if it was made without an id.
    `generation` is that of the contract under which it was written: only its home wrote it.
    """

    revision: int
    steps: tuple[LimitStep, ...]
    announced: LimitStep | None = None
    shown: int | None = None
    postponed: int = 0
    raises: Mapping[str, Decimal] = field(default_factory=dict)
    raised: Mapping[str, Decimal] = field(default_factory=dict)
    lowered: Mapping[int, Decimal] = field(default_factory=dict)
    opened_by: str | None = None
    generation: int = 1

    @property
    def begins(self) -> int:
        """When the newest step in force begins, in whole seconds since 1970; -1 for the first."""
        return _since(self.steps[-1])

    @property
    def newest(self) -> LimitStep:
        """The step that is announced, else the newest in force: where the limit is going."""
        return self.announced or self.steps[-1]


def lower_window(limit: BudgetLimit, begins: int, target: Decimal) -> BudgetLimit:
    """Note what the window that runs is lowered to; the revision stays."""
    lowered = sorted({**limit.lowered, begins: target}.items())
    return replace(limit, lowered=dict(lowered[-LOWERED_MAX:]))


def raise_window(limit: BudgetLimit, begins: int, amount: Decimal) -> BudgetLimit:
    """Note that the window that runs is raised, if it was lowered; the revision stays."""
    if begins not in limit.lowered:
        return limit
    return lower_window(limit, begins, amounts.total((limit.lowered[begins], amount)))


@dataclass(frozen=True, slots=True)
class LimitUndecided:
    """An announced step would decide: nothing is made until it is in force, or withdrawn."""

    since: int


def step_of(limit: BudgetLimit, begins: int) -> LimitStep | LimitUndecided | None:
    """Return the step by which a window that begins at this time is shared.

    None if none is known that was in force before.
    """
    announced = limit.announced
    if announced is not None and _since(announced) <= begins:
        return LimitUndecided(_since(announced))
    decided = [step for step in limit.steps if _since(step) <= begins]
    return decided[-1] if decided else None


def announce(limit: BudgetLimit, step: LimitStep, *, now: int, wait: int) -> BudgetLimit:
    """Announce a step, one at a time, that begins after the wait for it.

    It takes the place of one that is announced for the same windows; the wait begins again.

    Raises:
        StateConflict: another is announced, for other windows.
        InvalidInput: it begins too early, or before the newest in force.
    """
    if limit.announced is not None and limit.announced.since != step.since:
        begins = EPOCH + timedelta(seconds=_since(limit.announced))
        raise StateConflict(
            f"another step of the limit is announced, {amounts.to_text(limit.announced.limit)} from"
            f" {begins:%Y-%m-%dT%H:%M:%SZ} on: repeat the call once that is in force, by"
            " `ledger budget confirm` or any process that spends"
        )
    earliest = max(now + wait + 1, limit.begins)
    if step.since is None or step.since < earliest:
        raise InvalidInput(f"a step must begin at {earliest} or later, got {step.since}")
    return replace(limit, revision=limit.revision + 1, announced=step, shown=None)


def confirm(
    limit: BudgetLimit, *, now: int, looked: int, wait: int, oldest: int = 0
) -> BudgetLimit | None:
    """Put the announced step in force, or withdraw it if its time has come; None while it waits.

    `looked` is when the one who confirms began to look at all regions, which all showed it; `wait`
    is that of the contract's terms, in seconds. `oldest` is when the oldest window begins of which
    a region may still make its item: steps that decide no such window are forgotten.
    """
    step = limit.announced
    if step is None:
        return None
    if now >= _since(step):
        return withdraw(limit)
    if now <= looked + wait:
        return None
    before = [known for known in limit.steps if _since(known) < _since(step)]
    decided = [place for place, known in enumerate(before) if _since(known) <= oldest]
    steps = (*before[decided[-1] if decided else 0 :], step)
    return replace(withdraw(limit), steps=steps)


def withdraw(limit: BudgetLimit) -> BudgetLimit:
    """Take an announced step back."""
    return replace(limit, revision=limit.revision + 1, announced=None, shown=None, postponed=0)


def note_shown(limit: BudgetLimit, now: int) -> BudgetLimit:
    """Note that every region shows what is announced."""
    return replace(limit, revision=limit.revision + 1, shown=now)


def postpone(limit: BudgetLimit, since: int, *, now: int, wait: int) -> BudgetLimit:
    """Withdraw an announced step whose time has come, and announce it for later, in one write.

    Raises:
        StateConflict: nothing is announced.
        InvalidInput: it begins too early.
    """
    if limit.announced is None:
        raise StateConflict("no step of the limit is announced")
    step = replace(limit.announced, since=since)
    later = announce(withdraw(limit), step, now=now, wait=wait)
    return replace(later, revision=limit.revision + 1, postponed=limit.postponed + 1)


def newest_of(limits: Iterable[BudgetLimit | None]) -> BudgetLimit | None:
    """Return the newest of what regions show of one limit; None if none shows it."""
    found = (limit for limit in limits if limit is not None)
    return max(found, key=lambda limit: (limit.generation, limit.revision), default=None)


def adopt(limit: BudgetLimit) -> BudgetLimit:
    """Return a limit that an earlier home wrote as the next writes it again (`limit_write`)."""
    return replace(limit, revision=limit.revision + 1)


def limit_write(before: BudgetLimit, after: BudgetLimit, counter: str, *, generation: int) -> Put:
    """Return the write of a limit in a generation, by its home, in place of what was read.

    What an earlier home wrote stays under its own generation, and counts no more.

    Raises:
        AmountOverflow: an amount does not fit in 38 digits.
    """
    item = limit_item(replace(after, generation=generation), counter)
    if before.generation != generation:
        return Put(item, Absent())
    return Put(item, Equals("revision", {"N": str(before.revision)}))


def limit_item(limit: BudgetLimit, counter: str) -> dict[str, AttributeValue]:
    """Return the item of a limit.

    Raises:
        AmountOverflow: an amount does not fit in 38 digits.
    """
    item: dict[str, AttributeValue] = {
        "pk": {"S": partition_of(counter)},
        "sk": {"S": limit_sort_key(limit.generation)},
        "revision": {"N": str(limit.revision)},
        "steps": {"L": [_rendered(step) for step in limit.steps]},
    }
    if limit.announced is not None:
        item["announced"] = _rendered(limit.announced)
    if limit.shown is not None:
        item["shown"] = {"N": str(limit.shown)}
    if limit.postponed:
        item["postponed"] = {"N": str(limit.postponed)}
    if limit.opened_by is not None:
        item["opened_by"] = {"S": limit.opened_by}
    if limit.lowered:
        lowered = sorted(limit.lowered.items())
        item["lowered"] = {"M": {str(begins): _number(target) for begins, target in lowered}}
    for name, sums in (("raises", limit.raises), ("raised", limit.raised)):
        if sums:
            item[name] = {"M": {key: _number(sums[key]) for key in sorted(sums)}}
    return item


def limit_of(item: Item) -> BudgetLimit:
    """Return the limit that an item holds.

    Raises:
        DamagedItem: an attribute is missing or of another kind.
    """
    try:
        announced = item.get("announced")
        return BudgetLimit(
            int(number_of(item, "revision")),
            tuple(_step(part) for part in item["steps"]["L"]),
            None if announced is None else _step(announced),
            int(number_of(item, "shown")) if "shown" in item else None,
            int(number_of(item, "postponed")) if "postponed" in item else 0,
            _sums(item, "raises"),
            _sums(item, "raised"),
            {int(begins): target for begins, target in _sums(item, "lowered").items()},
            str(item["opened_by"]["S"]) if "opened_by" in item else None,
            generation=int(item["sk"]["S"].removeprefix(LIMIT_PREFIX)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(item, f"a limit must be readable whole: {error}") from None


def limit_sort_key(generation: int) -> str:
    """Return the sort key of the limit item of a generation of the table's contract."""
    if not 1 <= generation <= keys.GENERATION_MAX:
        raise InvalidInput(f"a generation must be 1 to {keys.GENERATION_MAX:,}, got {generation}")
    return f"{LIMIT_PREFIX}{generation:04d}"


def _sums(item: Item, name: str) -> dict[str, Decimal]:
    parts = item.get(name, {"M": {}})["M"]
    return {key: amounts.parse(part["N"]) for key, part in parts.items()}


def _since(step: LimitStep) -> int:
    return -1 if step.since is None else step.since


def _rendered(step: LimitStep) -> AttributeValue:
    shares = {str(holder): _number(share) for holder, share in sorted(step.shares.items())}
    parts: dict[str, Any] = {"limit": _number(step.limit), "shares": {"M": shares}}
    if step.since is not None:
        parts["since"] = {"N": str(step.since)}
    return {"M": parts}


def _step(part: AttributeValue) -> LimitStep:
    parts = part["M"]
    return LimitStep(
        amounts.parse(parts["limit"]["N"]),
        {Holder.parse(key): amounts.parse(one["N"]) for key, one in parts["shares"]["M"].items()},
        int(parts["since"]["N"]) if "since" in parts else None,
    )


def _number(number: Decimal) -> AttributeValue:
    return {"N": amounts.to_text(amounts.within_range(number))}
