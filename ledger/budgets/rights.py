"""The rights item: one region's part of a budget, with the grants that are open.

pk `~budget~COUNTER`, sk `rights#REGION.EPOCH/SHARD`; every number is an exact decimal:

| attribute | says |
|---|---|
| `version` | +1 in every write; each write is on condition of the version read |
| `minted`, `retired` | rights made and ended here |
| `sent`, `taken` | holder -> all that was ever sent to it, taken up from it |
| `charged` | what closed grants came to |
| `bucket` | of a rolling limit: how many seconds a bucket has (`rolling_limits`) |
| `buckets`, `returned` | bucket -> what it charged that has not come back, and what has |
| `grants` | version that made it -> [amount, from, expires, token] of each grant that is open |
| `adjusted` | version of an open grant -> what resolved holds of it came to more than was held |
| `released` | version of an open grant -> what was held by holds that another resolved |
| `held` | of what is charged, what open holds of closed grants keep; not of a rolling limit |
| `resolved` | id of a hold that was resolved of late -> [what was charged more for it, when] |
| `rate`, `want` | demand: spent a second, and wanted now |
| `cut` | holder of a lost region -> what had been taken up from it when nothing more was |
| `raises`, `reclaimed` | id of a raise, holder of a lost region -> what was minted for it |
| `raised` | id of a raise -> when it was made (`raise_ids`) |

`available` is what may still be granted or sent, always computed. `minted`, `retired`, `sent` and
`taken` only grow, so any old view of an item errs to the safe side: it shows less sent, and less to
take up. An item replicates whole, so each view of it is consistent in itself.

The item is written through its region's endpoint only; of a region that is lost a reclaim writes
the newest version again through home, as it is. It is never deleted while its counter can be spent
from: where it is absent it would be made again, with its share.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

from ledger.core import amounts, keys
from ledger.core.contract import Terms
from ledger.core.entry import AttributeValue, Item, Key, damaged, number_of
from ledger.core.errors import InvalidInput
from ledger.store.conditions import Absent, Condition, Equals
from ledger.store.writes import Put

RIGHTS_PREFIX = "rights#"
GRANTS_MAX = 400
"""How many grants an item may have open; about 30 fit in a write unit, 1 KB."""
RESOLVED_KEPT, RESOLVED_SECONDS = 32, 60
"""How many resolved holds an item names, and for how long, for a restore (`restore_plan`).

Of one that was resolved longer before the moment that is restored the entry has arrived, too,
unless it was on its way for so long. An id and its difference take some 60 bytes.
"""
NO_GRANT = 0
"""The version in the name of no grant: which holder would have paid is all that it says."""
NAMES_KEPT = 4096
"""Names of grants that are cached: of one collection's entries thousands share a few."""

_HOLDER = r"([^./#]+)\.([1-9][0-9]{0,5})/([0-9]{1,4})"
_HOLDER_FORM = re.compile(_HOLDER, flags=re.ASCII)
_NAME_FORM = re.compile(
    rf"({_HOLDER})/(0|[1-9][0-9]{{0,18}})(?:@(.+))?", flags=re.ASCII | re.DOTALL
)
_WHOLE = re.compile(r"[1-9][0-9]{0,18}", flags=re.ASCII)
_MADE_AND_CHANGED = 2
"""The version of an item that is made and changed by one write."""
_GRANT_PARTS = 4
"""Amount, times and token; of a grant of a bundle a fifth, the counter of its entries."""
_ZERO = Decimal(0)
_NOTHING: Mapping[Any, Decimal] = MappingProxyType({})
_NO_GRANTS: Mapping[int, "Grant"] = MappingProxyType({})
_NO_DIFFERENCES: Mapping[str, "LateCharge"] = MappingProxyType({})
K = TypeVar("K")


@dataclass(frozen=True, slots=True, order=True)
class Holder:
    """Whose rights: a region in one of its epochs (see `Terms.epoch_of`), and a shard of it."""

    region: str
    epoch: int = 1
    shard: int = 0

    def __str__(self) -> str:
        return f"{self.region}.{self.epoch}/{self.shard}"

    @staticmethod
    def parse(text: str) -> "Holder":
        """Return the holder of this name.

        Raises:
            ValueError: it is not REGION.EPOCH/SHARD.
        """
        found = _HOLDER_FORM.fullmatch(text)
        if found is None:
            raise ValueError(f"a holder is named REGION.EPOCH/SHARD, got {text[:60]!r}")
        return Holder(found[1], int(found[2]), int(found[3]))

    @property
    def sort_key(self) -> str:
        """The sort key of its rights item."""
        return f"{RIGHTS_PREFIX}{self}"


@dataclass(frozen=True, slots=True, order=True)
class GrantName:
    """A grant: the holder that made it, and the version of its item that did.

    So it is unique without randomness, and any replica can tell one that is closed from one that
    has not arrived (`Rights.shows_closed`). `budget` is the counter that it is a grant of, empty
    where that is the counter of the entry that names it: of several limits all but one are others'.
    Version `NO_GRANT` names none: the spend was let through.
    """

    holder: Holder
    version: int
    budget: str = ""

    def __str__(self) -> str:
        name = f"{self.holder}/{self.version}"
        return f"{name}@{self.budget}" if self.budget else name

    @staticmethod
    @lru_cache(NAMES_KEPT)
    def parse(text: str) -> "GrantName":
        """Return the grant of this name.

        Raises:
            ValueError: it is not REGION.EPOCH/SHARD/VERSION, or that and @COUNTER.
        """
        found = _NAME_FORM.fullmatch(text)
        if found is None:
            raise ValueError(f"a grant is named REGION.EPOCH/SHARD/VERSION, got {text[:60]!r}")
        return GrantName(Holder.parse(found[1]), int(found[5]), found[6] or "")


@dataclass(frozen=True, slots=True)
class Grant:
    """An amount that one process may spend; times in whole seconds since 1970, of AWS's clock.

    `token` is the owner's, by which a process that got no answer knows its grant again. No request
    that names the grant is signed after `expires`. `counter` is the one whose entries name it,
    empty for the budget's own; that of the narrowest limit, where an entry is paid for by several.
    """

    amount: Decimal
    since: int
    expires: int
    token: str
    counter: str = ""


@dataclass(frozen=True, slots=True)
class LateCharge:
    """By how much more than was held an item was charged for a hold, and when it was resolved.

    `amount` is below 0 if it was less, `at` in whole seconds since 1970, rounded down.
    """

    amount: Decimal
    at: int


@dataclass(frozen=True, slots=True)
class Rights:
    """What a rights item says; `version` 0 is that of an item that does not exist."""

    holder: Holder
    version: int = 0
    minted: Decimal = _ZERO
    retired: Decimal = _ZERO
    charged: Decimal = _ZERO
    bucket: int = 0
    buckets: Mapping[int, Decimal] = field(default_factory=lambda: _NOTHING)
    returned: Decimal = _ZERO
    sent: Mapping[Holder, Decimal] = field(default_factory=lambda: _NOTHING)
    taken: Mapping[Holder, Decimal] = field(default_factory=lambda: _NOTHING)
    grants: Mapping[int, Grant] = field(default_factory=lambda: _NO_GRANTS)
    adjusted: Mapping[int, Decimal] = field(default_factory=lambda: _NOTHING)
    released: Mapping[int, Decimal] = field(default_factory=lambda: _NOTHING)
    held: Decimal = _ZERO
    resolved: Mapping[str, LateCharge] = field(default_factory=lambda: _NO_DIFFERENCES)
    rate: Decimal = _ZERO
    want: Decimal = _ZERO
    cut: Mapping[Holder, Decimal] = field(default_factory=lambda: _NOTHING)
    raises: Mapping[str, Decimal] = field(default_factory=lambda: _NOTHING)
    raised: Mapping[str, Decimal] = field(default_factory=lambda: _NOTHING)
    reclaimed: Mapping[Holder, Decimal] = field(default_factory=lambda: _NOTHING)

    @property
    def granted(self) -> Decimal:
        """The sum of the open grants, with what was adjusted of them."""
        open_amounts = (grant.amount for grant in self.grants.values())
        return amounts.total_wide((*open_amounts, *self.adjusted.values()))

    @property
    def spent(self) -> Decimal:
        """What was charged, of a rolling limit without what has come back."""
        return amounts.total_wide((self.charged, self.returned.copy_negate()))

    @property
    def available(self) -> Decimal:
        """What may still be granted or sent; below 0 while more was charged than was granted."""
        income = amounts.total_wide((self.minted, *self.taken.values()))
        outgo = amounts.total_wide((self.retired, self.granted, self.spent, *self.sent.values()))
        return amounts.total_wide((income, outgo.copy_negate()))

    def shows_closed(self, version: int) -> bool:
        """Return whether this view of the item shows a grant as closed, and not as yet to come."""
        return self.version >= version and version not in self.grants


def holder_in(region: str, terms: Terms) -> Holder:
    """Return the holder of a region, in its epoch of now."""
    return Holder(region, terms.epoch_of(region))


def partition_of(counter: str) -> str:
    """Return the partition key of the control items of a counter's budget."""
    return f"{keys.BUDGET_PREFIX}{counter}"


def key_of(counter: str, holder: Holder) -> Key:
    """Return the key of a rights item."""
    return partition_of(counter), holder.sort_key


def rights_item(rights: Rights, counter: str) -> dict[str, AttributeValue]:
    """Return the item of rights; what is 0 or empty is left out.

    Raises:
        AmountOverflow: a sum does not fit in 38 digits.
    """
    item: dict[str, AttributeValue] = {
        "pk": {"S": partition_of(counter)},
        "sk": {"S": rights.holder.sort_key},
        "version": {"N": str(rights.version)},
    }
    if rights.bucket:
        item["bucket"] = {"N": str(rights.bucket)}
    for name in _NUMBERS:
        if number := getattr(rights, name):
            item[name] = _number(number)
    for name in _MAPS:
        if sums := getattr(rights, name):
            item[name] = {"M": {str(key): _number(sums[key]) for key in sorted(sums)}}
    if rights.grants:
        item["grants"] = {"M": {str(v): _rendered(rights.grants[v]) for v in sorted(rights.grants)}}
    if rights.resolved:
        by_entry = sorted(rights.resolved.items())
        item["resolved"] = {"M": {entry: _rendered_difference(one) for entry, one in by_entry}}
    return item


def rights_of(item: Item) -> Rights:
    """Return the rights that an item holds.

    Raises:
        DamagedItem: an attribute is missing or of another kind: nothing of it may be granted.
    """
    try:
        holder = Holder.parse(item["sk"]["S"].removeprefix(RIGHTS_PREFIX))
        numbers: dict[str, Any] = {name: number_of(item, name) for name in _NUMBERS if name in item}
        sums: dict[str, Any] = {name: _sums(item, name, read) for name, read in _MAPS.items()}
        return Rights(
            holder,
            version=_whole(item.get("version", {}).get("N")),
            bucket=_whole(item["bucket"]["N"]) if "bucket" in item else 0,
            grants={_whole(v): _grant(part) for v, part in _map(item, "grants").items()},
            resolved={entry: _difference(part) for entry, part in _map(item, "resolved").items()},
            **numbers,
            **sums,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(item, f"a rights item must be readable whole: {error}") from None


def expires_first(item: Item) -> int | None:
    """Return when the first of an item's grants expires, in seconds since 1970; None without any.

    Of grants that cannot be read 0.
    """
    try:
        return min((_grant(part).expires for part in _map(item, "grants").values()), default=None)
    except (KeyError, TypeError, ValueError):
        return 0


def is_in_flight(items: Iterable[Item], *, is_over: Callable[[Holder], bool]) -> bool:
    """Return whether rights that one of these items sent to another are not taken up yet.

    The taker may have no item so far. What was sent to a holder that was cut off, or is over,
    stays so. What cannot be read counts as in flight.
    """
    shown = {item["sk"]["S"].removeprefix(RIGHTS_PREFIX): item for item in items}
    try:
        for giver, item in shown.items():
            sent, cut = _map(item, "sent"), _map(item, "cut")
            for to in sent.keys() - cut.keys():
                taken = _map(shown[to], "taken").get(giver) if to in shown else None
                if taken != sent[to] and not is_over(Holder.parse(to)):
                    return True
    except (KeyError, TypeError, ValueError):
        return True
    return False


def is_rights(sort_key: str) -> bool:
    """Return whether an item of a budget's partition is a rights item."""
    return sort_key.startswith(RIGHTS_PREFIX)


def condition_of(before: Rights) -> Condition:
    """Return the condition of each write of an item: it is as it was read."""
    return Equals("version", {"N": str(before.version)}) if before.version else Absent()


def write_of(before: Rights, after: Rights, counter: str) -> Put:
    """Return the write of one change: the whole item, in place of the version that was read.

    Raises:
        InvalidInput: `after` is not the version that follows.
        AmountOverflow: a sum does not fit in 38 digits.
    """
    is_next = after.version == before.version + 1
    is_made = before.version == 0 and after.version == _MADE_AND_CHANGED
    if after.holder != before.holder or not (is_next or is_made):
        raise InvalidInput(
            f"version {after.version} of {after.holder} must follow version {before.version} of"
            f" {before.holder}"
        )
    return Put(rights_item(after, counter), condition_of(before))


def following(rights: Rights, **changes: Any) -> Rights:
    """Return the next version of an item.

    Raises:
        InvalidInput: there is no item yet.
    """
    if not rights.version:
        raise InvalidInput(f"the rights item of {rights.holder} must be made first, with its share")
    return replace(rights, version=rights.version + 1, **changes)


def added(sums: Mapping[K, Decimal], key: K, amount: Decimal) -> dict[K, Decimal]:
    """Return sums with an amount added to one of them.

    Raises:
        AmountOverflow: it does not fit in 38 digits.
    """
    return {**sums, key: amounts.total((sums.get(key, _ZERO), amount))}


def without(mapping: Mapping[int, Any], version: int) -> dict[int, Any]:
    """Return a mapping without the part of one grant."""
    return {key: value for key, value in mapping.items() if key != version}


def noted(
    resolved: Mapping[str, LateCharge], more: Mapping[str, LateCharge]
) -> Mapping[str, LateCharge]:
    """Return holds that were resolved of late, with more; of too many the oldest are left out."""
    new = {entry: difference for entry, difference in more.items() if difference.amount}
    if not new:
        return resolved
    last = max(difference.at for difference in new.values())
    kept = {**of_late(resolved, last), **new}
    oldest_first = sorted(kept.items(), key=lambda pair: pair[1].at)
    return dict(oldest_first[-RESOLVED_KEPT:])


def of_late(resolved: Mapping[str, LateCharge], now: int) -> Mapping[str, LateCharge]:
    """Return those of the last `RESOLVED_SECONDS`; `now` is in seconds since 1970."""
    return {entry: one for entry, one in resolved.items() if one.at > now - RESOLVED_SECONDS}


def _rendered(grant: Grant) -> AttributeValue:
    times = ({"N": str(grant.since)}, {"N": str(grant.expires)})
    counter = [{"S": grant.counter}] if grant.counter else []
    return {"L": [_number(grant.amount), *times, {"S": grant.token}, *counter]}


def _grant(part: AttributeValue) -> Grant:
    parts: Sequence[AttributeValue] = part["L"]
    if len(parts) not in {_GRANT_PARTS, _GRANT_PARTS + 1}:
        raise ValueError(
            f"a grant has {_GRANT_PARTS} or {_GRANT_PARTS + 1} parts, got {len(parts)}"
        )
    amount, since, expires = (number["N"] for number in parts[:3])
    texts = (str(text["S"]) for text in parts[3:])
    return Grant(amounts.parse(amount), int(since), int(expires), *texts)


def _rendered_difference(difference: LateCharge) -> AttributeValue:
    return {"L": [_number(difference.amount), {"N": str(difference.at)}]}


def _difference(part: AttributeValue) -> LateCharge:
    amount, at = (number["N"] for number in part["L"])
    return LateCharge(amounts.parse(amount), int(at))


def _number(number: Decimal) -> AttributeValue:
    return {"N": amounts.to_text(amounts.within_range(number))}


def _whole(text: object) -> int:
    if not isinstance(text, str) or not _WHOLE.fullmatch(text):
        raise ValueError(f"a version or bucket must be a whole number from 1, got {text!r:.60}")
    return int(text)


def _map(item: Item, name: str) -> Mapping[str, AttributeValue]:
    found = item.get(name, {"M": {}})["M"]
    if not isinstance(found, Mapping):
        raise TypeError(f"{name} must be a map (M)")
    return found


def _sums(item: Item, name: str, read: Callable[[str], Any]) -> dict[Any, Decimal]:
    return {read(key): amounts.parse(part["N"]) for key, part in _map(item, name).items()}


_NUMBERS = ("minted", "retired", "charged", "returned", "held", "rate", "want")
_MAPS: Mapping[str, Callable[[str], Any]] = {
    "sent": Holder.parse,
    "taken": Holder.parse,
    "adjusted": _whole,
    "released": _whole,
    "buckets": _whole,
    "cut": Holder.parse,
    "raises": str,
    "raised": str,
    "reclaimed": Holder.parse,
}
