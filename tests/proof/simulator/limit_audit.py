"""What the limit of a budget comes to, as the auditor works it out from what was asked for.

A budget may mint what it was created with and each raise, once; a window the limit of the step that
was in force before it began, and the raises that were made while it ran. What was retired is gone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from decimal import Decimal

from ledger.core.entry import Item
from ledger.core.keys import BUDGET_PREFIX
from proof.simulator.budget_items import HolderItem
from proof.simulator.lost_holders import minted_again

Partitions = Mapping[str, Mapping[str, Item]]
_ZERO = Decimal(0)
_FIRST = -1


class LimitAudit:
    """Checks what is minted of one world's budgets; `fail` reports what is wrong, by rule."""

    def __init__(
        self,
        created: Mapping[str, int],
        *,
        fail: Callable[[str, str], None],
        lost: AbstractSet[str] = frozenset(),
    ) -> None:
        self._lost = lost
        self._created = created
        self._fail = fail
        self._asked: dict[str, dict[str, int]] = {}
        self._made: dict[tuple[str, str], str] = {}
        self._steps: dict[str, dict[int, Decimal]] = {}
        self._newest: dict[str, tuple[int, Decimal]] = {}
        self._open: Counter[str] = Counter()
        self._promised: dict[str, Decimal] = {}
        self.lowered = 0

    def asked(self, budget: str, raise_id: str, amount: int) -> None:
        """Note that a raise is asked for, once or more often."""
        asked = self._asked.setdefault(budget, {})
        if raise_id not in asked and budget in self._promised:
            self._promised[budget] += amount
        asked[raise_id] = amount

    def promised(self, budget: str, limit: Decimal) -> None:
        """Note that a lowering is said to be done: no more is ever applied, but by other raises.

        Those that were asked for, and are not made, may be yet.
        """
        asked = self._asked.get(budget, {}).items()
        pending = sum(amount for one, amount in asked if not self.is_raised(one, budget))
        most = limit + pending
        self._promised[budget] = min(most, self._promised.get(budget, most))

    def most_promised(self, budget: str) -> Decimal | None:
        """Return what at most may be applied of a budget that was lowered; None if none was."""
        return self._promised.get(budget)

    def most(self, budget: str) -> int:
        """Return the most that a budget, or a window of it, can ever be limited to."""
        return self._created[budget] + sum(self._asked.get(budget, {}).values())

    def is_raised(self, raise_id: str, budget: str) -> bool:
        """Return whether a raise was made."""
        return (budget, raise_id) in self._made

    def raises_made(self, budget: str) -> int:
        """Return how many raises of a budget were made."""
        return sum(made == budget for made, _ in self._made)

    def limit(self, counter: str, item: Item) -> None:
        """Take in the steps in force of a limit item, whichever region shows it."""
        steps = self._steps.setdefault(counter, {})
        for part in item["steps"]["L"]:
            step = part["M"]
            since = int(step["since"]["N"]) if "since" in step else _FIRST
            steps[since] = Decimal(step["limit"]["N"])
        revision = int(item["revision"]["N"]), steps[since]
        self._newest[counter] = max(self._newest.get(counter, revision), revision)

    def raised(self, counter: str, name: str, before: HolderItem, now: HolderItem) -> None:
        """Take in the raises that a holder has made: each is one that was asked for, once."""
        budget = counter.partition("@")[0]
        for raise_id in now.raises.keys() - before.raises.keys():
            amount = now.raises[raise_id]
            place = f"{counter} {name}"
            if self._asked.get(budget, {}).get(raise_id) != amount:
                self._fail("raises", f"{place} is raised by {amount} for {raise_id!r}")
            made = self._made.get((budget, raise_id), place)
            self._made[budget, raise_id] = place
            if made != place and made.rpartition(" ")[2].partition(".")[0] not in self._lost:
                said = f"{raise_id!r} is made by {made} and by {place}"
                self._fail("raises", said)

    def check(self, counter: str, holders: Mapping[str, HolderItem]) -> None:
        """Check that a budget, or a window, has minted no more than it may."""
        base = self._base(counter)
        raised = sum((_sum(holder.raises.values()) for holder in holders.values()), _ZERO)
        again = minted_again(holders.values())
        minted = sum((holder.minted for holder in holders.values()), _ZERO)
        if minted > base + raised + again:
            said = f"{minted} are minted, of {base}, {raised} raised and {again} reclaimed"
            self._fail("limit", f"{counter}: {said}")

    def began(self, budget: str) -> None:
        """Note that a limit is to be changed, by calls until one says that it is done."""
        self._open[budget] += 1

    def done(self, budget: str) -> None:
        """Note that such a change is done; one that is given up never is."""
        self._open[budget] -= 1

    def check_rest(self, budget: str, limit: Decimal) -> None:
        """Check that a limit is what its newest step says, once all of its changes are done.

        Where a region was lost, what it had is minted again as far as it was reclaimed.
        """
        newest = self._newest.get(budget)
        if newest is None or self._lost or self._open[budget]:
            return
        if limit != newest[1]:
            self._fail("limit", f"{budget} is limited to {limit}, and is to be to {newest[1]}")

    def check_halves(self, budget: str, tables: Mapping[str, Partitions]) -> None:
        """Check that each raise is in the rights and in the limit, of a budget without windows.

        Of a home that was lost one of both may have arrived alone; to be asked once all is
        reclaimed.
        """
        if not self._lost:
            return
        items = [
            item
            for partitions in tables.values()
            for item in partitions.get(f"{BUDGET_PREFIX}{budget}", {}).values()
        ]
        limits = [item for item in items if item["sk"]["S"].startswith("limit#")]
        rights = [item for item in items if item["sk"]["S"].startswith("rights#")]
        if not limits or not rights:  # of windows they lie apart
            return
        minted = {raise_id for item in rights for raise_id in _raises(item)}
        known = {*_raises(max(limits, key=_age))}
        if minted != known:
            self._fail("raises", f"{budget}: minted are {minted}, and the limit knows {known}")

    def whole(self, counter: str, holders: Mapping[str, HolderItem]) -> Decimal:
        """Return what a budget, or a window, comes to if each region has made its share."""
        more = (_sum(holder.raises.values()) - holder.retired for holder in holders.values())
        return self._base(counter) + sum(more, _ZERO)

    def _base(self, counter: str) -> Decimal:
        """Return what a budget was created with, or the limit of a window when it began."""
        budget, _, window = counter.partition("@")
        if not window:
            return Decimal(self._created[budget])
        begins = _hour(window)
        steps = self._steps.get(budget, {})
        since = max((since for since in steps if since <= begins), default=None)
        return Decimal(self._created[budget]) if since is None else steps[since]


def _age(limit: Item) -> tuple[str, int]:
    return limit["sk"]["S"], int(limit["revision"]["N"])


def _raises(item: Item) -> Mapping[str, object]:
    found: Mapping[str, object] = item.get("raises", {"M": {}})["M"]
    return found


def _hour(window: str) -> int:
    """Return when a window of an hour begins, in seconds since 1970."""
    since = datetime.strptime(window, "%Y-%m-%dT%HZ") - datetime(1970, 1, 1)  # noqa: DTZ001, DTZ007 (both are UTC)
    return since // timedelta(seconds=1)


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, _ZERO)
