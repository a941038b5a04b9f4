"""What must hold of budgets, over the union of all regions, judged by a decoding of its own.

An entry's copy that counts is the one of the newest stamp anywhere, also on its way: the last
writer wins. After every step, of each budget and each window:

- limit: what is applied comes to the limit at most; so does what all accounts minted;
- rights: a rights item is written through its own region only, one version after the other; what it
  minted, sent and took up only grows; `taken` is at most what the giver sent; `available` is 0 or
  more; what entries name of an account is at most what that charged and has granted;
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
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from ledger.core import keys
from ledger.core.entry import Item, Key
from ledger.testing.replicas import Replicas, Stamp

_RIGHTS = re.compile(r"rights#([^./#]+)\.(\d+)/(\d+)", flags=re.ASCII)
_PREFIX = "~budget~"
WAITING_MAX = 16
_ZERO = Decimal(0)
_GROWING = ("minted", "retired", "sent", "taken")


@dataclass(frozen=True, slots=True)
class Copy:
    """An entry as one write left it; `grants` are pairs of budget and account/version."""

    stamp: Stamp
    amount: Decimal
    note: str
    grants: tuple[tuple[str, str, int], ...]
    hold: bool
    resolved: str

    @property
    def state(self) -> tuple[Decimal, str]:
        """What it came to, and how."""
        return self.amount, self.resolved


@dataclass(frozen=True, slots=True)
class Account:
    """A rights item as its own region has it."""

    version: int = 0
    minted: Decimal = _ZERO
    retired: Decimal = _ZERO
    charged: Decimal = _ZERO
    sent: Mapping[str, Decimal] = field(default_factory=dict)
    taken: Mapping[str, Decimal] = field(default_factory=dict)
    grants: Mapping[int, Decimal] = field(default_factory=dict)

    @property
    def granted(self) -> Decimal:
        """The sum of what is granted, with what was adjusted."""
        return sum(self.grants.values(), _ZERO)

    @property
    def available(self) -> Decimal:
        """What may still be granted or sent."""
        income = self.minted + sum(self.taken.values(), _ZERO)
        return income - self.retired - sum(self.sent.values(), _ZERO) - self.granted - self.charged


class BudgetAudit:
    """Checks the budgets of one world; `fail` reports what is wrong, by rule."""

    def __init__(
        self,
        limits: Mapping[str, int],
        *,
        fail: Callable[[str, str], None],
        lost: AbstractSet[str] = frozenset(),
    ) -> None:
        self.limits = limits
        self._lost = lost
        self._fail = fail
        self._best: dict[Key, Copy] = {}
        self._here: dict[tuple[str, str], dict[str, Copy]] = {}
        self._applied: dict[str, Decimal] = {}
        self._named: dict[tuple[str, str], Decimal] = {}
        self._by_grant: dict[tuple[str, str, int], Decimal] = {}
        self._accounts: dict[str, dict[str, Account]] = {}
        self._dirty: set[str] = set()
        self._notes: dict[str, Key] = {}
        self._refused: set[str] = set()
        self._crowded: set[str] = set()
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
            if found is not None:
                stamp = world.stamp_of(region, key)
                self._rights(key[0].removeprefix(_PREFIX), found[1], key[1], region, stamp, item)
            return
        place = keys.counter_of(key[0])
        if place is None or not self.has(place[0]) or item is None or "merged" in item:
            return
        self._entry(world, place[0], region, key, item)

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
        copy = _copy(item, counter, stamp)
        here = self._here.setdefault((region, key[0]), {})
        if shown is item or key[1] not in here:
            here[key[1]] = copy
        if shown is not item:
            return
        before = self._best.get(key)
        if before is not None and before.stamp >= stamp:
            return
        if before is not None and before.grants != copy.grants:
            self._doubled.add(key)
        is_undone = before is not None and before.resolved and before.state != copy.state
        if before is not None and is_undone and key not in self._doubled:
            self._fail("hold", f"{key} was {before.state}, and is {copy.state} by {stamp}")
        if not copy.grants:
            self._fail("grants", f"{key} names no grant")
        self._note(copy.note, key)
        self._best[key] = copy
        for sign, one in ((-1, before), (1, copy)):
            if one is not None:
                self._count(one, sign)

    def _note(self, note: str, key: Key) -> None:
        if self._notes.setdefault(note, key) != key:
            self._fail("once", f"{note} is {self._notes[note]} and {key}")
        if note in self._refused:
            self._fail("refused", f"{note} was refused, and is there: {key}")

    def _count(self, copy: Copy, sign: int) -> None:
        for budget, account, version in copy.grants:
            amount = sign * copy.amount
            self._applied[budget] = self._applied.get(budget, _ZERO) + amount
            place = budget, account
            self._named[place] = self._named.get(place, _ZERO) + amount
            grant = budget, account, version
            self._by_grant[grant] = self._by_grant.get(grant, _ZERO) + amount
            self._dirty.add(budget)

    def _rights(
        self, budget: str, own: str, sort_key: str, region: str, stamp: Stamp, item: Item | None
    ) -> None:
        if stamp[1] != own:
            self._fail("rights", f"{sort_key} of {budget} is written through {stamp[1]}")
        if region != own:
            return
        name = sort_key.removeprefix("rights#")
        accounts = self._accounts.setdefault(budget, {})
        before = accounts.get(name, Account())
        if item is None:
            self._fail("rights", f"{sort_key} of {budget} is deleted")
            return
        now = _account(item)
        follows = {before.version + 1} if before.version else {1, 2}  # made, and changed at once
        if now.version not in follows:
            said = f"version {now.version} follows {before.version}"
            self._fail("rights", f"{sort_key} of {budget}: {said}")
        for what in _GROWING:
            if shrunk := _shrinks(getattr(before, what), getattr(now, what)):
                self._fail("rights", f"{sort_key} of {budget}: {what} goes back: {shrunk}")
        accounts[name] = now
        if len(now.grants) > WAITING_MAX:
            self._crowded.add(budget)
        self._dirty.add(budget)

    # What must hold.

    def _check_budget(self, budget: str) -> None:
        limit = self.limits[budget.partition("@")[0]]
        applied = self._applied.get(budget, _ZERO)
        if applied > limit:
            self._fail("limit", f"{budget}: {applied} are applied, of {limit}")
        accounts = self._accounts.get(budget, {})
        minted = sum((one.minted - one.retired for one in accounts.values()), _ZERO)
        if minted > limit:
            self._fail("limit", f"{budget}: {minted} are minted, of {limit}")
        for name in accounts:
            self._check_account(budget, name, accounts)
        for other, name in self._named:
            if other == budget:
                self._check_charged(budget, name, accounts.get(name, Account()))

    def _check_account(self, budget: str, name: str, accounts: Mapping[str, Account]) -> None:
        one = accounts[name]
        if one.available < 0:
            self._fail("rights", f"{budget}: {name} has {one.available} available")
        for giver, amount in one.taken.items():
            sent = accounts.get(giver, Account()).sent.get(name, _ZERO)
            if amount > sent:
                self._fail("rights", f"{budget}: {name} took {amount} of {sent} from {giver}")
        for version, granted in one.grants.items():
            named = self._by_grant.get((budget, name, version), _ZERO)
            if named > granted:
                said = f"{named} are spent under {version}, of {granted}"
                self._fail("grants", f"{budget}: {name}: {said}")

    def _check_charged(self, budget: str, name: str, one: Account) -> None:
        named = self._named[budget, name]
        if named > one.charged + one.granted:
            said = f"{named} are spent, {one.charged} charged, {one.granted} granted"
            self._fail("charged", f"{budget}: {name}: {said}")

    def _check_shown(self, region: str, partition: str, items: Mapping[str, Item]) -> None:
        here = self._here.get((region, partition), {})
        expected = -sum((copy.amount for copy in here.values()), _ZERO)
        shown = _shown(items)
        if shown != expected:
            said = f"{region} shows {partition} as {shown}, and {expected} has reached it"
            self._fail("P1", said)

    # What callers are told.

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

    def _is_lost(self, account: str) -> bool:
        return account.partition(".")[0] in self._lost

    @property
    def counters(self) -> list[str]:
        """Every counter that anything was spent from."""
        return sorted({_counter(key) for key in self._final})

    def open_at_rest(self, tables: Mapping[str, Mapping[str, Mapping[str, Item]]]) -> str:
        """Return what is still open, in flight or not merged; empty if nothing is."""
        for budget, everyone in self._accounts.items():
            accounts = {name: one for name, one in everyone.items() if not self._is_lost(name)}
            for name, one in accounts.items():
                if one.grants:
                    return f"{budget}: {name} has grants {sorted(one.grants)} open"
                for giver, other in accounts.items():
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
                    and not any(self._is_lost(name) for _, name, _ in _grants(item, partition))
                ]
                if left:
                    return f"{region} {partition}: {len(left)} entries left, as {left[0]}"
        return ""

    def check_rest(self, tables: Mapping[str, Mapping[str, Mapping[str, Item]]]) -> None:
        """Check what must hold once everything has arrived, was closed and merged."""
        if said := self.open_at_rest(tables):
            self._fail("rest", said)
        named: dict[tuple[str, str], Decimal] = {}
        for copy in self._final.values():
            for other, name, _ in copy.grants:
                named[other, name] = named.get((other, name), _ZERO) + copy.amount
        for budget, accounts in sorted(self._accounts.items()):
            remaining = [name for name in accounts if not self._is_lost(name)]
            charged = sum((accounts[name].charged for name in remaining), _ZERO)
            applied = sum((named.get((budget, name), _ZERO) for name in remaining), _ZERO)
            if charged < applied or (charged > applied and budget not in self._crowded):
                self._fail("charged", f"{budget}: {charged} charged at rest, {applied} applied")
        for region, partitions in tables.items():
            for counter in self.counters:
                shown = _whole(partitions, counter)
                if shown != -self.applied(counter):
                    said = f"{region} shows {counter} as {shown}, applied: {self.applied(counter)}"
                    self._fail("P2", said)

    def is_made(self, budget: str) -> bool:
        """Return whether a budget has rights anywhere; all who would have made it may crash."""
        return budget in self._accounts

    def left(self, budget: str) -> Decimal:
        """Return what is left of a budget."""
        return self.limits[budget] - self._applied.get(budget, _ZERO)


def _counter(key: Key) -> str:
    place = keys.counter_of(key[0])
    return "" if place is None else place[0]


def _whole(partitions: Mapping[str, Mapping[str, Item]], counter: str) -> Decimal:
    shown = _ZERO
    for partition, items in partitions.items():
        place = keys.counter_of(partition)
        if place is not None and place[0] == counter:
            shown += _shown(items)
    return shown


def _copy(item: Item, counter: str, stamp: Stamp) -> Copy:
    return Copy(
        stamp,
        -Decimal(item["change"]["N"]),
        item.get("note", {"S": ""})["S"],
        _grants(item, counter),
        "hold" in item,
        item.get("resolved", {"S": ""})["S"],
    )


def _grants(item: Item, counter: str) -> tuple[tuple[str, str, int], ...]:
    named = item.get("grant", {"L": []})
    names = [part["S"] for part in ([named] if "S" in named else named["L"])]
    return tuple(_grant(name, counter) for name in names)


def _grant(name: str, counter: str) -> tuple[str, str, int]:
    rest, _, budget = name.partition("@")
    account, _, version = rest.rpartition("/")
    return budget or counter, account, int(version)


def _account(item: Item) -> Account:
    adjusted = _sums(item, "adjusted")
    grants = {
        int(version): Decimal(part["L"][0]["N"]) + adjusted.get(version, _ZERO)
        for version, part in item.get("grants", {"M": {}})["M"].items()
    }
    return Account(
        int(item["version"]["N"]),
        _number(item, "minted"),
        _number(item, "retired"),
        _number(item, "charged"),
        _sums(item, "sent"),
        _sums(item, "taken"),
        grants,
    )


def _number(item: Item, name: str) -> Decimal:
    return Decimal(item[name]["N"]) if name in item else _ZERO


def _sums(item: Item, name: str) -> dict[str, Decimal]:
    return {key: Decimal(one["N"]) for key, one in item.get(name, {"M": {}})["M"].items()}


def _shrinks(before: object, now: object) -> str:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        less: Iterable[str] = (
            str(key) for key, amount in before.items() if now.get(key, _ZERO) < amount
        )
        return ", ".join(less)
    return "" if now >= before else f"{before} to {now}"  # type: ignore[operator]


def _shown(items: Mapping[str, Item]) -> Decimal:
    """Return a collection's total: of the nets the last counts, and what it does not name."""
    nets = [sort_key for sort_key, item in items.items() if "merged" in item]
    total, merged = _ZERO, frozenset[bytes]()
    if nets:
        net = items[max(nets)]
        packed = net["merged"]["B"]
        merged = frozenset(packed[at : at + 16] for at in range(0, len(packed), 16))
        total = Decimal(net["change"]["N"])
    for sort_key, item in items.items():
        if "merged" not in item and _pack(sort_key) not in merged:
            total += Decimal(item["change"]["N"])
    return total


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _pack(sort_key: str) -> bytes:
    """Return the 16 bytes that stand for an entry in `merged`."""
    since = datetime.fromisoformat(f"{sort_key[:26]}+00:00") - _EPOCH
    microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return microseconds.to_bytes(8, "big") + bytes.fromhex(sort_key[28:])
