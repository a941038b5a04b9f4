"""What the accounts of a budget are charged that no entry under their grants says.

While control items cannot be had a pattern may let spends through: their entries name no grant, and
are charged to the budgets by the process that wrote them, as long as that lives; once.
"""

from collections.abc import Callable, Iterable
from decimal import Decimal

from ledger.core import keys
from ledger.core.entry import Key
from ledger.lab.simulator.budget_items import Copy

_ZERO = Decimal(0)


class ChargeAudit:
    """What may be charged, and must be, of spends that were let through in one world."""

    def __init__(self) -> None:
        self._others: dict[str, tuple[str, ...]] = {}
        self._through: dict[tuple[Key, str], tuple[tuple[str, ...], Decimal]] = {}
        self._owed: list[tuple[tuple[str, ...], Decimal, Callable[[], bool]]] = []

    def planned(self, note: str, others: tuple[str, ...]) -> None:
        """Note which budgets a spend is from besides the one of its counter."""
        self._others[note] = others

    def owed(self, budgets: tuple[str, ...], amount: int, is_alive: Callable[[], bool]) -> None:
        """Note what a process was told to be let through."""
        self._owed.append((budgets, Decimal(amount), is_alive))

    def let_through(self, key: Key, copy: Copy) -> tuple[str, ...]:
        """Take in an entry that names no grant; return the budgets that are charged for it.

        A key that is let through in two regions at once is charged in both.
        """
        place = keys.counter_of(key[0])
        own = "" if place is None else place[0]
        budgets = (own, *self._others.get(copy.note, ()))
        self._through[key, copy.stamp[1]] = budgets, copy.amount
        return budgets

    def most(self, budget: str) -> Decimal:
        """Return the most that a budget may be charged for what was let through."""
        return _sum(amount for budgets, amount in self._through.values() if budget in budgets)

    def least(self, budget: str) -> Decimal:
        """Return what of it the processes that live must have charged."""
        return _sum(
            amount for budgets, amount, is_alive in self._owed if budget in budgets and is_alive()
        )


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, _ZERO)
