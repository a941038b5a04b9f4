"""What one process may still spend under a grant, and what it knows of what it spent.

An amount is taken before its entry is handed on, in one step that nothing can come between, and is
given back only once it is known for sure that the entry was not, and will not be, applied. So the
entries that name the grant never come to more than `spent`.

How much a process asks for, and for how long: figures of the design's simulated day.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal

from ledger.budgets.rights import Grant, GrantName, LateCharge, noted
from ledger.budgets.rights_plan import SpendPlan
from ledger.core import amounts
from ledger.core.amounts import PROPORTION


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
