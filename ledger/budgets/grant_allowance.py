"""What one process may still spend under a grant, and what it knows of what it spent.

An amount is taken before its entry is handed on, in one step that nothing can come between, and is
given back only once it is known for sure that the entry was not, and will not be, applied. So the
entries that name the grant never come to more than `spent`.

A process renews the grant at hand before that is used up (`grant_keeper`), by an amount that
follows from its demand of late. The figures come from a simulated day of spends.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_DOWN, Decimal

from ledger.budgets import rights_plan
from ledger.budgets.rights import Grant, GrantName, LateCharge, Rights, noted
from ledger.budgets.rights_plan import SpendPlan, Step
from ledger.core import amounts
from ledger.core.amounts import PROPORTION
from ledger.core.ids import EPOCH

_ZERO = Decimal(0)


@dataclass(slots=True)
class Allowance:
    """A grant that this process holds; `remaining` of it was not taken yet.

    `in_flight` entries have no outcome yet. `is_doubtful` if one's outcome was not learned, or may
    change: then the grant is closed by reading. `held` is what durable holds keep that are open, as
    far as this process knows, `resolved` are those that were resolved of late.
    """

    name: GrantName
    grant: Grant
    remaining: Decimal
    in_flight: int = 0
    is_doubtful: bool = False
    held: Decimal = Decimal(0)
    resolved: Mapping[str, LateCharge] = field(default_factory=dict)

    def take(self, amount: Decimal) -> bool:
        """Take an amount for an entry, if there is as much."""
        if self.remaining < amount:
            return False
        self.remaining = amounts.total((self.remaining, amount.copy_negate()))
        self.in_flight += 1
        return True

    def applied(self) -> None:
        """Note that an entry is durable."""
        self.in_flight -= 1

    def doubted(self) -> None:
        """Note that it is not known whether an entry is, or will be, applied."""
        self.in_flight -= 1
        self.is_doubtful = True

    def given_back(self, amount: Decimal) -> None:
        """Note that an entry of this amount was not applied, nor will be."""
        self.in_flight -= 1
        self.remaining = amounts.total((self.remaining, amount))

    def settled(self, hold: str, held: Decimal, difference: LateCharge) -> None:
        """Note that a hold, by its id, is resolved for less or more than was `held`."""
        self.applied()
        self.held = amounts.total((self.held, held.copy_negate()))
        self.resolved = noted(self.resolved, {hold: difference})
        self.credited(max(Decimal(0), difference.amount.copy_negate()))

    def credited(self, amount: Decimal) -> None:
        """Take back what a hold, now settled, came to less than was held; below 0 it is more."""
        self.remaining = amounts.total((self.remaining, amount))

    def grown(self, grant: Grant) -> None:
        """Take in that the grant has become larger, or ends later."""
        more = amounts.total((grant.amount, self.grant.amount.copy_negate()))
        self.grant, self.remaining = grant, amounts.total((self.remaining, more))

    @property
    def spent(self) -> SpendPlan:
        """What is known of what was spent under the grant."""
        amount = amounts.total((self.grant.amount, self.remaining.copy_negate()))
        is_sure = not self.is_doubtful and self.in_flight == 0
        return SpendPlan(amount, is_sure=is_sure, held=self.held, resolved=self.resolved)

    @property
    def is_quiet(self) -> bool:
        """Whether every entry has its outcome."""
        return self.in_flight == 0

    @property
    def ends(self) -> datetime:
        """The last time at which a request that names the grant may be signed."""
        return EPOCH + timedelta(seconds=self.grant.expires)

    def close(self, rights: Rights) -> Rights | None:
        """Return an item with the grant closed, or shrunk; None if it is so already."""
        version, spent = self.name.version, self.spent
        grant = rights.grants.get(version)
        if grant is None or (not spent.is_sure and grant.amount == spent.amount):
            return None
        done = rights_plan.close(rights, version, spent)
        return done if isinstance(done, Rights) else None


@dataclass(frozen=True, slots=True)
class AtHand:
    """A grant that this process holds, and the highest limit known of its budget."""

    allowance: Allowance
    limit: Decimal


@dataclass(frozen=True, slots=True)
class AllowanceTaken:
    """One amount, taken from the grant of each budget for one entry."""

    amount: Decimal
    allowances: tuple[Allowance, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the grants, as the entry has them."""
        return tuple([str(allowance.name) for allowance in self.allowances])

    @property
    def expires(self) -> int:
        """When the first of the grants ends, in whole seconds since 1970."""
        return min([allowance.grant.expires for allowance in self.allowances])

    def settling(self, actual: Decimal) -> "Settling | None":
        """Return this for the settlement of what was kept aside; None if there is too little more.

        What it came to more is taken from the grants now, as long as they are at hand. What it came
        to less is theirs again once nothing else can be written for the hold.
        """
        amount = max(self.amount, actual)
        more = amounts.total((amount, self.amount.copy_negate()))
        if any(allowance.remaining < more for allowance in self.allowances):
            return None
        for allowance in self.allowances:
            allowance.credited(more.copy_negate())
        return Settling(amount, self.allowances, self.amount, actual)

    def applied(self, *, keyed: bool, is_hold: bool = False) -> None:
        """Note that the entry is durable; one with a key may yet be another region's."""
        for allowance in self.allowances:
            allowance.applied()
            allowance.is_doubtful = allowance.is_doubtful or keyed
            if is_hold:
                allowance.held = amounts.total((allowance.held, self.amount))

    def given_back(self) -> None:
        """Note that no such entry is applied, nor will be."""
        for allowance in self.allowances:
            allowance.given_back(self.amount)

    def doubted(self) -> None:
        """Note that it is not known whether the entry is, or will be, applied."""
        for allowance in self.allowances:
            allowance.doubted()


@dataclass(frozen=True, slots=True)
class Settling(AllowanceTaken):
    """What a hold kept aside, while its settlement for `actual` is written: the larger of both.

    If that is not applied `held` stays kept aside.
    """

    held: Decimal
    actual: Decimal

    def applied(self, *, keyed: bool, is_hold: bool = False) -> None:
        """Note that the entry is durable."""
        self._come_to(self.actual)
        AllowanceTaken.applied(self, keyed=keyed, is_hold=is_hold)

    def given_back(self) -> None:
        """Note that no such entry is applied, nor will be: the hold is as before."""
        self._come_to(self.held)

    def doubted(self) -> None:
        """Note that it is not known whether the entry is, or will be, applied."""
        self._come_to(self.actual)
        AllowanceTaken.doubted(self)

    def _come_to(self, amount: Decimal) -> None:
        less = amounts.total((self.amount, amount.copy_negate()))
        for allowance in self.allowances:
            allowance.credited(less)


class OpenGrants:
    """The grants of one budget that this process has open: one at hand, and those it has retired.

    Until `until` something new may be spent under the grant at hand. A retired grant is closed once
    each of its entries has its outcome; if one has not, or keys were used, it is left shrunk.
    """

    def __init__(self) -> None:
        self.at_hand: Allowance | None = None
        self.until = EPOCH
        self._retired: list[Allowance] = []

    def __len__(self) -> int:
        return len(self._retired) + (self.at_hand is not None)

    @property
    def remaining(self) -> Decimal:
        """What was not taken yet of the grant at hand."""
        return _ZERO if self.at_hand is None else self.at_hand.remaining

    @property
    def can_close(self) -> bool:
        """Whether a retired grant has the outcomes of all its entries."""
        return any(retired.is_quiet for retired in self._retired)

    def have(self, amount: Decimal, now: datetime) -> bool:
        """Return whether an amount can be taken from the grant at hand."""
        return self.at_hand is not None and now <= self.until and self.remaining >= amount

    def take(self, amount: Decimal, now: datetime) -> Allowance | None:
        """Take an amount from the grant at hand; None if there is too little, or none."""
        allowance = self.at_hand
        if allowance is None or now > self.until or not allowance.take(amount):
            return None
        return allowance

    def named(self, name: str, now: datetime) -> Allowance | None:
        """Return the grant at hand if it has this name, and is not over."""
        allowance = self.at_hand
        if allowance is None or str(allowance.name) != name or now > allowance.ends:
            return None
        return allowance

    def left(self, mine: Decimal, now: datetime) -> Decimal:
        """Return what may be spent here, with what is free, or owed, in the region's item.

        What is left of a grant that is over pays what is owed first.
        """
        if now <= self.until:
            return amounts.total_wide((max(_ZERO, mine), self.remaining))
        return max(_ZERO, amounts.total_wide((mine, self.remaining)))

    def retire(self) -> None:
        """Let nothing more be spent under the grant at hand: what it came to will be written."""
        if self.at_hand is not None:
            self._retired.append(self.at_hand)
            self.at_hand = None

    def rotate(self, now: int) -> None:
        """Retire the grant at hand once it is `ROTATE_SECONDS` old; in seconds since 1970."""
        if self.at_hand is not None and now - self.at_hand.grant.since >= ROTATE_SECONDS:
            self.retire()

    def closings(self) -> list[Step]:
        """Return the steps that close, or shrink, what is retired."""
        return [retired.close for retired in self._retired]

    def are_shown(self, rights: Rights, token: str) -> bool:
        """Return whether an item shows a grant of this token, or that the one at hand goes on."""
        if rights_plan.granted_to(rights, token) is not None:
            return True
        held = self.at_hand
        shown = None if held is None else rights.grants.get(held.name.version)
        return held is not None and shown is not None and shown.expires > held.grant.expires

    def take_in(self, rights: Rights, token: str, *, budget: str, seconds: float) -> None:
        """Take in the item that was written: a grant of this token, or more of the one at hand.

        `budget` is as in `GrantName`; nothing new is spent in the last `seconds` of the grant.
        """
        version, held = rights_plan.granted_to(rights, token), self.at_hand
        if version is not None:
            self.retire()
            grant = rights.grants[version]
            name = GrantName(rights.holder, version, budget)
            self.at_hand = Allowance(name, grant, grant.amount)
        elif held is not None and held.name.version in rights.grants:
            held.grown(rights.grants[held.name.version])
        if self.at_hand is not None:
            self.until = self.at_hand.ends - timedelta(seconds=seconds)
        self.forget_closed(rights)

    def forget_closed(self, rights: Rights) -> None:
        """Forget the grants that are closed, and those that are left to be closed by reading."""
        self._retired = [
            allowance
            for allowance in self._retired
            if allowance.name.version in rights.grants
            and not (allowance.is_quiet and allowance.is_doubtful)
        ]


AHEAD_SECONDS = 30.0
"""A grant has what is spent in this time, by the recent rate."""
FIRST_SPENDS = 10
"""How many spends the first grant has, before there is a rate."""
SPENDS_MAX = 10_000
"""How many spends like the largest of late a grant has at most."""
FREE_PART = 6
"""A grant has at most this part of what is free here, so that other processes find some."""
ROTATE_SECONDS = 300
"""How old a grant becomes: its entries are merged once it is closed."""
IDLE_SECONDS = 60.0
"""How long a grant is kept that nothing is spent under."""
REFUSAL_SECONDS = 1.0
"""For how long a refusal is repeated from memory: a raise may be seen so much later."""
_OF_RATES = amounts.context(6, ROUND_DOWN)

RATE_WEIGHT = Decimal("0.5")
"""How much the time since the last renewal counts in the rate."""


def quantum_of(amount: Decimal) -> Decimal:
    """Return the smallest piece of an amount, a power of ten: 1 of 120, 0.01 of 3.50."""
    exponent = amount.normalize(PROPORTION).as_tuple().exponent
    return amounts.power_of_ten(min(0, int(exponent)))


def rate_of(before: Decimal, spent: Decimal, seconds: float) -> Decimal:
    """Return the rate a second after so much was spent in so many seconds, rounded to 6 digits."""
    if seconds <= 0:
        return before
    recent = PROPORTION.divide(spent, amounts.of_text(repr(seconds)))
    weighed = PROPORTION.multiply(RATE_WEIGHT, recent)
    rest = PROPORTION.multiply(PROPORTION.subtract(Decimal(1), RATE_WEIGHT), before)
    return _OF_RATES.create_decimal(PROPORTION.add(weighed, rest))


def ahead_of(rate: Decimal, largest: Decimal) -> Decimal:
    """Return what a process that spends at this rate is to have, in one grant."""
    ahead = PROPORTION.multiply(rate, amounts.of_text(repr(AHEAD_SECONDS)))
    return max(ahead, PROPORTION.multiply(largest, Decimal(FIRST_SPENDS)))


def grant_size(
    wanted: Decimal,
    *,
    have: Decimal,
    rate: Decimal,
    largest: Decimal,
    available: Decimal,
    quantum: Decimal,
) -> Decimal:
    """Return how much to take where at least `wanted` is needed now, and so much is available.

    The process has some (`have`) already. `largest` is the largest spend of late; the result is a
    multiple of `quantum`, and `wanted` if there is not more.
    """
    ahead = max(Decimal(0), PROPORTION.subtract(ahead_of(rate, largest), have))
    most = min(
        PROPORTION.multiply(largest, Decimal(SPENDS_MAX)),
        PROPORTION.divide(max(Decimal(0), available), Decimal(FREE_PART)),
    )
    size = min(ahead, most).quantize(quantum, ROUND_DOWN, PROPORTION)
    return max(wanted, size)


@dataclass(slots=True)
class Demand:
    """What a process spends of a budget, and waits for: its grants are sized by that.

    `quantum` is the smallest piece that was granted, `waiting` the sum that calls wait for. Times
    are of the monotonic clock.
    """

    used_at: float
    counted_at: float
    rate: Decimal = _ZERO
    waiting: Decimal = _ZERO
    quantum: Decimal = Decimal(1)
    largest: Decimal = _ZERO
    spent: Decimal = _ZERO

    def spend(self, amount: Decimal, now: float) -> None:
        """Note that an amount was taken."""
        self.spent = amounts.total_wide((self.spent, amount))
        self.largest = max(self.largest, amount)
        self.used_at = now

    def wait_for(self, amount: Decimal) -> None:
        """Note that a call waits for an amount; below 0, that it does not any more."""
        self.waiting = amounts.total_wide((self.waiting, amount))

    def count_rate(self, now: float) -> None:
        """Take in what was spent since this was last called."""
        self.rate = rate_of(self.rate, self.spent, now - self.counted_at)
        self.spent, self.counted_at = _ZERO, now

    def quantum_for(self, amount: Decimal) -> Decimal:
        """Return the smallest piece, once this amount is granted, too."""
        return min(self.quantum, quantum_of(amount))

    def missing(self, amount: Decimal, there: Decimal) -> Decimal:
        """Return how much more is wanted than is there, where an amount is."""
        missing = amounts.total_wide((max(amount, self.waiting), there.copy_negate()))
        return missing if missing > 0 else self.quantum

    def exceeds(self, remaining: Decimal) -> bool:
        """Return whether a grant with so much left is soon used up; not while nothing is spent."""
        if not self.spent:
            return False
        return amounts.EXACT.multiply(remaining, 2) < ahead_of(self.rate, self.largest)

    def size(self, amount: Decimal, *, have: Decimal, available: Decimal) -> Decimal | None:
        """Return how much to take for an amount, and for all that wait, if there is as much.

        The process has some (`have`) already. None if there is too little for the amount alone.
        """
        less = have.copy_negate()
        need = max(_ZERO, amounts.total_wide((max(amount, self.waiting), less)))
        if available < need:
            need = max(_ZERO, amounts.total_wide((amount, less)))
        if available < need:
            return None
        return grant_size(
            need,
            have=have,
            rate=self.rate,
            largest=max(self.largest, amount),
            available=available,
            quantum=self.quantum_for(amount),
        )
