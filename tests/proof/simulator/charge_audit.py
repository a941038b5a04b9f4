"""What the holders of a budget are charged that no entry under their grants says.

While control items cannot be had a pattern may let spends through: their entries name no grant, and
are charged to the budgets by the process that wrote them, or by a pass; once.
"""

from collections.abc import Callable, Iterable
from decimal import Decimal

from ledger.core.entry import Key
from proof.simulator.budget_items import Copy

_ZERO = Decimal(0)


def _is_none(holder: str) -> bool:
    del holder
    return False


class ChargeAudit:
    """What may be charged, and must be, of spends that were let through in one world."""

    def __init__(self) -> None:
        self._through: dict[tuple[Key, str], Copy] = {}

    def let_through(self, key: Key, copy: Copy) -> tuple[str, ...]:
        """Take in an entry that names no grant; return the budgets that are charged for it.

        A key that is let through in two regions at once may be charged in both.
        """
        for _, holder in copy.through[:1]:
            self._through[key, holder] = copy
        return tuple(budget for budget, _ in copy.through)

    def most(self, budget: str, lost: Callable[[str], bool] = _is_none) -> Decimal:
        """Return the most that a budget may be charged for what was let through.

        Of a lost region twice: that it charged it may not have arrived.
        """
        return sum(
            (
                copy.amount * (2 if lost(holder) else 1)
                for (_, holder), copy in self._through.items()
                if _is_of(copy, budget)
            ),
            _ZERO,
        )


def least(budget: str, copies: Iterable[Copy], lost: Callable[[str], bool]) -> Decimal:
    """Return what holders that remain must be charged for entries that were let through.

    That is all but what a holder that is lost was charged, or one of a budget without a limit.
    """
    found = _ZERO
    for copy in copies:
        charged = [grant for grant in copy.adjusted if grant[0] == budget]
        elsewhere = any(lost(holder) or not version for _, holder, version in charged)
        if _is_of(copy, budget) and not elsewhere:
            found += copy.amount
    return found


def _is_of(copy: Copy, budget: str) -> bool:
    return any(name == budget for name, _ in copy.through)
