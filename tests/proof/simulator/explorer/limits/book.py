"""Rights items by number, so that states are small; the plan functions over those numbers.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import cache, partial
from typing import Any

from ledger.budgets import rights_plan
from ledger.budgets.rights import Grant, GrantName, Holder, Rights, rights_item
from ledger.budgets.spend_record import SpendRecord
from ledger.core.errors import InvalidInput
from ledger.core.ids import EPOCH
from ledger.store.conditions import holds
from proof.simulator.explorer.limits.rules import REGIONS, Rules

COUNTER = "c"
HOLDERS = tuple(map(Holder, REGIONS))
LIVE, EXPIRED, OVER = 0, 1, 2
"""The phases of a grant: requests are signed; none is, but those signed may land; none can land."""
SIGNATURE_LIFETIME = 10.0
CLOCK_SKEW = 1.0
_EXPIRES = 2
_TERMS: Mapping[str, Any] = {"since": 0, "expires": _EXPIRES, "token": "t"}
_DATES = (1, 3, 14)
"""The `Date` of a grant's region in each phase."""
NONE = -1


@cache
def spend(holder: int, version: int, number: int) -> SpendRecord:
    """Return the entry of a spend of 1 under a grant."""
    return SpendRecord(str(number), Decimal(1), (GrantName(HOLDERS[holder], version),))


class Book:
    """Rights items by number; what each rule makes of them, NONE where it makes nothing."""

    def __init__(self, rules: Rules) -> None:
        self._numbers: dict[Any, int] = {}
        self._items: list[Rights] = []
        self.rules = rules
        for name in (
            *(
                "take",
                "close",
                "renew",
                "top_up",
                "reclaim",
                "send",
                "take_up",
                "cut_off",
                "mint_again",
                "is_written",
            ),
            *("may_sign", "is_over", "sums", "shows_all_closed", "stake"),
        ):
            setattr(self, name, cache(getattr(self, name)))

    def number(self, rights: Rights) -> int:
        """Return the number of an item."""
        key = _frozen(rights)
        number = self._numbers.setdefault(key, len(self._items))
        if number == len(self._items):
            self._items.append(rights)
        return number

    def __getitem__(self, number: int) -> Rights:
        """Return the item of a number."""
        return self._items[number]

    def create(self, holder: int, minted: int) -> int:
        """Return the first version of an item."""
        return self.number(rights_plan.create(HOLDERS[holder], Decimal(minted)))

    def _made(self, after: object) -> int:
        return self.number(after) if isinstance(after, Rights) else NONE

    def take(self, number: int, amount: int) -> int:
        """Return the item after a grant is taken."""
        return self._made(self.rules.take(self[number], Decimal(amount), **_TERMS))

    def close(self, number: int, version: int, spent: int, unsure: int, held: int = 0) -> int:
        """Return the item after its owner closes a grant, of which `unsure` spends are unknown.

        Open holds keep `held` of it. It cannot be closed by more than it has, which only broken
        rules let be spent.
        """
        known = replace(self.rules.spent(Decimal(spent), Decimal(unsure)), held=Decimal(held))
        try:
            return self._made(self.rules.close(self[number], version, known))
        except InvalidInput:
            return NONE

    def renew(self, number: int, version: int, spent: int, unsure: int, amount: int) -> int:
        """Return the item after its owner closes a grant and takes another in one write."""
        known = self.rules.spent(Decimal(spent), Decimal(unsure))
        steps: list[rights_plan.Step] = [
            partial(rights_plan.close, version=version, spent=known),
            partial(rights_plan.take, amount=Decimal(amount), **_TERMS),
        ]
        return self._made(rights_plan.in_one_write(self[number], steps))

    def top_up(self, number: int, version: int) -> int:
        """Return the item after a grant has grown by 1, and goes on."""
        return self._made(self.rules.top_up(self[number], version, Decimal(1), expires=_EXPIRES))

    def reclaim(self, number: int, version: int, shown: int, held: int = 0) -> int:
        """Return the item after a grant is closed by reading; open holds keep `held` of it."""
        kept = Decimal(held)
        return self._made(self.rules.reclaim(self[number], version, Decimal(shown), held=kept))

    def send(self, number: int, to: int) -> int:
        """Return the item after it sent 1."""
        return self._made(self.rules.send(self[number], HOLDERS[to], Decimal(1)))

    def take_up(self, number: int, giver: int, read: int) -> int:
        """Return the item after it takes up what a giver's item shows; it was once `read`."""
        return self._made(self.rules.take_up(self[number], self[giver], self[read]))

    def given(self, giver: int, there: int) -> tuple[int, int]:
        """Return both items after the giver wrote 1 of its rights into the other, as it shows."""
        mine, other = self[giver], self[there]
        one = Decimal(1)
        return (
            self.number(replace(mine, version=mine.version + 1, retired=mine.retired + one)),
            self.number(replace(other, version=other.version + 1, minted=other.minted + one)),
        )

    def cut_off(self, number: int, lost: int) -> int:
        """Return the item after it cuts off a lost holder."""
        return self._made(self.rules.cut_off(self[number], HOLDERS[lost]))

    def stake(
        self, base: int, others: Sequence[int], entries: Sequence[tuple[int, int]]
    ) -> tuple[int, int]:
        """Return what is minted again for a lost holder, and what it charged."""
        spends = [spend(holder, version, n) for n, (holder, version) in enumerate(entries)]
        found = self.rules.stake(self[base], [self[other] for other in others], spends)
        return int(found.amount), int(found.charged + found.entries)

    def mint_again(self, number: int, lost: int, amount: int) -> int:
        """Return the item after it minted what a lost holder had."""
        return self._made(self.rules.mint_again(self[number], HOLDERS[lost], Decimal(amount)))

    def is_written(self, read: int, current: int) -> bool:
        """Return whether a write that rests on a version read is applied to the current one."""
        return holds(self.rules.condition(self[read]), rights_item(self[current], COUNTER))

    def may_sign(self, number: int, version: int, phase: int) -> bool:
        """Return whether a request that names a grant is sent in this phase."""
        grant = self[number].grants.get(version) or Grant(Decimal(1), 0, _EXPIRES, "t")
        return self.rules.may_send(grant, EPOCH + timedelta(seconds=_DATES[phase]))

    def is_over(self, number: int, version: int, phase: int) -> bool:
        """Return whether a grant that is open may be closed by reading in this phase."""
        return self.rules.is_over(
            self[number].grants[version],
            _DATES[phase],
            signature_lifetime=SIGNATURE_LIFETIME,
            clock_skew=CLOCK_SKEW,
        )

    def shows_all_closed(self, views: Sequence[Sequence[int]], holder: int, version: int) -> bool:
        """Return whether an entry may be folded, by the items that each region shows."""
        shown = {str(region): self._view(view) for region, view in enumerate(views)}
        return self.rules.may_fold(spend(holder, version, 0), shown)

    def _view(self, view: Sequence[int]) -> Mapping[tuple[str, Holder], Rights]:
        items = [self[number] for number in view if number != NONE]
        return {("", item.holder): item for item in items}

    def sums(self, numbers: Sequence[int]) -> tuple[int, int, int, str]:
        """Return, over the items of live holders, what they hold, what is charged, grants open.

        What they hold is available, granted, or sent among them and not taken up. Last, what is
        wrong.
        """
        items = [self[number] for number in numbers]
        by_holder = {item.holder: item for item in items}
        held, wrong = Decimal(0), ""
        for item in items:
            held += item.available + item.granted
            for to, amount in item.sent.items():
                if to in by_holder:
                    taken = by_holder[to].taken.get(item.holder, Decimal(0))
                    held += amount - taken
                    if taken > amount:
                        wrong = f"rights made: {to} took {taken} of {amount} sent by {item.holder}"
        charged = sum(int(item.charged) for item in items)
        return int(held), charged, sum(len(item.grants) for item in items), wrong


def _frozen(rights: Rights) -> tuple[Any, ...]:
    maps = (
        rights.sent,
        rights.taken,
        rights.grants,
        rights.adjusted,
        rights.released,
        rights.cut,
        rights.raises,
        rights.reclaimed,
    )
    numbers = (rights.version, rights.minted, rights.retired, rights.charged, rights.held)
    return (rights.holder, *numbers, *(tuple(sorted(one.items(), key=_first)) for one in maps))


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]
