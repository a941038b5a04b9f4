"""What may have happened to a budget of three holders, as properties draw it."""

from decimal import Decimal

from hypothesis import strategies as st
from support.budgets import AT_HOME, AT_SOUTH, AT_WEST

from ledger.budgets import credit_rules, hold_rules, lost_stake, rights_plan
from ledger.budgets.rights import GrantName, Holder, LateCharge, Rights
from ledger.budgets.rights_plan import SpendPlan
from ledger.budgets.spend_record import SpendRecord, charge_of, held_of
from ledger.core.amounts import EXACT, total_wide

ZERO = Decimal(0)
LIMIT = 100
Event = tuple[int, str, int, int]
KINDS = ("take", "top up", "spend", "hold", "settle", "apart", "close", "send")
OF_CREDITS = ("open", "credit", "take in")


def _events(kinds: tuple[str, ...], at_least: int) -> st.SearchStrategy[list[Event]]:
    event = st.tuples(st.integers(0, 2), st.sampled_from(kinds), st.integers(1, 9), _BESIDE)
    return st.lists(event, min_size=at_least, max_size=30)


_BESIDE = st.integers(1, 2)
EVENTS = _events(KINDS, 4)
WITH_CREDITS = _events((*KINDS, *3 * OF_CREDITS), 15)
BACK = st.tuples(*[st.integers(0, 9)] * 3)


class Past:
    """What happened to a budget of three holders: each version of its items and entries."""

    def __init__(self) -> None:
        shares = {AT_HOME: 40, AT_SOUTH: 20, AT_WEST: 40}
        self.items = [
            [rights_plan.create(holder, Decimal(share))] for holder, share in shares.items()
        ]
        self.entries: list[list[SpendRecord]] = []
        self.settled: dict[GrantName, dict[str, LateCharge]] = {}
        self.taken_in: set[str] = set()

    @property
    def spends(self) -> list[SpendRecord]:
        """The entries as they are by now."""
        return [versions[-1] for versions in self.entries]

    def happens(self, place: int, kind: str, amount: Decimal, beside: int) -> None:
        """Let something happen in one holder, if it is possible."""
        item = self.items[place][-1]
        other = self.items[(place + beside) % 3][-1]
        after = self._after(item, other, kind, amount, beside)
        if isinstance(after, Rights) and after != item:
            self.items[place].append(after)

    def _after(
        self, item: Rights, other: Rights, kind: str, amount: Decimal, beside: int
    ) -> object:
        if kind == "take":
            return rights_plan.take(item, amount, since=0, expires=60, token="t")
        if kind == "open":
            return rights_plan.take(item, ZERO, since=0, expires=60, token="t")
        if kind in {"credit", "take in"}:
            return self._credited(item, kind, amount)
        if kind == "send":
            return rights_plan.send(rights_plan.take_up(item, other) or item, other.holder, amount)
        if kind in {"settle", "apart"}:
            return self._resolved(item, amount - 1, by_owner=kind == "settle")
        return self._granted(item, kind, amount, beside)

    def _credited(self, item: Rights, kind: str, amount: Decimal) -> object:
        """Credit under a grant of 0, or take in what waits: every region shows it by then."""
        for version, grant in item.grants.items():
            name = GrantName(item.holder, version, "b")
            if grant.amount:
                continue
            if kind == "credit":
                credit = SpendRecord(f"{len(self.entries)}", amount.copy_negate(), (name,))
                self.entries.append([credit])
                return item
            credited = [one for one in self.spends if name in one.grants]
            waiting = [one for one in credited if one.id not in self.taken_in]
            self.taken_in |= {one.id for one in waiting}
            total = charge_of(credited, name).copy_negate()
            return credit_rules.take_in(item, version, total)
        return item

    def _granted(self, item: Rights, kind: str, amount: Decimal, beside: int) -> object:
        for version, grant in item.grants.items():
            name = GrantName(item.holder, version, "b")
            if not grant.amount and kind != "close":
                continue
            used = charge_of(self.spends, name)
            if kind == "top up":
                return rights_plan.top_up(item, version, amount, expires=60)
            if kind == "close":
                return self._closed(item, name, used, by_owner=beside == 1)
            unadjusted = item.adjusted.get(version, ZERO).copy_negate()
            if total_wide((used, unadjusted, amount)) <= grant.amount:
                hold = 1 if kind == "hold" else None
                self.entries.append([SpendRecord(f"{len(self.entries)}", amount, (name,), hold)])
                return item
        return item

    def _resolved(self, item: Rights, actual: Decimal, *, by_owner: bool) -> object:
        for versions in self.entries:
            [name] = versions[-1].grants
            if name.holder != item.holder or not versions[-1].is_open_hold:
                continue
            resolved = hold_rules.settle(versions[-1], actual)
            if not by_owner:
                done = hold_rules.charge_apart(resolved, {"b": item}, now=0.0)
                if isinstance(done, rights_plan.TooFewRights):
                    continue
                versions.append(done.resolved.after)
                return done.items[0]
            if name.version in item.grants and resolved.difference <= 0:
                versions.append(resolved.after)
                kept = self.settled.setdefault(name, {})
                kept[resolved.after.id] = LateCharge(resolved.difference, 0)
                return item
        return item

    def _closed(self, item: Rights, name: GrantName, used: Decimal, *, by_owner: bool) -> object:
        settled = self.settled.get(name, {})
        waits = any(name in one.grants and one.id not in self.taken_in for one in self.spends)
        if not item.grants[name.version].amount and waits:
            by_owner = False
        if not by_owner and not settled:  # by reading: minutes after its owner settled anything
            return rights_plan.reclaim(item, name.version, used, held=held_of(self.spends, name))
        known = used - item.adjusted.get(name.version, ZERO)
        held = sum((one.amount for one in self._open_to_its_owner(name)), ZERO)
        spent = SpendPlan(known, is_sure=True, held=held, resolved=settled)
        return rights_plan.close(item, name.version, spent)

    def _open_to_its_owner(self, name: GrantName) -> list[SpendRecord]:
        """Return the holds that the owner of a grant knows of, and has not resolved itself."""
        return [
            versions[0]
            for versions in self.entries
            if name in versions[0].grants
            and versions[0].is_open_hold
            and (versions[-1].is_open_hold or versions[-1].adjusted)
        ]


def closed(item: Rights, spends: list[SpendRecord]) -> Rights:
    """Return an item whose grants were closed by their entries."""
    for version in item.grants:
        after = rights_plan.reclaim(
            item, version, charge_of(spends, GrantName(item.holder, version, "b"))
        )
        assert isinstance(after, Rights)
        item = after
    return item


def reclaimed(items: dict[Holder, Rights], spends: list[SpendRecord], gone: Holder) -> Decimal:
    """Return what can be spent once a holder was reclaimed, and its holds have expired."""
    others = {}
    for holder, item in items.items():
        if holder != gone:
            cut = lost_stake.cut_off(item, gone)
            assert cut is not None
            others[holder] = closed(cut, [one for one in spends if gone not in holders_of(one)])
    stake = lost_stake.stake_of(items[gone], others.values(), spends, "b")
    home = min(others)
    again = lost_stake.mint_again(others[home], gone, stake.amount)
    assert again is not None
    for spend in spends:
        if spend.is_open_hold and gone in holders_of(spend):
            void = hold_rules.void(spend)
            apart = hold_rules.charge_apart(void, {"b": again}, now=0.0, gone=[gone])
            assert not isinstance(apart, rights_plan.TooFewRights)
            [again] = apart.items
    others[home] = again
    under_way = (
        EXACT.subtract(item.sent.get(taker, ZERO), other.taken.get(giver, ZERO))
        for giver, item in others.items()
        for taker, other in others.items()
    )
    return total_wide((*(item.available for item in others.values()), *under_way))


def holders_of(spend: SpendRecord) -> set[Holder]:
    """Return the holders of an entry's grants."""
    return {name.holder for name in spend.grants}


def applied(spends: list[SpendRecord], gone: Holder) -> Decimal:
    """Return what entries come to once the holds of a holder that is gone have expired."""
    return total_wide(
        one.amount for one in spends if not (one.is_open_hold and gone in holders_of(one))
    )
