"""What holders that remain are charged for those of a lost region, as the auditor works it out."""

from collections.abc import Iterable, Mapping
from decimal import Decimal

from ledger.core.entry import Key
from proof.simulator.budget_items import Copy, HolderItem

_ZERO = Decimal(0)
Grants = tuple[tuple[str, str, int], ...]


def charged_twice(budget: str, under: Mapping[Key, Mapping[Grants, Decimal]]) -> Decimal:
    """Return what may be charged twice: of keys that a lost region had used as well.

    Which of its entries stands those that remain may learn only once they have agreed. `under` is
    what each entry came to, by the grants that it ever named.
    """
    several = (amounts for amounts in under.values() if len(amounts) > 1)
    return sum(
        (
            max(_ZERO, *each.values())
            for each in several
            if any(grant[0] == budget for grants in each for grant in grants)
        ),
        _ZERO,
    )


def minted_again(remaining: Iterable[HolderItem]) -> Decimal:
    """Return what those that remain minted again for holders that are lost."""
    amounts = (holder.reclaimed.values() for holder in remaining)
    return sum((max(_ZERO, amount) for each in amounts for amount in each), _ZERO)


def owed_by_lost(remaining: Iterable[HolderItem]) -> Decimal:
    """Return what lost holders spent more than they had, as those who reclaimed found."""
    amounts = (holder.reclaimed.values() for holder in remaining)
    return sum((max(_ZERO, -amount) for each in amounts for amount in each), _ZERO)


def settled_for_lost(
    budget: str, name: str, copies: Mapping[Key, Copy], held: Mapping[Key, Decimal]
) -> Decimal:
    """Return what a holder is charged, or given back, for holds of others that are lost."""
    found = _ZERO
    for key, copy in copies.items():
        for grant, written in zip(copy.grants, copy.adjusted, strict=False):
            if grant[0] == budget and grant[1] != name and written[1] == name:
                found += copy.amount - held.get(key, copy.amount)
    return found
