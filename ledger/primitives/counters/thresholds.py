"""Thresholds of a counter: what they allow, as a condition, and their parts over shards.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from decimal import Decimal

from ledger.core import amounts
from ledger.core.errors import AmountOverflow, InvalidAmount, InvalidInput
from ledger.store.conditions import AnyOf, Compares, Condition, Has, Not

VALUE = "value"
"""The attribute that holds a counter's value; a counter without it stands at 0."""
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The least and the most that a value may be; None for no bound.

    Only the bound that a change moves towards counts, so that a value outside can come back.
    """

    minimum: Decimal | None = None
    maximum: Decimal | None = None

    def allows(self, value: Decimal, change: Decimal) -> bool:
        """Return whether the limits allow this change of the value."""
        after = amounts.total_wide([value, change])
        if change < 0 and self.minimum is not None:
            return after >= self.minimum
        return change <= 0 or self.maximum is None or after <= self.maximum

    def room(self, value: Decimal, change: Decimal) -> Decimal | None:
        """Return how far a value may go in the direction of a change, None for any distance."""
        bound = self.minimum if change < 0 else self.maximum
        if bound is None:
            return None
        ends = (value, bound) if change < 0 else (bound, value)
        return max(_ZERO, amounts.total_wide([ends[0], ends[1].copy_negate()]))

    def condition(self, change: Decimal) -> Condition | None:
        """Return what must be true of the item for this change, None for nothing.

        Raises:
            AmountOverflow: bound and change are so far apart that DynamoDB cannot compare with
                their difference.
        """
        bound = self.minimum if change < 0 else self.maximum
        if bound is None or change == 0:
            return None
        edge = edge_of("minimum" if change < 0 else "maximum", bound, change)
        stands = Compares(VALUE, ">=" if change < 0 else "<=", {"N": amounts.to_text(edge)})
        return AnyOf((Not(Has(VALUE)), stands)) if self.allows(_ZERO, change) else stands

    def part(self, shard: int, shards: int) -> "Thresholds":
        """Return one shard's part of these, in whole units, as values are portioned."""
        bounds = (self.minimum, self.maximum)
        return Thresholds(
            *(
                None if bound is None else amounts.whole_portion(bound, shard, shards)
                for bound in bounds
            )
        )

    def __str__(self) -> str:
        """Return the bounds in words."""
        bounds = (("minimum", self.minimum), ("maximum", self.maximum))
        said = [f"{name} {amounts.to_text(bound)}" for name, bound in bounds if bound is not None]
        return " and ".join(said) or "no threshold"


@dataclass(frozen=True, slots=True)
class ThresholdPart:
    """What one shard's item is to be changed by, within the shard's part of the thresholds.

    `revision` is the layout's that the item must belong to.
    """

    shard: int
    change: Decimal
    limits: Thresholds
    revision: int = 0


def checked_limits(minimum: int | Decimal | None, maximum: int | Decimal | None) -> Thresholds:
    """Return thresholds that a counter can begin within.

    Raises:
        InvalidInput: 0, the initial value, is outside of them.
        InvalidAmount, AmountOverflow: a bound is not an exact amount; the message names which.
    """
    low, high = _checked_bound("minimum", minimum), _checked_bound("maximum", maximum)
    if (low is not None and low > 0) or (high is not None and high < 0):
        raise InvalidInput(
            f"limits must include 0, where a counter begins, got {Thresholds(low, high)}"
        )
    return Thresholds(low, high)


def _checked_bound(name: str, bound: int | Decimal | None) -> Decimal | None:
    try:
        return None if bound is None else amounts.exact(bound)
    except (AmountOverflow, InvalidAmount) as error:
        raise type(error)(f"{name}: {error}") from None


def edge_of(name: str, bound: Decimal, change: Decimal) -> Decimal:
    """Return the value from which a change just reaches a bound.

    Raises:
        AmountOverflow: it would not fit in 38 digits, so DynamoDB cannot compare with it.
    """
    try:
        return amounts.total([bound, change.copy_negate()])
    except AmountOverflow as error:
        raise AmountOverflow(
            f"{name} {amounts.to_text(bound)} less a change of {amounts.to_text(change)}, which the"
            f" value is compared with: {error}"
        ) from None
