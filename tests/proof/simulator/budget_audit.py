"""What must hold of budgets, over the union of all regions, judged by a decoding of its own.

An entry's copy that counts is the one of the newest stamp anywhere, also on its way: the last
writer wins. After every step, of each budget and each window:

- limit: what is applied comes to at most what is minted and not retired, and what holds were
  settled over the limit by; no more is minted than the limit and its raises (`limit_audit`), nor
  applied than a lowering that is done said;
- rights: a rights item is written through its own region only, one version after the other; what it
  minted, sent and took up only grows; `taken` is at most what the giver sent; `available` is 0 or
  more; what entries name of a holder is at most what that charged and has granted;
- P1: each region shows exactly what has reached it, each spend once, whether merged or not;
- answers: what was granted is there, what was refused never appears, a call has one entry, and a
  hold is resolved once. (Of a key that was used in two regions at once the last writer's hold
  stands, however the other was resolved.)

At rest no grant is open, nothing is in flight, all that is applied was charged and no more, and
each region shows the whole as its total. (Where more than `WAITING_MAX` grants of one item were
open, some may have been closed unagreed, and keys charged twice.)

Of a region that is lost for good nothing is asked at rest: what it had is stranded, and entries
under its grants stay. What counts there is what reached a remaining region.
"""

import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from decimal import Decimal

from ledger.core import keys
from ledger.core.entry import Item, Key
from ledger.testing.replicas import Replicas, Stamp
from proof.simulator.budget_items import (
    Copy,
    HolderItem,
    copy_of,
    grants_of,
    holder_of,
    shown_in,
    shrinks,
    whole,
)
from proof.simulator.charge_audit import ChargeAudit
from proof.simulator.charge_audit import least as least_let_through
from proof.simulator.limit_audit import LimitAudit
from proof.simulator.lost_holders import (
    charged_twice,
    minted_again,
    owed_by_lost,
    settled_for_lost,
)
from proof.simulator.rolling_audit import RollingAudit, StepAudit

_RIGHTS = re.compile(r"rights#([^./#]+)\.(\d+)/(\d+)", flags=re.ASCII)
_PREFIX = "~budget~"
WAITING_MAX = 16
_ZERO = Decimal(0)
_GROWING = ("minted", "retired", "sent", "taken")


@dataclass(frozen=True, slots=True)
class BudgetRules:
    """The rules of the budgets of a world.

    `lets_through` are the budgets that let spends through, `rolling` the seconds of each budget of
    a rolling window, and `step_wait` the seconds that a step of a limit waits at least.
    """

    limits: Mapping[str, int] = field(default_factory=dict)
    lets_through: AbstractSet[str] = frozenset()
    rolling: Mapping[str, float] = field(default_factory=dict)
    step_wait: float | None = None


NO_BUDGETS = BudgetRules()


class BudgetAudit:
    """Checks the budgets of one world; `fail` reports what is wrong, by rule."""

    def __init__(
        self,
        rules: BudgetRules,
        *,
        fail: Callable[[str, str], None],
        lost: AbstractSet[str] = frozenset(),
        now: Callable[[], float] = float,
    ) -> None:
        self.limits = rules.limits
        self._rolling = RollingAudit(rules.rolling, now=now)
        self._steps = StepAudit(rules.step_wait, now=now, fail=fail)
        self._most: dict[str, Decimal] = {}
        self._lets_through = rules.lets_through
        self._lost = lost
        self._fail = fail
        self.charges = ChargeAudit()
        self.changes = LimitAudit(rules.limits, fail=fail, lost=lost)
        self._over: set[Key] = set()
        self._more: dict[tuple[str, Key], Decimal] = {}
        self._held: dict[Key, Decimal] = {}
        self._best: dict[Key, Copy] = {}
        self._here: dict[tuple[str, str], dict[str, Copy]] = {}
        self._regions: set[str] = set()
        self._under: dict[Key, dict[tuple[tuple[str, str, int], ...], Decimal]] = {}
        self._applied: dict[str, Decimal] = {}
        self._named: dict[tuple[str, str], Decimal] = {}
        self._by_grant: dict[tuple[str, str, int], Decimal] = {}
        self._holders: dict[str, dict[str, HolderItem]] = {}
        self._shown: dict[tuple[str, str], HolderItem] = {}
        self._versions: dict[tuple[str, str, int], HolderItem] = {}
        self._dirty: set[str] = set()
        self._notes: dict[str, Key] = {}
        self._refused: set[str] = set()
        self._crowded: set[str] = set()
        self._deleted: set[Key] = set()
        self._paid_by: dict[Key, tuple[object, ...]] = {}
        self._doubled: set[Key] = set()
        self.granted = 0
        self.refusals = 0
        self.resolutions = 0

    def has(self, counter: str) -> bool:
        """Return whether a counter is a budget of this world, or a window of one."""
        return counter.partition("@")[0] in self.limits

    # What happens.

    def arrived(self, world: Replicas, region: str, key: Key, item: Item | None) -> None:
        """Take in a write that reached a region."""
        if not self.limits:
            return
        if key[0].startswith(_PREFIX):
            found = _RIGHTS.fullmatch(key[1])
            if found is None and key[1].startswith("limit#") and item is not None:
                self.changes.limit(key[0].removeprefix(_PREFIX), item)
                self._steps.limit(key[0].removeprefix(_PREFIX), item)
            if found is not None:
                stamp = world.stamp_of(region, key)
                self._rights(key[0].removeprefix(_PREFIX), found[1], key[1], region, stamp, item)
            return
        place = keys.counter_of(key[0])
        if place is None or not self.has(place[0]):
            return
        if item is None:
            self._deleted.add(key)
        elif "merged" not in item and not self._comes_too_late(world.stamp_of(region, key), key):
            self._entry(world, place[0], region, key, item)

    def _comes_too_late(self, stamp: Stamp, key: Key) -> bool:
        """Return whether an entry that a lost region wrote arrives after the others merged it.

        Under one key in two regions it may have come to something else there.
        """
        return key in self._deleted and stamp[1] in self._lost

    def changed(self, region: str, partition: str, items: Mapping[str, Item]) -> None:
        """Check what a step has changed."""
        if not self.limits:
            return
        for budget in sorted(self._dirty):
            self._check_budget(budget)
        self._dirty.clear()
        place = keys.counter_of(partition)
        if place is not None and self.has(place[0]):
            self._check_shown(region, partition, items)

    def _entry(self, world: Replicas, counter: str, region: str, key: Key, item: Item) -> None:
        stamp = world.stamp_of(region, key)
        shown = world.replicas[region].table.get(key)
        copy = copy_of(item, counter, stamp)
        here = self._here.setdefault((region, key[0]), {})
        self._regions.add(region)
        was_resolved = self._is_resolved(key)
        if shown is item or key[1] not in here:
            here[key[1]] = copy
        self._check_named(key, copy)
        self._under.setdefault(key, {})[copy.grants] = copy.amount
        if shown is not item:
            return
        if self._paid_by.setdefault(key, copy.paid_by) != copy.paid_by:
            self._doubled.add(key)
        before = self._best.get(key)
        if before is not None and before.stamp >= stamp:
            return
        is_undone = before is not None and was_resolved and before.state != copy.state
        if before is not None and is_undone and key not in self._doubled:
            self._fail("hold", f"{key} was {before.state}, and is {copy.state} by {stamp}")
        if not copy.resolved:
            self._held[key] = copy.amount
        self._note(copy.note, key)
        self._best[key] = copy
        for sign, one in ((-1, before), (1, copy)):
            if one is not None:
                self._count(one, sign)
        for budget, *_ in copy.grants:
            self._rolling.came_to(budget, key, copy.amount)

    def _is_resolved(self, key: Key) -> bool:
        """Return whether a region that is not lost shows a hold as resolved."""
        copies = (
            self._here.get((region, key[0]), {}).get(key[1])
            for region in self._regions
            if region not in self._lost
        )
        return any(copy is not None and copy.resolved for copy in copies)

    def _check_named(self, key: Key, copy: Copy) -> None:
        if copy.grants:
            return
        budgets = self.charges.let_through(key, copy)
        self._dirty.update(budgets)
        strict = {name.partition("@")[0] for name in budgets} - self._lets_through
        if strict or not budgets:
            said = f", though {min(strict)} lets nothing through" if strict else ""
            self._fail("grants", f"{key} names no grant{said}")

    def _note(self, note: str, key: Key) -> None:
        if self._notes.setdefault(note, key) != key:
            self._fail("once", f"{note} is {self._notes[note]} and {key}")
        if note in self._refused:
            self._fail("refused", f"{note} was refused, and is there: {key}")

    def _count(self, copy: Copy, sign: int) -> None:
        for budget, holder, version in copy.grants:
            amount = sign * copy.amount
            self._applied[budget] = self._applied.get(budget, _ZERO) + amount
            place = budget, holder
            self._named[place] = self._named.get(place, _ZERO) + amount
            grant = budget, holder, version
            self._by_grant[grant] = self._by_grant.get(grant, _ZERO) + amount
            self._dirty.add(budget)

    def _rights(
        self, budget: str, own: str, sort_key: str, region: str, stamp: Stamp, item: Item | None
    ) -> None:
        name = sort_key.removeprefix("rights#")
        if stamp[1] != own and not self._is_put_again(budget, own, name, item):
            self._fail("rights", f"{sort_key} of {budget} is written through {stamp[1]}")
        if region != own:
            if item is not None and region not in self._lost:
                shown = self._shown.get((budget, name), HolderItem())
                self._shown[budget, name] = max(shown, holder_of(item), key=_version)
            return
        holders = self._holders.setdefault(budget, {})
        before = holders.get(name, HolderItem())
        if item is None:
            self._fail("rights", f"{sort_key} of {budget} is deleted")
            return
        now = holder_of(item)
        follows = {before.version + 1} if before.version else {1, 2}  # made, and changed at once
        if now.version not in follows:
            said = f"version {now.version} follows {before.version}"
            self._fail("rights", f"{sort_key} of {budget}: {said}")
        for what in _GROWING:
            if shrunk := shrinks(getattr(before, what), getattr(now, what)):
                self._fail("rights", f"{sort_key} of {budget}: {what} goes back: {shrunk}")
        self.changes.raised(budget, name, before, now)
        holders[name] = self._versions[budget, name, now.version] = now
        if len(now.grants) > WAITING_MAX:
            self._crowded.add(budget)
        self._dirty.add(budget)

    def _is_put_again(self, budget: str, own: str, name: str, item: Item | None) -> bool:
        """Return whether an item is as its region, which is lost, once wrote it."""
        if item is None or own not in self._lost:
            return False
        again = holder_of(item)
        return self._versions.get((budget, name, again.version)) == again

    # What must hold.

    def _check_budget(self, budget: str) -> None:
        holders = self._holders.get(budget, {})
        over = self._settled_over(budget)
        debt = over + self.charges.most(budget) + owed_by_lost(self._remaining(budget))
        applied, limit = self._applied.get(budget, _ZERO), self._limit(budget)
        promised = self.changes.most_promised(budget)
        if self._rolling.keeps(budget):  # what was spent under a higher limit stays spent
            limit = self._most[budget] = max(limit, self._most.get(budget, limit))
            applied, promised = self._rolling.most(budget), None
        over += self._given_back_for_lost(budget)
        if applied > limit + over:
            said = f"{applied} are applied, of {limit}, and {over} over that"
            self._fail("limit", f"{budget}: {said}")
        if promised is not None and applied > promised + over:
            said = f"{applied} are applied, of {promised} to which it was lowered, and {over}"
            self._fail("lowered", f"{budget}: {said}")
        self.changes.check(budget, holders)
        for name in holders:
            self._check_holder(budget, name, holders, debt)
        for other, name in self._named:
            # What a lost region settled, and no region shows, others may settle in another way.
            if other == budget and not self._is_lost(name):
                self._check_charged(budget, name, holders.get(name, HolderItem()))

    def _limit(self, budget: str) -> Decimal:
        """Return what is minted of a budget, and not retired."""
        holders = self._holders.get(budget, {}).values()
        return sum((holder.minted - holder.retired for holder in holders), _ZERO)

    def _settled_over(self, budget: str) -> Decimal:
        """Return what holds of a budget came to more than was held, where they might.

        The most each ever did: of a key that was used in two regions another copy may win later,
        and the item that was charged stays so.
        """
        for key in self._over & self._held.keys():
            copy = self._best[key]
            if copy.resolved and any(named[0] == budget for named in copy.grants):
                more = max(_ZERO, copy.amount - self._held[key])
                self._more[budget, key] = max(more, self._more.get((budget, key), _ZERO))
        return sum((more for (name, _), more in self._more.items() if name == budget), _ZERO)

    def _given_back_for_lost(self, budget: str) -> Decimal:
        """Return what holds of a lost region gave those that remain, in place of a reclaim.

        It had given that back as well, and may have spent it, which no other region has seen.
        """
        found = _ZERO
        for name in self._holders.get(budget, {}) if self._lost else ():
            found += max(_ZERO, -settled_for_lost(budget, name, self._best, self._held))
        return found

    def _check_holder(
        self, budget: str, name: str, holders: Mapping[str, HolderItem], debt: Decimal
    ) -> None:
        one = holders[name]
        if one.available + debt < 0 and not self._is_lost(name):
            self._fail("rights", f"{budget}: {name} has {one.available} available")
        for giver, amount in one.taken.items():
            sent = holders.get(giver, HolderItem()).sent.get(name, _ZERO)
            if amount > sent:
                self._fail("rights", f"{budget}: {name} took {amount} of {sent} from {giver}")
        for version, granted in () if self._is_lost(name) else one.grants.items():
            named = self._by_grant.get((budget, name, version), _ZERO)
            if named > granted:
                said = f"{named} are spent under {version}, of {granted}"
                self._fail("grants", f"{budget}: {name}: {said}")

    def _check_charged(self, budget: str, name: str, one: HolderItem) -> None:
        named = self._named[budget, name] + (
            settled_for_lost(budget, name, self._best, self._held) if self._lost else _ZERO
        )
        if self._lost:
            named += self._credited_instead(budget, name)
        if named > one.charged + one.granted:
            said = f"{named} are spent, {one.charged} charged, {one.granted} granted"
            self._fail("charged", f"{budget}: {name}: {said}")

    def _credited_instead(self, budget: str, name: str) -> Decimal:
        """Return what a holder credited under keys that a lost region used, too.

        The lost copy is the newest, and may never arrive: then that of the holder stays.
        """
        found = _ZERO
        for key, copy in self._best.items():
            for grants, amount in self._under[key].items() if copy.stamp[1] in self._lost else ():
                is_its = any(grant[:2] == (budget, name) for grant in grants)
                found += min(_ZERO, amount) if is_its and grants != copy.grants else _ZERO
        return found

    def _check_shown(self, region: str, partition: str, items: Mapping[str, Item]) -> None:
        here = self._here.get((region, partition), {})
        expected = -sum((copy.amount for copy in here.values()), _ZERO)
        shown = shown_in(items)
        if shown != expected:
            said = f"{region} shows {partition} as {shown}, and {expected} has reached it"
            self._fail("P1", said)

    # What callers ask for, and are told.

    def may_exceed(self, key: Key) -> None:
        """Note that a hold may be settled for more than was held, and than there is."""
        self._over.add(key)

    def was_raised(self, budget: str, raise_id: str) -> None:
        """Check that a raise was made."""
        if not self.changes.is_raised(raise_id, budget):
            self._fail("raises", f"{budget} was raised for {raise_id!r}, and is not")

    def was_lowered(self, budget: str, most: Decimal) -> None:
        """Check that a limit is at most what its caller is told.

        What was minted again for a lost region is not more of it.
        """
        self.changes.lowered += 1
        again = minted_again(self._remaining(budget))
        if self._limit(budget) - again > most:
            self._fail("limit", f"{budget} is limited to {self._limit(budget)}, not to {most}")

    def was_granted(self, region: str, key: Key, note: str) -> None:
        """Check that a spend is durable in the region that grants it."""
        self.granted += 1
        if key[1] not in self._here.get((region, key[0]), {}):
            self._fail("P3", f"{region} grants {note}: {key} is not there")

    def was_refused(self, note: str) -> None:
        """Note a call, the only one of its note, of which nothing is written."""
        self.refusals += 1
        self._refused.add(note)
        if note in self._notes:
            self._fail("refused", f"{note} is refused, and is there: {self._notes[note]}")

    def was_resolved(self, key: Key, amount: Decimal, how: str) -> None:
        """Check that a hold has come to what its caller is told."""
        self.resolutions += 1
        best = self._best.get(key)
        if best is None or (best.state != (amount, how) and key not in self._doubled):
            said = "not there" if best is None else f"{best.state}"
            self._fail("hold", f"{key} is resolved as {how} for {amount}, and is {said}")

    # At rest.

    def applied(self, counter: str) -> Decimal:
        """Return what entries of a counter come to."""
        found = (copy.amount for key, copy in self._final.items() if _counter(key) == counter)
        return sum(found, _ZERO)

    @property
    def _final(self) -> Mapping[Key, Copy]:
        """The newest copy of each entry that any remaining region has got."""
        if not self._lost:
            return self._best
        found: dict[Key, Copy] = {}
        for (region, partition), copies in self._here.items():
            for sort_key, copy in copies.items() if region not in self._lost else ():
                key = partition, sort_key
                if key not in found or found[key].stamp < copy.stamp:
                    found[key] = copy
        return found

    def _is_lost(self, holder: str) -> bool:
        return holder.partition(".")[0] in self._lost

    @property
    def counters(self) -> list[str]:
        """Every counter that anything was spent from."""
        return sorted({_counter(key) for key in self._final})

    def open_at_rest(self, tables: Mapping[str, Mapping[str, Mapping[str, Item]]]) -> str:
        """Return what is still open, in flight or not merged; empty if nothing is."""
        for budget, everyone in self._holders.items():
            holders = {name: one for name, one in everyone.items() if not self._is_lost(name)}
            for name, one in holders.items():
                if one.grants:
                    return f"{budget}: {name} has grants {sorted(one.grants)} open"
                for giver, other in holders.items():
                    sent, taken = other.sent.get(name, _ZERO), one.taken.get(giver, _ZERO)
                    if sent != taken:
                        return f"{budget}: {sent} were sent to {name} by {giver}, {taken} taken"
        for region, partitions in tables.items():
            for _, partition in self._here:
                items = partitions.get(partition, {})
                left = [
                    sort_key
                    for sort_key, item in items.items()
                    if "merged" not in item
                    and not any(self._is_lost(name) for _, name, _ in grants_of(item, partition))
                ]
                if left:
                    return f"{region} {partition}: {len(left)} entries left, as {left[0]}"
        return ""

    def check_rest(self, tables: Mapping[str, Mapping[str, Mapping[str, Item]]]) -> None:
        """Check what must hold once everything has arrived, was closed and merged."""
        if said := self.open_at_rest(tables):
            self._fail("rest", said)
        self.check_reclaimed()
        named: dict[tuple[str, str], Decimal] = {}
        for copy in self._final.values():
            for other, name, _ in copy.grants:
                named[other, name] = named.get((other, name), _ZERO) + copy.amount
        for budget, holders in sorted(self._holders.items()):
            remaining = [name for name in holders if not self._is_lost(name)]
            charged = sum((holders[name].charged for name in remaining), _ZERO)
            applied = sum((named.get((budget, name), _ZERO) for name in remaining), _ZERO)
            applied += self._charged_for_lost(budget)
            least = applied + least_let_through(budget, self._final.values(), self._is_lost)
            most = (
                applied
                + self.charges.most(budget, self._is_lost)
                + (charged_twice(budget, self._under) if self._lost else _ZERO)
            )
            self._check_balance(budget)
            self.changes.check_rest(budget, self._limit(budget))
            self.changes.check_halves(budget, tables)
            if charged < least or (charged > most and budget not in self._crowded):
                said = f"{charged} charged at rest, {least} to {most} applied"
                self._fail("charged", f"{budget}: {said}")
        for region, partitions in tables.items():
            for counter in self.counters:
                shown = whole(partitions, counter)
                if shown != -self.applied(counter):
                    said = f"{region} shows {counter} as {shown}, applied: {self.applied(counter)}"
                    self._fail("P2", said)

    def _check_balance(self, budget: str) -> None:
        """Check that over the regions that are there no more is spent than limit and credits.

        Also where a region was lost with a credit that others had spent of.
        """
        if "@" in budget or self._rolling.keeps(budget):
            return
        entries = [
            copy.amount
            for copy in self._final.values()
            for named in copy.grants
            if named[0] == budget
        ]
        spent, most = sum(entries, _ZERO), self.changes.most(budget) + self._settled_over(budget)
        if spent > most:
            self._fail("balance", f"{budget}: {spent} are spent and not credited, of {most}")

    def _charged_for_lost(self, budget: str) -> Decimal:
        """Return what holders that remain are charged for one that is lost.

        What it spent more than it had, and what its holds came to more, or less, once others
        resolved them.
        """
        found = owed_by_lost(self._remaining(budget))
        for name in self._holders.get(budget, {}):
            if not self._is_lost(name):
                found += settled_for_lost(budget, name, self._final, self._held)
        return found

    def check_reclaimed(self) -> None:
        """Check that of a region that was lost no more was minted again than is unspent."""
        for budget in sorted(self._holders):
            remaining = self._remaining(budget)
            if not any(holder.reclaimed for holder in remaining):
                continue
            # What a lost region changed last, and no region shows, is as if it had never been.
            seen = {
                name: self._shown.get((budget, name), HolderItem())
                if self._is_lost(name)
                else holder
                for name, holder in self._holders[budget].items()
            }
            limit = self.changes.whole(budget, seen)
            # But for what others had of a raise that no region shows: the lost region owes it.
            unseen = self.changes.whole(budget, self._holders[budget]) - limit
            limit += min(max(_ZERO, unseen), owed_by_lost(remaining))
            applied = sum(
                (
                    copy.amount
                    for copy in self._final.values()
                    for named in copy.grants
                    if named[0] == budget
                ),
                _ZERO,
            )
            left = max(_ZERO, self.left(budget))
            if applied + left > limit + self._settled_over(budget) + self.charges.most(budget):
                said = f"{applied} are applied and {left} left, of {limit}"
                self._fail("reclaim", f"{budget}: {said}")

    def is_made(self, budget: str) -> bool:
        """Return whether a budget has rights anywhere; all who would have made it may crash."""
        return budget in self._holders

    def left(self, budget: str) -> Decimal:
        """Return what is left of a budget, once no grant is open; below 0 if more is charged.

        With what was sent to a region in which nothing was ever spent, and that has no item.
        """
        holders = self._holders.get(budget, {})
        unmade = (
            amount
            for holder in self._remaining(budget)
            for name, amount in holder.sent.items()
            if name not in holders and not self._is_lost(name)
        )
        return sum((holder.available for holder in self._remaining(budget)), sum(unmade, _ZERO))

    def is_owed(self, budget: str) -> bool:
        """Return whether a region is charged more than it had: until it is paid others have it."""
        return any(holder.available < 0 for holder in self._remaining(budget))

    def _remaining(self, budget: str) -> list[HolderItem]:
        holders = self._holders.get(budget, {})
        return [one for name, one in holders.items() if not self._is_lost(name)]


def _counter(key: Key) -> str:
    place = keys.counter_of(key[0])
    return "" if place is None else place[0]


def _version(holder: HolderItem) -> int:
    return holder.version
